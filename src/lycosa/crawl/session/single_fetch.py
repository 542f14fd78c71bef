"""Single steps: fetch a URL, read its robots.txt, parse a page.

Nothing is written to disk. robots.txt is obeyed; `fetch` reports the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from lycosa.config.settings import Collection, FetchSettings
from lycosa.core.clock import SystemClock
from lycosa.core.dataclass import dataclass
from lycosa.core.errors import Exclusion, FetchError, Refusal, UsageError, WorkError
from lycosa.core.host_row import RobotsEntry
from lycosa.core.records import Exchange, Page, Request, VisitKind
from lycosa.crawl.documents.pool import document_reader
from lycosa.crawl.documents.wire import DocumentLimits
from lycosa.crawl.policy.outcome import REDIRECTS
from lycosa.crawl.policy.robots_cache import MAX_HOPS, RobotsCache
from lycosa.crawl.processing.page_reader import item_extractor
from lycosa.fetch.client import CurlFetcher
from lycosa.fetch.guard import AddressGuard, named_pair
from lycosa.fetch.robots_txt import product_token, robots_url
from lycosa.hooks.plugins import installed_plugins
from lycosa.http.decode import content_type_of, parse_head
from lycosa.page.html.markdown import MarkdownMode
from lycosa.url.normalise import LinkResolver, normalise, typed_url
from lycosa.url.schemes import OTHERS
from lycosa.url.scope import url_origin


@dataclass(slots=True, frozen=True)
class Hop:
    """One exchange of a single fetch.

    `refused`: why it was not made: robots.txt, too many redirects, an unusable one, or `admit` of
    the fetcher.
    """

    url: str
    exchange: Exchange | None
    refused: str = ""


class OneOff:
    """A fetcher for single URLs, with its own robots.txt cache.

    It is a context manager. `admit`: for URLs that no operator typed: their addresses may not be
    private. It is called with the URL of each hop before its robots.txt is fetched, returns why the
    URL is refused, or "", and may wait.
    """

    def __init__(
        self, settings: FetchSettings, url: str, admit: Callable[[str], str] | None = None
    ) -> None:
        self.url = normalise(typed_url(url))
        self._settings = settings
        self._admit = admit
        typed = [] if admit is not None else [self.url]
        self._fetcher = CurlFetcher(
            fetching_of(typed, settings), AddressGuard(map(named_pair, typed)), SystemClock()
        )
        self._robots = RobotsCache(settings.user_agent)
        self.robots_problem = ""
        """Why the last robots.txt was not received, as `reason: description`."""

    def __enter__(self) -> OneOff:
        return self

    def __exit__(self, *_: object) -> None:
        self._fetcher.close()

    def hops(self) -> Iterator[Hop]:
        """Fetch the URL and follow redirects, each hop by its robots.txt."""
        url = self.url
        for _ in range(self._settings.max_redirects + 1):
            if self._admit is not None and (refused := self._admit(url)):
                yield Hop(url, None, refused)
                return
            entry = self.robots(url)
            if not self._robots.allowed(url, entry.origin):
                why = (
                    "robots.txt disallows it"
                    if self._robots.reachable(entry.origin)
                    else "robots.txt is unreachable, so no URL is allowed"
                    + (f" ({self.robots_problem})" if self.robots_problem else "")
                )
                yield Hop(url, None, f"{Exclusion.ROBOTS}: {why}")
                return
            exchange = self._exchange(url, VisitKind.PAGE)
            yield Hop(url, exchange)
            if exchange.error or exchange.status not in REDIRECTS:
                return
            location = parse_head(exchange.response_head).get("location") or ""
            target = LinkResolver(url).resolve(location)
            if isinstance(target, Refusal) or not location.strip():
                yield Hop(location or url, None, FetchError.BAD_REDIRECT)
                return
            url = target
        yield Hop(url, None, Exclusion.REDIRECT_LIMIT)

    def robots(self, url: str) -> RobotsEntry:
        """Return the robots.txt of a URL's origin, after redirects."""
        origin = url_origin(url)
        target = robots_url(origin)
        for _ in range(MAX_HOPS + 1):
            exchange = self._exchange(target, VisitKind.ROBOTS)
            location = parse_head(exchange.response_head).get("location")
            following = (
                LinkResolver(target).resolve(location)
                if location and exchange.status in REDIRECTS
                else Refusal.UNPARSABLE
            )
            if isinstance(following, Refusal):
                break
            target = following
        self.robots_problem = f"{exchange.error}: {exchange.error_text}" if exchange.error else ""
        return self._robots.received(origin, exchange)

    def crawl_delay_ms(self, url: str) -> int:
        """Return the Crawl-delay of a URL's origin, if its robots.txt was received."""
        return self._robots.crawl_delay_ms(url_origin(url))

    def _exchange(self, url: str, kind: VisitKind) -> Exchange:
        self._fetcher.start(Request(url, kind))
        while not (ended := self._fetcher.wait(200)):
            pass
        return ended[0]


def read_page(
    exchange: Exchange,
    settings: FetchSettings,
    source: str = "",
    collections: Sequence[Collection] = (),
    markdown: MarkdownMode | None = None,
) -> Page:
    """Parse a response as the crawl does, with the items of these collections.

    `source`: its name in errors; "": its URL. `markdown`: the content of `Page.markdown`; None: no
    Markdown.

    Raises:
        WorkError: the media type is not supported, or the content cannot be decoded.
    """
    limits = DocumentLimits(
        max_decoded=settings.max_decoded, product_token=product_token(settings.user_agent)
    )
    extractor = item_extractor(installed_plugins(), collections) if collections else None
    names = [each.name for each in collections]
    with document_reader(limits, extractor) as reader:
        parsed = reader(exchange, names, markdown=markdown)
    if parsed.page is None:
        kind = content_type_of(exchange) or "no Content-Type"
        raise WorkError(
            f"{source or exchange.url} cannot be parsed ({parsed.error or kind}); "
            "supported are HTML, plain text, PDF and office documents"
        )
    return parsed.page


def file_exchange(path: str, content: bytes, url: str, content_type: str) -> Exchange:
    """Return an exchange with the content of a file as its response."""
    field = f"Content-Type: {content_type}\r\n" if content_type else ""
    head = f"HTTP/1.1 200 OK\r\n{field}\r\n".encode("latin-1", "replace")
    try:
        address = normalise(url)
    except UsageError:
        raise UsageError(f"--url {url!r} (for {path}) is not a URL that can be crawled") from None
    return Exchange(
        address,
        VisitKind.PAGE,
        SystemClock().now_ms(),
        0,
        response_head=head,
        body=content,
        status=200,
    )


def fetching_of(urls: Iterable[str], settings: FetchSettings) -> FetchSettings:
    """Return the settings for fetching normalised URLs that an operator typed.

    ftp and gopher are enabled if one of the URLs needs it.
    """
    return (
        settings.model_copy(update={"other_schemes": True})
        if any(url.startswith(OTHERS) for url in urls)
        else settings
    )
