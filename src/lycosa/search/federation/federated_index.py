"""Search several indexes of this version as one. Scores are comparable: every index scores with the
term statistics of all.

The best matches of each are merged by score. A page that several indexes have is shown once: URL
keys are compared for the hosts that several have pages of.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import TypeVar

from lycosa.core.errors import WorkError
from lycosa.index.shards.shards import by_count
from lycosa.search.engine.indexed_pages import Address
from lycosa.search.engine.search_query import SearchQuery
from lycosa.search.federation.backend import (
    IndexDescription,
    LocalBackend,
    QueryStep,
    SearchBackend,
)
from lycosa.search.federation.backend_calls import BackendCalls, Call
from lycosa.search.presentation.results import Hit
from lycosa.search.query.query import ParsedQuery
from lycosa.search.ranking.feedback import Expansion, PageTerms
from lycosa.search.ranking.ordering import WINDOW, PageListing, Ranked, listing
from lycosa.search.ranking.similar import Likeness
from lycosa.search.ranking.statistics import TermStatistics, together
from lycosa.search.suggest.spelling import SpellingCandidates, SpellingRequest, merge_candidates

_Answer = TypeVar("_Answer")

GenerationCall = Callable[[SearchBackend, float, int], _Answer]
"""A call to a backend, given the seconds that are left and its generation."""
Place = tuple[int, Address]
"""Backend number, and the page's address in its generation."""


class BackendsFailed(WorkError):
    """Backends failed: search again without them. `errors` by backend number."""

    def __init__(self, errors: Mapping[int, WorkError]) -> None:
        super().__init__("; ".join(map(str, errors.values())))
        self.errors = dict(errors)


class FederatedIndex:
    """Several backends as one `AnswerSource`, for one query. Its methods raise BackendsFailed.

    `text` is the text of `parsed`. Other queries (spellings) are sent to local backends only.
    """

    def __init__(
        self,
        backends: Mapping[int, SearchBackend],
        described: Mapping[int, IndexDescription],
        calls: BackendCalls,
        parsed: ParsedQuery,
        text: str,
    ) -> None:
        self._backends = dict(backends)
        self._described = dict(described)
        self._calls = calls
        self._parsed = parsed
        self._text = text
        self._statistics_by_query: dict[
            tuple[ParsedQuery, Expansion | None], dict[int, tuple[int, TermStatistics]]
        ] = {}

    @property
    def number(self) -> int:
        return sum(each.generation for each in self._described.values())

    @property
    def documents(self) -> int:
        return sum(each.documents for each in self._described.values())

    @property
    def languages(self) -> tuple[str, ...]:
        found = Counter[str]()
        for each in self._described.values():
            found.update(each.languages)
        return tuple(by_count(found)) or ("",)

    def page(
        self, question: SearchQuery, stage: float, offset: int, count: int
    ) -> PageListing[Place]:
        """See `AnswerSource`."""
        term_statistics = self._statistics(question)
        step = self._step(question, stage, term_statistics)

        def fetch(limit: int) -> tuple[int, list[Ranked[Place]]]:
            answers = self._ask(
                term_statistics,
                lambda backend, left, generation: backend.find(step(generation), limit, left),
            )
            order = sorted(
                (
                    (-page.score, rank // WINDOW, page.host, backend, rank, page)
                    for backend, found in answers.items()
                    for rank, page in enumerate(found.best)
                ),
                key=itemgetter(0, 1, 2, 3, 4),
            )
            ranked = [
                Ranked(page.score, (backend, page.place), page.host, page.group)
                for _, _, _, backend, _, page in order
            ]
            kept = self._once(ranked, term_statistics)
            return sum(found.total for found in answers.values()) - (len(ranked) - len(kept)), kept[
                :limit
            ]

        return listing(
            fetch,
            offset,
            count,
            per_host=question.per_host,
            folded=question.folded,
        )

    def facets(
        self, question: SearchQuery, stage: float, names: tuple[str, ...]
    ) -> dict[str, Counter[str]]:
        """See `AnswerSource`. A page that two backends have is counted twice."""
        term_statistics = self._statistics(question)
        step = self._step(question, stage, term_statistics)
        answers = self._ask(
            term_statistics,
            lambda backend, left, generation: backend.facets(step(generation), names, left),
        )
        found = {name: Counter[str]() for name in names}
        for counts in answers.values():
            for name, values in counts.items():
                found[name].update(values)
        return found

    def hits(
        self, question: SearchQuery, stage: float, found: Sequence[Ranked[Place]]
    ) -> list[Hit]:
        """See `AnswerSource`. `source` is the backend's name."""
        term_statistics = self._statistics(question)
        step = self._step(question, stage, term_statistics)
        by_backend: dict[int, list[Ranked[Address]]] = {}
        for page in found:
            number, address = page.place
            by_backend.setdefault(number, []).append(
                Ranked(page.score, address, page.host, page.group, page.copies, page.from_host)
            )
        shown = self._ask(
            {number: term_statistics[number] for number in by_backend},
            lambda backend, left, generation: backend.hits(
                step(generation), by_backend[self._number(backend)], left
            ),
        )
        left = {number: iter(hits) for number, hits in shown.items()}
        return [
            replace(next(left[page.place[0]]), source=self._backends[page.place[0]].name)
            for page in found
        ]

    def spelling_candidates(self, wanted: SpellingRequest) -> SpellingCandidates:
        """See `AnswerSource`: of the workspaces in this process."""
        candidates = [
            index.spelling_candidates(wanted)
            for backend in self._local()
            if (index := backend.searcher.index) is not None
        ]
        return merge_candidates(candidates) if candidates else SpellingCandidates()

    def feedback_terms(self, pages: Sequence[Ranked[Place]]) -> list[PageTerms]:
        """See `AnswerSource`: none of pages that a peer has."""
        local = {
            number: backend
            for number, backend in self._backends.items()
            if isinstance(backend, LocalBackend)
        }
        return [
            local[number]
            .generation(self._described[number].generation)
            .pages.heaviest_terms([address])[0]
            if number in local
            else ()
            for number, address in (page.place for page in pages)
        ]

    def likeness(self, url: str) -> Likeness | None:
        """See `AnswerSource`: of a page that a workspace in this process has."""
        indexes = (backend.searcher.index for backend in self._local())
        return next(
            (found for index in indexes if index is not None and (found := index.likeness(url))),
            None,
        )

    def _local(self) -> list[LocalBackend]:
        return [backend for backend in self._backends.values() if isinstance(backend, LocalBackend)]

    def _number(self, backend: SearchBackend) -> int:
        return next(number for number, each in self._backends.items() if each is backend)

    def _statistics(self, question: SearchQuery) -> dict[int, tuple[int, TermStatistics]]:
        """Return generation and term statistics of every backend that has documents."""
        key = question.parsed, question.expansion
        known = self._statistics_by_query.get(key)
        if known is None:
            elsewhere = question.parsed == self._parsed
            asked = {
                number: backend
                for number, backend in self._backends.items()
                if elsewhere or isinstance(backend, LocalBackend)
            }
            answers = self._answers(
                asked, lambda backend, left: backend.statistics(self._text, question, left)
            )
            known = {
                number: (described.generation, term_statistics)
                for number, (described, term_statistics) in answers.items()
                if described.generation
            }
            self._statistics_by_query[key] = known
        return known

    def _once(
        self, ranked: list[Ranked[Place]], term_statistics: Mapping[int, tuple[int, TermStatistics]]
    ) -> list[Ranked[Place]]:
        """Remove pages whose URL another backend has at a better rank."""
        backends: dict[int, set[int]] = {}
        for page in ranked:
            backends.setdefault(page.host, set()).add(page.place[0])
        shared = {host for host, found in backends.items() if len(found) > 1}
        if not shared:
            return ranked
        asked: dict[int, list[Address]] = {}
        for page in ranked:
            if page.host in shared:
                asked.setdefault(page.place[0], []).append(page.place[1])
        keys = self._ask(
            {number: term_statistics[number] for number in asked},
            lambda backend, left, generation: backend.urls(
                generation, asked[self._number(backend)], left
            ),
        )
        key_of = {
            (number, address): key
            for number, found in keys.items()
            for address, key in zip(asked[number], found, strict=True)
        }
        seen: set[int] = set()
        kept = []
        for page in ranked:
            key = key_of.get(page.place)
            if key is not None:
                if key in seen:
                    continue
                seen.add(key)
            kept.append(page)
        return kept

    def _step(
        self,
        question: SearchQuery,
        stage: float,
        term_statistics: Mapping[int, tuple[int, TermStatistics]],
    ) -> Callable[[int], QueryStep]:
        """Return a function that makes the step for a backend's generation."""
        everywhere = together(each for _, each in term_statistics.values())
        return lambda generation: QueryStep(generation, self._text, question, stage, everywhere)

    def _ask(
        self,
        term_statistics: Mapping[int, tuple[int, TermStatistics]],
        call: GenerationCall[_Answer],
    ) -> dict[int, _Answer]:
        """Call the backends of these generations."""
        backends = {number: self._backends[number] for number in term_statistics}
        return self._answers(
            backends,
            lambda backend, left: call(backend, left, term_statistics[self._number(backend)][0]),
        )

    def _answers(
        self, backends: Mapping[int, SearchBackend], call: Call[SearchBackend, _Answer]
    ) -> dict[int, _Answer]:
        answers, errors = self._calls.ask(backends, call)
        if errors:
            raise BackendsFailed(errors)
        return answers
