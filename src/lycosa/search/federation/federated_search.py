"""Search several workspaces and peers, and return one result.

Workspaces, and peers of this version, are searched as one index (`federation.federated_index`).
Other backends return complete results, which are merged by rank. Across languages every backend
translates with its own tables; its scores are comparable, and results are merged by score.

A page that several backends have is shown once. A backend that fails or times out costs its
results, and adds a note.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from operator import attrgetter, itemgetter

from lycosa.config.settings import Config
from lycosa.core.errors import UsageError, WorkError
from lycosa.core.messages import Message
from lycosa.index.schema import trusted_date
from lycosa.index.shards.shards import by_count
from lycosa.search.crosslingual.across import Vectors
from lycosa.search.crosslingual.translated import TranslatedQuery
from lycosa.search.engine.open_index import OpenIndex
from lycosa.search.engine.searcher import Searcher
from lycosa.search.federation.backend import (
    GenerationGone,
    IncompatiblePeer,
    IndexDescription,
    LocalBackend,
    ResultsBackend,
    SearchBackend,
)
from lycosa.search.federation.backend_calls import BackendCalls
from lycosa.search.federation.federated_index import (
    BackendsFailed,
    FederatedIndex,
    pages_by_language,
    suggest_from,
)
from lycosa.search.federation.peer_backend import PeerBackend
from lycosa.search.presentation.answer import answer
from lycosa.search.presentation.results import MAX_HITS, Hit, SearchRequest, SearchResults
from lycosa.search.query.query import ParsedQuery, parse_query
from lycosa.search.query.syntax import BY_DATE
from lycosa.search.ranking.ordering import RANK_OFFSET, diversify_hosts
from lycosa.search.suggest.completion import Suggestion, SuggestRequest
from lycosa.search.suggest.spelling import Spelling

MAX_HOPS = 3
"""Maximum number of times that a request is forwarded."""

JOINED = 100
"""Results of each backend that are merged by rank, independent of the requested page, so that all
pages have the same order.
"""

_MAX_THREADS = 32
# attempts of a search whose backends publish a new generation meanwhile
_GENERATIONS = 3


class FederatedSearch:
    """Searches workspaces in this process, the first being `own`, and peers. Thread-safe.

    Args:
        whole: backends that return complete results only.
        timeout_s: limit of all remote calls of one search.
        hops: how often a request is forwarded: 0 never, 1 to the peers, 2 to their peers.
    """

    def __init__(
        self,
        local: Sequence[LocalBackend],
        peers: Sequence[PeerBackend] = (),
        *,
        whole: Sequence[ResultsBackend] = (),
        timeout_s: float = 2.0,
        hops: int = 1,
    ) -> None:
        self._local = list(local)
        self._whole = list(whole)
        self._peers = list(peers)
        self._timeout_s = timeout_s
        self._hops = hops
        self._pool = ThreadPoolExecutor(max_workers=_MAX_THREADS, thread_name_prefix="backend")

    @property
    def own(self) -> LocalBackend:
        """The first workspace: that of the server or command."""
        return self._local[0]

    @property
    def index(self) -> OpenIndex | None:
        """The newest index of the own workspace."""
        return self.own.searcher.index

    def languages(self) -> dict[str, int]:
        """Return the approximate number of pages by language, of the workspaces in this process."""
        return pages_by_language(backend.describe(0) for backend in self._local)

    def holds(self, url: str) -> bool:
        """Return whether the own workspace has a page, or had it until recently."""
        return self.own.searcher.holds(url)

    def suggest(self, request: SuggestRequest) -> list[Suggestion]:
        """Return suggestions for typed text, from the workspaces in this process.
        Peers are not called: there is a request for each typed letter.
        """
        calls = BackendCalls(self._pool, self._timeout_s)
        indexes = dict(enumerate(self._local))
        calls.ask(indexes, lambda _, backend, left_s: backend.describe(left_s))  # opens the newest
        return suggest_from(indexes, calls, request)

    def search(self, request: SearchRequest) -> SearchResults:
        """Answer a query. Invalid input and failed backends raise no error."""
        started = time.perf_counter()
        hops = self._hops if request.hops is None else max(0, min(request.hops, self._hops))
        calls = BackendCalls(self._pool, self._timeout_s)
        peers = self._peers if hops else []
        alone = [*self._whole, *(peers if hops > 1 else ())]
        together = [*self._local, *(() if hops > 1 else peers)]
        results = _searched(request, alone, together, calls, hops)
        notes = [
            Message("side_failed", "{reason}; its results are missing", reason=reason)
            for reason in calls.failed.values()
        ]
        took = (time.perf_counter() - started) * 1000
        return replace(results, took_ms=took, notes=[*results.notes, *notes])

    def close(self) -> None:
        """Cancel waiting calls, and close the connections to peers."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        for peer in self._peers:
            peer.close()


def open_federated_search(
    roots: Sequence[str],
    peers: Sequence[str],
    config: Config,
    *,
    own_name: str | None = None,
    vectors: Vectors | None = None,
    whole: Sequence[ResultsBackend] = (),
) -> FederatedSearch:
    """Open workspaces, the first being the own one, those of the configuration, and all peers.

    Args:
        own_name: the source of hits of the own workspace. Hits of others name the root as given.
        vectors: of the own workspace.
        whole: see `FederatedSearch`. The own workspace may be one of these instead of in `roots`.

    Raises:
        UsageError: an invalid location or address. WorkspaceError: there is no workspace, or its
            index is damaged.
    """
    places = list(dict.fromkeys([*roots, *config.search.workspaces]))
    if not places and not whole and not (peers or config.search.peers):
        raise UsageError(
            "there is nothing to search: specify a workspace with -w DIR, or another "
            "Lycosa server with --peer URL"
        )
    names = [
        place if own_name is None or number else own_name for number, place in enumerate(places)
    ]
    backends = [
        LocalBackend(name, Searcher(place, vectors if number == 0 else None))
        for number, (name, place) in enumerate(zip(names, places, strict=True))
    ]
    addresses = dict.fromkeys(address.rstrip("/") for address in [*peers, *config.search.peers])
    others = [PeerBackend(address, config.fetch) for address in addresses]
    return FederatedSearch(
        backends,
        others,
        whole=whole,
        timeout_s=config.search.peer_timeout / 1000,
        hops=config.search.hops,
    )


def _searched(
    request: SearchRequest,
    alone: Sequence[ResultsBackend],
    together: Sequence[SearchBackend],
    calls: BackendCalls,
    hops: int,
) -> SearchResults:
    """Search `together` as one index, and merge the result with the complete results of `alone`."""
    parsed = parse_query(request.text)
    apart: dict[int, ResultsBackend] = dict(enumerate(alone))
    numbered: dict[int, SearchBackend] = dict(enumerate(together, len(apart)))
    if request.across is not None:
        return _across(request, {**apart, **numbered}, calls, hops)
    described, errors = calls.ask(numbered, lambda _, backend, left_s: backend.describe(left_s))
    for number, error in errors.items():
        if isinstance(error, IncompatiblePeer):
            apart[number] = numbered[number]
        else:
            calls.fail(numbered[number].name, error)
    able = {number: numbered[number] for number in described}
    if not apart:
        return _together(request, parsed, able, described, calls)
    first = replace(
        request, offset=0, count=min(MAX_HITS, max(JOINED, request.offset + request.count))
    )
    finish = calls.begin(apart, lambda _, backend, left_s: backend.search(first, hops - 1, left_s))
    ours = [_together(first, parsed, able, described, calls)] if able else []
    return _joined(request, parsed, ours + _whole(apart, calls, *finish()))


def _together(
    request: SearchRequest,
    parsed: ParsedQuery,
    backends: Mapping[int, SearchBackend],
    described: Mapping[int, IndexDescription],
    calls: BackendCalls,
) -> SearchResults:
    """Search backends of this version as one index, without those that fail."""
    left = dict(backends)
    gone = Counter[int]()
    while True:
        indexes = {n: each for n, each in left.items() if isinstance(each, LocalBackend)}
        peers = {n: each for n, each in left.items() if n not in indexes}
        source = FederatedIndex(indexes, peers, described, calls, parsed, request.text)
        try:
            return answer(source if source.documents else None, request)
        except BackendsFailed as failed:
            for number, error in failed.errors.items():
                gone[number] += 1
                if not isinstance(error, GenerationGone) or gone[number] >= _GENERATIONS:
                    calls.fail(left.pop(number).name, error)


def _joined(
    request: SearchRequest, parsed: ParsedQuery, answers: Sequence[SearchResults]
) -> SearchResults:
    """Merge complete results. Notes are those of the first, the own workspace if possible."""
    if not answers:
        return SearchResults(request.text, 0, [], 0.0, request.offset, 0, list(parsed.notes))
    dated = (request.order or parsed.order) == BY_DATE or not (parsed.required or parsed.similar)
    hits = by_date(answers) if dated else by_rank(answers)
    return replace(
        answers[0],
        did_you_mean=next(
            (each.did_you_mean for each in answers if each.did_you_mean is not None), None
        ),
        total=sum(each.total for each in answers),
        generation=sum(each.generation for each in answers),
        hits=hits[request.offset : request.offset + request.count],
        offset=request.offset,
        facets=facets_together(answers),
    )


def _across(
    request: SearchRequest, backends: Mapping[int, ResultsBackend], calls: BackendCalls, hops: int
) -> SearchResults:
    """Search in several languages: every backend translates with its own tables."""
    first = replace(request, offset=0, count=min(MAX_HITS, request.offset + request.count))
    results, errors = calls.ask(
        backends, lambda _, backend, left_s: backend.search(first, hops - 1, left_s)
    )
    answers = _whole(backends, calls, results, errors)
    if not answers:
        return SearchResults(request.text, 0, [], 0.0, request.offset, 0, [])
    notes = dict.fromkeys(note for each in answers for note in each.notes)
    parsed = parse_query(request.text)
    if (request.order or parsed.order) == BY_DATE:
        hits = by_date(answers)
    else:
        per_host = 0 if request.host or parsed.sites else request.per_host
        hits = diversify_hosts(by_score(answers), attrgetter("host"), per_host)
    return SearchResults(
        request.text,
        sum(each.total for each in answers),
        hits[request.offset : request.offset + request.count],
        0.0,
        request.offset,
        sum(each.generation for each in answers),
        list(notes),
        facets=facets_together(answers),
        translations=translations_together(answers),
        did_you_mean=_best_spelling(answers),
    )


def _best_spelling(answers: Sequence[SearchResults]) -> Spelling | None:
    """Return the best other spelling, if it has more results than backends without one have."""
    best = max(
        (each.did_you_mean for each in answers if each.did_you_mean is not None),
        key=lambda other: other.total,
        default=None,
    )
    return (
        best
        if best is not None
        and all(each.did_you_mean or each.total < best.total for each in answers)
        else None
    )


def _whole(
    backends: Mapping[int, ResultsBackend],
    calls: BackendCalls,
    results_by_number: Mapping[int, SearchResults],
    errors: Mapping[int, WorkError],
) -> list[SearchResults]:
    """Return complete results whose hits name their source: the backend, or a peer of it."""
    for number, error in errors.items():
        calls.fail(backends[number].name, error)
    return [
        replace(
            results,
            hits=[
                replace(hit, source=hit.source if "://" in hit.source else backends[number].name)
                for hit in results.hits
            ],
        )
        for number, results in sorted(results_by_number.items())
    ]


def by_rank(answers: Sequence[SearchResults]) -> list[Hit]:
    """Merge by rank, each page once: its score is 1 / (60 + best rank).

    Ranks are not added up as in reciprocal rank fusion: a page that was crawled twice is no better.
    """
    ranked = sorted(
        (
            (rank, number, hit)
            for number, results in enumerate(answers)
            for rank, hit in enumerate(results.hits, 1)
        ),
        key=itemgetter(0, 1),
    )
    return _once([replace(hit, score=1 / (RANK_OFFSET + rank)) for rank, _, hit in ranked])


def by_score(answers: Sequence[SearchResults]) -> list[Hit]:
    """Merge comparable scores, each page once."""
    return _once(
        sorted((hit for results in answers for hit in results.hits), key=lambda hit: -hit.score)
    )


def by_date(answers: Sequence[SearchResults]) -> list[Hit]:
    """Merge by date, each page once, newest first."""
    hits = (hit for results in answers for hit in results.hits)
    return _once(
        sorted(
            hits,
            key=lambda hit: -(trusted_date(hit.published_at, hit.fetched_at) or hit.fetched_at),
        )
    )


def facets_together(answers: Sequence[SearchResults]) -> dict[str, dict[str, int]]:
    """Add up the facets of all results."""
    facets: dict[str, Counter[str]] = {}
    for results in answers:
        for name, values in results.facets.items():
            facets.setdefault(name, Counter()).update(values)
    return {name: by_count(values) for name, values in facets.items()}


def translations_together(answers: Sequence[SearchResults]) -> tuple[TranslatedQuery, ...]:
    """Return the translation of the first result with each language."""
    queries: dict[str, TranslatedQuery] = {}
    for results in answers:
        for query in results.translations:
            queries.setdefault(query.language, query)
    return tuple(queries.values())


def _once(hits: Sequence[Hit]) -> list[Hit]:
    by_url: dict[str, Hit] = {}
    for hit in hits:
        by_url.setdefault(hit.url, hit)
    return list(by_url.values())
