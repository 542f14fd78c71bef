"""Recrawl schedule: importance, change rates, triggers and revisits."""

from __future__ import annotations

import io
import itertools
import json
import subprocess
import time
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from warcio.archiveiterator import ArchiveIterator

from lycosa.config.reading import parse_config
from lycosa.config.settings import Collection
from lycosa.core.clock import SystemClock
from lycosa.core.records import FOLLOWED_KINDS, UrlState
from lycosa.crawl.recrawl.compute_schedule import CHANGED, FOLDER, Ranker, Solved, rank
from lycosa.crawl.state.assignment import recrawl_rules
from lycosa.frontier.hosts.directory import HostDirectory
from lycosa.frontier.politeness.clocks import ClockRules, Clocks
from lycosa.frontier.recrawl.change_rate import DEFAULT_PRIOR
from lycosa.frontier.recrawl.due import RecrawlRules, importance
from lycosa.frontier.recrawl.fresh import interval_of
from lycosa.frontier.rows.row_reader import HostRowReader
from lycosa.frontier.scheduler.agenda import Agenda, Pending
from lycosa.frontier.scheduler.frontier import Frontier
from lycosa.frontier.scheduler.parked_hosts import RowReaders
from lycosa.frontier.scheduler.scheduler import Scheduler, SchedulerLimits
from lycosa.graph.builder import make_generation
from lycosa.graph.generation import newest
from lycosa.maintenance.upkeep import Upkeep
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from tests.crawl.conftest import Crawled, RunCrawl, ServeWeb, page, path_of
from tests.crawl.sessions import LaterClock, collection, select, work
from tests.waiting import ManualClock

FRESH = Collection.model_validate({"recrawl": "fresh", "fetches_per_day": 4})


def ranked(crawled: Crawled, rules: RecrawlRules) -> tuple[Solved, dict[str, float]]:
    """Return the ranking result and the importance of changed rows by path."""
    changes = io.BytesIO()
    solved = rank(LiveTables(Workspace.open(str(crawled.root))), "default", rules, changes)
    rows = np.frombuffer(changes.getvalue(), CHANGED)
    paths = {row["url_key"]: path_of(str(row["url"])) for row in crawled.rows("urls")}
    return solved, {
        paths[key]: weight
        for key, weight in zip(rows["url_key"].tolist(), rows["importance"].tolist(), strict=True)
    }


def test_importance_counts_linking_pages_and_other_hosts_once_each(
    serve: ServeWeb, run: RunCrawl
) -> None:
    """Compares the ranking with a row-by-row count of the links table."""
    web = serve({}, {}, {})
    hub = web.url("/hub.html")
    for number in (1, 2, 3):
        root = web.server.servers[number - 1].root
        names = [f"/p{page_number}.html" for page_number in range(6)]
        (root / "index.html").write_text(
            page(*names, hub, hub, *(web.url(host=host) for host in (1, 2, 3)))
        )
        for name in names:
            (root / name[1:]).write_text(page("/p0.html", hub, *([name] if number > 1 else [])))
    (web.server.servers[0].root / "hub.html").write_text(
        page("/p1.html", web.url("/p1.html", host=2))
    )
    crawled = run(*(web.url(host=host) for host in (1, 2, 3)), scope="any")
    solved, results = ranked(crawled, recrawl_rules(FRESH))
    sources: dict[str, set[str]] = defaultdict(set)
    for link in crawled.rows("links"):
        if (
            link["kind"] in {kind.value for kind in FOLLOWED_KINDS}
            and link["source"] != link["target"]
        ):
            sources[str(link["target"])].add(str(link["source"]))
    host = {str(row["url"]): row["host_key"] for row in crawled.rows("urls")}
    expected: dict[str, set[float]] = defaultdict(set)
    visited = [row for row in crawled.rows("urls") if row["state"] == UrlState.VISITED]
    for row in visited:
        url = str(row["url"])
        others = {host[source] for source in sources[url]} - {row["host_key"]}
        expected[path_of(url)].add(
            round(importance(len(sources[url]), int(str(row["depth"])), len(others)), 4)
        )
    assert solved.pages == solved.changed == len(visited) == 22
    assert {
        path: round(weight, 4) for path, weight in results.items() if len(expected[path]) == 1
    } == {path: min(weights) for path, weights in expected.items() if len(weights) == 1}
    assert all(round(weight, 4) in expected[path] for path, weight in results.items())
    assert results["/hub.html"] == pytest.approx((np.sqrt(1 + 21) + 2) * 0.7)


def test_threshold_uses_the_daily_fetches(serve: ServeWeb, run: RunCrawl) -> None:
    names = [f"/{number}.html" for number in range(40)]
    web = serve(
        {"/index.html": page(*names)}
        | {name: page(*names[number:]) for number, name in enumerate(names)}
    )
    crawled = run(web.url())
    solved, weights = ranked(crawled, recrawl_rules(FRESH))
    fetches = sum(
        1 / interval_of(weight, solved.default_rate, solved.threshold)
        for weight in weights.values()
    )
    assert fetches == pytest.approx(4, rel=0.01)
    assert solved.prior == DEFAULT_PRIOR
    empty = rank(
        LiveTables(Workspace.open(str(crawled.root))), "other", recrawl_rules(FRESH), io.BytesIO()
    )
    assert (empty.pages, empty.changed) == (0, 0)


def test_ranking_process_returns_the_same_result(serve: ServeWeb, run: RunCrawl) -> None:
    crawled = run(serve({"/index.html": page("/1.html"), "/1.html": page()}).url())
    solved, _ = ranked(crawled, recrawl_rules(FRESH))
    ranker = Ranker(Workspace.open(str(crawled.root)), SystemClock())
    ranker.start("default", recrawl_rules(FRESH))
    deadline = time.monotonic() + 60
    while (result := ranker.take()) is None and ranker.busy and time.monotonic() < deadline:
        time.sleep(0.05)
    assert result is not None
    with result.changes as changes:
        assert len(changes.read()) == solved.changed * CHANGED.itemsize
    assert (result.collection, result.solved) == ("default", solved)
    ranker.start("default", recrawl_rules(FRESH))
    ranker.close()
    assert not ranker.busy
    folder = crawled.root / FOLDER / "default"
    assert [path.name for path in folder.iterdir() if path.name[0] != "."] == ["00000001"]


def test_upkeep_compacts_and_ranks_in_a_job(
    serve: ServeWeb, run: RunCrawl, monkeypatch: pytest.MonkeyPatch
) -> None:
    web = serve({"/index.html": page("/1.html"), "/1.html": page()})
    crawled = run(web.url(), max_pages=1)
    workspace = Workspace.open(str(crawled.root))
    with monkeypatch.context() as patched:  # a generation of 1970
        patched.setattr("lycosa.graph.builder.SystemClock", lambda: ManualClock(0))
        make_generation(workspace)
    run()
    files = len(workspace.state().files["urls"])
    clock = ManualClock(SystemClock().now_ms())
    upkeep = Upkeep(
        workspace,
        parse_config("", overrides=("store.merge_commits=2", "run.merge_interval=1m")),
        clock,
    )
    upkeep.tick()
    assert upkeep._job is None
    for _ in range(2):
        clock.advance(3_600_001)
        upkeep.tick()
        job = upkeep._job
        assert isinstance(job, subprocess.Popen)
        assert job.wait(60) == 0
    assert len(workspace.state().files["urls"]) < files
    ranked = newest(workspace)
    assert ranked is not None
    assert ranked[0].generation == 2
    upkeep.close()


def test_resumed_crawl_ranks_first_and_stores_the_importance(
    serve: ServeWeb, run: RunCrawl
) -> None:
    web = serve(
        {"/index.html": page("/1.html", "/2.html"), "/1.html": page("/2.html"), "/2.html": page()}
    )
    run(web.url())
    crawled = run(recrawl="fresh", fetches_per_day=4)
    weights = {
        path_of(str(row["url"])): float(str(row["importance"])) for row in crawled.rows("urls")
    }
    linking_pages = {"/": 0, "/1.html": 1, "/2.html": 2}
    assert weights == {
        path: pytest.approx(importance(count, 0 if path == "/" else 1))
        for path, count in linking_pages.items()
    }
    assert ranked(crawled, recrawl_rules(FRESH))[0].changed == 0


def test_new_recrawl_rules_make_parked_hosts_due(serve: ServeWeb, run: RunCrawl) -> None:
    web = serve({"/index.html": page("/1.html"), "/1.html": page()})
    workspace = Workspace.open(str(run(web.url()).root))
    rules, clock = recrawl_rules(FRESH), SystemClock()
    scheduler = Scheduler(
        Frontier(Clocks(ClockRules.strictest([FRESH]), clock.monotonic_ms()), {}),
        HostDirectory(),
        Agenda({"default": rules}, clock),
        SchedulerLimits(active_hosts=10, waiting_urls=100),
        clock,
        Pending(lambda _: (), lambda _: None, lambda _: False),
        lambda row: row.depth,
    )
    path = workspace.storage.files.local_path
    row_readers = RowReaders(HostRowReader("urls", path), HostRowReader("hosts", path))
    row_readers.refresh(workspace.state())
    assert sum(frame.height for frame in scheduler.load(row_readers)) == 2
    assert scheduler.next_time() is None
    scheduler.agenda.set_rules("default", replace(rules, threshold=1e-9))
    assert scheduler.next_time() is None
    assert len(list(scheduler.renew())) == 1
    due = scheduler.next_time()
    assert due is not None
    assert due <= clock.monotonic_ms() + 2 * rules.shortest_ms


def test_a_link_makes_a_page_due_when_it_is_older_than_max_age(
    serve: ServeWeb, run: RunCrawl
) -> None:
    web = serve({"/index.html": page("/old.html"), "/old.html": page()})
    on_link = {"recrawl": "age", "recrawl_triggers": ["on_link"], "max_age": "1h"}
    run(web.url(), **on_link)
    mark = web.server.mark()
    run(**on_link)
    assert web.requested_paths(mark) == []  # nothing is due without a link
    later = LaterClock(2 * 3_600_000)
    (web.server.servers[0].root / "new.html").write_text(page("/old.html"))
    crawled = run(web.url("/new.html"), **on_link, clock=later)
    assert web.requested_paths(mark)[:2] == ["/new.html", "/old.html"]
    old = next(row for row in crawled.rows("urls") if path_of(str(row["url"])) == "/old.html")
    assert old["checks"] == 1
    mark = web.server.mark()
    (web.server.servers[0].root / "newer.html").write_text(page("/old.html"))
    run(web.url("/newer.html"), **{**on_link, "max_age": "1d"}, clock=later)
    assert web.requested_paths(mark) == ["/newer.html"]  # not older than max_age


@pytest.mark.parametrize("trigger", ["timer", "on_link"])
def test_a_crawl_fetches_no_page_twice(serve: ServeWeb, run: RunCrawl, trigger: str) -> None:
    pages = {f"/{number}.html": page("/") for number in range(8)}
    web = serve({"/index.html": page(*pages), **pages})
    often: dict[str, object] = {
        "recrawl": "age",
        "recrawl_triggers": [trigger],
        "max_age": "1s",
        "delay": "200ms",
        "settings": ("crawl.patience=10s",),
        "max_time_ms": 20_000,
    }
    assert run(web.url(), **often).progress.ended == "finished"
    assert sorted(web.requested_paths()) == ["/", *pages]
    mark = web.server.mark()
    clock = LaterClock(10_000)
    assert run(web.url(), clock=clock, **often).progress.ended == "finished"
    assert ("/" in web.requested_paths(mark)) == (trigger == "timer")


def test_pages_feeds_and_sitemaps_that_settings_no_longer_admit_are_kept_and_not_fetched(
    serve: ServeWeb, tmp_path: Path
) -> None:
    feed = '<link rel="alternate" type="application/rss+xml" href="/feed.xml">'
    pages = {
        "/index.html": page("/1.html", "/2.html").replace("<title>", f"{feed}<title>"),
        "/1.html": page(),
        "/2.html": page(),
        "/feed.xml": "<rss><channel/></rss>",
    }
    web = serve(pages, pages)
    one, two = web.url(host=1), web.url(host=2)

    def requested(days: int, seeds: list[str], **settings: object) -> dict[str, list[str]]:
        mark = web.server.mark()
        chosen = collection("default", recrawl="age", max_age="1d", **settings)
        work(tmp_path / "w", [(chosen, seeds)], clock=LaterClock(days * 86_400_000))
        paths: dict[str, list[str]] = {one: [], two: []}
        for request in web.server.requests(mark):
            if request.uri != "/robots.txt":
                paths[f"http://{request.host}/"].append(request.uri)
        return {url: sorted(of_host) for url, of_host in paths.items()}

    every = ["/", "/1.html", "/2.html", "/feed.xml"]
    assert requested(0, [one, two]) == {one: every, two: every}
    assert requested(2, [one], deny=["/2[.]html$"]) == {one: [*every[:2], "/feed.xml"], two: []}
    rows = select(tmp_path / "w", "SELECT state, reason FROM urls WHERE operation = ''")
    assert Counter((row["state"], row["reason"]) for row in rows) == {
        ("visited", ""): 2,
        ("visited", "pattern"): 1,
        ("visited", "scope"): 3,
    }
    assert requested(4, [one, two]) == {one: every, two: every}


def test_sitemap_dates_of_an_unknown_host_count_half(serve: ServeWeb, run: RunCrawl) -> None:
    pages = {f"/{number}.html": page() for number in range(3)}
    entries = "".join(
        f"<url><loc>%s{name}</loc><lastmod>2099-01-01</lastmod></url>" for name in pages
    )
    web = serve({"/index.html": page(*pages)} | pages)
    origin = web.url()[:-1]
    root = web.server.servers[0].root
    run(web.url(), sitemaps=False)
    head = '<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
    (root / "list.xml").write_text(head + entries.replace("%s", origin) + "</urlset>")
    crawled = run(recrawl="fresh", fetches_per_day=1_000, feed_urls=[f"{origin}/list.xml"])
    claims = {path_of(str(row["url"])): row["claim"] for row in crawled.rows("urls")}
    # the accuracy of this host's dates is unknown
    assert {name: claims[name] for name in pages} == dict.fromkeys(pages, 0.5)
    assert claims["/"] == 0.0


def test_a_call_reports_the_refetches_that_its_budget_does_not_admit(
    serve: ServeWeb, run: RunCrawl
) -> None:
    pages = {f"/{number}.html": page() for number in range(30)}
    web = serve({"/index.html": page(*pages)} | pages)
    (web.server.servers[0].root / "feed.xml").write_text("<rss><channel/></rss>")
    settings: dict[str, object] = {
        "recrawl": "fresh",
        "fetches_per_day": 1_440,
        "feed_urls": [web.url("/feed.xml")],
    }
    assert run(web.url(), **settings).progress.later == {}  # the feed was read
    mark = web.server.mark()
    later = run(clock=LaterClock(86_400_000), **settings).progress.later
    refetched = [path for path in web.requested_paths(mark) if path != "/feed.xml"]
    assert 1 <= len(refetched) <= 10
    assert later == {"refetch_budget": 31 - len(refetched)}


@pytest.mark.proves("politeness-conditional")
def test_unchanged_pages_are_requested_conditionally_and_stored_as_revisits(
    serve: ServeWeb, run: RunCrawl
) -> None:
    """Three servers: with ETag, with Last-Modified only, with neither."""
    web = serve(
        *(
            {"/index.html": page(text=f"the text of {kind}")}
            for kind in ("tags", "dates", "neither")
        ),
        extra=["", "etag off;", 'etag off; if_modified_since off; add_header Last-Modified "";'],
    )
    again = {"recrawl": "age", "max_age": "1h"}
    hosts = [web.url(host=host) for host in (1, 2, 3)]
    first = run(*hosts, **again)
    mark = web.server.mark()
    second = run(**again, max_pages=None, clock=LaterClock(2 * 3_600_000))
    statuses = {
        request.host.split(":")[0]: request.status
        for request in web.server.requests(mark)
        if request.uri == "/"
    }
    assert statuses == {"127.0.3.1": 304, "127.0.3.2": 304, "127.0.3.3": 200}
    assert len(first.rows("pages")) == len(second.rows("pages")) == second.count("pages") == 3
    visits = pl.DataFrame(second.rows("visits")).filter(pl.col("kind") == "page").sort("fetched_at")
    assert visits["changed"].to_list()[:6] == [True] * 3 + [False] * 3
    assert not any(visits["changed"].to_list()[6:]), (
        "further visits on a slow machine are unchanged too"
    )
    records = defaultdict(list)
    for warc in sorted(second.root.rglob("*.warc.gz")):
        with warc.open("rb") as file:
            for record in ArchiveIterator(file):
                fields, uri = record.rec_headers, record.rec_headers.get_header("WARC-Target-URI")
                if uri in hosts:
                    records[uri, record.rec_type].append(
                        (fields, record.http_headers, record.content_stream().read())
                    )
    for number, uri in enumerate(hosts):
        (response,), (revisit, *_) = records[uri, "response"], records[uri, "revisit"]
        assert revisit[0].get_header("WARC-Refers-To") == response[0].get_header("WARC-Record-ID")
        assert revisit[0].get_header("WARC-Payload-Digest") == response[0].get_header(
            "WARC-Payload-Digest"
        )
        assert revisit[2] == b""
        request_headers = records[uri, "request"][1][1]
        assert bool(request_headers.get_header("If-None-Match")) == (number == 0)
        assert bool(request_headers.get_header("If-Modified-Since")) == (number == 1)
    rows = second.rows("urls")
    assert [row["changes"] for row in rows] == [0, 0, 0]
    assert all(len(json.dumps(row["history"])) > 2 for row in rows)


def test_a_page_that_moved_is_stored_again_when_it_returns_unchanged(
    serve: ServeWeb, run: RunCrawl
) -> None:
    rule = "location = /page.html { if (-f $document_root/moved) { return 301 /; } }"
    web = serve({"/index.html": page("/page.html"), "/page.html": page()}, extra=[rule])
    moved = web.server.servers[0].root / "moved"
    rows = []
    for hours in (0, 2, 4):
        clock = LaterClock(hours * 3_600_000)
        crawled = run(web.url(), recrawl="age", max_age="1h", max_pages=None, clock=clock)
        (url,) = (row for row in crawled.rows("urls") if row["url"] == web.url("/page.html"))
        (stored,) = (row for row in crawled.rows("pages") if row["url"] == url["url"])
        rows.append((url["reason"], url["record_id"], stored["record_id"]))
        moved.unlink() if moved.exists() else moved.touch()
    first, last = rows[0][1], rows[2][1]
    assert first != last
    assert rows == [("", first, first), ("redirect", "", first), ("", last, last)]


def test_retry_interval_of_a_failing_page_doubles(serve: ServeWeb, run: RunCrawl) -> None:
    web = serve({"/index.html": page("/bad.html")}, extra=["location /bad.html { return 500; }"])
    quick = ("fetch.retries=1", "fetch.retry_later=600ms", "crawl.patience=2s")
    crawled = run(web.url(), settings=quick, max_time_ms=None)
    visits = pl.DataFrame(crawled.rows("visits")).filter(pl.col("http_status") == 500)
    failed_at = visits["fetched_at"].dt.epoch("ms").sort().to_list()
    waits = [later - earlier for earlier, later in itertools.pairwise(failed_at[1:])]
    # retries after 100 ms, 600 ms and 1.2 s; the next one, after 2.4 s, exceeds the patience
    assert len(failed_at) == 4
    assert waits[0] >= 600
    assert waits[1] >= 1_200
    assert crawled.states()["/bad.html"] == ("known", "http_500")


def test_crawl_ends_with_more_visited_pages_than_the_queue_holds(
    serve: ServeWeb, run: RunCrawl
) -> None:
    """Pages due in a day are no work: the tables are not read in a loop."""
    names = [f"/{number}.html" for number in range(150)]
    web = serve({"/index.html": page(*names)} | dict.fromkeys(names, page()))
    run(web.url(), settings=("crawl.waiting_urls=100",))
    mark = web.server.mark()
    (web.server.servers[0].root / "new.html").write_text(page())
    crawled = run(
        web.url("/new.html"),
        settings=("crawl.waiting_urls=100",),
        recrawl="age",
        max_age="1d",
        max_time_ms=20_000,
    )
    assert (web.requested_paths(mark), crawled.progress.ended) == (["/new.html"], "finished")


def test_no_page_is_refetched_without_a_ranking() -> None:
    assert interval_of(1.0, 1.0, recrawl_rules(FRESH).threshold) == float("inf")
    assert parse_config("").run.rank_interval == 86_400_000
