"""Operations of a workspace for tests of power cuts and disk errors.

`FaultInjector` makes one call of `os` fail, falsely report a failure, or write only half.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Protocol

import polars as pl

from lycosa.config.settings import IndexSettings
from lycosa.graph.builder import make_generation, rebuild_graph
from lycosa.graph.generation import newest as newest_graph
from lycosa.index.generation import newest
from lycosa.index.indexer import Indexer
from lycosa.search.engine.searcher import Searcher, SearchRequest
from lycosa.store.compaction.compact import compact
from lycosa.store.compaction.plan import CompactionSettings
from lycosa.store.compaction.vacuum import vacuum
from lycosa.store.exclusion.purge import purge
from lycosa.store.log.entry import EXCLUDE, Entry, entry_path, new_attempt
from lycosa.store.log.snapshot import INTERVAL
from lycosa.store.log.state import LogState
from lycosa.store.log.transaction import CommitContents, append
from lycosa.store.verify.check import verify
from lycosa.store.workspace import Workspace
from tests.store.facts import Facts, facts
from tests.store.test_purge import BAD, GOOD, assert_archive_matches, commit_both, secrets
from tests.trust.disk import CALLS, replaced

LATER = 4_000_000_000_000
INDEX_SETTINGS = IndexSettings.model_validate({"heap": "15MiB", "threads": 1})


class CallObserver(Protocol):
    """Observe the calls of `os` in a scenario; `on_call` is called after each."""

    on_call: Callable[[], None] | None

    def recording(self) -> AbstractContextManager[object]: ...

    def mark(self, what: str, number: int) -> None: ...


@dataclass
class History:
    """The content of a workspace after each entry of its log."""

    head: int
    facts: dict[int, Facts] = field(default_factory=dict)
    # log entry -> documents of the index generation built from it
    documents: dict[int, int] = field(default_factory=dict)

    def record(self, workspace: Workspace) -> None:
        """Record the log entries that were written since the last call."""
        while os.path.exists(os.path.join(workspace.root, entry_path(self.head + 1))):
            self.head += 1
            self.facts[self.head] = facts(workspace)


def make_workspace(root: str) -> Workspace:
    """Create a workspace whose next log entries reach the first snapshot.

    So a snapshot is written in the middle of the scenario.
    """
    workspace = Workspace.create(root, partitions=8)
    claim = workspace.claim("first")
    commit_both(workspace, claim, range(2))
    claim.release()
    append_exclusions(workspace.state(), INTERVAL - 6)
    (Path(workspace.storage.make_folder("inbox")) / "a.json").write_text("[]")
    workspace.storage.make_folder("run")
    return workspace


def append_exclusions(state: LogState, head: int) -> None:
    """Append exclusions to the log up to entry number `head`."""
    while state.head < head:
        rule = f"host:h{state.head}.example.net"
        append(state, Entry(EXCLUDE, new_attempt(), "2023-11-14T00:00:00Z", exclusions=(rule,)))


def new_history(workspace: Workspace) -> History:
    """Return the history of a workspace that is not in use."""
    head = workspace.state().head
    return History(head, {head: facts(workspace)})


def run_scenario(workspace: Workspace, history: History, recorder: CallObserver) -> None:
    """Claim, commit, index, rank, compact, purge and vacuum, with an observer."""
    recorder.on_call = lambda: history.record(workspace)
    with recorder.recording():
        claim = workspace.claim("worker")
        recorder.mark("entry", claim.entry)
        recorder.mark("entry", commit_both(workspace, claim, range(1, 3), at=1_700_000_100_000))
        recorder.mark("index", _index(workspace, history))
        recorder.mark(
            "entry",
            claim.commit(
                claim.next_folder(), {}, CommitContents(inbox=["a.json"], counters={"served": 1})
            ),
        )
        recorder.mark("entry", commit_both(workspace, claim, range(2, 4), at=1_700_000_200_000))
        claim.release()
        recorder.mark("entry", history.head)
        recorder.mark("graph", make_generation(workspace).generation)
        compact(workspace, CompactionSettings(gather=2))
        recorder.mark("entry", history.head)
        recorder.mark("index", _index(workspace, history))
        assert purge(workspace, [f"host:{BAD}"]).complete
        rebuild_graph(workspace)
        recorder.mark("entry", history.head)
        recorder.mark("purged", 1)
        recorder.mark("index", _index(workspace, history))
        vacuum(workspace, keep_replaced_ms=0, keep_entries_ms=0, now_ms=LATER)
        recorder.mark("entry", history.head)


def _index(workspace: Workspace, history: History) -> int:
    with Indexer(workspace.root, INDEX_SETTINGS) as indexer:
        report = indexer.update()
    history.documents[report.log_entry] = report.documents
    return report.generation


def assert_recovers(history: History, root: Path, durable: dict[str, int], why: str) -> None:
    """Assert that all durable data is complete and work can continue."""
    workspace = Workspace.open(str(root))
    state = workspace.state()
    assert durable.get("entry", min(history.facts)) <= state.head <= history.head, why
    result = facts(workspace)
    different = [
        name for name, frame in history.facts[state.head].items() if not frame.equals(result[name])
    ]
    assert not different, f"{why}: {different} are not as of entry {state.head}"
    report = verify(workspace, deep=True)
    assert report.ok, f"{why}: {report.findings}"
    index = newest(str(root))
    assert (index.number if index else 0) >= durable.get("index", 0), why
    if index is not None:
        assert index.info.log_entry <= state.head, why
        assert index.info.documents == history.documents.get(
            index.info.log_entry, index.info.documents
        ), why
        assert (
            Searcher(str(root)).search(SearchRequest("text", 100)).total == index.info.documents
        ), why
    graph = newest_graph(workspace)
    assert (graph[0].generation if graph else 0) >= durable.get("graph", 0), why
    if "purged" in durable:
        assert secrets(workspace) == [], why
    assert_work_continues(workspace, why)


def assert_work_continues(workspace: Workspace, why: str) -> None:
    """Assert that a new worker can finish all pending operations."""
    state = workspace.state()
    successor = workspace.claim("successor")
    waiting = successor.inbox()
    assert waiting == ([] if state.counters["served"] else ["a.json"]), why
    served = len(waiting)
    successor.commit(
        successor.next_folder(),
        {},
        CommitContents(
            orphans_used=[each.path for each in successor.orphans()],
            inbox=waiting,
            counters={"served": served},
        ),
    )
    assert successor.orphans() == [], why
    commit_both(workspace, successor, range(7, 9), at=1_700_000_300_000)
    successor.release()
    assert workspace.state().counters["served"] == 1, why
    assert not compact(workspace, CompactionSettings(gather=2), whole=True).gave_up, why
    assert purge(workspace, [f"host:{BAD}"]).complete, why
    rebuild_graph(workspace)
    vacuum(workspace, keep_replaced_ms=0, keep_entries_ms=0, now_ms=LATER)
    assert secrets(workspace) == [], why
    assert_archive_matches(workspace)
    with Indexer(workspace.root, INDEX_SETTINGS) as indexer:
        documents = indexer.update().documents
    live_pages = {
        row for row in facts(workspace)["pages"].filter(pl.col("may_index"))["url"] if GOOD in row
    }
    assert documents == len(live_pages), why
    assert Searcher(workspace.root).search(SearchRequest("text", 100)).total == documents, why
    report = verify(workspace, deep=True)
    assert report.ok, f"{why}: {report.findings}"
    assert not [each for each in report.findings if each.severity == "warning"], (
        f"{why}: {report.findings}"
    )


class Fault(Enum):
    """Effect on the failing call."""

    FULL = "the disk is full"
    BROKEN = "the disk fails"
    FALSE_ERROR = "the call succeeds but reports a failure"
    SHORT = "only half of the data is written"


_ERRNO = {Fault.FULL: errno.ENOSPC, Fault.BROKEN: errno.EIO, Fault.FALSE_ERROR: errno.EIO}


class FaultInjector:
    """Make call number `at` fail; `Fault.SHORT` counts only `write`."""

    def __init__(self, fault: Fault, at: int) -> None:
        self.calls = 0
        self.happened = ""
        self.durable: dict[str, int] = {}
        self.on_call: Callable[[], None] | None = None
        self._fault, self._at = fault, at
        self._real = {name: getattr(os, name) for name in CALLS}
        self._in_callback = threading.local()

    @contextmanager
    def recording(self) -> Iterator[FaultInjector]:
        """Count calls of `os` in all threads, and make one fail."""
        with replaced(self._real, self._wrapped):
            yield self

    def mark(self, what: str, number: int) -> None:
        self.durable[what] = number

    def _wrapped(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **options: Any) -> Any:
            if getattr(self._in_callback, "now", False):
                return call(*arguments, **options)
            counts = name == "write" or self._fault is not Fault.SHORT
            self.calls += counts
            if counts and self.calls == self._at:
                self.happened = f"{name}{arguments[:1]}"
                if self._fault is Fault.SHORT:
                    return call(arguments[0], arguments[1][: len(arguments[1]) // 2])
                if self._fault is Fault.FALSE_ERROR:
                    call(*arguments, **options)
                raise OSError(_ERRNO[self._fault], os.strerror(_ERRNO[self._fault]))
            result = call(*arguments, **options)
            if self.on_call is not None:
                self._in_callback.now = True
                try:
                    self.on_call()
                finally:
                    self._in_callback.now = False
            return result

        return run
