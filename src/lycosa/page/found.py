"""What the walk over a tree collects, as found: nothing resolved, nothing chosen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

ANCHOR_LENGTH = 500  # characters kept of an anchor

FoundLink = tuple[str, str, str, str]
"""Kind (a LinkKind value), href as written, rel (lower case tokens joined by one space), anchor."""


class Block(NamedTuple):
    """A run of text between two block boundaries: lines `first` to `last` (exclusive) of the visible text."""

    first: int
    last: int
    size: int  # characters
    link_size: int  # of them, in links
    element: int  # the block element around it: index into parents, tags, marks
    alt: bool  # text that stands in for an image


@dataclass(slots=True)
class Found:
    """Collected in document order. Block elements are numbered as they begin; number 0 is the page itself."""

    MAX_HEADINGS: ClassVar[int] = 2_000

    lines: list[str] = field(default_factory=list)  # visible text, white space folded
    blocks: list[Block] = field(default_factory=list)
    parents: list[int] = field(default_factory=lambda: [0])  # of each block element, the one around it
    tags: list[int] = field(default_factory=lambda: [0])  # its tag id
    marks: list[int] = field(default_factory=lambda: [0])  # its mark (lycosa.page.marks)
    links: list[FoundLink] = field(default_factory=list)
    alternates: list[tuple[str, str]] = field(default_factory=list)  # hreflang, href
    headings: list[str] = field(default_factory=list)
    headline: str = ""  # first h1
    title: str = ""
    base: str | None = None
    meta: dict[str, str] = field(default_factory=dict)  # name, property or itemprop in lower case -> first content
    robots: list[tuple[str, str]] = field(default_factory=list)  # meta name in lower case, content
    times: list[tuple[str, bool]] = field(default_factory=list)  # datetime, whether it seems the publication's
    linked_data: list[str] = field(default_factory=list)  # JSON-LD as written
    anchors_cut: int = 0


def fold(text: str) -> str:
    """White space folded to single spaces, soft hyphens (which nobody sees) dropped."""
    if "\xad" in text:
        text = text.replace("\xad", "")
    return " ".join(text.split())
