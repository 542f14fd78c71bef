"""The one walk over the tree: everything a page says, collected in document order.

The walk uses `first_child` and `next` with a stack of its own, so that depth costs memory only,
whole subtrees can be skipped, and elements have an end. It decides nothing about the page:
`lycosa.page.html.links`, `.parse` and `.main_text` do.

Tried in its place on the six sites, none faster (2026-11-22): tokens of the page itself where its
markup is regular (1.25 to 1.5 times as dear, parser saved), or of the tree written out (1.9 and
more); inline tags unwrapped first (1.02 to 1.35); lines folded all at once, or remembered (1.02 to
1.2). Going through the nodes is a sixth of its cost: the rest is what lines, links and blocks take.
"""

from __future__ import annotations

from typing import Any

from lycosa.core.records import LinkKind
from lycosa.page.html.head import read_image, read_special
from lycosa.page.html.lines import (
    BREAK,
    CELL,
    VERBATIM,
    anchor_text,
    flush,
    label,
    other_href,
    rel_tokens,
)
from lycosa.page.html.region_classes import AWAY, NEUTRAL, NEVER, SECTION, mark_of_element
from lycosa.page.html.tags import (
    AWAY_TAGS,
    BLOCKS,
    CELLS,
    HEADINGS,
    ITEMS,
    SPECIAL,
    TAG,
    TEXT,
    UNSEEN,
    UNSEEN_BUT_LINKED,
)
from lycosa.page.html.tree import Node
from lycosa.page.page_parts import ANCHOR_LENGTH, PageParts, fold

CELL_LENGTH = 80  # characters from which a table cell is a block of its own
PERMALINKS = frozenset("¶#§🔗∞⚓")

# What starts; an element that is not listed is inline and says nothing. The first five are block
# elements, the first seven begin a line.
(
    _BLOCK,
    _SECTION,
    _AWAY_BLOCK,
    _CAPTION,
    _ARTICLE,
    _ITEM,
    _HEADING,
    _LINK,
    _SPAN,
    _SPECIAL,
    _IMAGE,
    _BR,
    _CELL,
    _SKIP,
    _HIDE,
    _PRE,
) = range(16)
_STARTS = (
    dict.fromkeys(SPECIAL, _SPECIAL)
    | dict.fromkeys(BLOCKS, _BLOCK)
    | dict.fromkeys(AWAY_TAGS, _AWAY_BLOCK)
    | dict.fromkeys(ITEMS, _ITEM)
    | dict.fromkeys(HEADINGS, _HEADING)
    | dict.fromkeys(CELLS, _CELL)
    | dict.fromkeys(UNSEEN, _SKIP)
    | dict.fromkeys(UNSEEN_BUT_LINKED, _HIDE)
    | {
        TAG["figcaption"]: _CAPTION,
        TAG["section"]: _SECTION,
        TAG["article"]: _ARTICLE,
        TAG["span"]: _SPAN,
        TAG["a"]: _LINK,
        TAG["br"]: _BR,
    }
    | {TAG["wbr"]: _SKIP, TAG["img"]: _IMAGE, TAG["pre"]: _PRE}
)
_STARTS_NOTHING_HIDDEN = {tag: starts for tag, starts in _STARTS.items() if starts != _SPAN}
# What ends: only elements that have children come to an end.
_END_BLOCK, _END_LINK, _END_HEADING, _END_PRE, _END_CELL, _END_HIDDEN = range(6)
_NO_CHILDREN = -2  # instead of an end: the children are not visited

_A = LinkKind.A.value
_H1 = TAG["h1"]
_OPEN = (_A, "", "", "")  # holds the place of a link until its anchor is known


def walk(
    root: Node, unseen: frozenset[int] = frozenset(), linked: frozenset[int] = frozenset()
) -> PageParts:
    """Visit everything under `root` once. Never raises, takes time in proportion to the tree.

    Hot path (bench/extract.py guards it), hence one long function: a call for each node would
    double its cost.

    Args:
        unseen: addresses (`mem_id`) of the elements that an attribute hides. Only regions, items,
            headings and spans are hidden.
        linked: addresses of the listings with links or images in them.
    """
    parts = PageParts()
    links, elements, lines, blocks = parts.links, parts.elements, parts.lines, parts.blocks
    starts_of = (_STARTS if unseen else _STARTS_NOTHING_HIDDEN).get
    pieces: list[str] = []  # the current line, as written
    alts: list[str] = []  # alternative texts of images in the current block
    carried: list[str] = []  # what a line that ended inside the current link gave to its anchor
    link_first = 0  # where in `pieces` the current link begins
    link_alt = ""  # of the first image in the current link
    link_size = 0  # characters of the current block that stand in links
    element = 0  # the block element around: an index into `elements`
    block_tag = 0  # the tag that began the current block, 0 in what follows the end of one
    hidden = in_links = 0  # how many of these are open
    stack: list[Node] = []
    # what ends how, element to return to, what it needs
    ends: list[tuple[Node | None, int, int, Any]] = [(None, 0, 0, None)]
    ends_next: Node | None = None
    node = root
    while True:
        tag = node.tag_id
        if tag == TEXT:
            if pieces or not node.is_empty_text_node:
                text = node.text_content or ""
                pieces.append(text)
                if in_links:
                    link_size += len(text)
        else:
            starts = starts_of(tag)
            if starts is None:
                child = node.first_child
                if child is not None:
                    if child.tag_id == TEXT and child.next is None:
                        if pieces or not child.is_empty_text_node:
                            text = child.text_content or ""
                            pieces.append(text)
                            if in_links:
                                link_size += len(text)
                    else:
                        stack.append(node)
                        node = child
                        continue
            else:
                end = -1
                saved: Any = None
                outer = element
                if starts <= _HEADING:
                    if (pieces or alts) and not hidden:
                        if in_links:
                            carried += pieces[link_first:]
                            carried.append(" ")
                            link_first = 0
                        flush(lines, blocks, pieces, link_size, element, block_tag, alts)
                        link_size = 0
                    block_tag = tag
                if starts <= _ARTICLE:
                    end = _END_BLOCK
                    mark = NEUTRAL
                    if starts != _BLOCK:
                        if starts == _ARTICLE:
                            parts.has_article = True
                        elif starts != _SECTION:
                            mark = AWAY if starts == _AWAY_BLOCK else NEVER
                    attributes = node.attributes
                    if attributes:
                        mark = mark or mark_of_element(attributes)
                        if unseen and node.mem_id in unseen:
                            end = _END_HIDDEN
                    element = len(elements)
                    elements.append((outer, mark or (SECTION if starts == _SECTION else NEUTRAL)))
                elif starts <= _HEADING:
                    if starts == _HEADING:
                        end = _END_HEADING
                        saved = len(lines), tag
                    # An item ends where the next item or the list ends: it needs no end of its own.
                    if unseen and node.mem_id in unseen:
                        end = _END_HIDDEN
                elif starts == _LINK:
                    attributes = node.attributes
                    if "href" in attributes or "xlink:href" in attributes:
                        # Most links hold one text, perhaps in an inline element or two: they end
                        # here.
                        inner = 0
                        child = node.first_child
                        while (
                            child is not None
                            and child.next is None
                            and (inner := child.tag_id) != TEXT
                            and starts_of(inner) is None
                        ):
                            child = child.first_child
                        if child is None or (inner == TEXT and child.next is None):
                            href = attributes.get("href") or ""
                            anchor = ""
                            if child is not None:
                                text = child.text_content or ""
                                anchor = (
                                    fold(text)
                                    if len(text) < ANCHOR_LENGTH
                                    else anchor_text([text], parts)
                                )
                                if anchor in PERMALINKS and href[:1] == "#":
                                    anchor = ""
                                elif pieces or anchor or not child.is_empty_text_node:
                                    pieces.append(text)
                                    link_size += len(text)
                            links.append(
                                (
                                    _A,
                                    href or other_href(attributes),
                                    rel_tokens(attributes) if "rel" in attributes else "",
                                    anchor or label(attributes),
                                )
                            )
                            end = _NO_CHILDREN
                        else:
                            end = _END_LINK
                            saved = len(links), attributes, link_first, link_alt, carried
                            links.append(_OPEN)
                            link_first = len(pieces)
                            link_alt = ""
                            if carried:
                                carried = []
                            in_links += 1
                elif starts == _SPAN:
                    if node.mem_id in unseen:
                        end = _END_HIDDEN
                elif starts == _SPECIAL:
                    if not read_special(node, tag, parts, hidden > 0):
                        end = _NO_CHILDREN
                elif starts == _IMAGE:
                    end = _NO_CHILDREN
                    alt = read_image(node.attributes, links)
                    if alt:
                        link_alt = link_alt or alt
                        if not hidden:
                            alts.append(alt)
                elif starts == _BR:
                    pieces.append(BREAK)
                    end = _NO_CHILDREN
                elif starts == _CELL:
                    attributes = node.attributes
                    mark = mark_of_element(attributes) if attributes else NEUTRAL
                    end = _END_CELL
                    if mark != NEUTRAL and not hidden:
                        flush(lines, blocks, pieces, link_size, element, block_tag, alts)
                        link_size = 0
                        end = _END_BLOCK
                        element = len(elements)
                        elements.append((outer, mark))
                    pieces.append(CELL)
                    saved = len(pieces)
                elif starts == _SKIP:
                    end = _NO_CHILDREN
                elif starts == _HIDE:
                    end = _END_HIDDEN
                elif not hidden:  # a listing
                    flush(lines, blocks, pieces, link_size, element, block_tag, alts)
                    link_size = 0
                    block_tag = tag
                    # read at once: the spans of coloured code are many
                    if not linked or node.mem_id not in linked:
                        pieces.append(VERBATIM + node.text().replace("\n", VERBATIM))
                        flush(lines, blocks, pieces, 0, element, block_tag, alts)
                        block_tag = 0
                        end = _NO_CHILDREN
                    else:
                        end = _END_PRE
                if end == _END_HIDDEN:
                    saved = len(pieces), link_size
                    hidden += 1
                if end != _NO_CHILDREN:
                    child = node.first_child
                    if child is not None:
                        if end >= 0:
                            ends_next = node
                            ends.append((node, end, outer, saved))
                        stack.append(node)
                        node = child
                        continue
                    # Without children it ends at once, and has nothing to give.
                    element = outer
                    if end == _END_HIDDEN:
                        hidden -= 1
                    elif end == _END_LINK:
                        in_links -= 1
                        attributes = saved[1]
                        links[saved[0]] = (
                            _A,
                            attributes.get("href") or other_href(attributes),
                            rel_tokens(attributes),
                            label(attributes),
                        )
                        link_first, link_alt, carried = saved[2:]
        following = node.next
        while following is None:
            if not stack:
                if not hidden:
                    flush(lines, blocks, pieces, link_size, element, block_tag, alts)
                return parts
            ended = stack.pop()
            if ended is ends_next:
                _, end, outer, saved = ends.pop()
                ends_next = ends[-1][0]
                if end == _END_BLOCK:
                    if (pieces or alts) and not hidden:
                        if in_links:
                            carried += pieces[link_first:]
                            carried.append(" ")
                            link_first = 0
                        flush(lines, blocks, pieces, link_size, element, block_tag, alts)
                        link_size = 0
                    element = outer
                    block_tag = 0
                elif end == _END_LINK:
                    in_links -= 1
                    index, attributes, outer_first, outer_alt, outer_carried = saved
                    if (
                        not carried
                        and len(pieces) == link_first + 1
                        and len(anchor := pieces[-1]) < ANCHOR_LENGTH
                    ):
                        anchor = fold(anchor)
                    else:
                        anchor = anchor_text(carried + pieces[link_first:], parts)
                    if (
                        anchor in PERMALINKS
                        and not carried
                        and (attributes.get("href") or "")[:1] == "#"
                    ):
                        link_size -= sum(map(len, pieces[link_first:]))
                        del pieces[link_first:]
                        anchor = ""
                    links[index] = (
                        _A,
                        attributes.get("href") or other_href(attributes),
                        rel_tokens(attributes) if "rel" in attributes else "",
                        anchor or link_alt or label(attributes),
                    )
                    link_first, link_alt, carried = outer_first, outer_alt, outer_carried
                elif end == _END_CELL:
                    pieces.append(" ")
                    # Nearly all cells are one piece, and the space.
                    if not hidden and (
                        len(pieces[saved]) >= CELL_LENGTH
                        if len(pieces) == saved + 2
                        else sum(map(len, pieces[saved:])) > CELL_LENGTH
                    ):
                        flush(lines, blocks, pieces, link_size, element, block_tag, alts)
                        link_size = 0
                elif end == _END_HIDDEN:
                    # what was collected is dropped, except from links that ended in it
                    hidden -= 1
                    del pieces[saved[0] :]
                    link_size = saved[1]
                    element = outer
                elif not hidden:  # a heading or a listing
                    if end == _END_PRE:
                        pieces[:] = [VERBATIM, *(piece.replace("\n", VERBATIM) for piece in pieces)]
                    if in_links:
                        carried += pieces[link_first:]
                        carried.append(" ")
                        link_first = 0
                    flush(lines, blocks, pieces, link_size, element, block_tag, alts)
                    link_size = 0
                    block_tag = 0
                    if end == _END_HEADING:
                        parts.add_heading(" ".join(lines[saved[0] :]), saved[1] == _H1)
            following = ended.next
        node = following
