"""From pieces of text, in the order of the walk, to lines, blocks and anchors."""

from __future__ import annotations

import re

from lycosa.page.page_parts import ANCHOR_LENGTH, PageParts, fold

BREAK = "\0"  # marks <br> among the pieces of a line; HTML text cannot contain it
VERBATIM = "\1"  # begins each line of a listing (`pre`), in which spaces are not folded
CELL = "\2"  # begins a cell of a table; cells of one line are separated by tabs
_SPACES = {ord(BREAK): " ", ord(VERBATIM): " ", ord(CELL): " "}
_NO_CONTROLS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")
_ANCHOR_PIECES = 200  # text nodes read for an anchor


def row(text: str) -> str:
    """Return the cells of a line, folded, with tabs between them."""
    before, *cells = map(fold, text.split(CELL))
    while cells and not cells[-1]:
        cells.pop()
    return "\t".join([before, *cells] if before else cells)


def broken_lines(text: str) -> list[str]:
    """Return the lines of a text with line breaks, without empty ones."""
    lines = []
    for part in text.split(BREAK):
        part = row(part) if CELL in part else part.strip()
        if "  " in part or not part.isprintable():
            part = fold(part) if "\t" not in part else part
        if part:
            lines.append(part)
    return lines


def listing(text: str) -> list[str]:
    """Return the lines of a listing without trailing spaces, control characters, and empty lines
    around it.
    """
    entries = [
        part.rstrip() for part in text.replace(BREAK, VERBATIM).replace(CELL, " ").split(VERBATIM)
    ]
    while entries and not entries[0].strip():
        del entries[0]
    while entries and not entries[-1]:
        entries.pop()
    return [line if line.isprintable() else _NO_CONTROLS.sub("", line) for line in entries]


def other_href(attributes: dict[str, str | None]) -> str:
    """Return the address of a link in SVG 1.1."""
    return attributes.get("xlink:href") or ""


def rel_tokens(attributes: dict[str, str | None]) -> str:
    """Return the rel attribute: lower case tokens joined by one space."""
    rel = attributes.get("rel")
    return " ".join(rel.lower().split()) if rel else ""


def joins_words(character: str) -> bool:
    """Return whether a character would join two words that have no space between them; those of
    Chinese and Japanese would not.
    """
    return "0" <= character < "\u2e80" and character.isalnum()


def label(attributes: dict[str, str | None]) -> str:
    """Return the label of a link that has neither text nor image."""
    text = attributes.get("aria-label") or attributes.get("title")
    return fold(text)[:ANCHOR_LENGTH] if text else ""


def anchor_text(pieces: list[str], parts: PageParts) -> str:
    """Return the text of a link, at most ANCHOR_LENGTH characters. Bounded work: links can be
    nested.
    """
    text = "".join([piece[: 2 * ANCHOR_LENGTH] for piece in pieces[:_ANCHOR_PIECES]])
    text = text.translate(_SPACES)
    text = fold(text)
    if len(text) <= ANCHOR_LENGTH:
        return text
    parts.count_cut_anchor()
    return text[:ANCHOR_LENGTH].rstrip()
