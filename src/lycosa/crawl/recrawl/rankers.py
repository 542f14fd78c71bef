"""Ranking beside the worker: in a process of its own, so that what it holds and computes is not the
worker's; or, where time is simulated, in this one.

The process writes two files in the workspace's `run` folder: the changed rows, then what was
solved, whose appearance ends it. It may be killed at any moment: nothing is lost but the ranking of
a day.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import asdict
from io import BytesIO
from pathlib import Path
from typing import Any

from lycosa.core.clock import Clock
from lycosa.crawl.recrawl.ranking import Solved, rank
from lycosa.crawl.recrawl.schedule import Ranker, RankingResult
from lycosa.frontier.recrawl.change_rate import RatePrior
from lycosa.frontier.recrawl.due import Policy, RecrawlRules
from lycosa.processes.children import job_order, start_job
from lycosa.processes.memory import tune_memory
from lycosa.store.coordination.owner import FOLDER as RUN
from lycosa.store.storage.staging import build_folder
from lycosa.store.storage.storage import Storage
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace

ATTEMPTS = 3
"""A merge may delete files during a long ranking; the next attempt reads their replacements."""

_NICENESS = 10


class RankerHere:
    """Ranks at once, in this process."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._result: RankingResult | None = None

    @property
    def busy(self) -> bool:
        return False

    def start(self, collection: str, rules: RecrawlRules) -> None:
        changes = BytesIO()
        solved = rank(LiveTables(self._workspace), collection, rules, changes)
        changes.seek(0)
        self._result = RankingResult(collection, solved, changes)

    def take(self) -> RankingResult | None:
        result, self._result = self._result, None
        return result

    def close(self) -> None:
        if self._result is not None:
            self._result.changes.close()


class RankerProcess:
    """Ranks in a process of its own. `folder`: where its files lie."""

    def __init__(self, root: str, folder: str) -> None:
        self._root = root
        self._out = Path(folder) / f"ranking-{os.getpid()}"  # several workers may share the folder
        self._collection = ""
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def busy(self) -> bool:
        return self._process is not None

    def start(self, collection: str, rules: RecrawlRules) -> None:
        self._collection = collection
        self._clean()
        order = {
            "root": self._root,
            "collection": collection,
            "rules": asdict(rules),
            "out": str(self._out),
        }
        self._process = start_job("lycosa.crawl.recrawl.rankers", order)

    def take(self) -> RankingResult | None:
        if self._process is None or self._process.poll() is None:
            return None
        self._process = None
        try:
            document = json.loads(self._solved.read_bytes())
            changes = self._out.open("rb")
        except FileNotFoundError:
            return None  # it failed, and has said why
        finally:
            self._clean()
        return RankingResult(
            self._collection,
            Solved(**{**document, "prior": RatePrior(tuple(document["prior"]))}),
            changes,
        )

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        self._clean()

    @property
    def _solved(self) -> Path:
        return self._out.with_suffix(".json")

    def _clean(self) -> None:
        for path in (self._solved, self._out):
            path.unlink(missing_ok=True)


def main() -> None:
    """Rank as ordered, and write the result."""
    document = job_order("ranking")
    out = Path(document["out"])
    with contextlib.suppress(OSError):
        os.nice(_NICENESS)
    tune_memory()
    rules = RecrawlRules(**{**document["rules"], "policy": Policy(document["rules"]["policy"])})
    workspace = Workspace.open(document["root"])
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with out.open("wb") as changes:
                solved = rank(LiveTables(workspace), document["collection"], rules, changes)
            break
        except FileNotFoundError:
            if attempt == ATTEMPTS:
                raise
    part = out.with_suffix(".part")
    part.write_text(json.dumps({**solved._asdict(), "prior": solved.prior.weights}))
    part.replace(out.with_suffix(".json"))


if __name__ == "__main__":
    main()


FOLDER = "rankings"
PATIENCE_MS = 600_000
"""How long another worker's ranking is waited for."""

_LOOK_MS = 5_000
_KEPT = 2
_INFO, _CHANGES = "info.json", "changes"
_NUMBER = re.compile(r"^\d{8}\Z")


class RankerAmong:
    """See `lycosa.crawl.recrawl.schedule.Ranker`. `own` ranks in this worker, where it is
    this one's turn. `fresh_ms`: a ranking by the same rules that is younger is not made again.
    """

    def __init__(
        self, storage: Storage, own: Ranker, worker: str, fresh_ms: int, clock: Clock
    ) -> None:
        self._storage = storage
        self._own = own
        self._worker = worker
        self._fresh_ms = fresh_ms
        self._clock = clock
        self._collection = ""
        self._rules: RecrawlRules | None = None
        self._applied: dict[
            str, int
        ] = {}  # collection -> number of the ranking that was taken last
        self._awaited = 0  # the number that somebody else works on; 0: none
        self._since = self._next_look = 0
        self._mine = 0  # the number that we work on; 0: none, or one that nobody waits for

    @property
    def busy(self) -> bool:
        return bool(self._awaited) or self._own.busy

    def start(self, collection: str, rules: RecrawlRules) -> None:
        self._collection, self._rules = collection, rules
        self._mine = self._awaited = 0
        self._since, self._next_look = self._clock.monotonic_ms(), 0
        newest = max(self._numbers(), default=0)
        if newest > self._applied.get(collection, 0) and self._is_fresh(newest):
            self._awaited = newest
        else:
            self._apply(newest + 1)

    def take(self) -> RankingResult | None:
        if not self._awaited:
            result = self._own.take()
            if result is not None and self._mine:
                self._publish(result)
            return result
        now = self._clock.monotonic_ms()
        if now < self._next_look:
            return None
        self._next_look = now + _LOOK_MS
        result = self._read(self._awaited)
        if result is not None:
            self._applied[self._collection], self._awaited = self._awaited, 0
        elif now - self._since >= PATIENCE_MS:
            self._since = now
            self._apply(self._awaited + 1)
        return result

    def _apply(self, number: int) -> None:
        """Make this ranking, or wait for whoever was first to say that it does."""
        assert self._rules is not None
        if self._storage.create(self._note(number), json.dumps({"worker": self._worker}).encode()):
            self._awaited, self._mine = 0, number
            self._own.start(self._collection, self._rules)
        else:
            self._awaited = number

    def close(self) -> None:
        self._own.close()

    # -- storage
    # ------------------------------------------------------------

    def _note(self, number: int) -> str:
        self._storage.make_folder(RUN)
        return f"{RUN}/ranking-{self._collection}-{number:08d}.json"

    def _folder(self, number: int) -> str:
        return f"{FOLDER}/{self._collection}/{number:08d}"

    def _numbers(self) -> list[int]:
        return sorted(
            int(name)
            for name in self._storage.names(f"{FOLDER}/{self._collection}")
            if _NUMBER.match(name)
        )

    def _info(self, number: int) -> tuple[Path, Mapping[str, Any]] | None:
        folder = self._storage.folders.local_path(self._folder(number))
        if folder is None:
            return None
        try:
            document = json.loads(Path(folder, _INFO).read_bytes())
        except (FileNotFoundError, ValueError):
            return None
        return (Path(folder), document) if isinstance(document, dict) else None

    def _is_fresh(self, number: int) -> bool:
        info = self._info(number)
        if info is None or info[1].get("rules") != self._rules_now():
            return False
        # one of a time to come is of a clock that was wrong
        return abs(self._clock.now_ms() - int(info[1]["made_at"])) < self._fresh_ms

    def _rules_now(self) -> Any:
        assert self._rules is not None
        return json.loads(json.dumps(asdict(self._rules)))

    def _read(self, number: int) -> RankingResult | None:
        info = self._info(number)
        if info is None:
            return None
        folder, document = info
        try:
            changes = (folder / _CHANGES).open("rb")
        except FileNotFoundError:  # it was removed meanwhile: an even newer one is there
            return None
        solved = Solved(
            **{**document["solved"], "prior": RatePrior(tuple(document["solved"]["prior"]))}
        )
        return RankingResult(self._collection, solved, changes)

    def _publish(self, result: RankingResult) -> None:
        """Hand on what this worker found; it stands at its start again. A disk that does not take
        it costs the others a ranking each.
        """
        number, self._mine = self._mine, 0
        try:
            with build_folder(self._storage, f"{FOLDER}/{self._collection}") as build:
                with (build / _CHANGES).open("wb") as file:
                    shutil.copyfileobj(result.changes, file)
                solved = {**result.solved._asdict(), "prior": result.solved.prior.weights}
                document = {
                    "made_at": self._clock.now_ms(),
                    "worker": self._worker,
                    "rules": self._rules_now(),
                    "solved": solved,
                }
                (build / _INFO).write_text(json.dumps(document))
                self._storage.folders.publish(str(build), self._folder(number))
                for older in self._numbers()[:-_KEPT]:
                    self._storage.folders.remove(self._folder(older))
                    self._storage.remove(self._note(older))
        except OSError:
            pass  # the ranking itself is good
        finally:
            result.changes.seek(0)
        self._applied[self._collection] = number
