"""Verify a crawl by its tables, its log and the request log of the server.

An exchange that a worker could not commit is in the request log but has no visit. Such exchanges
are allowed only around failures and reassignments.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import polars as pl

from lycosa.store.log.entry import CLAIM, RELEASE
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from tests.cluster.webs import COURTESY, DELAY_MS, DOMAIN_CONNECTIONS, rules
from tests.crawl.kills import here
from tests.crawl.synthetic_crawls import BACKOFF_MS, simulated_crawler, without_visit
from tests.servers.synthetic.politeness import Rule, Violation, violations
from tests.servers.synthetic.request_log import LogEntry
from tests.servers.synthetic.web import Web


@dataclass(slots=True, frozen=True)
class Facts:
    """Results of a crawl."""

    states: dict[tuple[str, str], str]  # (URL, operation) -> state
    pages: frozenset[str]
    visits: dict[str, list[int]]  # URL -> times in ms since 1970, without robots.txt
    exchanges: Counter[str]  # per URL, with robots.txt
    record_ids: Counter[str]


def facts(root: Path | str) -> Facts:
    """Read the results from a workspace."""
    tables = LiveTables(Workspace.open(str(root)))
    urls = tables.scan("urls").select("url", "operation", "state").collect()
    visits = (
        tables.scan("visits")
        .select("url", "kind", "record_id", pl.col("fetched_at").dt.epoch("ms"))
        .sort("fetched_at")
        .collect()
    )
    times: defaultdict[str, list[int]] = defaultdict(list)
    for url, at_ms in (
        visits.filter(pl.col("kind") != "robots").select("url", "fetched_at").iter_rows()
    ):
        times[url].append(at_ms)
    assert urls.select("url", "operation").is_duplicated().sum() == 0
    return Facts(
        {(url, operation): state for url, operation, state in urls.iter_rows()},
        frozenset(tables.scan("pages").select("url").collect()["url"]),
        times,
        Counter(visits["url"]),
        Counter(visits["record_id"]),
    )


@dataclass(slots=True, frozen=True)
class ExpectedResult:
    """The result of a single worker without failures, in simulated time."""

    states: dict[tuple[str, str], str]  # (URL, operation) -> state in `urls`
    pages: frozenset[str]


def expected_result(web: Web, folder: Path) -> ExpectedResult:
    """Crawl a web with one worker in simulated time."""
    settings = {
        "delay": f"{DELAY_MS}ms",
        "courtesy_factor": COURTESY,
        "backoff": f"{BACKOFF_MS}ms",
        "domain_connections": DOMAIN_CONNECTIONS,
    }
    progress = simulated_crawler(web, folder, **settings, traps=False).crawl()
    assert progress is not None
    assert progress.ended == "finished"
    result = facts(folder)
    return ExpectedResult(result.states, result.pages)


@dataclass(slots=True, frozen=True)
class Report:
    """Figures of a verified crawl."""

    requests: int
    lost: int  # requests without a visit
    repeated: int  # lost requests that were repeated
    hosts: int

    def __str__(self) -> str:
        return (
            f"{self.requests:,} requests to {self.hosts} hosts, {self.lost} responses lost, "
            f"{self.repeated} of them requested again"
        )


def same_result(root: Path | str, expected: ExpectedResult) -> Facts:
    """Assert the expected result and that no exchange was committed twice."""
    result = facts(root)
    wrong = {
        key: (result.states.get(key), expected.states.get(key))
        for key in result.states.keys() | expected.states.keys()
        if result.states.get(key) != expected.states.get(key)
    }
    assert not wrong, (
        f"{len(wrong)} URLs have other states than with one worker: {list(wrong.items())[:3]}"
    )
    assert result.pages == expected.pages, sorted(result.pages ^ expected.pages)[:5]
    assert max(result.record_ids.values()) == 1
    return result


def verify_crawl(
    root: Path | str,
    web: Web,
    log: Sequence[LogEntry],
    expected: ExpectedResult,
    loss_windows: Sequence[tuple[int, int]],
    *,
    own_files: bool = False,
) -> Report:
    """Assert that a crawl is complete and polite and repeats only uncommitted requests.

    Args:
        loss_windows: start and end of the times in which responses may be lost because a process
            was killed or suspended, in ms since 1970.
        own_files: machines share no files, so uncommitted exchanges, including robots.txt, are
            lost with a machine. A machine that returns replays its WARC file, which may add
            visits of URLs that another worker has fetched meanwhile.
    """
    result = same_result(root, expected)
    revisited = {
        url: times
        for url, times in result.visits.items()
        if len(times) > 1 and (url, "") in result.states
    }
    unseen, repeated = without_visit(root, log)
    unseen = without_late_visits(unseen, log, result)
    assert repeated == {}, (
        f"two requests within the time of one visit: {list(repeated.items())[:5]}"
    )
    windows = [*loss_windows, *claim_intervals(root)]
    if own_files:
        revisited = {
            url: times
            for url, times in revisited.items()
            if not all(any(start <= at <= end for start, end in windows) for at in times[:-1])
        }
    assert not revisited, f"visited twice: {list(revisited.items())[:5]}"
    unexplained = [
        each
        for each in unseen
        if not any(
            start <= each.answered_at_ms and each.arrived_at_ms <= end for start, end in windows
        )
    ]
    assert not unexplained, (
        f"{len(unexplained)} requests have no visit, though no process failed: {unexplained[:3]}"
    )
    broken_rules = [
        each
        for each in violations(log, rules(web, unseen))
        if not (own_files and has_lost_robots(each, unseen))
    ]
    assert not broken_rules, (
        f"{Counter(each.rule.value for each in broken_rules)}: {broken_rules[:3]}"
    )
    counts = Counter((request.host, request.path) for request in log)
    requested_again = {
        (request.host, request.path) for request in unseen if counts[request.host, request.path] > 1
    }
    return Report(
        len(log), len(unseen), len(requested_again), len({request.host for request in log})
    )


def has_lost_robots(violation: Violation, unseen: frozenset[LogEntry]) -> bool:
    """Return whether a lost request followed a lost robots.txt on the same connection."""
    page = violation.request
    return (
        violation.rule is Rule.ROBOTS_UNKNOWN
        and page in unseen
        and any(
            (each.host, each.path, each.connection) == (page.host, "/robots.txt", page.connection)
            and each.answered_at_ms <= page.arrived_at_ms
            for each in unseen
        )
    )


def without_late_visits(
    unseen: frozenset[LogEntry], log: Sequence[LogEntry], result: Facts
) -> frozenset[LogEntry]:
    """Remove requests whose visit has another time because the machine was busy.

    Per URL, as many requests are removed as there are visits without a request.
    """
    spare = result.exchanges - Counter(
        f"http://{each.host}{each.path}" for each in log if each not in unseen
    )
    lost = []
    # The last request of a URL is the committed one.
    for request in sorted(unseen, key=lambda each: each.arrived_at_ms, reverse=True):
        url = f"http://{request.host}{request.path}"
        if spare[url] > 0:
            spare[url] -= 1
        else:
            lost.append(request)
    return frozenset(lost)


MOVE_MS = 4_000
"""Longest reassignment: 3 s for requests in flight, which are then aborted, and 1 s of delay.

See docs/explanation/protocol.md.
"""


def claim_intervals(root: Path | str) -> list[tuple[int, int]]:
    """Return the times in which requests may have been aborted for a claim or release."""
    times = [
        entry.at
        for entry in Workspace.open(str(root)).log.entries()
        if entry.kind in (CLAIM, RELEASE)
    ]
    stamps = [round(datetime.fromisoformat(at).timestamp() * 1_000) for at in times]
    return [(at - MOVE_MS, at) for at in stamps]


def assert_valid(root: Path | str) -> None:
    """Assert that `lycosa check --deep` reports no error."""
    here(root, "check", "--deep")
