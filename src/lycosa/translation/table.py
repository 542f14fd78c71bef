"""A translation table in an SQLite file, for both directions; a look-up reads a page or two.

about    key, value: `TableInfo`
pairs    source, target, weight: keys of `translation.terms`
written  side (0 source, 1 target), key, surface: the usual spelling of a key
sounds   side, sound, key: keys of single words by pronunciation
"""

from __future__ import annotations

import functools
import json
import sqlite3
import threading
import weakref
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from anyascii import anyascii

from lycosa.core.dataclass import dataclass
from lycosa.core.errors import WorkspaceError
from lycosa.text.analyze import Analysis, analysis_by
from lycosa.translation.source import MAX_TRANSLATIONS, Translation

FORMAT = 1
MAX_RESEMBLING = 3
SOUND_WEIGHT = 0.5  # of a word with a similar sound
MIN_LETTERS = 4  # of a word; shorter ones resemble too many
MIN_LIKENESS = 0.5  # share of common trigrams (Dice)
BEGINNING = 3  # letters that compared words have in common
_MAX_COMPARED = 2_000
_MAX_CACHED = 4_096

_SCHEMA = """
CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE pairs (
    source TEXT, target TEXT, weight REAL, PRIMARY KEY (source, target)
) WITHOUT ROWID;
CREATE TABLE written (side INTEGER, key TEXT, surface TEXT, PRIMARY KEY (side, key)) WITHOUT ROWID;
CREATE TABLE sounds (
    side INTEGER, sound TEXT, key TEXT, PRIMARY KEY (side, sound, key)
) WITHOUT ROWID;
"""
_LOOKUP = tuple(
    f"SELECT pairs.{there}, weight, surface FROM pairs LEFT JOIN written ON side = {side} AND key "
    f"= pairs.{there} "
    f"WHERE pairs.{here} = ? ORDER BY weight DESC, pairs.{there} LIMIT {MAX_TRANSLATIONS}"
    for here, there, side in (("source", "target", 1), ("target", "source", 0))
)
_NEAR = tuple(
    f"SELECT DISTINCT {here} FROM pairs WHERE {here} >= ? AND {here} < ? LIMIT {_MAX_COMPARED}"
    for here in ("source", "target")
)
_SOUNDS = (
    "SELECT sounds.key, sound, surface FROM sounds LEFT JOIN written ON written.side = "
    "sounds.side AND written.key = sounds.key "
    f"WHERE sounds.side = ? AND sound >= ? AND sound < ? LIMIT {_MAX_COMPARED}"
)


@dataclass(slots=True, frozen=True)
class TableInfo:
    """About a table.

    `kind`: dictionary, learned or crawl. `analyzers`: those of its keys, with their versions.
    `provenance`: source, author and licence, or the number of sentences it was learned from.
    """

    name: str
    kind: str
    source: str
    target: str
    pairs: int
    analyzers: tuple[str, str]
    provenance: str = ""
    format: int = FORMAT

    @property
    def current(self) -> bool:
        """Whether its keys are those of the current analyzers; else it must be created again.

        Raises:
            UsageError: an analyzer needs a package that is not installed.
        """
        analysis = analysis_by(name.partition(" ")[0] for name in self.analyzers)
        return self.format == FORMAT and self.analyzers == analyzers(
            self.source, self.target, analysis
        )


def analyzers(source: str, target: str, analysis: Analysis = Analysis()) -> tuple[str, str]:
    """Return the analyzers of two languages with their versions.

    Raises:
        UsageError: one needs a package that is not installed.
    """
    one, other = analysis.of(source), analysis.of(target)
    return f"{one.name} {one.version}", f"{other.name} {other.version}"


def write_table(
    path: Path,
    info: TableInfo,
    pairs: Iterable[tuple[str, str, float]],
    source_surfaces: Mapping[str, str],
    target_surfaces: Mapping[str, str],
) -> None:
    """Write a table to a new file, deterministically; of equal pairs the heaviest counts."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = OFF")
        database.execute("PRAGMA synchronous = OFF")
        database.executescript(_SCHEMA)
        database.execute("BEGIN")
        database.executemany(
            "INSERT INTO pairs VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET weight = max(weight, "
            "excluded.weight)",
            sorted(pairs),
        )
        for side, surfaces in ((0, source_surfaces), (1, target_surfaces)):
            ordered = sorted(surfaces.items())
            database.executemany(
                "INSERT INTO written VALUES (?, ?, ?)",
                ((side, key, surface) for key, surface in ordered),
            )
            sounds = (
                (side, own_sound, key)
                for key, _ in ordered
                if " " not in key and (own_sound := sound(key))
            )
            database.executemany("INSERT INTO sounds VALUES (?, ?, ?)", sounds)
        database.execute("CREATE INDEX backwards ON pairs (target, source, weight)")
        (count,) = database.execute("SELECT count(*) FROM pairs").fetchone()
        described = asdict(info) | {"pairs": count}
        database.executemany(
            "INSERT INTO about VALUES (?, ?)",
            ((key, json.dumps(value)) for key, value in sorted(described.items())),
        )
        database.execute("COMMIT")


class TranslationTable:
    """An open table. Thread-safe.

    Raises:
        WorkspaceError: it is not a table, damaged, or of an unknown format.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._cache: dict[tuple[bool, str], list[Translation]] = {}
        try:
            self._database = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False
            )
            self._closing = weakref.finalize(self, self._database.close)
            self.info = _read_info(self._database, path)
        except (sqlite3.Error, KeyError, TypeError, ValueError) as error:
            raise WorkspaceError(
                f"{path} is not a translation table, or is damaged: {error}; create it again"
            ) from None

    def close(self) -> None:
        self._closing()

    def covers(self, source: str, target: str) -> bool:
        return (source, target) in (
            (self.info.source, self.info.target),
            (self.info.target, self.info.source),
        )

    def lookup(self, term: str, source: str, target: str) -> list[Translation]:
        """See `TranslationSource`. Raises WorkspaceError if the file is damaged."""
        backwards = source != self.info.source
        with self._lock:
            cached = self._cache.get((backwards, term))
            if cached is None:
                rows = self._rows(_LOOKUP[backwards], (term,))
                cached = [
                    Translation(str(key), float(weight), surface or key, self.info.name)
                    for key, weight, surface in rows
                ]
                if len(self._cache) >= _MAX_CACHED:
                    self._cache.clear()
                self._cache[backwards, term] = cached
        return cached

    def resembling(self, term: str, source: str, target: str) -> list[Translation]:
        """See `TranslationSource`. Raises WorkspaceError if the file is damaged."""
        if len(term) < MIN_LETTERS or " " in term or not term.isalpha():
            return []
        backwards = source != self.info.source
        term_grams = grams(term)
        with self._lock:
            near = [str(key) for (key,) in self._rows(_NEAR[backwards], _range(term))]
            term_sound = sound(term)
            sounding = (
                self._rows(_SOUNDS, (0 if backwards else 1, *_range(term_sound)))
                if term_sound
                else []
            )
        alike = sorted(((likeness(term_grams, grams(key)), key) for key in near), reverse=True)[
            :MAX_RESEMBLING
        ]
        candidates = [
            each._replace(weight=each.weight * how)
            for how, key in alike
            if how >= MIN_LIKENESS and key != term
            for each in self.lookup(key, source, target)
        ]
        term_grams = grams(term_sound)
        for key, sound_of_key, surface in sounding:
            how = likeness(term_grams, grams(sound_of_key))
            if how >= MIN_LIKENESS:
                candidates.append(
                    Translation(key, SOUND_WEIGHT * how, surface or key, self.info.name)
                )
        return candidates

    def _rows(self, query: str, values: tuple[object, ...]) -> list[Any]:
        try:
            return self._database.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise WorkspaceError(f"{self._path} is damaged: {error}; create it again") from None


def _read_info(database: sqlite3.Connection, path: Path) -> TableInfo:
    values = {
        key: json.loads(value) for key, value in database.execute("SELECT key, value FROM about")
    }
    if values["format"] != FORMAT:
        raise WorkspaceError(
            f"{path} is a table of format {values['format']!r}, but this version "
            f"needs format {FORMAT}: create it again"
        )
    return TableInfo(**values | {"analyzers": tuple(values["analyzers"])})


def _range(word: str) -> tuple[str, str]:
    """Return the range of words with the same beginning."""
    beginning = word[:BEGINNING]
    return beginning, beginning[:-1] + chr(ord(beginning[-1]) + 1)


def grams(word: str) -> set[str]:
    """Return the trigrams of a word with its boundaries."""
    framed = f"^{word}$"
    return {framed[place : place + 3] for place in range(len(framed) - 2)}


def likeness(one: set[str], other: set[str]) -> float:
    """Return Dice's coefficient of two sets of trigrams."""
    return 2 * len(one & other) / (len(one) + len(other)) if one and other else 0.0


@functools.lru_cache(maxsize=65_536)
def sound(word: str) -> str:
    """Return a word in Latin letters, about as it sounds (путин -> putin), or ""."""
    written = anyascii(word).lower().replace("'", "").replace("`", "")
    usable = len(written) >= MIN_LETTERS and written.isascii() and written.isalpha()
    return written if usable else ""
