"""The URL space of a synthetic web: the paths of pages, the meaning of paths, and the links.

The pages of a host are numbered from 0, its front page. The parent of page k is page (k - 1) //
branching, so links from the front page lead to every page except orphans. Hosts form a tree in the
same way. A host also has extra URLs: redirects, copies, removed and disallowed pages, files and
traps. Each belongs to the page with the same number, which links to it.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from functools import lru_cache

from tests.servers.synthetic.draw import count_events, draw, event_time, uniform
from tests.servers.synthetic.hosts import Access, Host, Hosts
from tests.servers.synthetic.kinds import (
    ASSET_TYPES,
    TRAP_PATHS,
    Kind,
    Resource,
    with_session,
    without_session,
)
from tests.servers.synthetic.plan import Trap, WebPlan
from tests.servers.synthetic.prose import slug

CHILD_HOSTS = 8
"""Number of child hosts of a host."""

_ASSETS = tuple(ASSET_TYPES)
_EXTRAS = {  # first segment -> (kind, share of pages in the plan)
    "go": (Kind.REDIRECT, "redirects"),
    "print": (Kind.DUPLICATE, "duplicates"),
    "amp": (Kind.NEAR_DUPLICATE, "near_duplicates"),
    "old": (Kind.GONE, "gone"),
    "private": (Kind.FORBIDDEN, "forbidden"),
    "broken": (Kind.BROKEN, "broken"),
    "files": (Kind.ASSET, "assets"),
}
_EXTRA = re.compile(r"/(go|print|amp|old|private|broken|files)/(?:[a-z]+-)?(\d{1,12})(?:\.(\w+))?")
_PAGE_NUMBER = re.compile(r"-(\d{1,12})(?:\.html|/)?|/article\.php\?id=(\d{1,12})&topic=.*")
_MISSING = Resource(Kind.MISSING)


class Layout:
    """The URL space of a web. Times are milliseconds since the plan's epoch."""

    def __init__(self, plan: WebPlan) -> None:
        self.plan = plan
        self.hosts = Hosts(plan)
        self.path = lru_cache(maxsize=65_536)(self._path)

    def is_open(self, host: Host) -> bool:
        """Return whether a polite crawler can fetch pages of the host."""
        return host.access is Access.OPEN and host.robots != "closed"

    def linked_hosts(self, number: int) -> list[int]:
        """Return the hosts that the front page of an open host links to.

        These are its child hosts, and the children of those that are not open.
        """
        linked = []
        queue = list(self._child_hosts(number))
        while queue:
            child = queue.pop()
            linked.append(child)
            if not self.is_open(self.hosts.get(child)):
                queue += self._child_hosts(child)
        return linked

    def _child_hosts(self, number: int) -> range:
        first = number * CHILD_HOSTS + 1
        return range(first, min(first + CHILD_HOSTS, self.plan.hosts))

    def size(self, host: Host, at: int) -> int:
        """Return the number of pages of a host at a time."""
        if not host.births_per_day:
            return host.size
        return host.size + count_events(self._creations(host), host.births_per_day, at)

    def created_at(self, host: Host, number: int) -> int:
        """Return when a page appeared; negative for those of before the epoch."""
        if number >= host.size:
            return event_time(self._creations(host), host.births_per_day, number - host.size + 1)
        return -1 - draw(self.plan.seed, "born", host.number, number) % (2_000 * 86_400_000)

    def is_removed(self, host: Host, number: int, at: int) -> bool:
        """Return whether a page was removed by a time.

        Front pages and pages that have or can have children are never removed.
        """
        rate = self.plan.deaths_per_day
        if rate <= 0 or number == 0 or number * host.branching + 1 < self._final_size(host):
            return False
        lifetime_ms = (
            -math.log(1 - uniform(self.plan.seed, "death", host.number, number)) / rate * 86_400_000
        )
        return at > max(self.created_at(host, number), 0) + lifetime_ms

    def _creations(self, host: Host) -> int:
        return draw(self.plan.seed, "births", host.number)

    def children(self, host: Host, number: int, size: int) -> range:
        first = number * host.branching + 1
        return range(first, max(first, min(first + host.branching, size)))

    def is_orphan(self, host: Host, number: int) -> bool:
        """Return whether no page links to a page. Pages with children are no orphans."""
        return (
            self.plan.orphans > 0
            and host.sitemap not in ("", "news")
            and number > 0
            and not host.births_per_day
            and number * host.branching + 1 >= host.size
            and uniform(self.plan.seed, "orphan", host.number, number) < self.plan.orphans
        )

    def linked_page(self, host: Host, size: int, position: float) -> int:
        """Return the page at a position (0 to 1), or its parent if it is an orphan."""
        number = int(size * position)
        return number if not self.is_orphan(host, number) else (number - 1) // host.branching

    def _path(self, host: Host, number: int, language: str = "") -> str:
        """Return path and query of a page, or of its translation into another language."""
        prefix = f"/{language}" if language and language != host.language else ""
        if number == 0:
            return prefix + "/"
        seed = self.plan.seed
        language = host.language if host.native_slugs else "en"
        name = slug(language, draw(seed, "slug", host.number, number))
        if host.style == "flat":
            return f"{prefix}/{name}-{number}.html"
        if host.style == "query":
            return f"{prefix}/article.php?id={number}&topic={name}"
        if host.style == "dated":
            day = datetime.fromtimestamp(
                (self.plan.epoch_ms + self.created_at(host, number)) // 1000, UTC
            )
            return f"{prefix}/{day:%Y/%m/%d}/{name}-{number}"
        ancestors = []
        ancestor = (number - 1) // host.branching
        while ancestor > 0:
            ancestors.append(ancestor)
            ancestor = (ancestor - 1) // host.branching
        if host.style == "sections":
            top = ancestors[-1] if ancestors else number
            section = slug(language, draw(seed, "section", host.number, top), 1)
            return f"{prefix}/{section}/{name}-{number}"
        folders = "".join(
            f"/{slug(language, draw(seed, 'folder', host.number, each), 1)}{each}"
            for each in reversed(ancestors)
        )
        return f"{prefix}{folders}/{name}-{number}/"

    def extras(self, host: Host, number: int) -> list[str]:
        """Return the paths of the extra URLs of a page."""
        return [
            self._extra_path(host, number, segment)
            for segment in _EXTRAS
            if self._has_extra(host, number, segment)
        ]

    def _has_extra(self, host: Host, number: int, segment: str) -> bool:
        if segment == "private" and host.robots in ("missing", "closed"):
            return False
        share: float = getattr(self.plan, _EXTRAS[segment][1])
        return share > 0 and uniform(self.plan.seed, segment, host.number, number) < share

    def _extra_path(self, host: Host, number: int, segment: str) -> str:
        if segment == "files":
            index = draw(self.plan.seed, "asset", host.number, number) % len(_ASSETS)
            return f"/files/item-{number}.{_ASSETS[index]}"
        return f"/{segment}/{number}"

    def trap_entry(self, host: Host, number: int, path: str) -> str:
        """Return the link of a page into the trap of the host; "" on most pages."""
        if not host.traps or (
            number and uniform(self.plan.seed, "entry", host.number, number) > 0.3
        ):
            return ""
        fresh = draw(self.plan.seed, "sid", host.number, number)
        match host.traps[0]:
            case Trap.CALENDAR:
                return f"/calendar/{datetime.fromtimestamp(self.plan.epoch_ms // 1000, UTC):%Y/%m}"
            case Trap.SESSION_PATH:
                return f"/sid-{fresh:016x}{path}"
            case Trap.SESSION_QUERY:
                return with_session(path, fresh)
            case Trap.FACETS:
                return "/shop"
            case Trap.LOOP:
                return "/loop/"
            case Trap.SOFT_404:
                return f"/lost/{fresh:08x}"
            case Trap.PERMUTATIONS:
                return "/list?sort=name&view=grid&page=1&lang=all&style=wide&show=20&from=top"
            case Trap.NEAR_IDENTICAL:
                return "/item/1"

    def resolve(self, host: Host, path: str, at: int | None = None) -> Resource:
        """Return the meaning of a path (with its query) on a host.

        Args:
            at: excludes pages that appear later, and makes removed pages GONE.
        """
        size = self.size(host, at) if at is not None else 1 << 62
        resource = (
            self._special(host, path)
            or self._page(host, path, size)
            or self._extra(host, path, size)
        )
        if resource is not None:
            is_removed = (
                at is not None
                and resource.kind in (Kind.PAGE, Kind.TRANSLATION)
                and self.is_removed(host, resource.number, at)
            )
            return resource._replace(kind=Kind.GONE) if is_removed else resource
        for trap in host.traps:
            if trap is Trap.SOFT_404:
                return Resource(Kind.TRAP, trap=trap, detail=path)
            match = TRAP_PATHS[trap].search(path)
            if match is None:
                continue
            if trap in (Trap.SESSION_PATH, Trap.SESSION_QUERY):
                page = self._page(host, without_session(path), size)
                if page is None:
                    return _MISSING
                return page._replace(kind=Kind.TRAP, trap=trap, detail=match[1])
            if match.span() == (0, len(path)):
                return Resource(Kind.TRAP, trap=trap, detail=match[1] or "")
        return _MISSING

    def _special(self, host: Host, path: str) -> Resource | None:
        if path == "/robots.txt" or (path == "/site-robots.txt" and host.robots == "redirecting"):
            return Resource(Kind.ROBOTS, host.number, detail=path)
        if path.startswith("/robots-of/"):
            digits = path.removeprefix("/robots-of/").removesuffix(".txt")
            number = int(digits) if digits.isdigit() and len(digits) < 12 else self.plan.hosts
            is_target = (
                host.number == 0
                and number < self.plan.hosts
                and self.hosts.get(number).robots == "foreign"
            )
            return Resource(Kind.ROBOTS, number, detail=path) if is_target else _MISSING
        if host.sitemap and path.startswith(("/sitemap", "/news-sitemap")):
            return Resource(Kind.SITEMAP, detail=path)
        if host.feed and path == f"/{host.feed}.xml":
            return Resource(Kind.FEED, detail=path)
        return None

    def _page(self, host: Host, path: str, size: int) -> Resource | None:
        language, untranslated = host.language, path
        for other in host.languages[1:]:
            if path.startswith(f"/{other}/"):
                language, untranslated = other, path[len(other) + 1 :]
        number = 0
        if untranslated != "/":
            match = (
                next(_PAGE_NUMBER.finditer(untranslated), None)
                if host.style == "query"
                else _last_number(untranslated)
            )
            if match is None:
                return None
            number = int(match[1] or match[2])
            exists = 0 < number < min(size, self._final_size(host))
            if not exists or self.path(host, number) != untranslated:
                return None
        return Resource(
            Kind.PAGE if language == host.language else Kind.TRANSLATION, number, language
        )

    def _final_size(self, host: Host) -> int:
        return self.size(host, 2**38) if host.births_per_day else host.size

    def _extra(self, host: Host, path: str, size: int) -> Resource | None:
        match = _EXTRA.fullmatch(path)
        if (
            match is None
            or not int(match[2]) < min(size, self._final_size(host))
            or not self._has_extra(host, int(match[2]), match[1])
        ):
            return None
        segment, number, detail = match[1], int(match[2]), match[3] or ""
        kind = _EXTRAS[segment][0]
        if kind is Kind.REDIRECT:
            if detail not in ("", "2", "3"):
                return None
            is_loop = self.redirect_style(host, number) == "loop"
            return Resource(Kind.REDIRECT_LOOP if is_loop else kind, number, detail=detail)
        if path != self._extra_path(host, number, segment):
            return None
        if kind is Kind.GONE and Trap.SOFT_404 in host.traps:
            return Resource(Kind.TRAP, number, detail=path, trap=Trap.SOFT_404)
        return Resource(kind, number, host.language, detail)

    def redirect_style(self, host: Host, number: int) -> str:
        """Return the status of one hop, or "chain" (3 hops), "away" (other host), "loop"."""
        styles = ("301", "302", "303", "307", "308", "chain", "away", "loop")
        return styles[draw(self.plan.seed, "redirect", host.number, number) % len(styles)]


def _last_number(path: str) -> re.Match[str] | None:
    start = path.rfind("-")
    return _PAGE_NUMBER.fullmatch(path, start) if start >= 0 else None
