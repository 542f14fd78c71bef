"""The paragraphs of PPTX files: titles, bullets and tables, and the bullets of layouts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from lycosa.page.documents.paragraphs import COMMON_ENDS, COMMON_STARTS, Paragraph, Paragraphs
from lycosa.page.documents.sink import LAST, BlockPlace, Sink
from lycosa.page.documents.structure import ListLevel, ListPlace
from lycosa.page.documents.word_styles import is_monospaced, whole_number
from lycosa.page.documents.zipped import value_of
from lycosa.page.html.markup import (
    CODE,
    DELETED,
    EMPHASIS,
    QUOTE,
    STRONG,
    Container,
)

_RUN_ATTRIBUTES = {"b": STRONG, "i": EMPHASIS, "strike": DELETED}
_TITLES = {"ctrTitle": 1, "title": 2}  # levels of the titles of slides
_BOLD_LEVEL = 3  # of a bold paragraph within a slide
_HEADING_CHARACTERS = 100
_BULLETED = frozenset({"", "obj", "body"})  # placeholders; others are titles and running texts
_RUNNING = frozenset({"dt", "ftr", "hdr", "sldNum"})


class SlideParagraphs(Paragraphs):
    """The paragraphs of a slide, or of another part of a PPTX file.

    `plain`: placeholders of its layout with paragraphs without bullets; None: no paragraph of the
    part has any. `quoted`: the part is about a slide, such as its notes.
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

    def _write(self, paragraph: Paragraph) -> None:
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
    def _is_heading(paragraph: Paragraph) -> bool:
        """Return whether a paragraph is a heading within a slide: slides have no styles for it."""
        text = paragraph.text.strip()
        is_short = len(text) <= _HEADING_CHARACTERS and not text.endswith((".", ",", ";", ":"))
        return is_short and paragraph.is_all(STRONG)

    def start_paragraph(self, attributes: dict[str, str]) -> None:
        self._open.append(Paragraph(level=self._level, bullet=self._bullet))

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
        **COMMON_STARTS,
        "p": start_paragraph,
        "sp": _start_shape,
        "graphicFrame": _start_shape,
        "ph": _start_placeholder,
        "buNone": lambda paragraphs, attributes: paragraphs._set_bullet(""),
        "buChar": lambda paragraphs, attributes: paragraphs._set_bullet("bullet"),
        "buBlip": lambda paragraphs, attributes: paragraphs._set_bullet("bullet"),
        "buAutoNum": lambda paragraphs, attributes: paragraphs._set_bullet("number"),
        "pPr": _set_paragraph,
        "rPr": _set_run,
        "latin": _set_font,
        "tblPr": _set_table,
    }
    ENDS: ClassVar = COMMON_ENDS
