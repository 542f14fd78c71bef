"""HTML in any encoding, parsed once and walked once."""

from __future__ import annotations

import re

from lycosa.page.encoding import DecodedText, decode, is_assumed_utf_8
from lycosa.page.encoding_labels import UTF_8
from lycosa.page.html.blocks import MarkedNodes
from lycosa.page.html.region_classes import is_hidden
from lycosa.page.html.rich_walk import rich_walk
from lycosa.page.html.tree import TAG, Node, parse_html
from lycosa.page.html.walk import walk
from lycosa.page.page_parts import PageParts

_PRE, _NOSCRIPT = TAG["pre"], TAG["noscript"]
_WHOLE = frozenset({TAG["html"], TAG["body"]})
_MARKED = (
    '[hidden],[style*="display" i],pre:has(a,img,br),noscript,[itemscope],[typeof]'
    ",.katex-mathml+.katex-html"  # shows a formula of MathML once more
)
MIN_NOSCRIPT = 400  # characters; notices such as "Please enable JavaScript" are shorter
_SELF_CLOSED = re.compile(
    rb"<(?!(?:area|base|br|col|embed|hr|img|input|link|meta|source|track|wbr|frame"
    rb"|param)[\s/>])([A-Za-z][A-Za-z0-9]*)((?:\s[^<>]*)?)/>"
)

_CDATA = re.compile(
    rb"<(script|style)\b.*?(?:</\1|\Z)|<!\[CDATA\[(.*?)(?:\]\]>|\Z)", re.IGNORECASE | re.DOTALL
)
_WITHOUT_MARKS = bytes.maketrans(b"\1\2", b"  ")
_TEMPLATE = re.compile(rb"<(/?)template\b((?:[^<>\"']|\"[^\"]*\"|'[^']*')*+)>", re.IGNORECASE)


def read_html(
    payload: bytes, content_type: str = "", *, xml: bool = False, marked: bool = False
) -> tuple[PageParts, DecodedText]:
    """Parse an HTML document, and report how it was decoded. Never raises.

    Args:
        content_type: the Content-Type header, for its charset.
        xml: the document is XHTML, where any element may close itself (`<script src="x"/>`).
        marked: record markup too, for Markdown.
    """
    if is_assumed_utf_8(payload, content_type):
        parts = _read(payload, xml, marked)
        if not parts.has_replacements():
            return parts, DecodedText(payload, UTF_8)
        decoded = decode(payload, content_type)
        return (parts if decoded.data is payload else _read(decoded.data, xml, marked)), decoded
    decoded = decode(payload, content_type)
    return _read(decoded.data, xml, marked), decoded


def read_tree(
    payload: bytes, content_type: str = "", *, xml: bool = False
) -> tuple[Node | None, DecodedText]:
    """Return the tree that `read_html` reads, without text and links."""
    if not is_assumed_utf_8(payload, content_type):
        decoded = decode(payload, content_type)
    elif _is_utf_8(payload):
        decoded = DecodedText(payload, UTF_8)
    else:  # whether the text has invalid bytes decides on the encoding
        parts, decoded = read_html(payload, content_type, xml=xml)
        return parts.root, decoded
    markup = _markup(decoded.data, xml)
    tree, _ = parse_html(_unwrapped(markup) if b"shadowrootmode" in markup else markup)
    return tree.root, decoded


def read_fragment(markup: str) -> PageParts:
    """Read HTML that is the text of an element of another document. Never raises."""
    return _read(markup.encode("utf-8", "replace"), False, False)


def _is_utf_8(payload: bytes) -> bool:
    if payload.isascii():
        return True
    try:
        return "\ufffd" not in payload.decode()
    except UnicodeDecodeError:
        return False


def _read(data: bytes, xml: bool, marked: bool) -> PageParts:
    markup = _markup(data, xml)
    parts = _walk(markup, data, marked)
    # looking for them before the first walk would cost every page
    return _walk(_unwrapped(markup), data, marked) if parts.has_shadow_roots else parts


def _walk(markup: bytes, data: bytes, marked: bool) -> PageParts:
    tree, faults = parse_html(markup)
    root = tree.root
    if root is None:
        parts = PageParts()
    else:
        nodes = _mark_nodes(root)
        parts = rich_walk(root, nodes) if marked else walk(root, nodes)
        parts.set_language(_language(root) or _language(tree.body))
        if parts.embedded:  # parsed at once, and not what is embedded in it: time is bounded
            embedded = parse_html("\n".join(parts.embedded))[0].root
            if embedded is not None:
                parts.links += walk(embedded, MarkedNodes()).links
        parts.set_document(root, data, has_items=nodes.has_items)
    parts.faults.extend(faults)
    return parts


def _markup(data: bytes, xml: bool) -> bytes:
    """Return the bytes to parse, without the marks of `lycosa.page.html.lines`."""
    markup = _self_closed(data) if xml else data
    if b"\1" in markup or b"\2" in markup:
        markup = markup.translate(_WITHOUT_MARKS)
    return markup


def _self_closed(data: bytes) -> bytes:
    """Return XHTML as HTML: with end tags for the elements that close themselves, and CDATA as
    text.
    """
    data = _SELF_CLOSED.sub(rb"<\1\2></\1>", data)
    return _CDATA.sub(_escaped, data) if b"<![CDATA[" in data else data


def _escaped(match: re.Match[bytes]) -> bytes:
    text: bytes | None = match[2]
    if text is None:
        return match[0]
    return text.replace(b"&", b"&amp;").replace(b"<", b"&lt;")


def _language(node: Node | None) -> str:
    attributes = node.attributes if node is not None else {}
    return attributes.get("lang") or attributes.get("xml:lang") or ""


def _unwrapped(data: bytes) -> bytes:
    """Return HTML with the content of declared shadow trees (WHATWG HTML section 4.12.3) in place
    of their templates.
    """
    is_shadow: list[bool] = []

    def unwrap(match: re.Match[bytes]) -> bytes:
        if match[1]:
            return b"</shadow-root>" if is_shadow and is_shadow.pop() else match[0]
        is_shadow.append(b"shadowrootmode" in match[2].lower())
        return b"<shadow-root>" if is_shadow[-1] else match[0]

    return _TEMPLATE.sub(unwrap, data)


def _mark_nodes(root: Node) -> MarkedNodes:
    """Find properties of nodes that a tag does not show. There are few such nodes: with one query
    for all of them, the walk need not read attributes.
    """
    hidden: list[int] = []
    linked: list[int] = []
    noscript_length = 0
    has_items = False
    for node in root.css(_MARKED):
        attributes = node.attributes
        has_items = has_items or "itemscope" in attributes or "typeof" in attributes
        if node.tag_id == _PRE:
            linked.append(node.mem_id)
        elif node.tag_id == _NOSCRIPT:
            noscript_length += len(node.text())
        elif node.tag_id in _WHOLE:
            pass  # a script will show the page
        elif is_hidden(attributes) or attributes.get("class") == "katex-html":
            hidden.append(node.mem_id)
    shows_noscript = noscript_length >= MIN_NOSCRIPT and _is_script_shell(root, noscript_length)
    return MarkedNodes(frozenset(hidden), frozenset(linked), shows_noscript, has_items)


def _is_script_shell(root: Node, noscript_length: int) -> bool:
    """Return whether a page shows little text unless its scripts run; `noscript` then has the
    content.
    """
    body = root.css_first("body")
    if body is None:
        return False
    scripts = sum(len(node.text()) for node in body.css("script,style,template"))
    return 2 * noscript_length >= len(body.text()) - scripts
