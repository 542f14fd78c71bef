"""DOCX and PPTX: Office Open XML (ECMA-376), read as a stream of elements.

No library: the existing ones build a tree of the whole document first (python-docx, mammoth,
python-pptx, openpyxl), whose size a hostile file controls, and leave out text boxes,
notes and fields.
"""

from __future__ import annotations

import re
from posixpath import dirname, join, normpath
from typing import ClassVar

from lycosa.page.documents.sink import Sink
from lycosa.page.documents.zipped import Package
from lycosa.page.feeds.xml_events import local_name

_FIELD = re.compile(r'HYPERLINK\s+(?:\\[a-z]\s+)*"([^"]+)"', re.IGNORECASE)
# repeats its alternative; deleted text
_SKIPPED = frozenset({"Fallback", "delText"})
_HEADING = re.compile(r"(?:heading [1-9]|title)$", re.IGNORECASE)
_CHART_PIECES = 20_000
_FIELD_PIECES = 100


class Attributes:
    """Collects the attributes of elements with given names (relationships, styles)."""

    def __init__(self, *names: str) -> None:
        self._names = frozenset(names)
        self.elements: list[tuple[str, dict[str, str]]] = []

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if local_name(tag) in self._names:
            self.elements.append(
                (local_name(tag), {local_name(name): value for name, value in attributes.items()})
            )

    def end(self, tag: str) -> None:
        pass

    def text(self, text: str) -> None:
        pass


class CoreProperties:
    """docProps/core.xml (ECMA-376 part 2, section 11) and ODF's meta.xml: Dublin Core."""

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

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._name, self._text = self._WANTED.get(local_name(tag), ""), []

    def end(self, tag: str) -> None:
        if self._name:
            self._sink.describe(self._name, "".join(self._text))
        self._name = ""

    def text(self, text: str) -> None:
        if self._name and len(self._text) < 100:
            self._text.append(text)


class Paragraphs:
    """The paragraphs of one part of a text document or of a slide, with its links and headings."""

    def __init__(
        self, sink: Sink, targets: dict[str, str], headings: frozenset[str] = frozenset()
    ) -> None:
        self._sink = sink
        self._targets = targets
        self._headings = headings
        self._open: list[list[str]] = []  # a paragraph may be in another's text box
        self._heading = False
        self._title_shape = False
        self._skipped = 0
        self._taking = False
        self._field: list[str] = []  # the instruction of a field, which may come in several pieces
        self._in_field = False
        self._links: list[tuple[str, int]] = []  # target, where in the paragraph its anchor begins
        self._run_link = ""

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        name = local_name(tag)
        if self._skipped or name in _SKIPPED:
            self._skipped += 1
            return
        if name == "t":
            self._taking = True
        elif name == "p":
            self._open.append([])
            self._heading = self._title_shape
        elif name in ("tab", "br", "cr", "ptab"):
            self._add(" ")
        elif name == "noBreakHyphen":
            self._add("-")
        elif name == "pStyle":
            self._heading = _value(attributes, "val") in self._headings
        elif name == "ph":
            self._title_shape = _value(attributes, "type") in ("title", "ctrTitle")
        elif name == "sp":
            self._title_shape = False
        elif name == "hyperlink":
            self._links.append((self._targets.get(_value(attributes, "id"), ""), self._size()))
        elif name == "instrText":
            self._in_field = True
        elif name == "fldChar":
            self._end_field()
        elif name == "fldSimple":
            self._field = [_value(attributes, "instr")]
            self._end_field()
        elif name in ("hlinkClick", "hlinkHover"):
            self._run_link = self._targets.get(_value(attributes, "id"), "")
            if self._run_link and not self._taking and not self._open:
                self._sink.link(self._run_link)
                self._run_link = ""

    def end(self, tag: str) -> None:
        name = local_name(tag)
        if self._skipped:
            self._skipped -= 1
            return
        if name == "t":
            self._taking = False
        elif name == "instrText":
            self._in_field = False
        elif name == "p" and self._open:
            self._sink.line("".join(self._open.pop()), heading=self._heading)
            self._heading = False
        elif name == "hyperlink" and self._links:
            target, begin = self._links.pop()
            self._sink.link(target, "".join(self._open[-1])[begin:] if self._open else "")
        elif name == "r" and self._run_link:
            self._sink.link(
                self._run_link, self._open[-1][-1] if self._open and self._open[-1] else ""
            )
            self._run_link = ""

    def text(self, text: str) -> None:
        if self._skipped:
            return
        if self._in_field and len(self._field) < _FIELD_PIECES:
            self._field.append(text)
        elif self._taking:
            self._add(text)

    def _add(self, text: str) -> None:
        if self._open:
            self._open[-1].append(text)

    def _size(self) -> int:
        return sum(map(len, self._open[-1])) if self._open else 0

    def _end_field(self) -> None:
        match = _FIELD.search("".join(self._field))
        self._field = []
        if match:
            self._sink.link(match[1])


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
            self._sink.line(" ".join(self._texts))

    def text(self, text: str) -> None:
        if self._taking and len(self._texts) < _CHART_PIECES:
            self._texts.append(text)


def read_charts(package: Package, sink: Sink) -> None:
    """Read the texts of all charts."""
    for part in package.matching(r"(?:word|ppt|xl)/charts/chart\d*\.xml"):
        package.events(part, Chart(sink))


def _value(attributes: dict[str, str], attribute: str) -> str:
    return next((value for name, value in attributes.items() if local_name(name) == attribute), "")


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
    styles = Attributes("style", "name")
    folder = dirname(main)
    package.events(f"{folder}/styles.xml", styles)
    headings, style = set(), ""
    for name, attributes in styles.elements:
        if name == "style":
            style = attributes.get("styleId", "")
        elif style and _HEADING.match(attributes.get("val", "")):
            headings.add(style)
    parts = [main, *package.matching(rf"{re.escape(folder)}/(?:footnotes|endnotes|comments)\.xml")]
    parts += package.matching(rf"{re.escape(folder)}/(?:header|footer)\d*\.xml") + package.matching(
        r"word/diagrams/data\d*\.xml"
    )
    for part in parts:
        package.events(part, Paragraphs(sink, targets_of(package, part), frozenset(headings)))
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
    for part in [
        *slides,
        *package.matching(r"ppt/diagrams/data\d*\.xml"),
        *package.matching(r"ppt/notesSlides/notesSlide\d+\.xml"),
    ]:
        package.events(part, Paragraphs(sink, targets_of(package, part)))
    read_charts(package, sink)
