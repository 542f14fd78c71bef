"""Compute a recrawl schedule: importance, change rates, threshold.

Three passes over the tables, in the order of the keys. The first reads the keys of the visited
pages and a sample of their histories. The second counts the distinct pages, and distinct other
hosts, that link to each of them. The third estimates importance and change rate, and writes the
rows with changed values. Memory: about 50 bytes per visited page, 8 per page with links, and
50 MB of rows. `Ranker` therefore uses a separate process, except with a simulated clock.

`rankings/COLLECTION/00000003/` is a ranking: `info.json`, and `changes`, the rows of all
partitions. With several workers, one computes the ranking and all apply it: the first one to create
the note with the next number. If it publishes no result in time, the next number is used. A
superfluous ranking does no harm, and a kill loses at most the ranking of a day.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import polars as pl

from lycosa.core.clock import Clock, SystemClock
from lycosa.core.dataclass import dataclass
from lycosa.core.records import FOLLOWED_KINDS, UrlState
from lycosa.frontier.recrawl.change_rate import (
    DAY_MS,
    ChangeStats,
    Floats,
    RatePrior,
    learn_prior,
    rate,
    rates,
)
from lycosa.frontier.recrawl.due import DEPTH_DECAY, Policy, RecrawlRules, weights_and_rates
from lycosa.frontier.recrawl.fresh import solve
from lycosa.processes.jobs import job_order, start_job
from lycosa.processes.memory import tune_memory
from lycosa.store.coordination.owner import FOLDER as RUN
from lycosa.store.storage.staging import build_folder, generation_numbers, generation_path
from lycosa.store.tables.live import LiveTables, retried
from lycosa.store.workspace import Workspace

CHANGED = np.dtype(
    [
        ("partition", "u2"),
        ("host_key", "u8"),
        ("url_key", "u8"),
        ("importance", "f4"),
        ("change_rate", "f4"),
    ]
)
"""A row of the file of changes, ordered by partition, host and URL key."""

NOTABLE = 0.1
"""Relative change of importance or rate from which a row is rewritten."""

PRIOR_SAMPLE = 10_000
SOLVE_SAMPLE = 200_000
_STATS = len(ChangeStats())
_FRAME_BYTES = 16 * 2**20
_URL_COLUMNS = ("partition", "host_key", "url_key", "collection", "operation", "state")


class Solved(NamedTuple):
    """The result of a ranking, without the rows.

    `threshold`: uses the budget exactly in the long run; `default_rate`: for pages visited once;
    `pages`: number of visited pages; `changed`: those of them with changed values.
    """

    threshold: float
    default_rate: float
    prior: RatePrior
    pages: int
    changed: int


class RankingResult(NamedTuple):
    """The result of a ranking. The receiver closes `changes`."""

    collection: str
    solved: Solved
    changes: BinaryIO


@dataclass(slots=True, frozen=True)
class _Pages:
    """The visited pages of a collection, in the order of their keys."""

    host_key: np.ndarray[tuple[int], np.dtype[np.uint64]]
    url_key: np.ndarray[tuple[int], np.dtype[np.uint64]]
    # Polars hash of the URL's text, which links have as their target
    text_hash: np.ndarray[tuple[int], np.dtype[np.uint64]]
    prior: RatePrior


def rank(tables: LiveTables, collection: str, rules: RecrawlRules, changes: BinaryIO) -> Solved:
    """Rank a collection's visited pages, and compute its schedule.

    `changes` gets the rows of `CHANGED` to be written.

    Raises:
        FileNotFoundError: a table's file was deleted after a compaction: refresh the tables and try
        again.
    """
    pages = _visited(tables, collection)
    in_links, linking_hosts = _links(tables, pages)
    default_rate = rate(ChangeStats(), pages.prior)
    if rules.default_rate != default_rate:
        rules = replace(rules, default_rate=default_rate)
    count = pages.url_key.size
    step = -(-count // SOLVE_SAMPLE) if count else 1
    sampled: list[Floats] = []
    start = changed = 0
    for frame in _frames(tables, collection, ("depth", "importance", "change_rate", "history")):
        here = slice(start, start + frame.height)
        depth = np.maximum(frame["depth"].to_numpy(), 0)
        weight = (np.sqrt(1.0 + in_links[here]) + linking_hosts[here]) * DEPTH_DECAY**depth
        changing = _estimated(frame, pages.prior)
        rows = _notable(frame, weight, changing)
        changes.write(rows.tobytes())
        changed += rows.size
        offset = -start % step
        weighted = np.stack(weights_and_rates(rules, depth, weight, changing))
        sampled.append(weighted[:, offset::step])
        start += frame.height
    if not count:
        return Solved(rules.threshold, default_rate, pages.prior, 0, 0)
    weights, changing = np.concatenate(sampled, axis=1)
    budget = rules.budget_per_day * weights.size / count
    threshold = solve(weights, changing, budget, shortest_days=rules.shortest_ms / DAY_MS)
    return Solved(threshold, default_rate, pages.prior, count, changed)


def _frames(tables: LiveTables, collection: str, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    mine = (
        (pl.col("collection") == collection)
        & (pl.col("operation") == "")
        & (pl.col("state") == UrlState.VISITED)
    )
    for frame in tables.ordered("urls", (*_URL_COLUMNS, *columns), memory_bytes=_FRAME_BYTES):
        chosen = frame.filter(mine)
        if chosen.height:
            yield chosen


def _visited(tables: LiveTables, collection: str) -> _Pages:
    hosts, urls, texts = ([np.zeros(0, np.uint64)] for _ in range(3))
    sample = pl.DataFrame(schema={"url_key": pl.UInt64, "history": pl.List(pl.Float64)})
    for frame in _frames(tables, collection, ("url", "history")):
        hosts.append(frame["host_key"].to_numpy())
        urls.append(frame["url_key"].to_numpy())
        texts.append(frame["url"].hash().to_numpy())
        seen = frame.select("url_key", "history").filter(pl.col("history").list.len() == _STATS)
        # keys are hashes: the smallest ones are a random sample
        sample = pl.concat([sample, seen]).bottom_k(PRIOR_SAMPLE, by="url_key")
    return _Pages(
        np.concatenate(hosts),
        np.concatenate(urls),
        np.concatenate(texts),
        learn_prior(_stats(sample)),
    )


def _links(tables: LiveTables, pages: _Pages) -> tuple[Floats, Floats]:
    """Return for each page how many other pages and hosts link to it.

    Links of a host are adjacent, so only a host that continues in the next frame is remembered.
    """
    order = np.argsort(pages.text_hash)
    ordered = pages.text_hash[order]
    in_links, hosts = np.zeros(order.size), np.zeros(order.size)
    last_host, counted = -1, np.zeros(0, np.int64)
    if not order.size:
        return in_links, hosts
    followed = [kind.value for kind in FOLLOWED_KINDS]
    for frame in tables.ordered(
        "links", ("host_key", "url_key", "target", "kind"), memory_bytes=_FRAME_BYTES
    ):
        links = frame.filter(pl.col("kind").is_in(followed)).select(
            "host_key", "url_key", target=pl.col("target").hash()
        )
        target = links["target"].to_numpy()
        place = np.minimum(np.searchsorted(ordered, target), order.size - 1)
        links = links.with_columns(page=pl.Series(order[place])).filter(
            pl.Series(ordered[place] == target)
        )
        links = links.filter(
            pl.Series(pages.url_key[links["page"].to_numpy()]) != pl.col("url_key")
        ).unique(["url_key", "page"])
        counts = links.group_by("page").len()
        in_links[counts["page"].to_numpy()] += counts["len"].to_numpy()
        foreign = links.filter(
            pl.Series(pages.host_key[links["page"].to_numpy()]) != pl.col("host_key")
        ).unique(["host_key", "page"])
        foreign = foreign.filter(
            ~(
                (pl.col("host_key") == last_host)
                & pl.col("page").is_in(pl.Series(counted).implode())
            )
        )
        counts = foreign.group_by("page").len()
        hosts[counts["page"].to_numpy()] += counts["len"].to_numpy()
        last = int(frame["host_key"][-1])
        here = foreign.filter(pl.col("host_key") == last)["page"].to_numpy()
        counted = np.concatenate([counted, here]) if last == last_host else here
        last_host = last
    return in_links, hosts


def _stats(frame: pl.DataFrame) -> list[Floats]:
    """Return the columns of `ChangeStats`."""
    return [
        frame["history"].list.get(place, null_on_oob=True).fill_null(0.0).to_numpy()
        for place in range(_STATS)
    ]


def _estimated(frame: pl.DataFrame, prior: RatePrior) -> Floats:
    """Return the rates by the current prior; 0 without a second visit."""
    seen = (frame["history"].list.len() == _STATS).fill_null(False).to_numpy()
    estimates = np.zeros(frame.height)
    if seen.any():
        estimates[seen] = rates(_stats(frame.filter(pl.Series(seen))), prior)
    return estimates


def _notable(
    frame: pl.DataFrame, weight: Floats, changing: Floats
) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    before, rate_before = (
        frame[name].fill_null(0.0).to_numpy() for name in ("importance", "change_rate")
    )
    chosen = (np.abs(weight - before) > NOTABLE * before) | (
        np.abs(changing - rate_before) > NOTABLE * rate_before
    )
    rows = np.zeros(int(chosen.sum()), CHANGED)
    for name in ("partition", "host_key", "url_key"):
        rows[name] = frame[name].to_numpy()[chosen]
    rows["importance"], rows["change_rate"] = weight[chosen], changing[chosen]
    return rows


FOLDER = "rankings"
PATIENCE_MS = 600_000
"""Maximum wait for another worker's ranking."""

_NICENESS = 10
_LOOK_MS = 5_000
_MAX_GENERATIONS = 2
_INFO, _CHANGES = "info.json", "changes"


class Ranker:
    """Ranks one collection at a time, or waits for the ranking of another worker.

    `worker`: the name of this worker if there are several, else None. `fresh_ms`: with several
    workers, a ranking of this age by the same rules is not repeated.
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
        self._applied: dict[str, int] = {}  # collection -> number of the last applied ranking
        self._number = 0  # number of the current ranking; 0: none
        self._process: subprocess.Popen[bytes] | None = None  # computes it
        self._since = self._next_look = 0

    @property
    def busy(self) -> bool:
        """Whether a ranking is in progress."""
        return self._number > 0

    def start(self, collection: str, rules: RecrawlRules) -> None:
        """Start a ranking. Call it only while not `busy`."""
        self._collection, self._rules = collection, asdict(rules)
        newest = max(generation_numbers(self._storage, f"{FOLDER}/{collection}"), default=0)
        is_new = newest > self._applied.get(collection, 0)
        if self._worker is not None and is_new and self._is_fresh(newest):
            self._number, self._next_look = newest, 0
        else:
            self._make(newest + 1)

    def take(self) -> RankingResult | None:
        """Return the result once; None before the end, or if there is none."""
        if not self._number:
            return None
        failed = False
        if self._process is not None:
            if self._process.poll() is None:
                return None
            self._process, failed = None, True  # failed if it left no result
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
        """Stop the ranking that is in progress."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process, self._number = None, 0

    def _make(self, number: int) -> None:
        """Compute a ranking, or wait for the worker that created its note first."""
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
            self._process = start_job("lycosa.crawl.recrawl.compute_schedule", order)
        else:
            make_ranking(self._workspace, order)

    def _info(self, number: int) -> tuple[Path, Mapping[str, Any]] | None:
        path = generation_path(f"{FOLDER}/{self._collection}", number)
        folder = self._storage.folders.local_path(path)
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
        # abs: a time in the future is from a wrong clock
        return abs(self._clock.now_ms() - int(info[1]["made_at"])) < self._fresh_ms

    def _read(self, number: int) -> RankingResult | None:
        info = self._info(number)
        if info is None:
            return None
        folder, document = info
        try:
            changes = (folder / _CHANGES).open("rb")
        except FileNotFoundError:  # removed meanwhile, because newer ones exist
            return None
        solved = {**document["solved"], "prior": RatePrior(tuple(document["solved"]["prior"]))}
        return RankingResult(self._collection, Solved(**solved), changes)


def _note(collection: str, number: int) -> str:
    return f"{RUN}/ranking-{collection}-{number:08d}.json"


def make_ranking(workspace: Workspace, order: Mapping[str, Any]) -> None:
    """Compute a ranking, publish its result, and remove older ones.

    Raises:
        OSError: storage failed.
        WorkError: table files were deleted repeatedly while they were read.
    """
    storage, collection, number = workspace.storage, order["collection"], order["number"]
    folder = f"{FOLDER}/{collection}"
    rules = RecrawlRules(**{**order["rules"], "policy": Policy(order["rules"]["policy"])})
    with build_folder(storage, folder) as build:

        def ranked() -> Solved:
            with (build / _CHANGES).open("wb") as changes:
                return rank(LiveTables(workspace), collection, rules, changes)

        solved = retried(ranked)
        document = {
            "made_at": order["made_at"],
            "rules": order["rules"],
            "solved": {**solved._asdict(), "prior": solved.prior.weights},
        }
        (build / _INFO).write_text(json.dumps(document))
        storage.folders.publish(str(build), generation_path(folder, number))
    for older in generation_numbers(storage, folder)[:-_MAX_GENERATIONS]:
        storage.folders.remove(generation_path(folder, older))
        storage.remove(_note(collection, older))


def main() -> None:
    """Compute a ranking in a separate process."""
    order = job_order("ranking")
    with contextlib.suppress(OSError):
        os.nice(_NICENESS)
    tune_memory()
    make_ranking(Workspace.open(order["root"]), order)


if __name__ == "__main__":
    main()
