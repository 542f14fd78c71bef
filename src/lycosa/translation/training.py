"""Train translation tables from the pages of the crawl that exist in several languages.

translations-en-de.sqlite   one for each language with enough translated pages
(`lycosa.translation.table`)

The table of a language whose pages did not change is reused
(`lycosa.translation.training_records`).
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from lycosa.core.units import number_of
from lycosa.store.tables.live import LiveTables
from lycosa.text.analyze import Analysis
from lycosa.translation.align import aligned
from lycosa.translation.parallel_pages import ParallelPages, find_parallel, texts, wanted_keys
from lycosa.translation.table import TableInfo, analyzers, write_table
from lycosa.translation.terms import TranslationTerm, terms
from lycosa.translation.training_records import (
    TrainingRecord,
    file_digest,
    read_training_records,
    reuse_table,
    sources,
    write_training_records,
)
from lycosa.translation.word_alignment import MAX_SENTENCES, learn

MIN_SENTENCES = 200
"""Minimum number of sentence pairs for training; fewer give tables of chance."""
_TEXTS = ".texts.sqlite"


@dataclass(slots=True, frozen=True)
class TrainedLanguage:
    """The result for one language: pairs of pages, of sentences, of words. `reused`: trained for
    the previous generation.
    """

    language: str
    pages: int
    sentences: int
    pairs: int
    reused: bool = False


def table_name(hub: str, language: str) -> str:
    return f"translations-{hub}-{language}.sqlite"


def train_tables(
    tables: LiveTables, folder: Path, analysis: Analysis = Analysis(), before: Path | None = None
) -> list[TrainedLanguage]:
    """Write a table for each language with enough translated pages into a folder, with keys by
    `analysis`. Texts wait on disk, compressed.

    `before`: the folder of the previous generation; unchanged tables are reused.

    Raises:
        FileNotFoundError: a table's file went away: refresh the tables and try again.
    """
    parallel = find_parallel(tables)
    counts = {
        str(language): int(pages)
        for language, pages in parallel.pairs.group_by("language")
        .len()
        .sort("language")
        .iter_rows()
    }
    now = sources(tables, parallel, analysis)
    known = read_training_records(before)
    found: dict[str, TrainedLanguage] = {}
    learned: dict[str, TrainingRecord] = {}
    for language, pages in counts.items():
        lesson = known.get(language)
        if lesson is None or before is None or lesson.source != now[language]:
            continue
        name = table_name(parallel.hub, language)
        if not lesson.table or reuse_table(before / name, folder / name, lesson):
            learned[language] = lesson
            found[language] = TrainedLanguage(
                language, pages, lesson.sentences, lesson.pairs, reused=True
            )
    anew = [language for language in counts if language not in learned]
    for taught in _learn(tables, parallel, anew, folder, analysis):
        found[taught.language] = taught
        path = folder / table_name(parallel.hub, taught.language)
        table = file_digest(path) if taught.pairs else ""
        learned[taught.language] = TrainingRecord(
            now[taught.language], table, taught.pages, taught.sentences, taught.pairs
        )
    write_training_records(folder, learned)
    return [found[language] for language in counts if found[language].pairs]


def _learn(
    tables: LiveTables,
    parallel: ParallelPages,
    languages: Sequence[str],
    folder: Path,
    analysis: Analysis,
) -> Iterator[TrainedLanguage]:
    """Train the languages. Too little text gives no pairs of words, and no table."""
    if not languages:
        return
    wanted = parallel.pairs.filter(pl.col("language").is_in(languages))
    waiting = folder / _TEXTS
    try:
        with closing(sqlite3.connect(waiting, isolation_level=None)) as kept:
            kept.execute("PRAGMA journal_mode = OFF")
            kept.execute("PRAGMA synchronous = OFF")
            kept.execute(
                "CREATE TABLE texts (host TEXT, url TEXT, text BLOB, PRIMARY KEY (host, "
                "url)) WITHOUT ROWID"
            )
            rows = texts(tables, wanted_keys(wanted))
            kept.execute("BEGIN")
            kept.executemany(
                "INSERT OR REPLACE INTO texts VALUES (?, ?, ?)",
                (
                    (f"{host:x}", f"{url:x}", zlib.compress(text.encode("utf-8", "replace"), 1))
                    for host, url, text in rows
                ),
            )
            kept.execute("COMMIT")
            for language in languages:
                yield _teach_one(
                    kept,
                    wanted.filter(pl.col("language") == language),
                    parallel.hub,
                    language,
                    folder,
                    analysis,
                )
    finally:
        waiting.unlink(missing_ok=True)


def _teach_one(
    kept: sqlite3.Connection,
    pairs: pl.DataFrame,
    hub: str,
    language: str,
    folder: Path,
    analysis: Analysis,
) -> TrainedLanguage:
    one, other = analysis.of(hub), analysis.of(language)

    def sentences() -> Iterator[tuple[list[TranslationTerm], list[TranslationTerm]]]:
        seen: set[int] = set()
        for host, url, _, hub_host, hub_url in pairs.iter_rows():
            here, there = _text(kept, hub_host, hub_url), _text(kept, host, url)
            for piece, its in aligned(here, there, hub, language):
                key = hash((piece, its))
                if key not in seen:  # texts that all pages of a site repeat count once
                    seen.add(key)
                    yield terms(one, piece), terms(other, its)
                    if len(seen) >= MAX_SENTENCES:
                        return

    learned = learn(sentences())
    if learned.sentences < MIN_SENTENCES or not learned.pairs:
        return TrainedLanguage(language, pairs.height, learned.sentences, 0)
    told = (
        f"{number_of(pairs.height, 'page')} of the crawl, "
        f"{number_of(learned.sentences, 'sentence')}"
    )
    info = TableInfo(
        f"crawl-{hub}-{language}",
        "crawl",
        hub,
        language,
        len(learned.pairs),
        analyzers(hub, language, analysis),
        told,
    )
    write_table(
        folder / table_name(hub, language),
        info,
        learned.pairs,
        learned.source_surfaces,
        learned.target_surfaces,
    )
    return TrainedLanguage(language, pairs.height, learned.sentences, len(learned.pairs))


def _text(kept: sqlite3.Connection, host: int, url: int) -> str:
    row = kept.execute(
        "SELECT text FROM texts WHERE host = ? AND url = ?", (f"{host:x}", f"{url:x}")
    ).fetchone()
    return zlib.decompress(row[0]).decode() if row else ""
