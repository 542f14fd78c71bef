"""Ranking outside the worker's loop, in a process of its own; with a simulated clock, in this one.

`rankings/COLLECTION/00000003/` is a ranking: `info.json`, and `changes`, the rows of all
partitions. Where several workers share the partitions one of them ranks, and all apply the result:
the worker that creates the note of the next number first makes it; if nothing came of it after a
while, the number after that is up. A ranking too many does no harm, and a kill loses no more than
the ranking of a day.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lycosa.core.clock import Clock, SystemClock
from lycosa.crawl.recrawl.ranking import RankingResult, Solved, rank
from lycosa.frontier.recrawl.change_rate import RatePrior
from lycosa.frontier.recrawl.due import Policy, RecrawlRules
from lycosa.processes.children import job_order, start_job
from lycosa.processes.memory import tune_memory
from lycosa.store.coordination.owner import FOLDER as RUN
from lycosa.store.storage.staging import build_folder
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace

FOLDER = "rankings"
ATTEMPTS = 3
"""A merge may delete files during a long ranking; the next attempt reads their replacements."""

PATIENCE_MS = 600_000
"""How long to wait for another worker's ranking."""

_NICENESS = 10
_LOOK_MS = 5_000
_KEPT = 2
_INFO, _CHANGES = "info.json", "changes"
_NUMBER = re.compile(r"^\d{8}\Z")


class Ranker:
    """Ranks one collection at a time, or waits for the ranking of another worker.

    `worker`: the name of this worker among several; None: it is alone. `fresh_ms`: a ranking by
    the same rules that is younger is not made again where there are several.
    """

    def __init__(
        self, workspace: Workspace, clock: Clock, worker: str | None = None, fresh_ms: int = 0
    ) -> None:
        self._workspace = workspace
        self._storage = workspace.storage
        self._clock = clock
        self._worker = worker
        self._fresh_ms = fresh_ms
        self._collection = ""
        self._rules: dict[str, Any] = {}
        self._applied: dict[str, int] = {}  # collection -> number of the ranking taken last
        self._number = 0  # of the ranking that is made or awaited; 0: none
        self._process: subprocess.Popen[bytes] | None = None  # makes it
        self._since = self._next_look = 0

    @property
    def busy(self) -> bool:
        """Whether a ranking is under way."""
        return self._number > 0

    def start(self, collection: str, rules: RecrawlRules) -> None:
        """Begin. Call it only while it is not busy."""
        self._collection, self._rules = collection, asdict(rules)
        newest = max(numbers(self._workspace, collection), default=0)
        is_new = newest > self._applied.get(collection, 0)
        if self._worker is not None and is_new and self._is_fresh(newest):
            self._number, self._next_look = newest, 0
        else:
            self._make(newest + 1)

    def take(self) -> RankingResult | None:
        """Return the result, once; None while it is under way, when nothing is, and when it
        failed.
        """
        if not self._number:
            return None
        failed = False
        if self._process is not None:
            if self._process.poll() is None:
                return None
            self._process, failed = None, True  # unless there is a result
        now = self._clock.monotonic_ms()
        if now < self._next_look and not failed:
            return None
        self._next_look = now + _LOOK_MS
        result = self._read(self._number)
        if result is not None:
            self._applied[self._collection] = self._number
        if result is not None or failed:
            self._number = 0
        elif now - self._since >= PATIENCE_MS:
            self._make(self._number + 1)
        return result

    def close(self) -> None:
        """End what is under way."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process, self._number = None, 0

    def _make(self, number: int) -> None:
        """Make a ranking, or wait for the worker that was first to create its note."""
        self._number, self._since, self._next_look = number, self._clock.monotonic_ms(), 0
        if self._worker is not None:
            self._storage.make_folder(RUN)
            note = json.dumps({"worker": self._worker}).encode()
            if not self._storage.create(_note(self._collection, number), note):
                return
        order = {
            "root": self._workspace.root,
            "collection": self._collection,
            "rules": self._rules,
            "number": number,
            "made_at": self._clock.now_ms(),
        }
        if isinstance(self._clock, SystemClock):
            self._process = start_job("lycosa.crawl.recrawl.rankers", order)
        else:
            make_ranking(self._workspace, order)

    def _info(self, number: int) -> tuple[Path, Mapping[str, Any]] | None:
        folder = self._storage.folders.local_path(_folder(self._collection, number))
        if folder is None:
            return None
        try:
            document = json.loads(Path(folder, _INFO).read_bytes())
        except (FileNotFoundError, ValueError):
            return None
        return (Path(folder), document) if isinstance(document, dict) else None

    def _is_fresh(self, number: int) -> bool:
        info = self._info(number)
        if info is None or info[1].get("rules") != json.loads(json.dumps(self._rules)):
            return False
        # one from the future was made by a clock that was wrong
        return abs(self._clock.now_ms() - int(info[1]["made_at"])) < self._fresh_ms

    def _read(self, number: int) -> RankingResult | None:
        info = self._info(number)
        if info is None:
            return None
        folder, document = info
        try:
            changes = (folder / _CHANGES).open("rb")
        except FileNotFoundError:  # it was removed meanwhile: an even newer one is there
            return None
        solved = {**document["solved"], "prior": RatePrior(tuple(document["solved"]["prior"]))}
        return RankingResult(self._collection, Solved(**solved), changes)


def numbers(workspace: Workspace, collection: str) -> list[int]:
    """Return the numbers of a collection's rankings, ascending."""
    names = workspace.storage.names(f"{FOLDER}/{collection}")
    return sorted(int(name) for name in names if _NUMBER.match(name))


def _folder(collection: str, number: int) -> str:
    return f"{FOLDER}/{collection}/{number:08d}"


def _note(collection: str, number: int) -> str:
    return f"{RUN}/ranking-{collection}-{number:08d}.json"


def make_ranking(workspace: Workspace, order: Mapping[str, Any]) -> None:
    """Rank as ordered, publish the result, and remove older ones.

    Raises:
        OSError: storage failed.
    """
    collection, number = order["collection"], order["number"]
    rules = RecrawlRules(**{**order["rules"], "policy": Policy(order["rules"]["policy"])})
    with build_folder(workspace.storage, f"{FOLDER}/{collection}") as build:
        solved = _rank(workspace, collection, rules, build / _CHANGES)
        document = {
            "made_at": order["made_at"],
            "rules": order["rules"],
            "solved": {**solved._asdict(), "prior": solved.prior.weights},
        }
        (build / _INFO).write_text(json.dumps(document))
        workspace.storage.folders.publish(str(build), _folder(collection, number))
    for older in numbers(workspace, collection)[:-_KEPT]:
        workspace.storage.folders.remove(_folder(collection, older))
        workspace.storage.remove(_note(collection, older))


def _rank(workspace: Workspace, collection: str, rules: RecrawlRules, path: Path) -> Solved:
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with path.open("wb") as changes:
                return rank(LiveTables(workspace), collection, rules, changes)
        except FileNotFoundError:
            if attempt == ATTEMPTS:
                raise
    raise AssertionError


def main() -> None:
    """Rank in a process of its own."""
    order = job_order("ranking")
    with contextlib.suppress(OSError):
        os.nice(_NICENESS)
    tune_memory()
    make_ranking(Workspace.open(order["root"]), order)


if __name__ == "__main__":
    main()
