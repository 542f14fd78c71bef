"""The search page: rendered here, whole, so that it works without a line of script."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse

from lycosa.core.errors import QueryError
from lycosa.search.engine import SearchRequest, SearchResults
from lycosa.serve.api import MAX_OFFSET, MAX_QUERY
from lycosa.serve.languages import LANGUAGE_NAMES, direction, language_name
from lycosa.serve.present import PAGE_SIZE, Filters, page_links, result_view
from lycosa.serve.source import SearchSource

LAST_PAGE = MAX_OFFSET // PAGE_SIZE

_TEMPLATES = Environment(
    loader=PackageLoader("lycosa.serve"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
)


def create_pages(source: SearchSource) -> APIRouter:
    """The routes that answer with HTML."""
    router = APIRouter(include_in_schema=False)

    @router.get("/", response_class=HTMLResponse)
    def search_page(
        q: Annotated[str, Query(max_length=MAX_QUERY)] = "",
        page: Annotated[int, Query(ge=1, le=LAST_PAGE)] = 1,
        lang: Annotated[str, Query(max_length=16)] = "",
        site: Annotated[str, Query(max_length=255)] = "",
        collection: Annotated[str, Query(max_length=64)] = "",
    ) -> HTMLResponse:
        filters = Filters(q.strip(), lang.strip(), site.strip(), collection.strip())
        languages = languages_offered(filters.language)
        if not filters.query:
            return HTMLResponse(render_start(filters, languages))
        request = SearchRequest(
            filters.query,
            count=PAGE_SIZE,
            offset=(page - 1) * PAGE_SIZE,
            language=filters.language or None,
            collection=filters.collection or None,
            host=filters.site or None,
        )
        try:
            results = source.search(request)
        except QueryError as error:
            return HTMLResponse(render_results(filters, languages, None, page, fault=str(error)), 400)
        return HTMLResponse(render_results(filters, languages, results, page))

    return router


def languages_offered(chosen: str) -> list[tuple[str, str]]:
    """The language filter's choices as (code, name), by name; the one that is chosen is always among them."""
    return sorted(((code, language_name(code)) for code in {*LANGUAGE_NAMES, chosen} - {""}), key=lambda choice: choice[1].casefold())


def render_start(filters: Filters, languages: Sequence[tuple[str, str]]) -> str:
    """The page before anything was asked."""
    return _TEMPLATES.get_template("start.html").render(filters=filters, languages=languages)


def render_results(
    filters: Filters, languages: Sequence[tuple[str, str]], results: SearchResults | None, page: int, fault: str = ""
) -> str:
    """The page with an answer; `results` None with no `fault` means that there is no index yet."""
    total = results.total if results else 0
    return _TEMPLATES.get_template("results.html").render(
        filters=filters,
        languages=languages,
        results=results,
        views=[result_view(hit, filters) for hit in results.hits] if results else [],
        fault=fault,
        page=page,
        pages=page_links(total, page, filters, LAST_PAGE),
        last_page=min(-(-total // PAGE_SIZE), LAST_PAGE),
        language_name=language_name(filters.language),
        direction=direction,
    )


def render_error(status: int, title: str, detail: str) -> str:
    """An error as a page, for whoever asked for HTML."""
    return _TEMPLATES.get_template("error.html").render(status=status, title=title, detail=detail)
