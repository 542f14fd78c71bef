"""The lines of a PDF page with their places, fonts and links, to detect its structure."""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, islice
from operator import attrgetter
from typing import NamedTuple

import pypdfium2 as pdfium
import pypdfium2.raw as raw

from lycosa.page.documents.structure import Run
from lycosa.page.documents.word_styles import is_monospaced
from lycosa.page.html.markup import CODE, EMPHASIS, STRONG

_WORD = re.compile(r"\S+")
_LINE = re.compile("[^\r\n\u0002\ufffe]+[\u0002\ufffe]?")  # a divided word is divided again
_SAME_BASELINE = 0.5  # points
_MIN_LEADERS = 4
SOFT_HYPHEN = re.compile("[\u00ad\u0002\ufffe]\\s*")
"""A hyphen at the end of a line: PDFium writes U+0002 or U+FFFE for it."""

_ASTRAL = re.compile("[\U00010000-\U0010ffff]")
_BOLD_WEIGHT = 600
_FIXED_PITCH, _ITALIC = 1, 64  # flags of a font (PDF 32000-1:2008 table 123)
_SLANTED = re.compile(r"italic|oblique", re.IGNORECASE)
_HEAVY = re.compile(r"bold|black|heavy|cmbx", re.IGNORECASE)
_NAME_BYTES = 128
_CELL_GAP = 1.1  # times the size of the letters: between words that are in different cells
_LINK_TOLERANCE = 2.0  # points
_MAX_LINE_LINKS = 20


class LinkArea(NamedTuple):
    """The rectangle of a link on its page, in points from its lower left corner."""

    left: float
    bottom: float
    right: float
    top: float
    target: str


@dataclass(slots=True, frozen=True)
class PdfWord:
    """A word: its first point on the baseline, where it ends, and its font."""

    text: str
    left: float
    right: float
    baseline: float
    size: float
    marks: frozenset[str]
    link: str = ""


@dataclass(frozen=True)
class PdfLine:
    """Words on one baseline of a page. `page`: its number, from 0."""

    words: tuple[PdfWord, ...]
    page: int

    @cached_property
    def text(self) -> str:
        return " ".join([word.text for word in self.words])

    @cached_property
    def size(self) -> float:
        """The size of most letters, rounded."""
        sizes: dict[float, int] = {}
        for word in self.words:
            sizes[word.size] = sizes.get(word.size, 0) + len(word.text)
        return max(sizes, key=lambda size: sizes[size])

    @property
    def left(self) -> float:
        return self.words[0].left

    @property
    def right(self) -> float:
        return self.words[-1].right

    @property
    def baseline(self) -> float:
        return self.words[0].baseline

    def is_all(self, mark: str) -> bool:
        """Return whether all words have a mark."""
        return all(mark in word.marks for word in self.words)

    @cached_property
    def cells(self) -> tuple[tuple[PdfWord, ...], ...]:
        """The words in groups that are far from each other."""
        groups: list[list[PdfWord]] = [[self.words[0]]]
        for before, word in zip(self.words, self.words[1:], strict=False):
            if word.left - before.right > _CELL_GAP * self.size:
                groups.append([])
            groups[-1].append(word)
        return tuple(map(tuple, groups))


def runs_of(words: Sequence[PdfWord]) -> list[Run]:
    """Return words as runs. A space has the markup that the words around it share."""
    runs: list[Run] = []
    for (marks, link), group in groupby(words, attrgetter("marks", "link")):
        if runs:
            before = runs[-1]
            runs.append(Run(" ", marks & before.marks, link if link == before.link else ""))
        runs.append(Run(" ".join([word.text for word in group]), marks, link))
    return runs


class LineReader:
    """Reads the lines of the pages of one document. Fonts are cached."""

    def __init__(self) -> None:
        self._fonts: dict[tuple[bytes, int, int], frozenset[str]] = {}
        self._name = ctypes.create_string_buffer(_NAME_BYTES)
        self._flags = ctypes.c_int()
        self._numbers = [ctypes.c_double() for _ in range(4)]
        self._matrix = raw.FS_MATRIX()

    def read(self, text: pdfium.PdfTextPage, page: int, links: Sequence[LinkArea]) -> list[PdfLine]:
        """Return the lines of a page that contain words, in the order of the file."""
        count = text.count_chars()
        content = text.get_text_range() if count > 0 else ""
        shown = _ASTRAL.sub("\ufffd\ufffd", content)  # positions are in units of UTF-16
        units = content.encode("utf-16-le", "surrogatepass") if shown != content else b""
        is_same = len(shown) == count
        lines: list[list[PdfWord]] = []
        for line in _LINE.finditer(shown):
            words: list[PdfWord] = []
            areas: Sequence[LinkArea] = ()
            for match in _WORD.finditer(shown, line.start(), line.end()):
                begin, end = match.span()
                first, last = begin, end - 1
                if not is_same:
                    first, last = _character(text, first), _character(text, last)
                if first < 0 or last < 0:
                    continue
                written = match[0]
                if units:
                    written = units[2 * begin : 2 * end].decode("utf-16-le", "replace")
                word = self._word(text, written, first, last)
                if links and not words:
                    areas = _near(word, links)
                words.append(_linked(word, areas) if areas else word)
            words = _without_leaders(words)
            if words and lines and _is_same_line(lines[-1][-1], words[0]):
                lines[-1] += words
            elif words:
                lines.append(words)
        return [PdfLine(tuple(words), page) for words in lines]

    def _word(self, text: pdfium.PdfTextPage, written: str, first: int, last: int) -> PdfWord:
        handle = text.raw
        left, right, bottom, top = self._numbers
        raw.FPDFText_GetCharBox(handle, last, left, right, bottom, top)
        end, height = right.value, top.value - bottom.value
        raw.FPDFText_GetCharOrigin(handle, first, left, bottom)
        size = raw.FPDFText_GetFontSize(handle, first)
        # Many files scale letters of size 1.
        if raw.FPDFText_GetMatrix(handle, first, self._matrix):
            size *= math.hypot(self._matrix.c, self._matrix.d)
        return PdfWord(
            written,
            left.value,
            max(end, left.value),
            bottom.value,
            round(size or height, 1),
            self._marks(handle, first),
        )

    def _marks(self, handle: object, index: int) -> frozenset[str]:
        length = raw.FPDFText_GetFontInfo(handle, index, self._name, _NAME_BYTES, self._flags)
        name = self._name.value if 0 < length <= _NAME_BYTES else b""
        weight = raw.FPDFText_GetFontWeight(handle, index)
        key = name, self._flags.value, weight
        if key not in self._fonts:
            self._fonts[key] = _marks_of(*key)
        return self._fonts[key]


def _is_same_line(before: PdfWord, word: PdfWord) -> bool:
    """Return whether a word is to the right of another one on its baseline."""
    return (
        abs(before.baseline - word.baseline) < _SAME_BASELINE
        and word.left >= before.right - _SAME_BASELINE
        and not SOFT_HYPHEN.search(before.text[-1:])
    )


def _without_leaders(words: list[PdfWord]) -> list[PdfWord]:
    """Return words without the dots that lead to the page numbers of a contents list."""
    dots = [word for word in words if not word.text.strip(".")]
    if sum(len(word.text) for word in dots) < _MIN_LEADERS:
        return words
    return [word for word in words if word.text.strip(".")]


def _marks_of(name: bytes, flags: int, weight: int) -> frozenset[str]:
    font = name.decode("latin-1")
    marks = {
        STRONG: weight >= _BOLD_WEIGHT or bool(_HEAVY.search(font)),
        EMPHASIS: bool(flags & _ITALIC) or bool(_SLANTED.search(font)),
        CODE: bool(flags & _FIXED_PITCH) or is_monospaced(font),
    }
    return frozenset(mark for mark, is_set in marks.items() if is_set)


def _character(text: pdfium.PdfTextPage, index: int) -> int:
    return int(raw.FPDFText_GetCharIndexFromTextIndex(text, index))


def _near(word: PdfWord, links: Sequence[LinkArea]) -> list[LinkArea]:
    """Return the links on the line of a word."""
    height = word.baseline + word.size / 4
    near = (
        area
        for area in links
        if area.bottom - _LINK_TOLERANCE <= height <= area.top + _LINK_TOLERANCE
    )
    return list(islice(near, _MAX_LINE_LINKS))


def _linked(word: PdfWord, links: Sequence[LinkArea]) -> PdfWord:
    middle = (word.left + word.right) / 2
    for area in links:
        if area.left - _LINK_TOLERANCE <= middle <= area.right + _LINK_TOLERANCE:
            return replace(word, link=area.target)
    return word
