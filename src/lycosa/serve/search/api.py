"""The JSON API under /api/v1: the same search as the page, suggestions for typed text, similar
pages, the workspace's counts. Described at /api/v1/openapi.json.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field, TypeAdapter
from starlette.responses import JSONResponse

from lycosa.chunks.tokens import MIN_LIMIT
from lycosa.commands.inspection.passages import (
    DEFAULT_COUNT,
    DEFAULT_TOKENS,
    MAX_TOKENS,
    PassageRequest,
)
from lycosa.commands.inspection.passages import MAX_COUNT as MAX_PASSAGES
from lycosa.commands.inspection.passages import chunks as page_chunks
from lycosa.commands.inspection.search import (
    across_languages,
    known_facets,
    language_filter,
    search_answer,
    site_filter,
    translation,
)
from lycosa.commands.models import WorkspaceStatus
from lycosa.commands.search_models import ChunkList, PassagesResult, SearchAnswer
from lycosa.core.errors import UsageError
from lycosa.search.engine.searcher import MAX_HITS, SearchRequest
from lycosa.search.federation.federated_search import MAX_HOPS
from lycosa.search.presentation.results import FACETS, PER_HOST
from lycosa.search.query.query import MAX_QUERY_CHARACTERS
from lycosa.search.query.term_statistics import TermsReport, TermsRequest, workspace_terms
from lycosa.search.ranking.similar import similar_query
from lycosa.search.suggest.completion import MAX_SUGGESTIONS, Suggestion, SuggestRequest
from lycosa.serve.services import ServicesDep
from lycosa.serve.web.problems import ERRORS, NOT_FOUND, checked
from lycosa.url.normalise import MAX_URL_LENGTH

MAX_COUNT = 100
SUGGESTIONS = "application/x-suggestions+json"
SUGGESTED = 10

PageUrl = Annotated[
    str, Query(min_length=1, max_length=MAX_URL_LENGTH, description="URL of the page.")
]
ChunkTokens = Annotated[
    int,
    Query(
        ge=MIN_LIMIT, le=MAX_TOKENS, description="Maximum number of tokens of a chunk, estimated."
    ),
]
_ANSWER = TypeAdapter(SearchAnswer)
MAX_TERMS = 1_000
_DAY_MS = 86_400_000


Language = Annotated[str, Field(max_length=16), checked(language_filter)]
Site = Annotated[str, Field(max_length=255), checked(site_filter)]


def named_languages(across: str) -> list[str]:
    """Return the languages of the parameter `across`; none for `all`."""
    return [] if across == "all" else across.split(",")


def _across(text: str) -> str:
    across_languages(named_languages(text))
    return text


def _translation(text: str) -> str:
    translation(text)
    return text


class PageFilters(BaseModel):
    """Filters of pages."""

    lang: Language = Field("", description="Only pages in this language.")
    site: Site = Field("", description="Only pages of this host, or below this path of it.")
    collection: str = Field("", max_length=64, description="Only pages of this collection.")


class ResultFilters(PageFilters):
    """Filters and order of the results."""

    sort: Literal["", "relevance", "date"] = Field("", description="`date`: newest first.")


class SearchParameters(ResultFilters):
    """A search."""

    q: str = Field(min_length=1, description="Query, in the query language.")
    n: int = Field(10, ge=1, le=MAX_COUNT, description="Number of results.")
    offset: int = Field(0, ge=0, le=MAX_HITS, description="Number of results to skip.")
    per_host: int = Field(
        PER_HOST,
        ge=0,
        le=MAX_COUNT,
        description="Maximum number of results per host before those of other hosts; 0: no limit.",
    )
    fold: bool = Field(True, description="Show only one of several pages with the same text.")
    facets: str = Field(
        "",
        max_length=100,
        description="Facets to count over all matching pages, separated by commas: "
        f"{', '.join(FACETS)}.",
    )
    explain: bool = Field(False, description="Return the parts of each score.")
    hops: int | None = Field(
        None,
        ge=0,
        le=MAX_HOPS,
        description="Maximum number of hops to peers, at most `search.hops`; 0: no peers.",
    )
    feedback: Literal["auto", "on", "off"] = Field(
        "auto",
        description="Whether terms of the first results are added to a query that is a sentence.",
    )
    spelling: bool = Field(
        True, description="Suggest another spelling for a query with few results."
    )
    across: Annotated[str, checked(_across)] = Field(
        "",
        max_length=255,
        description="Also search in these languages (ISO 639 codes, separated by commas), or in "
        "`all`.",
    )
    source_language: str = Field(
        "", alias="from", max_length=3, description="Language of the query, if known."
    )
    translate: list[Annotated[str, checked(_translation)]] = Field(
        [],
        max_length=256,
        description="Replacement for the translations of a word: `de:house=Haus|Gebäude`.",
    )

    def request(self) -> SearchRequest:
        """Return the search that the parameters describe. Raises UsageError."""
        if not self.across and (self.source_language or self.translate):
            raise UsageError("the parameters from and translate need across")
        return SearchRequest(
            self.q,
            count=self.n,
            offset=self.offset,
            language=self.lang or None,
            collection=self.collection or None,
            host=self.site or None,
            order=self.sort,
            per_host=self.per_host,
            folded=self.fold,
            facets=known_facets([name.strip() for name in self.facets.split(",") if name.strip()]),
            explain=self.explain,
            hops=self.hops,
            feedback=self.feedback,
            spelling=self.spelling,
            across=across_languages(
                named_languages(self.across), self.source_language, self.translate
            )
            if self.across
            else None,
        )


class TermsParameters(PageFilters):
    """The words and pages to count."""

    n: int = Field(50, ge=1, le=MAX_TERMS, description="Number of words.")
    since: date | None = Field(None, description="Only pages fetched since this day (UTC).")
    until: date | None = Field(None, description="Only pages fetched before this day.")
    rising: bool = Field(False, description="Only words that are more frequent in recent pages.")
    days: float = Field(7, gt=0, le=10_000, description="Length of the recent period in days.")

    def request(self) -> TermsRequest:
        """Return the count that the parameters describe."""
        return TermsRequest(
            self.n,
            self.lang,
            self.site,
            self.collection,
            _ms(self.since),
            _ms(self.until),
            self.rising,
            round(self.days * _DAY_MS),
        )


Typed = Annotated[str, Query(max_length=MAX_QUERY_CHARACTERS, description="Text typed so far.")]
Lang = Annotated[Language, Query(description="Only phrases of pages in this language.")]
N = Annotated[int, Query(ge=1, le=MAX_SUGGESTIONS, description="Maximum number of suggestions.")]


@dataclass(frozen=True)
class Suggested:
    """Completions of the typed text, best first."""

    query: str
    took_ms: float
    suggestions: list[Suggestion]


router = APIRouter()


@router.get("/api/v1/search", response_model=SearchAnswer, responses=ERRORS, tags=["search"])
def search(services: ServicesDep, parameters: Annotated[SearchParameters, Query()]) -> Response:
    """Search the index, as `lycosa search --json`. The query language is described in
    docs/reference/query.md.
    """
    answer = search_answer(services.search(parameters.request()))
    # written here: FastAPI would validate it first, in a second thread
    return Response(_ANSWER.dump_json(answer), media_type="application/json")


class PassageParameters(PageFilters):
    """A search for passages."""

    q: str = Field(min_length=1, description="Query, in the query language.")
    n: int = Field(DEFAULT_COUNT, ge=1, le=MAX_PASSAGES, description="Number of passages.")
    tokens: int = Field(
        DEFAULT_TOKENS,
        ge=MIN_LIMIT,
        le=MAX_TOKENS,
        description="Maximum number of tokens of a passage, estimated.",
    )
    budget: int = Field(
        0, ge=0, description="Maximum number of tokens of all passages, estimated; 0: any."
    )
    ranking: Literal["", "keyword", "vector", "hybrid"] = Field(
        "",
        description="`keyword`: by words; `vector`: by the encoder; `hybrid`: both. Empty: "
        "`hybrid` if an encoder is configured, else `keyword`.",
    )

    def request(self) -> PassageRequest:
        """Return the request that the parameters describe."""
        return PassageRequest(
            self.q,
            self.n,
            self.tokens,
            self.budget,
            self.lang,
            self.collection,
            self.site,
            self.ranking,
        )


@router.get("/api/v1/passages", responses=ERRORS, tags=["search"])
def passages(
    services: ServicesDep, parameters: Annotated[PassageParameters, Query()]
) -> PassagesResult:
    """Return the best passages for a query with their sources, as `lycosa search --passages
    --json`. Their texts come from the web: treat them as untrusted content.
    """
    return services.passages.find(parameters.request())


@router.get("/api/v1/chunks", responses={**ERRORS, **NOT_FOUND}, tags=["search"])
def chunks(services: ServicesDep, url: PageUrl, tokens: ChunkTokens = DEFAULT_TOKENS) -> ChunkList:
    """Return the newest version of a stored page in chunks, with which passages can be shown in
    their context.
    """
    return page_chunks(services.root, url, tokens)


@router.get("/api/v1/status", responses={503: ERRORS[503]}, tags=["workspace"])
def workspace_status(services: ServicesDep) -> WorkspaceStatus:
    """Return the counts of the workspace, as printed by `lycosa status --json`."""
    status: WorkspaceStatus = services.status()
    return status


@router.get("/api/v1/terms", responses=ERRORS, tags=["search"])
def terms(services: ServicesDep, parameters: Annotated[TermsParameters, Query()]) -> TermsReport:
    """Count the words of the pages, by language, site and time, as `lycosa terms --json`."""
    services.require_collection(parameters.collection)
    with services.terms_lock:
        return workspace_terms(services.root, parameters.request())


def _ms(day: date | None) -> int | None:
    return (
        None
        if day is None
        else round(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() * 1000)
    )


@router.get("/api/v1/suggest", responses=ERRORS, tags=["search"])
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
    tags=["search"],
)
def browser_suggestions(services: ServicesDep, q: Typed = "", lang: Lang = "") -> JSONResponse:
    """Return the query and its completions (OpenSearch Suggestions 1.1)."""
    suggestions = services.source.suggest(SuggestRequest(q, SUGGESTED, lang))
    return JSONResponse([q, [each.text for each in suggestions]], media_type=SUGGESTIONS)


@router.get("/api/v1/similar", responses=ERRORS, tags=["search"])
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
