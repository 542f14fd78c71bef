"""HTML parsing. No other module imports selectolax: `parse_html` bounds what lexbor's time and
memory grow with (`lycosa.page.html.nesting`).
"""

from __future__ import annotations

from selectolax.lexbor import LexborDocumentOptions
from selectolax.lexbor import LexborHTMLParser as Tree
from selectolax.lexbor import LexborNode as Node

from lycosa.page.html.nesting import bounded

__all__ = ["Node", "Tree", "parse_html", "text_of_markup"]


def parse_html(markup: bytes | str) -> tuple[Tree, tuple[str, ...]]:
    """Parse a document or fragment (UTF-8 where it is bytes). Returns the tree and the faults that
    bounding it means; never raises.
    """
    data, faults = bounded(markup.encode("utf-8", "replace") if isinstance(markup, str) else markup)
    return Tree(data, options=LexborDocumentOptions.WO_EVENTS), faults


def text_of_markup(text: str) -> str:
    """The text of a fragment, elements separated by spaces."""
    body = parse_html(text)[0].body
    return body.text(separator=" ") if body is not None else text
