"""Several workers have the same result as one, also if workers are killed."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count, pairwise
from pathlib import Path

import polars as pl
import pytest

from lycosa.core.clock import SystemClock
from lycosa.core.errors import ClaimLost
from lycosa.crawl.admission.inbox import submission
from lycosa.crawl.membership import Lease, PingReply
from lycosa.crawl.state.task import Job
from lycosa.store.tables.live import LiveTables
from lycosa.store.verify.check import verify
from tests.crawl.conftest import ServeWeb, page
from tests.crawl.worker_group import PARTITIONS, WorkerGroup, job
from tests.servers.synthetic.plan import WebPlan
from tests.servers.synthetic.request_log import LogEntry
from tests.servers.synthetic.simulated import SimulatedClock, SimulatedFetcher
from tests.servers.synthetic.web import Web

PLAN = WebPlan.calm(
    seed=11,
    hosts=20,
    pages=120,
    subdomains=0.3,
    sitemaps=0.5,
    redirects=0.06,
    gone=0.03,
    robots_foreign=0.1,
)

Facts = dict[str, list[tuple[object, ...]]]


class SimulatedWorkerGroup(WorkerGroup):
    """A worker group over a synthetic web in simulated time.

    `logs`: the requests of each member.
    """

    def __init__(self, root: Path, plan: WebPlan = PLAN, **settings: object) -> None:
        self.web = Web(plan)
        clock = SimulatedClock(plan.epoch_ms)
        self.logs: dict[str, list[LogEntry]] = defaultdict(list)
        super().__init__(root, clock, job(self.web.seeds(), **settings))
        self.fetcher = lambda name: SimulatedFetcher(self.web, clock, record=self.logs[name].append)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Facts:
    return single_worker_facts(tmp_path_factory.mktemp("alone") / "one")


@contextmanager
def worker_group(
    root: Path, plan: WebPlan = PLAN, **settings: object
) -> Iterator[SimulatedWorkerGroup]:
    members = SimulatedWorkerGroup(root, plan, **settings)
    try:
        yield members
    finally:
        members.close()


def single_worker_facts(root: Path, plan: WebPlan = PLAN, **settings: object) -> Facts:
    """Return the tables of a crawl by one worker with all partitions."""
    with worker_group(root, plan, **settings) as one:
        session = one.join("one", None)
        progress = session.worker.run()
        while progress.ended == "finished" and session.walk_depth_decreased():
            progress = session.worker.run()
        one.leave("one")
        return one.facts()


def assert_one_worker_per_host(logs: dict[str, list[LogEntry]]) -> None:
    """Check that requests of different workers to a host keep the delay.

    Redirected robots.txt requests are ignored.
    """
    by_host: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
    for name, log in logs.items():
        for request in log:
            if not request.path.startswith("/robots-of/"):
                by_host[request.host].append((request.arrived_at_ms, request.answered_at_ms, name))
    for host, requests in by_host.items():
        requests.sort()
        for (_, ended, one), (began, _, other) in pairwise(requests):
            assert one == other or began >= ended + 1_000, (
                f"{host}: {one} until {ended}, {other} from {began}"
            )


@pytest.mark.proves("politeness-workers", "cluster-one-worker", "cluster-same-result")
@pytest.mark.parametrize("workers", [2, 4])
def test_several_workers_store_the_same_rows_as_one(
    tmp_path: Path, expected: Facts, workers: int
) -> None:
    with worker_group(tmp_path / "many") as many:
        many.share([f"w{number}" for number in range(workers)])
        many.run()
        assert many.table("found").height == 0  # all found rows are applied
        many.close()
        results = many.facts()
        for table, rows in expected.items():
            assert results[table] == rows, table
        assert_one_worker_per_host(many.logs)
        assert min(len(log) for log in many.logs.values()) > 0
        assert many.found_rows < 3 * many.pages  # a page has 20 links
        assert not verify(many.workspace()).findings


@pytest.mark.proves("cluster-same-result")
def test_several_workers_fetch_the_same_pages_within_a_depth_limit(
    tmp_path: Path, expected: Facts
) -> None:
    shallow = single_worker_facts(tmp_path / "one", depth=3)
    assert shallow["urls"] != expected["urls"]
    with worker_group(tmp_path / "many", depth=3) as many:
        many.share(["a", "b", "c", "d"])
        many.run()
        many.close()
        results = many.facts()
    for table in ("urls", "pages"):
        assert results[table] == shallow[table], table


@pytest.mark.proves("politeness-workers", "cluster-one-worker", "cluster-deaths")
@pytest.mark.parametrize(
    "seed",
    [
        *(0, 7, 18),  # a depth was lost with the last two
        *(
            pytest.param(each, marks=pytest.mark.prove)
            for each in range(1, 21)
            if each not in (7, 18)
        ),
    ],
)
def test_killed_workers_lose_and_duplicate_no_row(
    tmp_path: Path, expected: Facts, seed: int
) -> None:
    chance = random.Random(seed)
    # With a depth limit, even a large one, the next worker recomputes the depths that the killed
    # one had not updated yet.
    with worker_group(tmp_path / "many", depth=100) as many:
        names = iter(f"w{number}" for number in range(100))
        many.share([next(names) for _ in range(3)])
        for _ in range(4):
            target = many.turns + chance.randrange(5, 60)
            many.run(lambda target=target: many.turns >= target)  # type: ignore[misc]
            held = many.kill(chance.choice(sorted(many.members)))
            if chance.random() < 0.5 or not many.members:  # two new workers share its partitions
                part = frozenset(partition for partition in held if chance.random() < 0.5)
                for share in (part, held - part):
                    if share:
                        many.join(next(names), share)
            else:  # a running worker claims them in addition to its own
                name = chance.choice(sorted(many.members))
                many.join(next(names), many.leave(name) | held)
        many.run()
        many.close()
        results = many.facts()
        for table, rows in expected.items():
            assert results[table] == rows, table
        assert max(Counter(many.table("visits")["record_id"]).values()) == 1
        assert_one_worker_per_host(many.logs)
        assert not verify(many.workspace()).findings


def test_single_worker_applies_the_links_found_by_earlier_workers(
    tmp_path: Path, expected: Facts
) -> None:
    with worker_group(tmp_path / "many") as many:
        many.share(["a", "b"])
        many.run(lambda: many.turns > 60)
        many.kill("a")
        many.leave("b")
        session = many.join("all", None)
        session.worker.run()
        session.walk_depth_decreased()
        session.worker.run()
        many.leave("all")
        assert (many.facts()["urls"], many.table("found").height) == (expected["urls"], 0)


def test_idle_workers_do_not_make_each_other_commit(tmp_path: Path) -> None:
    with worker_group(tmp_path / "many", WebPlan.calm(seed=3, hosts=6, pages=12)) as many:
        many.share(["a", "b", "c"])
        many.run()
        head = many.workspace().state().head
        start = many.clock.now_ms()
        many.run(lambda: many.clock.now_ms() > start + 1_800_000)
        assert many.workspace().state().head == head


def test_workers_with_few_hosts_do_not_commit_each_page(tmp_path: Path) -> None:
    """Although nothing is due most of the time, a commit has several pages."""
    with worker_group(tmp_path / "many", WebPlan.calm(seed=3, hosts=6, pages=240)) as many:
        many.share(["a", "b", "c"])
        many.run()
        assert many.table("pages").height > 5 * many.workspace().state().head


@pytest.mark.proves("durability-commit-interval")
def test_no_response_waits_longer_than_the_interval_for_its_commit(tmp_path: Path) -> None:
    """600 pages in simulated time; `commit_pages` alone would cause no commit."""
    interval_ms = 20_000
    with worker_group(tmp_path / "one", WebPlan.calm(seed=3, hosts=6, pages=600)) as one:
        one.settings = ("crawl.commit_pages=100000", f"crawl.commit_interval={interval_ms}ms")
        one.join("one", None).worker.run()
        one.leave("one")
        visits = LiveTables(one.workspace()).scan("visits", entry=True).collect()
        commits = (
            visits.group_by("entry")
            .agg(pl.col("fetched_at").dt.epoch("ms").sort())
            .sort("entry")["fetched_at"]
            .to_list()
        )
        waits = [times[-1] - times[0] for times in commits]
        assert len(waits) > 3
        assert max(waits) <= interval_ms + one.longest_wait_ms


@pytest.mark.proves("cluster-lease")
def test_no_request_starts_without_a_lease(tmp_path: Path) -> None:
    with worker_group(
        tmp_path / "w", WebPlan.calm(seed=5, hosts=8, pages=60, latency_ms=400.0)
    ) as many:
        lease = Lease(many.clock, 20_000)
        everything = PingReply(partitions=frozenset(range(PARTITIONS)), number=1)
        session = many.join("a", range(PARTITIONS), lease=lease)
        many.run(lambda: many.turns > 20)
        assert not many.logs["a"]
        began = lease.sending()
        lease.answered(began, everything)
        many.run(lambda: session.worker.progress.pages > 5)
        until = began + 20_000
        many.run(lambda: not lease.holds and many.clock.monotonic_ms() > until + 2_000)
        assert max(request.arrived_at_ms for request in many.logs["a"]) < until
        assert (
            max(request.answered_at_ms for request in many.logs["a"])
            <= until + many.longest_wait_ms
        )
        lease.answered(
            lease.sending(), PingReply(partitions=frozenset(range(PARTITIONS)), number=2)
        )
        request_count = len(many.logs["a"])
        many.run(lambda: len(many.logs["a"]) > request_count)
        lease.answered(
            lease.sending(), PingReply(partitions=frozenset(range(1, PARTITIONS)), number=3)
        )
        reassigned_at = many.clock.now_ms()
        many.run(lambda: many.clock.now_ms() > reassigned_at + 2_000)
        # the claim must end because its partitions changed: no request starts
        assert all(request.arrived_at_ms <= reassigned_at for request in many.logs["a"])


def test_aborted_robots_txt_is_requested_again_after_the_delay(tmp_path: Path) -> None:
    """The lease ends because the coordinator does not reply.

    Aborted requests count as requests of their host.
    """
    with worker_group(
        tmp_path / "w", WebPlan.calm(seed=5, hosts=8, pages=60, latency_ms=4_000.0)
    ) as many:
        lease = Lease(many.clock, 3_000)
        answers = (
            PingReply(partitions=frozenset(range(PARTITIONS)), number=number) for number in count(1)
        )
        many.join("a", range(PARTITIONS), lease=lease)
        for _ in range(4):
            lease.answered(lease.sending(), next(answers))
            many.run(lambda: not lease.holds)
            many.turn()
            many.turn()
        dropped = {
            request
            for request in many.logs["a"]
            if not request.status and request.path == "/robots.txt"
        }
        assert len(dropped) >= 4
        by_host: dict[str, list[LogEntry]] = defaultdict(list)
        for request in many.logs["a"]:
            by_host[request.host].append(request)
        repeated = [
            (one, other)
            for requests in by_host.values()
            for one, other in pairwise(requests)
            if one in dropped
        ]
        assert len(repeated) >= 3
        assert all(other.arrived_at_ms >= one.answered_at_ms + 1_000 for one, other in repeated)


@pytest.mark.proves("cluster-fencing")
def test_fenced_worker_commits_nothing(tmp_path: Path) -> None:
    with worker_group(tmp_path / "w") as many:
        many.share(["a", "b"])
        many.run(lambda: many.turns > 30)
        lost = many.members.pop("a")
        many.join("c", lost.claim.partitions)
        head = many.workspace().state().head
        with pytest.raises(ClaimLost):
            lost.worker.run()
        lost.close()
        log = many.workspace().state()
        assert all(
            info.number != lost.claim.entry or not log.holds(info.number)
            for info in log.claims.values()
        )
        assert many.workspace().state().head == head


@pytest.mark.proves("cluster-quotas")
def test_page_quota_is_never_exceeded_and_can_be_raised(tmp_path: Path) -> None:
    with worker_group(tmp_path / "w", max_pages=1_000) as many:
        sessions = [
            many.join(name, range(number, PARTITIONS, 2), granted={"default": 12})
            for number, name in enumerate("ab")
        ]
        max_added = [0, 0]

        def check_quota() -> bool:
            for number, session in enumerate(sessions):
                added = session.worker.quota.added()["default"]
                max_added[number] = max(max_added[number], added)
                assert added <= session.crawl.assignments["default"].grant  # type: ignore[operator]
            return many.turns > 600

        many.run(check_quota)
        assert max_added == [12, 12]
        # there is more to fetch
        assert not any(session.worker.idleness.idle for session in sessions)
        sessions[0].worker.quota.grant({"default": 20})
        many.turns = 0
        many.run(check_quota)
        assert max_added == [20, 12]


def test_inbox_file_is_applied_once_and_its_urls_reach_their_owners(tmp_path: Path) -> None:
    with worker_group(tmp_path / "w", WebPlan.calm(seed=9, hosts=12, pages=12), depth=0) as many:
        many.share(["a", "b", "c"])
        many.run()
        hosts = [f"http://{many.web.layout.hosts.get(number).name}/" for number in range(12)]
        text = submission("default", hosts, "2023-11-14T22:13:20Z")
        many.workspace().storage.make_folder("inbox")
        many.workspace().storage.replace("inbox/some.json", text)
        many.run(lambda: "some.json" in many.workspace().state().inbox)
        many.run()
        visited = (
            many.table("urls")
            .filter((pl.col("state") == "visited") & (pl.col("operation") == ""))["url"]
            .to_list()
        )
        assert sorted(visited) == sorted({*hosts, *many.job.seeds})
        assert not many.workspace().storage.names("inbox")


def test_partitions_claimed_later_process_links_with_the_changed_settings(
    tmp_path: Path, expected: Facts
) -> None:
    with worker_group(tmp_path / "w", deny=["go"]) as many:
        many.share(["a", "b"])
        many.run()
        before = set(many.table("urls")["url"])
        many.close()
        many.job = Job(many.job.collection.model_copy(update={"deny": ()}), many.job.seeds)
        many.join("c", range(0, PARTITIONS, 2))  # its claim writes the new settings
        many.join("d", range(1, PARTITIONS, 2))
        many.run()
        many.close()
        assert before < set(many.table("urls")["url"])
        wide = {row[2] for row in expected["urls"]}
        assert set(many.table("urls")["url"]) == wide


@pytest.mark.proves("cluster-one-worker")
def test_each_server_receives_requests_of_one_worker(tmp_path: Path, serve: ServeWeb) -> None:
    hosts = 6
    sites = []
    for number in range(1, hosts + 1):
        others = [f"http://127.0.3.{other}:PORT/p{other}.html" for other in range(1, hosts + 1)]
        sites.append(
            {
                "/index.html": "HOME",
                **{
                    f"/p{at}.html": page("/", *others, text=f"page {at} of {number}")
                    for at in range(1, 9)
                },
            }
        )
    web = serve(*({path: page() for path in site} for site in sites))
    for number, site in enumerate(sites, 1):
        links = [f"/p{at}.html" for at in range(1, 9)]
        for path, content in site.items():
            text = (
                page(*links) if content == "HOME" else content.replace("PORT", str(web.server.port))
            )
            (tmp_path / f"site-{number}" / path.lstrip("/")).write_text(text)
    # private addresses are only requested if they are seeds
    seeds = [web.url("/", number) for number in range(1, hosts + 1)]
    quick = {"delay": "10ms", "media_types": ["*"]}
    counts = {}
    for name, workers in (("one", 0), ("three", 3)):
        mark = web.server.mark()
        settings = ("crawl.patience=1s", "crawl.commit_interval=2s")
        group = WorkerGroup(
            tmp_path / name,
            SystemClock(),
            job(seeds, **quick),
            settings=settings,
            longest_wait_ms=20,
        )
        try:
            if workers:
                group.share([f"w{number}" for number in range(workers)])
                group.run()
            else:
                group.join("one", None).worker.run()
        finally:
            group.close()
        counts[name] = Counter(request.url for request in web.server.requests(mark))
        assert (len(group.facts()["pages"]), max(counts[name].values())) == (hosts * 9, 1)
    assert counts["one"] == counts["three"]
