"""Detects headings, paragraphs, lists, tables and code of a PDF by positions and fonts of its
lines.

A PDF has letters at positions. Its outline names headings; other structure is only visual.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median_low

from lycosa.page.documents.pdf.lines import SOFT_HYPHEN, PdfLine, PdfWord, runs_of
from lycosa.page.documents.pdf.tables import PdfTable
from lycosa.page.documents.sink import MAX_LEVEL, Sink
from lycosa.page.documents.structure import (
    ListLevel,
    ListPlace,
    Lists,
    Run,
    new_table,
    pieces_of,
)
from lycosa.page.html.markup import CELL_OF_ROW, CODE, ROW, STRONG, Container, RichBlock

NO_SPACES = re.compile("[\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef]")
"""Scripts that write no spaces between lines."""

_LARGE = 1.12  # times the size of the text: from which a line is a heading
_HEADING_CHARACTERS = 160  # that a heading has at most
_HEADING_LINES = 4
_HEADING_PITCH = 1.8  # times the size: at most that between lines of a heading
_SAME_PITCH = 1.3  # times the usual distance of lines: at most that in a paragraph
_WIDE_SHARE = 0.1  # of distances that are wider, from which paragraphs are apart
_FULL_SHARE = 0.75  # of its width that a line fills which continues, where paragraphs are apart
_DEFAULT_PITCH = 1.25  # times the size of the letters
_BLANK_LINES = 3  # at most that in a listing
_MAX_CODE_SHARE = 0.9  # of all letters: if more are monospaced, that is no sign of code
_BULLET = re.compile(
    "[\u2022\u2023\u25e6\u2043\u2219\u25aa\u25ab\u25cf\u25cb\u25a0\u25a1"
    "\u2013\u2014\u00b7\u27a2\u2713\uf0b7\uf0a7*-]$"
)
_NUMBER = re.compile(r"\(?(\d{1,3})[.)]$")
_MAX_COLUMNS = 50
_INDENT = 3.0  # points by which items of another level differ
_NO_HEADING_END = (".", ",", ";", ":")
_SPACES = re.compile(r"\W+")


class PdfStructure:
    """Finds the structure of the lines of a document.

    Args:
        lines: without running headers and footers.
        outline: the titles of the outline, and their levels from 1.
    """

    def __init__(self, lines: Sequence[PdfLine], outline: Iterable[tuple[str, int]]) -> None:
        self._lines = lines
        self._outline: dict[str, int] = {}
        for title, level in outline:
            self._outline.setdefault(_key(title), level)
        code, prose = (
            _letters(line for line in lines if line.is_all(CODE) is kind) for kind in (True, False)
        )
        self._has_code = code.total() <= _MAX_CODE_SHARE * (code + prose).total()
        usual = prose if self._has_code else code + prose
        self._size = usual.most_common(1)[0][0] if usual else 0.0
        self._pitch = _pitches(lines)
        self._edges = _edges(lines)
        self._has_gaps = self._are_paragraphs_apart()
        self._words = {word.text.casefold() for line in lines for word in line.words}
        self._titles = [self._in_outline(place) for place in range(len(lines))]
        self._levels = self._heading_levels()
        self._lists = Lists()
        self._lefts: list[float] = []  # of the open lists
        self._no_table = 0  # the place up to which no table begins

    def write(self, sink: Sink) -> None:
        """Add the blocks to the sink."""
        place = 0
        while place < len(self._lines):
            place = (
                self._write_heading(sink, place)
                or self._write_code(sink, place)
                or self._write_table(sink, place)
                or self._write_item(sink, place)
                or self._write_paragraph(sink, place)
            )

    # -- headings

    def _heading_levels(self) -> dict[tuple[float, bool], int]:
        """Return the levels of headings by size and weight: of the outline, else by their rank."""
        stated: defaultdict[tuple[float, bool], Counter[int]] = defaultdict(Counter)
        looks: set[tuple[float, bool]] = set()
        for place, line in enumerate(self._lines):
            count, level = self._titles[place]
            if count:
                stated[_line_style(line)][level] += 1
            elif self._looks_like_heading(place):
                looks.add(_line_style(line))
        levels: dict[tuple[float, bool], int] = {}
        level = 0
        for look in sorted(looks | set(stated), reverse=True):
            level = stated[look].most_common(1)[0][0] if stated[look] else level + 1
            levels[look] = min(level, MAX_LEVEL)
        return levels

    def _in_outline(self, place: int) -> tuple[int, int]:
        """Return how many lines from a place on are a title of the outline, and its level."""
        text = ""
        if not self._outline or self._lines[place].is_all(CODE):
            return 0, 0
        for count, line in enumerate(self._lines[place : place + _HEADING_LINES], 1):
            text += _key(line.text)
            for key in (text, text.lstrip("0123456789")):
                if key and key in self._outline:
                    return count, self._outline[key]
        return 0, 0

    def _looks_like_heading(self, place: int) -> bool:
        line = self._lines[place]
        text = line.text
        if len(text) > _HEADING_CHARACTERS or line.is_all(CODE) or not _SPACES.sub("", text):
            return False
        if line.size >= _LARGE * self._size:
            return len(_SPACES.sub("", text)) > 1
        return (
            line.size >= self._size
            and line.is_all(STRONG)
            and not text.endswith(_NO_HEADING_END)
            and self._is_apart(place)
            and not any(_is_marker(word) for word in line.words[:1])
            and len(line.cells) == 1
        )

    def _is_apart(self, place: int) -> bool:
        """Return whether a line is no part of a paragraph: distances, or weights, differ."""
        line = self._lines[place]
        before = self._lines[place - 1] if place else None
        after = self._lines[place + 1] if place + 1 < len(self._lines) else None
        starts = before is None or before.page != line.page or self._gap(before, line)
        ends = after is None or after.page != line.page or not after.is_all(STRONG)
        return bool(starts and ends)

    def _gap(self, before: PdfLine, line: PdfLine) -> bool:
        """Return whether there is more than the usual distance between two lines."""
        distance = before.baseline - line.baseline
        return (
            not 0
            <= distance
            <= _SAME_PITCH * self._pitch.get(line.size, _DEFAULT_PITCH * line.size)
        )

    def _write_heading(self, sink: Sink, place: int) -> int:
        """Add the heading at a place; return the place after it, 0 if there is none."""
        line = self._lines[place]
        count, level = self._titles[place]
        if not count:
            if not self._looks_like_heading(place):
                return 0
            count, level = 1, self._levels.get(_line_style(line), MAX_LEVEL)
            for before, after in pairwise(self._lines[place : place + _HEADING_LINES]):
                if (
                    _line_style(after) != _line_style(line)
                    or before.page != after.page
                    or not 0 < before.baseline - after.baseline < _HEADING_PITCH * line.size
                ):
                    break
                count += 1
        self._end_lists()
        lines = self._lines[place : place + count]
        runs = [run._replace(marks=frozenset()) for run in self._joined(lines)]
        _add(sink, runs, level=level)
        return place + count

    # -- code

    def _write_code(self, sink: Sink, place: int) -> int:
        end = place
        while end < len(self._lines) and self._has_code and self._lines[end].is_all(CODE):
            end += 1
        lines = self._lines[place:end]
        if not lines:
            return 0
        widths = [(line.right - line.left) / len(line.text) for line in lines if len(line.text) > 1]
        width = median_low(widths) if widths else self._size * 0.6
        edge = min(line.left for line in lines)
        text = []
        before: PdfLine | None = None
        pitch = _usual_distance(lines) or _DEFAULT_PITCH * lines[0].size
        for line in lines:
            if before is not None and before.page == line.page:
                blank = round((before.baseline - line.baseline) / pitch) - 1
                text += [""] * max(0, min(blank, _BLANK_LINES))
            text.append(" " * round((line.left - edge) / width) + _spaced(line, width))
            before = line
        self._end_lists()
        sink.code_line("\n".join(text))
        return end

    # -- lists

    def _write_item(self, sink: Sink, place: int) -> int:
        line = self._lines[place]
        marker = line.words[0]
        match = _NUMBER.match(marker.text)
        if not (match or _BULLET.match(marker.text)):
            return 0
        end = place + 1
        # A marker alone: its text is the next line.
        if len(line.words) == 1 and (
            match or end == len(self._lines) or self._lines[end].left <= line.left
        ):
            return 0
        while end < len(self._lines) and self._continues_item(place, end):
            end += 1
        while self._lefts and self._lefts[-1] > line.left + _INDENT:
            self._lefts.pop()
        if not self._lefts or self._lefts[-1] < line.left - _INDENT:
            self._lefts.append(line.left)
        level = ListLevel(match is not None, int(match[1]) if match else 1)
        key = "number" if match else "bullet"
        item = self._lists.item(ListPlace(key, len(self._lefts) - 1, level), around=None)
        _add(sink, self._joined(self._lines[place:end], skipped=1), container=item)
        return end

    def _continues_item(self, place: int, end: int) -> bool:
        before, line, first = self._lines[end - 1], self._lines[end], self._lines[place]
        return (
            line.left > first.left + _INDENT
            and not _is_marker(line.words[0])
            and not (self._has_code and line.is_all(CODE))
            and (not self._gap(before, line) or before.page != line.page)
        ) or (end == place + 1 and len(first.words) == 1)

    def _end_lists(self) -> None:
        self._lists.forget()
        self._lefts.clear()

    # -- tables

    def _write_table(self, sink: Sink, place: int) -> int:
        first = self._lines[place]
        is_table = 1 < len(first.cells) <= _MAX_COLUMNS and not _is_marker(first.words[0])
        if not is_table or place < self._no_table:
            return 0
        table = PdfTable(first, self._pitch.get(first.size, _DEFAULT_PITCH * first.size))
        end = place + 1
        while end < len(self._lines) and table.add(self._lines[end]):
            end += 1
        rows, count = table.rows()
        if not rows:
            self._no_table = end
            return 0
        self._end_lists()
        container = new_table()
        for number, cells in enumerate(rows, 1):
            row = Container(ROW, container, number)
            for column, words in sorted(cells.items()):
                cell = Container(CELL_OF_ROW, row, column + 1, number == 1)
                _add(sink, runs_of(words), container=cell)
        return place + count

    # -- paragraphs

    def _write_paragraph(self, sink: Sink, place: int) -> int:
        end = place + 1
        while end < len(self._lines) and self._continues(end):
            end += 1
        self._end_lists()
        _add(sink, self._joined(self._lines[place:end]))
        return end

    def _continues(self, place: int) -> bool:
        """Return whether a line continues the paragraph of the line before it."""
        before, line = self._lines[place - 1], self._lines[place]
        if (
            line.size != before.size
            or _is_marker(line.words[0])
            or len(line.cells) > 1
            or (self._has_code and line.is_all(CODE))
            or self._looks_like_heading(place)
            or self._titles[place][0]
        ):
            return False
        if before.page != line.page or before.baseline < line.baseline:
            return not before.text.endswith((".", ":", "!", "?")) and line.text[:1].islower()
        if self._gap(before, line):
            return False
        left, right = self._edges.get((line.page, line.size), (0.0, 0.0))
        if self._has_gaps:
            return before.right > left + _FULL_SHARE * (right - left)
        first = line.words[0]
        return before.right + (first.right - first.left) > right - line.size / 2

    def _are_paragraphs_apart(self) -> bool:
        """Return whether there is more space between paragraphs than between their lines."""
        distances = list(_distances(self._lines))
        wide = sum(distance > _SAME_PITCH * self._pitch[size] for size, distance in distances)
        return wide > _WIDE_SHARE * len(distances)

    def _joined(self, lines: Sequence[PdfLine], skipped: int = 0) -> list[Run]:
        """Return lines as runs, without hyphens that divide words.

        `skipped`: words of the first line.
        """
        runs: list[Run] = []
        for line in lines:
            added = runs_of(line.words[skipped:])
            skipped = 0
            if runs and added:
                last, first = runs[-1], added[0]
                bare = self._without_hyphen(last.text, first.text)
                if len(bare) < len(last.text):
                    runs[-1] = last._replace(text=bare)
                elif not (NO_SPACES.match(last.text[-1:]) and NO_SPACES.match(first.text[:1])):
                    link = last.link if last.link == first.link else ""
                    runs.append(Run(" ", last.marks & first.marks, link))
            runs += added
        return [
            run._replace(text=SOFT_HYPHEN.sub("", run.text)) if not run.text.isprintable() else run
            for run in runs
        ]

    def _without_hyphen(self, text: str, following: str) -> str:
        """Return the end of a line without a hyphen that divides its last word.

        The hyphen stays if the document has the word with a hyphen elsewhere.
        """
        if SOFT_HYPHEN.search(text[-1:]):
            return text[:-1]
        if not (text[-1:] in "-\u2010" and text[-2:-1].isalpha() and following[:1].islower()):
            return text
        word = f"{text.rpartition(' ')[2]}{following.partition(' ')[0]}"
        return text if word.casefold() in self._words else text[:-1]


def _letters(lines: Iterable[PdfLine]) -> Counter[float]:
    """Return how many letters there are of each size."""
    sizes: Counter[float] = Counter()
    for line in lines:
        sizes[line.size] += len(line.text)
    return sizes


def _key(title: str) -> str:
    return _SPACES.sub("", title).casefold()


def _line_style(line: PdfLine) -> tuple[float, bool]:
    return line.size, line.is_all(STRONG)


def _is_marker(word: PdfWord) -> bool:
    return bool(_BULLET.match(word.text) or _NUMBER.match(word.text))


def _distances(lines: Iterable[PdfLine]) -> Iterator[tuple[float, float]]:
    """Yield size and distance of lines of one size that follow each other on a page."""
    for before, line in pairwise(lines):
        distance = before.baseline - line.baseline
        if before.size == line.size and before.page == line.page and 0 < distance < 3 * line.size:
            yield line.size, distance


def _usual_distance(lines: Iterable[PdfLine]) -> float:
    """Return the usual distance of lines that follow each other: a low one of those found."""
    distances = sorted(distance for _, distance in _distances(lines))
    return distances[len(distances) // 4] if distances else 0.0


def _pitches(lines: Sequence[PdfLine]) -> Mapping[float, float]:
    """Return the usual distance of lines by the size of their letters."""
    distances: defaultdict[float, list[float]] = defaultdict(list)
    for size, distance in _distances(lines):
        distances[size].append(distance)
    return {size: sorted(each)[len(each) // 4] for size, each in distances.items()}


def _edges(lines: Iterable[PdfLine]) -> Mapping[tuple[int, float], tuple[float, float]]:
    """Return the left and right edge of the text, by page and size of its letters."""
    edges: dict[tuple[int, float], tuple[float, float]] = {}
    for line in lines:
        left, right = edges.get((line.page, line.size), (line.left, line.right))
        edges[line.page, line.size] = min(left, line.left), max(right, line.right)
    return edges


def _add(
    sink: Sink, runs: Sequence[Run], *, level: int = 0, container: Container | None = None
) -> None:
    sink.block(RichBlock(container, tuple(pieces_of(runs)), None, level))


def _spaced(line: PdfLine, width: float) -> str:
    """Return a line of code with the spaces between its words as wide as they are."""
    text = line.words[0].text
    for before, word in pairwise(line.words):
        text += " " * max(1, round((word.left - before.right) / width)) + word.text
    return text
