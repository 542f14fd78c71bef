"""Suggestions for typed text, and similar pages.

Suggestions are for the web interface and for a browser's search field.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import JSONResponse

from lycosa.commands.inspection.search import search_answer
from lycosa.commands.search_models import SearchAnswer
from lycosa.search.engine.searcher import MAX_HITS, SearchRequest
from lycosa.search.presentation.results import PER_HOST
from lycosa.search.query.query import MAX_QUERY_CHARACTERS
from lycosa.search.ranking.similar import similar_query
from lycosa.search.suggest.completion import MAX_SUGGESTIONS, Suggestion, SuggestRequest
from lycosa.serve.search.api import MAX_COUNT, Language
from lycosa.serve.services import ServicesDep
from lycosa.serve.web.problems import ERRORS
from lycosa.url.normalise import MAX_URL_LENGTH

SUGGESTIONS = "application/x-suggestions+json"
SUGGESTED = 10

Typed = Annotated[str, Query(max_length=MAX_QUERY_CHARACTERS, description="Text typed so far.")]
Lang = Annotated[Language, Query(description="Only phrases of pages in this language.")]
N = Annotated[int, Query(ge=1, le=MAX_SUGGESTIONS, description="Maximum number of suggestions.")]


@dataclass(frozen=True)
class Suggested:
    """Completions of the typed text, best first."""

    query: str
    took_ms: float
    suggestions: list[Suggestion]


router = APIRouter(tags=["search"])


@router.get("/api/v1/suggest", responses=ERRORS)
def suggest(services: ServicesDep, q: Typed, lang: Lang = "", n: N = SUGGESTED) -> Suggested:
    """Return titles, headings, anchor texts and frequent words that contain the typed text at
    the beginning of a word.
    """
    started = time.perf_counter()
    suggestions = services.source.suggest(SuggestRequest(q, n, lang))
    took_ms = round((time.perf_counter() - started) * 1000, 3)
    return Suggested(q, took_ms, suggestions)


@router.get(
    "/suggest",
    responses={200: {"content": {SUGGESTIONS: {}}}, **ERRORS},
    response_class=JSONResponse,
)
def browser_suggestions(services: ServicesDep, q: Typed = "", lang: Lang = "") -> JSONResponse:
    """Return the query and its completions (OpenSearch Suggestions 1.1)."""
    suggestions = services.source.suggest(SuggestRequest(q, SUGGESTED, lang))
    return JSONResponse([q, [each.text for each in suggestions]], media_type=SUGGESTIONS)


@router.get("/api/v1/similar", responses=ERRORS)
def similar(
    services: ServicesDep,
    url: Annotated[
        str,
        Query(
            min_length=1,
            max_length=MAX_URL_LENGTH,
            description="URL of a crawled page.",
        ),
    ],
    n: Annotated[int, Query(ge=1, le=MAX_COUNT, description="Number of results.")] = 10,
    offset: Annotated[int, Query(ge=0, le=MAX_HITS, description="Number of results to skip.")] = 0,
    lang: Annotated[
        Language,
        Query(description="Only pages in this language (default: the language of the page)."),
    ] = "",
    per_host: Annotated[
        int,
        Query(ge=0, le=MAX_COUNT, description="Maximum number of results per host; 0: no limit."),
    ] = PER_HOST,
) -> SearchAnswer:
    """Return pages similar to a page, without its duplicates (the query `similar:URL`)."""
    request = SearchRequest(
        similar_query(url), n, offset, language=lang or None, per_host=per_host, spelling=False
    )
    return search_answer(services.search(request))
