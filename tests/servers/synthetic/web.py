"""The synthetic web: a pure function of (seed, URL, time), and the truth about it that proofs
compare with.

Nothing is stored: two thousand hosts with a million pages cost nothing until a page is asked for,
and each answer depends on the plan, the URL, the request's headers and the time alone. All times
here are milliseconds since 1970.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator, Mapping
from email.utils import formatdate, parsedate_to_datetime

from tests.servers.synthetic import faults
from tests.servers.synthetic.answer import Answer, Fault
from tests.servers.synthetic.changes import Changes
from tests.servers.synthetic.draw import draw
from tests.servers.synthetic.hosts import Access, Host
from tests.servers.synthetic.kinds import ASSET_TYPES, Kind, Place
from tests.servers.synthetic.layout import Layout
from tests.servers.synthetic.pages import Pages
from tests.servers.synthetic.plan import Trap, WebPlan
from tests.servers.synthetic.prose import missing_text
from tests.servers.synthetic.robots import OUR_TOKEN, RobotsFile, robots_file
from tests.servers.synthetic.sitemaps import Sitemaps
from tests.servers.synthetic.topics import Topics

_URL = re.compile(r"https?://([^/?#:]+)(?::\d+)?([^#]*)")
_GZIP_LEAST = 256
_UNREACHABLE = {Access.REFUSED: Fault.REFUSED, Access.UNRESOLVED: Fault.UNRESOLVED}
_SHOWN = (Kind.PAGE, Kind.TRANSLATION, Kind.DUPLICATE, Kind.NEAR_DUPLICATE)
_REAL = (Kind.PAGE, Kind.TRANSLATION)
_Reply = tuple[int, str, bytes]  # status, content type ("" for no body), body


class Web:
    """Answers requests, and says what is true."""

    def __init__(self, plan: WebPlan) -> None:
        self.plan = plan
        self.layout = Layout(plan)
        self.changes = Changes(self.layout)
        self._pages = Pages(self.layout, self.changes)
        self.topics = Topics(self.layout)
        self._sitemaps = Sitemaps(self.layout, self.changes, self._pages)

    # -- what it answers
    # ------------------------------------------------------------

    def answer(self, url: str, request_headers: Mapping[str, str], at_ms: int) -> Answer:
        """The answer to a GET that arrives at a time. Hot path.

        Args:
            request_headers: names in lower case; `if-none-match`, `if-modified-since` and
                `accept-encoding` are read.
        """
        host, path = self._split(url)
        if host is None or host.access is not Access.OPEN:
            return Answer(0, fault=Fault.UNRESOLVED if host is None else _UNREACHABLE[host.access])
        at = at_ms - self.plan.epoch_ms
        place = self.layout.place(host, path, at)
        fields = [
            ("Date", formatdate(at_ms // 1000, usegmt=True)),
            ("Server", f"loom/{draw(host.number) % 3}"),
        ]
        fault = Fault.NONE
        failure = None
        if place.kind is not Kind.ROBOTS:
            fault = faults.page_fault(self.plan, host, path, at)
            failure = faults.host_failure(self.plan, host, at)
        latency = faults.latency_ms(self.plan, host, path, at)
        if fault in (Fault.RESET, Fault.CLOSE, Fault.HANG):
            return Answer(0, latency_ms=latency, fault=fault)
        if failure is not None:
            status, retry_after = failure
            reply: _Reply = (status, "text/html; charset=utf-8", b"<title>Sorry</title>")
            if retry_after:
                fields.append(("Retry-After", retry_after))
        else:
            if place.kind in _SHOWN:
                validators = self._validators(host, place.number, at)
                fields += validators
                if _not_modified(dict(validators), request_headers):
                    return Answer(304, tuple(fields), b"", latency, 0)
            reply = self._reply(host, place, path, at, fields)
        return _finished(host, reply, fields, request_headers, latency, fault)

    def _split(self, url: str) -> tuple[Host | None, str]:
        match = _URL.match(url)
        if match is None:
            return None, ""
        path = match[2]
        return self.layout.hosts.by_name(match[1].lower()), path if path.startswith(
            "/"
        ) else f"/{path}"

    def _reply(
        self, host: Host, place: Place, path: str, at: int, fields: list[tuple[str, str]]
    ) -> _Reply:
        match place.kind:
            case Kind.PAGE | Kind.TRANSLATION | Kind.DUPLICATE | Kind.NEAR_DUPLICATE:
                return self._html(host, self._pages.page(host, place, at), at)
            case Kind.ROBOTS:
                return self._robots(host, place, at, fields)
            case Kind.SITEMAP:
                actual = self._sitemaps.sitemap(host, path, at)
                return (200, *actual) if actual else self._missing(host, 404)
            case Kind.FEED:
                return 200, *self._sitemaps.feed(host, at)
            case Kind.REDIRECT | Kind.CIRCLE:
                return self._redirect(host, place, fields)
            case Kind.TRAP:
                return self._trap(host, place, at)
            case Kind.GONE:
                return self._missing(host, (404, 410)[place.number % 2])
            case Kind.FORBIDDEN:
                return (
                    200,
                    "text/html; charset=utf-8",
                    b"<title>Private</title><p>Nobody may read this.",
                )
            case Kind.BROKEN:
                return 500, "text/html; charset=utf-8", b"<title>Internal error</title>"
            case Kind.ASSET:
                return (
                    200,
                    ASSET_TYPES[place.detail],
                    b"\x00" * (1_000 + draw(host.number, place.number) % 9_000),
                )
            case _:
                return self._missing(host, 404)

    def _html(self, host: Host, text: str, at: int) -> _Reply:
        if host.noisy:
            text += f"<script>served = {at}</script><!-- {draw(host.number, at):x} -->\n"
        content_type = "text/html" if host.number % 3 == 1 else f"text/html; charset={host.charset}"
        return 200, content_type, text.encode(host.charset, "xmlcharrefreplace")

    def _robots(self, host: Host, place: Place, at: int, fields: list[tuple[str, str]]) -> _Reply:
        about = self.layout.hosts.get(place.number)
        if place.detail == "/robots.txt" and host.robots in ("redirecting", "foreign"):
            first = self.layout.hosts.get(0).name
            target = (
                "/site-robots.txt"
                if host.robots == "redirecting"
                else f"http://{first}/robots-of/{host.number}.txt"
            )
            fields.append(("Location", target))
            return 302, "text/plain", b"elsewhere\n"
        file = robots_file(self.plan, about, at)
        return (
            file.status,
            "text/plain; charset=utf-8",
            file.text().encode() if file.status == 200 else b"none\n",
        )

    def _redirect(self, host: Host, place: Place, fields: list[tuple[str, str]]) -> _Reply:
        style = self.layout.redirect_style(host, place.number)
        status = int(style) if style.isdigit() else 302
        popularity = draw(self.plan.seed, "target", host.number, place.number) % 1_000 / 1_000
        target = self.layout.path(host, self.layout.linked_page(host, host.size, popularity))
        if style == "circle":
            target = f"/go/{place.number}" + ("" if place.detail else ".2")
        elif style == "chain" and place.detail != "3":
            target = f"/go/{place.number}.{3 if place.detail else 2}"
        elif style == "away":
            linked = self.layout.linked_hosts(0)
            away = linked[draw("away", host.number, place.number) % len(linked)] if linked else 0
            target = f"http://{self.layout.hosts.get(away).name}/"
        fields.append(("Location", target))
        return status, "text/html", b"moved"

    def _trap(self, host: Host, place: Place, at: int) -> _Reply:
        text = self._pages.trap(host, place, at)
        if place.trap is Trap.SOFT_404:
            text = text.replace("<main>", f"<main><p>{missing_text(host.language)}</p>", 1)
        return self._html(host, text, at)

    def _missing(self, host: Host, status: int) -> _Reply:
        return (
            status,
            "text/html; charset=utf-8",
            f"<title>{status}</title><p>{missing_text(host.language)}".encode(),
        )

    def _validators(self, host: Host, number: int, at: int) -> list[tuple[str, str]]:
        """ETag and Last-Modified as the host makes them."""
        match host.validators:
            case "absent":
                return []
            case "restless":
                tag, changed = f'"{at:x}"', at
            case "frozen":
                tag, changed = f'"{host.number}-{number}"', -1
            case _:
                state = self.changes.state(host, number, at)
                tag, changed = (
                    f'W/"{number}-{state.version}"'
                    if host.number % 2
                    else f'"{number}-{state.version}"',
                    state.since,
                )
        modified = formatdate((self.plan.epoch_ms + changed) // 1000, usegmt=True)
        return [("ETag", tag), ("Last-Modified", modified)]

    # -- what is true
    # ------------------------------------------------------------

    def seeds(self, count: int = 1) -> list[str]:
        """Front pages of the first hosts that can be crawled. All others are reached by links from
        the first.
        """
        return [
            f"http://{host.name}/" for host, _ in zip(self.open_hosts(), range(count), strict=False)
        ]

    def open_hosts(self) -> Iterator[Host]:
        """Hosts that answer and whose robots.txt lets us in."""
        every = (self.layout.hosts.get(number) for number in range(self.plan.hosts))
        return (host for host in every if self.layout.is_open(host))

    def real_pages(self, at_ms: int | None = None, *, orphans: bool = True) -> Iterator[str]:
        """The URLs that a perfect robot finds: allowed, no trap, no copy. Those in sitemaps alone
        are left out without `orphans`.
        """
        at = 0 if at_ms is None else at_ms - self.plan.epoch_ms
        layout = self.layout
        for host in self.open_hosts():
            for number in range(layout.size(host, at)):
                if (orphans or not layout.is_orphan(host, number)) and not layout.is_dead(
                    host, number, at
                ):
                    for language in host.languages:
                        yield f"http://{host.name}{layout.path(host, number, language)}"

    def kind(self, url: str, at_ms: int | None = None) -> Kind:
        """What a URL is (at a time: a page that is not born yet is missing)."""
        host, path = self._split(url)
        if host is None or host.access is not Access.OPEN:
            return Kind.NOWHERE
        kind = self.layout.place(
            host, path, None if at_ms is None else at_ms - self.plan.epoch_ms
        ).kind
        return (
            kind
            if kind is Kind.ROBOTS or robots_file(self.plan, host, None).allows(path)
            else Kind.FORBIDDEN
        )

    def topic(self, url: str) -> int | None:
        """What a page is about, in a web with topics; None for what is no page."""
        host, path = self._split(url)
        place = self.layout.place(host, path) if host is not None else None
        return (
            self.topics.of(host, place.number)
            if host is not None and place is not None and place.kind in _REAL
            else None
        )

    def trap(self, url: str) -> Trap | None:
        """Which trap a URL is part of."""
        host, path = self._split(url)
        return self.layout.place(host, path).trap if host is not None else None

    def is_trap(self, url: str) -> bool:
        return self.trap(url) is not None

    def change_rate(self, url: str) -> float:
        """Changes of a page's text a day (Poisson); 0 for what is no page."""
        host, path = self._split(url)
        place = self.layout.place(host, path) if host is not None else None
        return (
            self.changes.rate(host, place.number)
            if host is not None and place is not None and place.kind in _REAL
            else 0.0
        )

    def version(self, url: str, at_ms: int) -> int:
        """How often a page has changed until a time; 0 for what is no page."""
        host, path = self._split(url)
        at = at_ms - self.plan.epoch_ms
        place = self.layout.place(host, path, at) if host is not None else None
        return (
            self.changes.state(host, place.number, at).version
            if host is not None and place is not None and place.kind in _REAL
            else 0
        )

    def robots(self, host_name: str, at_ms: int | None = None) -> RobotsFile:
        """The robots.txt of a host (redirects followed) at a time, or when nothing is out of order;
        404 for a strange host.
        """
        host = self.layout.hosts.by_name(host_name)
        return (
            RobotsFile(404)
            if host is None
            else robots_file(self.plan, host, None if at_ms is None else at_ms - self.plan.epoch_ms)
        )

    def robots_allows(self, url: str, at_ms: int | None = None, agent: str = OUR_TOKEN) -> bool:
        host, path = self._split(url)
        return host is not None and self.robots(host.name, at_ms).allows(path, agent)

    def crawl_delay(self, host_name: str, at_ms: int | None = None, agent: str = OUR_TOKEN) -> int:
        """Milliseconds that the host's robots.txt asks for between requests; 0 if it does not."""
        return self.robots(host_name, at_ms).crawl_delay_ms(agent)

    def robots_of(self, host_name: str, path: str) -> str:
        """The host whose robots.txt lies at a path, redirects included; "" for any other path."""
        host = self.layout.hosts.by_name(host_name)
        if host is None:
            return ""
        place = self.layout.place(host, path)
        return self.layout.hosts.get(place.number).name if place.kind is Kind.ROBOTS else ""

    def registrable(self, host_name: str) -> str:
        host = self.layout.hosts.by_name(host_name)
        return host.domain if host is not None else host_name


def _not_modified(validators: Mapping[str, str], request: Mapping[str, str]) -> bool:
    """RFC 9110 section 13.2.2: If-None-Match first, weakly compared; If-Modified-Since only without
    it.
    """
    tag = validators.get("ETag")
    if tag is None:
        return False
    requested = request.get("if-none-match")
    if requested is not None:
        return (
            tag.removeprefix("W/")
            in [each.strip().removeprefix("W/") for each in requested.split(",")]
            or requested.strip() == "*"
        )
    since = request.get("if-modified-since")
    if since is None:
        return False
    try:
        return parsedate_to_datetime(since) >= parsedate_to_datetime(validators["Last-Modified"])
    except (ValueError, TypeError):
        return False


def _finished(
    host: Host,
    reply: _Reply,
    fields: list[tuple[str, str]],
    request: Mapping[str, str],
    latency: int,
    fault: Fault,
) -> Answer:
    """The answer with the fields of its content."""
    status, content_type, body = reply
    fields.append(("Content-Type", content_type))
    compressible = host.compressed and len(body) >= _GZIP_LEAST and content_type.startswith("text/")
    if compressible:
        fields.append(("Vary", "Accept-Encoding"))
        if "gzip" in request.get("accept-encoding", ""):
            body = gzip.compress(body, compresslevel=1, mtime=0)
            fields.append(("Content-Encoding", "gzip"))
    if host.chunked and status == 200:
        fields.append(("Transfer-Encoding", "chunked"))
    else:
        fields.append(("Content-Length", str(len(body))))
    return Answer(status, tuple(fields), body, latency, faults.transfer_ms(host, len(body)), fault)
