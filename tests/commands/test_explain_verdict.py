"""`explain` and the crawl make the same decision: random URLs, collections and host states."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl
import polars.selectors as cs
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from lycosa.commands.inspection.explain import explain_url
from lycosa.config.reading import parse_config
from lycosa.config.settings import Collection, Config
from lycosa.core.host_row import RobotsEntry
from lycosa.core.records import Exchange, Link, Request, UrlRow, Visit, VisitKind
from lycosa.crawl.recovery.resume import load
from lycosa.crawl.session.pausing import pause
from lycosa.crawl.session.session import CrawlSession, SessionOptions, open_session
from lycosa.crawl.state.task import Job, Task
from lycosa.frontier.traps.shapes import shape_of
from lycosa.processes.threads import StopFlag
from lycosa.store.tables.live import LiveTables
from lycosa.store.tables.rows import host_record, url_record
from lycosa.store.workspace import Workspace
from lycosa.url.scope import hostname
from tests.waiting import ManualClock

SEED = "http://seed.test/"
MINUTE_MS, DAY_MS = 60_000, 86_400_000
TURNS = 8


class RecordingFetcher:
    """Records the requests that a worker starts; never returns a response."""

    def __init__(self, clock: ManualClock) -> None:
        self.requests: list[Request] = []
        self._clock = clock
        self._running: list[Request] = []

    @property
    def active(self) -> int:
        return len(self._running)

    def start(self, request: Request) -> None:
        self.requests.append(request)
        self._running.append(request)

    def wait(self, timeout_ms: int) -> list[Exchange]:
        self._clock.advance(1)
        return []

    def sleep(self, timeout_ms: int, wake: StopFlag) -> None:
        self._clock.advance(1)

    def stop(self) -> None:
        self._running.clear()

    def close(self) -> None:
        self.stop()


@dataclass(frozen=True)
class Target:
    """A URL, the link to it, and the stored state of URL and host."""

    path: str
    rel: str
    robots: str  # "", allow, disallow, unreachable, none, expired
    row: str  # known, later, visited, old, gone, excluded
    host_pause_ms: int
    domain_pause_ms: int
    is_trap: bool


TARGETS = st.builds(
    Target,
    path=st.sampled_from(
        [
            "/",
            "/a/b.html",
            "/private/x.html",
            "/x.jpg",
            "/x.pdf",
            "/a/a/a/a/a/a/",
            "/cal/2099-05-05/",
            "/p;jsessionid=0123456789ABCDEF0123456789ABCDEF",
            "/item/17?page=3",
            "/" + "y" * 3_000,
        ]
    ),
    rel=st.sampled_from(["", "", "", "nofollow"]),
    robots=st.sampled_from(["", "allow", "allow", "disallow", "unreachable", "none", "expired"]),
    row=st.sampled_from(["known", "known", "later", "visited", "old", "gone", "excluded"]),
    host_pause_ms=st.sampled_from([0, 0, -MINUTE_MS, 5 * MINUTE_MS, DAY_MS]),
    domain_pause_ms=st.sampled_from([0, 0, 0, 10 * MINUTE_MS]),
    is_trap=st.booleans(),
)
COLLECTIONS = st.fixed_dictionaries(
    {
        "scope": st.sampled_from(["any", "any", "host", "domain"]),
        "depth": st.sampled_from([None, None, 0, 1]),
        "deny": st.sampled_from([[], ["/private/"]]),
        "traps": st.booleans(),
        "respect_nofollow": st.booleans(),
        "max_pages": st.sampled_from([None, None, 1, 100]),
        "max_pages_per_host": st.sampled_from([None, 1, 10]),
        "recrawl": st.sampled_from(["never", "age", "daily", "fresh"]),
        "drop_session_ids": st.booleans(),
    }
)


def collection(chosen: dict[str, Any]) -> Collection:
    fixed = {"name": "c", "delay": 0, "courtesy_factor": 0.0, "media_types": [], "max_age": "1d"}
    return Collection.model_validate({**fixed, **chosen})


class Stored:
    """A workspace with a visited seed and the URLs that it links to."""

    def __init__(self, root: Path, chosen: dict[str, Any], targets: list[Target]) -> None:
        self.root, self.clock = root, ManualClock()
        self.config: Config = parse_config("", overrides=("crawl.documents=0",))
        self.job = Job(collection(chosen), (SEED,))
        self.workspace = Workspace.open_or_create(str(root), 8)
        self.links = [
            Link(f"http://h{number}.site{number}.test{each.path}", "", each.rel, "a", number)
            for number, each in enumerate(targets)
        ]
        session, _ = self.session()
        crawl = session.crawl
        crawl.urls.seed("c", [SEED])
        gate = crawl.assignments["c"].gate
        seed = crawl.urls.find("c", gate.identify(SEED))
        assert seed is not None
        now_ms = self.clock.now_ms()
        gate.follow(seed, self.links, now_ms)
        id = seed.id
        crawl.buffer.batch.add_links(
            Visit(
                id.url, id.host, id.partition, id.host_key, id.url_key, VisitKind.PAGE, "c", 0,
                now_ms, 1,
            ),
            self.links,
        )  # fmt: skip
        seed.state, seed.visited_at, seed.text_digest = "visited", now_ms, 1
        crawl.urls.change(seed)
        crawl.buffer.batch.counters["pages.c"] += 1
        self.end(session)
        self._change_rows(targets)

    def session(self) -> tuple[CrawlSession, RecordingFetcher]:
        fetcher = RecordingFetcher(self.clock)
        session = open_session(
            self.workspace,
            self.config,
            [self.job],
            SessionOptions(fetcher=fetcher, longest_wait_ms=1),
            command="test",
            clock=self.clock,
        )
        load(session.crawl, session.tables)
        return session, fetcher

    def end(self, session: CrawlSession) -> None:
        session.worker.commits.now()
        session.claim.release()
        session.close()

    def rows(self) -> list[UrlRow]:
        frame = LiveTables(self.workspace).scan("urls").with_columns(cs.datetime().dt.epoch("ms"))
        return [url_record(row, hostname(row[3])) for row in frame.collect().iter_rows()]

    def _change_rows(self, targets: list[Target]) -> None:
        session, _ = self.session()
        batch, now_ms = session.crawl.buffer.batch, self.clock.now_ms()
        for row in self.rows():
            if row.id.host != "seed.test":
                _change_row(row, targets[_number(row.id.host)], now_ms)
                batch.change_url(row)
        hosts = LiveTables(self.workspace).scan("hosts").filter(pl.col("host") != "")
        for values in hosts.with_columns(cs.datetime().dt.epoch("ms")).collect().iter_rows():
            host = host_record(values)
            if host.host == "seed.test":
                continue
            target = targets[_number(host.host)]
            host.robots = _robots(target, f"http://{host.host}", now_ms)
            host.not_before = now_ms + target.host_pause_ms if target.host_pause_ms else 0
            if target.is_trap:
                group = shape_of(target.path).groups[0]
                host.traps = {f"stopped:near_identical:{group}": 9}
            batch.change_host(host)
            if target.domain_pause_ms:
                batch.change_domain(host, now_ms + target.domain_pause_ms)
        self.end(session)

    def explained(self, url: str) -> dict[str, Any]:
        facts = explain_url(str(self.root), self.config, url, self.clock)
        entries: Any = facts.collections
        assert len(entries) == 1
        return dict(entries[0])


def _number(host: str) -> int:
    return int(host.partition(".")[0].removeprefix("h"))


def _change_row(row: UrlRow, target: Target, now_ms: int) -> None:
    match target.row:
        case "later":
            row.not_before, row.reason = now_ms + 2 * DAY_MS, "host_budget"
        case "visited":
            row.state, row.visited_at, row.text_digest = "visited", now_ms - MINUTE_MS, 5
        case "old":
            row.state, row.visited_at, row.text_digest = "visited", now_ms - 9 * DAY_MS, 5
        case "gone":
            row.state, row.visited_at, row.fails = "gone", now_ms - 2 * DAY_MS, 1
        case "excluded":
            row.state, row.reason = "excluded", "media_type"


def _robots(target: Target, origin: str, now_ms: int) -> list[RobotsEntry]:
    entry = RobotsEntry(origin, 200, now_ms - MINUTE_MS, now_ms + DAY_MS, "")
    match target.robots:
        case "":
            return []
        case "disallow":
            return [entry._replace(body="User-agent: *\nDisallow: /a/\nDisallow: /item\n")]
        case "unreachable":
            return [entry._replace(status=500)]
        case "none":
            return [entry._replace(status=404)]
        case "expired":
            return [entry._replace(expires_at=now_ms - 1)]
        case _:
            return [entry]


def _crawl_decisions(stored: Stored) -> dict[str, tuple[str, str]]:
    """Return what the first turns of a worker decide about each stored URL."""
    before = {row.id.url: replace(row) for row in stored.rows()}
    session, fetcher = stored.session()
    for _ in range(TURNS):
        session.worker.turn()
    decisions: dict[str, tuple[str, str]] = {}
    for url, row in before.items():
        if row.state == "excluded":
            decisions[url] = ("refuse", row.reason)
            continue
        now = session.crawl.urls.find("c", row.id) or row
        if now.state == "excluded":
            decisions[url] = ("refuse", now.reason)
        elif now.not_before > row.not_before:
            decisions[url] = ("defer", now.reason)
        else:
            decisions[url] = ("defer", "waits")
    for request in fetcher.requests:
        assert isinstance(request.token, Task)
        if request.token.rows:
            decisions[request.url] = ("fetch", "")
            continue
        waiting = [url for url in before if url.startswith(f"{request.token.origin}/")]
        decisions.update(dict.fromkeys(waiting, ("defer", "robots_unknown")))
    session.close()
    return decisions


def _refusal_reasons(stored: Stored) -> dict[str, str]:
    """Return the reason for which a new gate refuses each link, or ''."""
    session, _ = stored.session()
    gate = session.crawl.assignments["c"].gate
    seed = next(row for row in stored.rows() if row.id.url == SEED)
    refused: dict[str, str] = {}
    for link in stored.links:
        gate.follow(seed, [link], stored.clock.now_ms())
        refused[link.target] = next(iter(gate.take_refused()), "")
    session.close()
    return refused


_DEFER_REASONS = {
    "budget",
    "paused",
    "recrawl",
    "not_due",
    "host_paused",
    "robots_unreachable",
    "host_budget",
}


@settings(max_examples=8, phases=[Phase.explicit, Phase.generate])
@given(chosen=COLLECTIONS, targets=st.lists(TARGETS, min_size=4, max_size=8))
def test_verdict_of_explain_equals_the_decision_of_the_crawl(
    chosen: dict[str, Any], targets: list[Target]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        stored = Stored(Path(folder) / "w", chosen, targets)
        urls = {row.id.url for row in stored.rows()} - {SEED}
        outcome = {url: stored.explained(url) for url in urls}
        crawled, after = _crawl_decisions(stored), dict[str, tuple[str, str]]()
        unpaused = [replace(each, host_pause_ms=0, domain_pause_ms=0) for each in targets]
        for url in urls:
            verdict = outcome[url]["verdict"], outcome[url]["verdict_reason"]
            if crawled[url] == ("defer", "waits"):
                if verdict[1] in _DEFER_REASONS:
                    assert verdict[0] == "defer", (url, outcome[url])
                else:
                    # The host is paused: compare with the decision after the pause.
                    after = after or _crawl_decisions(
                        Stored(Path(folder) / "after", chosen, unpaused)
                    )
                    assert after[url] == verdict or (
                        verdict[0] == "defer" and after[url] == ("defer", "waits")
                    ), (url, outcome[url])
            else:
                assert verdict == crawled[url], (url, outcome[url])
        for url, refusal in _refusal_reasons(stored).items():
            if refusal and url not in urls:
                facts = stored.explained(url)
                assert (facts["verdict"], facts["verdict_reason"]) == ("refuse", refusal), url
                assert any(f"({refusal})" in text for text in facts["refused_by"])


def target(**values: Any) -> Target:
    return replace(Target("/a/b.html", "", "allow", "known", 0, 0, False), **values)


@pytest.mark.parametrize(
    ("changed", "verdict", "text"),
    [
        ({}, ("fetch", ""), "waiting in the queue"),
        ({"host_pause_ms": DAY_MS}, ("defer", "host_paused"), "after the pause of the host"),
        ({"robots": "unreachable"}, ("defer", "robots_unreachable"), "robots.txt is unreachable"),
        ({"robots": ""}, ("defer", "robots_unknown"), "as soon as robots.txt has been fetched"),
        ({"robots": "disallow"}, ("refuse", "robots"), "robots.txt disallows it"),
    ],
)
def test_verdict_by_the_state_of_the_host(
    tmp_path: Path, changed: dict[str, Any], verdict: tuple[str, str], text: str
) -> None:
    stored = Stored(tmp_path / "w", {"scope": "any"}, [target(**changed)])
    facts = stored.explained(stored.links[0].target)
    assert (facts["verdict"], facts["verdict_reason"]) == verdict
    assert text in facts["due_by"]
    assert (facts["due_at"] == "now") == (verdict in (("fetch", ""), ("defer", "robots_unknown")))


def test_a_url_without_links_is_refused_by_the_disallow_line(tmp_path: Path) -> None:
    stored = Stored(tmp_path / "w", {"scope": "any"}, [target(robots="disallow")])
    facts = stored.explained("http://h0.site0.test/a/other.html")
    assert (facts["verdict"], facts["verdict_reason"]) == ("refuse", "no_link")
    assert facts["refused_by"] == ["refused (robots): robots.txt disallows it (Disallow: /a/)"]


def test_a_paused_collection_defers(tmp_path: Path) -> None:
    stored = Stored(tmp_path / "w", {"scope": "any"}, [target()])
    pause(stored.workspace.storage, "c", "anna", stored.clock)
    facts = stored.explained(stored.links[0].target)
    assert (facts["verdict"], facts["verdict_reason"]) == ("defer", "paused")
    assert facts["due_at"] is None
    assert "anna" in facts["due_by"]


def test_a_collection_that_is_not_in_the_settings_has_no_due_date(tmp_path: Path) -> None:
    stored = Stored(tmp_path / "w", {"scope": "any"}, [target()])
    url = stored.links[0].target
    assert stored.explained(url)["due_at"] is not None
    stored.config = parse_config("[[collection]]\nname = 'other'\nseeds = ['http://h.test/']\n")
    facts = stored.explained(url)
    assert (facts["verdict"], facts["verdict_reason"]) == ("defer", "not_configured")
    assert facts["due_at"] is None
    assert facts["due_by"] == (
        "its collection is not in lycosa.toml: only `lycosa crawl --collection c` fetches its URLs"
    )


def test_configured_rank_interval_is_shown(tmp_path: Path) -> None:
    stored = Stored(tmp_path / "w", {"scope": "any", "recrawl": "fresh"}, [target(row="old")])
    stored.config = parse_config("", overrides=("run.rank_interval=7h",))
    assert "computed every 7h" in stored.explained(stored.links[0].target)["due_by"]
