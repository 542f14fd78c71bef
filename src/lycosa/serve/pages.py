"""The search page: rendered here, whole, so that it works without a line of script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse

from lycosa.search.engine import MOST_HITS, SearchRequest, SearchResults
from lycosa.serve.api import MAX_QUERY
from lycosa.serve.languages import language_name
from lycosa.serve.present import FACET_LABELS, PAGE_SIZE, Filters, facet_views, page_links, result_view
from lycosa.serve.source import Source

LAST_PAGE = MOST_HITS // PAGE_SIZE

_TEMPLATES = Environment(
    loader=PackageLoader("lycosa.serve"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
)


def create_pages(source: Source) -> APIRouter:
    """The routes that answer with HTML."""
    router = APIRouter(include_in_schema=False)

    @router.get("/", response_class=HTMLResponse)
    def search_page(
        q: Annotated[str, Query(max_length=MAX_QUERY)] = "",
        page: Annotated[int, Query(ge=1, le=LAST_PAGE)] = 1,
        lang: Annotated[str, Query(max_length=16)] = "",
        site: Annotated[str, Query(max_length=255)] = "",
        collection: Annotated[str, Query(max_length=64)] = "",
        sort: Annotated[Literal["", "relevance", "date"], Query()] = "",
    ) -> HTMLResponse:
        filters = Filters(q.strip(), lang.strip(), site.strip(), collection.strip(), sort)
        languages = languages_offered(source.languages(), filters.language)
        if not filters.query:
            return HTMLResponse(render_start(filters, languages))
        request = SearchRequest(
            filters.query,
            count=PAGE_SIZE,
            offset=(page - 1) * PAGE_SIZE,
            language=filters.language or None,
            collection=filters.collection or None,
            host=filters.site or None,
            order=filters.sort,
            facets=tuple(FACET_LABELS),
        )
        return HTMLResponse(render_results(filters, languages, source.search(request), page))

    return router


def languages_offered(counts: Mapping[str, int], chosen: str) -> list[tuple[str, str]]:
    """The language filter's choices as (code, label): those of the index, the largest first, and the one that is chosen."""
    ordered = sorted((code for code in counts if code), key=lambda code: (-counts[code], code))
    if chosen and chosen not in counts:
        ordered.append(chosen)
    return [(code, f"{language_name(code)} ({counts[code]:,})" if code in counts else language_name(code)) for code in ordered]


def render_start(filters: Filters, languages: Sequence[tuple[str, str]]) -> str:
    """The page before anything was asked."""
    return _TEMPLATES.get_template("start.html").render(filters=filters, languages=languages)


def render_results(filters: Filters, languages: Sequence[tuple[str, str]], results: SearchResults, page: int) -> str:
    """The page with an answer."""
    return _TEMPLATES.get_template("results.html").render(
        filters=filters,
        languages=languages,
        results=results,
        facets=facet_views(results.facets, filters),
        views=[result_view(hit, filters) for hit in results.hits],
        page=page,
        pages=page_links(results.total, page, filters, LAST_PAGE),
        last_page=min(-(-results.total // PAGE_SIZE), LAST_PAGE),
        language_name=language_name(filters.language),
    )


def render_error(status: int, title: str, detail: str) -> str:
    """An error as a page, for whoever asked for HTML."""
    return _TEMPLATES.get_template("error.html").render(status=status, title=title, detail=detail)
