"""Reads a `Page` from a response: decodes, checks the media type, parses.

The crawl, replay, `reparse` and the commands for single pages share it, so that their results are
equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from functools import partial
from itertools import chain
from typing import Protocol

from lycosa.archive.warc.record import RENDERED_TYPE
from lycosa.config.collection import Collection
from lycosa.core.dataclass import dataclass
from lycosa.core.errors import Refusal
from lycosa.core.records import Exchange, Item, Link, LinkKind, Page
from lycosa.hooks.plugins import Plugins
from lycosa.http.decode import content_type_of, decode_body, parse_head
from lycosa.page.documents.kinds import kind_of
from lycosa.page.html import style
from lycosa.page.html.markdown import MarkdownMode, html_markdown
from lycosa.page.page_parts import HtmlTree, ReadItems
from lycosa.page.parse import ParseOptions, can_parse, parse_items, parse_page
from lycosa.url.file_types import unindexable_type
from lycosa.url.normalise import LinkResolver

FAULT_RENDERED = "rendered"
"""In `pages.faults`: a browser rendered the page before it was parsed."""


@dataclass(slots=True)
class ParsedExchange:
    """The result of parsing a response.

    `page`: None if the media type is not supported. `error`: the Content-Encoding is invalid.
    """

    page: Page | None
    error: str = ""
    truncated: bool = False
    links: list[Link] = field(
        default_factory=list
    )  # of a resource that is not a page: a style sheet


class ParseFunction(Protocol):
    """A function that parses a response, here or in a child process."""

    def __call__(
        self,
        exchange: Exchange,
        collections: Sequence[str] = (),
        *,
        markdown: MarkdownMode | None = None,
    ) -> ParsedExchange:
        """Parse a response, and extract items by the schemas of `collections`.

        `markdown`: the content of `Page.markdown`; None: no Markdown.
        """
        ...


class ItemExtractor(Protocol):
    """Extracts items by the schemas of collections (`lycosa.fields`). Picklable."""

    def read(self, collections: Sequence[str], tree: HtmlTree) -> list[Item]:
        """Return the items of a page. Never raises on any page."""
        ...


class ReadsDocuments(Protocol):
    """The parser of documents, such as `lycosa.crawl.documents.pool.DocumentPool`."""

    def wants(self, exchange: Exchange) -> bool:
        """Return whether a response is a document."""
        ...

    def read(self, exchange: Exchange, markdown: MarkdownMode | None = None) -> ParsedExchange:
        """Parse a document; it may take seconds. `markdown`: as of `ParseFunction`."""
        ...


def item_extractor(plugins: Plugins, collections: Iterable[Collection]) -> ItemExtractor | None:
    """Return the extractor for these collections; None if they have no items."""
    extractors: list[ItemExtractor] = plugins.call("item_extractor", collections=list(collections))
    return next(iter(extractors), None)


@dataclass(slots=True, frozen=True)
class Reader:
    """Parses responses in this process, documents by `documents`. Picklable.

    `max_decoded`: maximum bytes after decompression. `documents`: None: documents are not parsed.
    `extractor`: None: no items are extracted.
    """

    max_decoded: int
    product_token: str
    documents: ReadsDocuments | None = None
    extractor: ItemExtractor | None = None

    def __call__(
        self,
        exchange: Exchange,
        collections: Sequence[str] = (),
        *,
        markdown: MarkdownMode | None = None,
    ) -> ParsedExchange:
        if exchange.truncated == "unspecified":
            return ParsedExchange(None)  # the transfer was ended for its media type
        options = ParseOptions(
            self.product_token,
            exchange.started_at or None,
            self._read_items(collections),
            markdown,
        )
        if exchange.rendered:
            page = self._parse(exchange, exchange.rendered, RENDERED_TYPE, options)
            page.faults.append(FAULT_RENDERED)
            return ParsedExchange(page)
        decoded = decode_body(exchange, self.max_decoded)
        content_type = content_type_of(exchange)
        if decoded.error and not decoded.payload:
            return ParsedExchange(None, decoded.error)
        if self.documents is not None and kind_of(decoded.payload) is not None:
            return self.documents.read(exchange, markdown)
        if not can_parse(content_type, decoded.payload):
            return ParsedExchange(None, decoded.error, decoded.truncated)
        page = self._parse(exchange, decoded.payload, content_type, options)
        if decoded.error:
            page.faults.append(decoded.error)
        if decoded.truncated or exchange.truncated:
            page.faults.append("truncated")
        return ParsedExchange(page, "", decoded.truncated)

    def items(self, exchange: Exchange, collections: Sequence[str]) -> list[Item]:
        """Return only the items of a response.

        This is much faster than parsing it completely.
        """
        read_items = self._read_items(collections)
        if exchange.truncated == "unspecified" or read_items is None:
            return []
        payload, content_type = exchange.rendered, RENDERED_TYPE
        if not payload:
            payload = decode_body(exchange, self.max_decoded).payload
            content_type = content_type_of(exchange)
            if self.documents is not None and kind_of(payload) is not None:
                return []
        return parse_items(payload, read_items, url=exchange.url, content_type=content_type)

    def _read_items(self, collections: Sequence[str]) -> ReadItems | None:
        if self.extractor is None or not collections:
            return None
        return partial(self.extractor.read, collections)

    def _parse(
        self,
        exchange: Exchange,
        payload: bytes,
        content_type: str,
        options: ParseOptions,
    ) -> Page:
        headers = parse_head(exchange.response_head)
        return parse_page(
            payload,
            url=exchange.url,
            content_type=content_type,
            link_headers=headers.get_all("link"),
            x_robots_tag=headers.get_all("x-robots-tag"),
            content_language=headers.get("content-language") or "",
            refresh=headers.get("refresh") or "",
            options=options,
        )

    def markdown(self, exchange: Exchange, mode: MarkdownMode) -> str:
        """Return a response as Markdown; "" if it has no text.

        HTML is not parsed to a `Page`.
        """
        content_type = content_type_of(exchange)
        payload = exchange.rendered
        if payload:
            content_type = RENDERED_TYPE
        else:
            payload = decode_body(exchange, self.max_decoded).payload
        if kind_of(payload) is None:
            markdown = html_markdown(payload, exchange.url, content_type, mode)
            if markdown is not None:
                return markdown
        page = self(exchange, markdown=mode).page
        return "" if page is None else page.markdown or ""


_MAX_LINKS = 5_000


def parse_requisites(
    exchange: Exchange,
    parse: Callable[[Exchange], ParsedExchange],
    media_types: Sequence[str],
    max_decoded: int,
) -> ParsedExchange:
    """Parse a response, with the URLs in its styles as links.

    A response with another type than `media_types` has no page.
    """
    content_type = content_type_of(exchange)
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type == "text/css":
        body = decode_body(exchange, max_decoded)
        return ParsedExchange(
            None,
            truncated=body.truncated,
            links=_links(exchange.url, style.urls(style.text_of(body.payload)), 0),
        )
    if unindexable_type(content_type, media_types):
        return ParsedExchange(None)
    parsed = parse(exchange)
    page = parsed.page
    if page is not None and "html" in media_type:
        body = decode_body(exchange, max_decoded)
        urls = chain(style.html_urls(body.payload), style.image_sets(body.payload))
        page.links.extend(_links(exchange.url, urls, len(page.links)))
    return parsed


def _links(base: str, urls: Iterable[str], position: int) -> list[Link]:
    resolver = LinkResolver(base)
    targets: dict[str, None] = {}
    for url in urls:
        target = resolver.resolve(url)
        if not isinstance(target, Refusal):
            targets[target] = None
        if len(targets) == _MAX_LINKS:
            break
    return [
        Link(target, "", "", LinkKind.REQUISITE.value, position + number)
        for number, target in enumerate(targets)
    ]
