"""One answer from all shards: each is asked at one of its replicas, and what they find is put in one order.

Scores are those of one index that holds all documents. Shards tell what they know of the query's words; the sums go out with the
query, and each returns its best by scores that are about right. These are put in one order, which is cut into blocks of `BLOCK`, and
within the block that is shown the order is by exact scores. So every page of an answer comes from the same order.

A replica that is dead or late is left alone for a while, and the query begins again with its twins. A shard without any has its
pages missing from this answer, and the answer says so.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from lycosa.core.errors import WorkError
from lycosa.crawl.engine import Remote, Unreachable
from lycosa.index.shards import by_count
from lycosa.search.answer import answer
from lycosa.search.opened import Address, Found, Question
from lycosa.search.replica import Description, GenerationGone
from lycosa.search.results import Hit, SearchRequest, SearchResults
from lycosa.search.statistics import ToldStatistics, together

BLOCK = 40
"""Pages that are put in exact order together: of 200 queries' ten best 9.9 were among the 40 first by corrected scores."""
PATIENCE_S = 1.0
DEADLINE_S = 5.0
_AVOID_S = 5.0  # how long a replica that failed is asked only if there is no other
_REFRESH_S = 2.0

Replicas = Sequence[Sequence[Remote]]
"""For each shard those that hold it."""
Place = tuple[int, Address]
"""Shard, and the page in the generation that it was found in."""


class _Failed(WorkError):
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
        """The one with the fewest questions under way; one that failed lately only if there is no other."""
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

    `patience_s` is how long one question to one replica may take, `deadline_s` how long all of them together.
    """

    def __init__(self, replicas: Callable[[], Replicas], *, patience_s: float = PATIENCE_S, deadline_s: float = DEADLINE_S) -> None:
        self._replicas = replicas
        self._patience_s = patience_s
        self._deadline_s = deadline_s
        self._load = _Load()
        self._pool = ThreadPoolExecutor(max_workers=64, thread_name_prefix="shard")
        self._known: dict[int, Description] = {}
        self._known_at = -_REFRESH_S

    @property
    def asked(self) -> dict[str, int]:
        """Questions that each replica was asked, by its name."""
        with self._load.lock:
            return dict(self._load.asked)

    @property
    def languages(self) -> dict[str, int]:
        """Pages by language, about, of the shards that were heard."""
        self._describe()
        found = Counter[str]()
        for description in list(self._known.values()):
            found.update(description.languages)
        return by_count(found)

    def describe(self) -> list[Description | None]:
        """What each shard has, at one of its replicas; None where none answers."""
        self._describe(force=True)
        return [self._known.get(number) for number in range(len(self._replicas()))]

    def search(self, request: SearchRequest) -> SearchResults:
        """Answer a query; whatever is typed and whoever is dead, never an exception."""
        started = time.monotonic()
        self._describe()
        failed: set[str] = set()
        while True:
            asking = _Asking(self._replicas(), self._load, self._pool, failed, self._known, self._patience_s)
            try:
                results = answer(asking if asking.documents else None, request)
            except _Failed:
                if time.monotonic() - started > self._deadline_s:  # no time for twins: what failed is missing
                    names = [{replica.name for replica in shard} for shard in self._replicas()]
                    failed |= {name for shard in names if shard & failed for name in shard}
                continue
            took = (time.monotonic() - started) * 1000
            missing = tuple(sorted(asking.missing))
            notes = [*results.notes, *_missing_note(missing, len(asking.chosen))]
            return replace(results, took_ms=took, notes=notes, missing_shards=missing)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _describe(self, *, force: bool = False) -> None:
        """Ask what there is, now and then: by whose analyzers a query is read depends on it."""
        if not force and time.monotonic() - self._known_at < _REFRESH_S:
            return
        self._known_at = time.monotonic()
        replicas = self._replicas()
        self._known = {number: known for number, known in self._known.items() if number < len(replicas)}
        failed: set[str] = set()
        waiting = set(range(len(replicas)))
        while waiting:
            asking = _Asking(replicas, self._load, self._pool, failed, self._known, self._patience_s)
            waiting -= asking.missing
            try:
                self._known |= asking.ask("describe", dict.fromkeys(waiting, ()))
                return
            except _Failed:
                continue


class _Asking:
    """One attempt at one query: for each shard the replica that is asked, and what it said so far. A `Source` for `answer`."""

    def __init__(
        self, replicas: Replicas, load: _Load, pool: ThreadPoolExecutor, failed: set[str], known: dict[int, Description], patience_s: float
    ) -> None:
        self._load = load
        self._pool = pool
        self._failed = failed
        self._known = known
        self._patience_s = patience_s
        self.chosen: list[Remote | None] = [load.pick(shard, failed) for shard in replicas]
        self.missing = {number for number, remote in enumerate(self.chosen) if remote is None}
        self._generations: dict[int, int] = {}
        self._told: dict[int, ToldStatistics] = {}
        self._everywhere = ToldStatistics()

    @property
    def number(self) -> int:
        return sum(self._generations.values()) or sum(description.generation for description in self._heard())

    @property
    def documents(self) -> int:
        return sum(description.documents for description in self._heard())

    @property
    def languages(self) -> tuple[str, ...]:
        found = Counter[str]()
        for description in self._heard():
            found.update(description.languages)
        return tuple(by_count(found)) or ("",)

    def page(self, question: Question, stage: float, offset: int, count: int) -> tuple[int, list[tuple[float, Place]]]:
        """See `Source`. The order is by corrected scores in blocks, by exact ones within them."""
        if not self._told:
            self._ask_statistics(question)
        first = offset // BLOCK * BLOCK
        last = -(-(offset + count) // BLOCK) * BLOCK
        asked = {
            shard: (generation, question, stage, last, self._everywhere) for shard, generation in self._generations.items() if generation
        }
        answers: dict[int, Found] = self.ask("find", asked)
        total = sum(found.total for found in answers.values())
        order = sorted(
            ((-score, shard, rank, address) for shard, found in answers.items() for rank, (score, address) in enumerate(found.best))
        )[first:last]
        places: list[tuple[float, Place]] = [(-score, (shard, address)) for score, shard, _, address in order]
        if not question.by_date and len(self._told) > 1:
            places = self._exactly(question, stage, places)
        return total, places[offset - first : offset - first + count]

    def hits(self, question: Question, found: Sequence[tuple[float, Place]]) -> list[Hit]:
        """See `Source`."""
        by_shard: dict[int, list[tuple[float, Address]]] = {}
        for score, (shard, address) in found:
            by_shard.setdefault(shard, []).append((score, address))
        shown: dict[int, list[Hit]] = self.ask(
            "hits", {shard: (self._generations[shard], question, pages) for shard, pages in by_shard.items()}
        )
        left = {shard: iter(hits) for shard, hits in shown.items()}
        return [next(left[shard]) for _, (shard, _) in found]

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
        answers: dict[int, Any] = {}
        failed = []
        for shard, (remote, future) in asked.items():
            try:
                answers[shard] = future.result()
            except (Unreachable, GenerationGone):
                failed.append(remote.name)
        if failed:
            self._failed.update(failed)
            raise _Failed(failed)
        return answers

    def _one(self, remote: Remote, method: str, given: tuple[Any, ...]) -> Any:
        self._load.begin(remote.name)
        failed = True
        try:
            found = remote.ask(method, *given, timeout_s=self._patience_s)
            failed = False
            return found
        finally:
            self._load.end(remote.name, failed=failed)

    def _ask_statistics(self, question: Question) -> None:
        told = self.ask("statistics", {shard: (question,) for shard in range(len(self.chosen)) if shard not in self.missing})
        for shard, (description, statistics) in told.items():
            self._known[shard] = description
            self._generations[shard] = description.generation
            self._told[shard] = statistics
            if not description.generation and description.problem:
                self.missing.add(shard)
        self._everywhere = together(self._told.values())

    def _exactly(self, question: Question, stage: float, places: list[tuple[float, Place]]) -> list[tuple[float, Place]]:
        by_shard: dict[int, list[Address]] = {}
        for _, (shard, address) in places:
            by_shard.setdefault(shard, []).append(address)
        scores: dict[int, list[float]] = self.ask(
            "weigh",
            {shard: (self._generations[shard], question, stage, addresses, self._everywhere) for shard, addresses in by_shard.items()},
        )
        exact = {
            (shard, address): score
            for shard, addresses in by_shard.items()
            for address, score in zip(addresses, scores[shard], strict=True)
        }
        weighed = [(exact[place], place) for _, place in places]
        ordered: list[tuple[float, Place]] = []
        for start in range(0, len(weighed), BLOCK):  # equal scores keep the order of shards, and in a shard that of its documents
            ordered += sorted(weighed[start : start + BLOCK], key=lambda item: (-item[0], item[1]))
        return ordered

    def _heard(self) -> list[Description]:
        return [description for shard, description in self._known.items() if shard not in self.missing]


def _missing_note(missing: Sequence[int], count: int) -> list[str]:
    if not missing:
        return []
    return [f"{len(missing)} of {count} shards did not answer: their pages are missing here"]
