"""The headline of a page: its title without the name of the site."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from html import unescape

from lycosa.page.metadata.bounds import clean
from lycosa.page.metadata.entities import Subject
from lycosa.page.metadata.linked_data import text_of, value_of
from lycosa.page.page_parts import PageParts

MAX_TITLE = 1_000  # characters
MAX_HEADINGS = 30  # that are compared with the title
MAX_LINES = 200  # that are compared with the parts of the title
MIN_PART = 15  # characters of such a part
MIN_SHARED = 0.7  # words of the first h1 in the title, from which it is the headline
MIN_COVERED = 0.2  # the same for the words of the title in that h1

_SEPARATOR = re.compile(r"\s+[|\-–—·•»«:/~]+\s+|\s*[|•»]\s*|\s::\s|:\s(?=\S+\Z)")
_WORD = re.compile(r"\w+")


def page_headline(parts: PageParts, subject: Subject, site_name: str, url: str) -> str:
    """Return the title of the content: a heading that the title of the document repeats, else that
    title without the name of the site, else the first h1.
    """
    declared = unescape(text_of(value_of(subject.main, "headline", "name")))
    title = clean(parts.meta.get("og:title") or parts.title or declared, MAX_TITLE)
    if not title:
        return parts.headline
    h1 = parts.headline
    if h1 and title.startswith(h1) and _SEPARATOR.match(title, len(h1)):
        return h1
    if title == h1 and _SEPARATOR.search(title) is None:
        return h1
    first = _words(h1)
    stripped = without_site(title, (site_name, parts.headline), url)
    words = _words(stripped)
    beginning = _words(_SEPARATOR.split(stripped, maxsplit=1)[0])
    if first and (first == beginning or _shares(first, words)):
        return parts.headline
    for heading in parts.headings[:MAX_HEADINGS]:
        if _words(heading) == words:
            return heading
    return _shown_part(stripped, parts.lines[:MAX_LINES]) or stripped


def _shown_part(title: str, lines: Sequence[str]) -> str:
    """Return the longest part of a title that is a line of the page, "" for none."""
    shown = [part for part in _SEPARATOR.split(title) if len(part) >= MIN_PART and part in lines]
    return max(shown, key=len, default="")


def _words(text: str) -> list[str]:
    return _WORD.findall(text[:MAX_TITLE].casefold())


def _shares(heading: list[str], title: list[str]) -> bool:
    """Return whether most words of a heading are in the title, and most of the title in the
    heading.
    """
    shared = len(set(title).intersection(heading))
    return shared >= MIN_SHARED * len(heading) and shared >= MIN_COVERED * len(title)


def without_site(title: str, site_names: Sequence[str], url: str) -> str:
    """Remove the name of the site, the last or first part of a title. `url`: its host also names
    the site.
    """
    cuts = list(_SEPARATOR.finditer(title))
    if not cuts:
        return title
    host = url.partition("://")[2].partition("/")[0].removeprefix("www.")
    names = {"".join(_words(name)) for name in site_names}
    site = {"".join(_words(site_names[0]))}
    label = "".join(_words(host.partition(".")[0]))
    last, first = title[cuts[-1].end() :], title[: cuts[0].start()]
    if _names_site(last, names, label):
        return title[: cuts[-1].start()]
    if _names_site(first, site, label):
        return title[cuts[0].end() :]
    return title


def _names_site(part: str, names: Container[str], label: str) -> bool:
    name = "".join(_words(part))
    return not name or name in names or (len(label) > 2 and (label in name or name in label))
