"""DOCX and PPTX: Office Open XML (ECMA-376), read as a stream of elements.

No library: the existing ones build a tree of the whole document first (python-docx, mammoth,
python-pptx, openpyxl) of a size that a hostile file controls, and leave out text boxes, notes and
fields.
"""

from __future__ import annotations

import re
from posixpath import basename, dirname, join, normpath
from typing import ClassVar

from lycosa.page.documents.sink import LAST, BlockPlace, Sink
from lycosa.page.documents.slide_paragraphs import SlideParagraphs
from lycosa.page.documents.structure import text_block
from lycosa.page.documents.word_paragraphs import ENDNOTES, WordParagraphs
from lycosa.page.documents.word_styles import WordStyles
from lycosa.page.documents.zipped import Attributes, Package
from lycosa.page.feeds.xml_events import local_name

_CHART_PIECES = 20_000


class CoreProperties:
    """docProps/core.xml (ECMA-376 part 2, section 11) and ODF's meta.xml: Dublin Core. An element
    that is repeated adds an author or keyword.
    """

    _WANTED: ClassVar = {
        "title": "title",
        "description": "description",
        "subject": "subject",
        "created": "date",
        "creation-date": "date",
        "creator": "author",
        "initial-creator": "author",
        "modified": "modified",
        "date": "modified",
        "keywords": "keywords",
        "keyword": "keywords",
    }

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._name = ""
        self._text: list[str] = []
        self._tags: dict[str, str] = {}  # that gave the value of a name

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._name, self._text = self._WANTED.get(local_name(tag), ""), []

    def end(self, tag: str) -> None:
        if self._name and self._tags.setdefault(self._name, tag) == tag:
            self._sink.describe(self._name, "".join(self._text))
        self._name = ""

    def text(self, text: str) -> None:
        if self._name and len(self._text) < 100:
            self._text.append(text)


class Chart:
    """Titles, categories and values of a chart, as one line."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._texts: list[str] = []
        self._taking = False

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._taking = local_name(tag) in ("v", "t")

    def end(self, tag: str) -> None:
        self._taking = False
        if local_name(tag) == "chartSpace":
            text = " ".join(self._texts)
            self._sink.line(text)
            self._sink.block(text_block(text), BlockPlace(LAST))

    def text(self, text: str) -> None:
        if self._taking and len(self._texts) < _CHART_PIECES:
            self._texts.append(text)


def read_charts(package: Package, sink: Sink) -> None:
    """Read the texts of all charts."""
    for part in package.matching(r"(?:word|ppt|xl)/charts/chart\d*\.xml"):
        package.events(part, Chart(sink))


def targets_of(package: Package, part: str) -> dict[str, str]:
    """Return the targets of a part's relationships: URLs as written, parts by name."""
    reader = Attributes("Relationship")
    folder = dirname(part)
    package.events(join(folder, "_rels", f"{part[len(folder) :].lstrip('/')}.rels"), reader)
    targets = {}
    for _, each in reader.elements:
        target = each.get("Target", "")
        if each.get("TargetMode") != "External":
            target = (
                target.lstrip("/") if target.startswith("/") else normpath(join(folder, target))
            )
        targets[each.get("Id", "")] = target
    return targets


def describe(package: Package, sink: Sink) -> None:
    """Read the core properties."""
    for name in package.matching(r"docProps/core\d*\.xml"):
        package.events(name, CoreProperties(sink))


def main_part(package: Package, usual: str) -> str:
    """Return the name of the main part."""
    if usual in package:
        return usual
    reader = Attributes("Relationship")
    package.events("_rels/.rels", reader)
    return next(
        (
            each.get("Target", "").lstrip("/")
            for _, each in reader.elements
            if each.get("Type", "").endswith("/officeDocument")
        ),
        usual,
    )


def read_docx(payload: bytes, sink: Sink) -> None:
    """Read body, text boxes, notes, headers and footers of a DOCX file."""
    package = Package(payload, sink)
    describe(package, sink)
    main = main_part(package, "word/document.xml")
    folder = dirname(main)
    styles = WordStyles(package, folder, lists=sink.structured)
    parts = [main, *package.matching(rf"{re.escape(folder)}/(?:footnotes|endnotes|comments)\.xml")]
    parts += package.matching(rf"{re.escape(folder)}/(?:header|footer)\d*\.xml") + package.matching(
        r"word/diagrams/data\d*\.xml"
    )
    for part in parts:
        name = basename(part)
        reader = WordParagraphs(
            sink,
            targets_of(package, part),
            styles,
            BlockPlace(aside=name.startswith(("comments", "header", "footer"))),
            notes=ENDNOTES if name.startswith("endnotes") else "",
        )
        package.events(part, reader)
    read_charts(package, sink)


def read_pptx(payload: bytes, sink: Sink) -> None:
    """Read the slides in their order, the diagrams and the notes of a PPTX file."""
    package = Package(payload, sink)
    describe(package, sink)
    main = main_part(package, "ppt/presentation.xml")
    order = Attributes("sldId")
    package.events(main, order)
    targets = targets_of(package, main)
    shown = [targets[each["id"]] for _, each in order.elements if each.get("id") in targets]
    slides = [*dict.fromkeys([*shown, *package.matching(r"ppt/slides/slide\d+\.xml")])]
    layouts: dict[str, frozenset[str]] = {}
    orders: dict[str, int] = {}  # of slides and their notes
    for number, slide in enumerate(slides):
        related = targets_of(package, slide)
        orders |= {name: number for name in related.values() if "/notesSlides/" in name}
        layout = next((name for name in related.values() if "/slideLayouts/" in name), "")
        if layout not in layouts:
            layouts[layout] = _plain_placeholders(package, layout)
        reader = SlideParagraphs(sink, related, layouts[layout], BlockPlace(number))
        package.events(slide, reader)
    for part in package.matching(r"ppt/diagrams/data\d*\.xml"):
        package.events(part, SlideParagraphs(sink, targets_of(package, part), None))
    for part in package.matching(r"ppt/notesSlides/notesSlide\d+\.xml"):
        place = BlockPlace(orders.get(part, LAST))
        reader = SlideParagraphs(sink, targets_of(package, part), None, place, quoted=True)
        package.events(part, reader)
    read_charts(package, sink)


def _plain_placeholders(package: Package, layout: str) -> frozenset[str]:
    """Return the placeholders of a layout that have paragraphs without bullets."""
    reader = Attributes("sp", "ph", "buNone")
    package.events(layout, reader)
    plain, number = set(), ""
    for name, attributes in reader.elements:
        if name != "buNone":  # a shape, or its placeholder
            number = attributes.get("idx", "")
        elif number:
            plain.add(number)
    return frozenset(plain)
