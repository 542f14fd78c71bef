"""Tables of translations that the crawl itself teaches: its pages in several languages, aligned and learned from.

translations-en-de.sqlite   one for each language that has enough of them beside the hub's (`lycosa.text.translation.table`)
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from lycosa.graph.parallel import find_parallel, texts, wanted_keys
from lycosa.store.live import LiveTables
from lycosa.text.analyze import analyzer_for
from lycosa.text.translation.align import aligned
from lycosa.text.translation.learner import MOST_SENTENCES, learn
from lycosa.text.translation.table import TableInfo, analyzers, write_table
from lycosa.text.translation.terms import Term, terms

LEAST_SENTENCES = 200
"""Pairs of sentences without which a language is not learned: what fewer teach is chance."""
_TEXTS = ".texts.sqlite"


@dataclass(slots=True, frozen=True)
class Taught:
    """What was learned of a language: pairs of pages, of sentences, of words."""

    language: str
    pages: int
    sentences: int
    pairs: int


def table_name(hub: str, language: str) -> str:
    return f"translations-{hub}-{language}.sqlite"


def teach(tables: LiveTables, folder: Path) -> list[Taught]:
    """Write a table for each language with enough translated pages into a folder. Texts wait on disk, compressed.

    Raises:
        FileNotFoundError: a table's file went away: refresh the tables and try again.
    """
    parallel = find_parallel(tables)
    languages = parallel.pairs.group_by("language").len().sort("language")
    found: list[Taught] = []
    if not languages.height:
        return found
    waiting = folder / _TEXTS
    try:
        with closing(sqlite3.connect(waiting, isolation_level=None)) as kept:
            kept.execute("PRAGMA journal_mode = OFF")
            kept.execute("PRAGMA synchronous = OFF")
            kept.execute("CREATE TABLE texts (host TEXT, url TEXT, text BLOB, PRIMARY KEY (host, url)) WITHOUT ROWID")
            rows = texts(tables, wanted_keys(parallel.pairs))
            kept.execute("BEGIN")
            kept.executemany(
                "INSERT OR REPLACE INTO texts VALUES (?, ?, ?)",
                ((f"{host:x}", f"{url:x}", zlib.compress(text.encode("utf-8", "replace"), 1)) for host, url, text in rows),
            )
            kept.execute("COMMIT")
            for language, pages in languages.iter_rows():
                pairs = parallel.pairs.filter(pl.col("language") == language)
                taught = _teach_one(kept, pairs, parallel.hub, str(language), int(pages), folder)
                if taught is not None:
                    found.append(taught)
    finally:
        waiting.unlink(missing_ok=True)
    return found


def _teach_one(kept: sqlite3.Connection, pairs: pl.DataFrame, hub: str, language: str, pages: int, folder: Path) -> Taught | None:
    one, other = analyzer_for(hub), analyzer_for(language)

    def sentences() -> Iterator[tuple[list[Term], list[Term]]]:
        seen: set[int] = set()
        for host, url, _, hub_host, hub_url in pairs.iter_rows():
            here, there = _text(kept, hub_host, hub_url), _text(kept, host, url)
            for piece, its in aligned(here, there, hub, language):
                key = hash((piece, its))
                if key not in seen:  # what stands on every page of a site teaches once
                    seen.add(key)
                    yield terms(one, piece), terms(other, its)
                    if len(seen) >= MOST_SENTENCES:
                        return

    learned = learn(sentences())
    if learned.sentences < LEAST_SENTENCES or not learned.pairs:
        return None
    told = f"{pages:,} pages of the crawl, {learned.sentences:,} sentences"
    info = TableInfo(f"crawl-{hub}-{language}", "crawl", hub, language, len(learned.pairs), analyzers(hub, language), told)
    write_table(folder / table_name(hub, language), info, learned.pairs, learned.source_surfaces, learned.target_surfaces)
    return Taught(language, pages, learned.sentences, len(learned.pairs))


def _text(kept: sqlite3.Connection, host: int, url: int) -> str:
    row = kept.execute("SELECT text FROM texts WHERE host = ? AND url = ?", (f"{host:x}", f"{url:x}")).fetchone()
    return zlib.decompress(row[0]).decode() if row else ""
