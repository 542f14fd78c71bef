"""Train translation tables from the pages of the crawl that exist in several languages.

    translations-en-de.sqlite  a table for each language with enough translated pages
    training.json              format, and for each language a digest of its input, and the result

A table is a function of the pairs of pages, their texts, and the program; the digest covers all
three. A table is reused only if all its pages still exist with the same text, so that no table
contains purged or excluded pages.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import polars as pl
from xxhash import xxh3_128

from lycosa.core.units import number_of
from lycosa.store.tables.live import LiveTables
from lycosa.text.analyze import Analysis
from lycosa.translation.align import aligned
from lycosa.translation.parallel_pages import KEYS, find_parallel, texts_of_pairs
from lycosa.translation.table import FORMAT, TableInfo, analyzers, write_table
from lycosa.translation.terms import Vocabulary
from lycosa.translation.word_alignment import LEARNER_VERSION, learn, shortest_first

MIN_SENTENCES = 200
"""Minimum number of sentence pairs for training; fewer give tables of chance."""

MAX_SENTENCES = 12_000
MAX_LINKS = 2_000_000
"""Maximum sentence pairs, and pairs of words in them, per language (decision 28)."""

_RECORDS = "training.json"
_RECORDS_FORMAT = 1


@dataclass(slots=True, frozen=True)
class TrainingRecord:
    """The training of one language.

    `source`, `table`: digests of the input and of the table's file ("": too little text). `pages`,
    `sentences`, `pairs`: numbers of pairs of pages, sentences and words.
    """

    source: str
    table: str
    pages: int
    sentences: int
    pairs: int


def table_name(hub: str, language: str) -> str:
    return f"translations-{hub}-{language}.sqlite"


def train_tables(
    tables: LiveTables, folder: Path, analysis: Analysis = Analysis(), before: Path | None = None
) -> int:
    """Write a table for each language with enough translated pages; return their number.

    Keys are by `analysis`. The texts are in temporary files meanwhile.

    Args:
        tables: the pages and links.
        folder: for the tables.
        analysis: makes the keys.
        before: the folder of the previous generation; unchanged tables are reused.

    Raises:
        FileNotFoundError: a table's file was deleted: refresh the tables and try again.
    """
    parallel = find_parallel(tables)
    old_records = _read_records(before)
    records: dict[str, TrainingRecord] = {}
    hub = Vocabulary(analysis.of(parallel.hub))  # all languages share its words
    with tempfile.TemporaryDirectory(prefix=".texts-", dir=folder) as work:
        pages = texts_of_pairs(tables, parallel.pairs, Path(work))
        for language in pages["language"].unique().sort():
            of_language = pages.filter(pl.col("language") == language)
            path = folder / table_name(parallel.hub, language)
            digest = _input_digest(of_language, analyzers(parallel.hub, language, analysis))
            old = old_records.get(language)
            if (before and old and old.source == digest) and (
                not old.table or _reuse_table(before / path.name, path, old)
            ):
                records[language] = old
                continue
            sentences, words = _train_table(of_language, hub, language, path, analysis)
            table = _file_digest(path) if words else ""
            records[language] = TrainingRecord(digest, table, of_language.height, sentences, words)
    _write_records(folder, records)
    return sum(record.pairs > 0 for record in records.values())


def _train_table(
    pages: pl.DataFrame, hub: Vocabulary, language: str, path: Path, analysis: Analysis
) -> tuple[int, int]:
    """Write the table of a language; return its numbers of sentence pairs and of word pairs.

    Too little text gives no pairs of words, and no table.

    Args:
        pages: columns `hub_text` and `text`.
        hub: the words of the hub's language.
    """
    pieces = (
        pair
        for here, there in pages.select("hub_text", "text").iter_rows()
        for pair in aligned(here, there, hub.language, language)
    )
    learned = learn(
        shortest_first(pieces, MAX_SENTENCES), hub, Vocabulary(analysis.of(language)), MAX_LINKS
    )
    if learned.sentences < MIN_SENTENCES or not learned.pairs:
        return learned.sentences, 0
    info = TableInfo(
        f"crawl-{hub.language}-{language}",
        "crawl",
        hub.language,
        language,
        len(learned.pairs),
        analyzers(hub.language, language, analysis),
        f"{number_of(pages.height, 'page')} of the crawl, "
        f"{number_of(learned.sentences, 'sentence')}",
    )
    write_table(path, info, learned.pairs, learned.source_surfaces, learned.target_surfaces)
    return learned.sentences, len(learned.pairs)


def _input_digest(pages: pl.DataFrame, used_analyzers: tuple[str, str]) -> str:
    """Return the digest of a table's input: pairs, texts, analyzers, learner, format."""
    digest = xxh3_128(json.dumps((FORMAT, LEARNER_VERSION, *used_analyzers)).encode())
    texts = pl.col("hub_text", "text").hash()
    digest.update(pages.select(*KEYS, texts).to_numpy().tobytes())
    return digest.hexdigest()


def _read_records(folder: Path | None) -> dict[str, TrainingRecord]:
    """Return the records of a generation by language; none if they cannot be read."""
    if folder is None:
        return {}
    try:
        document: dict[str, Any] = json.loads((folder / _RECORDS).read_bytes())
        languages = document["languages"] if document["format"] == _RECORDS_FORMAT else {}
        return {language: TrainingRecord(**values) for language, values in languages.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _write_records(folder: Path, records: Mapping[str, TrainingRecord]) -> None:
    document = {
        "format": _RECORDS_FORMAT,
        "languages": {language: asdict(record) for language, record in sorted(records.items())},
    }
    (folder / _RECORDS).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _reuse_table(source: Path, target: Path, record: TrainingRecord) -> bool:
    """Copy a table of the previous generation; return False if it is missing or damaged."""
    try:
        shutil.copyfile(source, target)
    except OSError:
        return False
    if _file_digest(target) == record.table:
        return True
    target.unlink()
    return False


def _file_digest(path: Path) -> str:
    """Return xxh3_128 of a file's bytes."""
    return xxh3_128(path.read_bytes()).hexdigest()
