"""Markdown of an HTML page, of its main text or of all visible text.

Selects blocks of `rich_walk`; `lycosa.page.markdown` writes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

from lycosa.core.errors import UsageError
from lycosa.page.html.block_features import IN_EXCLUDED, element_flags
from lycosa.page.html.document import read_html
from lycosa.page.html.lines import BREAK
from lycosa.page.html.links import base_url
from lycosa.page.html.main_text import MainText, main_text
from lycosa.page.html.markup import (
    RichBlock,
)
from lycosa.page.html.rich_walk import listing_text
from lycosa.page.html.tree import TAG, Node
from lycosa.page.markdown import blocks_markdown
from lycosa.page.media import MediaFormat, format_of
from lycosa.page.page_parts import PageParts
from lycosa.url.normalise import LinkResolver

_LEVELS = {TAG[f"h{level}"]: level for level in range(1, 7)}
_H1 = TAG["h1"]
_SECTION = TAG["section"]
MAX_GAP = 12  # unselected blocks between two selected ones that may belong to them
MIN_SHARE = 0.5  # of an element's text that is main text, from which all of it becomes Markdown


class MarkdownMode(StrEnum):
    """The part of a page that becomes Markdown, and the form of its links."""

    MAIN = "main"
    FULL = "full"
    CITATIONS = "citations"  # the main text; links are numbered references at the end


def markdown_mode(name: str) -> MarkdownMode:
    """Return the mode of a name. Raises UsageError."""
    try:
        return MarkdownMode(name)
    except ValueError:
        raise UsageError(f"mode {name!r}: choose {', '.join(MarkdownMode)}") from None


def html_markdown(payload: bytes, url: str, content_type: str, mode: MarkdownMode) -> str | None:
    """Return an HTML page as Markdown; None if it is not HTML.

    Args:
        payload: the decoded body.
        url: of the page, normalised.
    """
    form = format_of(content_type, payload)
    if form not in (MediaFormat.HTML, MediaFormat.XHTML):
        return None
    is_xml = form is MediaFormat.XHTML
    return page_markdown(payload, url=url, content_type=content_type, mode=mode, xml=is_xml)


def page_markdown(
    payload: bytes,
    *,
    url: str,
    content_type: str = "",
    mode: MarkdownMode = MarkdownMode.MAIN,
    xml: bool = False,
) -> str:
    """Return an HTML page as Markdown; "" if it has no text. Never raises on any bytes.

    Args:
        payload: the decoded body.
        url: of the page, normalised; links become absolute.
        content_type: the Content-Type header, for its charset.
        xml: the document is XHTML.
    """
    parts, decoded = read_html(payload, content_type, xml=xml, marked=True)
    main = MainText() if mode is MarkdownMode.FULL else main_text(parts, url)
    resolver = LinkResolver(base_url(url, parts.base), decoded.charset or "utf-8")
    return parts_markdown(parts, main, resolver, mode)


def parts_markdown(
    parts: PageParts, main: MainText, resolver: LinkResolver, mode: MarkdownMode
) -> str:
    """Return a page as Markdown. `parts`: with `marked` blocks."""
    if mode is MarkdownMode.FULL:
        numbers: Sequence[int] = range(len(parts.blocks))
    else:
        numbers = _selected(parts, main)
    blocks = _rich_blocks(parts, numbers)
    return blocks_markdown(blocks, resolver, citations=mode is MarkdownMode.CITATIONS)


def _selected(parts: PageParts, main: MainText) -> list[int]:
    """Return the numbers of the blocks that become Markdown, in order.

    The main text has no title and no lists of links. Markdown has them, where they are in the
    element that contains the main text.
    """
    starts = {block[0] for block in main.blocks}
    blocks = parts.blocks
    selected = {number for number, block in enumerate(blocks) if block[0] in starts}
    if not selected:
        return []
    flags = element_flags(parts)
    own = [number for number, block in enumerate(blocks) if not flags[block[4]] & IN_EXCLUDED]
    if main.page_type != "forum":  # between posts are the names and ranks of their authors
        _widen(parts, selected, own, main.page_type)
    titles = [number for number in own if blocks[number][5] == _H1]
    if titles and not selected.intersection(titles):
        selected.update([number for number in titles if number < min(selected)][-1:])
    return sorted(selected)


def _widen(parts: PageParts, selected: set[int], own: Sequence[int], page_type: str) -> None:
    """Add the own blocks of the element around the selected ones, or those in short gaps if that
    has much other text.
    """
    blocks = parts.blocks
    size = _size(parts, selected)
    for element in _elements_around(parts, selected, page_type):
        end = _end_of(parts, element)
        inside = [number for number in own if element <= blocks[number][4] < end]
        if size >= MIN_SHARE * _size(parts, inside):
            selected.update(inside)
            return
    selected.update(_gaps(range(len(blocks)), selected, set(own)))


def _elements_around(parts: PageParts, numbers: Iterable[int], page_type: str) -> list[int]:
    """Return the innermost element around all blocks; on a page of documentation, where a section
    may outweigh the others, first the element that has all sections.
    """
    elements = parts.elements
    around = {parts.blocks[number][4] for number in numbers}
    top = min(around)
    for element in around:
        while element != top:  # elements are numbered as they begin
            if element > top:
                element = elements[element][0]
            else:
                top = elements[top][0]
    wide = top
    while page_type == "documentation" and elements[wide][2] == _SECTION:
        wide = elements[wide][0]
    return [top] if wide == top else [wide, top]


def _end_of(parts: PageParts, element: int) -> int:
    """Return the number after the last descendant of an element."""
    end = element + 1
    while end < len(parts.elements) and parts.elements[end][0] >= element:
        end += 1
    return end


def _size(parts: PageParts, numbers: Iterable[int]) -> int:
    return sum(parts.blocks[number][2] for number in numbers)


def _gaps(visible: Sequence[int], selected: set[int], allowed: set[int]) -> list[int]:
    """Return the allowed blocks in short gaps between selected ones."""
    gaps: list[int] = []
    skipped: list[int] = []
    seen = False
    for number in visible:
        if number in selected:
            if seen and len(skipped) <= MAX_GAP:
                gaps += skipped
            skipped.clear()
            seen = True
        elif number in allowed:
            skipped.append(number)
    return gaps


def _rich_blocks(parts: PageParts, numbers: Sequence[int]) -> list[RichBlock]:
    """Return the blocks of these numbers, and the images between them."""
    if not numbers or parts.marked is None:
        return []
    marked = parts.marked.blocks
    images = [
        (number, image)
        for number, image in parts.marked.images
        if numbers[0] < number <= numbers[-1]
    ]
    blocks: list[RichBlock] = []
    listing: Node | None = None
    for number in numbers:
        while images and images[0][0] <= number:
            image = images.pop(0)[1]
            blocks.append(RichBlock(image[0], image[1]))
        first, last, _, _, _, tag = parts.blocks[number]
        pieces: Sequence[str]
        container, pieces, around = marked[number]
        if around is not None:
            if around is not listing:
                blocks.append(RichBlock(container, (), listing_text(around)))
            listing = around
        else:
            if not pieces:
                lines = parts.lines[first:last]
                pieces = [piece for line in lines for piece in (BREAK, line)][1:]
            blocks.append(RichBlock(container, pieces, None, _LEVELS.get(tag, 0)))
    return blocks
