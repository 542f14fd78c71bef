"""A single URL: fetch it, parse it, read its robots.txt.

Nothing is stored.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime

from lycosa.commands.page_models import FetchedPage, FetchHop, PageMetadata, RobotsReport
from lycosa.config.settings import Collection, Config, FetchSettings
from lycosa.core.errors import UsageError, WorkError
from lycosa.core.records import Exchange, Metadata, Page
from lycosa.crawl.session.single_fetch import Hop, OneOff, file_exchange, read_page
from lycosa.fetch.robots_txt import Robots, product_token, robots_url, robots_verdict
from lycosa.http.decode import decode_body
from lycosa.page.html.markdown import MarkdownMode


def fetch_hops(settings: FetchSettings, url: str) -> tuple[list[FetchHop], bytes]:
    """Fetch a URL and follow redirects; return exchanges and the last body."""
    with OneOff(settings, url) as one:
        hops = list(one.hops())
    last = hops[-1].exchange
    body = b"" if last is None else decode_body(last, settings.max_decoded).payload
    return [_hop(hop) for hop in hops], body


def _hop(hop: Hop) -> FetchHop:
    exchange = hop.exchange
    if exchange is None:
        return FetchHop(hop.url, hop.refused)
    return FetchHop(
        hop.url,
        "",
        exchange.status,
        exchange.error,
        exchange.error_text,
        exchange.ip,
        exchange.protocol,
        exchange.duration_ms,
        exchange.first_byte_ms,
        exchange.truncated,
        len(exchange.body),
        exchange.request_head.decode("latin-1"),
        exchange.response_head.decode("latin-1"),
    )


def fetch_page(
    settings: FetchSettings, url: str, mode: MarkdownMode = MarkdownMode.MAIN
) -> FetchedPage:
    """Fetch and parse one page. `mode`: the content of its Markdown.

    Raises:
        WorkError: it is not allowed, there is no response, or it cannot be parsed.
    """
    return read_fetched(_last_exchange(settings, url), settings, mode)


def read_fetched(exchange: Exchange, settings: FetchSettings, mode: MarkdownMode) -> FetchedPage:
    """Parse a response. Raises WorkError if it cannot be parsed."""
    page = read_page(exchange, settings, markdown=mode)
    return fetched_page(exchange.url, exchange.status, page)


def parse_url(settings: FetchSettings, url: str, collections: Sequence[Collection] = ()) -> Page:
    """Fetch one page, and parse it as a crawl of the collections does.

    Raises the errors of `fetch_page`.
    """
    return read_page(_last_exchange(settings, url), settings, collections=collections)


def parse_content(
    settings: FetchSettings,
    name: str,
    content: bytes,
    url: str,
    content_type: str,
    collections: Sequence[Collection] = (),
) -> Page:
    """Parse the content of a file as a page at `url`, with the items of the collections.

    Raises:
        UsageError: the URL is invalid.
        WorkError: the content cannot be parsed.
    """
    exchange = file_exchange(name, content, url, content_type)
    return read_page(exchange, settings, name, collections)


def schemas_of(config: Config, name: str) -> list[Collection]:
    """Return the collections with schemas of items: one, or all for "".

    Raises:
        UsageError: there is none.
    """
    collections = [each for each in config.collection if each.schemas and name in ("", each.name)]
    if not collections:
        of_collection = f" of the collection {name!r}" if name else ""
        raise UsageError(
            f"no fields are configured{of_collection}: add [collection.fields] to lycosa.toml (see "
            "docs/how-to/fields.md), or `--set 'collection.fields={title=\"h1\"}'`"
        )
    return collections


def _last_exchange(settings: FetchSettings, url: str) -> Exchange:
    with OneOff(settings, url) as one:
        return answer_of(list(one.hops())[-1])


def answer_of(last: Hop) -> Exchange:
    """Return the last hop's exchange. Raises WorkError without a response."""
    if last.exchange is None:
        raise WorkError(f"{last.url}: {last.refused}")
    if last.exchange.error:
        raise WorkError(f"{last.url}: {last.exchange.error}")
    return last.exchange


def fetched_page(url: str, status: int, page: Page, collection: str = "") -> FetchedPage:
    """Return a parsed page as the model of the Python API."""
    published = page.published_at
    return FetchedPage(
        url=url,
        collection=collection,
        title=page.title,
        headline=page.headline,
        description=page.description,
        language=page.language,
        charset=page.charset,
        published_at=None if published is None else datetime.fromtimestamp(published / 1000, UTC),
        fetched_at=datetime.now(UTC),
        canonical=page.canonical,
        headings=page.headings,
        main_text=page.main_text,
        text=page.text,
        markdown=page.markdown or "",
        status=status,
        links=[link.target for link in page.links],
        metadata=page_metadata(page.metadata),
    )


def page_metadata(declared: Metadata) -> PageMetadata:
    """Return the metadata of a page as the model of the Python API."""
    values = asdict(declared)
    for name in ("published_at", "modified_at"):
        if values[name] is not None:
            values[name] = datetime.fromtimestamp(values[name] / 1000, UTC)
    return PageMetadata(**{**values, "raw": json.loads(declared.raw or "{}")})


def robots_report(settings: FetchSettings, url: str) -> RobotsReport:
    """Return whether robots.txt allows a URL, and the deciding line."""
    with OneOff(settings, url) as one:
        entry = one.robots(one.url)
        target, problem = one.url, one.robots_problem
    verdict = robots_verdict(entry.status, "" if entry.status else "no response")
    if verdict == "parse":
        robots = Robots(entry.body, settings.user_agent, entry.origin)
    else:
        robots = Robots.everything() if verdict == "allow_all" else Robots.nothing()
    return RobotsReport(
        url=target,
        robots=robots_url(entry.origin),
        status=entry.status,
        verdict=verdict,
        token=product_token(settings.user_agent),
        allowed=robots.allowed(target),
        line=robots.line(target),
        crawl_delay_ms=robots.crawl_delay_ms(),
        sitemaps=list(robots.sitemaps()),
        body=entry.body,
        problem=problem,
    )
