"""Test site reports, changes of pages, link depths and site names."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import lycosa
from lycosa.cli.main import app
from lycosa.config.settings import Config
from lycosa.core.errors import UsageError
from lycosa.site.changes import PageChange, changes_of
from lycosa.site.checks import folder_tree
from lycosa.site.facts import SiteLinks, depths
from lycosa.site.links import links_of
from lycosa.site.report import SiteReport, report_of
from lycosa.store.compaction.compact import compact
from lycosa.store.workspace import Workspace
from lycosa.url.site_name import site_name
from tests.export.library_pages import Fetched, at, commit, day_name
from tests.site.editable_site import QUICK, editable_site
from tests.site.planted import Planted, crawled

Site = tuple[str, str, Planted]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with crawled(tmp_path_factory.mktemp("site")) as result:
        yield result


def _path(origin: str, url: str) -> str:
    assert url.startswith(origin)
    return url.removeprefix(origin)


def _check(report: SiteReport, origin: str, planted: Planted) -> None:
    assert {_path(origin, page.url) for page in report.page_list} == planted.pages
    assert {
        (_path(origin, link.target), _path(origin, link.source)) for link in report.broken
    } == planted.broken
    assert {link.answer for link in report.broken} == {"http_404", "http_410"}
    assert {
        (_path(origin, link.target), _path(origin, link.end)) for link in report.broken if link.end
    } == {("/to-nowhere", "/nowhere.html")}
    assert {_path(origin, orphan.url) for orphan in report.orphans} == planted.orphans
    assert {orphan.listed_in for orphan in report.orphans} == {f"{origin}/sitemap.xml"}
    assert {
        tuple(_path(origin, url) for url in chain.urls) for chain in report.chains
    } == planted.chains
    assert [chain.end for chain in report.chains] == ["ok", "loop"]
    assert {
        tuple(_path(origin, url) for url in each.urls) for each in report.duplicates
    } == planted.duplicates
    assert {_path(origin, page.url) for page in report.untitled} == planted.untitled
    assert {
        (_path(origin, each.source), _path(origin, each.target)) for each in report.hreflang
    } == planted.unanswered
    depth = {_path(origin, page.url): page.depth for page in report.page_list}
    assert {path: depth[path] for path in planted.depth} == planted.depth
    by_hreflang_alone = {"/special/de.html", "/special/fr.html"}  # no clickable link
    assert {path for path, links in depth.items() if links < 0} == {
        *planted.orphans,
        "/lonely/2.html",
        *by_hreflang_alone,
    }
    assert (report.waiting, report.mixed, report.slow, report.large) == (0, [], [], [])


def test_report_has_exactly_the_planted_errors(site: Site) -> None:
    workspace, origin, planted = site
    _check(report_of(workspace, origin), origin, planted)
    compact(Workspace.open(workspace))
    _check(report_of(workspace, origin.removeprefix("http://")), origin, planted)


def test_a_page_that_is_due_again_is_still_a_page(tmp_path: Path) -> None:
    with editable_site("127.0.8.30") as web:
        web.page("/", "The start page.", "/next.html")
        web.page("/next.html", "Another page.")
        workspace = lycosa.Workspace(tmp_path / "w", {"collection": QUICK})
        workspace.crawl(f"{web.origin}/", index=False)
        before = workspace.sites.audit(web.origin)
        workspace.add(f"{web.origin}/")
        workspace.crawl(max_pages=0, index=False)
    states = workspace.sql("SELECT state FROM urls WHERE operation = '' ORDER BY url")
    assert states["state"].to_list() == ["known", "visited"]
    assert workspace.sites.audit(web.origin) == before
    mirror = workspace.export.mirror(web.origin, str(tmp_path / "mirror"))
    assert (mirror.pages, mirror.start.name) == (2, "index.html")


def test_links_are_counted_once_per_page_and_through_redirects(site: Site) -> None:
    workspace, origin, _ = site
    pages = {_path(origin, page.url): page for page in report_of(workspace, origin).page_list}
    assert (pages["/target.html"].in_links, pages["/end.html"].in_links) == (5, 1)
    # To b.html, the home page and the redirect target; "#top" is not a link to another page.
    assert pages["/row/0/a.html"].out_links + pages["/row/0/a.html"].out_links_elsewhere == 3
    assert pages["/row/0/"].in_links == 2
    folders = {folder.path: folder for folder in report_of(workspace, origin).tree}
    assert (folders["/row/"].pages, folders["/row/"].own_pages, folders["/row/3/"].own_pages) == (
        15,
        0,
        3,
    )
    assert (folders["/"].pages, folders["/"].broken) == (len(pages), 3)


def test_links_to_and_from_a_page_and_broken_links(site: Site) -> None:
    workspace, origin, planted = site
    to = links_of(workspace, f"{origin}/target.html", "", broken=False, site="")
    assert [(_path(origin, link.source), link.kind) for link in to] == [("/moved-once", "redirect")]
    from_special = links_of(workspace, "", f"{origin}/special/", broken=False, site="")
    assert [link.anchor for link in from_special][:2] == ["to /chain-0", "to /round-1"]
    assert {
        (_path(origin, link.target), link.answer, _path(origin, link.end))
        for link in from_special
        if link.end and link.answer
    } == {("/to-nowhere", "http_404", "/nowhere.html")}
    broken = links_of(workspace, "", "", broken=True, site="")
    assert {
        (_path(origin, link.target), _path(origin, link.source)) for link in broken
    } == planted.broken
    assert links_of(workspace, "", "", broken=True, site="elsewhere.example") == []
    assert (
        len(
            links_of(
                workspace, f"{origin}/missing.html", f"{origin}/row/2/", broken=True, site=origin
            )
        )
        == 1
    )


def test_texts_in_csv_files_are_no_formulas(tmp_path: Path) -> None:
    html = "<title>=HYPERLINK(1)</title><p>A page whose title a spreadsheet would compute."
    workspace = Workspace.create(str(tmp_path / "w"))
    claim = workspace.claim("test")
    commit(workspace, claim, [Fetched("http://a.example/", 1, html)], {})
    claim.release()
    arguments = ["-w", str(tmp_path / "w"), "site", "a.example", "--csv", str(tmp_path)]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    with (tmp_path / "pages.csv").open(newline="") as file:
        [row] = csv.DictReader(file)
    assert (row["title"], row["size"]) == ("'=HYPERLINK(1)", str(len(html)))


def test_the_commands_print_text_json_and_csv(site: Site, tmp_path: Path) -> None:
    workspace, origin, planted = site
    run = CliRunner()
    text = run.invoke(app, ["-w", workspace, "site", origin]).output
    assert f"broken links: {len(planted.broken)} to 3 targets" in text
    assert "and 2 more" in text
    assert "and 2 more" not in run.invoke(app, ["-w", workspace, "site", origin, "--all"]).output
    document = json.loads(run.invoke(app, ["-w", workspace, "site", origin, "--json"]).stdout)
    assert len(document["broken"]) == len(planted.broken)
    assert (
        run.invoke(app, ["-w", workspace, "site", origin, "--csv", str(tmp_path / "csv")]).exit_code
        == 0
    )
    with (tmp_path / "csv" / "broken.csv").open(newline="") as file:
        assert {
            (_path(origin, row["target"]), _path(origin, row["source"]))
            for row in csv.DictReader(file)
        } == planted.broken
    with (tmp_path / "csv" / "chains.csv").open(newline="") as file:
        assert [row["hops"] for row in csv.DictReader(file)] == ["4", "2"]
    assert (tmp_path / "csv" / "mixed.csv").read_text() == "source,target,kind,active\n"
    listed = run.invoke(app, ["-w", workspace, "links", "--broken"])
    assert "/missing.html  http_404" in listed.stdout
    assert (
        len(
            json.loads(
                run.invoke(app, ["-w", workspace, "links", "--to", f"{origin}/", "--json"]).stdout
            )
        )
        == 5
    )


def test_unknown_site_and_missing_options_are_errors(site: Site) -> None:
    with pytest.raises(UsageError, match=r"no data about elsewhere\.example"):
        report_of(site[0], "elsewhere.example")
    assert isinstance(CliRunner().invoke(app, ["-w", site[0], "links"]).exception, UsageError)


OLD, NEW = (
    "<title>A</title><p>First block.<p>Second block.<p>Third block.",
    "<title>A</title><p>First block.<p>Another block.<p>Third block.",
)


@pytest.fixture
def root(tmp_path: Path) -> str:
    """A workspace with six pages; some are new, gone or changed after day 5."""
    workspace = Workspace.create(str(tmp_path / "w"), partitions=4)
    claim = workspace.claim("test")
    digests: dict[tuple[str, str], int] = {}
    names = ("same", "changed", "there-and-back", "gone", "gone-before")
    commit(
        workspace, claim, [Fetched(f"http://a.example/{name}", 1, OLD) for name in names], digests
    )
    commit(
        workspace,
        claim,
        [
            Fetched("http://b.example/changed", 1, OLD),
            Fetched("http://a.example/gone-before", 3, ""),
        ],
        digests,
    )
    later = [
        Fetched("http://a.example/same", 6, OLD),
        Fetched("http://a.example/changed", 6, OLD.replace("Third", "Last")),
        Fetched("http://a.example/there-and-back", 6, NEW),
        Fetched("http://a.example/gone", 6, ""),
        Fetched("http://a.example/gone-before", 6, ""),
        Fetched("http://a.example/new", 6, "<title>New</title><p>All new."),
        Fetched("http://b.example/changed", 6, NEW),
    ]
    commit(workspace, claim, later, digests)
    again = [
        Fetched("http://a.example/changed", 8, NEW),
        Fetched("http://a.example/there-and-back", 8, OLD),
    ]
    commit(workspace, claim, [*again, Fetched("http://b.example/changed", 8, None)], digests)
    claim.release()
    return str(tmp_path / "w")


def _since(
    root: str, day: int, site: str = "", **options: bool
) -> dict[tuple[str, str], PageChange]:
    result = changes_of(
        root, Config(), datetime.fromtimestamp(at(day) / 1000, UTC), site, **options
    )
    return {(change.kind, change.url): change for change in result}


def test_changes_have_a_difference(root: str) -> None:
    for _ in range(2):
        result = _since(root, 5)
        assert set(result) == {
            ("new", "http://a.example/new"),
            ("gone", "http://a.example/gone"),
            ("changed", "http://a.example/changed"),
            ("changed", "http://b.example/changed"),
        }
        changed = result["changed", "http://a.example/changed"]
        assert (changed.difference, (changed.before, changed.at)) == (
            (
                "@@ -1,3 +1,3 @@",
                " First block.",
                "-Second block.",
                "+Another block.",
                " Third block.",
            ),
            tuple(datetime.fromtimestamp(at(day) / 1000, UTC) for day in (1, 8)),
        )
        # A 304 starts no version: the current text is that of day 6.
        assert result["changed", "http://b.example/changed"].at == datetime.fromtimestamp(
            at(6) / 1000, UTC
        )
        assert result["gone", "http://a.example/gone"].reason == "http_404"
        compact(Workspace.open(root))


def test_changes_by_time_and_site_and_without_differences(root: str) -> None:
    assert set(_since(root, 7)) == {
        ("changed", "http://a.example/changed"),
        ("changed", "http://a.example/there-and-back"),
    }
    assert set(_since(root, 5, "b.example")) == {("changed", "http://b.example/changed")}
    assert _since(root, 9) == {}
    assert set(_since(root, 0)) == {("new", f"http://a.example/{name}") for name in ("same", "changed", "there-and-back", "new")} | {
        ("new", "http://b.example/changed"), ("gone", "http://a.example/gone"), ("gone", "http://a.example/gone-before"),
    }  # fmt: skip
    without = _since(root, 5, differences=False)
    assert ("changed", "http://a.example/there-and-back") in without
    assert all(not change.difference for change in without.values())


def test_changes_without_archived_versions_give_the_reason(root: str) -> None:
    min(Path(root).rglob("archive.warc.gz")).unlink()
    changed = _since(root, 5)["changed", "http://a.example/changed"]
    assert changed.reason == "the previous version is no longer in the archive"


def test_the_command_prints_text_and_json(root: str) -> None:
    run = CliRunner()
    text = run.invoke(app, ["-w", root, "changes", "--since", day_name(5)]).stdout
    assert "new: 1\n" in text
    assert "    +Another block.\n" in text
    document = json.loads(
        run.invoke(
            app, ["-w", root, "changes", "--since", day_name(5), "--site", "b.example", "--json"]
        ).stdout
    )
    assert [(change["kind"], change["url"]) for change in document] == [
        ("changed", "http://b.example/changed")
    ]


@settings(max_examples=60)
@given(
    st.integers(1, 12).flatmap(
        lambda n: st.tuples(
            st.just(n), st.lists(st.tuples(st.integers(-1, n - 1), st.integers(-1, n - 1)))
        )
    )
)
def test_depths_are_shortest_paths(graph: tuple[int, list[tuple[int, int]]]) -> None:
    count, pairs = graph
    expected = {0: 0}
    for _ in range(count):  # Bellman-Ford
        for source, target in pairs:
            if source in expected and target >= 0:
                expected[target] = min(expected.get(target, count), expected[source] + 1)
    links = SiteLinks(*(np.array([pair[side] for pair in pairs], np.int64) for side in (0, 1)))
    assert depths(count, links, np.array([0], np.int64)).tolist() == [
        expected.get(node, -1) for node in range(count)
    ]


@pytest.mark.parametrize(
    ("text", "host", "authority"),
    [
        ("example.org", "example.org", ""),
        ("https://Example.org/a/b?c", "example.org", ""),
        ("example.org:8080", "example.org", "example.org:8080"),
        ("http://[::1]:81/", "[::1]", "[::1]:81"),
    ],
)
def test_site_name_accepts_hosts_and_urls(text: str, host: str, authority: str) -> None:
    name = site_name(text)
    assert (name.host, name.authority) == (host, authority)


def test_a_site_contains_only_urls_of_its_host_and_port() -> None:
    urls = pl.DataFrame(
        {"url": ["http://a.b/", "https://a.b:81/x", "http://a.b.c/", "http://axb/", "http://a.b?x"]}
    )
    assert urls.select(site_name("a.b").holds("url"))["url"].to_list() == [
        True,
        True,
        False,
        False,
        True,
    ]
    assert urls.select(site_name("a.b:81").holds("url"))["url"].to_list() == [
        False,
        True,
        False,
        False,
        False,
    ]


def test_totals_of_folders_include_subfolders() -> None:
    nodes = pl.DataFrame(
        {
            "url": [
                "http://a/",
                "http://a/x/y/1",
                "http://a/x/2?z=/q/",
                "http://a/x-1/3",
                "http://a/x/y/gone",
            ],
            "is_page": [True, True, True, True, False],
            "size": [1, 10, 100, 1000, None],
            "verdict": ["", "", "", "", "http_404"],
        }
    )
    folders = [
        (each.path, each.level, each.pages, each.own_pages, each.bytes, each.broken)
        for each in folder_tree(nodes)
    ]
    assert folders == [
        ("/", 0, 4, 1, 1111, 1),
        ("/x/", 1, 2, 1, 110, 1),
        ("/x/y/", 2, 1, 1, 10, 1),
        ("/x-1/", 1, 1, 1, 1000, 0),
    ]
