"""The answer to a search as a feed (RSS 2.0, Atom: RFC 4287), and the description by which browsers
add this search (OpenSearch 1.1).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Annotated, Literal
from urllib.parse import urljoin
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from lycosa.core.units import format_time
from lycosa.search.engine.searcher import Hit, SearchRequest, SearchResults
from lycosa.serve.search.api import ERRORS, MAX_COUNT, MAX_QUERY
from lycosa.serve.search.sources import Source
from lycosa.serve.search.suggest import SUGGESTIONS
from lycosa.serve.search.views import Filters, web_href

RSS, ATOM, DESCRIPTION = (
    "application/rss+xml",
    "application/atom+xml",
    "application/opensearchdescription+xml",
)
ENTRIES = 20

_ATOM = "http://www.w3.org/2005/Atom"
_OPENSEARCH = "http://a9.com/-/spec/opensearch/1.1/"
_XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

ElementTree.register_namespace("atom", _ATOM)
ElementTree.register_namespace("opensearch", _OPENSEARCH)

Q = Annotated[
    str, Query(min_length=1, max_length=MAX_QUERY, description="Query, in the query language.")
]
N = Annotated[int, Query(ge=1, le=MAX_COUNT, description="Number of entries.")]
Lang = Annotated[str, Query(max_length=16, description="Only pages in this language.")]
Site = Annotated[str, Query(max_length=255, description="Only pages of this host.")]
Collection = Annotated[str, Query(max_length=64, description="Only pages of this collection.")]
Sort = Annotated[
    Literal["", "relevance", "date"],
    Query(description="`relevance`: most relevant first; default: newest first."),
]


def create_feeds(source: Source) -> APIRouter:
    """The routes `/search.rss`, `/search.atom` and `/opensearch.xml`."""
    router = APIRouter(tags=["search"])

    def found(filters: Filters, count: int) -> SearchResults:
        return source.search(
            SearchRequest(
                filters.query,
                count=count,
                language=filters.language or None,
                collection=filters.collection or None,
                host=filters.site or None,
                order=filters.sort or "date",
            )
        )

    @router.get(
        "/search.rss", response_class=Response, responses={200: {"content": {RSS: {}}}, **ERRORS}
    )
    def search_rss(
        request: Request,
        q: Q,
        n: N = ENTRIES,
        lang: Lang = "",
        site: Site = "",
        collection: Collection = "",
        sort: Sort = "",
    ) -> Response:
        """Return search results, newest first, as RSS 2.0."""
        filters = Filters(q, lang, site, collection, sort)
        return Response(
            rss(filters, found(filters, n), str(request.base_url)),
            media_type=f"{RSS}; charset=utf-8",
        )

    @router.get(
        "/search.atom", response_class=Response, responses={200: {"content": {ATOM: {}}}, **ERRORS}
    )
    def search_atom(
        request: Request,
        q: Q,
        n: N = ENTRIES,
        lang: Lang = "",
        site: Site = "",
        collection: Collection = "",
        sort: Sort = "",
    ) -> Response:
        """Return search results, newest first, as Atom."""
        filters = Filters(q, lang, site, collection, sort)
        return Response(
            atom(filters, found(filters, n), str(request.base_url)),
            media_type=f"{ATOM}; charset=utf-8",
        )

    @router.get("/opensearch.xml", include_in_schema=False)
    def opensearch(request: Request) -> Response:
        return Response(
            description(str(request.base_url)), media_type=f"{DESCRIPTION}; charset=utf-8"
        )

    return router


def rss(filters: Filters, results: SearchResults, base: str) -> bytes:
    """RSS 2.0 (rssboard.org/rss-specification). `base`: the address that people reach this server
    at.
    """
    root = Element("rss", version="2.0")
    channel = SubElement(root, "channel")
    _text(channel, "title", f"{filters.query} · Lycosa")
    _text(channel, "link", urljoin(base, filters.address()))
    _text(channel, "description", f"Pages found for {filters.query}")
    SubElement(
        channel,
        f"{{{_ATOM}}}link",
        rel="self",
        type=RSS,
        href=urljoin(base, filters.address(path="/search.rss")),
    )
    _counts(channel, results)
    for hit in results.hits:
        item = SubElement(channel, "item")
        _text(item, "title", hit.title.strip() or hit.url)
        if href := web_href(hit.url):
            _text(item, "link", href)
        _text(item, "guid", hit.url).set("isPermaLink", "true" if href else "false")
        _text(item, "description", _snippet(hit))
        if moment := _moment(hit):
            _text(item, "pubDate", format_datetime(moment, usegmt=True))
    return _written(root)


def atom(filters: Filters, results: SearchResults, base: str) -> bytes:
    """Atom (RFC 4287)."""
    root = Element(f"{{{_ATOM}}}feed")
    own = urljoin(base, filters.address(path="/search.atom"))
    moments = [moment for hit in results.hits if (moment := _moment(hit))]
    _text(root, f"{{{_ATOM}}}id", own)
    _text(root, f"{{{_ATOM}}}title", f"{filters.query} · Lycosa")
    _text(root, f"{{{_ATOM}}}updated", _stamp(max(moments, default=datetime.fromtimestamp(0, UTC))))
    _text(SubElement(root, f"{{{_ATOM}}}author"), f"{{{_ATOM}}}name", "Lycosa")
    SubElement(root, f"{{{_ATOM}}}link", rel="self", type=ATOM, href=own)
    SubElement(
        root,
        f"{{{_ATOM}}}link",
        rel="alternate",
        type="text/html",
        href=urljoin(base, filters.address()),
    )
    _counts(root, results)
    for hit in results.hits:
        entry = SubElement(root, f"{{{_ATOM}}}entry")
        if hit.language:
            entry.set(_XML_LANG, hit.language)
        _text(entry, f"{{{_ATOM}}}id", hit.url)
        _text(entry, f"{{{_ATOM}}}title", hit.title.strip() or hit.url)
        SubElement(entry, f"{{{_ATOM}}}link", rel="alternate", href=_clean(hit.url))
        _text(entry, f"{{{_ATOM}}}updated", _stamp(_moment(hit) or datetime.fromtimestamp(0, UTC)))
        _text(entry, f"{{{_ATOM}}}summary", _snippet(hit))
    return _written(root)


def description(base: str) -> bytes:
    """The OpenSearch description of this server."""
    root = Element(f"{{{_OPENSEARCH}}}OpenSearchDescription")
    _text(root, f"{{{_OPENSEARCH}}}ShortName", "Lycosa")
    _text(root, f"{{{_OPENSEARCH}}}Description", "Search crawled pages")
    _text(root, f"{{{_OPENSEARCH}}}InputEncoding", "UTF-8")
    _text(root, f"{{{_OPENSEARCH}}}Image", urljoin(base, "/static/icon.svg")).set(
        "type", "image/svg+xml"
    )
    for kind, path in (("text/html", "/"), (ATOM, "/search.atom"), (RSS, "/search.rss")):
        SubElement(
            root,
            f"{{{_OPENSEARCH}}}Url",
            type=kind,
            template=f"{urljoin(base, path)}?q={{searchTerms}}&lang={{language?}}",
        )
    suggestions = f"{urljoin(base, '/suggest')}?q={{searchTerms}}&lang={{language?}}"
    SubElement(
        root, f"{{{_OPENSEARCH}}}Url", type=SUGGESTIONS, rel="suggestions", template=suggestions
    )
    SubElement(
        root,
        f"{{{_OPENSEARCH}}}Url",
        type=DESCRIPTION,
        rel="self",
        template=urljoin(base, "/opensearch.xml"),
    )
    return _written(root)


def _counts(parent: Element, results: SearchResults) -> None:
    for name, number in (
        ("totalResults", results.total),
        ("startIndex", results.offset + 1),
        ("itemsPerPage", len(results.hits)),
    ):
        _text(parent, f"{{{_OPENSEARCH}}}{name}", str(number))


def _snippet(hit: Hit) -> str:
    return "".join(text for text, _ in hit.snippet)


def _moment(hit: Hit) -> datetime | None:
    """When it was published, by its own word, else fetched; None for a time that no calendar
    holds.
    """
    try:
        return datetime.fromtimestamp(
            (hit.published_at if hit.published_at is not None else hit.fetched_at) / 1000, UTC
        )
    except (OverflowError, ValueError, OSError):
        return None


def _stamp(moment: datetime) -> str:
    return format_time(round(moment.timestamp() * 1000))


def _text(parent: Element, name: str, text: str) -> Element:
    child = SubElement(parent, name)
    child.text = _clean(text)
    return child


def _clean(text: str) -> str:
    """Without what XML 1.0 cannot hold (section 2.2)."""
    return _NOT_IN_XML.sub("", text)


def _written(root: Element) -> bytes:
    written: bytes = ElementTree.tostring(root, "utf-8", xml_declaration=True)
    return written
