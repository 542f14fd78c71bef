"""Test `find` in stored pages and during the crawl of a site."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import polars as pl
import pytest

from lycosa.config.reading import parse_config
from lycosa.core.errors import UsageError
from lycosa.crawl.session.submission import submit
from lycosa.find.find import FindResults, Ordered, find_stored, order_in_site, submit_find
from lycosa.matching.orders import remove_order
from lycosa.store.tables.live import LiveTables
from lycosa.store.verify.check import verify
from lycosa.store.workspace import Workspace
from lycosa.url.site_name import SiteScope
from tests.cli.conftest import run_here
from tests.site.editable_site import EditableSite, crawled, editable_site, kill_often, stored_texts

QUIET = parse_config("", overrides=("crawl.patience=1s",))
DAY_MS = 86_400_000


def write_site(site: EditableSite, pages: int = 12) -> None:
    """Write a binary tree of pages below `/docs/` with links out of the tree."""
    site.page("/", "Home.", "/docs/1", "/other")
    site.page("/other", "The Needle elsewhere.")
    for number in range(1, pages + 1):
        text = f"Page {number} " + (
            "with a Needle, and a needle." if number % 3 == 0 else "with hay."
        )
        site.page(
            f"/docs/{number}",
            text,
            *(f"/docs/{child}" for child in (2 * number, 2 * number + 1) if child <= pages),
            "/other",
            "/missing",
        )


def found_urls(root: str, ordered: Ordered, site: EditableSite) -> list[str]:
    results = FindResults(root, ordered)
    matches = list(results.fresh())
    assert (results.left(), len({each.url for each in matches})) == (0, len(matches))
    return sorted(each.url.removeprefix(site.origin) for each in matches)


def url_rows(root: str, condition: pl.Expr) -> pl.DataFrame:
    return LiveTables(Workspace.open(root)).scan("urls").filter(condition).collect()


def paths_with_needle(pages: int = 12) -> list[str]:
    return sorted(f"/docs/{number}" for number in range(1, pages + 1) if number % 3 == 0)


def find_in_site(
    root: str, site: EditableSite, texts: list[str], max_age_ms: int = DAY_MS, path: str = "/docs/1"
) -> Ordered:
    start = SiteScope.of(f"{site.origin}{path}")
    ordered = order_in_site(root, texts, [], start, "default", max_age_ms)
    crawled(root, start.start, config=QUIET, site=start.start)
    return ordered


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "w")


def test_stored_pages_are_searched_in_every_script(root: str) -> None:
    with editable_site("127.0.7.81") as site:
        site.page("/", "Wolf, WOLF und Wölfe", "/zh", "/ar", "/hi", "/gone")
        site.page("/zh", "今天北京的天气很好。北京欢迎你")
        site.page("/ar", "قالت وزارة الصحة إن الوزارة وَزارة")
        site.page("/hi", "भारत की राजधानी नई दिल्ली है। दिल्ली")
        site.page("/gone", "A wolf that will go. 北京")
        crawled(root, f"{site.origin}/")
        del site.pages["/gone"]
        submit(root, QUIET, [f"{site.origin}/gone"])
        crawled(root, f"{site.origin}/")
        texts = stored_texts(root)
    for needle, ignored, path, number in (
        ("北京", [], "/zh", 2),
        ("وزارة", [], "/ar", 2),
        ("وزارة", ["accents"], "/ar", 3),
        ("दिल्ली", [], "/hi", 2),
        ("wolf", ["case"], "/", 2),
        ("wolfe", ["case,accents"], "/", 1),
    ):
        (match,) = find_stored(root, [needle], ignored, site=site.origin).run()
        assert match.url == f"{site.origin}{path}"
        assert match.count == number == len(match.positions)
        if not ignored:
            text = texts[match.url]
            assert match.positions == tuple(
                at for at in range(len(text)) if text.startswith(needle, at)
            )
    many = [f"text {number}" for number in range(50_000)]
    for needles in (["WOLF"], ["WOLF", *many], ["wolf", "Ж" * 100_000]):
        (match,) = find_stored(root, needles, ["case"]).run()
        assert (match.text, match.url, match.count) == (needles[0], f"{site.origin}/", 2)
    scan = find_stored(root, ["nowhere"], site=f"{site.origin}/below/")
    assert list(scan.run()) == []
    assert scan.pages == 0
    assert scan.complete
    late = find_stored(root, ["wolf"], ["case"])
    assert list(late.run(until_s=0.0)) == []
    assert (late.pages, late.complete) == (0, False)
    with pytest.raises(UsageError):
        find_stored(root, ["  "])


def test_links_of_the_site_are_searched_and_stored_copies_reused(root: str) -> None:
    with editable_site("127.0.7.82") as site:
        write_site(site)
        assert found_urls(root, find_in_site(root, site, ["Needle"]), site) == paths_with_needle()
        assert set(site.request_counts) == {
            "/robots.txt",
            *(f"/docs/{number}" for number in range(1, 13)),
        }
        assert set(site.request_counts.values()) == {1}
        site.request_counts.clear()
        assert len(found_urls(root, find_in_site(root, site, ["needle", "hay"]), site)) == 12
        assert not site.request_counts  # all stored copies are newer than the limit
        site.page("/docs/5", "Page 5 has a Needle now.", "/docs/10", "/docs/11", "/docs/13")
        site.page("/docs/13", "A new Needle.")
        third = find_in_site(root, site, ["Needle"], max_age_ms=0)
        assert found_urls(root, third, site) == sorted(
            [*paths_with_needle(), "/docs/5", "/docs/13"]
        )
        assert {site.request_counts[f"/docs/{number}"] for number in range(1, 14)} == {1}
    rows = url_rows(root, pl.col("operation") == f"find:{third.order.id}")
    assert set(rows["state"]) == {"visited"}
    assert verify(Workspace.open(root)).ok


def test_missing_pages_and_cancelled_searches(root: str) -> None:
    with editable_site("127.0.7.83") as site:
        write_site(site, 6)
        find_in_site(root, site, ["Needle"], path="/")
        with_missing = find_in_site(root, site, ["Needle"], path="/")
        assert found_urls(root, with_missing, site) == ["/docs/3", "/docs/6", "/other"]
        rows = url_rows(root, pl.col("url").str.ends_with("/missing"))
        assert set(rows["state"]) == {"gone"}
        start = SiteScope.of(site.origin)
        cancelled = order_in_site(root, ["Needle"], [], start, "default", DAY_MS)
        remove_order(Workspace.open(root).storage, cancelled.order.id)
        crawled(root, start.start, config=QUIET, site=start.start)
    rows = url_rows(root, pl.col("operation") == f"find:{cancelled.order.id}")
    assert rows.select("state", "reason").rows() == [("excluded", "operation_over")]
    assert verify(Workspace.open(root)).ok


def test_redirects_that_are_searched_have_the_time_of_their_visit(root: str) -> None:
    with editable_site("127.0.7.87") as site:
        site.page("/docs/1", "A Needle.", "/docs/moved")
        site.page("/docs/2", "A Needle.")
        site.redirects["/docs/moved"] = "/docs/2"
        for _ in range(2):  # fetched by the first, stored for the second
            assert len(found_urls(root, find_in_site(root, site, ["Needle"]), site)) == 2
    # the redirect is followed before it is committed: each crawl commits once, at its end
    assert Workspace.open(root).state().head == 2 * len(("claim", "commit", "release"))
    assert url_rows(root, pl.col("reason") == "redirect")["visited_at"].null_count() == 0
    assert verify(Workspace.open(root)).ok


def test_a_search_of_submitted_urls_follows_links_of_the_collection(root: str) -> None:
    with editable_site("127.0.7.84") as site:
        write_site(site, 3)
        crawled(root, f"{site.origin}/docs/2")
        before = dict(site.request_counts)
        ordered = submit_find(root, QUIET, [f"{site.origin}/"], ["Needle"], [], "default", DAY_MS)
        crawled(root)
        assert found_urls(root, ordered, site) == ["/docs/3", "/other"]
        assert site.request_counts["/docs/2"] == before["/docs/2"] == 1
        with pytest.raises(UsageError, match="nothing was submitted"):
            submit_find(root, QUIET, ["http://elsewhere.example/"], ["x"], [], "default", DAY_MS)
    assert len(list(Path(root, "watches").iterdir())) == 1


def test_a_search_of_a_site_fetches_no_other_site(root: str) -> None:
    with editable_site("127.0.7.85") as site, editable_site("127.0.7.86") as other:
        write_site(site, 3)
        other.page("/", "Another site", "/more")
        other.page("/more", "More of it")
        crawled(root, f"{other.origin}/", depth=0)
        other.request_counts.clear()
        find_in_site(root, site, ["Needle"])
        assert not other.request_counts


CRAWL = """
import sys
from tests.site.editable_site import crawled
from lycosa.config.reading import parse_config
crawled(sys.argv[1], sys.argv[2], site=sys.argv[2], config=parse_config("", overrides=("crawl.patience=1s", "crawl.commit_pages=7")))
"""


@pytest.mark.parametrize("count", [1, pytest.param(12, marks=pytest.mark.prove)])
def test_kill_nine_finds_each_match_once(tmp_path: Path, count: int) -> None:
    root, pages = str(tmp_path / "w"), 45
    with editable_site("127.0.7.87") as site:
        write_site(site, pages)
        start = f"{site.origin}/docs/1"
        ordered = order_in_site(root, ["Needle"], [], SiteScope.of(start), "default", DAY_MS)
        kill_often(site, CRAWL, root, start, requests=pages, count=count)
        assert found_urls(root, ordered, site) == paths_with_needle(pages)
    assert verify(Workspace.open(root)).ok


def test_the_command_prints_matches(tmp_path: Path) -> None:
    find = functools.partial(
        run_here, "find", "-w", str(tmp_path / "w"), "--set", "crawl.patience=1s"
    )
    with editable_site("127.0.7.88") as site:
        write_site(site, 3)
        done = find("Needle", "--site", f"{site.origin}/docs/1", "--crawl", "--delay=0", "--json")
        document = json.loads(done.out)
        assert [each["url"] for each in document["matches"]] == [f"{site.origin}/docs/3"]
        assert (done.code, document["fetched"], document["left"]) == (0, 3, 0)
    stored = find("needle", "--ignore", "case")
    stored.expect(0, "/docs/3", err=["1 match on 1 page, 3 pages searched"])
