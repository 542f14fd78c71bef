"""Elements without text: metadata, images, frames, scripts. Each reader adds to the results of the
walk.
"""

from __future__ import annotations

import functools
import re

from lycosa.core.patterns import lazy_pattern
from lycosa.core.records import LinkKind
from lycosa.page.html.lines import rel_tokens
from lycosa.page.html.tree import TAG, Node
from lycosa.page.page_parts import ANCHOR_LENGTH, DeclaredTime, FoundLink, PageParts, fold
from lycosa.url.file_types import unindexable_type

_MAX_TIMES = 20
_MAX_META = 1_000

_META, _LINK, _BASE, _AREA, _FRAME, _OBJECT = (
    TAG[name] for name in ("meta", "link", "base", "area", "frame", "object")
)
_FRAMES = frozenset({_FRAME, _OBJECT, TAG["iframe"], TAG["embed"]})
_NOFRAMES = TAG["noframes"]
_SCRIPT, _TITLE, _TIME = (TAG[name] for name in ("script", "title", "time"))
_REQUISITES = frozenset(
    {
        "stylesheet",
        "icon",
        "apple-touch-icon",
        "apple-touch-icon-precomposed",
        "mask-icon",
        "preload",
        "modulepreload",
        "manifest",
        "prefetch",
    }
)
_FEED_TYPES = frozenset(
    {
        "application/rss+xml",
        "application/atom+xml",
        "application/rdf+xml",
        "application/feed+json",
        "text/xml",
    }
)
_LAZY_SOURCES = ("data-src", "data-lazy-src", "data-original", "srcset", "data-srcset")
_DATE_PROPERTIES = frozenset({"datePublished", "dateCreated"})
_MAX_LEVELS = 20  # of elements around a time that are read
_OTHER_TEXT = lazy_pattern(
    r"(?<![A-Za-z])(?:related|recommend\w*|trending|popular|most-?read|teasers?|comments?)"
    r"(?![a-z])",
    re.IGNORECASE,
)
_REQUISITE, _IMAGE = LinkKind.REQUISITE.value, LinkKind.IMAGE.value


def read_special(node: Node, tag: int, parts: PageParts, hidden: bool) -> bool:
    """Read an element of this kind; return whether to visit its children."""
    if tag == _TITLE:
        if not hidden and not parts.title:
            parts.set_title(fold(node.text()))
        return False
    attributes = node.attributes
    if tag == _SCRIPT:
        source = attributes.get("src")
        if source:
            parts.links.append((_REQUISITE, source, "", ""))
        elif "ld+json" in (attributes.get("type") or "").lower():
            parts.linked_data.append(node.text())
    elif tag == _META:
        _read_meta(attributes, parts)
    elif tag == _LINK:
        _read_link(attributes, parts)
    elif tag == _TIME:
        written = attributes.get("datetime") or attributes.get("content")
        if written and len(parts.times) < _MAX_TIMES:
            own = "pubdate" in attributes or attributes.get("itemprop") in _DATE_PROPERTIES
            near = not _is_of_other_text(node)
            parts.times.append(DeclaredTime(written, near and (own or parts.has_article), near))
        return True
    elif tag == _BASE:
        parts.set_base(attributes.get("href"))
    elif tag == _AREA:
        href = attributes.get("href")
        if href is not None:
            parts.links.append(
                (
                    LinkKind.AREA.value,
                    href,
                    rel_tokens(attributes),
                    _short(attributes.get("alt")),
                )
            )
    elif tag == _NOFRAMES:
        parts.embedded.append(node.text())
    elif tag in _FRAMES:
        parts.embedded.extend(filter(None, (attributes.get("srcdoc"),)))
        source = attributes.get("data" if tag == _OBJECT else "src")
        if source:
            kind = LinkKind.FRAME if tag == _FRAME else LinkKind.IFRAME
            parts.links.append(
                (kind.value, source, "", _short(attributes.get("title") or attributes.get("name")))
            )
        return tag == _OBJECT
    return False


def _is_of_other_text(node: Node) -> bool:
    """Return whether an element is in a teaser or comment, not around the headline."""
    outer = node.parent
    for _ in range(_MAX_LEVELS):
        if outer is None or outer.tag == "body":
            break
        names = f"{outer.attributes.get('class') or ''} {outer.attributes.get('id') or ''}"
        if outer.tag == "aside" or _OTHER_TEXT.search(names):
            return outer.css_first("h1") is None
        outer = outer.parent
    return False


def read_image(attributes: dict[str, str | None], links: list[FoundLink]) -> str:
    """Add the address of an image to `links`, and return its alternative text."""
    alt = _short(attributes.get("alt"))
    source = attributes.get("src") or ""
    if not source or source[:5] == "data:":
        source = lazy_source(attributes)
    if source:
        links.append((_IMAGE, source, "", alt))
    return alt


def lazy_source(attributes: dict[str, str | None]) -> str:
    """Return the address of an image that a script loads when it is scrolled to, or that has only a
    `srcset`; "" for none.
    """
    for name in _LAZY_SOURCES:
        if written := (attributes.get(name) or "").split(None, 1):
            return written[0].rstrip(",")
    return ""


def _read_meta(attributes: dict[str, str | None], parts: PageParts) -> None:
    content = attributes.get("content")
    if content is None or len(parts.meta) >= _MAX_META:
        return
    name, declared = attributes.get("name"), attributes.get("property")
    if content and (pragma := attributes.get("http-equiv")):
        parts.meta.setdefault("http-equiv:" + pragma.strip().lower(), content)
    if declared:
        declared = declared.strip().lower()
        parts.properties.append((declared, content))
    if name:
        name = name.strip().lower()
        parts.named_metas.append((name, content))
    elif declared:
        name = declared
    else:
        name = attributes.get("itemprop")
        if not name:
            return
        name = name.strip().lower()
    if name not in parts.meta:
        parts.meta[name] = content
    if declared and declared not in parts.meta:
        parts.meta[declared] = content


def _read_link(attributes: dict[str, str | None], parts: PageParts) -> None:
    href = attributes.get("href")
    if not href:
        return
    rel, relation = _relation(attributes.get("rel") or "")
    if relation is LinkKind.REQUISITE:
        parts.links.append((_REQUISITE, href, rel, ""))
    elif relation is LinkKind.CANONICAL:
        parts.add_canonical(href, rel)
    elif relation is LinkKind.ALTERNATE:
        kind = alternate_kind(attributes.get("type") or "")
        if kind is not None:
            parts.links.append((kind.value, href, rel, _short(attributes.get("title"))))
        language = attributes.get("hreflang")
        if language and kind is LinkKind.ALTERNATE:
            parts.alternates.append((language.strip(), href))


def alternate_kind(media_type: str) -> LinkKind | None:
    """Return the kind of a link to an alternate of this type; None: it is no page and no feed.

    Many pages have some of `application/json` or `text/xml+oembed` for programs.
    """
    if media_type.partition(";")[0].strip().lower() in _FEED_TYPES:
        return LinkKind.FEED
    return None if unindexable_type(media_type) else LinkKind.ALTERNATE


@functools.lru_cache(maxsize=1024)
def _relation(rel: str) -> tuple[str, LinkKind | None]:
    """Return the tokens of a rel attribute, and the kind of link that they define. Pages repeat a
    few.
    """
    tokens = rel.lower().split()
    kind = None
    if "canonical" in tokens:
        kind = LinkKind.CANONICAL
    elif "alternate" in tokens and _REQUISITES.isdisjoint(tokens):
        kind = LinkKind.ALTERNATE
    elif not _REQUISITES.isdisjoint(tokens):
        kind = LinkKind.REQUISITE
    return " ".join(tokens), kind


def _short(text: str | None) -> str:
    return fold(text)[:ANCHOR_LENGTH] if text else ""
