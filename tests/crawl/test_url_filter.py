"""Linked URLs that are not fetched, and the order of the others.

Exclusions, unindexable media types, traps and page quotas; crawl strategies.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from lycosa.core.records import UrlRow
from lycosa.crawl.admission.url_filter import FREE_SUSPECTS, free_suspects
from lycosa.crawl.session.session import CrawlSession
from lycosa.crawl.state import assignment
from lycosa.crawl.state.url_store import UrlStore
from lycosa.store.exclusion.purge import exclude
from lycosa.url import exclusions
from tests.crawl.conftest import RunCrawl, ServeWeb, page
from tests.crawl.sessions import collection, work
from tests.crawl.test_resume import many

SITE = {
    "/index.html": page("/a.html", "/b.html", "/c.html"),
    "/a.html": page(),
    "/b.html": page(),
    "/c.html": page(),
}


@pytest.mark.proves("politeness-exclusions")
def test_exclusion_list_applies_from_the_start_until_its_rules_are_removed(
    serve: ServeWeb, run: RunCrawl, tmp_path: Path
) -> None:
    web = serve(SITE, {"/index.html": page()})
    rules = tmp_path / "never.txt"
    rules.write_text(f"prefix {web.url('/b.html')} # asked by mail\nhost 127.0.3.2\n")
    listed = (f"crawl.exclusions={rules}",)
    crawled = run(web.url(), web.url(host=2), settings=listed)
    assert sorted(web.requested_paths()) == ["/", "/a.html", "/c.html"]
    assert crawled.progress.refused["excluded"] == 1
    seeds = {str(row["url"]): (row["state"], row["reason"]) for row in crawled.rows("urls")}
    assert seeds[web.url(host=2)] == ("excluded", "excluded")
    rules.write_text("# nothing\n")
    mark = web.server.mark()
    run(settings=listed, depth=9)  # a changed setting processes the stored links again
    assert sorted(web.requested_paths(mark)) == ["/", "/b.html"]


@pytest.mark.proves("politeness-exclusions")
def test_queued_url_is_excluded_before_its_request(
    serve: ServeWeb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exclusions, "CHECK_MS", 0)
    web = serve(many(8))
    rules = tmp_path / "never.txt"
    rules.write_text("")

    def tick(session: CrawlSession) -> None:
        if session.worker.progress.pages == 0:
            return
        fresh = tmp_path / "fresh.txt"
        fresh.write_text(f"prefix {web.url('/7.html')}\n")
        fresh.replace(rules)

    jobs = [(collection("default", delay="300ms"), [web.url()])]
    crawled = work(tmp_path / "w", jobs, settings=(f"crawl.exclusions={rules}",), tick=tick)
    assert crawled.states()["/7.html"] == ("excluded", "excluded")
    assert "/7.html" not in web.requested_paths()
    assert crawled.count("pages") == 8


@pytest.mark.proves("politeness-exclusions")
@pytest.mark.parametrize("interval", ["300ms", "1h"])
def test_running_worker_obeys_an_exclusion_in_the_log(
    serve: ServeWeb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interval: str
) -> None:
    """The worker follows the log after each commit, and at intervals."""
    monkeypatch.setattr("lycosa.crawl.worker._FOLLOW_MS", 200 if interval == "1h" else 3_600_000)
    web = serve(many(8))
    done: list[int] = []

    def tick(session: CrawlSession) -> None:
        if not done and session.worker.progress.pages:
            done.append(exclude(session.workspace, [f"prefix:{web.url('/7.html')}"]))

    jobs = [(collection("default", delay="400ms"), [web.url()])]
    crawled = work(tmp_path / "w", jobs, settings=(f"crawl.commit_interval={interval}",), tick=tick)
    assert "/7.html" not in web.requested_paths()
    assert crawled.count("pages") == 8


def test_unindexable_urls_are_refused_by_extension_or_after_the_headers(
    serve: ServeWeb, run: RunCrawl
) -> None:
    rules = (
        "location = /download { try_files /big.zip =404; } location = /table { default_type "
        "text/csv; return 200 a,b; }"
    )
    web = serve(
        {
            "/index.html": page("/photo.jpg", "/a.zip", "/download", "/table", "/a.html"),
            "/a.html": page(),
        },
        extra=[rules],
    )
    big = web.server.servers[0].root / "big.zip"
    big.write_bytes(os.urandom(5_000_000))
    crawled = run(web.url(), media_types=[])
    assert sorted(web.requested_paths()) == ["/", "/a.html", "/download", "/table"]
    assert crawled.progress.refused["unindexable_image"] == 1
    assert crawled.progress.refused["unindexable_archive"] == 1
    assert crawled.states()["/download"] == ("visited", "media_type")
    visit = next(row for row in crawled.rows("visits") if str(row["url"]).endswith("/download"))
    assert (visit["truncated"], int(str(visit["content_length"]))) == ("unspecified", 0)
    sent = next(
        request.sent_bytes for request in web.server.requests() if request.uri == "/download"
    )
    assert sent < 4_500_000  # filled the socket buffers before the connection was closed
    assert crawled.pages() == ["/", "/a.html"]


def test_bodies_are_stored_only_for_the_media_types_of_a_collection(
    serve: ServeWeb, run: RunCrawl
) -> None:
    rules = "location = /x { default_type application/x-thing; try_files /thing =404; }"
    web = serve(
        {"/index.html": page("/x", "/a.html"), "/a.html": page(), "/thing": "x" * 200_000},
        extra=[rules],
    )
    narrow = run(web.url(), media_types=["text/html"])
    lengths = {
        str(row["url"]).rsplit("/", 1)[1]: int(str(row["content_length"]))
        for row in narrow.rows("visits")
    }
    assert lengths["x"] == 0
    wide = run(web.url(), name="wide", media_types=["text/html", "application/*"])
    stored_rows = [
        row
        for row in wide.rows("visits")
        if row["collection"] == "wide" and str(row["url"]).endswith("/x")
    ]
    assert int(str(stored_rows[0]["content_length"])) == 200_000


TRAPS = {
    "repeated_segments": "/a/b/a/b/a/b/a/b/a/b/",
    "many_segments": "/" + "/".join(f"x{number}" for number in range(40)),
    "many_parameters": "/p?" + "&".join(f"k{number}=1" for number in range(40)),
    "repeated_parameter": "/p?" + "&".join(["a=1"] * 12),
    "escape_loop": "/p%252525252541/",
    "calendar": "/calendar/2199/01/02",
}


@pytest.mark.proves("limits-traps")
def test_each_lexical_trap_is_refused_and_counted_by_its_rule(
    serve: ServeWeb, run: RunCrawl
) -> None:
    web = serve(
        {
            "/index.html": page(
                *TRAPS.values(), "/l?a=1&amp;b=2&amp;c=3", "/l?c=3&amp;b=2&amp;a=1", "/a.html"
            ),
            "/a.html": page(),
        }
    )
    crawled = run(web.url(), traps=True)
    refused = {
        name: number
        for name, number in crawled.progress.refused.items()
        if name.startswith("trap_")
    }
    assert refused == {f"trap_{name}": 1 for name in [*TRAPS, "query_permutation"]}
    assert sorted(web.requested_paths()) == ["/", "/a.html", "/l?a=1&b=2&c=3"]
    stored = crawled.root / "log"
    assert any(
        "refused.trap_calendar" in file.read_text(errors="replace") for file in stored.iterdir()
    )


def test_near_identical_pages_are_deferred_after_the_free_suspects(
    serve: ServeWeb, run: RunCrawl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assignment, "FREE_SUSPECTS", 20)
    same = {
        f"/list/{number}.html": page(text="The same words on every page of a list.")
        for number in range(100)
    }
    other = {
        f"/essay/{number}.html": page(text=" ".join(f"w{number}x{word}" for word in range(60)))
        for number in range(10)
    }
    web = serve({"/index.html": page(*same, *other)} | same | other)
    states = run(web.url(), traps=True).states()
    assert all(states[path][0] == "visited" for path in other)
    fetched = sum(states[path][0] == "visited" for path in same)
    assert 20 <= fetched <= 60
    reasons = Counter(states[path][1] for path in same if states[path][0] == "known")
    assert set(reasons) <= {"trap_near_identical", "trap_same_text"}
    assert sum(reasons.values()) == 100 - fetched
    mark = web.server.mark()
    without_traps = run(traps=False)
    assert len(web.requested_paths(mark)) == 100 - fetched
    assert all(state == "visited" for state, _ in without_traps.states().values())


def test_free_suspects_of_many_seeds_are_limited_to_a_share_of_the_pages() -> None:
    assert free_suspects(1, 0) == free_suspects(8, 10) == free_suspects(60, 10**6) == FREE_SUSPECTS
    assert (free_suspects(60, 0), free_suspects(60, 4_000), free_suspects(1, 4_000, most=20)) == (
        0,
        60,
        20,
    )


def prefixed(number: int) -> dict[str, str]:
    """Return a site with `number` pages in each of two folders."""
    paths = [f"/{part}/{step}.html" for part in ("long", "short") for step in range(number)]
    return {"/index.html": page(*paths)} | {path: page(text=path) for path in paths}


@pytest.mark.proves("limits-quotas")
def test_page_quota_of_a_host_counts_all_crawls_and_can_be_raised(
    serve: ServeWeb, run: RunCrawl
) -> None:
    web = serve(prefixed(10), many(3))
    seeds = (web.url(), web.url(host=2))
    first = run(*seeds, max_pages_per_host=6, connections_per_host=4)
    by_host = Counter(str(row["url"]).split("/")[2] for row in first.rows("pages"))
    assert (sorted(by_host.values()), run(max_pages_per_host=6).progress.pages) == ([4, 6], 0)
    assert (run(max_pages_per_host=9).progress.pages, run().count("pages")) == (3, 21 + 4)


def test_pages_per_first_path_segment_are_limited_to_their_share(
    serve: ServeWeb, run: RunCrawl
) -> None:
    first = run(serve(prefixed(20)).url(), max_pages_per_host=20, max_prefix_share=0.3, max_pages=4)
    assert first.count("pages") == 4
    crawled = run(max_pages_per_host=20, max_prefix_share=0.3)
    parts = Counter(path.split("/")[1] for path in crawled.pages())
    assert parts == Counter({"": 1, "long": 6, "short": 6})
    reasons = Counter(reason for state, reason in crawled.states().values() if state == "known")
    assert reasons == Counter({"prefix_budget": 28})


@pytest.mark.proves("limits-quotas")
def test_page_quota_of_a_domain_counts_all_its_hosts_and_all_crawls(
    serve: ServeWeb, run: RunCrawl
) -> None:
    port = serve(many(6), many(6)).server.port
    overrides = [
        f"{name}.example.org:{port}:127.0.3.{number}:{port}" for number, name in enumerate("ab", 1)
    ]
    settings = (f"fetch.connect_to={overrides}",)
    seeds = [f"http://{name}.example.org:{port}/" for name in "ab"]
    assert run(*seeds, settings=settings, max_pages_per_domain=5).count("pages") == 5
    assert run(settings=settings, max_pages_per_domain=5).count("pages") == 5
    assert run(settings=settings, max_pages_per_domain=8).count("pages") == 8


def test_refetched_pages_do_not_count_against_the_quota(serve: ServeWeb, tmp_path: Path) -> None:
    web = serve(many(3))
    chosen = collection("default", recrawl="age", max_age="1s", max_pages=3, connections_per_host=4)

    def tick(session: CrawlSession) -> None:
        for file in web.server.servers[0].root.glob("*.html"):
            file.write_text(file.read_text() + "<p>more</p>")
        if Counter(web.requested_paths())["/"] >= 3:
            session.worker.stop()

    crawled = work(
        tmp_path / "w", [(chosen, [web.url()])], settings=("crawl.patience=1m",), tick=tick
    )
    assert crawled.count("pages") == 3
    request_counts = Counter(web.requested_paths())
    assert len(request_counts) == 3
    assert min(request_counts.values()) >= 2
    assert [row["pages"] for row in crawled.rows("hosts")] == [3]


def test_server_first_fetches_a_page_of_every_host_before_a_second_of_any(
    serve: ServeWeb, run: RunCrawl
) -> None:
    web = serve(*({} for _ in range(5)))
    for number in range(1, 6):
        following = [web.url(host=number + 1)] if number < 5 else []
        links = [*(f"/{step}.html" for step in range(4)), *following]
        leaves = {f"{step}.html": page(text=f"{number} {step}") for step in range(4)}
        web.write({"index.html": page(*links), **leaves}, number)
    # private addresses are only requested if they are seeds
    seeds = [web.url("/robots.txt", host=number) for number in range(2, 6)]
    crawled = run(
        *seeds,
        web.url(),
        scope="any",
        strategy="server-first",
        connections=1,
        settings=("fetch.connections=1",),
    )
    hosts = [
        request.host
        for request in web.server.requests()
        if request.uri.endswith(".html") or request.uri == "/"
    ]
    assert crawled.count("pages") == 25
    first = {host: hosts.index(host) for host in set(hosts)}
    # each host's second page comes after the first page of every host known by then
    for host, position in first.items():
        second = hosts.index(host, position + 1)
        known_hosts = [
            other
            for other in first
            if int(other.split(":")[0][-1]) <= int(host.split(":")[0][-1]) + 1
        ]
        assert all(first[other] < second for other in known_hosts), hosts
    rounds = [Counter(hosts[:size]) for size in range(len(hosts) - 5)]
    spread = max(
        max(each.values()) - min(each.get(host, 0) for host in first)
        for each in rounds
        if len(each) == 5
    )
    assert spread <= 2  # then in turn, the host with the longest wait first


def test_depth_first_fetches_linked_pages_before_siblings(serve: ServeWeb, run: RunCrawl) -> None:
    web = serve(
        {
            "/index.html": page("/a.html", "/b.html"),
            "/a.html": page("/a1.html"),
            "/a1.html": page(text="a1"),
            "/b.html": page("/b1.html"),
            "/b1.html": page(text="b1"),
        }
    )
    run(web.url(), strategy="depth-first", depth=3)
    assert web.requested_paths() == ["/", "/b.html", "/b1.html", "/a.html", "/a1.html"]


def test_best_first_fetches_the_highest_priority(
    serve: ServeWeb, run: RunCrawl, monkeypatch: pytest.MonkeyPatch
) -> None:
    admitted = UrlStore.admitted

    def scored(self: UrlStore, rows: Sequence[UrlRow]) -> None:
        for row in rows:
            number = row.id.url.rsplit("/", 1)[1].partition(".")[0]
            row.priority = float(number) if number.isdigit() else 0.0
        admitted(self, rows)

    monkeypatch.setattr(UrlStore, "admitted", scored)
    web = serve(many(9))
    run(web.url(), strategy="best-first")
    assert web.requested_paths() == ["/", *(f"/{number}.html" for number in reversed(range(9)))]
