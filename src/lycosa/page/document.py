"""HTML in any encoding, parsed once and walked once."""

from __future__ import annotations

import re

from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser, LexborNode

from lycosa.page.encoding import Decoded, decode, is_assumed_utf_8
from lycosa.page.found import Found
from lycosa.page.labels import UTF_8
from lycosa.page.marks import is_hidden
from lycosa.page.nesting import bounded
from lycosa.page.walk import walk

_SELF_CLOSED = re.compile(
    rb"<(?!(?:area|base|br|col|embed|hr|img|input|link|meta|source|track|wbr|frame|param)[\s/>])([A-Za-z][A-Za-z0-9]*)((?:\s[^<>]*)?)/>"
)


def read_html(payload: bytes, content_type: str = "", *, xml: bool = False) -> tuple[Found, Decoded]:
    """Everything that an HTML document says, and how it was decoded. Never raises.

    Args:
        content_type: the Content-Type header, for its charset.
        xml: the document is XHTML, where any element may close itself (`<script src="x"/>`).
    """
    if is_assumed_utf_8(payload, content_type):
        found = _read(payload, xml)
        if "\ufffd" not in found.text() and "\ufffd" not in found.title:
            return found, Decoded(payload, UTF_8)
        decoded = decode(payload, content_type)
        return (found if decoded.data is payload else _read(decoded.data, xml)), decoded
    decoded = decode(payload, content_type)
    return _read(decoded.data, xml), decoded


def _read(data: bytes, xml: bool) -> Found:
    if xml:
        data = _SELF_CLOSED.sub(rb"<\1\2></\1>", data)
    data, faults = bounded(data)
    root = LexborHTMLParser(data, options=LexborDocumentOptions.WO_EVENTS).root
    found = walk(root, _unseen(root)) if root is not None else Found()
    found.faults.extend(faults)
    return found


def _unseen(root: LexborNode) -> frozenset[int]:
    """The addresses of the elements that an attribute hides: few, so asking for them all at once spares the walk reading attributes."""
    return frozenset([node.mem_id for node in root.css('[hidden],[style*="display" i]') if is_hidden(node.attributes)])
