"""What a workspace goes through between two power cuts, and what must be true after each. And faults of
`os` calls: refused, done and reported as failed, or done by half.
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
from lycosa.graph.builder import make_anew, make_generation
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
SMALL = IndexSettings.model_validate({"heap": "15MiB", "threads": 1})


class Watcher(Protocol):
    """Looks at what a workspace's life does to the disk; `on_call` is called after each call of
    `os`.
    """

    on_call: Callable[[], None] | None

    def recording(self) -> AbstractContextManager[object]: ...

    def mark(self, what: str, number: int) -> None: ...


@dataclass
class Life:
    """What a workspace said after each entry of its log."""

    head: int
    facts: dict[int, Facts] = field(default_factory=dict)
    # of the index that has read up to an entry
    documents: dict[int, int] = field(default_factory=dict)

    def note(self, workspace: Workspace) -> None:
        """Take up entries that were written since."""
        while os.path.exists(os.path.join(workspace.root, entry_path(self.head + 1))):
            self.head += 1
            self.facts[self.head] = facts(workspace)


def begin(root: str) -> Workspace:
    """A workspace whose log is about to fill its first hundred, so that the snapshot comes in the
    middle of what follows.
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
    """Append entries to the log up to a number."""
    while state.head < head:
        rule = f"host:h{state.head}.example.net"
        append(state, Entry(EXCLUDE, new_attempt(), "2023-11-14T00:00:00Z", exclusions=(rule,)))


def new_life(workspace: Workspace) -> Life:
    """Of a workspace that stands still now."""
    head = workspace.state().head
    return Life(head, {head: facts(workspace)})


def live(workspace: Workspace, life: Life, recorder: Watcher) -> None:
    """Claim, commit, index, rank, merge, purge, sweep, under a watcher's eyes."""
    recorder.on_call = lambda: life.note(workspace)
    with recorder.recording():
        claim = workspace.claim("worker")
        recorder.mark("entry", claim.entry)
        recorder.mark("entry", commit_both(workspace, claim, range(1, 3), at=1_700_000_100_000))
        recorder.mark("index", _index(workspace, life))
        recorder.mark(
            "entry",
            claim.commit(
                claim.next_folder(), {}, CommitContents(inbox=["a.json"], counters={"served": 1})
            ),
        )
        recorder.mark("entry", commit_both(workspace, claim, range(2, 4), at=1_700_000_200_000))
        claim.release()
        recorder.mark("entry", life.head)
        recorder.mark("graph", make_generation(workspace).generation)
        compact(workspace, CompactionSettings(gather=2))
        recorder.mark("entry", life.head)
        recorder.mark("index", _index(workspace, life))
        assert purge(workspace, [f"host:{BAD}"]).complete
        make_anew(workspace)
        recorder.mark("entry", life.head)
        recorder.mark("purged", 1)
        recorder.mark("index", _index(workspace, life))
        vacuum(workspace, keep_replaced_ms=0, keep_entries_ms=0, now_ms=LATER)
        recorder.mark("entry", life.head)


def _index(workspace: Workspace, life: Life) -> int:
    with Indexer(workspace.root, SMALL) as indexer:
        report = indexer.update()
    life.documents[report.log_entry] = report.documents
    return report.generation


def survives(life: Life, root: Path, promised: dict[str, int], why: str) -> None:
    """Nothing that was promised is lost, nothing is there by half, and the next run goes on."""
    workspace = Workspace.open(str(root))
    state = workspace.state()
    assert promised.get("entry", min(life.facts)) <= state.head <= life.head, why
    result = facts(workspace)
    different = [
        name for name, frame in life.facts[state.head].items() if not frame.equals(result[name])
    ]
    assert not different, f"{why}: {different} are not as of entry {state.head}"
    report = verify(workspace, deep=True)
    assert report.ok, f"{why}: {report.findings}"
    index = newest(str(root))
    assert (index.number if index else 0) >= promised.get("index", 0), why
    if index is not None:
        assert index.info.log_entry <= state.head, why
        assert index.info.documents == life.documents.get(
            index.info.log_entry, index.info.documents
        ), why
        assert (
            Searcher(str(root)).search(SearchRequest("text", 100)).total == index.info.documents
        ), why
    graph = newest_graph(workspace)
    assert (graph[0].generation if graph else 0) >= promised.get("graph", 0), why
    if "purged" in promised:
        assert secrets(workspace) == [], why
    goes_on(workspace, why)


def goes_on(workspace: Workspace, why: str) -> None:
    """A worker takes over, and all that was under way ends as it should."""
    state = workspace.state()
    heir = workspace.claim("heir")
    waiting = heir.inbox()
    assert waiting == ([] if state.counters["served"] else ["a.json"]), why
    served = len(waiting)
    heir.commit(
        heir.next_folder(),
        {},
        CommitContents(
            orphans_used=[each.path for each in heir.orphans()],
            inbox=waiting,
            counters={"served": served},
        ),
    )
    assert heir.orphans() == [], why
    commit_both(workspace, heir, range(7, 9), at=1_700_000_300_000)
    heir.release()
    assert workspace.state().counters["served"] == 1, why
    assert not compact(workspace, CompactionSettings(gather=2), whole=True).gave_up, why
    assert purge(workspace, [f"host:{BAD}"]).complete, why
    make_anew(workspace)
    vacuum(workspace, keep_replaced_ms=0, keep_entries_ms=0, now_ms=LATER)
    assert secrets(workspace) == [], why
    assert_archive_matches(workspace)
    with Indexer(workspace.root, SMALL) as indexer:
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
    """What becomes of the call."""

    FULL = "the disk is full"
    BROKEN = "the disk fails"
    UNANSWERED = "the disk did it and says that it failed"
    SHORT = "half of a write is written"


_ERRNO = {Fault.FULL: errno.ENOSPC, Fault.BROKEN: errno.EIO, Fault.UNANSWERED: errno.EIO}


class Faults:
    """Fails the call of number `at`. Counts calls of `write` alone where these are to be short."""

    def __init__(self, fault: Fault, at: int) -> None:
        self.calls = 0
        self.happened = ""
        self.promised: dict[str, int] = {}
        self.on_call: Callable[[], None] | None = None
        self._fault, self._at = fault, at
        self._real = {name: getattr(os, name) for name in CALLS}
        self._noting = threading.local()

    @contextmanager
    def recording(self) -> Iterator[Faults]:
        """While this runs, calls of `os` in all threads are counted, and one of them fails."""
        with replaced(self._real, self._wrapped):
            yield self

    def mark(self, what: str, number: int) -> None:
        self.promised[what] = number

    def _wrapped(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **options: Any) -> Any:
            if getattr(self._noting, "now", False):
                return call(*arguments, **options)
            counts = name == "write" or self._fault is not Fault.SHORT
            self.calls += counts
            if counts and self.calls == self._at:
                self.happened = f"{name}{arguments[:1]}"
                if self._fault is Fault.SHORT:
                    return call(arguments[0], arguments[1][: len(arguments[1]) // 2])
                if self._fault is Fault.UNANSWERED:
                    call(*arguments, **options)
                raise OSError(_ERRNO[self._fault], os.strerror(_ERRNO[self._fault]))
            result = call(*arguments, **options)
            if self.on_call is not None:
                self._noting.now = True
                try:
                    self.on_call()
                finally:
                    self._noting.now = False
            return result

        return run
