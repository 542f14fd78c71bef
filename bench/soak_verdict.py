"""What `bench.soak` has left, judged: is it flat, was anything lost, was anybody annoyed?

Memory, handles and answers are judged from half an hour on; what was lost or asked too soon,
always. Politeness is judged by the rules of the tests (`tests.servers.synthetic.politeness`), which
know nothing of the robot's code, from the web's own log.
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from tests.cluster.witness import facts, moves, really_unseen
from tests.crawl.polite import CLOCKS_MS, without_visit
from tests.servers.synthetic.kinds import Kind
from tests.servers.synthetic.politeness import Rules, violations
from tests.servers.synthetic.request_log import Logged, read_log
from tests.servers.synthetic.web import Web

from bench.harness import quantile, table
from bench.soak_plan import Plan
from bench.soak_readers import Asked
from bench.soak_samples import DAEMON, Held, Sample
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace

JUDGED_FROM_S = 1_800.0
MAX_AN_HOUR, MAX_GROWTH, MAX_SLOWER = 0.05, 0.10, 1.25
MIN_LIFE_S, WARM_UP_S = 1_200.0, 300.0
LOST_MS, BUSY_MS = 6_000, 5_000
"""How long before a death an answer may have come that nobody took note of (a commit apart, it is
in the archive), and how late a busy machine may notice one.
"""

ADOPTED_MS = 120_000
"""How long after a page was fetched what it links to is known to whoever holds the other host."""

EARLY_MS = 2_000
"""How much later than it was sent a busy web may have read the earlier of two requests: the robot
counts from when it asked.
"""

_SHOWN = (Kind.PAGE, Kind.TRANSLATION, Kind.DUPLICATE, Kind.NEAR_DUPLICATE)

AFTER_MS = 2_000
"""How long after the pages answer again the readers' answers still count as around a death: those
that waited are answered at once.
"""


@dataclass(slots=True)
class Verdict:
    """Tables, and what is wrong."""

    parts: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def text(self) -> str:
        said = [f"- {fault}" for fault in self.faults] or ["Nothing is wrong."]
        return "\n\n".join([*self.parts, "\n".join(said)])


@dataclass(slots=True, frozen=True)
class Trend:
    """A line through what was measured, and how far its ends lie apart: shares of where it
    begins.
    """

    begins: float
    an_hour: float
    growth: float
    hours: float

    def flat(self) -> bool:
        return self.an_hour < MAX_AN_HOUR and self.growth <= MAX_GROWTH


def trend(points: Sequence[tuple[float, float]]) -> Trend:
    """The line of Theil and Sen: the median of the slopes between all pairs; (hours, value) each,
    two at least.

    Single values that are far off, as of a process that was just started, hardly move it.
    """
    times, values = np.array(points).T
    if len(times) > 720:
        keep = np.linspace(0, len(times) - 1, 720).astype(int)
        times, values = times[keep], values[keep]
    left, right = np.triu_indices(len(times), 1)
    apart = times[right] - times[left]
    slope = (
        float(np.median(((values[right] - values[left]) / np.where(apart, apart, 1))[apart > 0]))
        if (apart > 0).any()
        else 0.0
    )
    start = float(np.median(values - slope * times)) + slope * float(times[0])
    hours = float(times[-1] - times[0])
    return (
        Trend(start, slope / start, slope * hours / start, hours)
        if start > 0
        else Trend(0.0, 0.0, 0.0, hours)
    )


def known_urls(root: Path) -> set[str]:
    """All that a workspace knows."""
    return set(LiveTables(Workspace.open(str(root))).scan("urls").select("url").collect()["url"])


def judge(folder: Path) -> Verdict:
    """All of it: see this module."""
    plan = Plan(**json.loads((folder / "plan.json").read_text()))
    verdict = judge_measured(folder, plan)
    _crawl(
        verdict,
        plan,
        folder,
        _kills(folder),
        json.loads((folder / "end.json").read_text())["at_ms"],
    )
    return verdict


def judge_measured(folder: Path, plan: Plan) -> Verdict:
    """What was measured while it ran."""
    kills = _kills(folder)
    samples = [
        Sample(**json.loads(line)) for line in (folder / "samples.jsonl").read_text().splitlines()
    ]
    held = [Held(**json.loads(line)) for line in (folder / "held.jsonl").read_text().splitlines()]
    with (folder / "queries.csv").open() as lines:
        asked = [
            Asked(int(due), float(took), int(status), what)
            for due, took, status, what in csv.reader(lines)
        ]
    verdict = Verdict()
    _deaths(verdict, kills, json.loads((folder / "end.json").read_text()))
    _answers(verdict, plan, asked, held, kills)
    _memory(verdict, plan, samples)
    _lives(verdict, plan, samples)
    _workspace(verdict, held)
    return verdict


def _kills(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "kills.jsonl").read_text().splitlines()]


def _deaths(verdict: Verdict, kills: list[dict[str, Any]], end: dict[str, int]) -> None:
    rows = []
    for role in sorted({kill["role"] for kill in kills}):
        away = [(kill["back_ms"] - kill["at_ms"]) / 1000 for kill in kills if kill["role"] == role]
        rows.append(
            (
                role,
                len(away),
                f"{quantile(away, 0.5):.1f} s, {max(away):.1f} s" if max(away) else "no pause",
            )
        )
    verdict.parts.append(table(("killed", "times", "pages away, median and most"), rows))
    verdict.faults += [
        f"the {kill['role']} {kill['how']} at {kill['at_ms']}"
        for kill in kills
        if kill["how"] != "killed"
    ]
    if end["code"] != 0:
        verdict.faults.append(f"asked to stop, the daemon ended with {end['code']}")


# -- readers
# ----------------------------------------------------------------------------------------------------------


def _answers(
    verdict: Verdict, plan: Plan, asked: list[Asked], held: list[Held], kills: list[dict[str, Any]]
) -> None:
    """By quarters of the time; what was asked around a death of those who answer stands for
    itself.
    """
    away = [
        (kill["at_ms"], kill["back_ms"] + AFTER_MS)
        for kill in kills
        if kill["role"] in (DAEMON, "pages")
    ]
    apart = [
        each
        for each in asked
        if any(start <= each.due_ms + each.took_ms and each.due_ms <= end for start, end in away)
    ]
    around = set(apart)
    usual = [each for each in asked if each not in around]
    begun, hours = min(each.due_ms for each in asked), plan.seconds / 3600
    rows, p95 = [], []
    for name, chosen in [
        *((f"quarter {number + 1}", _quarter(usual, begun, plan, number)) for number in range(4)),
        ("around deaths", apart),
    ]:
        if not chosen:
            continue
        took = [each.took_ms for each in chosen if each.status == 200]
        wrong = Counter(
            str(each.status) if each.status else "no answer"
            for each in chosen
            if each.status != 200
        )
        loads = [each.load for each in held if chosen[0].due_ms <= each.at_ms <= chosen[-1].due_ms]
        figures = (
            [f"{quantile(took, share):.0f}" for share in (0.5, 0.95, 0.99, 1)]
            if took
            else ["-"] * 4
        )
        rows.append(
            (
                name,
                f"{len(chosen):,}",
                *figures,
                _counts(wrong),
                f"{np.mean(loads):.1f}" if loads and name[0] == "q" else "",
            )
        )
        if name[0] == "q":
            p95.append(quantile(took, 0.95))
            if wrong:
                verdict.faults.append(
                    f"{sum(wrong.values())} questions in {name} had no good "
                    f"answer: {_counts(wrong)}"
                )
    verdict.parts.append(
        table(("answers, ms", "asked", "p50", "p95", "p99", "most", "errors", "load"), rows)
    )
    if plan.seconds >= JUDGED_FROM_S and len(p95) == 4:
        verdict.parts.append(
            f"p95 of the last quarter over the second: {p95[3] / p95[1]:.2f} ({hours:.2f} h)."
        )
        if p95[3] > MAX_SLOWER * p95[1]:
            verdict.faults.append(
                f"answers slow down: p95 {p95[1]:.0f} ms in the second quarter, "
                f"{p95[3]:.0f} ms in the last"
            )


def _quarter(asked: list[Asked], begun: int, plan: Plan, number: int) -> list[Asked]:
    length = plan.seconds * 250
    return [
        each
        for each in asked
        if begun + number * length <= each.due_ms < begun + (number + 1) * length
    ]


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{name}: {count:,}" for name, count in counter.most_common()) or "0"


# -- processes
# --------------------------------------------------------------------------------------------------------


def _by_role(samples: Iterable[Sample]) -> dict[str, list[Sample]]:
    found: dict[str, list[Sample]] = defaultdict(list)
    for each in samples:
        found["worker" if each.role.startswith("worker") else each.role].append(each)
    return dict(sorted(found.items()))


def _memory(verdict: Verdict, plan: Plan, samples: list[Sample]) -> None:
    """Of each role over the last three quarters of the time, whoever it was; and all processes
    together.
    """
    begun = min(each.at_ms for each in samples)
    late = [each for each in samples if each.at_ms >= begun + plan.seconds * 250]
    rows = []
    together: dict[int, float] = defaultdict(float)
    handles: dict[int, float] = defaultdict(float)
    for each in late:
        together[each.at_ms] += each.anon_mb
        handles[each.at_ms] += each.handles
    for role, of_role in [*_by_role(late).items(), ("all", late)]:
        memory, opened = (
            _line(begun, sorted(together.items())),
            _line(begun, sorted(handles.items())),
        )
        if role != "all":
            memory = _line(begun, [(each.at_ms, each.anon_mb) for each in of_role])
            opened = _line(begun, [(each.at_ms, each.handles) for each in of_role])
        if memory is None or opened is None:
            continue
        most = max(together.values()) if role == "all" else max(each.anon_mb for each in of_role)
        mapped = "" if role == "all" else f"{max(each.file_mb for each in of_role):.0f}"
        signs = f"{memory.an_hour:+.1%}", f"{memory.growth:+.1%}"
        rows.append(
            (
                role,
                f"{memory.begins:.0f}",
                f"{most:.0f}",
                mapped,
                *signs,
                f"{opened.begins:.0f}",
                f"{opened.growth:+.1%}",
            )
        )
        if plan.seconds >= JUDGED_FROM_S and role in (
            DAEMON,
            "pages",
            "worker",
            "coordinator",
            "index",
            "all",
        ):
            for what, line in (("memory", memory), ("open handles", opened)):
                if not line.flat():
                    verdict.faults.append(
                        f"{what} of {role}: {line.an_hour:+.1%} an hour, "
                        f"{line.growth:+.1%} over {line.hours:.1f} h"
                    )
    header = (
        "role",
        "own memory, MB",
        "most",
        "mapped, most",
        "an hour",
        "growth",
        "handles",
        "growth",
    )
    verdict.parts.append(
        "Over the last three quarters of the time, all processes of each role:\n\n"
        + table(header, rows)
    )


def _line(begun: int, points: Sequence[tuple[int, float]]) -> Trend | None:
    return (
        trend([((at - begun) / 3_600_000, value) for at, value in points])
        if len(points) > 5
        else None
    )


def _lives(verdict: Verdict, plan: Plan, samples: list[Sample]) -> None:
    """Each process that lived for long, from its first minutes on: where a leak would show that
    deaths hide.
    """
    rows = []
    lives: dict[int, list[Sample]] = defaultdict(list)
    for each in samples:
        lives[each.pid].append(each)
    for mine in lives.values():
        born = mine[0].at_ms
        if mine[-1].at_ms - born < MIN_LIFE_S * 1000:
            continue
        late = [each for each in mine if each.at_ms >= born + WARM_UP_S * 1000]
        line = trend([((each.at_ms - born) / 3_600_000, each.anon_mb) for each in late])
        cpu = late[-1].cpu_s - late[0].cpu_s
        share = cpu / max((late[-1].at_ms - late[0].at_ms) / 1000, 1)
        spent = (
            f"{share:.1%}",
            f"{late[0].handles} → {late[-1].handles}",
            f"{late[0].threads} → {late[-1].threads}",
        )
        life = f"{(mine[-1].at_ms - born) / 60_000:.0f} min"
        rows.append(
            (
                mine[-1].role,
                life,
                f"{line.begins:.0f}",
                f"{late[-1].anon_mb:.0f}",
                f"{line.an_hour:+.1%}",
                *spent,
            )
        )
    if rows:
        header = (
            "long lives, from 5 min on",
            "life",
            "memory, MB",
            "at the end",
            "an hour",
            "of a core",
            "handles",
            "threads",
        )
        verdict.parts.append(table(header, sorted(rows)))


def _workspace(verdict: Verdict, held: list[Held]) -> None:
    rows = []
    sized = [each for each in held if each.files]
    for each in [sized[round(place * (len(sized) - 1) / 8)] for place in range(9)] if sized else []:
        counted = (
            f"{each.visits:,}",
            f"{each.pages:,}",
            f"{each.urls:,}",
            each.merges,
            each.log_head,
        )
        rows.append(
            (
                f"{(each.at_ms - held[0].at_ms) / 60_000:.0f}",
                *counted,
                f"{each.disk_mb:.0f}",
                f"{each.files:,}",
                each.load,
            )
        )
    header = (
        "minute",
        "exchanges",
        "pages ever",
        "rows of urls",
        "merges",
        "log entry",
        "disk, MB",
        "files",
        "load",
    )
    verdict.parts.append(table(header, rows))


# -- the crawl
# --------------------------------------------------------------------------------------------------------


def _crawl(
    verdict: Verdict, plan: Plan, folder: Path, kills: list[dict[str, Any]], end_ms: int
) -> None:
    root = folder / "workspace"
    checked = subprocess.run(
        [sys.executable, "-m", "lycosa.cli.main", "-w", str(root), "check", "--deep"],
        capture_output=True,
        text=True,
        check=False,
    )
    if checked.returncode:
        verdict.faults.append(f"lycosa check --deep: {(checked.stdout + checked.stderr)[-600:]}")
    web = plan.web(folder / "requests.log")
    log = list(read_log(folder / "requests.log"))
    unseen, repeated = without_visit(root, log)
    unseen = really_unseen(unseen, log, facts(root))
    hold = round(plan.hold_s * 1000)
    crawlers = [
        kill["at_ms"]
        for kill in kills
        if kill["role"] == DAEMON or kill["role"].startswith(("worker", "coordinator"))
    ]
    trouble = [*((at - LOST_MS, at + hold + BUSY_MS) for at in (*crawlers, end_ms)), *moves(root)]
    strange = [
        each
        for each in unseen
        if not any(a <= each.answered_at_ms and each.arrived_at_ms <= b for a, b in trouble)
    ]
    if repeated:
        verdict.faults.append(
            f"{len(repeated)} URLs were requested twice within the duration of one "
            f"visit, for example {list(repeated.items())[:3]}"
        )
    if strange:
        verdict.faults.append(
            f"{len(strange)} requests have no visit although no process died, for example {strange[:3]}"
        )
    rules = Rules(
        web,
        delay_ms=round(plan.delay_s * 1000),
        courtesy_factor=10.0,
        backoff_ms=60_000,
        backoff_statuses=frozenset({429, 502, 503, 504}),
        domain_places=2,
        domain_rest=True,
        unseen=unseen,
        left_slack_ms=2_000,
    )
    rude = violations(log, rules)
    if rude:
        verdict.faults.append(
            f"impolite: {dict(Counter(each.rule.value for each in rude))}, as {rude[:3]}"
        )
    early = asked_early(log, unseen, failed_visits(root), web, round(plan.max_age_s * 1000))
    if early:
        verdict.faults.append(
            f"{len(early)} pages were asked for again before their age, as {early[:3]}"
        )
    lost, missing = _lost(folder, web, end_ms)
    if lost:
        verdict.faults.append(
            f"{len(lost)} URLs that were known once are not any more, as {sorted(lost)[:3]}"
        )
    if missing:
        verdict.faults.append(
            f"{len(missing)} links of stored pages lead to URLs that are not "
            f"known, as {sorted(missing)[:3]}"
        )
    statuses = Counter(str(each.status) if each.status else "none" for each in log)
    seconds = (log[-1].answered_at_ms - log[0].arrived_at_ms) / 1000
    rows = [
        (
            "requests to the web",
            f"{len(log):,}, {len(log) / seconds:.1f} a second, to "
            f"{len({each.host for each in log}):,} hosts",
        ),
        ("status codes", _counts(statuses)),
        ("responses lost by killed processes", f"{len(unseen):,}"),
        ("impolite requests", len(rude)),
        ("fetched again too early", len(early)),
        ("URLs known in the end; lost", f"{len(known_urls(root)):,}; {len(lost)}"),
        ("links of stored pages that are not in links", len(missing)),
        ("lycosa check --deep", "no errors" if checked.returncode == 0 else "ERRORS"),
    ]
    verdict.parts.append(table(("crawl", ""), rows))


def failed_visits(root: Path) -> dict[str, list[tuple[int, int]]]:
    """By URL, from when to when an exchange went that brought no whole answer: such pages are asked
    for again soon.
    """
    visits = LiveTables(Workspace.open(str(root))).scan("visits").filter(pl.col("error") != "")
    found: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for url, at_ms, duration_ms in (
        visits.select("url", pl.col("fetched_at").cast(pl.Int64), "duration_ms")
        .collect()
        .iter_rows()
    ):
        found[url].append((at_ms - CLOCKS_MS, at_ms + duration_ms + CLOCKS_MS))
    return found


def asked_early(
    log: Sequence[Logged],
    unseen: frozenset[Logged],
    failed: Mapping[str, list[tuple[int, int]]],
    web: Web,
    max_age_ms: int,
) -> list[tuple[str, int]]:
    """Pages that were answered well and asked for again too soon, though no list of their host was
    read between, which may have said that they are new: URL, and how many ms after.
    """
    times: dict[str, list[Logged]] = defaultdict(list)
    lists: dict[str, list[int]] = defaultdict(list)
    for request in log:
        url = f"http://{request.host}{request.path}"
        times[url].append(request)
        if web.kind(url) in (Kind.SITEMAP, Kind.FEED):
            lists[request.host].append(request.answered_at_ms)
    found = []
    for url, mine in times.items():
        if len(mine) > 1 and web.kind(url) in _SHOWN:
            for before, after in pairwise(sorted(mine, key=lambda each: each.arrived_at_ms)):
                apart = after.arrived_at_ms - before.arrived_at_ms
                well = before.status in (200, 304) and before not in unseen
                well = well and not any(
                    start <= before.arrived_at_ms <= end for start, end in failed.get(url, ())
                )
                told = any(
                    before.arrived_at_ms <= at <= after.arrived_at_ms for at in lists[before.host]
                )
                if well and not told and apart < max_age_ms - EARLY_MS:
                    found.append((url, apart))
    return found


def _lost(folder: Path, web: Web, end_ms: int) -> tuple[set[str], set[str]]:
    """URLs that were known at some time and are not in the end; links to pages that were not taken
    down in time.
    """
    root = folder / "workspace"
    known = known_urls(root)
    once: set[str] = set()
    for each in (folder / "known").iterdir():
        once.update(each.read_text().split("\n"))
    tables = LiveTables(Workspace.open(str(root)))
    followed = tables.scan("links").filter(
        pl.col("kind").is_in(["a", "area"]) & ~pl.col("rel").str.contains("nofollow")
    )
    old = (
        followed.filter(pl.col("found_at").cast(pl.Int64) < end_ms - ADOPTED_MS)
        .select("target")
        .unique()
        .collect()["target"]
    )
    return once - known - {""}, {url for url in set(old) - known if web.kind(url) in _SHOWN}
