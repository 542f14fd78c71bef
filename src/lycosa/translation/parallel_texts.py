"""Read parallel texts as pairs of sentences: two columns, two files line by line, or TMX."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from xml.parsers import expat

from lycosa.core.errors import UsageError

MAX_CHARACTERS = 2_000
"""Maximum length of a sentence."""

Pair = tuple[str, str]
_CHUNK = 1 << 16


def two_columns(lines: Iterable[str]) -> Iterator[Pair]:
    """Read `sentence TAB translation`; other lines are skipped."""
    for line in lines:
        cells = line.rstrip("\r\n").split("\t")
        if len(cells) >= 2 and not line.startswith("#"):
            yield from usable_pair(cells[0], cells[1])


def two_files(one: Path, other: Path) -> Iterator[Pair]:
    """Read two files line by line.

    Raises:
        UsageError: one has more lines than the other.
    """
    with (
        one.open(encoding="utf-8", errors="replace") as first,
        other.open(encoding="utf-8", errors="replace") as second,
    ):
        for here, there in itertools.zip_longest(first, second):
            if here is None or there is None:
                raise UsageError(
                    f"{one} and {other} have different numbers of lines: each line must be the "
                    "translation of the same line in the other file"
                )
            yield from usable_pair(here, there)


def tmx(path: Path, source: str, target: str) -> Iterator[Pair]:
    """Read the units of a TMX file (LISA, TMX 1.4b) in both languages; `en-GB` counts as `en`.

    Raises:
        UsageError: it is not well-formed, or declares entities.
    """
    reader = _Reader()
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                reader.feed(chunk)
                yield from reader.take_pairs(source, target)
            reader.feed(b"", last=True)
            yield from reader.take_pairs(source, target)
    except expat.ExpatError as error:
        raise UsageError(f"{path} is not a TMX file: {error}") from None
    except _EntityDeclared as error:
        raise UsageError(
            f"{path} declares the entity {error}: not allowed, because entities can "
            "expand without limit"
        ) from None


def usable_pair(one: str, other: str) -> Iterator[Pair]:
    """Yield the stripped pair if it is usable for learning."""
    one, other = one.strip(), other.strip()
    if one and other and len(one) <= MAX_CHARACTERS and len(other) <= MAX_CHARACTERS:
        yield one, other


class _EntityDeclared(Exception):
    pass


class _Reader:
    """Collects translation units; inline elements contribute their text."""

    def __init__(self) -> None:
        self._units: list[dict[str, str]] = []
        self._unit: dict[str, str] = {}
        self._language = ""
        self._text: list[str] | None = None
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._data
        self._parser.EntityDeclHandler = self._entity

    def feed(self, chunk: bytes, *, last: bool = False) -> None:
        self._parser.Parse(chunk, last)

    def take_pairs(self, source: str, target: str) -> Iterator[Pair]:
        units, self._units = self._units, []
        for unit in units:
            if source in unit and target in unit:
                yield from usable_pair(unit[source], unit[target])

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "tu":
            self._unit = {}
        elif name == "tuv":
            self._language = (
                (attributes.get("xml:lang") or attributes.get("lang") or "")
                .lower()
                .replace("_", "-")
                .partition("-")[0]
            )
        elif name == "seg":
            self._text = []

    def _end(self, name: str) -> None:
        if name == "seg" and self._text is not None:
            self._unit.setdefault(self._language, "".join(self._text))
            self._text = None
        elif name == "tu":
            self._units.append(self._unit)

    def _data(self, text: str) -> None:
        if self._text is not None:
            self._text.append(text)

    def _entity(self, name: str, *declared: object) -> None:
        raise _EntityDeclared(name)
