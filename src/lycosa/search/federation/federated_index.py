"""Search several indexes of this version as one. Scores are comparable: every index scores with the
term statistics of all.

The best matches of each are merged by score. A page that several workspaces or peers have is shown
once: URL keys are compared for the hosts that several have pages of. Shards have no page in common;
theirs are merged in blocks, which are then ordered by exact scores, so that the results are those
of one index.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import TypeVar

from lycosa.core.errors import WorkError
from lycosa.index.shards.shards import by_count
from lycosa.index.suggest.file import Phrase
from lycosa.search.engine.reader import Address
from lycosa.search.engine.search_query import SearchQuery
from lycosa.search.federation.backend import (
    IndexBackend,
    IndexDescription,
    QueryStep,
    StepBackend,
)
from lycosa.search.federation.backend_calls import BackendCalls, Call
from lycosa.search.presentation.results import Hit
from lycosa.search.query.query import ParsedQuery
from lycosa.search.ranking.feedback import Expansion, PageTerms
from lycosa.search.ranking.ordering import WINDOW, PageListing, Ranked, listing
from lycosa.search.ranking.similar import Likeness
from lycosa.search.ranking.statistics import TermStatistics, together
from lycosa.search.suggest.completion import Suggestion, SuggestRequest, suggestions
from lycosa.search.suggest.spelling import SpellingCandidates, SpellingRequest, merge_candidates

_Answer = TypeVar("_Answer")
_Backend = TypeVar("_Backend", bound=StepBackend)
_Value = TypeVar("_Value")

Place = tuple[int, Address]
"""Backend number, and the page's address in its generation."""


class BackendsFailed(WorkError):
    """Backends failed: search again without them. `errors` by backend number."""

    def __init__(self, errors: Mapping[int, WorkError]) -> None:
        super().__init__("; ".join(map(str, errors.values())))
        self.errors = dict(errors)


class FederatedIndex:
    """Several backends as one `AnswerSource`, for one query. Its methods raise BackendsFailed.

    Args:
        indexes: indexes of the operator. Queries that were not typed are sent to these only.
        peers: backends of others, which get the text of queries.
        described: the descriptions of all backends; later responses update them.
        shards: whether the indexes are shards of one.
        parsed, text: the typed query.
    """

    def __init__(
        self,
        indexes: Mapping[int, IndexBackend],
        peers: Mapping[int, StepBackend],
        described: Mapping[int, IndexDescription],
        calls: BackendCalls,
        parsed: ParsedQuery,
        text: str,
        *,
        shards: bool = False,
    ) -> None:
        self._indexes = indexes
        self._backends: dict[int, StepBackend] = {**indexes, **peers}
        self.described = {number: described[number] for number in self._backends}
        self._calls = calls
        self._parsed = parsed
        self._text = text
        self._shards = shards
        self._statistics_by_query: dict[
            tuple[ParsedQuery, Expansion | None], dict[int, tuple[int, TermStatistics]]
        ] = {}

    @property
    def number(self) -> int:
        return sum(each.generation for each in self.described.values())

    @property
    def documents(self) -> int:
        return sum(each.documents for each in self.described.values())

    @property
    def languages(self) -> tuple[str, ...]:
        return tuple(pages_by_language(self.described.values())) or ("",)

    def page(self, query: SearchQuery, stage: float, offset: int, count: int) -> PageListing[Place]:
        """See `AnswerSource`."""
        steps = self._steps(query, stage)

        def fetch(limit: int) -> PageListing[Place]:
            answers = self._ask(
                steps, lambda number, backend, left_s: backend.find(steps[number], limit, left_s)
            )
            order = sorted(
                (
                    (-page.score, *self._tie(number, rank, page), page)
                    for number, matches in answers.items()
                    for rank, page in enumerate(matches.pages)
                ),
                key=itemgetter(0, 1, 2, 3, 4),
            )
            ranked = [
                Ranked(page.score, (number, page.place), page.host, page.group)
                for _, _, _, number, _, page in order
            ]
            unique = ranked if self._shards else self._once(ranked, steps)
            total = sum(matches.total for matches in answers.values())
            return PageListing(total - (len(ranked) - len(unique)), unique[:limit])

        def rescore(block: list[Ranked[Place]]) -> list[Ranked[Place]]:
            by_number = _by_backend((page.place[0], page) for page in block)
            scores = self._ask_indexes(
                by_number,
                lambda number, backend, left_s: backend.rescore(
                    steps[number], [page.place[1] for page in by_number[number]], left_s
                ),
            )
            exact = [
                page._replace(score=score)
                for number, pages in by_number.items()
                for page, score in zip(pages, scores[number], strict=True)
            ]
            # equal scores: the order of shards, in a shard of documents
            return sorted(exact, key=lambda page: (-page.score, page.place))

        needs_rescoring = self._shards and len(steps) > 1 and not query.by_date
        return listing(
            fetch,
            offset,
            count,
            per_host=query.per_host,
            folded=query.folded,
            exactly=rescore if needs_rescoring else None,
        )

    def facets(
        self, query: SearchQuery, stage: float, names: tuple[str, ...]
    ) -> dict[str, Counter[str]]:
        """See `AnswerSource`. A page that two backends have is counted twice."""
        steps = self._steps(query, stage)
        answers = self._ask(
            steps, lambda number, backend, left_s: backend.facets(steps[number], names, left_s)
        )
        facets = {name: Counter[str]() for name in names}
        for counts in answers.values():
            for name, values in counts.items():
                facets[name].update(values)
        return facets

    def hits(self, query: SearchQuery, stage: float, pages: Sequence[Ranked[Place]]) -> list[Hit]:
        """See `AnswerSource`. `source` is the backend's name, unless it is a shard."""
        steps = self._steps(query, stage)
        by_number = _by_backend(
            (page.place[0], Ranked(page.score, page.place[1], page.host, page.group, *page[4:]))
            for page in pages
        )
        hits = self._ask(
            by_number,
            lambda number, backend, left_s: backend.hits(steps[number], by_number[number], left_s),
        )
        in_order = _in_order(hits, pages)
        if self._shards:
            return in_order
        return [
            replace(hit, source=self._backends[page.place[0]].name)
            for hit, page in zip(in_order, pages, strict=True)
        ]

    def spelling_candidates(self, request: SpellingRequest) -> SpellingCandidates:
        """See `AnswerSource`. Peers are not called."""
        candidates = self._ask_indexes(
            self._open_indexes(),
            lambda number, backend, left_s: backend.spelling_candidates(
                self.described[number].generation, request, left_s
            ),
        )
        return merge_candidates(list(candidates.values())) if candidates else SpellingCandidates()

    def feedback_terms(self, pages: Sequence[Ranked[Place]]) -> list[PageTerms]:
        """See `AnswerSource`. Pages of peers have no terms here.

        Terms have the weights that they have in the page's index.
        """
        by_number = _by_backend(page.place for page in pages)
        terms = self._ask_indexes(
            by_number,
            lambda number, backend, left_s: backend.page_terms(
                self.described[number].generation, by_number[number], left_s
            ),
        )
        of_peers: dict[int, list[PageTerms]] = {
            number: [()] * len(addresses)
            for number, addresses in by_number.items()
            if number not in self._indexes
        }
        return _in_order(terms | of_peers, pages)

    def likeness(self, url: str) -> Likeness | None:
        """See `AnswerSource`. Pages of peers are not found."""
        answers = self._ask_indexes(
            self._open_indexes(),
            lambda number, backend, left_s: backend.likeness(
                self.described[number].generation, url, left_s
            ),
        )
        return next((like for like in answers.values() if like is not None), None)

    def _open_indexes(self) -> list[int]:
        return [number for number in self._indexes if self.described[number].generation]

    def _tie(self, number: int, rank: int, page: Ranked[Address]) -> tuple[int, int, int, int]:
        """Return the order of pages with equal scores, which ends with backend and rank."""
        if self._shards:
            return 0, 0, number, rank
        return rank // WINDOW, page.host, number, rank

    def _statistics(self, query: SearchQuery) -> dict[int, tuple[int, TermStatistics]]:
        """Return generation and term statistics of every backend that has documents."""
        key = query.parsed, query.expansion
        statistics = self._statistics_by_query.get(key)
        if statistics is None:
            is_typed = query.parsed == self._parsed
            answers = self._ask(
                self._backends if is_typed else self._indexes,
                lambda _, backend, left_s: backend.statistics(self._text, query, left_s),
            )
            self.described |= {number: described for number, (described, _) in answers.items()}
            statistics = {
                number: (described.generation, of_backend)
                for number, (described, of_backend) in answers.items()
                if described.generation
            }
            self._statistics_by_query[key] = statistics
        return statistics

    def _once(
        self, ranked: list[Ranked[Place]], steps: Mapping[int, QueryStep]
    ) -> list[Ranked[Place]]:
        """Remove pages that another backend has at a better rank, by URL."""
        backends: dict[int, set[int]] = {}
        for page in ranked:
            backends.setdefault(page.host, set()).add(page.place[0])
        shared = {host for host, numbers in backends.items() if len(numbers) > 1}
        if not shared:
            return ranked
        addresses = _by_backend(page.place for page in ranked if page.host in shared)
        keys = self._ask(
            addresses,
            lambda number, backend, left_s: backend.urls(
                steps[number].generation, addresses[number], left_s
            ),
        )
        key_of = {
            (number, address): key
            for number, keys_of_backend in keys.items()
            for address, key in zip(addresses[number], keys_of_backend, strict=True)
        }
        first: dict[object, Ranked[Place]] = {}
        for page in ranked:
            first.setdefault(key_of.get(page.place, page.place), page)
        return list(first.values())

    def _steps(self, query: SearchQuery, stage: float) -> dict[int, QueryStep]:
        """Return the step of each backend that has documents, for its generation."""
        statistics = self._statistics(query)
        of_all = together(of_backend for _, of_backend in statistics.values())
        return {
            number: QueryStep(generation, self._text, query, stage, of_all)
            for number, (generation, _) in statistics.items()
        }

    def _ask(
        self, numbers: Mapping[int, object], call: Call[StepBackend, _Answer]
    ) -> dict[int, _Answer]:
        return self._answers({number: self._backends[number] for number in numbers}, call)

    def _ask_indexes(
        self, numbers: Iterable[int], call: Call[IndexBackend, _Answer]
    ) -> dict[int, _Answer]:
        ours = {number: self._indexes[number] for number in numbers if number in self._indexes}
        return self._answers(ours, call)

    def _answers(
        self, backends: Mapping[int, _Backend], call: Call[_Backend, _Answer]
    ) -> dict[int, _Answer]:
        answers, errors = self._calls.ask(backends, call)
        if errors:
            raise BackendsFailed(errors)
        return answers


def suggest_from(
    indexes: Mapping[int, IndexBackend], calls: BackendCalls, request: SuggestRequest
) -> list[Suggestion]:
    """Return suggestions for typed text, from the indexes that answer."""

    def ask(prefix: str, count: int, language: str, words: bool) -> list[Sequence[Phrase]]:
        answers, _ = calls.ask(
            indexes,
            lambda _, index, left_s: index.phrases(prefix, count, language, words, left_s),
        )
        return list(answers.values())

    def matches(text: str, language: str) -> int:
        answers, _ = calls.ask(
            indexes, lambda _, index, left_s: index.count(text, language, left_s)
        )
        return sum(answers.values())

    return suggestions(request, ask, matches)


def pages_by_language(described: Iterable[IndexDescription]) -> dict[str, int]:
    """Return the approximate number of pages by language, largest first."""
    pages = Counter[str]()
    for each in described:
        pages.update(each.languages)
    return by_count(pages)


def _by_backend(values: Iterable[tuple[int, _Value]]) -> dict[int, list[_Value]]:
    grouped: dict[int, list[_Value]] = {}
    for number, value in values:
        grouped.setdefault(number, []).append(value)
    return grouped


def _in_order(
    values: Mapping[int, Sequence[_Value]], pages: Sequence[Ranked[Place]]
) -> list[_Value]:
    """Return the values of each backend's pages in the order of all pages."""
    rest = {number: iter(listed) for number, listed in values.items()}
    return [next(rest[page.place[0]]) for page in pages]
