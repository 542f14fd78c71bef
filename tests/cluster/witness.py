"""What a crawl left behind, looked at from outside: the tables, the log, and the server's own log
of requests.

An exchange that its worker did not live to commit, or could not commit any more, is in the server's
log and has no visit. How many there may be, and when, is what a cluster promises about its deaths.
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
from tests.cluster.webs import COURTESY, DELAY_MS, PLACES, rules
from tests.crawl.kills import lycosa
from tests.crawl.polite import BACKOFF_MS, simulated_robot, without_visit
from tests.servers.synthetic.politeness import Rule, Violation, violations
from tests.servers.synthetic.request_log import Logged
from tests.servers.synthetic.web import Web


@dataclass(slots=True, frozen=True)
class Facts:
    """What the tables say."""

    states: dict[tuple[str, str], str]  # (URL, operation) -> state
    pages: frozenset[str]
    visits: dict[str, list[int]]  # times in ms since 1970 of each URL's, robots files left out
    exchanges: Counter[str]  # of each URL, robots files too
    record_ids: Counter[str]


def facts(root: Path | str) -> Facts:
    """Read a workspace."""
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
class Truth:
    """What one undisturbed worker in simulated time made of a web."""

    states: dict[tuple[str, str], str]  # (URL, operation) -> state in `urls`
    pages: frozenset[str]


def truth(web: Web, folder: Path) -> Truth:
    """Crawl a web with one worker, in process."""
    chosen = {
        "delay": f"{DELAY_MS}ms",
        "courtesy_factor": COURTESY,
        "backoff": f"{BACKOFF_MS}ms",
        "domain_connections": PLACES,
    }
    progress = simulated_robot(web, folder, **chosen, traps=False).crawl()
    assert progress is not None
    assert progress.ended == "finished"
    result = facts(folder)
    return Truth(result.states, result.pages)


@dataclass(slots=True, frozen=True)
class Report:
    """A crawl's figures, after all that must be true was found true."""

    requests: int
    lost: int  # requests whose answers never became visits
    asked_again: int  # pages of these that were therefore asked for again
    hosts: int

    def __str__(self) -> str:
        return (
            f"{self.requests:,} requests to {self.hosts} hosts, {self.lost} answers lost, "
            f"{self.asked_again} of them asked for again"
        )


def same_result(root: Path | str, expected: Truth) -> Facts:
    """All that a crawl found is as expected, and no exchange was committed twice."""
    result = facts(root)
    wrong = {
        key: (result.states.get(key), expected.states.get(key))
        for key in result.states.keys() ^ expected.states.keys()
    }
    wrong |= {
        key: (state, expected.states.get(key))
        for key, state in result.states.items()
        if state != expected.states.get(key)
    }
    assert not wrong, (
        f"{len(wrong)} URLs end otherwise than for one worker, as {list(wrong.items())[:3]}"
    )
    assert result.pages == expected.pages, sorted(result.pages ^ expected.pages)[:5]
    assert max(result.record_ids.values()) == 1
    return result


def judge(
    root: Path | str,
    web: Web,
    log: Sequence[Logged],
    expected: Truth,
    troubles: Sequence[tuple[int, int]],
    *,
    own_files: bool = False,
) -> Report:
    """Nothing lost, nothing committed twice, nobody annoyed, nothing fetched again but what was
    uncommitted.

    Args:
        troubles: when a process was killed or cut off, and until when at the latest what it had
            under way may have been lost by it:
            pairs of ms since 1970.
        own_files: machines share no files, so what one had not committed ends with it, robots.txt
            included; it knew it all the same. If the machine comes back, it replays its WARC file:
            what it had fetched before another worker did is then a visit too.
    """
    result = same_result(root, expected)
    twice = {
        url: times
        for url, times in result.visits.items()
        if len(times) > 1 and (url, "") in result.states
    }
    unseen, repeated = without_visit(root, log)
    unseen = really_unseen(unseen, log, result)
    assert repeated == {}, (
        f"two requests within the time of one visit: {list(repeated.items())[:5]}"
    )
    apart = [*troubles, *moves(root)]
    if own_files:
        twice = {
            url: times
            for url, times in twice.items()
            if not all(any(start <= at <= end for start, end in apart) for at in times[:-1])
        }
    assert not twice, f"visited twice: {list(twice.items())[:5]}"
    strange = [
        each
        for each in unseen
        if not any(
            start <= each.answered_at_ms and each.arrived_at_ms <= end for start, end in apart
        )
    ]
    assert not strange, (
        f"{len(strange)} requests left no visit though nobody was in trouble, as {strange[:3]}"
    )
    bad = [
        each
        for each in violations(log, rules(web, unseen))
        if not (own_files and knew_robots(each, unseen))
    ]
    assert not bad, f"{Counter(each.rule.value for each in bad)}, as {bad[:3]}"
    request_times = Counter((request.host, request.path) for request in log)
    again = {
        (request.host, request.path)
        for request in unseen
        if request_times[request.host, request.path] > 1
    }
    return Report(len(log), len(unseen), len(again), len({request.host for request in log}))


def knew_robots(violation: Violation, unseen: frozenset[Logged]) -> bool:
    """Whether a lost request followed a lost robots.txt on the same connection."""
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


def really_unseen(
    unseen: frozenset[Logged], log: Sequence[Logged], result: Facts
) -> frozenset[Logged]:
    """Without the requests that a busy machine began so late that they lie beside their visit's
    time: as many as there are visits left.
    """
    spare = result.exchanges - Counter(
        f"http://{each.host}{each.path}" for each in log if each not in unseen
    )
    lost = []
    # the last one is the one that was committed
    for request in sorted(unseen, key=lambda each: each.arrived_at_ms, reverse=True):
        url = f"http://{request.host}{request.path}"
        if spare[url] > 0:
            spare[url] -= 1
        else:
            lost.append(request)
    return frozenset(lost)


MOVE_MS = 4_000
"""A hand-over: at most 3 s for what is in flight, which is then left (docs/explanation/protocol.md), and a busy
machine.
"""


def moves(root: Path | str) -> list[tuple[int, int]]:
    """When partitions were given back or claimed, with the time before in which a request may have
    been left for it.
    """
    times = [
        entry.at
        for entry in Workspace.open(str(root)).log.entries()
        if entry.kind in (CLAIM, RELEASE)
    ]
    stamps = [round(datetime.fromisoformat(at).timestamp() * 1_000) for at in times]
    return [(at - MOVE_MS, at) for at in stamps]


def is_sound(root: Path | str) -> None:
    """`lycosa check --deep` has nothing to say."""
    lycosa(root, "check", "--deep")
