"""Freshness in simulation: the share of the optimum of each recrawl policy at the same budget.

    python -m bench.freshness [--check] [--seeds 1 2 3] [--budgets 1000 5000] [--only POLICY]
    python -m bench.freshness --history FILE [--days 730] [--intervals 1 7 30]

10,000 pages change as Poisson processes for 60 days. Rates are log-normal (hosts differ by a factor
of e, pages of a host by e^1.5; the median once in 5 days), importance is Pareto distributed. The
simulation starts after a first crawl at the same budget; all 60 days count, learning included. The
optimum has the true rates, in the steady state; a share can exceed 1 by chance. The budget is spread
evenly over the day; an unused part can be saved for an hour.

fresh           the schedule of Lycosa (`due_at`, `due_expr`, `solve`, `steer`) with the true rates
learned         the same with learned rates: one bit per visit
claims          the same, with lastmod on half of the hosts: 9 of 10 changes announced, one false
                claim in two weeks
uniform         the page with the oldest visit
proportional    as often as it changes (true rates)
adaptive        the interval halved after a change and multiplied by 1.5 without one, as in Nutch,
                between a day and a year

`--history` replays the dated versions of a real site instead (`bench.histories`), on its last days,
with the policies of collections. All pages have the same importance, `fresh` learns the rates, and
the budget is every page once in a number of days. `daily` and `age` fetch the page that has been due
for longest.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from bench.harness import arguments, report, table
from lycosa.core.records import UrlId, UrlRow, UrlState
from lycosa.frontier.recrawl import change_rate, fresh
from lycosa.frontier.recrawl.change_rate import DAY_MS, ChangeStats, ClaimTrust, Floats
from lycosa.frontier.recrawl.due import Policy, RecrawlRules, due_at, due_expr

PAGES, DAYS, HOSTS = 10_000, 60, 200
SLOTS = 144  # per day
MAX_SAVED = 1 / 24  # share of a day's budget that may be saved
ORIGIN = 10_000  # days from 1970 to the start of the simulation
FLOORS = {"known": 0.98, "learned": 0.90}
RECALL, FALSE_CLAIMS = 0.9, 1 / 14

Indices = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(slots=True, frozen=True)
class Web:
    """Pages with their hosts, true change rates per day, and importance that sums to 1."""

    hosts: Indices
    rates: Floats
    importance: Floats


@dataclass(slots=True, frozen=True)
class Result:
    """One policy on one web: freshness weighted by importance (0 to 1), over all days.

    `later`: over the second half of the days.
    """

    policy: str
    seed: int
    budget: int
    fetches: float  # per day
    freshness: float
    later: float
    optimum: float
    found: int = 0  # visits that detected a change
    age_days: float = 0.0  # mean time that a copy has been outdated, 0 while it is not

    @property
    def share(self) -> float:
        return self.freshness / self.optimum


def make_web(seed: int, pages: int = PAGES) -> Web:
    """Generate a web."""
    random = np.random.default_rng(seed)
    hosts = np.minimum(random.pareto(0.8, pages).astype(np.int64), HOSTS - 1)
    depth = random.integers(0, 5, pages)
    logs = (
        math.log(0.2)
        + random.normal(0, 1.0, HOSTS)[hosts]
        - 0.3 * (depth - 2)
        + random.normal(0, 1.5, pages)
    )
    importance = np.minimum(1 + random.pareto(1.1, pages), 1e4) * 0.74**depth
    return Web(hosts, np.clip(np.exp(logs), 1e-3, 96.0), importance / importance.sum())


def optimum(web: Web, budget: float) -> float:
    """Return the freshness of the best schedule with the true rates."""
    fetches = fresh.rates(web.importance, web.rates, fresh.solve(web.importance, web.rates, budget))
    return float(web.importance @ freshness(fetches, web.rates))


def freshness(fetch_rate: Floats, change_rate: Floats) -> Floats:
    """Return the share of time that pages are fresh, fetched at even intervals.

    Both rates are by day; a page that is never fetched is never fresh.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = change_rate / fetch_rate
        share = -np.expm1(-expected) / expected
    result: Floats = np.where(fetch_rate <= 0, 0.0, np.where(expected < 1e-12, 1.0, share))
    return result


class Simulation:
    """Pages over time. The next change is drawn at each fetch, since the process is memoryless."""

    def __init__(self, web: Web, seed: int, budget: int, days: int = DAYS) -> None:
        self.web, self.budget, self.days = web, budget, days
        self._random = np.random.default_rng((seed, budget))
        pages = len(web.rates)
        self.announcing: Flags = web.hosts % 2 == 1
        self.visited: Floats = -self._random.permutation(pages) / budget
        self.changes_at, self.claims_at = np.zeros(pages), np.zeros(pages)
        self.fetched = self.found = 0
        self._fresh = self._later = self._age = 0.0
        self._draw(np.arange(pages))

    def fetch(self, pages: Indices, start: float) -> Flags:
        """Fetch pages, spread over the slot from day `start`; return which had changed."""
        at = start + (np.arange(len(pages)) + 0.5) / max(len(pages), 1) / SLOTS
        changed: Flags = self.changes_at[pages] <= at
        self._count(pages, at)
        self.visited[pages] = at
        self._draw(pages)
        self.fetched += len(pages)
        self.found += int(changed.sum())
        return changed

    def result(self, policy: str, seed: int, best: float) -> Result:
        """Return the result at the end of the last day."""
        pages = len(self.visited)
        self._count(np.arange(pages), np.full(pages, float(self.days)))
        figures = (self._fresh, self._later, best, self.found, self._age)
        return Result(policy, seed, self.budget, self.fetched / self.days, *figures)

    def _draw(self, pages: Indices) -> None:
        rates, now = self.web.rates[pages], self.visited[pages]
        announcing, exponential = self.announcing[pages], self._random.exponential
        recall = np.where(announcing, RECALL, 1e-12)
        announced = now + exponential(1 / (rates * recall))
        silent = now + exponential(1 / (rates * (1 - recall)))
        false_claim = now + exponential(1 / FALSE_CLAIMS, len(pages))
        self.changes_at[pages] = np.minimum(announced, silent)
        self.claims_at[pages] = np.where(announcing, np.minimum(announced, false_claim), np.inf)

    def _count(self, pages: Indices, until: Floats) -> None:
        end = np.minimum(self.changes_at[pages], until)
        old = (until - end) ** 2 - np.maximum(-end, 0.0) ** 2  # only after day 0
        self._age += float(self.web.importance[pages] @ old) / 2 / self.days
        gained = []
        for begin in (0.0, self.days / 2):
            days = np.maximum(end - np.maximum(self.visited[pages], begin), 0.0)
            gained.append(float(self.web.importance[pages] @ days) / (self.days - begin))
        self._fresh += gained[0]
        self._later += gained[1]


class Replay(Simulation):
    """Pages that change as those of a real site did.

    `versions`: sorted days of each page's versions; day 0 is the start of the simulation.
    """

    def __init__(self, versions: Sequence[Floats], budget: int, days: int) -> None:
        self._versions = versions
        pages = len(versions)
        even = np.full(pages, 1 / pages)
        super().__init__(Web(np.zeros(pages, dtype=np.int64), even, even), 0, budget, days)

    @property
    def changes(self) -> int:
        """Versions during the simulation."""
        return sum(int(((each > 0) & (each <= self.days)).sum()) for each in self._versions)

    def _draw(self, pages: Indices) -> None:
        for page in pages.tolist():
            versions, visited = self._versions[page], self.visited[page]
            place = int(np.searchsorted(versions, visited, side="right"))
            self.changes_at[page] = versions[place] if place < len(versions) else np.inf
        self.claims_at[pages] = np.inf


def by_ratio(simulation: Simulation, intervals: Floats | float, adaptive: bool = False) -> None:
    """Fetch the pages that are oldest in units of their interval (days); use all of the budget."""
    interval, carried = np.ones(len(simulation.visited)) * intervals, 0.0
    for slot in range(simulation.days * SLOTS):
        start = slot / SLOTS
        carried += simulation.budget / SLOTS
        count = int(carried)
        carried -= count
        overdue = (start - simulation.visited) / interval
        pages = np.argpartition(-overdue, count)[:count]
        changed = simulation.fetch(pages, start)
        if adaptive:
            interval[pages] = np.clip(interval[pages] * np.where(changed, 0.5, 1.5), 1.0, 365.0)


class Schedule:
    """Lycosa's schedule: due times at each visit, a steered threshold once per day."""

    def __init__(
        self,
        simulation: Simulation,
        policy: Policy = Policy.FRESH,
        *,
        known: bool = False,
        claims: bool = False,
    ) -> None:
        self._simulation, self._known, self._claims = simulation, known, claims
        web, pages = simulation.web, len(simulation.web.rates)
        self._stats = [ChangeStats() for _ in range(pages)]
        self._prior = change_rate.DEFAULT_PRIOR
        self._trust = [ClaimTrust() for _ in range(HOSTS)]
        self._claimed: Flags = np.zeros(pages, dtype=np.bool_)
        self._claim, self._silence = np.zeros(pages), np.zeros(pages)
        self._rates = web.rates.copy() if known else self._estimated()
        self._correction = 1.0
        self._rules = RecrawlRules(
            policy,
            max_age_ms=round(pages / simulation.budget * DAY_MS),
            budget_per_day=simulation.budget,
            shortest_ms=DAY_MS // SLOTS,
        )
        self._due = np.zeros(pages)

    def run(self) -> None:
        """Simulate all days."""
        simulation, saved, fetched = self._simulation, 0.0, 0
        for slot in range(simulation.days * SLOTS):
            start = slot / SLOTS
            if slot % SLOTS == 0:
                if slot:
                    due_count = fetched + int((self._due <= start).sum())
                    self._correction = fresh.steer(self._correction, due_count, simulation.budget)
                self._solve()
                self._schedule_all()
                fetched = 0
            if self._claims:
                self._read_claims(start)
            saved = min(saved + simulation.budget / SLOTS, 1 + simulation.budget * MAX_SAVED)
            pages = np.flatnonzero(self._due <= start + 1 / SLOTS)
            if len(pages) > int(saved):
                pages = pages[np.argpartition(self._due[pages], int(saved))[: int(saved)]]
            saved -= len(pages)
            fetched += len(pages)
            if len(pages):
                self._visit(pages, start)

    def _visit(self, pages: Indices, start: float) -> None:
        simulation = self._simulation
        before, claims_at = simulation.visited[pages].copy(), simulation.claims_at[pages].copy()
        changed = simulation.fetch(pages, start)
        intervals = (simulation.visited[pages] - before) * DAY_MS
        for place, page in enumerate(pages.tolist()):
            claimed, has_changed = bool(self._claimed[page]), bool(changed[place])
            if claimed and has_changed:
                self._stats[page] = change_rate.observe_dated(
                    self._stats[page], float(claims_at[place] - before[place]) * DAY_MS
                )
            else:
                self._stats[page] = change_rate.observe(
                    self._stats[page], float(intervals[place]), has_changed
                )
            if self._claims and simulation.announcing[page]:
                host = int(simulation.web.hosts[page])
                self._trust[host] = change_rate.observe_claim(
                    self._trust[host], claimed, has_changed
                )
        self._claimed[pages], self._claim[pages] = False, 0.0
        if not self._known and self._rules.policy is Policy.FRESH:
            self._rates[pages] = self._estimated(pages)
        self._schedule(pages)

    def _estimated(self, pages: Indices | None = None) -> Floats:
        rows = range(len(self._stats)) if pages is None else pages.tolist()
        return change_rate.rates(
            list(zip(*(self._stats[row] for row in rows), strict=True)), self._prior
        )

    def _solve(self) -> None:
        """Learn the rates and compute the threshold that uses the budget; once per day."""
        if self._rules.policy is not Policy.FRESH:
            return
        web = self._simulation.web
        if not self._known:
            self._prior = change_rate.learn_prior(list(zip(*self._stats, strict=True)))
            self._rates = self._estimated()
        if self._claims:
            self._silence = np.where(
                self._simulation.announcing,
                [change_rate.silence_weight(self._trust[host]) for host in web.hosts],
                0.0,
            )
        threshold = fresh.solve(
            web.importance, self._rates, self._simulation.budget, shortest_days=1 / SLOTS
        )
        self._rules = replace(self._rules, threshold=threshold)

    def _steered(self) -> RecrawlRules:
        return replace(self._rules, threshold=self._rules.threshold * self._correction)

    def _schedule_all(self) -> None:
        frame = pl.DataFrame(
            {
                "visited_at": np.round((self._simulation.visited + ORIGIN) * DAY_MS).astype(
                    np.int64
                ),
                "importance": self._simulation.web.importance,
                "change_rate": self._rates,
                "claim": self._claim,
                "silence": self._silence,
            }
        ).with_columns(
            state=pl.lit("visited"),
            not_before=pl.lit(None, dtype=pl.Int64),
            fails=pl.lit(0),
            depth=pl.lit(0),
        )
        due = (
            frame.select(due_expr(self._steered()))
            .to_series()
            .cast(pl.Float64)
            .fill_null(np.inf)
            .to_numpy()
        )
        self._due = due / DAY_MS - ORIGIN

    def _schedule(self, pages: Indices) -> None:
        rules, simulation = self._steered(), self._simulation
        for page in pages.tolist():
            row = UrlRow(
                UrlId("", "", 0, 0, 0),
                "",
                0,
                state=UrlState.VISITED,
                visited_at=round((float(simulation.visited[page]) + ORIGIN) * DAY_MS),
                importance=float(simulation.web.importance[page]),
                change_rate=float(self._rates[page]),
                claim=float(self._claim[page]),
                silence=float(self._silence[page]),
            )
            due = due_at(rules, row)
            self._due[page] = math.inf if due is None else due / DAY_MS - ORIGIN

    def _read_claims(self, start: float) -> None:
        """Apply the new claims of sitemaps, weighted by the trust in their host."""
        pages = np.flatnonzero((self._simulation.claims_at <= start) & ~self._claimed)
        for page in pages.tolist():
            self._claim[page] = change_rate.claim_weight(
                self._trust[int(self._simulation.web.hosts[page])]
            )
        self._claimed[pages] = True
        self._schedule(pages)


POLICIES: dict[str, Callable[[Simulation], None]] = {
    "fresh": lambda simulation: Schedule(simulation, known=True).run(),
    "learned": lambda simulation: Schedule(simulation).run(),
    "claims": lambda simulation: Schedule(simulation, claims=True).run(),
    "uniform": lambda simulation: by_ratio(simulation, 1.0),
    "proportional": lambda simulation: by_ratio(simulation, 1 / simulation.web.rates),
    "adaptive": lambda simulation: by_ratio(
        simulation,
        np.full(len(simulation.visited), len(simulation.visited) / simulation.budget),
        True,
    ),
}


def run(policy: str, seed: int, budget: int, *, pages: int = PAGES, days: int = DAYS) -> Result:
    """Simulate one policy on one web."""
    web = make_web(seed, pages)
    simulation = Simulation(web, seed, budget, days)
    POLICIES[policy](simulation)
    return simulation.result(policy, seed, optimum(web, budget))


def read_history(file: Path, days: int) -> list[Floats]:
    """Read the versions of the pages that existed before the last `days` of a history, in days."""
    frame = pl.read_parquet(file)
    end = frame["versions"].list.max().max()
    assert isinstance(end, int)
    pages = [np.array(dates) / DAY_MS for dates in frame["versions"].to_list()]
    begin = end / DAY_MS - days
    return [dates - begin for dates in pages if dates[0] <= begin]


def replay(versions: Sequence[Floats], interval: int, days: int) -> list[tuple[Result, int]]:
    """Return each policy's result with a budget of all pages in `interval` days, and the changes."""
    results = []
    for policy in (Policy.FRESH, Policy.AGE, Policy.DAILY):
        simulation = Replay(versions, max(1, round(len(versions) / interval)), days)
        Schedule(simulation, policy).run()
        results.append((simulation.result(policy, 0, 1.0), simulation.changes))
    return results


def below_floors(results: Sequence[Result], floors: dict[str, float]) -> list[str]:
    """Return messages for low shares, equally good rivals, exceeded budgets, missing policies."""
    complaints = []
    for policy, floor in (("fresh", floors["known"]), ("learned", floors["learned"])):
        ours = [result for result in results if result.policy == policy]
        if not ours:
            complaints.append(f"{policy} was not run")
        for result in ours:
            where = f"{policy}, budget {result.budget}, seed {result.seed}"
            if result.share < floor:
                complaints.append(
                    f"{where}: {result.share:.4f} of the optimum, the floor is {floor}"
                )
            if result.fetches > result.budget * 1.001:
                complaints.append(f"{where}: {result.fetches:.0f} fetches per day")
            complaints += [
                f"{where}: {rival.policy} is as good ({rival.share:.4f})"
                for rival in results
                if (rival.seed, rival.budget) == (result.seed, result.budget)
                and rival.policy in ("uniform", "proportional", "adaptive")
                and rival.share >= result.share
            ]
    return complaints


def markdown(results: Sequence[Result]) -> str:
    """Return a table: means over the seeds, and the worst seed."""

    def mean(values: Iterable[float], digits: int = 4) -> str:
        return f"{statistics.mean(values):.{digits}f}"

    rows: list[Sequence[object]] = []
    for budget in sorted({result.budget for result in results}):
        of_budget = [result for result in results if result.budget == budget]
        best = {result.seed: result.optimum for result in of_budget}
        rows.append((budget, "optimum", "", mean(best.values()), "1", "", ""))
        for policy in dict.fromkeys(result.policy for result in of_budget):
            ours = [result for result in of_budget if result.policy == policy]
            cells = (
                mean((result.fetches for result in ours), 0),
                mean(result.freshness for result in ours),
                mean(result.share for result in ours),
                f"{min(result.share for result in ours):.4f}",
                mean(result.later / result.optimum for result in ours),
            )
            rows.append((budget, policy, *cells))
    header = ("budget per day", "policy", "fetches per day", "freshness", "share of optimum")
    return table((*header, "worst seed", "share, second half"), rows)


def replayed(history: Path, days: int, intervals: Sequence[int]) -> tuple[str, list[object]]:
    """Replay a history; return the report and its figures."""
    versions = read_history(history, days)
    rows: list[Sequence[object]] = []
    figures: list[object] = []
    for interval in intervals:
        for result, changes in replay(versions, interval, days):
            figures.append(asdict(result) | {"changes": changes, "pages": len(versions)})
            rows.append(
                (
                    f"{len(versions):,} in {interval} days",
                    result.policy,
                    f"{result.fetches:.0f}",
                    f"{result.found / changes:.1%} of {changes:,}",
                    f"{result.found / (result.fetches * days):.1%}",
                    f"{result.freshness:.4f}",
                    f"{result.age_days:.2f}",
                )
            )
    header = ("budget", "policy", "fetches per day", "changes found", "fetches that found one")
    return table((*header, "freshness", "mean age, days"), rows), figures


def main() -> None:
    parser = arguments(
        __doc__,
        runs=1,
        check=(False, "exit 1 when a floor is missed"),
        seeds=[1, 2, 3],
        budgets=[1_000, 5_000],
        history=(Path, "a file of `bench.histories`"),
        days=(730, "last days of the history"),
        intervals=([1, 7, 30], "days in which every page is fetched once"),
    )
    parser.add_argument("--only", choices=tuple(POLICIES), action="append")
    options = parser.parse_args()
    if options.history:
        body, replays = replayed(options.history, options.days, options.intervals)
        report(options, f"Freshness on {options.history.stem}", body, replays)
        return
    results = [
        run(policy, seed, budget)
        for budget in options.budgets
        for policy in options.only or POLICIES
        for seed in options.seeds
    ]
    figures = [asdict(result) | {"share": result.share} for result in results]
    report(options, "Freshness", markdown(results), figures)
    if options.check:
        complaints = below_floors(results, FLOORS)
        print("\n".join(complaints) or "no floor is missed")
        raise SystemExit(bool(complaints))


if __name__ == "__main__":
    main()
