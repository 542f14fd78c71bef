"""The leads of a page: its links with what surrounds them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lycosa.core.errors import UrlError
from lycosa.core.records import FOLLOWED_KINDS, Link, Page
from lycosa.url.scope import hostname

BEFORE, AFTER = 120, 120
"""Characters of its own line on both sides of a link that count as what surrounds it."""

MAX_LEADS = 2_000
"""Links of a page that are looked at."""

_FOLLOWED = frozenset(kind.value for kind in FOLLOWED_KINDS)
_MAX_ANCHOR = 300
# characters behind the last link within which the next one is looked for, and is believed to be
_AHEAD, _NEAR = 20_000, 4_000


@dataclass(slots=True, frozen=True)
class Lead:
    """A link seen on a page. `foreign`: it leads to another host."""

    url: str
    host: str
    anchor: str = ""
    context: str = ""
    foreign: bool = False


def leads_of(url: str, page: Page, *, respect_nofollow: bool = True) -> list[Lead]:
    """The links of a page that a crawl follows, in order, each target once, with all its anchors
    and the first one's surroundings.

    A link's text is looked for in the page's text behind that of the link before it: both come in
    the order of the document.
    """
    if not page.may_follow:
        return []
    return leads_from(url, page.links, page.text, respect_nofollow=respect_nofollow)


def leads_from(
    url: str, links: Iterable[Link], text: str = "", *, respect_nofollow: bool = True
) -> list[Lead]:
    """The same for links that are stored; without the `text` nothing surrounds them."""
    own = hostname(url)
    found: dict[str, Lead] = {}
    place = 0
    for link in links:
        if (
            link.kind not in _FOLLOWED
            or link.target == url
            or (respect_nofollow and "nofollow" in link.rel)
        ):
            continue
        anchor = link.anchor[:_MAX_ANCHOR]
        start = text.find(anchor, place, place + _AHEAD) if anchor else -1
        context = ""
        if start >= 0:
            end = start + len(anchor)
            context = _surroundings(text, start, end)
            if start - place <= _NEAR:  # else it may be another place with the same words
                place = end
        before = found.get(link.target)
        if before is not None:
            if anchor and anchor not in before.anchor:
                together = f"{before.anchor}\n{anchor}" if before.anchor else anchor
                found[link.target] = Lead(
                    before.url,
                    before.host,
                    together[:_MAX_ANCHOR],
                    before.context or context,
                    before.foreign,
                )
            continue
        if len(found) >= MAX_LEADS:
            continue
        try:
            host = hostname(link.target)
        except UrlError:
            continue
        found[link.target] = Lead(link.target, host, anchor, context, host != own)
    return list(found.values())


def _surroundings(text: str, start: int, end: int) -> str:
    """What stands on both sides of a link in its line; of a line that is all link, the end of the
    line before it.
    """
    line = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", end)
    line_end = len(text) if line_end < 0 else line_end
    before, after = text[max(line, start - BEFORE) : start], text[end : min(line_end, end + AFTER)]
    around = f"{before} {after}".strip()
    if not around and line > 1:
        around = text[max(text.rfind("\n", 0, line - 1) + 1, line - 1 - BEFORE) : line - 1]
    return around
