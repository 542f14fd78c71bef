"""One answer from all shards: each is asked at one of its replicas, and what they find is put in
one order.

Scores are those of one index that holds all documents. Shards tell what they know of the query's
words; the sums go out with the query, and each returns its best by scores that are about right.
These are put in one order, which is cut into blocks (`search.ranking.ordering`), and within the
block that is shown the order is by exact scores. So every page of an answer comes from the same
order.

A replica that is dead or late is left alone for a while, and the query begins again with its twins.
A shard without any has its pages missing from this answer, and the answer says so.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any

from lycosa.cluster.engine import Remote, Unreachable
from lycosa.core.errors import WorkError
from lycosa.core.messages import Message
from lycosa.index.shards.shards import by_count
from lycosa.index.suggest.file import Phrase
from lycosa.search.engine.indexed_pages import Address
from lycosa.search.engine.open_index import IndexMatches
from lycosa.search.engine.search_query import SearchQuery
from lycosa.search.federation.replica import GenerationGone, ReplicaDescription
from lycosa.search.presentation.answer import answer
from lycosa.search.presentation.results import Hit, SearchRequest, SearchResults
from lycosa.search.ranking.feedback import PageTerms
from lycosa.search.ranking.ordering import Exactly, PageListing, Ranked, listing
from lycosa.search.ranking.similar import Likeness
from lycosa.search.ranking.statistics import TermStatistics, together
from lycosa.search.suggest.completion import Suggestion, SuggestRequest, suggestions
from lycosa.search.suggest.spelling import SpellingCandidates, SpellingRequest, merge_candidates
from lycosa.text.korean import holds_hangul

PATIENCE_S = 1.0
DEADLINE_S = 5.0
_AVOID_S = 5.0  # how long a replica that failed is asked only if there is no other
_REFRESH_S = 2.0

Replicas = Sequence[Sequence[Remote]]
"""For each shard those that hold it."""
Place = tuple[int, Address]
"""Shard, and the page in the generation that it was found in."""


class _ReplicasFailed(WorkError):
    """Replicas did not answer: begin again without them."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(f"no answer from {', '.join(names)}")


@dataclass(slots=True)
class _Load:
    """What is known of the replicas: questions under way, and who failed when."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    outstanding: Counter[str] = field(default_factory=Counter)
    failed_at: dict[str, float] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)

    def pick(self, replicas: Sequence[Remote], without: set[str]) -> Remote | None:
        """The one with the fewest questions under way; one that failed lately only if there is no
        other.
        """
        left = [replica for replica in replicas if replica.name not in without]
        if not left:
            return None
        now = time.monotonic()
        with self.lock:
            return min(
                left,
                key=lambda replica: (
                    now - self.failed_at.get(replica.name, -_AVOID_S) < _AVOID_S,
                    self.outstanding[replica.name],
                    self.asked[replica.name],
                ),
            )

    def begin(self, name: str) -> None:
        with self.lock:
            self.outstanding[name] += 1
            self.asked[name] += 1

    def end(self, name: str, *, failed: bool) -> None:
        with self.lock:
            self.outstanding[name] -= 1
            if failed:
                self.failed_at[name] = time.monotonic()
            else:
                self.failed_at.pop(name, None)


class Federation:
    """Searches the shards that `replicas` names at each query. Shared by threads. Close it.

    `patience_s` is how long one question to one replica may take, `deadline_s` how long all of them
    together.
    """

    def __init__(
        self,
        replicas: Callable[[], Replicas],
        *,
        patience_s: float = PATIENCE_S,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        self._replicas = replicas
        self._patience_s = patience_s
        self._deadline_s = deadline_s
        self._load = _Load()
        self._pool = ThreadPoolExecutor(max_workers=64, thread_name_prefix="shard")
        self._known: dict[int, ReplicaDescription] = {}
        self._known_at = -_REFRESH_S

    @property
    def asked(self) -> dict[str, int]:
        """Questions that each replica was asked, by its name."""
        with self._load.lock:
            return dict(self._load.asked)

    @property
    def languages(self) -> dict[str, int]:
        """Pages by language, about, of the shards that answered."""
        self._describe()
        found = Counter[str]()
        for description in list(self._known.values()):
            found.update(description.languages)
        return by_count(found)

    def describe(self) -> list[ReplicaDescription | None]:
        """What each shard has, at one of its replicas; None where none answers."""
        self._describe(force=True)
        return [self._known.get(number) for number in range(len(self._replicas()))]

    def search(self, request: SearchRequest) -> SearchResults:
        """Answer a query; whatever is typed and whoever is dead, never an exception."""
        started = time.monotonic()
        self._describe()
        failed: set[str] = set()
        while True:
            calls = _ShardedIndex(
                self._replicas(), self._load, self._pool, failed, self._known, self._patience_s
            )
            try:
                results = answer(calls if calls.documents else None, request)
            except _ReplicasFailed:
                # no time for twins: what failed is missing
                if time.monotonic() - started > self._deadline_s:
                    names = [{replica.name for replica in shard} for shard in self._replicas()]
                    failed |= {name for shard in names if shard & failed for name in shard}
                continue
            took = (time.monotonic() - started) * 1000
            missing = tuple(sorted(calls.missing))
            alone = (
                [
                    Message(
                        "one_language",
                        "shards on other machines search only in the language of the query",
                    )
                ]
                if request.across is not None
                else []
            )
            hints = {
                description.hint
                for description in self._known.values()
                if description.hint and holds_hangul(request.text)
            }
            notes = [
                *results.notes,
                *alone,
                *sorted(hints),
                *_missing_note(missing, len(calls.chosen)),
            ]
            return replace(results, took_ms=took, notes=notes, missing_shards=missing)

    def suggest(self, request: SuggestRequest) -> list[Suggestion]:
        """What somebody who types may want to type, of the shards that answer. Never an
        exception.
        """
        self._describe()
        calls = _ShardedIndex(
            self._replicas(), self._load, self._pool, set(), self._known, self._patience_s
        )

        def of_all(method: str, *given: object) -> list[Any]:
            shards = {
                shard: given for shard in range(len(calls.chosen)) if shard not in calls.missing
            }
            return list(calls.ask_those_that_answer(method, shards).values())

        def ask(start: str, count: int, language: str, words: bool) -> list[Sequence[Phrase]]:
            return of_all("phrases", start, count, language, words)

        return suggestions(
            request, ask, lambda text, language: sum(of_all("matching", text, language))
        )

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _describe(self, *, force: bool = False) -> None:
        """Ask what there is, now and then: by whose analyzers a query is read depends on it."""
        if not force and self._known and time.monotonic() - self._known_at < _REFRESH_S:
            # while nobody has answered, everybody asks: the first questions may come together
            return
        self._known_at = time.monotonic()
        replicas = self._replicas()
        self._known = {
            number: known for number, known in self._known.items() if number < len(replicas)
        }
        failed: set[str] = set()
        waiting = set(range(len(replicas)))
        while waiting:
            calls = _ShardedIndex(
                replicas, self._load, self._pool, failed, self._known, self._patience_s
            )
            waiting -= calls.missing
            try:
                self._known |= calls.ask("describe", dict.fromkeys(waiting, ()))
                return
            except _ReplicasFailed:
                continue


class ShardsBackend:
    """Replicas of shards as one of several indexes. They return complete results only."""

    def __init__(self, name: str, federation: Federation) -> None:
        self.name = name
        self._federation = federation

    def search(self, request: SearchRequest, hops: int, timeout_s: float) -> SearchResults:
        return self._federation.search(request)


class _ShardedIndex:
    """One attempt at one query: for each shard the replica that is asked, and what it said so far.
    A `AnswerSource` for `answer`.
    """

    def __init__(
        self,
        replicas: Replicas,
        load: _Load,
        pool: ThreadPoolExecutor,
        failed: set[str],
        known: dict[int, ReplicaDescription],
        patience_s: float,
    ) -> None:
        self._load = load
        self._pool = pool
        self._failed = failed
        self._known = known
        self._patience_s = patience_s
        self.chosen: list[Remote | None] = [load.pick(shard, failed) for shard in replicas]
        self.missing = {number for number, remote in enumerate(self.chosen) if remote is None}
        self._generations: dict[int, int] = {}
        self._statistics_by_query: dict[int, TermStatistics] = {}
        self._told_of: SearchQuery | None = None
        self._everywhere = TermStatistics()

    @property
    def number(self) -> int:
        return sum(self._generations.values()) or sum(
            description.generation for description in self._heard()
        )

    @property
    def documents(self) -> int:
        return sum(description.documents for description in self._heard())

    @property
    def languages(self) -> tuple[str, ...]:
        found = Counter[str]()
        for description in self._heard():
            found.update(description.languages)
        return tuple(by_count(found)) or ("",)

    def page(
        self, question: SearchQuery, stage: float, offset: int, count: int
    ) -> PageListing[Place]:
        """See `AnswerSource`. Blocks are ordered by corrected scores, their pages by exact ones."""
        self._ask_statistics(question)

        def fetch(limit: int) -> tuple[int, list[Ranked[Place]]]:
            asked = {
                shard: (number, question, stage, limit, self._everywhere)
                for shard, number in self._generations.items()
                if number
            }
            answers: dict[int, IndexMatches] = self.ask("find", asked)
            order = sorted(
                (
                    (-page.score, shard, rank, page)
                    for shard, found in answers.items()
                    for rank, page in enumerate(found.best)
                ),
                key=itemgetter(0, 1, 2),
            )
            best = [
                Ranked(page.score, (shard, page.place), page.host, page.group)
                for _, shard, _, page in order[:limit]
            ]
            return sum(found.total for found in answers.values()), best

        exactly = (
            self._exactly(question, stage)
            if not question.by_date and len(self._statistics_by_query) > 1
            else None
        )
        return listing(
            fetch,
            offset,
            count,
            per_host=question.per_host,
            folded=question.folded,
            exactly=exactly,
        )

    def facets(
        self, question: SearchQuery, stage: float, names: tuple[str, ...]
    ) -> dict[str, Counter[str]]:
        """See `AnswerSource`."""
        self._ask_statistics(question)
        asked = {
            shard: (number, question, stage, names)
            for shard, number in self._generations.items()
            if number
        }
        answers: dict[int, dict[str, dict[str, int]]] = self.ask("facets", asked)
        together = {name: Counter[str]() for name in names}
        for counts in answers.values():
            for name, values in counts.items():
                together[name].update(values)
        return together

    def hits(
        self, question: SearchQuery, stage: float, found: Sequence[Ranked[Place]]
    ) -> list[Hit]:
        """See `AnswerSource`."""
        by_shard: dict[int, list[Ranked[Address]]] = {}
        for page in found:
            shard, address = page.place
            by_shard.setdefault(shard, []).append(
                Ranked(page.score, address, page.host, page.group, page.copies, page.from_host)
            )
        asked = {
            shard: (self._generations[shard], question, stage, pages, self._everywhere)
            for shard, pages in by_shard.items()
        }
        shown: dict[int, list[Hit]] = self.ask("hits", asked)
        left = {shard: iter(hits) for shard, hits in shown.items()}
        return [next(left[page.place[0]]) for page in found]

    def ask(self, method: str, arguments: dict[int, tuple[Any, ...]]) -> dict[int, Any]:
        """The answers of these shards' replicas, side by side.

        Raises:
            _Failed: some did not answer; they are in `failed`.
        """
        asked: dict[int, tuple[Remote, Future[Any]]] = {}
        for shard, given in arguments.items():
            remote = self.chosen[shard]
            if remote is not None:
                asked[shard] = remote, self._pool.submit(self._one, remote, method, given)
        answers, failed = self._answers(asked)
        if failed:
            self._failed.update(failed)
            raise _ReplicasFailed(failed)
        return answers

    def ask_those_that_answer(
        self, method: str, arguments: dict[int, tuple[Any, ...]]
    ) -> dict[int, Any]:
        """The answers of those of these shards' replicas that do; for what is no worse for lacking
        some.
        """
        asked = {
            shard: (remote, self._pool.submit(self._one, remote, method, given))
            for shard, given in arguments.items()
            if (remote := self.chosen[shard]) is not None
        }
        return self._answers(asked)[0]

    def _answers(
        self, asked: dict[int, tuple[Remote, Future[Any]]]
    ) -> tuple[dict[int, Any], list[str]]:
        answers: dict[int, Any] = {}
        failed = []
        for shard, (remote, future) in asked.items():
            try:
                answers[shard] = future.result()
            except (Unreachable, GenerationGone):
                failed.append(remote.name)
        return answers, failed

    def spelling_candidates(self, wanted: SpellingRequest) -> SpellingCandidates:
        """See `AnswerSource`."""
        asked = {shard: (number, wanted) for shard, number in self._generations.items() if number}
        candidates: list[SpellingCandidates] = list(self.ask("spelling_candidates", asked).values())
        return merge_candidates(candidates)

    def feedback_terms(self, pages: Sequence[Ranked[Place]]) -> list[PageTerms]:
        """See `AnswerSource`. Terms have the weights that they have in the page's shard."""
        by_shard: dict[int, list[Address]] = {}
        for page in pages:
            by_shard.setdefault(page.place[0], []).append(page.place[1])
        found = self.ask(
            "page_terms",
            {shard: (self._generations[shard], addresses) for shard, addresses in by_shard.items()},
        )
        left = {shard: iter(terms) for shard, terms in found.items()}
        return [next(left[page.place[0]]) for page in pages]

    def likeness(self, url: str) -> Likeness | None:
        """See `AnswerSource`. A page is in one shard; its words' weights are those that they have
        there.
        """
        known = (
            (shard, description.generation)
            for shard, description in self._known.items()
            if shard not in self.missing
        )
        asked = {shard: (generation, url) for shard, generation in known if generation}
        found: dict[int, Likeness | None] = self.ask("likeness", asked)
        return next((like for like in found.values() if like is not None), None)

    def _one(self, remote: Remote, method: str, given: tuple[Any, ...]) -> Any:
        self._load.begin(remote.name)
        failed = True
        try:
            found = remote.ask(method, *given, timeout_s=self._patience_s)
            failed = False
            return found
        finally:
            self._load.end(remote.name, failed=failed)

    def _ask_statistics(self, question: SearchQuery) -> None:
        if self._statistics_by_query and question == self._told_of:
            return
        term_statistics = self.ask(
            "statistics",
            {shard: (question,) for shard in range(len(self.chosen)) if shard not in self.missing},
        )
        for shard, (description, statistics) in term_statistics.items():
            self._known[shard] = description
            self._generations[shard] = description.generation
            self._statistics_by_query[shard] = statistics
            if not description.generation and description.problem:
                self.missing.add(shard)
        self._told_of = question
        self._everywhere = together(self._statistics_by_query.values())

    def _exactly(self, question: SearchQuery, stage: float) -> Exactly[Place]:
        def exactly(block: list[Ranked[Place]]) -> list[Ranked[Place]]:
            by_shard: dict[int, list[Ranked[Place]]] = {}
            for page in block:
                by_shard.setdefault(page.place[0], []).append(page)
            asked = {
                shard: (
                    self._generations[shard],
                    question,
                    stage,
                    [page.place[1] for page in pages],
                    self._everywhere,
                )
                for shard, pages in by_shard.items()
            }
            scores: dict[int, list[float]] = self.ask("weigh", asked)
            weighed = [
                page._replace(score=score)
                for shard, pages in by_shard.items()
                for page, score in zip(pages, scores[shard], strict=True)
            ]
            # equal scores: the order of shards, in a shard of documents
            return sorted(weighed, key=lambda page: (-page.score, page.place))

        return exactly

    def _heard(self) -> list[ReplicaDescription]:
        return [
            description for shard, description in self._known.items() if shard not in self.missing
        ]


def _missing_note(missing: Sequence[int], count: int) -> list[str]:
    if not missing:
        return []
    said = Message(
        "shards_silent",
        "{n} of {count, plural, one {# shard} other {# shards}} did not respond: their pages are "
        "missing in these results",
        n=len(missing),
        count=count,
    )
    return [said]
