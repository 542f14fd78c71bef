"""The part of the page that the class, id and role of an element indicate: navigation, comments,
advertising, or the article.

Word sets, not a regular expression: class strings are split at capitals and at all signs that are
no letters, and the words are looked up. Calibrated on the tuning half of article-extraction (see
bench/extract.py) and on documentation sites.
"""

from __future__ import annotations

import re
from itertools import pairwise

NEUTRAL, AWAY, BODY, NEVER, SECTION = range(5)
"""Classes of regions: unknown; not the article; the article; hardly ever the article; a section."""

_AWAY = """
    nav navbar navigation navheader navfooter menu menus submenu sidebar sidebars rail footer
    foot breadcrumb breadcrumbs related share sharing social follow promo promos ad ads advert
    adverts advertisement advertising caption captions gallery slideshow sponsored sponsor
    subscription register popup modal overlay widget widgets tags taglist byline author authors
    timestamp copyright disclaimer legal toolbar pagination pager paging recommended
    recommendations recommendation trending popular skip print banner masthead sphinxsidebar toc
    quickview headerlink toplang bottomlang dropdown search searchbox poll rating ratings credit
    credits teaser teasers hidden invisible sr review reviews filter filters facet facets refinement
    refinements upsell upsells crosssell recently similar
    lineno linenos linenodiv
"""
_BODY = "articlebody storybody entrycontent postcontent articlecontent articletext"
_NEVER = """
    cookie cookies consent gdpr privacy newsletter subscribe disqus comment comments outbrain
    taboola login signin signup cli
"""
_SECTION_WORDS = frozenset({"section", "sect1", "sect2", "sect3", "chapter"})
_NEVER_WORDS = frozenset(_NEVER.split())
_AWAY_WORDS = frozenset(_AWAY.split())
_TELLING_WORDS = _NEVER_WORDS | _AWAY_WORDS
_BODY_WORDS = frozenset(_BODY.split())
_AWAY_ROLES = frozenset(
    {
        "navigation",
        "banner",
        "contentinfo",
        "complementary",
        "search",
        "dialog",
        "alertdialog",
        "menu",
        "menubar",
        "toolbar",
    }
)
_STREAMED = re.compile(r"S:[0-9a-f]+")
_UNFOLDS = re.compile(r"accordion|faq|\btab|collaps|toggle|answer|panel|expand")
_CAPITAL = re.compile(r"([a-z])([A-Z])")
_MAX_KNOWN = 20_000  # cached class and id strings; a site has some hundred
_CLASSES: dict[str, int] = {}


def mark_of(names: str) -> int:
    """Return the region class of a class or id string. Pages repeat them, so they are cached."""
    mark = _CLASSES.get(names)
    if mark is None:
        mark = _judge(names[:500])
        if len(_CLASSES) >= _MAX_KNOWN:
            _CLASSES.clear()
        if len(names) <= 500:
            _CLASSES[names] = mark
    return mark


def _judge(names: str) -> int:
    lower = names.lower()
    words = lower.replace("-", " ").replace("_", " ").split()
    if not _TELLING_WORDS.isdisjoint(words):
        return AWAY if _NEVER_WORDS.isdisjoint(words) else NEVER
    if lower != names:
        words += _CAPITAL.sub(r"\1 \2", names).lower().replace("-", " ").replace("_", " ").split()
        if not _AWAY_WORDS.isdisjoint(words):
            return AWAY
    if ("body" in lower or "content" in lower or "text" in lower) and (
        not _BODY_WORDS.isdisjoint(words)
        or not _BODY_WORDS.isdisjoint(map("".join, pairwise(words)))
    ):
        return BODY
    return NEUTRAL if _SECTION_WORDS.isdisjoint(words) else SECTION


def mark_of_element(attributes: dict[str, str | None]) -> int:
    """Return the region class of an element by its class, id, role and itemprop. Hot path: called
    for every block element.
    """
    names = attributes.get("class")
    if names:
        mark = _CLASSES.get(names, -1)
        if mark > 0 or (mark < 0 and (mark := mark_of(names))):
            return mark
        if len(attributes) == 1:
            return NEUTRAL
    names = attributes.get("id")
    if names:
        mark = _CLASSES.get(names, -1)
        if mark > 0 or (mark < 0 and (mark := mark_of(names))):
            return mark
    if "role" in attributes and (attributes["role"] or "").lower() in _AWAY_ROLES:
        return AWAY
    if "itemprop" in attributes and attributes["itemprop"] == "articleBody":
        return BODY
    return NEUTRAL


def is_hidden(attributes: dict[str, str | None]) -> bool:
    """Return whether an element is not shown and cannot be unfolded by the reader.

    Tab panels, accordions and the parts that React streams (`<div hidden id="S:0">`) are content,
    and elements that browsers show when a search finds them (`hidden="until-found"`).
    """
    style = attributes.get("style")
    hidden = attributes.get("hidden", "until-found") or ""
    if hidden.lower() == "until-found" and not (
        style is not None and "display:none" in style.lower().replace(" ", "")
    ):
        return False
    identifier = attributes.get("id") or ""
    if attributes.get("role") == "tabpanel" or _STREAMED.fullmatch(identifier):
        return False
    return not _UNFOLDS.search(f"{attributes.get('class') or ''} {identifier}".lower())
