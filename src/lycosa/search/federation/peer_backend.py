"""Another Lycosa server as a search backend: for the steps of a search, or for complete results.

The operator names the address. Responses are untrusted input: limited in size while they are
received, and validated by models.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TypeVar
from urllib.parse import urlencode

from pydantic import BaseModel, Field, ValidationError

from lycosa.config.settings import FetchSettings
from lycosa.core.version import VERSION
from lycosa.fetch.json_client import JsonClient, NoResponse
from lycosa.index.schema import analysis_versions
from lycosa.search.crosslingual.translated import TranslatedQuery, TranslatedTerm
from lycosa.search.engine.reader import Address
from lycosa.search.engine.search_query import SearchQuery
from lycosa.search.federation.backend import (
    BackendError,
    GenerationGone,
    IncompatiblePeer,
    IndexDescription,
    QueryStep,
)
from lycosa.search.federation.wire import (
    PATH,
    PROTOCOL,
    Count,
    FacetsMessage,
    FacetsRequest,
    FindRequest,
    HitFacts,
    HitsMessage,
    HitsRequest,
    IndexDescriptionMessage,
    IndexStatisticsMessage,
    Long,
    MatchesMessage,
    Name,
    QueryMessage,
    Score,
    Short,
    ShownPage,
    StatisticsMessage,
    StatisticsRequest,
    UrlsMessage,
    UrlsRequest,
)
from lycosa.search.presentation.results import MAX_HITS, Hit, SearchRequest, SearchResults
from lycosa.search.ranking.ordering import PageListing, Ranked
from lycosa.search.ranking.statistics import TermStatistics
from lycosa.translation.source import Translation

MAX_ANSWER_BYTES = 8 * 2**20
_OLD_STATUSES = (404, 405)  # responses of a version without the route
_Message = TypeVar("_Message", bound=BaseModel)


class PeerHttp:
    """One peer's address. Skipped for `rest_s` after a failure, so that not every search waits for
    it. Shared by threads.

    Raises:
        UsageError: it is not the address of a server.
    """

    def __init__(self, url: str, settings: FetchSettings, rest_s: float = 0.0) -> None:
        agent = f"User-Agent: lycosa-peer/{VERSION}"
        self._client = JsonClient(url, settings, "a Lycosa server", [agent], MAX_ANSWER_BYTES)
        self.url = self._client.url
        self._rest_s = rest_s
        self._skipped_until = 0.0
        self._reason = ""

    def require(self) -> None:
        """Raise BackendError, with the reason of the failure, while the peer is skipped."""
        if time.monotonic() < self._skipped_until:
            raise BackendError(self._reason)

    def ask(
        self, path: str, body: BaseModel | None, answer: type[_Message], timeout_s: float
    ) -> _Message:
        """POST a message, or GET without one.

        Raises:
            BackendError: no response in time, or an invalid one.
            IncompatiblePeer: it has no such route.
            GenerationGone: its index has changed since the generation of the message.
        """
        content = None if body is None else body.model_dump_json().encode()
        try:
            status, data, _ = self._client.exchange(path, content, timeout_s)
        except NoResponse as error:
            raise self.failure(str(error)) from None
        if status in _OLD_STATUSES:
            raise IncompatiblePeer(f"{self.url} has no {path}")
        if status == 410:
            raise GenerationGone(f"the index of {self.url} has changed")
        if status != 200:
            raise self.failure(f"{self.url} returned HTTP {status}")
        try:
            message = answer.model_validate_json(data)
        except ValidationError as error:
            problem = f"{self.url} returned an invalid response ({_first(error)})"
            raise self.failure(problem) from None
        self._skipped_until = 0.0
        return message

    def failure(self, reason: str) -> BackendError:
        """Skip the peer from now on; return the error to raise."""
        self._skipped_until, self._reason = time.monotonic() + self._rest_s, reason
        return BackendError(reason)

    def close(self) -> None:
        """End its idle connections."""
        self._client.close()


def _first(error: ValidationError) -> str:
    problem = error.errors(include_input=False, include_url=False)[0]
    return f"{'.'.join(str(part) for part in problem['loc'])[:80]}: {problem['msg'][:120]}"


REST_S = 10.0
"""How long a peer is skipped after a failure."""

_MAX_AT_ONCE = 100  # maximum results of one API response
_ADDRESS = re.compile(r"https?://[!-~]+")
_Value = TypeVar("_Value")


class PeerBackend:
    """One peer. Shared by threads. See `SearchBackend`.

    Raises:
        UsageError: `url` is not the address of a server.
    """

    def __init__(self, url: str, settings: FetchSettings, rest_s: float = REST_S) -> None:
        self._http = PeerHttp(url, settings, rest_s)

    @property
    def name(self) -> str:
        return self._http.url

    def describe(self, timeout_s: float) -> IndexDescription:
        self._http.require()
        message = self._http.ask(PATH, None, IndexDescriptionMessage, timeout_s)
        return self._same(message)

    def statistics(
        self, text: str, query: SearchQuery, timeout_s: float
    ) -> tuple[IndexDescription, TermStatistics]:
        request = StatisticsRequest(question=QueryMessage.of(text, query))
        message = self._http.ask(f"{PATH}/statistics", request, IndexStatisticsMessage, timeout_s)
        return self._same(message.described), message.statistics.term_statistics()

    def find(self, step: QueryStep, limit: int, timeout_s: float) -> PageListing[Address]:
        request = FindRequest(
            question=QueryMessage.of(step.text, step.query),
            generation=step.generation,
            stage=step.stage,
            limit=limit,
            everywhere=StatisticsMessage.of(step.global_statistics),
        )
        matches = self._http.ask(f"{PATH}/find", request, MatchesMessage, timeout_s).matches()
        if len(matches.pages) > limit:
            raise BackendError(f"{self.name} returned more results than requested")
        return matches

    def facets(
        self, step: QueryStep, names: tuple[str, ...], timeout_s: float
    ) -> Mapping[str, Mapping[str, int]]:
        request = {
            "question": QueryMessage.of(step.text, step.query),
            "generation": step.generation,
            "stage": step.stage,
            "names": list(names),
        }
        message = self._http.ask(
            f"{PATH}/facets", FacetsRequest.model_validate(request), FacetsMessage, timeout_s
        )
        return {name: message.facets[name] for name in names if name in message.facets}

    def hits(
        self, step: QueryStep, ranked: Sequence[Ranked[Address]], timeout_s: float
    ) -> list[Hit]:
        request = HitsRequest(
            question=QueryMessage.of(step.text, step.query),
            generation=step.generation,
            stage=step.stage,
            pages=[ShownPage.of(page) for page in ranked],
            everywhere=StatisticsMessage.of(step.global_statistics),
        )
        shown = self._all(
            [
                each.hit()
                for each in self._http.ask(f"{PATH}/hits", request, HitsMessage, timeout_s).hits
            ],
            len(ranked),
        )
        return self._all([hit for hit in shown if hit is not None], len(ranked))

    def urls(self, generation: int, addresses: Sequence[Address], timeout_s: float) -> list[int]:
        request = UrlsRequest(generation=generation, places=list(addresses))
        return self._all(
            self._http.ask(f"{PATH}/urls", request, UrlsMessage, timeout_s).keys, len(addresses)
        )

    def search(self, request: SearchRequest, hops: int, timeout_s: float) -> SearchResults:
        """Return complete results by the public API. Across languages, the peer translates."""
        self._http.require()
        path = f"/api/v1/search?{urlencode(_parameters(request, hops))}"
        return self._http.ask(path, None, AnswerMessage, timeout_s).results(request)

    def close(self) -> None:
        """Close its connections."""
        self._http.close()

    def _same(self, message: IndexDescriptionMessage) -> IndexDescription:
        if message.protocol != PROTOCOL or message.versions != analysis_versions():
            raise IncompatiblePeer(f"{self.name} has another version or other analyzers")
        return message.described()

    def _all(self, values: list[_Value], count: int) -> list[_Value]:
        if len(values) != count:
            raise self._http.failure(f"{self.name} responded for {len(values)} of {count} pages")
        return values


class _Fragment(BaseModel):
    text: Long
    match: bool = False


class _Result(HitFacts):
    snippet: Long = ""
    fragments: list[_Fragment] = Field([], max_length=2_000)
    fetched_at: str = Field("", max_length=40)
    published_at: str | None = Field(None, max_length=40)
    source: Short = ""

    def hit(self) -> Hit | None:
        pieces = [(piece.text, piece.match) for piece in self.fragments] or [(self.snippet, False)]
        hit = self.hit_with(pieces, _ms(self.fetched_at) or 0, _ms(self.published_at or ""))
        if hit is None or not _ADDRESS.fullmatch(self.source):
            return hit
        return replace(hit, source=self.source)


class _Alternative(BaseModel):
    text: Short
    weight: Score = 1.0
    origin: Short = ""


class _Word(BaseModel):
    source: Short
    alternatives: list[_Alternative] = Field([], max_length=100)


class _Translated(BaseModel):
    language: Name
    terms: list[_Word] = Field([], max_length=100)


class _FacetValue(BaseModel):
    value: Short
    count: Count


class AnswerMessage(BaseModel):
    """The parts of a response of the search API that are used, of any version."""

    total: Count
    generation: Count = 0
    hits: list[_Result] = Field(max_length=MAX_HITS)
    facets: dict[Name, list[_FacetValue]] = {}
    translations: list[_Translated] = Field([], max_length=400)

    def results(self, request: SearchRequest) -> SearchResults:
        """Convert to the results of a search in this process."""
        hits = [hit for each in self.hits if (hit := each.hit()) is not None]
        facets = {
            name: {each.value: each.count for each in values}
            for name, values in self.facets.items()
            if name in request.facets
        }
        translations = tuple(
            TranslatedQuery(
                each.language,
                tuple(
                    TranslatedTerm(
                        word.source,
                        tuple(
                            Translation("", one.weight, one.text, one.origin)
                            for one in word.alternatives
                        ),
                    )
                    for word in each.terms
                ),
            )
            for each in self.translations
        )
        return SearchResults(
            request.text,
            self.total,
            hits,
            0.0,
            0,
            self.generation,
            [],
            facets=facets,
            translations=translations,
        )


def _parameters(request: SearchRequest, hops: int) -> list[tuple[str, str]]:
    parameters = {
        "q": request.text,
        "n": str(max(1, min(request.count, _MAX_AT_ONCE))),
        "hops": str(hops),
        "lang": request.language or "",
        "collection": request.collection or "",
        "site": request.host or "",
        "sort": request.order,
        "per_host": str(min(request.per_host, _MAX_AT_ONCE)),
        "fold": "true" if request.folded else "false",
        "facets": ",".join(request.facets),
        "feedback": request.feedback,
    }
    if request.across is not None:
        parameters["across"] = ",".join(request.across.languages) or "all"
        parameters["from"] = request.across.source
    edits = request.across.edits if request.across is not None else ()
    return [
        *((name, value) for name, value in parameters.items() if value),
        *(
            ("translate", f"{language}:{word}={'|'.join(alternatives)}")
            for language, word, alternatives in edits
        ),
    ]


def _ms(text: str) -> int | None:
    try:
        return round(
            datetime.fromisoformat(text.replace("Z", "+00:00")).replace(tzinfo=UTC).timestamp()
            * 1000
        )
    except (ValueError, OverflowError):
        return None
