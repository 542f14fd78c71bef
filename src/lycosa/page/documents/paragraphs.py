"""The common elements of paragraphs in DOCX and PPTX files: text, runs and tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from lycosa.page.documents.sink import BlockPlace, Sink, is_web
from lycosa.page.documents.structure import Lists, Run, Tables, pieces_of
from lycosa.page.documents.zipped import value_of
from lycosa.page.feeds.xml_events import local_name
from lycosa.page.html.lines import BREAK
from lycosa.page.html.markup import (
    CODE,
    EMPHASIS,
    STRONG,
    Container,
    RichBlock,
)

# repeats its alternative; deleted text
_SKIPPED = frozenset({"Fallback", "delText"})
OFF = frozenset({"0", "false", "off", "none", "noStrike"})
_WEAK = frozenset({STRONG, EMPHASIS})
# elements that change Markdown only
_STRUCTURAL = frozenset(
    {
        *(
            "b",
            "i",
            "strike",
            "dstrike",
            "rStyle",
            "rFonts",
            "rPr",
            "latin",
            "pPr",
            "numId",
            "ilvl",
        ),
        *("buNone", "buChar", "buBlip", "buAutoNum", "tbl", "tr", "tc", "gridSpan", "tblHeader"),
        *("tblLook", "tblPr", "footnote", "endnote", "footnoteReference", "endnoteReference"),
    }
)


@dataclass(slots=True)
class Paragraph:
    """A paragraph that is open. `level`: of a heading."""

    runs: list[Run] = field(default_factory=list)
    style: str = ""
    level: int = 0
    number: str = ""  # of its list
    list_level: int | None = None
    bullet: str = ""  # in a slide: "bullet", "number" or ""

    def set_style(self, style: str, level: int) -> None:
        """Set the style, and the heading level of that style."""
        self.style, self.level = style, level

    @property
    def text(self) -> str:
        return "".join([" " if run.text == BREAK else run.text for run in self.runs])

    @property
    def is_code(self) -> bool:
        """Whether all of its text has a font for code."""
        return self.is_all(CODE)

    def is_all(self, mark: str) -> bool:
        """Return whether all of its text has a mark."""
        filled = [run for run in self.runs if run.text != BREAK and run.text.strip()]
        return bool(filled) and all(mark in run.marks for run in filled)


Visitor = Callable[[Any, dict[str, str]], None]
"""Begins an element, by its local name; it gets its attributes."""


class Paragraphs:
    """The paragraphs of one part of a text document or of a slide, with its links and headings.

    This class reads the elements of both formats; a subclass adds those of one format.
    """

    def __init__(self, sink: Sink, targets: Mapping[str, str], place: BlockPlace) -> None:
        """`targets`: of the part's relationships. `place`: of the blocks of the part."""
        self._sink = sink
        self._targets = targets
        self._place = place
        self._open: list[Paragraph] = []  # a paragraph may be in another's text box
        self._skipped = 0
        self._taking = False
        self._in_run = False
        self._marks: frozenset[str] = frozenset()
        self._run_link = ""
        self._links: list[tuple[str, int]] = []  # target, where in the paragraph its anchor begins
        self._tables = Tables()
        self._lists = Lists()
        self._starts: Mapping[str, Visitor] = self.STARTS
        if not sink.structured:
            self._starts = {name: self.STARTS[name] for name in self.STARTS.keys() - _STRUCTURAL}

    STARTS: ClassVar[Mapping[str, Visitor]]
    ENDS: ClassVar[Mapping[str, Callable[[Any], None]]]

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        name = local_name(tag)
        if self._skipped or name in _SKIPPED:
            self._skipped += 1
        elif (visitor := self._starts.get(name)) is not None:
            visitor(self, attributes)

    def end(self, tag: str) -> None:
        if self._skipped:
            self._skipped -= 1
        elif (visitor := self.ENDS.get(local_name(tag))) is not None:
            visitor(self)

    def text(self, text: str) -> None:
        if self._taking and not self._skipped:
            self._add(text)

    def _start_text(self, attributes: dict[str, str]) -> None:
        self._taking = True

    def _end_text(self) -> None:
        self._taking = False

    def start_paragraph(self, attributes: dict[str, str]) -> None:
        """Begin a paragraph."""
        self._open.append(Paragraph())

    def end_paragraph(self) -> None:
        """End the innermost paragraph: it is a line, and a block."""
        if self._open:
            paragraph = self._open.pop()
            self._sink.line(paragraph.text, heading=paragraph.level > 0)
            if self._sink.structured:
                self._write(paragraph)

    def _write(self, paragraph: Paragraph) -> None:
        """Add a paragraph with its markup."""
        raise NotImplementedError

    def _start_run(self, attributes: dict[str, str]) -> None:
        self._in_run, self._marks = True, frozenset()

    def _end_run(self) -> None:
        if self._run_link:
            last = self._open[-1].runs[-1].text if self._open and self._open[-1].runs else ""
            self._sink.link(self._run_link, last)
        self._in_run, self._marks, self._run_link = False, frozenset(), ""

    def _set_mark(self, kind: str, value: str = "") -> None:
        if self._in_run and value not in OFF:
            self._marks |= {kind}

    def _set_link(self, attributes: dict[str, str]) -> None:
        """Set the link of a run or of a shape."""
        self._run_link = self._targets.get(value_of(attributes, "id"), "")
        if self._run_link and not self._taking and not self._open:
            self._sink.link(self._run_link)
            self._run_link = ""

    def _link(self) -> str:
        """Return the target of the link that is open; "" if none is."""
        return self._run_link or (self._links[-1][0] if self._links else "")

    def _add(self, text: str) -> None:
        if self._open:
            link = self._link() if self._sink.structured else ""
            self._open[-1].runs.append(
                Run(text, self._marks, link if link and is_web(link) else "")
            )

    def _start_table(self, attributes: dict[str, str]) -> None:
        self._lists.end()
        self._tables.start_table()

    def _add_block(
        self, paragraph: Paragraph, container: Container | None, *, is_code: bool
    ) -> None:
        """Add a paragraph as a block; a heading is bold anyway."""
        runs = paragraph.runs
        if is_code and not paragraph.level:
            text = "".join(["\n" if run.text == BREAK else run.text for run in runs])
            self._sink.code_line(text, container, self._place)
            return
        if paragraph.level:
            runs = [run._replace(marks=run.marks - _WEAK) for run in runs]
        block = RichBlock(container, tuple(pieces_of(runs)), None, paragraph.level)
        self._sink.block(block, self._place)


def adds(text: str) -> Visitor:
    """Return a visitor that adds a text."""
    return lambda paragraphs, attributes: paragraphs._add(text)


COMMON_STARTS: Mapping[str, Visitor] = {
    "t": Paragraphs._start_text,
    "p": Paragraphs.start_paragraph,
    "r": Paragraphs._start_run,
    **dict.fromkeys(("br", "cr"), adds(BREAK)),
    **dict.fromkeys(("tab", "ptab"), adds(" ")),
    "tbl": Paragraphs._start_table,
    "tr": lambda paragraphs, attributes: paragraphs._tables.start_row(),
    "tc": lambda paragraphs, attributes: paragraphs._tables.start_cell(),
    "hlinkClick": Paragraphs._set_link,
    "hlinkHover": Paragraphs._set_link,
}
COMMON_ENDS: Mapping[str, Callable[[Any], None]] = {
    "t": Paragraphs._end_text,
    "p": Paragraphs.end_paragraph,
    "r": Paragraphs._end_run,
    "tbl": lambda paragraphs: paragraphs._tables.end_table(),
    "tc": lambda paragraphs: paragraphs._tables.end_cell(),
}
