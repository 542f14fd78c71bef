"""The JSON API under /api/v1: the same search as the page, the workspace's counts. Described at
/api/v1/openapi.json.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from lycosa.commands.models import WorkspaceStatus
from lycosa.core.messages import Message
from lycosa.core.units import format_time
from lycosa.search.crosslingual.translated import Across, TranslatedQuery, edit
from lycosa.search.engine.searcher import MAX_HITS, Hit, SearchRequest, SearchResults
from lycosa.search.federation.federated_search import MAX_HOPS
from lycosa.search.presentation.results import FACETS, PER_HOST, Explanation
from lycosa.serve.search.views import cached_href
from lycosa.serve.services import ServicesDep
from lycosa.serve.web.problems import ERRORS

MAX_QUERY = 2_000
MAX_COUNT = 100
MAX_FACET_VALUES = 100


class ResultFilters(BaseModel):
    """PageQuery and order of the results."""

    lang: str = Field("", max_length=16, description="Only pages in this language.")
    site: str = Field("", max_length=255, description="Only pages of this host.")
    collection: str = Field("", max_length=64, description="Only pages of this collection.")
    sort: Literal["", "relevance", "date"] = Field("", description="`date`: newest first.")


class SearchParameters(ResultFilters):
    """A search."""

    q: str = Field(min_length=1, max_length=MAX_QUERY, description="Query, in the query language.")
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
    across: str = Field(
        "",
        max_length=255,
        description="Also search in these languages (ISO 639 codes, separated by commas), or in "
        "`all`.",
    )
    source_language: str = Field(
        "", alias="from", max_length=3, description="Language of the query, if known."
    )
    translate: list[str] = Field(
        [],
        max_length=256,
        description="Replacement for the translations of a word: `de:house=Haus|Gebäude`.",
    )

    def request(self) -> SearchRequest:
        """Return the search that the parameters describe."""
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
            facets=tuple(name.strip() for name in self.facets.split(",") if name.strip()),
            explain=self.explain,
            hops=self.hops,
            feedback=self.feedback,
            spelling=self.spelling,
            across=across_of(self.across, self.source_language, self.translate)
            if self.across
            else None,
        )


class Fragment(BaseModel):
    """A fragment of a snippet."""

    text: str
    match: bool = Field(description="Whether the fragment matches the query.")


class FacetValue(BaseModel):
    """One value of a facet and its number of pages."""

    value: str
    count: int


class Result(BaseModel):
    """A search result."""

    url: str
    title: str
    snippet: str = Field(description="Plain text, not HTML: escape it.")
    fragments: list[Fragment] = Field(
        description="The snippet in fragments; joined, they are `snippet`."
    )
    language: str = Field(description="ISO 639 code identified from the text; empty: unknown.")
    host: str
    collection: str
    fetched_at: str = Field(description="UTC, ISO 8601.")
    published_at: str | None = Field(
        description="Publication date that the page states; UTC, ISO 8601."
    )
    score: float
    type: str = Field(description="File type: html, pdf, txt …")
    copies: int = Field(description="Number of hidden duplicates of this page.")
    from_host: int = Field(
        description="Number of pages of its host among the first few hundred results."
    )
    cached: str = Field(
        description="Location of the cached copy: a path on this server, or the "
        "URL of a peer; empty: none."
    )
    source: str = Field(
        default="",
        description="Source: empty for the workspace of this server, else another "
        "workspace or the address of a peer.",
    )
    explanation: Explanation | None = Field(
        default=None,
        description="With `explain`: the score, `words` times `prior` times `freshness`; `parts`: "
        "BM25 score of each term or phrase by field.",
    )


class Alternative(BaseModel):
    """A translation of a word."""

    text: str
    weight: float = Field(description="Weight, at most 1.")
    origin: str = Field(
        description="Source: the name of a translation table, `as typed`, or "
        "`given` (parameter `translate`)."
    )


class TranslatedWord(BaseModel):
    """A word of the query and its translations, highest weight first."""

    source: str
    alternatives: list[Alternative]


class Remark(BaseModel):
    """A note about the results."""

    code: str = Field(description="Stable identifier of the message; empty: none.")
    text: str = Field(description="In English.")
    values: dict[str, str | int] = Field(description="The values in the text.")


class Translated(BaseModel):
    """The query in one language."""

    language: str
    terms: list[TranslatedWord]


class OtherSpelling(BaseModel):
    """A query with another spelling."""

    query: str
    total: int = Field(description="Number of pages with all of its words.")


class Answer(BaseModel):
    """Search results."""

    query: str
    total: int = Field(description="Number of matching pages.")
    offset: int
    took_ms: float
    generation: int = Field(description="Generation of the index; 0: there is no index yet.")
    notes: list[str] = Field(description="Notes about these results, in English.")
    remarks: list[Remark] = Field([], description="The notes with their codes and values.")
    missing_shards: list[int] = Field(
        description="Shards of the index, counted from 0, whose pages are missing in these results."
    )
    hits: list[Result]
    translations: list[Translated] = Field(
        description="With `across`: the query in each language, its own language first."
    )
    did_you_mean: OtherSpelling | None = Field(
        default=None,
        description="Another spelling, if the query has few results and that spelling has more.",
    )
    expansion: list[str] = Field(
        default=[], description="Terms that feedback added to the query, highest weight first."
    )
    facets: dict[str, list[FacetValue]] = Field(
        default={}, description="Values of the requested facets, most pages first."
    )


router = APIRouter(prefix="/api/v1")


@router.get("/search", responses=ERRORS, tags=["search"])
def search(services: ServicesDep, parameters: Annotated[SearchParameters, Query()]) -> Answer:
    """Search the index. The query's language is described in docs/query.md."""
    return answer(services.source.search(parameters.request()))


@router.get("/status", responses={503: ERRORS[503]}, tags=["workspace"])
def workspace_status(services: ServicesDep) -> WorkspaceStatus:
    """Return the counts of the workspace, as printed by `lycosa status --json`."""
    status: WorkspaceStatus = services.status()
    return status


def answer(results: SearchResults) -> Answer:
    """Search results as the API's document."""
    return Answer(
        query=results.query,
        total=results.total,
        offset=results.offset,
        took_ms=round(results.took_ms, 3),
        generation=results.generation,
        notes=list(results.notes),
        remarks=[_remark(note) for note in results.notes],
        missing_shards=list(results.missing_shards),
        hits=[_result(hit) for hit in results.hits],
        translations=[_translated(query) for query in results.translations],
        did_you_mean=None
        if (other := results.did_you_mean) is None
        else OtherSpelling(query=other.query, total=other.total),
        expansion=list(results.expansion),
        facets={
            name: [
                FacetValue(value=value, count=count)
                for value, count in list(values.items())[:MAX_FACET_VALUES]
            ]
            for name, values in results.facets.items()
        },
    )


def across_of(languages: str, source: str, translate: Iterable[str]) -> Across:
    """The parameters of a search across languages; edits of another form than
    `de:house=Haus|Gebäude` are passed over.
    """
    named = (
        ()
        if languages == "all"
        else tuple(code.strip().lower() for code in languages.split(",") if code.strip())
    )
    return Across(
        named,
        source.lower(),
        tuple(replacement for text in translate if (replacement := edit(text)) is not None),
    )


def _remark(note: str) -> Remark:
    if not isinstance(note, Message):
        return Remark(code="", text=note, values={})
    values = {
        name: value if isinstance(value, int) else str(value) for name, value in note.values.items()
    }
    return Remark(code=note.code, text=note, values=values)


def _translated(query: TranslatedQuery) -> Translated:
    terms = [
        TranslatedWord(
            source=term.source,
            alternatives=[
                Alternative(text=one.surface, weight=round(one.weight, 3), origin=one.origin)
                for one in term.alternatives
            ],
        )
        for term in query.terms
    ]
    return Translated(language=query.language, terms=terms)


def _result(hit: Hit) -> Result:
    return Result(
        url=hit.url,
        title=hit.title,
        snippet="".join(text for text, _ in hit.snippet),
        fragments=[Fragment(text=text, match=match) for text, match in hit.snippet],
        language=hit.language,
        host=hit.host,
        collection=hit.collection,
        fetched_at=format_time(hit.fetched_at),
        published_at=None if hit.published_at is None else format_time(hit.published_at),
        score=hit.score,
        type=hit.type,
        copies=hit.copies,
        from_host=hit.from_host,
        cached=cached_href(hit.url, hit.source),
        source=hit.source,
        explanation=hit.explanation,
    )
