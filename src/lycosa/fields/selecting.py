"""Select elements of a page, and read their texts: CSS by lexbor, XPath by lxml.

CSS selects in the tree that the parser of pages built. XPath has a tree of its own, built by lxml
from the same bytes when the first XPath selector of a page is used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, Protocol

from lycosa.config.fields import REGULAR_EXPRESSIONS
from lycosa.core.errors import WorkError
from lycosa.page.html.nesting import bounded
from lycosa.page.html.tree import BLOCKS, CELLS, TAG, TEXT, Node, Tree
from lycosa.page.page_parts import HtmlTree

_URL_ATTRIBUTES = ("href", "src", "content")
_WRITTEN_URL = re.compile(r"\s*(?:[a-z][a-z0-9+.-]*:)?//", re.IGNORECASE)
_HTML = TAG["html"]
_SEPARATING = BLOCKS | CELLS | {TAG["br"]}
_HIDDEN = frozenset({TAG["script"], TAG["style"], TAG["template"]})
_SEPARATING_NAMES = frozenset(name for name, tag in TAG.items() if tag in _SEPARATING)
_HIDDEN_NAMES = frozenset(name for name, tag in TAG.items() if tag in _HIDDEN)


class Selecting(Protocol):
    """A selector language with its own type of elements.

    XPath also selects strings.
    """

    def select(self, element: Any, selector: str) -> Sequence[Any]:
        """Return the selected elements inside an element, in document order."""
        ...

    def first(self, element: Any, selector: str) -> Any | None:
        """Return the first selected element inside an element, or None."""
        ...

    def text(self, element: Any) -> str:
        """Return the text of an element, with spaces between blocks."""
        ...

    def attribute(self, element: Any, name: str) -> str | None:
        """Return the value of an attribute; None if it is missing."""
        ...

    def html(self, element: Any) -> str:
        """Return an element as HTML."""
        ...


class CssSelecting:
    """CSS selectors in the tree of lexbor."""

    def select(self, element: Node, selector: str) -> Sequence[Node]:
        if selector.isalnum() and element.tag_id == _HTML:
            tree: Tree = element.parser  # for a single name, 30 times as fast as a selector
            return tree.tags(selector)
        nodes = element.css(selector)
        if nodes and _is_outer(nodes[0], element):
            nodes = nodes[1:]
        if "," in selector:  # a node that several selectors of a list select
            return list({node.mem_id: node for node in nodes}.values())
        return nodes

    def first(self, element: Node, selector: str) -> Node | None:
        node = element.css_first(selector)
        if node is not None and _is_outer(node, element):
            return next(iter(self.select(element, selector)), None)
        return node

    def text(self, element: Node) -> str:
        child = element.first_child
        if child is None:
            return ""
        if child.tag_id == TEXT and child.next is None:
            return child.text_content or ""
        return "".join(_pieces(child))

    def attribute(self, element: Node, name: str) -> str | None:
        attributes = element.attributes
        if name in attributes:
            return attributes[name] or ""
        return None

    def html(self, element: Node) -> str:
        return element.html or ""


def _is_outer(node: Node, element: Node) -> bool:
    """Return whether a node is the element itself, which lexbor selects too. The root counts as
    inside its page.
    """
    return node.mem_id == element.mem_id and node.tag_id != _HTML


def _pieces(node: Node) -> Iterator[str]:
    """Yield the texts of a node and of its following siblings."""
    stack: list[Node] = []
    while True:
        tag = node.tag_id
        if tag == TEXT:
            yield node.text_content or ""
        elif tag not in _HIDDEN:
            if tag in _SEPARATING:
                yield " "
            child = node.first_child
            if child is not None:
                stack.append(node)
                node = child
                continue
        following = node.next
        while following is None:
            if not stack:
                return
            ended = stack.pop()
            if ended.tag_id in _SEPARATING:
                yield " "
            following = ended.next
        node = following


class XpathSelecting:
    """XPath expressions in lxml's tree. Values other than elements are texts."""

    def select(self, element: Any, selector: str) -> Sequence[Any]:
        try:
            selected = _xpath(selector)(element)
        except _etree().XPathError:  # the page exceeds a limit of libxml2
            return []
        if isinstance(selected, list):
            return [each for each in selected if isinstance(each, str) or hasattr(each, "tag")]
        if isinstance(selected, float):
            return [] if selected != selected else [f"{selected:.15g}"]
        return [str(selected).lower() if isinstance(selected, bool) else selected]

    def first(self, element: Any, selector: str) -> Any | None:
        return next(iter(self.select(element, selector)), None)

    def text(self, element: Any) -> str:
        if isinstance(element, str):
            return element
        if not isinstance(element.tag, str):  # a comment
            return element.text or ""
        return "".join(_lxml_pieces(element))

    def attribute(self, element: Any, name: str) -> str | None:
        return None if isinstance(element, str) else element.get(name)

    def html(self, element: Any) -> str:
        if isinstance(element, str):
            return element
        return str(_etree().tostring(element, method="html", encoding="unicode", with_tail=False))


def _lxml_pieces(element: Any) -> Iterator[str]:
    for event, part in _etree().iterwalk(element, events=("start", "end", "comment", "pi")):
        hidden = part is not element and part.tag in _HIDDEN_NAMES
        if event == "start":
            yield " " if part.tag in _SEPARATING_NAMES else ""
            if not hidden:
                yield part.text or ""
        elif part is not element:
            yield " " if part.tag in _SEPARATING_NAMES else ""
            yield part.tail or ""


@cache
def _xpath(selector: str) -> Callable[[Any], Any]:
    compiled: Callable[[Any], Any] = _etree().XPath(
        selector, namespaces=REGULAR_EXPRESSIONS, smart_strings=False
    )
    return compiled


@cache
def _etree() -> Any:
    try:
        from lxml import etree
    except ImportError:
        raise WorkError("XPath selectors require lxml: pip install 'lycosa[xpath]'") from None
    return etree


def xpath_root(tree: HtmlTree) -> Any | None:
    """Return the root of lxml's tree, as Parsel; None for an empty document."""
    etree = _etree()
    parser = etree.HTMLParser(recover=True, encoding="utf-8", huge_tree=True, no_network=True)
    data, _ = bounded(tree.data.replace(b"\0", b""))
    try:
        return etree.fromstring(data or b"<html/>", parser=parser)
    except etree.LxmlError:
        return None


def url_of(selecting: Selecting, element: Any) -> str | None:
    """Return the URL that an element refers to or has as its text; a selected string as it is."""
    for name in _URL_ATTRIBUTES:
        value = selecting.attribute(element, name)
        if value is not None:
            return value
    text = selecting.text(element)
    return text if isinstance(element, str) or _WRITTEN_URL.match(text) else None


CSS, XPATH = CssSelecting(), XpathSelecting()
