"""The HTML of pages, of their copies, and of traps."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from tests.servers.synthetic.changes import Changes
from tests.servers.synthetic.draw import draw, power_law, uniform
from tests.servers.synthetic.hosts import Host
from tests.servers.synthetic.kinds import Kind, Resource, with_session
from tests.servers.synthetic.layout import Layout
from tests.servers.synthetic.plan import Trap
from tests.servers.synthetic.prose import Writer
from tests.servers.synthetic.topics import Topics

NEWEST = 20
"""Number of new pages that feeds, and front pages of hosts with new pages, list."""

_MAX_PARAGRAPHS, _MAX_CROSS_LINKS = 24, 20
_OTHER_HOST = 0.25  # share of pages that link to a page of another host
_HTML = (
    '<!doctype html>\n<html lang="{}"><head><meta '
    'charset="{}"><title>{}</title>{}</head>\n<body><nav>{}</nav>\n<main><h1>{}</h1>\n'
)


class Pages:
    """Write pages, as pure functions of plan, resource and time (ms since the plan's epoch)."""

    def __init__(self, layout: Layout, changes: Changes) -> None:
        self._layout = layout
        self._changes = changes
        self._seed = layout.plan.seed
        self._topics = Topics(layout)
        self._writer = lru_cache(maxsize=4_096)(self._make_writer)

    def title(self, host: Host, number: int, language: str = "") -> str:
        return self._writer(host, number, language or host.language).title()

    def page(self, host: Host, resource: Resource, at: int) -> str:
        """Return a page, its translation or copy, or its version with a session id."""
        layout = self._layout
        number = resource.number
        language = resource.language or host.language
        size = layout.size(host, at)
        writer = self._writer(host, number, language)
        changes = self._changes.state(host, number, at, size).own
        count = power_law(1, _MAX_PARAGRAPHS, 1.6, self._seed, "paragraphs", host.number, number)
        paragraphs = [
            writer.paragraph(each, (changes - each + count - 1) // count) for each in range(count)
        ]
        title = writer.title()
        session = resource.detail if resource.kind is Kind.TRAP else ""
        links = self._links(host, number, size, language, session)
        if number == 0 and host.births_per_day:
            newest = range(max(1, size - NEWEST), size)
            links = [
                (layout.path(host, each), self.title(host, each)) for each in reversed(newest)
            ] + links
        head = self._head(host, resource, language)
        if resource.kind is Kind.NEAR_DUPLICATE:
            title = f"{title} (AMP)"
        navigation = self._navigation(host, number, language)
        start = _HTML.format(language, host.charset, title, head, _anchors(navigation), title)
        return start + _main(paragraphs, links)

    def _make_writer(self, host: Host, number: int, language: str) -> Writer:
        has_topic = self._layout.plan.topics and number >= 0
        words = self._topics.words(self._topics.of(host, number), language) if has_topic else ()
        return Writer(language, draw(self._seed, "text", host.number, number, language), words)

    def _head(self, host: Host, resource: Resource, language: str) -> str:
        """Return the link elements of the canonical page, the translations and the feed."""
        layout, number = self._layout, resource.number
        elements = []
        has_canonical = resource.kind is Kind.NEAR_DUPLICATE or (
            resource.kind is Kind.DUPLICATE
            and draw(self._seed, "canonical", host.number, number) % 2
        )
        if has_canonical:
            elements.append(
                f'<link rel="canonical" href="http://{host.name}{layout.path(host, number)}">'
            )
        if len(host.languages) > 1 and resource.kind in (Kind.PAGE, Kind.TRANSLATION):
            elements += [
                f'<link rel="alternate" hreflang="{each}" href="{layout.path(host, number, each)}">'
                for each in host.languages
            ]
        if host.feed and number == 0:
            elements.append(
                f'<link rel="alternate" type="application/{host.feed}+xml" href="/{host.feed}.xml">'
            )
        return "".join(elements)

    def _navigation(self, host: Host, number: int, language: str) -> list[tuple[str, str]]:
        layout = self._layout
        links = [(layout.path(host, 0, language), host.name)]
        if number:
            links.append((layout.path(host, (number - 1) // host.branching, language), ".."))
        if entry := layout.trap_entry(host, number, layout.path(host, number)):
            links.append((entry, "+"))
        return links

    def _links(
        self, host: Host, number: int, size: int, language: str, session: str
    ) -> list[tuple[str, str]]:
        """Return (href, anchor text): children, popular pages, extra URLs, other hosts."""
        layout, seed = self._layout, self._seed
        targets = [
            each for each in layout.children(host, number, size) if not layout.is_orphan(host, each)
        ]
        degree = power_law(1, _MAX_CROSS_LINKS, 2.0, seed, "links", host.number, number)
        if layout.plan.topics:
            return self._topic_links(host, number, targets, degree)
        targets += [
            layout.linked_page(
                host, host.size, uniform(seed, "link", host.number, number, each) ** 3
            )
            for each in range(degree)
        ]
        paths = [layout.path(host, each, language) for each in targets]
        if session:
            paths = [
                _in_session(path, session, draw(seed, session, each))
                for path, each in zip(paths, targets, strict=True)
            ]
            return [(path, str(each)) for path, each in zip(paths, targets, strict=True)]
        links = [(path, path.strip("/").rpartition("/")[2]) for path in paths]
        links += [(path, path[1:]) for path in layout.extras(host, number)]
        if number == 0:
            names = [layout.hosts.get(each).name for each in layout.linked_hosts(host.number)]
            links += [(f"http://{name}/", name) for name in names]
        elif uniform(seed, "out", host.number, number) < _OTHER_HOST:
            other = layout.hosts.get(
                int(layout.plan.hosts * uniform(seed, "other", host.number, number) ** 2)
            )
            path = layout.path(
                other,
                layout.linked_page(
                    other, other.size, uniform(seed, "page", host.number, number) ** 3
                ),
            )
            links.append((f"http://{other.name}{path}", other.name))
        return links

    def _topic_links(
        self, host: Host, number: int, children: list[int], degree: int
    ) -> list[tuple[str, str]]:
        """Return the links of a page of a web with topics.

        These are children, links across the web, and on a front page links to other hosts.
        """
        layout, seed = self._layout, self._seed
        targets = [(host, child) for child in children]
        for each in range(2 * degree):
            popular = layout.linked_page(
                host, host.size, uniform(seed, "link", host.number, number, each) ** 3
            )
            targets.append(self._topics.partner(host, number, each) or (host, popular))
        if number == 0:
            targets += [(layout.hosts.get(each), 0) for each in layout.linked_hosts(host.number)]
        links = []
        for other, page in targets:
            path = layout.path(other, page)
            text = path.strip("/").rpartition("/")[2] or other.name
            chance = uniform(seed, "named", host.number, number, other.number, page)
            if chance < layout.plan.topic_named:
                text = self.title(other, page)
            links.append((path if other is host else f"http://{other.name}{path}", text))
        return links

    def trap(self, host: Host, resource: Resource, at: int) -> str:
        """Return a page of a trap. It does not change, unless it shows a real page."""
        if resource.trap in (Trap.SESSION_PATH, Trap.SESSION_QUERY):
            return self.page(host, resource, at)
        writer = self._writer(host, -1, host.language)
        text = [writer.paragraph(0, 0), writer.paragraph(1, 0)]
        title, links = trap_links(host, resource, self._seed)
        if resource.trap is Trap.FACETS:
            text = [writer.paragraph(each, 0) for each in range(2, 5)]
        home = _anchors([("/", host.name)])
        start = _HTML.format(host.language, host.charset, title, "", home, title)
        return start + _main(text, links)


def _in_session(path: str, session: str, fresh: int) -> str:
    """Return a link with another session id of the same kind."""
    return f"/sid-{fresh:016x}{path}" if len(session) == 16 else with_session(path, fresh)


_FACETS = {
    "color": ("red", "green", "blue", "black"),
    "size": ("s", "m", "l", "xl"),
    "brand": ("north", "south", "east", "west"),
    "price": ("low", "middle", "high"),
    "sort": ("name", "price", "new"),
}


def trap_links(host: Host, resource: Resource, seed: int) -> tuple[str, list[tuple[str, str]]]:
    """Return title and links of a page of a trap."""
    detail = resource.detail
    match resource.trap:
        case Trap.CALENDAR:
            year, month = int(detail[:4]), int(detail[5:7])
            before = (year, month - 1) if month > 1 else (year - 1, 12)
            after = (year, month + 1) if month < 12 else (year + 1, 1)
            months = [f"/calendar/{y % 10_000:04}/{m:02}" for y, m in (before, after)]
            days = (
                [f"/calendar/{year:04}/{month:02}/{day:02}" for day in range(1, 29)]
                if len(detail) == 7
                else []
            )
            return detail, [(path, path[10:]) for path in (*months, *days)]
        case Trap.FACETS:
            filters = dict(part.partition("=")[::2] for part in detail.split("&") if part)
            links = []
            for facet, values in _FACETS.items():
                for value in values:
                    query = "&".join(
                        f"{key}={each}" for key, each in {**filters, facet: value}.items()
                    )
                    links.append((f"/shop?{query}", f"{facet} {value}"))
            return "shop " + " ".join(filters.values()), links
        case Trap.LOOP:
            return "loop", [("more/", "more"), ("again/", "again")]
        case Trap.SOFT_404:
            fresh = [draw(seed, host.number, detail, each) for each in range(3)]
            return "404", [(f"/lost/{each:08x}", "?") for each in fresh]
        case Trap.PERMUTATIONS:
            parts = detail.split("&")
            rotated = ["&".join((*parts[each:], *parts[:each])) for each in range(1, len(parts))]
            swapped = ["&".join((parts[1], parts[0], *parts[2:]))] if len(parts) > 1 else []
            return "list", [(f"/list?{query}", "sort") for query in (*rotated, *swapped)]
        case Trap.NEAR_IDENTICAL:
            number = int(detail)
            return f"item {number}", [
                (f"/item/{each}", str(each)) for each in range(number + 1, number + 6)
            ]
        case _:
            raise ValueError(f"{resource.trap} has no pages other than those of the host")


def _anchors(links: Iterable[tuple[str, str]]) -> str:
    return " ".join([f'<a href="{_attribute(href)}">{text}</a>' for href, text in links])


def _main(paragraphs: Iterable[str], links: Iterable[tuple[str, str]]) -> str:
    text = "</p>\n<p>".join(paragraphs)
    items = "\n".join(
        [f'<li><a href="{_attribute(href)}">{anchor}</a></li>' for href, anchor in links]
    )
    return f"<p>{text}</p>\n<ul>{items}</ul></main></body></html>\n"


def _attribute(href: str) -> str:
    return href.replace("&", "&amp;")
