"""From pieces of text, as the walk meets them, to lines, blocks and anchors."""

from __future__ import annotations

from lycosa.page.found import ALT, ANCHOR_LENGTH, Found, FoundBlock, fold

BREAK = "\0"  # stands for <br> among the pieces of a line; HTML text cannot hold it
_ANCHOR_PIECES = 200  # text nodes read for an anchor


def flush(lines: list[str], blocks: list[FoundBlock], pieces: list[str], link_size: int, element: int, tag: int, alts: list[str]) -> None:
    """Make a block of the current line and what stands in for its images; both are empty after it. Hot path: some hundred a page."""
    first = len(lines)
    text = "".join(pieces)
    pieces.clear()
    if BREAK in text:
        for part in text.split(BREAK):
            part = part.strip()
            if "  " in part or not part.isprintable():
                part = fold(part)
            if part:
                lines.append(part)
        size = sum(map(len, lines[first:]))
    else:
        text = text.strip()
        if "  " in text or not text.isprintable():  # asked here: most lines need no folding, and a call costs as much as both questions
            text = fold(text)
        size = len(text)
        if size:
            lines.append(text)
    if size:
        blocks.append((first, len(lines), size, link_size if link_size < size else size, element, tag))
    if alts:
        for alt in alts:
            blocks.append((len(lines), len(lines) + 1, len(alt), 0, element, ALT))
            lines.append(alt)
        alts.clear()


def other_href(attributes: dict[str, str | None]) -> str:
    """The address of a link in SVG 1.1."""
    return attributes.get("xlink:href") or ""


def rel_tokens(attributes: dict[str, str | None]) -> str:
    """The rel attribute: lower case tokens joined by one space."""
    rel = attributes.get("rel")
    return " ".join(rel.lower().split()) if rel else ""


def label(attributes: dict[str, str | None]) -> str:
    """What names a link that has neither text nor image."""
    text = attributes.get("aria-label") or attributes.get("title")
    return fold(text)[:ANCHOR_LENGTH] if text else ""


def anchor_text(pieces: list[str], found: Found) -> str:
    """The text of a link, at most ANCHOR_LENGTH characters. Bounded work: links can be nested."""
    text = "".join([piece[: 2 * ANCHOR_LENGTH] for piece in pieces[:_ANCHOR_PIECES]])
    if BREAK in text:
        text = text.replace(BREAK, " ")
    text = fold(text)
    if len(text) <= ANCHOR_LENGTH:
        return text
    found.anchors_cut += 1
    return text[:ANCHOR_LENGTH].rstrip()
