"""The search page: rendered here, whole, so that it works without a line of script."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import HTMLResponse, RedirectResponse, Response

from lycosa.search.engine.searcher import MAX_HITS, SearchRequest
from lycosa.serve.search.advanced import ADVANCED, built_query
from lycosa.serve.search.api import MAX_QUERY, ResultFilters, across_of
from lycosa.serve.search.translation_form import edited_translations, translation_forms
from lycosa.serve.search.views import (
    FACET_LABELS,
    PAGE_SIZE,
    PageQuery,
    facet_views,
    page_links,
    result_view,
)
from lycosa.serve.services import ServicesDep
from lycosa.serve.web.languages import language_name

MAX_EDITS = 300
LAST_PAGE = MAX_HITS // PAGE_SIZE


class PageParameters(ResultFilters):
    """The address of the search page."""

    q: str = Field("", max_length=MAX_QUERY)
    page: int = Field(1, ge=1, le=LAST_PAGE)
    across: str = Field("", max_length=255)
    source_language: str = Field("", alias="from", max_length=3)
    translate: list[str] = Field([], max_length=MAX_EDITS)

    def filters(self) -> PageQuery:
        """Return the query and its filters without surrounding spaces."""
        return PageQuery(
            self.q.strip(),
            self.lang.strip(),
            self.site.strip(),
            self.collection.strip(),
            self.sort,
            self.across.strip(),
            self.source_language.strip(),
            tuple(self.translate),
        )


router = APIRouter(include_in_schema=False)


@router.get("/", response_class=HTMLResponse)
def search_page(
    services: ServicesDep, request: Request, parameters: Annotated[PageParameters, Query()]
) -> Response:
    filters = parameters.filters()
    page = parameters.page
    changed = edited_translations(request.query_params, filters.translate)
    if changed is not None:
        return RedirectResponse(replace(filters, translate=changed).address(), 303)
    languages = languages_offered(services.source.languages(), filters.language)
    if not filters.query:
        return services.pages.page(request, "start.html", filters=filters, languages=languages)
    search = SearchRequest(
        filters.query,
        count=PAGE_SIZE,
        offset=(page - 1) * PAGE_SIZE,
        language=filters.language or None,
        collection=filters.collection or None,
        host=filters.site or None,
        order=filters.sort,
        facets=tuple(FACET_LABELS),
        across=across_of(filters.across, filters.source, filters.translate)
        if filters.across
        else None,
    )
    results = services.source.search(search)
    return services.pages.page(
        request,
        "results.html",
        filters=filters,
        languages=languages,
        results=results,
        facets=facet_views(results.facets, filters),
        views=[result_view(hit, filters) for hit in results.hits],
        page=page,
        pages=page_links(results.total, page, filters, LAST_PAGE),
        last_page=min(-(-results.total // PAGE_SIZE), LAST_PAGE),
        own=results.translations[0].language if results.translations else "",
        translations=translation_forms(
            results.translations,
            results.translations[0].language if results.translations else "",
        ),
    )


@router.get("/favicon.ico")
def icon() -> Response:
    """What browsers ask for where a document of ours cannot name an icon: feeds, pictures,
    copies.
    """
    return RedirectResponse("/static/icon.svg", 308)


@router.get("/advanced", response_class=HTMLResponse)
def advanced(services: ServicesDep, request: Request) -> Response:
    fields = {name: request.query_params.get(name, "").strip()[:MAX_QUERY] for name in ADVANCED}
    if request.query_params.get("go"):
        filters = PageQuery(
            built_query(fields)[:MAX_QUERY],
            sort=fields["sort"],
            collection=fields["in"],
            across=fields["across"],
        )
        return RedirectResponse(filters.address(), 303)
    return services.pages.page(
        request,
        "advanced.html",
        fields=fields,
        built=built_query(fields),
        languages=languages_offered(services.source.languages(), ""),
    )


def languages_offered(counts: Mapping[str, int], chosen: str) -> list[tuple[str, str]]:
    """The language filter's choices as (code, label): those of the index, the largest first, and
    the one that is chosen.
    """
    ordered = sorted((code for code in counts if code), key=lambda code: (-counts[code], code))
    if chosen and chosen not in counts:
        ordered.append(chosen)
    return [
        (
            code,
            f"{language_name(code)} ({counts[code]:,})" if code in counts else language_name(code),
        )
        for code in ordered
    ]
