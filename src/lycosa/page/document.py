"""HTML in any encoding, parsed once and walked once."""

from __future__ import annotations

import re

from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser, LexborNode

from lycosa.page.encoding import Decoded, decode, is_assumed_utf_8
from lycosa.page.found import Found
from lycosa.page.labels import UTF_8
from lycosa.page.marks import is_hidden
from lycosa.page.nesting import bounded
from lycosa.page.tags import TAG
from lycosa.page.walk import walk

_PRE = TAG["pre"]
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
    found = walk(root, *_marked(root)) if root is not None else Found()
    found.faults.extend(faults)
    return found


def _marked(root: LexborNode) -> tuple[frozenset[int], frozenset[int]]:
    """The addresses of the elements that an attribute hides, and of the listings with links or images in them: few, so asking for
    them all at once spares the walk reading attributes and asking for each listing."""
    unseen: list[int] = []
    linked: list[int] = []
    for node in root.css('[hidden],[style*="display" i],pre:has(a,img)'):
        if node.tag_id == _PRE:
            linked.append(node.mem_id)
        elif is_hidden(node.attributes):
            unseen.append(node.mem_id)
    return frozenset(unseen), frozenset(linked)
