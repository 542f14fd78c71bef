"""Search results as feeds (RSS 2.0, Atom: RFC 4287), and the OpenSearch 1.1 description."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Annotated, Literal
from urllib.parse import urljoin

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from lycosa.core.units import format_time
from lycosa.search.engine.searcher import Hit, SearchRequest, SearchResults
from lycosa.serve.search.api import MAX_COUNT, SUGGESTIONS, ResultFilters
from lycosa.serve.search.views import PageQuery, web_href
from lycosa.serve.services import ServicesDep
from lycosa.serve.web.i18n import utc_time
from lycosa.serve.web.problems import ERRORS
from lycosa.serve.web.rendering import TEMPLATES

RSS, ATOM, DESCRIPTION = (
    "application/rss+xml",
    "application/atom+xml",
    "application/opensearchdescription+xml",
)
ENTRIES = 20

_EPOCH = datetime.fromtimestamp(0, UTC)
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


router = APIRouter(tags=["search"])


class FeedParameters(ResultFilters):
    """A search that returns a feed."""

    q: str = Field(min_length=1, description="Query, in the query language.")
    n: int = Field(ENTRIES, ge=1, le=MAX_COUNT, description="Number of entries.")
    sort: Literal["", "relevance", "date"] = Field(
        "", description="`relevance`: most relevant first; default: newest first."
    )

    def filters(self) -> PageQuery:
        """Return the query and its filters."""
        return PageQuery(self.q, self.lang, self.site, self.collection, self.sort)

    def request(self) -> SearchRequest:
        """Return the search that the parameters describe."""
        return SearchRequest(
            self.q,
            count=self.n,
            language=self.lang or None,
            collection=self.collection or None,
            host=self.site or None,
            order=self.sort or "date",
        )


FeedQuery = Annotated[FeedParameters, Query()]


@router.get(
    "/search.rss", response_class=Response, responses={200: {"content": {RSS: {}}}, **ERRORS}
)
def search_rss(services: ServicesDep, request: Request, parameters: FeedQuery) -> Response:
    """Return search results, newest first, as RSS 2.0."""
    results = services.search(parameters.request())
    content = rss(parameters.filters(), results, str(request.base_url))
    return Response(content, media_type=f"{RSS}; charset=utf-8")


@router.get(
    "/search.atom", response_class=Response, responses={200: {"content": {ATOM: {}}}, **ERRORS}
)
def search_atom(services: ServicesDep, request: Request, parameters: FeedQuery) -> Response:
    """Return search results, newest first, as Atom."""
    results = services.search(parameters.request())
    content = atom(parameters.filters(), results, str(request.base_url))
    return Response(content, media_type=f"{ATOM}; charset=utf-8")


@router.get("/opensearch.xml", include_in_schema=False)
def opensearch(request: Request) -> Response:
    return Response(description(str(request.base_url)), media_type=f"{DESCRIPTION}; charset=utf-8")


def rss(filters: PageQuery, results: SearchResults, base: str) -> bytes:
    """Return an RSS 2.0 feed. `base`: the URL of this server for its clients."""
    return _render("rss.xml", base, filters=filters, results=results, media_type=RSS)


def atom(filters: PageQuery, results: SearchResults, base: str) -> bytes:
    """Return an Atom feed (RFC 4287)."""
    updated = max((_moment(hit) or _EPOCH for hit in results.hits), default=_EPOCH)
    return _render(
        "atom.xml", base, filters=filters, results=results, media_type=ATOM, updated=updated
    )


def description(base: str) -> bytes:
    """Return the OpenSearch description of this server."""
    urls = (("text/html", "/"), (ATOM, "/search.atom"), (RSS, "/search.rss"))
    return _render(
        "opensearch.xml", base, urls=urls, suggestions=SUGGESTIONS, media_type=DESCRIPTION
    )


def _render(template: str, base: str, **values: object) -> bytes:
    text = TEMPLATES.get_template(template).render(
        absolute=lambda path: urljoin(base, path),
        web_href=web_href,
        moment=_moment,
        # readers take the description of an RSS item as HTML
        as_html=lambda text: text.replace("&", "&amp;").replace("<", "&lt;"),
        mail_date=lambda moment: format_datetime(moment, usegmt=True),
        stamp=lambda moment: format_time(round((moment or _EPOCH).timestamp() * 1000)),
        **values,
    )
    return text.encode()


def _moment(hit: Hit) -> datetime | None:
    """Return the date of publication, else of the fetch; None if it is not a calendar date."""
    return utc_time(hit.published_at if hit.published_at is not None else hit.fetched_at)


def _xml_text(text: str) -> str:
    """Remove the characters that XML 1.0 cannot contain (section 2.2)."""
    return _NOT_IN_XML.sub("", text)


TEMPLATES.filters["xml"] = _xml_text
