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
import subprocess
from dataclasses import asdict
from io import BytesIO
from pathlib import Path

from lycosa.crawl.recrawl.ranking import Solved, rank
from lycosa.crawl.recrawl.schedule import RankingResult
from lycosa.frontier.recrawl.change_rate import RatePrior
from lycosa.frontier.recrawl.due import Policy, RecrawlRules
from lycosa.processes.children import job_order, start_job
from lycosa.processes.memory import tune_memory
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
        self._process = start_job("lycosa.crawl.recrawl.ranking_process", order)

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
