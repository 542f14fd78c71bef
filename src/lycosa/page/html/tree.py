"""HTML parsing and the tag ids of elements.

No other module imports selectolax: `parse_html` limits the inputs on which the time and memory of
lexbor depend (`lycosa.page.html.nesting`).
"""

from __future__ import annotations

from typing import Final

from selectolax.lexbor import LexborDocumentOptions
from selectolax.lexbor import LexborHTMLParser as Tree
from selectolax.lexbor import LexborNode as Node

from lycosa.page.html.nesting import bounded

__all__ = ["Node", "Tree", "parse_html"]


def parse_html(markup: bytes | str) -> tuple[Tree, tuple[str, ...]]:
    """Parse a document or fragment (bytes are UTF-8). Return the tree and the faults of limiting
    it; never raises.
    """
    data, faults = bounded(markup.encode("utf-8", "replace") if isinstance(markup, str) else markup)
    return Tree(data, options=LexborDocumentOptions.WO_EVENTS), faults


def _ids(names: str) -> frozenset[int]:
    return frozenset(TAG[name] for name in names.split())


_BLOCKS = """
    address article aside blockquote body caption center colgroup dd details dialog dir div dl
    dt fieldset figcaption figure footer form frameset h1 h2 h3 h4 h5 h6 header hgroup hr html
    legend li main menu nav ol p section summary table tbody tfoot thead tr ul optgroup option
    listing plaintext xmp button
"""
_CELLS = "td th"
_SPECIAL = """
    a area base br frame iframe img link meta noscript pre script style template title time wbr
    svg select textarea datalist noframes noembed audio video rt rp
    embed object
"""
_MARKUP = "b code del em i input kbd math s samp span strong tt"
_parser, _ = parse_html("")
TAG: Final = {
    name: _parser.create_node(name).tag_id
    for name in f"{_BLOCKS} {_CELLS} {_SPECIAL} {_MARKUP} body".split()
}
"""Name -> tag id of lexbor; the numbers change between its releases."""

TEXT: Final = 2  # LXB_TAG__TEXT
BLOCKS: Final = _ids(_BLOCKS)  # begin and end a line
CELLS: Final = _ids(_CELLS)
SPECIAL: Final = _ids(_SPECIAL)
HEADINGS: Final = _ids("h1 h2 h3 h4 h5 h6")
# blocks that are no regions
ITEMS: Final = _ids("li tr dt dd option optgroup hr legend thead tbody tfoot colgroup")
# their content is not part of the article
AWAY_TAGS: Final = _ids("nav aside footer form menu dialog button")
# nothing of interest in them; the readings of ruby would split the words that they are above
UNSEEN: Final = _ids("style template select textarea datalist noembed rt rp")
# their text is not shown, their links are links
UNSEEN_BUT_LINKED: Final = _ids("svg audio video")
