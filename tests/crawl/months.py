"""Crawl a changing web for months of simulated time.

Measures memory, disk space and the freshness of the tables.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl
from bench.freshness import freshness

from lycosa.config.reading import parse_config
from lycosa.config.settings import Collection, Config
from lycosa.crawl.session.session import SessionOptions, open_session
from lycosa.crawl.state.task import Job
from lycosa.crawl.worker import Limits
from lycosa.frontier.recrawl.change_rate import DAY_MS
from lycosa.frontier.recrawl.fresh import rates, solve
from lycosa.store.compaction.compact import compact, compaction_is_due
from lycosa.store.compaction.plan import CompactionSettings
from lycosa.store.compaction.vacuum import vacuum
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from tests.servers.synthetic.plan import WebPlan
from tests.servers.synthetic.simulated import SimulatedClock, SimulatedFetcher
from tests.servers.synthetic.web import Web

_UPKEEP_MS = DAY_MS // 8
_SAMPLE_MS = DAY_MS // 4


@dataclass(slots=True)
class Day:
    """The state at the end of a simulated day.

    `fresh`: weighted share of the pages whose current version is in the tables.
    """

    day: int
    fresh: float
    resident_mb: float
    archive_mb: float
    tables_mb: float
    files: int


@dataclass(slots=True)
class Months:
    """The results of a long crawl.

    `uniform` and `optimum` are the theoretical freshness for the true change rates at the same
    budget.
    """

    days: list[Day] = field(default_factory=list)
    refetches: list[int] = field(default_factory=list)  # fetches of known pages, by day
    changed: list[int] = field(default_factory=list)  # of these, with a changed text
    seconds: float = 0.0
    pages: int = 0
    uniform: float = 0.0
    optimum: float = 0.0
    errors: dict[str, int] = field(default_factory=dict)

    def fresh(self, first_day: int) -> float:
        """Return the mean of `fresh` from a day on."""
        return float(np.mean([each.fresh for each in self.days if each.day >= first_day]))

    def table(self) -> str:
        lines = ["day | refetches | changed | fresh | resident MB | archive MB | tables MB | files"]
        for each in self.days:
            if each.day in (1, 2, 3, 5) or each.day % 10 == 0:
                refetches, changed = (
                    list_[each.day - 1] if each.day <= len(list_) else 0
                    for list_ in (self.refetches, self.changed)
                )
                lines.append(
                    f"{each.day} | {refetches} | {changed} | {each.fresh:.3f} | "
                    f"{each.resident_mb:.0f} | {each.archive_mb:.2f} "
                    f"| {each.tables_mb:.2f} | {each.files}"
                )
        half = self.days[-1].day // 2
        lines.append(
            f"pages {self.pages}; from day {half}: fresh {self.fresh(half):.3f}, uniform "
            f"{self.uniform:.3f}, best {self.optimum:.3f}"
        )
        lines.append(f"{self.seconds:.0f} s; errors {self.errors}")
        return "\n".join(lines)


class _Observer:
    """Merges, vacuums and samples freshness at simulated intervals."""

    def __init__(
        self, web: Web, workspace: Workspace, clock: SimulatedClock, config: Config, months: Months
    ) -> None:
        self._web, self._workspace, self._clock, self._config, self._months = (
            web,
            workspace,
            clock,
            config,
            months,
        )
        self._next_upkeep = self._next_sample = clock.now_ms() + _UPKEEP_MS
        self._samples: list[float] = []
        self._day = 1 + (clock.now_ms() - web.plan.epoch_ms) // DAY_MS

    def tick(self) -> None:
        now = self._clock.now_ms()
        settings = CompactionSettings(self._config.store.merge_commits)
        if now >= self._next_upkeep:
            self._next_upkeep = now + _UPKEEP_MS
            if compaction_is_due(self._workspace.state(), settings):
                compact(self._workspace, settings, clock=self._clock)
            vacuum(
                self._workspace,
                keep_replaced_ms=3_600_000,
                keep_entries_ms=DAY_MS,
                clock=self._clock,
            )
        if now >= self._next_sample:
            self._next_sample = now + _SAMPLE_MS
            self._samples.append(self._fresh(now))
        if now >= self._web.plan.epoch_ms + self._day * DAY_MS:
            state = self._workspace.state()
            files = [file for name in state.files for file in state.files[name]]
            archive = sum(
                path.stat().st_size for path in Path(self._workspace.root).rglob("*.warc.gz")
            )
            self._months.days.append(
                Day(
                    self._day,
                    float(np.mean(self._samples)),
                    resident_mb(),
                    archive / 1e6,
                    sum(file.bytes for file in files) / 1e6,
                    sum(1 for path in Path(self._workspace.root).rglob("*") if path.is_file()),
                )
            )
            self._samples.clear()
            self._day += 1

    def _fresh(self, now: int) -> float:
        pages = visited_pages(self._workspace, self._web)
        current = [
            self._web.version(url, at) == self._web.version(url, now)
            for url, at in pages.select("url", "visited_at").iter_rows()
        ]
        weight = pages["importance"].to_numpy()
        return float((weight * current).sum() / weight.sum()) if weight.sum() > 0 else 0.0


def visited_pages(workspace: Workspace, web: Web) -> pl.DataFrame:
    """Return url, visited_at (ms) and importance of visited real pages.

    Importance is 1 before the first ranking.
    """
    rows = (
        LiveTables(workspace)
        .scan("urls")
        .filter(
            (pl.col("state") == "visited")
            & (pl.col("operation") == "")
            & (pl.col("record_id") != "")
        )
        .select(
            "url",
            pl.col("visited_at").dt.epoch("ms"),
            pl.when(pl.col("importance") > 0).then("importance").otherwise(1.0),
        )
        .collect()
    )
    real = set(web.real_pages(int(web.plan.epoch_ms + 10_000 * DAY_MS)))
    return rows.filter(pl.col("url").is_in(list(real)))


def resident_mb() -> float:
    """Return the resident memory (VmRSS) of this process."""
    line = next(
        line
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmRSS")
    )
    return int(line.split()[1]) / 1024


def live(
    root: Path, plan: WebPlan, *, days: int, fetches_per_day: int, from_day: int = 0
) -> Months:
    """Crawl a web for `days` simulated days with the policy `fresh`.

    With `from_day`, continue an earlier crawl in the same folder.
    """
    web = Web(plan)
    clock = SimulatedClock(plan.epoch_ms + from_day * DAY_MS)
    config = parse_config("", overrides=("crawl.commit_interval='2h'", "store.merge_commits=4"))
    collection = Collection.model_validate(
        {
            "name": "web",
            "scope": "any",
            "seeds": web.seeds(),
            "recrawl": "fresh",
            "fetches_per_day": fetches_per_day,
            "traps": True,
            "delay": "1s",
        }
    )
    months = Months()
    workspace = Workspace.open_or_create(str(root))
    observer = _Observer(web, workspace, clock, config, months)
    began = time.monotonic()
    session = open_session(
        workspace,
        config,
        [Job(collection, collection.seeds)],
        SessionOptions(
            limits=Limits(max_time_ms=days * DAY_MS + DAY_MS // 100),
            forever=True,
            fetcher=SimulatedFetcher(web, clock, config.fetch, record=lambda _: None),
            longest_wait_ms=30_000,
        ),
        command="months",
        clock=clock,
    )
    session.worker.ticks.append(observer.tick)
    try:
        session.load()
        progress = session.worker.run()
        session.claim.release()
    finally:
        session.close()
    months.seconds = time.monotonic() - began
    months.errors = dict(progress.errors)
    _count(workspace, web, months, from_day + days)
    _compare(workspace, web, months, fetches_per_day)
    return months


def _count(workspace: Workspace, web: Web, months: Months, days: int) -> None:
    visits = (
        LiveTables(workspace)
        .scan("visits")
        .filter(pl.col("kind") == "page")
        .select("url", "changed", "http_status", "error", at=pl.col("fetched_at").dt.epoch("ms"))
        .sort("at")
        .with_columns(
            number=pl.int_range(pl.len()).over("url"),
            day=(pl.col("at") - web.plan.epoch_ms) // DAY_MS,
        )
        .collect()
    )
    first = visits.filter(
        (pl.col("http_status").is_in([200, 301, 302, 303, 307, 308, 404, 410]))
        & (pl.col("error") == "")
    )
    known_since = first.group_by("url").agg(since=pl.col("at").min())
    refetches = visits.join(known_since, on="url").filter(pl.col("at") > pl.col("since"))
    by_day = {
        day: (count, changed)
        for day, count, changed in refetches.group_by("day")
        .agg(pl.len(), pl.col("changed").sum())
        .iter_rows()
    }
    for day in range(days):
        count, changed = by_day.get(day, (0, 0))
        months.refetches.append(count)
        months.changed.append(changed)


def _compare(workspace: Workspace, web: Web, months: Months, budget: int) -> None:
    """Compute the freshness of the optimal and the uniform schedule."""
    pages = visited_pages(workspace, web)
    months.pages = pages.height
    weight = pages["importance"].to_numpy()
    changing = np.array([web.change_rate(url) for url in pages["url"]])
    even = np.full(pages.height, budget / max(pages.height, 1))
    months.uniform = float((weight * freshness(even, changing)).sum() / weight.sum())
    threshold = solve(weight, changing, budget)
    months.optimum = float(
        (weight * freshness(rates(weight, changing, threshold), changing)).sum() / weight.sum()
    )
