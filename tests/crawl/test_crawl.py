"""Complete crawls of small sites.

Order, depth, robots.txt, redirects, politeness, retries, limits and resuming.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from lycosa.core.errors import OwnedError, UsageError
from lycosa.crawl.session.session import CrawlSession, open_session
from lycosa.crawl.worker import Worker
from lycosa.index.follower import IndexFollower
from lycosa.processes.threads import Stoppable
from lycosa.search.engine.searcher import Searcher, SearchRequest
from tests.crawl.conftest import Crawled, RunCrawl, ServeWeb, SmallWeb, full_disk, page


def assert_counts_add_up(crawled: Crawled) -> None:
    """Check the workspace and the counters of the worker against the tables."""
    stored = Counter(str(row["state"]) for row in crawled.rows("urls"))
    assert +crawled.progress.states == stored
    for name in ("known", "visited"):
        assert sum(int(str(row[name])) for row in crawled.rows("hosts")) == stored[name]
    assert sum(int(str(row["pages"])) for row in crawled.rows("hosts")) == crawled.count("pages")
    crawled.assert_sound()


CHAIN = {
    "/index.html": page("/1.html", "/2.html"),
    "/1.html": page("/1/a.html"),
    "/2.html": page("/1.html"),
    "/1/a.html": page("/1/b.html"),
    "/1/b.html": page(),
}


@pytest.mark.proves("consistency-once")
def test_breadth_first_each_page_once(serve: ServeWeb, run: RunCrawl) -> None:
    web = serve(CHAIN)
    crawled = run(web.url())
    assert web.requested_paths() == ["/", "/1.html", "/2.html", "/1/a.html", "/1/b.html"]
    assert crawled.depths() == {"/": 0, "/1.html": 1, "/2.html": 1, "/1/a.html": 2, "/1/b.html": 3}
    assert crawled.progress.ended == "finished"
    assert_counts_add_up(crawled)


@pytest.mark.proves("politeness-robots-first")
def test_robots_txt_is_requested_first_and_once_per_origin(serve: ServeWeb, run: RunCrawl) -> None:
    web = serve(CHAIN, {"/index.html": page()})
    run(web.url(), web.url(host=2))
    request_log = [(request.host, request.uri) for request in web.server.requests()]
    for host in {host for host, _ in request_log}:
        paths = [path for name, path in request_log if name == host]
        assert (paths[0], paths.count("/robots.txt")) == ("/robots.txt", 1)


def test_crawl_with_a_larger_depth_fetches_only_new_pages(serve: ServeWeb, run: RunCrawl) -> None:
    web = serve(CHAIN)
    first = run(web.url(), depth=1)
    assert (first.pages(), first.progress.refused["depth"]) == (["/", "/1.html", "/2.html"], 1)
    assert_counts_add_up(first)
    mark = web.server.mark()
    second = run(depth=2)
    assert web.requested_paths(mark) == ["/1/a.html"]
    assert second.pages() == ["/", "/1.html", "/1/a.html", "/2.html"]
    third = run()
    assert third.pages() == ["/", "/1.html", "/1/a.html", "/1/b.html", "/2.html"]
    assert third.progress.pages == 1
    assert_counts_add_up(third)


def test_smaller_depth_excludes_queued_urls_and_no_limit_readmits_them(
    serve: ServeWeb, run: RunCrawl
) -> None:
    run(serve(CHAIN).url(), max_pages=1)
    narrow = run(depth=0)
    assert narrow.states() == {
        "/": ("visited", ""),
        "/1.html": ("excluded", "depth"),
        "/2.html": ("excluded", "depth"),
    }
    assert_counts_add_up(narrow)
    wide = run()
    assert wide.pages() == ["/", "/1.html", "/1/a.html", "/1/b.html", "/2.html"]
    assert_counts_add_up(wide)


def serve_two_paths(serve: ServeWeb) -> SmallWeb:
    """Serve a page of host 2 behind a long fast path and a short slow path."""
    web = serve({}, {}, extra=["location /short.html { limit_rate 4k; }", ""])
    target = web.url("/t.html", host=2)
    web.write(
        {
            "index.html": page("/short.html", "/l1.html"),
            "short.html": page(target, text="x" * 2_000),
            "l1.html": page("/l2.html"),
            "l2.html": page(target),
        }
    )
    web.write({"t.html": page("/u.html"), "u.html": page("/v.html"), "v.html": page()}, host=2)
    return web


def test_depth_is_exact_although_the_shorter_path_is_slower(serve: ServeWeb, run: RunCrawl) -> None:
    web = serve_two_paths(serve)
    crawled = run(
        web.url(), web.url("/named.html", host=2), scope="any", depth=4, connections_per_host=4
    )
    depths = {
        "/": 0,
        "/named.html": 0,
        "/short.html": 1,
        "/l1.html": 1,
        "/l2.html": 2,
        "/t.html": 2,
        "/u.html": 3,
        "/v.html": 4,
    }
    assert crawled.depths() == depths
    assert "/v.html" in crawled.pages()
    assert_counts_add_up(crawled)


@pytest.mark.proves("limits-quotas")
def test_max_pages_is_exact_and_the_next_crawl_resumes(serve: ServeWeb, run: RunCrawl) -> None:
    site = {"/index.html": page(*(f"/{number}.html" for number in range(20)))} | {
        f"/{number}.html": page() for number in range(20)
    }
    web = serve(site)
    first = run(web.url(), max_pages=7, connections_per_host=4)
    assert (first.progress.ended, first.count("pages")) == ("max_pages", 7)
    assert (first.progress.later["not_reached"], run(max_pages=7).count("pages")) == (14, 14)
    third = run()
    assert (third.count("pages"), Counter(web.requested_paths()).most_common(1)[0][1]) == (21, 1)
    assert_counts_add_up(third)


def test_max_pages_of_a_collection_counts_all_crawls(serve: ServeWeb, run: RunCrawl) -> None:
    assert run(serve(CHAIN).url(), quota=2).count("pages") == 2
    second = run(quota=3)
    assert (second.count("pages"), second.progress.ended) == (3, "max_pages")


@pytest.mark.proves("politeness-robots")
def test_robots_rules_are_obeyed_and_explainable(serve: ServeWeb, run: RunCrawl) -> None:
    robots = (
        "User-agent: lycosa\nDisallow: /private\nAllow: /private/open\n\nUser-agent: "
        "*\nDisallow: /\n"
    )
    web = serve(
        {
            "/robots.txt": robots,
            "/index.html": page("/private/a.html", "/private/open.html", "/b.html"),
            "/private/a.html": page(),
            "/private/open.html": page(),
            "/b.html": page(),
        }
    )
    crawled = run(web.url())
    assert crawled.states()["/private/a.html"] == ("excluded", "robots")
    assert sorted(web.requested_paths()) == ["/", "/b.html", "/private/open.html"]
    assert_counts_add_up(crawled)


def test_seed_that_redirects_out_of_the_scope_is_reported(serve: ServeWeb, run: RunCrawl) -> None:
    rule = "location = /in { return 301 /; } location = /out { return 301 http://other.example/; }"
    web = serve(CHAIN, extra=[rule])
    crawled = run(web.url("/out"), max_pages=None)
    assert crawled.progress.has_nothing
    ((url, reason),) = crawled.progress.failures.items()
    assert (url, "http://other.example/, which is not in the scope" in reason) == (
        web.url("/out"),
        True,
    )
    assert not run(web.url("/in"), max_pages=1).progress.failures


@pytest.mark.proves("politeness-robots-unreachable")
@pytest.mark.parametrize("answer", ["return 503;", "return 500;", "return 444;"])
def test_no_page_is_fetched_while_robots_txt_is_unreachable(
    serve: ServeWeb, run: RunCrawl, answer: str
) -> None:
    web = serve(CHAIN, extra=[f"location = /robots.txt {{ {answer} }}"])
    crawled = run(web.url(), settings=("fetch.retries=1", "crawl.patience=1s"))
    assert (web.requested_paths(), crawled.progress.later) == (
        [],
        Counter({"robots_unreachable": 1}),
    )
    assert crawled.count("visits", kind="robots") == 2
    assert list(crawled.progress.failures) == [web.url("/robots.txt")]
    assert_counts_add_up(crawled)


@pytest.mark.parametrize("status", [401, 403, 404, 410])
def test_missing_robots_txt_allows_everything(serve: ServeWeb, run: RunCrawl, status: int) -> None:
    web = serve(CHAIN, extra=[f"location = /robots.txt {{ return {status}; }}"])
    assert len(run(web.url()).pages()) == 5


@pytest.mark.proves("politeness-robots")
def test_robots_redirects_are_followed_to_another_host(serve: ServeWeb, run: RunCrawl) -> None:
    other = serve({}, {"/there.txt": "User-agent: *\nDisallow: /1.html\n"})
    there = other.url("/there.txt", host=2)
    moved = serve(CHAIN, extra=[f"location = /robots.txt {{ return 302 {there}; }}"])
    crawled = run(moved.url(), there)
    assert crawled.states()["/1.html"] == ("excluded", "robots")
    assert "/2.html" in crawled.pages()


@pytest.mark.proves("politeness-exclusions")
def test_robots_redirects_to_an_excluded_host_are_not_followed(
    serve: ServeWeb, run: RunCrawl, tmp_path: Path
) -> None:
    web = serve(
        CHAIN,
        {"/there.txt": "User-agent: *\nDisallow: /\n"},
        extra=[
            "location = /robots.txt { return 302 http://127.0.3.2:$server_port/there.txt; }",
            "",
        ],
    )
    rules = tmp_path / "never.txt"
    rules.write_text("host 127.0.3.2\n")
    crawled = run(web.url(), settings=(f"crawl.exclusions={rules}",))
    assert len(crawled.pages()) == 5, "like without a robots.txt"
    assert not [each for each in web.server.requests() if each.uri == "/there.txt"]


@pytest.mark.proves("limits-redirects")
def test_redirect_targets_are_separate_urls(serve: ServeWeb, run: RunCrawl) -> None:
    hops = "".join(
        f"location = /hop{number} {{ return 302 /hop{number + 1}; }}\n" for number in range(15)
    )
    rules = (
        hops
        + "location = /once { return 301 /end.html; }\nlocation = /loop { return 302 /loop; }\n"
        + "location = /out { return 301 http://127.0.3.9/; }"
    )
    web = serve(
        {"/index.html": page("/once", "/hop0", "/loop", "/out"), "/end.html": page()}, extra=[rules]
    )
    crawled = run(web.url())
    states = crawled.states()
    assert (states["/once"], states["/loop"]) == (("visited", "redirect"), ("visited", "redirect"))
    assert (states["/hop9"], states["/hop10"]) == (("visited", "redirect"), ("visited", "redirect"))
    assert states["/hop11"] == ("excluded", "redirect_limit")
    assert "/hop12" not in states
    row = next(row for row in crawled.rows("pages") if str(row["url"]).endswith("/end.html"))
    assert str(row["redirect_from"]).endswith("/once")
    assert crawled.progress.refused["scope"] == 1
    links = {
        (str(row["source"]).rsplit("/", 1)[1], str(row["target"]).rsplit("/", 1)[1])
        for row in crawled.rows("links")
        if row["kind"] == "redirect"
    }
    assert ("once", "end.html") in links
    assert_counts_add_up(crawled)


@pytest.mark.proves("politeness-pause")
def test_delay_is_observed_in_the_request_log(serve: ServeWeb, run: RunCrawl) -> None:
    web = serve(CHAIN)
    run(web.url(), delay=0, courtesy_factor=0.0)
    quick = [request.at for request in web.server.requests()]
    assert max(quick) - min(quick) < 2_000
    other = serve(CHAIN)
    crawled = run(other.url(), delay="150ms")
    times = [request.at for request in other.server.requests()]
    gaps = [after - before for before, after in itertools.pairwise(times)]
    assert min(gaps) >= 145  # both clocks have a resolution of one millisecond
    assert crawled.progress.pages == 5


@pytest.mark.proves("politeness-crawl-delay")
def test_crawl_delay_overrides_a_shorter_delay(serve: ServeWeb, run: RunCrawl) -> None:
    web = serve({**CHAIN, "/robots.txt": "User-agent: *\nCrawl-delay: 0.4\n"})
    run(web.url(), depth=1)
    times = [request.at for request in web.server.requests()]
    assert min(after - before for before, after in itertools.pairwise(times)) >= 395


def test_urls_of_a_pause_just_longer_than_the_patience_are_host_paused(
    serve: ServeWeb, run: RunCrawl
) -> None:
    """The pause is shorter than the patience when the summary is made, after the commit."""
    web = serve({**CHAIN, "/robots.txt": "User-agent: *\nCrawl-delay: 2\n"})
    crawled = run(web.url(), settings=("crawl.patience=1990ms",))
    assert (crawled.progress.ended, list(crawled.progress.later)) == ("finished", ["host_paused"])


@pytest.mark.proves("politeness-retry-after")
def test_busy_servers_are_retried_and_each_attempt_is_recorded(
    serve: ServeWeb, run: RunCrawl
) -> None:
    web = serve(
        {"/index.html": page("/busy", "/fine.html"), "/fine.html": page()},
        extra=["location = /busy { add_header Retry-After 1 always; return 503; }"],
    )
    crawled = run(web.url(), settings=("fetch.retries=2", "crawl.patience=5s"))
    assert web.requested_paths().count("/busy") == 3
    times = [request.at for request in web.server.requests() if request.uri == "/busy"]
    assert all(after - before >= 995 for before, after in itertools.pairwise(times))
    attempts = sorted(
        int(str(row["attempt"]))
        for row in crawled.rows("visits")
        if str(row["url"]).endswith("/busy")
    )
    assert (attempts, crawled.states()["/busy"]) == ([1, 2, 3], ("known", "http_503"))
    assert crawled.progress.later == Counter({"http_503": 1})
    assert "/fine.html" in crawled.pages()
    assert_counts_add_up(crawled)
    mark = web.server.mark()
    again = run()  # due after a day
    assert (web.requested_paths(mark), again.progress.later) == ([], Counter({"http_503": 1}))


def test_states_of_other_responses(serve: ServeWeb, run: RunCrawl) -> None:
    rules = (
        "location = /gone { return 410; } location = /odd { return 418; } location = /image.png { "
        "default_type image/png; return 200 x; }"
    )
    web = serve({"/index.html": page("/gone", "/missing", "/odd", "/image.png")}, extra=[rules])
    crawled = run(web.url())
    assert crawled.states() == {
        "/": ("visited", ""),
        "/gone": ("gone", "http_410"),
        "/missing": ("gone", "http_404"),
        "/odd": ("gone", "http_418"),
        "/image.png": ("visited", "media_type"),
    }
    assert crawled.pages() == ["/"]
    assert_counts_add_up(crawled)


@pytest.mark.proves("politeness-noindex")
def test_nofollow_and_noindex_of_pages_are_obeyed(serve: ServeWeb, run: RunCrawl) -> None:
    web = serve(
        {
            "/index.html": page("/closed.html", "/hidden.html"),
            "/closed.html": page("/behind.html", head='<meta name="robots" content="nofollow">'),
            "/hidden.html": page(
                "/seen.html", head='<meta name="lycosa" content="noindex">', text="zebrafinch"
            ),
            "/seen.html": page(text="zebrafinch here"),
            "/behind.html": page(),
        }
    )
    crawled = run(web.url(), index=True)
    assert "/behind.html" not in crawled.states()
    assert crawled.progress.refused["nofollow"] == 1
    by_path = {str(row["url"]).rsplit("/", 1)[1]: row for row in crawled.rows("pages")}
    assert by_path["hidden.html"]["may_index"] is False
    results = Searcher(str(crawled.root)).search(SearchRequest("zebrafinch"))
    assert [hit.url for hit in results.hits] == [web.url("/seen.html")]


@pytest.mark.proves("access-addresses")
def test_private_addresses_are_requested_only_if_they_are_seeds(
    serve: ServeWeb, run: RunCrawl
) -> None:
    web = serve({}, {"/index.html": page()})
    inner = web.url("/", host=2)
    (web.server.servers[0].root / "index.html").write_text(page(inner))
    crawled = run(web.url(), scope="any")
    assert [
        request.host for request in web.server.requests() if request.host.startswith("127.0.3.2")
    ] == []
    reached = {str(row["url"]): str(row["error"]) for row in crawled.rows("visits")}
    assert reached[f"{inner}robots.txt"] == "address_refused"
    assert {str(row["url"]): (row["state"], row["reason"]) for row in crawled.rows("urls")}[
        inner
    ] == ("excluded", "address_refused")
    seeded = run(web.url(), inner, scope="any")  # a seed of the operator: allowed
    assert seeded.count("pages") == 2


def test_hosts_are_crawled_concurrently(serve: ServeWeb, run: RunCrawl) -> None:
    """Eight hosts, each with its own delay, take little longer than one."""
    sites = [CHAIN] * 8
    web = serve(*sites)
    crawled = run(*(web.url(host=number) for number in range(1, 9)), delay="200ms")
    times = [request.at for request in web.server.requests()]
    assert crawled.progress.pages == 40
    assert max(times) - min(times) < 8 * 5 * 200 / 2  # one host after another would take 8 s


@pytest.mark.proves("durability-signal")
def test_stop_commits_and_the_next_crawl_resumes(serve: ServeWeb, run: RunCrawl) -> None:
    site = {"/index.html": page(*(f"/{number}.html" for number in range(40)))} | {
        f"/{number}.html": page() for number in range(40)
    }
    web = serve(site)
    crawls: list[Stoppable] = []

    def stop_soon(crawl: Stoppable) -> None:
        crawls.append(crawl)
        threading.Timer(0.6, crawl.stop).start()

    first = run(web.url(), delay="50ms", started=stop_soon)
    assert first.progress.ended == "stopped"
    assert 0 < first.count("pages") < 41
    assert_counts_add_up(first)
    assert (run().count("pages"), Counter(web.requested_paths()).most_common(1)[0][1]) == (41, 1)


@pytest.mark.proves("durability-full-disk")
def test_full_disk_during_a_commit_loses_no_page(
    serve: ServeWeb, run: RunCrawl, monkeypatch: pytest.MonkeyPatch
) -> None:
    web = serve(CHAIN)
    with full_disk(monkeypatch):
        run(web.url())
    mark = web.server.mark()
    again = run(web.url())
    assert (web.requested_paths(mark), again.count("pages"), again.progress.replayed) == ([], 5, 6)
    assert_counts_add_up(again)


def test_replay_skips_exchanges_of_other_collections(
    serve: ServeWeb, run: RunCrawl, monkeypatch: pytest.MonkeyPatch
) -> None:
    web = serve(CHAIN)
    with full_disk(monkeypatch):
        run(web.url(), name="first")
    other = run(web.url(), name="second", depth=0)
    assert (other.progress.replayed, other.count("pages", collection="second")) == (0, 1)
    mark = web.server.mark()
    first = run(name="first")
    assert (web.requested_paths(mark), first.progress.replayed) == ([], 6)
    assert first.count("pages", collection="first") == 5


def test_next_crawl_updates_links_below_a_decreased_depth(
    serve: ServeWeb, run: RunCrawl, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The page is visited by the long path first.

    The process ends after it found the short path and before it updated the depths behind it.
    """
    web = serve_two_paths(serve)

    class Ended(Exception):
        pass

    def end(*_: object, **__: object) -> int:
        raise Ended

    settings: dict[str, object] = {"scope": "any", "depth": 4, "connections_per_host": 4}
    with monkeypatch.context() as broken:
        broken.setattr("lycosa.crawl.session.session.walk_links", end)
        with pytest.raises(Ended):
            run(web.url(), web.url("/named.html", host=2), **settings)
    assert "/v.html" not in Crawled(tmp_path / "workspace", None).pages()  # type: ignore[arg-type]
    crawled = run(**settings)
    assert {"/t.html": 2, "/u.html": 3, "/v.html": 4}.items() <= crawled.depths().items()
    assert "/v.html" in crawled.pages()
    assert_counts_add_up(crawled)


def test_session_is_freed_before_the_last_index_update(
    serve: ServeWeb, run: RunCrawl, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers: list[weakref.ref[Worker]] = []
    remaining: list[Worker | None] = []

    def opened(*arguments: Any, **options: Any) -> CrawlSession:
        session = open_session(*arguments, **options)
        workers.append(weakref.ref(session.worker))
        return session

    monkeypatch.setattr("lycosa.commands.crawling.crawl.open_session", opened)
    monkeypatch.setattr(IndexFollower, "finish", lambda _: remaining.append(workers[0]()))
    flags: list[Stoppable] = []
    run(serve(CHAIN).url(), index=True, started=flags.append)
    assert remaining == [None]


@pytest.mark.proves("cluster-single-crawl")
def test_only_one_crawl_at_a_time(serve: ServeWeb, run: RunCrawl) -> None:
    web = serve(CHAIN)
    failures: list[str] = []

    def second(crawl: Stoppable) -> None:
        with pytest.raises(OwnedError) as refused:
            run(web.url())
        failures.append(str(refused.value))

    run(web.url(), started=second)
    assert "crawling in" in failures[0]


def test_crawl_without_a_valid_seed_is_refused(run: RunCrawl) -> None:
    with pytest.raises(UsageError, match="nothing to crawl"):
        run()
    with pytest.raises(UsageError):
        run("mailto:x@example.org")
