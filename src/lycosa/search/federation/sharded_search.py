"""Search the shards of an index, each at one of its replicas, as one index.

A replica that is dead or late is avoided for a while, and the search starts again with another one.
If all replicas of a shard fail, its pages are missing in the results, and a note reports it.
"""

from __future__ import annotations

import functools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, cast

from lycosa.cluster.engine import Remote
from lycosa.core.messages import Message
from lycosa.search.federation.backend import IndexBackend, IndexDescription
from lycosa.search.federation.backend_calls import BackendCalls
from lycosa.search.federation.federated_index import (
    BackendsFailed,
    FederatedIndex,
    pages_by_language,
    suggest_from,
)
from lycosa.search.presentation.answer import answer
from lycosa.search.presentation.results import SearchRequest, SearchResults
from lycosa.search.query.query import parse_query
from lycosa.search.suggest.completion import Suggestion, SuggestRequest
from lycosa.text.korean import holds_hangul

CALL_TIMEOUT_S = 1.0
DEADLINE_S = 5.0
_AVOID_S = 5.0  # how long a failed replica is used only if there is no other
_DESCRIBE_INTERVAL_S = 2.0
_MAX_THREADS = 64

Replicas = Sequence[Sequence[Remote]]
"""The replicas of each shard."""


@dataclass(slots=True)
class _Load:
    """Calls in progress and recent failures, by replica."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    outstanding: Counter[str] = field(default_factory=Counter)
    failed_at: dict[str, float] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)

    def pick(self, replicas: Iterable[Remote]) -> Remote | None:
        """Return the replica with the fewest calls; one that failed recently only if there is no
        other.
        """
        now = time.monotonic()
        with self.lock:
            return min(
                replicas,
                key=lambda replica: (
                    now - self.failed_at.get(replica.name, -_AVOID_S) < _AVOID_S,
                    self.outstanding[replica.name],
                    self.calls[replica.name],
                ),
                default=None,
            )

    def begin(self, name: str) -> None:
        with self.lock:
            self.outstanding[name] += 1
            self.calls[name] += 1

    def end(self, name: str, *, failed: bool) -> None:
        with self.lock:
            self.outstanding[name] -= 1
            if failed:
                self.failed_at[name] = time.monotonic()
            else:
                self.failed_at.pop(name, None)


class _ReplicaProxy:
    """Calls any method of `IndexBackend` at a replica. The last argument is the time limit."""

    def __init__(self, remote: Remote, load: _Load) -> None:
        self.name = remote.name
        self._remote = remote
        self._load = load

    def __getattr__(self, method: str) -> Callable[..., Any]:
        return functools.partial(self._call, method)

    def _call(self, method: str, *arguments: Any) -> Any:
        self._load.begin(self.name)
        failed = True
        try:
            result = self._remote.ask(method, *arguments, timeout_s=arguments[-1])
            failed = False
            return result
        finally:
            self._load.end(self.name, failed=failed)


class ShardedSearch:
    """Searches the shards that `replicas` returns at each query, as a `ResultsBackend`.

    Shared by threads. Close it. `call_timeout_s` limits each call to a replica, `deadline_s` the
    time in which a search is started again with other replicas.
    """

    name = ""

    def __init__(
        self,
        replicas: Callable[[], Replicas],
        *,
        call_timeout_s: float = CALL_TIMEOUT_S,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        self._replicas = replicas
        self._deadline_s = deadline_s
        self._load = _Load()
        self._pool = ThreadPoolExecutor(max_workers=_MAX_THREADS, thread_name_prefix="shard")
        self._calls = BackendCalls(self._pool, call_timeout_s, per_call=True)
        self._described: dict[int, IndexDescription] = {}
        self._described_at = -_DESCRIBE_INTERVAL_S

    @property
    def calls(self) -> dict[str, int]:
        """Number of calls to each replica, by its name."""
        with self._load.lock:
            return dict(self._load.calls)

    def languages(self) -> dict[str, int]:
        """Return the approximate number of pages by language, of the shards that answered."""
        self._describe()
        return pages_by_language(list(self._described.values()))

    def search(
        self, request: SearchRequest, hops: int = 0, timeout_s: float = 0.0
    ) -> SearchResults:
        """Answer a query. Invalid input and dead replicas raise no error."""
        started = time.monotonic()
        self._describe()
        failed: set[str] = set()
        while True:
            backends = self._backends(failed)
            described = {
                number: self._described.get(number, IndexDescription()) for number in backends
            }
            index = FederatedIndex(
                backends,
                {},
                described,
                self._calls,
                parse_query(request.text),
                request.text,
                shards=True,
            )
            try:
                results = answer(index if index.documents else None, request)
                break
            except BackendsFailed as error:
                failed |= {backends[number].name for number in error.errors}
                if time.monotonic() - started > self._deadline_s:  # do without these shards
                    failed |= self._other_replicas(failed)
        self._described = self._described | {
            number: each for number, each in index.described.items() if each.generation
        }
        damaged = {
            number
            for number, each in index.described.items()
            if each.problem and not each.generation
        }
        count = len(self._replicas())
        missing = tuple(sorted({*range(count)} - backends.keys() | damaged))
        notes = [*results.notes, *self._notes(request, missing, count)]
        took_ms = (time.monotonic() - started) * 1000
        return replace(results, took_ms=took_ms, notes=notes, missing_shards=missing)

    def suggest(self, request: SuggestRequest) -> list[Suggestion]:
        """Return suggestions for typed text, of the shards that answer."""
        return suggest_from(self._backends(set()), self._calls, request)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _backends(self, failed: set[str]) -> dict[int, IndexBackend]:
        """Choose a replica of each shard that has one that did not fail."""
        chosen = (
            self._load.pick(replica for replica in replicas if replica.name not in failed)
            for replicas in self._replicas()
        )
        return {
            number: cast(IndexBackend, _ReplicaProxy(remote, self._load))
            for number, remote in enumerate(chosen)
            if remote is not None
        }

    def _other_replicas(self, failed: set[str]) -> set[str]:
        shards = [{replica.name for replica in replicas} for replicas in self._replicas()]
        return {name for names in shards if names & failed for name in names}

    def _describe(self) -> None:
        """Update the descriptions of all shards at intervals: queries are analysed by them."""
        if self._described and time.monotonic() - self._described_at < _DESCRIBE_INTERVAL_S:
            return
        self._described_at = time.monotonic()
        count = len(self._replicas())
        self._described = {
            number: each for number, each in self._described.items() if number < count
        }
        failed: set[str] = set()
        waiting = set(range(count))
        while backends := {
            number: each for number, each in self._backends(failed).items() if number in waiting
        }:
            described, errors = self._calls.ask(
                backends, lambda _, backend, left_s: backend.describe(left_s)
            )
            self._described = self._described | described
            failed |= {backends[number].name for number in errors}
            waiting -= described.keys()

    def _notes(self, request: SearchRequest, missing: Sequence[int], count: int) -> list[str]:
        one_language = Message(
            "one_language", "shards on other machines search only in the language of the query"
        )
        silent = Message(
            "shards_silent",
            "{n} of {count, plural, one {# shard} other {# shards}} did not respond: their "
            "pages are missing in these results",
            n=len(missing),
            count=count,
        )
        hints = {each.hint for each in self._described.values() if holds_hangul(request.text)}
        return [
            *([one_language] if request.across is not None else []),
            *sorted(hints - {""}),
            *([silent] if missing else []),
        ]
