"""The one walk over the tree: everything a page says, collected in document order.

The walk uses `first_child` and `next` with a stack of its own, so that depth costs memory only, whole subtrees can be skipped,
and elements have an end. It decides nothing about the page: `lycosa.page.links`, `.parse` and `.main_text` do.
"""

from __future__ import annotations

from typing import Any

from selectolax.lexbor import LexborNode

from lycosa.core.records import LinkKind
from lycosa.page.found import ALT, ANCHOR_LENGTH, Found, fold
from lycosa.page.head import read_image, read_special
from lycosa.page.marks import AWAY, NEUTRAL, NEVER, is_hidden, mark_of_element
from lycosa.page.tags import AWAY_TAGS, BLOCKS, CELLS, HEADINGS, ITEMS, SPECIAL, TAG, TEXT, UNSEEN, UNSEEN_BUT_LINKED

CELL_LENGTH = 80  # characters from which a table cell is a block of its own
PERMALINKS = frozenset("¶#§🔗∞⚓")
_ANCHOR_PIECES = 200  # text nodes read for an anchor
_BREAK = "\0"  # stands for <br> among the pieces of a line; HTML text cannot hold it

# What starts: any other element is inline and says nothing. The first four are block elements.
_BLOCK, _AWAY_BLOCK, _CAPTION, _ARTICLE, _ITEM, _HEADING, _LINK, _SPAN, _CELL, _BR, _IMAGE, _PRE, _SKIP, _HIDE, _SPECIAL, _INLINE = range(
    16
)
_STARTS = (
    dict.fromkeys(SPECIAL, _SPECIAL)
    | dict.fromkeys(BLOCKS, _BLOCK)
    | dict.fromkeys(AWAY_TAGS, _AWAY_BLOCK)
    | dict.fromkeys(ITEMS, _ITEM)
    | dict.fromkeys(HEADINGS, _HEADING)
    | dict.fromkeys(CELLS, _CELL)
    | dict.fromkeys(UNSEEN, _SKIP)
    | dict.fromkeys(UNSEEN_BUT_LINKED, _HIDE)
    | {TAG["figcaption"]: _CAPTION, TAG["article"]: _ARTICLE, TAG["span"]: _SPAN, TAG["a"]: _LINK, TAG["br"]: _BR}
    | {TAG["wbr"]: _SKIP, TAG["img"]: _IMAGE, TAG["pre"]: _PRE}
)
# What ends: only elements that have children come to an end.
_END_BLOCK, _END_HEADING, _END_PRE, _END_LINK, _END_CELL, _END_HIDDEN = range(1, 7)

_A = LinkKind.A.value
_H1 = TAG["h1"]


def walk(root: LexborNode) -> Found:
    """Visit everything under `root` once. Never raises, takes time in proportion to the tree.

    Hot path (bench/extract.py guards it), hence one long function: a call for each node would double its cost.
    """
    found = Found()
    links, elements = found.links, found.elements
    starts_of = _STARTS.get
    pieces: list[str] = []  # text as written, of the whole page; a line is a slice of it
    alts: list[str] = []  # alternative texts of images in the current block
    start = 0  # where in `pieces` the current line begins
    link_size = 0  # characters of the current block that stand in links
    element = 0  # the block element around: an index into `elements`
    block_tag = 0  # the tag that began the current block, 0 in what follows the end of one
    hidden = in_links = 0  # how many of these are open
    link_alt = ""  # of the first image in the current link
    stack: list[LexborNode] = []
    ends: list[tuple[int, int, int, Any]] = []  # depth, what ends, block element to return to, what it needs
    end_depth = -1
    node = root
    while True:
        tag = node.tag_id
        if tag == TEXT:
            text = node.text_content
            if text and (len(pieces) > start or not text.isspace()):
                pieces.append(text)
                if in_links:
                    link_size += len(text)
        else:
            starts = starts_of(tag, _INLINE)
            end = 0
            saved: Any = None
            outer = element
            descend = True
            if starts <= _ARTICLE:
                if (len(pieces) > start or alts) and not hidden:
                    _flush(found, pieces, start, link_size, element, block_tag, alts)
                    start = len(pieces)
                    link_size = 0
                block_tag = tag
                end = _END_BLOCK
                mark = NEUTRAL
                if starts != _BLOCK:
                    if starts == _ARTICLE:
                        found.has_article = True
                    else:
                        mark = AWAY if starts == _AWAY_BLOCK else NEVER
                attributes = node.attributes
                if attributes:
                    mark = mark or mark_of_element(attributes)
                    if "hidden" in attributes or ("style" in attributes and is_hidden(attributes)):
                        end = _END_HIDDEN
                        saved = len(pieces), link_size
                        hidden += 1
                element = len(elements)
                elements.append((outer, mark))
            elif starts == _ITEM:  # ends where the next item or the list ends: needs no end of its own
                if (len(pieces) > start or alts) and not hidden:
                    _flush(found, pieces, start, link_size, element, block_tag, alts)
                    start = len(pieces)
                    link_size = 0
                block_tag = tag
                attributes = node.attributes
                if attributes and ("hidden" in attributes or ("style" in attributes and is_hidden(attributes))):
                    end = _END_HIDDEN
                    saved = len(pieces), link_size
                    hidden += 1
            elif starts == _LINK:
                attributes = node.attributes
                if "href" in attributes or "xlink:href" in attributes:
                    end = _END_LINK
                    saved = len(links), attributes, len(pieces), link_alt
                    links.append((_A, "", "", ""))
                    link_alt = ""
                    in_links += 1
            elif starts == _INLINE:
                pass
            elif starts == _HEADING:
                if (len(pieces) > start or alts) and not hidden:
                    _flush(found, pieces, start, link_size, element, block_tag, alts)
                    start = len(pieces)
                    link_size = 0
                block_tag = tag
                end = _END_HEADING
                saved = len(pieces), tag
            elif starts == _SPAN:
                attributes = node.attributes
                if attributes and ("hidden" in attributes or ("style" in attributes and is_hidden(attributes))):
                    end = _END_HIDDEN
                    saved = len(pieces), link_size
                    hidden += 1
            elif starts == _SPECIAL:
                descend = read_special(node, tag, found, hidden > 0)
            elif starts == _IMAGE:
                descend = False
                alt = read_image(node.attributes, links)
                if alt:
                    link_alt = link_alt or alt
                    if not hidden:
                        alts.append(alt)
            elif starts == _BR:
                pieces.append(_BREAK)
                descend = False
            elif starts == _CELL:
                attributes = node.attributes
                mark = mark_of_element(attributes) if attributes else NEUTRAL
                end = _END_CELL
                if mark != NEUTRAL and not hidden:
                    _flush(found, pieces, start, link_size, element, block_tag, alts)
                    start = len(pieces)
                    link_size = 0
                    end = _END_BLOCK
                    element = len(elements)
                    elements.append((outer, mark))
                pieces.append(" ")
                saved = len(pieces)
            elif starts == _SKIP:
                descend = False
            elif starts == _HIDE:
                end = _END_HIDDEN
                saved = len(pieces), link_size
                hidden += 1
            elif not hidden:  # a listing
                _flush(found, pieces, start, link_size, element, block_tag, alts)
                start = len(pieces)
                link_size = 0
                element = len(elements)
                elements.append((outer, NEUTRAL))
                block_tag = tag
                if node.css_first("a,img") is None:  # read at once: the spans of coloured code are many
                    pieces.append(node.text().replace("\n", _BREAK))
                    _flush(found, pieces, start, 0, element, block_tag, alts)
                    start = len(pieces)
                    element = outer
                    descend = False
                else:
                    end = _END_PRE
                    saved = start
            if descend:
                child = node.first_child
                if child is not None:
                    if end:
                        end_depth = len(stack)
                        ends.append((end_depth, end, outer, saved))
                    stack.append(node)
                    node = child
                    continue
            if end:  # without children it ends at once, and has nothing to give
                element = outer
                if end == _END_HIDDEN:
                    hidden -= 1
                elif end == _END_LINK:
                    in_links -= 1
                    links[saved[0]] = _link(saved[1], "")
                    link_alt = saved[3]
        following = node.next
        while following is None:
            if not stack:
                if not hidden:
                    _flush(found, pieces, start, link_size, element, block_tag, alts)
                return found
            ended = stack.pop()
            if len(stack) == end_depth:
                _, end, outer, saved = ends.pop()
                end_depth = ends[-1][0] if ends else -1
                if end < _END_LINK:
                    if end == _END_HEADING:
                        if not hidden:
                            _heading(found, pieces, saved[0], saved[1] == _H1)
                    elif end == _END_PRE:
                        first = max(saved, start)
                        pieces[first:] = [piece.replace("\n", _BREAK) for piece in pieces[first:]]
                    if (len(pieces) > start or alts) and not hidden:
                        _flush(found, pieces, start, link_size, element, block_tag, alts)
                        start = len(pieces)
                        link_size = 0
                    element = outer
                    block_tag = 0
                elif end == _END_LINK:
                    in_links -= 1
                    index, attributes, first, outer_alt = saved
                    anchor = _anchor(pieces, first, found) if len(pieces) > first else ""
                    if anchor in PERMALINKS and start <= first and (attributes.get("href") or "")[:1] == "#":
                        link_size -= sum(map(len, pieces[first:]))
                        del pieces[first:]
                        anchor = ""
                    links[index] = _link(attributes, anchor or link_alt)
                    link_alt = outer_alt
                elif end == _END_CELL:
                    pieces.append(" ")
                    if not hidden and sum(map(len, pieces[max(saved, start) :])) > CELL_LENGTH:
                        _flush(found, pieces, start, link_size, element, block_tag, alts)
                        start = len(pieces)
                        link_size = 0
                    element = outer
                else:  # hidden: what was collected is dropped, except from links that ended in it
                    hidden -= 1
                    del pieces[saved[0] :]
                    link_size = saved[1]
                    element = outer
            following = ended.next if stack else None
        node = following


def _flush(found: Found, pieces: list[str], start: int, link_size: int, element: int, tag: int, alts: list[str]) -> None:
    """Make a block of the current line and what stands in for its images."""
    lines = found.lines
    first = len(lines)
    count = len(pieces) - start
    if count:
        text = pieces[start] if count == 1 else "".join(pieces[start:])
        if _BREAK in text:
            for part in text.split(_BREAK):
                folded = fold(part)
                if folded:
                    lines.append(folded)
            size = sum(map(len, lines[first:]))
        else:
            folded = " ".join(text.split()) if text.isascii() else fold(text)
            size = len(folded)
            if size:
                lines.append(folded)
        if size:
            found.blocks.append((first, len(lines), size, link_size if link_size < size else size, element, tag))
    if alts:
        for alt in alts:
            found.blocks.append((len(lines), len(lines) + 1, len(alt), 0, element, ALT))
            lines.append(alt)
        alts.clear()


def _link(attributes: dict[str, str | None], anchor: str) -> tuple[str, str, str, str]:
    href = attributes.get("href")
    if href is None:
        href = attributes.get("xlink:href") or ""
    rel = attributes.get("rel")
    if not anchor:
        label = attributes.get("aria-label") or attributes.get("title")
        anchor = fold(label)[:ANCHOR_LENGTH] if label else ""
    return _A, href, " ".join(rel.lower().split()) if rel else "", anchor


def _anchor(pieces: list[str], start: int, found: Found) -> str:
    """The text of a link, at most ANCHOR_LENGTH characters. Bounded work: links can be nested."""
    if len(pieces) == start + 1 and len(pieces[start]) < ANCHOR_LENGTH:
        return fold(pieces[start])
    text = "".join([piece[: 2 * ANCHOR_LENGTH] for piece in pieces[start : start + _ANCHOR_PIECES]])
    text = fold(text.replace(_BREAK, " "))
    if len(text) <= ANCHOR_LENGTH:
        return text
    found.anchors_cut += 1
    return text[:ANCHOR_LENGTH].rstrip()


def _heading(found: Found, pieces: list[str], start: int, is_h1: bool) -> None:
    if len(found.headings) < found.MAX_HEADINGS:
        text = fold("".join(pieces[start:]).replace(_BREAK, " "))
        if text:
            found.headings.append(text)
            if is_h1 and not found.headline:
                found.headline = text
