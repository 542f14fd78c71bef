"""The search page: rendered here, whole, so that it works without a line of script."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from lycosa.search.engine.searcher import MAX_HITS, SearchRequest
from lycosa.serve.search.advanced import ADVANCED, built_query
from lycosa.serve.search.api import MAX_QUERY, across_of
from lycosa.serve.search.sources import Source
from lycosa.serve.search.translation_form import asked_words, mended
from lycosa.serve.search.views import (
    FACET_LABELS,
    PAGE_SIZE,
    Filters,
    facet_views,
    page_links,
    result_view,
)
from lycosa.serve.web.languages import language_name
from lycosa.serve.web.rendering import Frame

MAX_EDITS = 300
LAST_PAGE = MAX_HITS // PAGE_SIZE


def create_pages(source: Source, frame: Frame) -> APIRouter:
    """The routes that answer with HTML."""
    router = APIRouter(include_in_schema=False)

    @router.get("/", response_class=HTMLResponse)
    def search_page(
        request: Request,
        q: Annotated[str, Query(max_length=MAX_QUERY)] = "",
        page: Annotated[int, Query(ge=1, le=LAST_PAGE)] = 1,
        lang: Annotated[str, Query(max_length=16)] = "",
        site: Annotated[str, Query(max_length=255)] = "",
        collection: Annotated[str, Query(max_length=64)] = "",
        sort: Annotated[Literal["", "relevance", "date"], Query()] = "",
        across: Annotated[str, Query(max_length=255)] = "",
        source_language: Annotated[str, Query(alias="from", max_length=3)] = "",
        translate: Annotated[list[str] | None, Query(max_length=MAX_EDITS)] = None,
    ) -> Response:
        said = tuple(translate or ())
        filters = Filters(
            q.strip(),
            lang.strip(),
            site.strip(),
            collection.strip(),
            sort,
            across.strip(),
            source_language.strip(),
            said,
        )
        changed = mended(request.query_params, said)
        if changed is not None:
            return RedirectResponse(replace(filters, translate=changed).address(), 303)
        languages = languages_offered(source.languages(), filters.language)
        if not filters.query:
            return frame.page(request, "start.html", filters=filters, languages=languages)
        asked = SearchRequest(
            filters.query,
            count=PAGE_SIZE,
            offset=(page - 1) * PAGE_SIZE,
            language=filters.language or None,
            collection=filters.collection or None,
            host=filters.site or None,
            order=filters.sort,
            facets=tuple(FACET_LABELS),
            across=across_of(filters.across, filters.source, list(said))
            if filters.across
            else None,
        )
        results = source.search(asked)
        return frame.page(
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
            asked=asked_words(
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
    def advanced(request: Request) -> Response:
        fields = {name: request.query_params.get(name, "").strip()[:MAX_QUERY] for name in ADVANCED}
        if request.query_params.get("go"):
            filters = Filters(
                built_query(fields)[:MAX_QUERY],
                sort=fields["sort"],
                collection=fields["in"],
                across=fields["across"],
            )
            return RedirectResponse(filters.address(), 303)
        return frame.page(
            request,
            "advanced.html",
            fields=fields,
            built=built_query(fields),
            languages=languages_offered(source.languages(), ""),
        )

    return router


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
