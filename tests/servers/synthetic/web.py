"""The synthetic web: responses as a pure function of plan, URL, request headers and time.

Nothing is stored: 2,000 hosts with a million pages cost nothing until a page is requested. `Web`
also has the properties of URLs and hosts (kind, robots rules, change rate) that tests compare with
results. Times are milliseconds since 1970.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator, Mapping
from email.utils import formatdate, parsedate_to_datetime
from itertools import islice

from tests.servers.synthetic import faults
from tests.servers.synthetic.answer import Answer, Fault
from tests.servers.synthetic.changes import Changes
from tests.servers.synthetic.draw import draw
from tests.servers.synthetic.hosts import Access, Host
from tests.servers.synthetic.kinds import ASSET_TYPES, Kind, Resource
from tests.servers.synthetic.layout import Layout
from tests.servers.synthetic.pages import Pages
from tests.servers.synthetic.plan import Trap, WebPlan
from tests.servers.synthetic.prose import missing_text
from tests.servers.synthetic.robots import OUR_TOKEN, RobotsFile, robots_file
from tests.servers.synthetic.sitemaps import Sitemaps
from tests.servers.synthetic.topics import Topics

_URL = re.compile(r"https?://([^/?#:]+)(?::\d+)?([^#]*)")
_MIN_GZIP_BYTES = 256
_UNREACHABLE = {Access.REFUSED: Fault.REFUSED, Access.UNRESOLVED: Fault.UNRESOLVED}
_WITH_VALIDATORS = (Kind.PAGE, Kind.TRANSLATION, Kind.DUPLICATE, Kind.NEAR_DUPLICATE)
_PAGES = (Kind.PAGE, Kind.TRANSLATION)
_Reply = tuple[int, str, bytes]  # status, content type ("" for no body), body


class Web:
    """A web: its responses, and the properties of its URLs and hosts."""

    def __init__(self, plan: WebPlan) -> None:
        self.plan = plan
        self.layout = Layout(plan)
        self.changes = Changes(self.layout)
        self._pages = Pages(self.layout, self.changes)
        self.topics = Topics(self.layout)
        self._sitemaps = Sitemaps(self.layout, self.changes, self._pages)

    def answer(self, url: str, request_headers: Mapping[str, str], at_ms: int) -> Answer:
        """Return the response to a GET that arrives at a time. Hot path.

        Args:
            request_headers: names in lower case. `if-none-match`, `if-modified-since` and
                `accept-encoding` are used.
        """
        host, path = self._split(url)
        if host is None or host.access is not Access.OPEN:
            return Answer(0, fault=Fault.UNRESOLVED if host is None else _UNREACHABLE[host.access])
        at = at_ms - self.plan.epoch_ms
        resource = self.layout.resolve(host, path, at)
        fields = [
            ("Date", formatdate(at_ms // 1000, usegmt=True)),
            ("Server", f"loom/{draw(host.number) % 3}"),
        ]
        fault = Fault.NONE
        failure = None
        if resource.kind is not Kind.ROBOTS:
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
            if resource.kind in _WITH_VALIDATORS:
                validators = self._validators(host, resource.number, at)
                fields += validators
                if _is_not_modified(dict(validators), request_headers):
                    return Answer(304, tuple(fields), b"", latency, 0)
            reply = self._reply(host, resource, path, at, fields)
        return _complete(host, reply, fields, request_headers, latency, fault)

    def _split(self, url: str) -> tuple[Host | None, str]:
        match = _URL.match(url)
        if match is None:
            return None, ""
        path = match[2] if match[2].startswith("/") else f"/{match[2]}"
        return self.layout.hosts.by_name(match[1].lower()), path

    def _reply(
        self, host: Host, resource: Resource, path: str, at: int, fields: list[tuple[str, str]]
    ) -> _Reply:
        match resource.kind:
            case Kind.PAGE | Kind.TRANSLATION | Kind.DUPLICATE | Kind.NEAR_DUPLICATE:
                return self._html(host, self._pages.page(host, resource, at), at)
            case Kind.ROBOTS:
                return self._robots(host, resource, at, fields)
            case Kind.SITEMAP:
                sitemap = self._sitemaps.sitemap(host, path, at)
                return (200, *sitemap) if sitemap else self._missing(host, 404)
            case Kind.FEED:
                return 200, *self._sitemaps.feed(host, at)
            case Kind.REDIRECT | Kind.REDIRECT_LOOP:
                return self._redirect(host, resource, fields)
            case Kind.TRAP:
                return self._trap(host, resource, at)
            case Kind.GONE:
                return self._missing(host, (404, 410)[resource.number % 2])
            case Kind.FORBIDDEN:
                body = b"<title>Private</title><p>robots.txt disallows this page."
                return 200, "text/html; charset=utf-8", body
            case Kind.BROKEN:
                return 500, "text/html; charset=utf-8", b"<title>Internal error</title>"
            case Kind.ASSET:
                size = 1_000 + draw(host.number, resource.number) % 9_000
                return 200, ASSET_TYPES[resource.detail], bytes(size)
            case _:
                return self._missing(host, 404)

    def _html(self, host: Host, text: str, at: int) -> _Reply:
        if host.noisy:
            text += f"<script>served = {at}</script><!-- {draw(host.number, at):x} -->\n"
        content_type = "text/html" if host.number % 3 == 1 else f"text/html; charset={host.charset}"
        return 200, content_type, text.encode(host.charset, "xmlcharrefreplace")

    def _robots(
        self, host: Host, resource: Resource, at: int, fields: list[tuple[str, str]]
    ) -> _Reply:
        owner = self.layout.hosts.get(resource.number)
        if resource.detail == "/robots.txt" and host.robots in ("redirecting", "foreign"):
            first = self.layout.hosts.get(0).name
            target = (
                "/site-robots.txt"
                if host.robots == "redirecting"
                else f"http://{first}/robots-of/{host.number}.txt"
            )
            fields.append(("Location", target))
            return 302, "text/plain", b"elsewhere\n"
        file = robots_file(self.plan, owner, at)
        body = file.text().encode() if file.status == 200 else b"none\n"
        return file.status, "text/plain; charset=utf-8", body

    def _redirect(self, host: Host, resource: Resource, fields: list[tuple[str, str]]) -> _Reply:
        style = self.layout.redirect_style(host, resource.number)
        status = int(style) if style.isdigit() else 302
        popularity = draw(self.plan.seed, "target", host.number, resource.number) % 1_000 / 1_000
        target = self.layout.path(host, self.layout.linked_page(host, host.size, popularity))
        if style == "loop":
            target = f"/go/{resource.number}" + ("" if resource.detail else ".2")
        elif style == "chain" and resource.detail != "3":
            target = f"/go/{resource.number}.{3 if resource.detail else 2}"
        elif style == "away":
            linked = self.layout.linked_hosts(0)
            away = linked[draw("away", host.number, resource.number) % len(linked)] if linked else 0
            target = f"http://{self.layout.hosts.get(away).name}/"
        fields.append(("Location", target))
        return status, "text/html", b"moved"

    def _trap(self, host: Host, resource: Resource, at: int) -> _Reply:
        text = self._pages.trap(host, resource, at)
        if resource.trap is Trap.SOFT_404:
            text = text.replace("<main>", f"<main><p>{missing_text(host.language)}</p>", 1)
        return self._html(host, text, at)

    def _missing(self, host: Host, status: int) -> _Reply:
        body = f"<title>{status}</title><p>{missing_text(host.language)}".encode()
        return status, "text/html; charset=utf-8", body

    def _validators(self, host: Host, number: int, at: int) -> list[tuple[str, str]]:
        """Return ETag and Last-Modified, which are correct or not depending on the host."""
        match host.validators:
            case "absent":
                return []
            case "restless":
                tag, changed = f'"{at:x}"', at
            case "frozen":
                tag, changed = f'"{host.number}-{number}"', -1
            case _:
                state = self.changes.state(host, number, at)
                prefix = "W/" if host.number % 2 else ""
                tag, changed = f'{prefix}"{number}-{state.version}"', state.since
        modified = formatdate((self.plan.epoch_ms + changed) // 1000, usegmt=True)
        return [("ETag", tag), ("Last-Modified", modified)]

    def seeds(self, count: int = 1) -> list[str]:
        """Return the front pages of the first hosts that can be crawled.

        Links from the first one lead to all other hosts.
        """
        return [f"http://{host.name}/" for host in islice(self.open_hosts(), count)]

    def open_hosts(self) -> Iterator[Host]:
        """Yield the hosts that respond and whose robots.txt allows pages."""
        hosts = map(self.layout.hosts.get, range(self.plan.hosts))
        return filter(self.layout.is_open, hosts)

    def real_pages(self, at_ms: int | None = None, *, orphans: bool = True) -> Iterator[str]:
        """Yield the URLs that a complete crawl finds: allowed pages, without traps and copies.

        Args:
            orphans: whether to include pages that only sitemaps list.
        """
        at = 0 if at_ms is None else at_ms - self.plan.epoch_ms
        layout = self.layout
        for host in self.open_hosts():
            for number in range(layout.size(host, at)):
                if (orphans or not layout.is_orphan(host, number)) and not layout.is_removed(
                    host, number, at
                ):
                    for language in host.languages:
                        yield f"http://{host.name}{layout.path(host, number, language)}"

    def kind(self, url: str, at_ms: int | None = None) -> Kind:
        """Return the kind of a URL. With a time, pages that do not exist yet are MISSING."""
        host, path = self._split(url)
        if host is None or host.access is not Access.OPEN:
            return Kind.UNREACHABLE
        at = None if at_ms is None else at_ms - self.plan.epoch_ms
        kind = self.layout.resolve(host, path, at).kind
        if kind is Kind.ROBOTS or robots_file(self.plan, host, None).allows(path):
            return kind
        return Kind.FORBIDDEN

    def _page(self, url: str, at: int | None = None) -> tuple[Host, int] | None:
        """Return host and number of a page or translation; None for other URLs."""
        host, path = self._split(url)
        if host is None:
            return None
        resource = self.layout.resolve(host, path, at)
        return (host, resource.number) if resource.kind in _PAGES else None

    def topic(self, url: str) -> int | None:
        """Return the topic of a page in a web with topics; None for other URLs."""
        page = self._page(url)
        return self.topics.of(*page) if page else None

    def trap(self, url: str) -> Trap | None:
        """Return the kind of trap that a URL is part of, or None."""
        host, path = self._split(url)
        return self.layout.resolve(host, path).trap if host is not None else None

    def is_trap(self, url: str) -> bool:
        return self.trap(url) is not None

    def change_rate(self, url: str) -> float:
        """Return the changes of a page's text per day (Poisson process); 0 for other URLs."""
        page = self._page(url)
        return self.changes.rate(*page) if page else 0.0

    def version(self, url: str, at_ms: int) -> int:
        """Return the number of changes of a page until a time; 0 for other URLs."""
        at = at_ms - self.plan.epoch_ms
        page = self._page(url, at)
        return self.changes.state(*page, at).version if page else 0

    def robots(self, host_name: str, at_ms: int | None = None) -> RobotsFile:
        """Return the robots.txt of a host after redirects; status 404 for an unknown host.

        Without a time, it is the file that the host serves while it does not fail.
        """
        host = self.layout.hosts.by_name(host_name)
        if host is None:
            return RobotsFile(404)
        return robots_file(self.plan, host, None if at_ms is None else at_ms - self.plan.epoch_ms)

    def robots_allows(self, url: str, at_ms: int | None = None, agent: str = OUR_TOKEN) -> bool:
        host, path = self._split(url)
        return host is not None and self.robots(host.name, at_ms).allows(path, agent)

    def crawl_delay(self, host_name: str, at_ms: int | None = None, agent: str = OUR_TOKEN) -> int:
        """Return the Crawl-delay of a host's robots.txt in milliseconds; 0 without one."""
        return self.robots(host_name, at_ms).crawl_delay_ms(agent)

    def robots_of(self, host_name: str, path: str) -> str:
        """Return the host whose robots.txt is at a path or redirects to it; "" if none."""
        host = self.layout.hosts.by_name(host_name)
        if host is None:
            return ""
        resource = self.layout.resolve(host, path)
        return self.layout.hosts.get(resource.number).name if resource.kind is Kind.ROBOTS else ""

    def registrable(self, host_name: str) -> str:
        host = self.layout.hosts.by_name(host_name)
        return host.domain if host is not None else host_name


def _is_not_modified(validators: Mapping[str, str], request: Mapping[str, str]) -> bool:
    """Evaluate the conditions of a request (RFC 9110 section 13.2.2).

    If-None-Match is compared weakly. If-Modified-Since is used only without it.
    """
    tag = validators.get("ETag")
    if tag is None:
        return False
    condition = request.get("if-none-match")
    if condition is not None:
        tags = [each.strip().removeprefix("W/") for each in condition.split(",")]
        return tag.removeprefix("W/") in tags or condition.strip() == "*"
    since = request.get("if-modified-since")
    if since is None:
        return False
    try:
        return parsedate_to_datetime(since) >= parsedate_to_datetime(validators["Last-Modified"])
    except (ValueError, TypeError):
        return False


def _complete(
    host: Host,
    reply: _Reply,
    fields: list[tuple[str, str]],
    request: Mapping[str, str],
    latency: int,
    fault: Fault,
) -> Answer:
    """Return the response with the fields of its content."""
    status, content_type, body = reply
    fields.append(("Content-Type", content_type))
    compressible = (
        host.compressed and len(body) >= _MIN_GZIP_BYTES and content_type.startswith("text/")
    )
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
