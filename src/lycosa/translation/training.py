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
import sqlite3
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import polars as pl
from xxhash import xxh3_64_intdigest, xxh3_128

from lycosa.core.units import number_of
from lycosa.store.tables.live import LiveTables
from lycosa.text.analyze import Analysis
from lycosa.translation.align import aligned
from lycosa.translation.parallel_pages import ParallelPages, find_parallel, page_keys, page_texts
from lycosa.translation.table import FORMAT, TableInfo, analyzers, write_table
from lycosa.translation.terms import TranslationTerm, terms
from lycosa.translation.word_alignment import LEARNER_VERSION, MAX_SENTENCES, learn

MIN_SENTENCES = 200
"""Minimum number of sentence pairs for training; fewer give tables of chance."""

_RECORDS = "training.json"
_RECORDS_FORMAT = 1
_TEXTS = ".texts.sqlite"
_BLOCK = 1 << 20


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

    Keys are by `analysis`. The texts are compressed on disk meanwhile.

    Args:
        tables: the pages and links.
        folder: for the tables.
        analysis: makes the keys.
        before: the folder of the previous generation; unchanged tables are reused.

    Raises:
        FileNotFoundError: a table's file went away: refresh the tables and try again.
    """
    parallel = find_parallel(tables)
    digests = _input_digests(tables, parallel, analysis)
    records: dict[str, TrainingRecord] = {}
    for language, record in _read_records(before).items():
        name = table_name(parallel.hub, language)
        if before is None or record.source != digests.get(language):
            continue
        if not record.table or _reuse_table(before / name, folder / name, record):
            records[language] = record
    changed = sorted(digests.keys() - records.keys())
    if changed:
        pairs = parallel.pairs.filter(pl.col("language").is_in(changed))
        with _stored_texts(tables, pairs, folder / _TEXTS) as texts:
            for language in changed:
                path = folder / table_name(parallel.hub, language)
                of_language = pairs.filter(pl.col("language") == language)
                sentences, words = _train_table(
                    texts, of_language, parallel.hub, language, path, analysis
                )
                digest = _file_digest(path) if words else ""
                records[language] = TrainingRecord(
                    digests[language], digest, of_language.height, sentences, words
                )
    _write_records(folder, records)
    return sum(record.pairs > 0 for record in records.values())


@contextmanager
def _stored_texts(
    tables: LiveTables, pairs: pl.DataFrame, path: Path
) -> Iterator[sqlite3.Connection]:
    """Store the texts of pages in a file, compressed, while the context is open."""
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as texts:
            texts.execute("PRAGMA journal_mode = OFF")
            texts.execute("PRAGMA synchronous = OFF")
            texts.execute(
                "CREATE TABLE texts (host TEXT, url TEXT, text BLOB, PRIMARY KEY (host, "
                "url)) WITHOUT ROWID"
            )
            texts.execute("BEGIN")
            texts.executemany(
                "INSERT OR REPLACE INTO texts VALUES (?, ?, ?)",
                (
                    (f"{host:x}", f"{url:x}", zlib.compress(text.encode("utf-8", "replace"), 1))
                    for host, url, text in page_texts(tables, page_keys(pairs))
                ),
            )
            texts.execute("COMMIT")
            yield texts
    finally:
        path.unlink(missing_ok=True)


def _train_table(
    texts: sqlite3.Connection,
    pairs: pl.DataFrame,
    hub: str,
    language: str,
    path: Path,
    analysis: Analysis,
) -> tuple[int, int]:
    """Write the table of a language; return its numbers of sentence pairs and of word pairs.

    Too little text gives no pairs of words, and no table.
    """
    one, other = analysis.of(hub), analysis.of(language)

    def sentences() -> Iterator[tuple[list[TranslationTerm], list[TranslationTerm]]]:
        seen: set[int] = set()
        for host, url, _, hub_host, hub_url in pairs.iter_rows():
            here, there = _text(texts, hub_host, hub_url), _text(texts, host, url)
            for piece, its in aligned(here, there, hub, language):
                key = hash((piece, its))
                if key not in seen:  # text that all pages of a site repeat counts once
                    seen.add(key)
                    yield terms(one, piece), terms(other, its)
                    if len(seen) >= MAX_SENTENCES:
                        return

    learned = learn(sentences())
    if learned.sentences < MIN_SENTENCES or not learned.pairs:
        return learned.sentences, 0
    info = TableInfo(
        f"crawl-{hub}-{language}",
        "crawl",
        hub,
        language,
        len(learned.pairs),
        analyzers(hub, language, analysis),
        f"{number_of(pairs.height, 'page')} of the crawl, "
        f"{number_of(learned.sentences, 'sentence')}",
    )
    write_table(
        path,
        info,
        learned.pairs,
        learned.source_surfaces,
        learned.target_surfaces,
    )
    return learned.sentences, len(learned.pairs)


def _text(texts: sqlite3.Connection, host: int, url: int) -> str:
    row = texts.execute(
        "SELECT text FROM texts WHERE host = ? AND url = ?", (f"{host:x}", f"{url:x}")
    ).fetchone()
    return zlib.decompress(row[0]).decode() if row else ""


def _input_digests(
    tables: LiveTables, parallel: ParallelPages, analysis: Analysis
) -> dict[str, str]:
    """Return for each language the digest of its input: pairs, texts, analyzers, learner, format.
    Memory: 100 bytes a page.

    Raises:
        FileNotFoundError: a table's file went away: refresh the tables and try again.
    """
    text_digests = {
        (host, url): xxh3_64_intdigest(text.encode("utf-8", "replace"))
        for host, url, text in page_texts(tables, page_keys(parallel.pairs))
    }
    digests = {}
    for (language,), pairs in parallel.pairs.group_by("language"):
        made_by = (
            FORMAT,
            LEARNER_VERSION,
            parallel.hub,
            *analyzers(parallel.hub, str(language), analysis),
        )
        digest = xxh3_128(json.dumps(made_by).encode())
        for host, url, _, hub_host, hub_url in pairs.sort(pl.all()).iter_rows():
            row = (
                host,
                url,
                hub_host,
                hub_url,
                text_digests.get((host, url), 0),
                text_digests.get((hub_host, hub_url), 0),
            )
            digest.update(b"".join(number.to_bytes(8, "little") for number in row))
        digests[str(language)] = digest.hexdigest()
    return digests


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
    digest = xxh3_128(b"")
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
