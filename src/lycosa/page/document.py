"""HTML in UTF-8, parsed once and walked once."""

from __future__ import annotations

from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser

from lycosa.page.found import Found
from lycosa.page.walk import walk


def read_html(data: bytes) -> Found:
    """Everything that an HTML document says. Never raises; invalid UTF-8 becomes U+FFFD."""
    root = LexborHTMLParser(data, options=LexborDocumentOptions.WO_EVENTS).root
    hides = b"display" in data or b"hidden" in data or b"DISPLAY" in data or b"HIDDEN" in data
    return walk(root, hides) if root is not None else Found()
