"""The paragraphs of DOCX files: links, styles, lists, tables and notes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import ClassVar

from lycosa.page.documents.paragraphs import (
    COMMON_ENDS,
    COMMON_STARTS,
    OFF,
    Paragraph,
    Paragraphs,
    Visitor,
    adds,
)
from lycosa.page.documents.sink import BlockPlace, Sink
from lycosa.page.documents.structure import Run
from lycosa.page.documents.word_styles import WordStyles, is_monospaced, whole_number
from lycosa.page.documents.zipped import value_of
from lycosa.page.html.markup import (
    CODE,
    DELETED,
    EMPHASIS,
    FOOTNOTE,
    QUOTE,
    STRONG,
    Container,
    Markup,
)

_FIELD = re.compile(r'HYPERLINK\s+(?:\\[a-z]\s+)*"([^"]+)"', re.IGNORECASE)
_FIELD_PIECES = 100
_MAX_FIELDS = 20  # inside of each other
_BITS = re.compile(r"[0-9A-Fa-f]{4}")
_FIRST_ROW = 0x20  # of the bits of `tblLook`
_CHARACTER_STYLES = {"strong": STRONG, "emphasis": EMPHASIS}
ENDNOTES = "e"  # distinguishes the numbers of endnotes from those of footnotes


class LinkedParagraphs(Paragraphs):
    """The paragraphs of a part of a DOCX file with their links: hyperlinks and fields."""

    def __init__(self, sink: Sink, targets: Mapping[str, str], place: BlockPlace) -> None:
        super().__init__(sink, targets, place)
        self._field: list[str] = []  # the instruction of a field, which may have several parts
        self._in_field = False
        self._field_links: list[str] = []  # of the fields that are open

    def text(self, text: str) -> None:
        if self._in_field and not self._skipped:
            if len(self._field) < _FIELD_PIECES:
                self._field.append(text)
        else:
            super().text(text)

    def _link(self) -> str:
        fields = (link for link in reversed(self._field_links) if link)
        return super()._link() or next(fields, "")

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
        """Process the beginning of a field or of its result, or its end."""
        kind, target = value_of(attributes, "fldCharType"), self._end_field()
        if kind == "separate":  # the following text is visible
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

    STARTS: ClassVar = {
        **COMMON_STARTS,
        "hyperlink": _start_link,
        "instrText": _start_instruction,
        "fldChar": _set_field,
        "fldSimple": _start_simple_field,
    }
    ENDS: ClassVar = {
        **COMMON_ENDS,
        "hyperlink": _end_link,
        "instrText": _end_instruction,
        "fldSimple": _end_simple_field,
    }


def _sets(mark: str) -> Visitor:
    """Return a visitor that sets a mark unless the value is off."""
    return lambda paragraphs, attributes: paragraphs._set_mark(mark, value_of(attributes, "val"))


class WordParagraphs(LinkedParagraphs):
    """The paragraphs of a part of a DOCX file with their styles, lists, tables and notes.

    `notes`: prefix of the numbers of its notes, which differ from those of other parts.
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
        self._notes = notes
        self._label = ""  # of the note that begins
        self._quote: Container | None = None

    def _write(self, paragraph: Paragraph) -> None:
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
            style = value_of(attributes, "val")
            self._open[-1].set_style(style, self._styles.heading_level(style))

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

    def _set_run_style(self, attributes: dict[str, str]) -> None:
        style = value_of(attributes, "val")
        if self._styles.is_code(style):
            self._set_mark(CODE)
        if kind := _CHARACTER_STYLES.get(self._styles.name(style)):
            self._set_mark(kind)

    def _set_font(self, attributes: dict[str, str]) -> None:
        if is_monospaced(value_of(attributes, "ascii")):
            self._set_mark(CODE)

    def _span_columns(self, attributes: dict[str, str]) -> None:
        self._tables.widen_cell(whole_number(value_of(attributes, "val"), 1))

    def _set_header_row(self, attributes: dict[str, str]) -> None:
        if value_of(attributes, "val") not in OFF:
            self._tables.set_header()

    def _set_table_look(self, attributes: dict[str, str]) -> None:
        bits = value_of(attributes, "val")
        if value_of(attributes, "firstRow") == "1" or (
            _BITS.fullmatch(bits) and int(bits, 16) & _FIRST_ROW
        ):
            self._tables.set_header()

    def _start_note(self, attributes: dict[str, str]) -> None:
        self._label = self._notes + value_of(attributes, "id")

    def _add_note(self, attributes: dict[str, str], notes: str = "") -> None:
        self._add(Markup.make(FOOTNOTE, True, text=notes + value_of(attributes, "id")))

    STARTS: ClassVar = {
        **LinkedParagraphs.STARTS,
        "pStyle": _set_style,
        "outlineLvl": _set_outline,
        "numId": _set_list,
        "ilvl": _set_list_level,
        "b": _sets(STRONG),
        "i": _sets(EMPHASIS),
        "strike": _sets(DELETED),
        "dstrike": _sets(DELETED),
        "rStyle": _set_run_style,
        "rFonts": _set_font,
        "noBreakHyphen": adds("-"),
        "gridSpan": _span_columns,
        "tblHeader": _set_header_row,
        "tblLook": _set_table_look,
        "footnote": _start_note,
        "endnote": _start_note,
        "footnoteReference": _add_note,
        "endnoteReference": partial(_add_note, notes=ENDNOTES),
    }
