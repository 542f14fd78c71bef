"""HTML in any encoding, parsed once and walked once."""

from __future__ import annotations

import re

from lycosa.page.encoding import DecodedText, decode, is_assumed_utf_8
from lycosa.page.encoding_labels import UTF_8
from lycosa.page.html.region_classes import is_hidden
from lycosa.page.html.tree import TAG, Node, parse_html
from lycosa.page.html.walk import walk
from lycosa.page.page_parts import PageParts

_PRE = TAG["pre"]
_SELF_CLOSED = re.compile(
    rb"<(?!(?:area|base|br|col|embed|hr|img|input|link|meta|source|track|wbr|frame|param)[\s/>])([A-Za-z][A-Za-z0-9]*)((?:\s[^<>]*)?)/>"
)


def read_html(
    payload: bytes, content_type: str = "", *, xml: bool = False
) -> tuple[PageParts, DecodedText]:
    """Everything that an HTML document says, and how it was decoded. Never raises.

    Args:
        content_type: the Content-Type header, for its charset.
        xml: the document is XHTML, where any element may close itself (`<script src="x"/>`).
    """
    if is_assumed_utf_8(payload, content_type):
        parts = _read(payload, xml)
        if not parts.has_replacements():
            return parts, DecodedText(payload, UTF_8)
        decoded = decode(payload, content_type)
        return (parts if decoded.data is payload else _read(decoded.data, xml)), decoded
    decoded = decode(payload, content_type)
    return _read(decoded.data, xml), decoded


def _read(data: bytes, xml: bool) -> PageParts:
    if xml:
        data = _SELF_CLOSED.sub(rb"<\1\2></\1>", data)
    tree, faults = parse_html(data)
    root = tree.root
    parts = walk(root, *_marked(root)) if root is not None else PageParts()
    if root is not None:
        attributes = root.attributes
        parts.set_language(attributes.get("lang") or attributes.get("xml:lang") or "")
    parts.faults.extend(faults)
    return parts


def _marked(root: Node) -> tuple[frozenset[int], frozenset[int]]:
    """The addresses of the elements that an attribute hides, and of the listings with links or
    images in them: few, so asking for them all at once spares the walk reading attributes and
    asking for each listing.
    """
    unseen: list[int] = []
    linked: list[int] = []
    for node in root.css('[hidden],[style*="display" i],pre:has(a,img)'):
        if node.tag_id == _PRE:
            linked.append(node.mem_id)
        elif is_hidden(node.attributes):
            unseen.append(node.mem_id)
    return frozenset(unseen), frozenset(linked)
