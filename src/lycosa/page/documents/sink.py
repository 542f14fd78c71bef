"""The output of document readers: bounded, cleaned text, links and metadata."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from lycosa.core.records import LinkKind
from lycosa.page.html.lines import BREAK
from lycosa.page.html.markup import Container, RichBlock
from lycosa.page.page_parts import ANCHOR_LENGTH, PageParts, fold

MAX_TEXT = 2_000_000
"""Maximum characters of a document: some 700 pages of print, and 4 MB in the tables."""

MAX_LINKS = 20_000

MAX_LEVEL = 6
"""Of headings in Markdown."""

FAULT_CUT = "document_cut"  # exceeds the size limit
FAULT_BROKEN = "document_broken"  # read up to the fault
FAULT_ENCRYPTED = "document_encrypted"
FAULT_TIMEOUT = "document_timeout"  # took more time than `document_timeout`
FAULT_MEMORY = "document_memory"  # took more memory than `document_memory`

FAULTS = frozenset({FAULT_BROKEN, FAULT_ENCRYPTED, FAULT_TIMEOUT, FAULT_MEMORY})
"""Why a document could not be read, or not to its end; counted among a crawl's errors."""

_MAX_FIELD = 5_000  # characters
_LISTS = {"author": "; ", "keywords": ", "}
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1f\x7f\ufffe\uffff]+")
_SURROGATES = re.compile("[\ud800-\udfff]")
_WEB = re.compile(r"\s*(?:https?|ftp)://[^\s<>\"]+\s*$", re.IGNORECASE)


class TextFull(Exception):
    """Raised by a sink that has reached its limit; its content is valid."""


class Broken(Exception):
    """The document is malformed. The content of the sink is valid."""


class Encrypted(Exception):
    """The document cannot be read without a password."""


LAST = 1_000_000
"""The place of blocks that follow all others."""


class BlockPlace(NamedTuple):
    """`order`: blocks with a lower number are first. `aside`: not main content (a header)."""

    order: int = 0
    aside: bool = False


_MAIN = BlockPlace()


class Sink:
    """Collects the text, links and metadata of one document; if `structured`, also the blocks that
    Markdown is made from. Readers without structure add none.
    """

    def __init__(self, *, structured: bool = False) -> None:
        self.parts = PageParts()
        self.structured = structured
        self._blocks: list[tuple[BlockPlace, RichBlock]] = []
        self._listing: list[str] = []  # lines of the code that is open
        self._listing_place: tuple[Container | None, BlockPlace] = None, _MAIN
        self._left = MAX_TEXT
        self._left_in_blocks = MAX_TEXT

    def line(self, text: str, *, heading: bool = False) -> None:
        """Add a paragraph; white space is folded.

        Raises:
            TextFull: the text has reached its limit.
        """
        text = clean(text)
        if not text:
            return
        parts = self.parts
        if len(text) >= self._left:
            parts.lines.append(text[: self._left])
            parts.faults.append(FAULT_CUT)
            self._left = 0
            raise TextFull
        self._left -= len(text) + 1
        parts.lines.append(text)
        if heading:
            parts.add_heading(text, is_h1=not parts.headline)

    def block(self, block: RichBlock, place: BlockPlace = _MAIN) -> None:
        """Add a paragraph or heading with its markup."""
        pieces = block.pieces
        if self._has_space(pieces) and any(piece.strip() for piece in pieces):
            self._end_listing()
            cleaned = tuple(map(_without_controls, pieces))
            level = min(block.level, MAX_LEVEL)
            self._blocks.append((place, block._replace(pieces=cleaned, level=level)))

    def code_line(
        self, line: str, container: Container | None = None, place: BlockPlace = _MAIN
    ) -> None:
        """Add code as it is. Lines that follow each other make one listing; `line` may also be a
        complete listing.
        """
        line = _without_controls(line)
        if not self._has_space((line,)):
            return
        if "\n" in line or self._listing_place != (container, place):
            self._end_listing()
        self._listing.append(line)
        self._listing_place = container, place
        if "\n" in line:
            self._end_listing()

    def _end_listing(self) -> None:
        if self._listing:
            container, place = self._listing_place
            code = RichBlock(container, (), ("\n".join(self._listing), ""))
            self._blocks.append((place, code))
            self._listing = []

    def blocks(self, *, asides: bool) -> list[RichBlock]:
        """Return the blocks in their order, with or without those aside of the main content."""
        self._end_listing()
        placed = sorted(self._blocks, key=lambda each: each[0].order)
        return [block for place, block in placed if asides or not place.aside]

    def _has_space(self, pieces: Sequence[str]) -> bool:
        self._left_in_blocks -= sum(map(len, pieces)) + 1
        return self.structured and self._left_in_blocks > 0

    def link(self, target: str, anchor: str = "") -> None:
        """Add a link to the web; links to files, bookmarks and mail addresses are ignored."""
        if is_web(target) and len(self.parts.links) < MAX_LINKS:
            self.parts.links.append(
                (
                    LinkKind.A.value,
                    target.strip(),
                    "",
                    clean(anchor[: 2 * ANCHOR_LENGTH])[:ANCHOR_LENGTH],
                )
            )

    def describe(self, name: str, value: object) -> None:
        """Add a metadata field; authors and keywords are lists, else the first value counts."""
        text = clean(str(value))[:_MAX_FIELD] if value else ""
        if not text:
            return
        meta = self.parts.meta
        if name == "title":
            self.parts.set_title(text)
        elif name == "language":
            self.parts.set_language(self.parts.language or text)
        elif name in meta and name in _LISTS and len(meta[name]) < _MAX_FIELD:
            meta[name] += _LISTS[name] + text
        else:
            meta.setdefault(name, text)


def is_web(target: str) -> bool:
    """Return whether a link leads to the web."""
    return bool(_WEB.match(target))


def clean(text: str) -> str:
    """Fold white space; remove control characters and lone surrogates."""
    return _without_controls(fold(text))


def _without_controls(text: str) -> str:
    """Return the text as it is, or without control characters. Markup and breaks stay."""
    if text.isprintable() or text == BREAK:
        return text
    text = _CONTROLS.sub("", text)
    if _SURROGATES.search(text):
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
