"""The output of readers, before links and main text are determined."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import ClassVar, NamedTuple

from lycosa.core.dataclass import dataclass
from lycosa.core.records import Item, LinkKind
from lycosa.page.html.markup import MarkedBlocks
from lycosa.page.html.tree import Node

ANCHOR_LENGTH = 500  # maximum characters of an anchor

FoundLink = tuple[str, str, str, str]
"""Kind (a LinkKind value), href as written, rel (lower case tokens joined by one space), anchor."""


FoundBlock = tuple[int, int, int, int, int, int]
"""A run of text between two block boundaries: first and last (exclusive) line of the visible text,
its characters, how many of them are in links, the block element around it (an index into
`elements`), the tag id that began it (0: it follows the end of an element). Tuples instead of
records, because a page has hundreds.
"""

FoundElement = tuple[int, int, int]
"""A block element: the one around it (an index into `elements`), its mark
(`lycosa.page.html.region_classes`), its tag id. List items, table rows and headings are not counted
as such.
"""


class DeclaredTime(NamedTuple):
    """The value of a `time` element, or a date of a feed. `of_publication`: it seems the
    publication's; `of_page`: it is not in a teaser or comment.
    """

    written: str
    of_publication: bool
    of_page: bool = True


class HtmlTree(NamedTuple):
    """An HTML document for `ReadItems`. `data`: its bytes in UTF-8."""

    root: Node
    data: bytes
    url: str
    base: str  # of its links
    charset: str  # that contains it


ReadItems = Callable[[HtmlTree], list[Item]]


@dataclass(slots=True)
class PageParts:
    """Collected in document order. Block elements are numbered as they begin; number 0 is the page
    itself.
    """

    MAX_HEADINGS: ClassVar[int] = 2_000

    lines: list[str] = field(default_factory=list)  # visible text, white space folded
    blocks: list[FoundBlock] = field(default_factory=list)
    elements: list[FoundElement] = field(default_factory=lambda: [(0, 0, 0)])
    links: list[FoundLink] = field(default_factory=list)
    alternates: list[tuple[str, str]] = field(default_factory=list)  # hreflang, href
    embedded: list[str] = field(default_factory=list)  # HTML of `srcdoc` and `noframes`, for links
    headings: list[str] = field(default_factory=list)
    headline: str = ""  # first h1
    title: str = ""
    base: str | None = None
    language: str = ""  # lang of the root element, as written
    # name, property or itemprop in lower case -> first content
    meta: dict[str, str] = field(default_factory=dict)
    # name in lower case and content of each meta element with a name, or with a property
    named_metas: list[tuple[str, str]] = field(default_factory=list)
    properties: list[tuple[str, str]] = field(default_factory=list)
    times: list[DeclaredTime] = field(default_factory=list)
    linked_data: list[str] = field(default_factory=list)  # JSON-LD as written
    # of an HTML document: its tree, and its bytes in UTF-8
    root: Node | None = None
    data: bytes = b""
    has_items: bool = False  # of microdata or RDFa
    marked: MarkedBlocks | None = None  # source of Markdown; None: not requested
    anchors_cut: int = 0
    faults: list[str] = field(default_factory=list)
    has_article: bool = False  # an article element has begun
    has_canonical: bool = False  # one of the links is
    has_shadow_roots: bool = False  # whose content was not visited
    _text: str | None = None
    element_flags: list[int] = field(default_factory=list)  # of `block_features.element_flags`

    def text(self) -> str:
        """Return all lines of a finished walk, joined by newline."""
        if self._text is None:
            self._text = "\n".join(self.lines)
        return self._text

    def has_replacements(self) -> bool:
        """Return whether U+FFFD occurs in the parts, for bytes that are invalid in the assumed
        encoding.
        """
        addresses = [link[1] for link in (*self.links, *self.alternates)]
        seen = (self.title, self.base or "", *self.meta.values(), *addresses)
        return "\ufffd" in self.text() or "\ufffd" in "".join(seen)

    def set_document(self, root: Node, data: bytes, *, has_items: bool) -> None:
        """Store the tree, from which items are read after the walk."""
        self.root, self.data, self.has_items = root, data, has_items

    def set_title(self, text: str) -> None:
        """Set the title; the first one counts."""
        self.title = self.title or text

    def set_base(self, href: str | None) -> None:
        """Set the base of links; the first one counts."""
        if self.base is None:
            self.base = href

    def set_language(self, code: str) -> None:
        """Set the declared language."""
        self.language = code

    def begin_article(self) -> None:
        """Begin an article element."""
        self.has_article = True

    def add_canonical(self, href: str, rel: str) -> None:
        """Add a link to the canonical URL."""
        self.links.append((LinkKind.CANONICAL.value, href, rel, ""))
        self.has_canonical = True

    def count_cut_anchor(self) -> None:
        """Count an anchor longer than ANCHOR_LENGTH."""
        self.anchors_cut += 1

    def add_heading(self, text: str, is_h1: bool) -> None:
        """Take a heading; the first h1 is the headline."""
        if text and len(self.headings) < self.MAX_HEADINGS:
            self.headings.append(text)
            if is_h1 and not self.headline:
                self.headline = text


def fold(text: str) -> str:
    """Fold white space to single spaces.

    Drop soft hyphens and outer zero width spaces.

    Hot path: splitting and joining takes twice as long as seeing that there is nothing to fold.
    White space other than U+0020 is not printable, nor are the invisible characters.
    """
    text = text.strip()
    if "  " not in text:
        if text.isprintable():
            return text
        spaced = text.replace("\n", " ")
        if "  " not in spaced and spaced.isprintable():
            return spaced
    elif text.isprintable():
        single = text.replace("  ", " ")  # two spaces after a full stop
        if "  " not in single:
            return single
    if text.isascii():
        return " ".join(text.split())
    if "\xad" in text:
        text = text.replace("\xad", "")
    text = " ".join(text.split())
    if "\u200b" in text or "\ufeff" in text:
        text = text.strip("\u200b\ufeff ")
    return text
