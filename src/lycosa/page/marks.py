"""What the class, id and role of an element say about its part of the page: navigation, comments, advertising, or the article.

Word sets, not a regular expression: class strings are split at everything that is no letter and at capitals, and the words
looked up. Calibrated on the tuning half of article-extraction (see bench/extract.py) and on documentation sites.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise

NEUTRAL, AWAY, BODY = 0, 1, 2
"""Marks of a region: nothing known; not the article; the article itself."""

_AWAY = """
    nav navbar navigation navheader navfooter menu menus submenu sidebar sidebars rail footer foot breadcrumb breadcrumbs
    comment comments disqus related share sharing social follow promo promos ad ads advert adverts advertisement advertising
    sponsored sponsor newsletter subscribe subscription signup login signin register cookie cookies consent gdpr popup modal
    overlay widget widgets tags taglist byline author authors timestamp copyright disclaimer legal toolbar pagination pager
    paging recommended recommendations recommendation trending popular outbrain taboola skip print banner masthead
    sphinxsidebar toc quickview headerlink toplang bottomlang dropdown search searchbox poll rating ratings credit credits
    teaser teasers hidden invisible sr
"""
_BODY = "articlebody storybody entrycontent postcontent articlecontent articletext"
_AWAY_WORDS = frozenset(_AWAY.split())
_BODY_WORDS = frozenset(_BODY.split())
_AWAY_ROLES = frozenset(
    {"navigation", "banner", "contentinfo", "complementary", "search", "dialog", "alertdialog", "menu", "menubar", "toolbar"}
)
_CAPITAL = re.compile(r"([a-z])([A-Z])")
_SEPARATOR = re.compile(r"[^a-z]+")


@lru_cache(maxsize=8192)
def mark_of(names: str) -> int:
    """The mark of a class or id string."""
    words = _SEPARATOR.split(_CAPITAL.sub(r"\1 \2", names).lower())
    if not _AWAY_WORDS.isdisjoint(words):
        return AWAY
    if not _BODY_WORDS.isdisjoint(map("".join, pairwise(words))) or not _BODY_WORDS.isdisjoint(words):
        return BODY
    return NEUTRAL


def mark_of_element(attributes: dict[str, str | None]) -> int:
    """The mark of an element by its role, itemprop, class and id."""
    role = attributes.get("role")
    if role and role.lower() in _AWAY_ROLES:
        return AWAY
    if attributes.get("itemprop") == "articleBody":
        return BODY
    names = attributes.get("class")
    mark = mark_of(names) if names else NEUTRAL
    if mark == NEUTRAL:
        names = attributes.get("id")
        if names:
            mark = mark_of(names)
    return mark
