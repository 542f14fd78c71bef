"""The output of document readers: bounded, cleaned text, links and metadata."""

from __future__ import annotations

import re

from lycosa.core.records import LinkKind
from lycosa.page.page_parts import ANCHOR_LENGTH, PageParts, fold

MAX_TEXT = 2_000_000
"""Characters kept of a document: some 700 pages of print, and 4 MB in the tables."""

MAX_LINKS = 20_000

FAULT_CUT = "document_cut"  # longer than we read
FAULT_BROKEN = "document_broken"  # read up to the fault
FAULT_ENCRYPTED = "document_encrypted"
FAULT_TIMEOUT = "document_timeout"  # took more time than `document_timeout`
FAULT_MEMORY = "document_memory"  # took more memory than `document_memory`

FAULTS = frozenset({FAULT_BROKEN, FAULT_ENCRYPTED, FAULT_TIMEOUT, FAULT_MEMORY})
"""Why a document could not be read, or not to its end; counted among a crawl's errors."""

_CONTROLS = re.compile("[\x00-\x08\x0e-\x1f\x7f\ufffe\uffff]+")
_SURROGATES = re.compile("[\ud800-\udfff]")
_WEB = re.compile(r"\s*(?:https?|ftp)://[^\s<>\"]+\s*$", re.IGNORECASE)


class TextFull(Exception):
    """Raised by a sink that has reached its limit; its content is valid."""


class Broken(Exception):
    """The document is malformed. The content of the sink is valid."""


class Encrypted(Exception):
    """The document cannot be read without a password."""


class Sink:
    """Collects the text, links and metadata of one document."""

    def __init__(self) -> None:
        self.parts = PageParts()
        self._left = MAX_TEXT

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

    def link(self, target: str, anchor: str = "") -> None:
        """Add a link to the web; links to files, bookmarks and mail addresses are ignored."""
        if _WEB.match(target) and len(self.parts.links) < MAX_LINKS:
            self.parts.links.append(
                (
                    LinkKind.A.value,
                    target.strip(),
                    "",
                    clean(anchor[: 2 * ANCHOR_LENGTH])[:ANCHOR_LENGTH],
                )
            )

    def describe(self, name: str, value: object) -> None:
        """Add a metadata field; the first one of a name counts."""
        text = clean(str(value))[:5_000] if value else ""
        if not text:
            return
        if name == "title":
            self.parts.set_title(text)
        else:
            self.parts.meta.setdefault(name, text)


def clean(text: str) -> str:
    """Fold white space; remove control characters and lone surrogates."""
    text = fold(text)
    if text.isprintable():
        return text
    text = _CONTROLS.sub("", text)
    if _SURROGATES.search(text):
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
