"""ODT, ODS, ODP (OpenDocument, ISO/IEC 26300) and EPUB (EPUB 3.3, section 4 and 5)."""

from __future__ import annotations

from posixpath import dirname, join, normpath
from typing import ClassVar
from urllib.parse import unquote

from lycosa.page.documents.office_xml import CoreProperties
from lycosa.page.documents.sink import Encrypted, Sink
from lycosa.page.documents.zipped import Attributes, Package
from lycosa.page.feeds.xml_events import local_name
from lycosa.page.html.document import read_html

_SKIPPED = frozenset(
    {
        "tracked-changes",
        "binary-data",
        "dde-source",
        "forms",
        "settings",
        "styles",
        "automatic-styles",
        "note-citation",
    }
)
_MAX_SPACES = 100
_MAX_CHAPTERS = 2_000


class _Content:
    """content.xml: paragraphs and headings; the cells of a row make one line."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._open: list[list[str]] = []
        # notes and text boxes of the paragraph, which follow it; whether they are headings
        self._inner: list[tuple[str, bool]] = []
        self._links: list[tuple[str, int]] = []
        self._row: list[str] | None = None
        self._skipped = 0
        self._sheets = False
        self._title = False

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        name = local_name(tag)
        if self._skipped or name in _SKIPPED:
            self._skipped += 1
        elif name in ("p", "h"):
            self._open.append([])
        elif name == "s":
            count = attributes.get("text:c", "1")
            self._add(
                " " * min(int(count) if count.isdigit() and len(count) < 6 else 1, _MAX_SPACES)
            )
        elif name in ("tab", "line-break"):
            self._add(" ")
        elif name == "a":
            self._links.append(
                (
                    attributes.get("xlink:href", ""),
                    sum(map(len, self._open[-1])) if self._open else 0,
                )
            )
        elif name == "spreadsheet":
            self._sheets = True
        elif name == "table" and self._sheets:
            self._sink.line(attributes.get("table:name", ""), heading=True)
        elif name == "table-row" and self._sheets:
            self._row = []
        elif name == "frame":
            self._title = attributes.get("presentation:class") == "title"

    def end(self, tag: str) -> None:
        name = local_name(tag)
        if self._skipped:
            self._skipped -= 1
        elif name in ("p", "h") and self._open:
            text = "".join(self._open.pop())
            paragraph = text, name == "h" or self._title
            if self._open:
                self._inner.append(paragraph)
                return
            for line, is_heading in (paragraph, *self._inner):
                if self._row is not None:
                    self._row.append(line)
                else:
                    self._sink.line(line, heading=is_heading)
            self._inner.clear()
        elif name == "a" and self._links:
            target, begin = self._links.pop()
            self._sink.link(target, "".join(self._open[-1])[begin:] if self._open else "")
        elif name == "table-row" and self._row is not None:
            self._sink.line(" ".join(self._row))
            self._row = None
        elif name == "frame":
            self._title = False

    def text(self, text: str) -> None:
        if not self._skipped:
            self._add(text)

    def _add(self, text: str) -> None:
        if self._open:
            self._open[-1].append(text)


def read_open_document(payload: bytes, sink: Sink) -> None:
    """Read a text document, sheet or presentation.

    Raises:
        Encrypted: its content needs a password.
    """
    package = Package(payload, sink)
    manifest = Attributes("encryption-data")
    package.events("META-INF/manifest.xml", manifest)
    if manifest.elements:
        raise Encrypted
    package.events("meta.xml", CoreProperties(sink))
    package.events("content.xml", _Content(sink))


class _BookProperties(CoreProperties):
    """Dublin Core of an EPUB: there `date` is the publication's."""

    _WANTED: ClassVar = {
        "title": "title",
        "description": "description",
        "date": "date",
        "creator": "author",
        "subject": "keywords",
        "language": "language",
    }


def read_epub(payload: bytes, sink: Sink) -> None:
    """Read the chapters of a book in reading order, each as a web page."""
    package = Package(payload, sink)
    container = Attributes("rootfile")
    package.events("META-INF/container.xml", container)
    books = [
        path for _, each in container.elements if (path := each.get("full-path", "")) in package
    ] or package.matching(r".*\.opf")
    for book in books[:1]:
        package.events(book, _BookProperties(sink))
        parts = Attributes("item", "itemref")
        package.events(book, parts)
        items = {
            each.get("id", ""): each.get("href", "")
            for name, each in parts.elements
            if name == "item"
        }
        chapters = [
            items.get(each.get("idref", ""), "")
            for name, each in parts.elements
            if name == "itemref"
        ]
        for chapter in list(dict.fromkeys(chapters))[:_MAX_CHAPTERS]:
            _read_chapter(
                package, normpath(join(dirname(book), unquote(chapter.partition("#")[0]))), sink
            )


def _read_chapter(package: Package, name: str, sink: Sink) -> None:
    parts, _ = read_html(package.read(name), "application/xhtml+xml", xml=True)
    headings = set(parts.headings)
    for line in parts.lines:
        sink.line(line, heading=line in headings)
    for _, target, _, anchor in parts.links:
        sink.link(target, anchor)
