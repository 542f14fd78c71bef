"""The paragraphs of DOCX and PPTX files: their text and links, and their structure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from lycosa.page.documents.sink import LAST, BlockPlace, Sink, is_web
from lycosa.page.documents.structure import ListLevel, ListPlace, Lists, Run, Tables, pieces_of
from lycosa.page.documents.word_styles import WordStyles, is_monospaced, whole_number
from lycosa.page.documents.zipped import value_of
from lycosa.page.feeds.xml_events import local_name
from lycosa.page.html.lines import BREAK
from lycosa.page.html.markdown import MarkdownBlock
from lycosa.page.html.rich_walk import (
    CODE,
    DELETED,
    EMPHASIS,
    FOOTNOTE,
    QUOTE,
    STRONG,
    Container,
    Markup,
    RichBlock,
)

_FIELD = re.compile(r'HYPERLINK\s+(?:\\[a-z]\s+)*"([^"]+)"', re.IGNORECASE)
# repeats its alternative; deleted text
_SKIPPED = frozenset({"Fallback", "delText"})
_FIELD_PIECES = 100
_MAX_FIELDS = 20  # inside of each other
_OFF = frozenset({"0", "false", "off", "none", "noStrike"})
_BITS = re.compile(r"[0-9A-Fa-f]{4}")
_FIRST_ROW = 0x20  # of the bits of `tblLook`
_CHARACTER_STYLES = {"strong": STRONG, "emphasis": EMPHASIS}
_RUN_ATTRIBUTES = {"b": STRONG, "i": EMPHASIS, "strike": DELETED}
_WEAK = frozenset({STRONG, EMPHASIS})
_TITLES = {"ctrTitle": 1, "title": 2}  # levels of the titles of slides
_BOLD_LEVEL = 3  # of a bold paragraph within a slide
_HEADING_CHARACTERS = 100
_BULLETED = frozenset({"", "obj", "body"})  # placeholders; others are titles and running texts
_RUNNING = frozenset({"dt", "ftr", "hdr", "sldNum"})
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
ENDNOTES = "e"  # distinguishes the numbers of endnotes from those of footnotes


@dataclass(slots=True)
class _Paragraph:
    """A paragraph that is open. `level`: of a heading."""

    runs: list[Run] = field(default_factory=list)
    style: str = ""
    level: int = 0
    number: str = ""  # of its list
    list_level: int | None = None
    bullet: str = ""  # in a slide: "bullet", "number" or ""

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


_Visitor = Callable[[Any, dict[str, str]], None]
"""Begins an element, by its local name; it gets its attributes."""


class Paragraphs:
    """The paragraphs of one part of a text document or of a slide, with its links and headings.

    This class reads what both formats have in common; a subclass knows the other elements.
    """

    def __init__(self, sink: Sink, targets: Mapping[str, str], place: BlockPlace) -> None:
        """`targets`: of the part's relationships. `place`: of the blocks of the part."""
        self._sink = sink
        self._targets = targets
        self._place = place
        self._open: list[_Paragraph] = []  # a paragraph may be in another's text box
        self._skipped = 0
        self._taking = False
        self._in_run = False
        self._marks: frozenset[str] = frozenset()
        self._run_link = ""
        self._links: list[tuple[str, int]] = []  # target, where in the paragraph its anchor begins
        self._tables = Tables()
        self._lists = Lists()
        self._starts: Mapping[str, _Visitor] = self.STARTS
        if not sink.structured:
            self._starts = {name: self.STARTS[name] for name in self.STARTS.keys() - _STRUCTURAL}

    STARTS: ClassVar[Mapping[str, _Visitor]]
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
        self._open.append(_Paragraph())

    def end_paragraph(self) -> None:
        """End the innermost paragraph: it is a line, and a block."""
        if self._open:
            paragraph = self._open.pop()
            self._sink.line(paragraph.text, heading=paragraph.level > 0)
            if self._sink.structured:
                self._write(paragraph)

    def _write(self, paragraph: _Paragraph) -> None:
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
        if self._in_run and value not in _OFF:
            self._marks |= {kind}

    def _set_link(self, attributes: dict[str, str]) -> None:
        """A link of a run, or of a shape."""
        self._run_link = self._targets.get(value_of(attributes, "id"), "")
        if self._run_link and not self._taking and not self._open:
            self._sink.link(self._run_link)
            self._run_link = ""

    def _link(self) -> str:
        """Return the target of the link that is open; "" if none is."""
        return self._run_link or (self._links[-1][0] if self._links else "")

    def _add_space(self, attributes: dict[str, str]) -> None:
        self._add(" ")

    def _add_break(self, attributes: dict[str, str]) -> None:
        self._add(BREAK)

    def _add(self, text: str) -> None:
        if self._open:
            link = self._link() if self._sink.structured else ""
            self._open[-1].runs.append(
                Run(text, self._marks, link if link and is_web(link) else "")
            )

    def _start_table(self, attributes: dict[str, str]) -> None:
        self._lists.end()
        self._tables.start_table()

    def _start_row(self, attributes: dict[str, str]) -> None:
        self._tables.start_row()

    def _start_cell(self, attributes: dict[str, str]) -> None:
        self._tables.start_cell()

    def _end_table(self) -> None:
        self._tables.end_table()

    def _end_cell(self) -> None:
        self._tables.end_cell()

    def _add_block(
        self, paragraph: _Paragraph, container: Container | None, *, is_code: bool
    ) -> None:
        """Add a paragraph as a block; a heading is bold anyway."""
        runs = paragraph.runs
        if is_code and not paragraph.level:
            text = "".join(["\n" if run.text == BREAK else run.text for run in runs])
            self._sink.code_line(text, container, self._place)
            return
        if paragraph.level:
            runs = [run._replace(marks=run.marks - _WEAK) for run in runs]
        block = RichBlock(container, tuple(pieces_of(runs)))
        self._sink.block(MarkdownBlock(block, paragraph.level), self._place)


_COMMON_STARTS: Mapping[str, _Visitor] = {
    "t": Paragraphs._start_text,
    "p": Paragraphs.start_paragraph,
    "r": Paragraphs._start_run,
    "br": Paragraphs._add_break,
    "cr": Paragraphs._add_break,
    "tab": Paragraphs._add_space,
    "ptab": Paragraphs._add_space,
    "tbl": Paragraphs._start_table,
    "tr": Paragraphs._start_row,
    "tc": Paragraphs._start_cell,
    "hlinkClick": Paragraphs._set_link,
    "hlinkHover": Paragraphs._set_link,
}
_COMMON_ENDS: Mapping[str, Callable[[Any], None]] = {
    "t": Paragraphs._end_text,
    "p": Paragraphs.end_paragraph,
    "r": Paragraphs._end_run,
    "tbl": Paragraphs._end_table,
    "tc": Paragraphs._end_cell,
}


class WordParagraphs(Paragraphs):
    """The paragraphs of a part of a DOCX file. `notes`: what distinguishes the numbers of its
    notes from those of other parts.
    """

    def __init__(
        self,
        sink: Sink,
        targets: Mapping[str, str],
        styles: WordStyles,
        place: BlockPlace,
        *,
        notes: str = "",
    ) -> None:
        super().__init__(sink, targets, place)
        self._styles = styles
        self._field: list[str] = []  # the instruction of a field, which may come in several pieces
        self._in_field = False
        self._field_links: list[str] = []  # of the fields that are open
        self._notes = notes
        self._label = ""  # of the note that begins
        self._quote: Container | None = None

    def text(self, text: str) -> None:
        if self._in_field and not self._skipped:
            if len(self._field) < _FIELD_PIECES:
                self._field.append(text)
        else:
            super().text(text)

    def _link(self) -> str:
        fields = (link for link in reversed(self._field_links) if link)
        return super()._link() or next(fields, "")

    def _write(self, paragraph: _Paragraph) -> None:
        styles, cell = self._styles, self._tables.cell
        if self._label and paragraph.text.strip():
            note = Markup.make(FOOTNOTE, True, text=self._label)
            paragraph.runs.insert(0, Run(": "))
            paragraph.runs.insert(0, Run(note))
            self._label = ""
        container = cell
        quote = None
        place = styles.list_place(paragraph.style, paragraph.number, paragraph.list_level)
        if place is not None and cell is None and not paragraph.level:
            container = self._lists.item(place, around=None)
        elif paragraph.runs:
            self._lists.end()
            if cell is None and styles.is_quote(paragraph.style):
                container = quote = self._quote or Container(QUOTE, None)
        self._quote = quote
        is_code = paragraph.is_code or styles.is_code(paragraph.style)
        self._add_block(paragraph, container, is_code=is_code and cell is None and place is None)

    def _set_style(self, attributes: dict[str, str]) -> None:
        if self._open:
            paragraph = self._open[-1]
            paragraph.style = value_of(attributes, "val")
            paragraph.level = self._styles.heading_level(paragraph.style)

    def _set_outline(self, attributes: dict[str, str]) -> None:
        level = whole_number(value_of(attributes, "val"), 9)
        if self._open and level < 9:
            self._open[-1].level = level + 1

    def _set_list(self, attributes: dict[str, str]) -> None:
        if self._open:
            self._open[-1].number = value_of(attributes, "val")

    def _set_list_level(self, attributes: dict[str, str]) -> None:
        if self._open:
            self._open[-1].list_level = whole_number(value_of(attributes, "val"))

    def _set_bold(self, attributes: dict[str, str]) -> None:
        self._set_mark(STRONG, value_of(attributes, "val"))

    def _set_italic(self, attributes: dict[str, str]) -> None:
        self._set_mark(EMPHASIS, value_of(attributes, "val"))

    def _set_strike(self, attributes: dict[str, str]) -> None:
        self._set_mark(DELETED, value_of(attributes, "val"))

    def _set_run_style(self, attributes: dict[str, str]) -> None:
        style = value_of(attributes, "val")
        if self._styles.is_code(style):
            self._set_mark(CODE)
        if kind := _CHARACTER_STYLES.get(self._styles.name(style)):
            self._set_mark(kind)

    def _set_font(self, attributes: dict[str, str]) -> None:
        if is_monospaced(value_of(attributes, "ascii")):
            self._set_mark(CODE)

    def _start_link(self, attributes: dict[str, str]) -> None:
        self._links.append((self._targets.get(value_of(attributes, "id"), ""), self._size()))

    def _end_link(self) -> None:
        if self._links:
            target, begin = self._links.pop()
            self._sink.link(target, self._open[-1].text[begin:] if self._open else "")

    def _size(self) -> int:
        return sum([len(run.text) for run in self._open[-1].runs]) if self._open else 0

    def _start_instruction(self, attributes: dict[str, str]) -> None:
        self._in_field = True

    def _end_instruction(self) -> None:
        self._in_field = False

    def _set_field(self, attributes: dict[str, str]) -> None:
        """The begin of a field, of its result, or its end."""
        kind, target = value_of(attributes, "fldCharType"), self._end_field()
        if kind == "separate":  # what follows is shown
            self._field_links[-1:] = [target]
        elif kind == "begin" and len(self._field_links) < _MAX_FIELDS:
            self._field_links.append("")
        elif self._field_links and kind == "end":
            self._field_links.pop()

    def _start_simple_field(self, attributes: dict[str, str]) -> None:
        self._field = [value_of(attributes, "instr")]
        self._field_links.append(self._end_field())

    def _end_simple_field(self) -> None:
        if self._field_links:
            self._field_links.pop()

    def _end_field(self) -> str:
        """Return the target of the instruction that has ended; "" if it is no link."""
        match = _FIELD.search("".join(self._field))
        self._field = []
        if match:
            self._sink.link(match[1])
        return match[1] if match else ""

    def _add_hyphen(self, attributes: dict[str, str]) -> None:
        self._add("-")

    def _span_columns(self, attributes: dict[str, str]) -> None:
        self._tables.widen_cell(whole_number(value_of(attributes, "val"), 1))

    def _set_header_row(self, attributes: dict[str, str]) -> None:
        if value_of(attributes, "val") not in _OFF:
            self._tables.set_header()

    def _set_table_look(self, attributes: dict[str, str]) -> None:
        bits = value_of(attributes, "val")
        if value_of(attributes, "firstRow") == "1" or (
            _BITS.fullmatch(bits) and int(bits, 16) & _FIRST_ROW
        ):
            self._tables.set_header()

    def _start_note(self, attributes: dict[str, str]) -> None:
        self._label = self._notes + value_of(attributes, "id")

    def _add_footnote(self, attributes: dict[str, str]) -> None:
        self._add(Markup.make(FOOTNOTE, True, text=value_of(attributes, "id")))

    def _add_endnote(self, attributes: dict[str, str]) -> None:
        self._add(Markup.make(FOOTNOTE, True, text=f"{ENDNOTES}{value_of(attributes, 'id')}"))

    STARTS: ClassVar = {
        **_COMMON_STARTS,
        "pStyle": _set_style,
        "outlineLvl": _set_outline,
        "numId": _set_list,
        "ilvl": _set_list_level,
        "b": _set_bold,
        "i": _set_italic,
        "strike": _set_strike,
        "dstrike": _set_strike,
        "rStyle": _set_run_style,
        "rFonts": _set_font,
        "hyperlink": _start_link,
        "instrText": _start_instruction,
        "fldChar": _set_field,
        "fldSimple": _start_simple_field,
        "noBreakHyphen": _add_hyphen,
        "gridSpan": _span_columns,
        "tblHeader": _set_header_row,
        "tblLook": _set_table_look,
        "footnote": _start_note,
        "endnote": _start_note,
        "footnoteReference": _add_footnote,
        "endnoteReference": _add_endnote,
    }
    ENDS: ClassVar = {
        **_COMMON_ENDS,
        "hyperlink": _end_link,
        "instrText": _end_instruction,
        "fldSimple": _end_simple_field,
    }


class SlideParagraphs(Paragraphs):
    """The paragraphs of a slide, or of another part of a PPTX file.

    `plain`: placeholders of its layout whose paragraphs have no bullets (`LayoutBullets`); None:
    no paragraph of the part has any. `quoted`: the part is about a slide, such as its notes.
    """

    def __init__(
        self,
        sink: Sink,
        targets: Mapping[str, str],
        plain: frozenset[str] | None,
        place: BlockPlace = BlockPlace(LAST),
        *,
        quoted: bool = False,
    ) -> None:
        super().__init__(sink, targets, place)
        self._plain = plain
        self._base = Container(QUOTE, None) if quoted else None
        self._level = 0  # of the headings of the shape
        self._bullet = ""  # of the shape's paragraphs: "bullet" or ""

    def _write(self, paragraph: _Paragraph) -> None:
        cell = self._tables.cell
        container = cell or self._base
        if container is None and not paragraph.bullet and self._is_heading(paragraph):
            paragraph.level = _BOLD_LEVEL
        if paragraph.bullet and cell is None and not paragraph.level:
            ordered = paragraph.bullet == "number"
            level = paragraph.list_level or 0
            place = ListPlace(paragraph.bullet, level, ListLevel(ordered))
            container = self._lists.item(place, around=self._base)
        elif paragraph.runs:
            self._lists.end()
        self._add_block(paragraph, container, is_code=paragraph.is_code and cell is None)

    @staticmethod
    def _is_heading(paragraph: _Paragraph) -> bool:
        """Return whether a paragraph is a heading within a slide: slides have no styles for it."""
        text = paragraph.text.strip()
        is_short = len(text) <= _HEADING_CHARACTERS and not text.endswith((".", ",", ";", ":"))
        return is_short and paragraph.is_all(STRONG)

    def start_paragraph(self, attributes: dict[str, str]) -> None:
        self._open.append(_Paragraph(level=self._level, bullet=self._bullet))

    def _start_shape(self, attributes: dict[str, str]) -> None:
        self._level, self._bullet = 0, ""
        self._place = self._place._replace(aside=False)
        self._lists.forget()

    def _start_placeholder(self, attributes: dict[str, str]) -> None:
        kind = value_of(attributes, "type")
        self._level = _TITLES.get(kind, 0)
        self._place = self._place._replace(aside=kind in _RUNNING)
        number = value_of(attributes, "idx")
        has_bullets = kind in _BULLETED and self._plain is not None and number not in self._plain
        self._bullet = "bullet" if has_bullets else ""

    def _set_bullet(self, kind: str) -> None:
        if self._open:
            self._open[-1].bullet = kind
        elif not kind:  # of all paragraphs of the shape
            self._bullet = ""

    def _set_no_bullet(self, attributes: dict[str, str]) -> None:
        self._set_bullet("")

    def _set_symbol(self, attributes: dict[str, str]) -> None:
        self._set_bullet("bullet")

    def _set_number(self, attributes: dict[str, str]) -> None:
        self._set_bullet("number")

    def _set_paragraph(self, attributes: dict[str, str]) -> None:
        if self._open:
            self._open[-1].list_level = whole_number(attributes.get("lvl", ""))

    def _set_run(self, attributes: dict[str, str]) -> None:
        for name, kind in _RUN_ATTRIBUTES.items():
            if name in attributes:
                self._set_mark(kind, attributes[name])

    def _set_font(self, attributes: dict[str, str]) -> None:
        if is_monospaced(attributes.get("typeface", "")):
            self._set_mark(CODE)

    def _set_table(self, attributes: dict[str, str]) -> None:
        if attributes.get("firstRow") == "1":
            self._tables.set_header()

    STARTS: ClassVar = {
        **_COMMON_STARTS,
        "p": start_paragraph,
        "sp": _start_shape,
        "graphicFrame": _start_shape,
        "ph": _start_placeholder,
        "buNone": _set_no_bullet,
        "buChar": _set_symbol,
        "buBlip": _set_symbol,
        "buAutoNum": _set_number,
        "pPr": _set_paragraph,
        "rPr": _set_run,
        "latin": _set_font,
        "tblPr": _set_table,
    }
    ENDS: ClassVar = _COMMON_ENDS


class LayoutBullets:
    """Collects the placeholders of a slide's layout whose paragraphs have no bullets."""

    def __init__(self) -> None:
        self._number = ""
        self.plain: set[str] = set()

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        name = local_name(tag)
        if name == "sp":
            self._number = ""
        elif name == "ph":
            self._number = attributes.get("idx", "")
        elif name == "buNone" and self._number:
            self.plain.add(self._number)

    def end(self, tag: str) -> None:
        pass

    def text(self, text: str) -> None:
        pass
