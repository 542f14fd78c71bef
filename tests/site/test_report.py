"""A site's report: all that was planted is found, and nothing else."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lycosa.cli.main import app
from lycosa.core.errors import UsageError
from lycosa.site.links import links_of
from lycosa.site.report import SiteReport, report_of
from lycosa.store.compaction.compact import compact
from lycosa.store.workspace import Workspace
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
    by_hreflang_alone = {"/special/de.html", "/special/fr.html"}  # nobody can click on that
    assert {path for path, links in depth.items() if links < 0} == {
        *planted.orphans,
        "/lonely/2.html",
        *by_hreflang_alone,
    }
    assert (report.waiting, report.mixed, report.slow, report.large) == (0, [], [], [])


def test_all_that_was_planted_is_found_and_nothing_else(site: Site) -> None:
    workspace, origin, planted = site
    _check(report_of(workspace, origin), origin, planted)
    compact(Workspace.open(workspace))
    _check(report_of(workspace, origin.removeprefix("http://")), origin, planted)


def test_links_are_counted_once_a_page_and_through_redirects(site: Site) -> None:
    workspace, origin, _ = site
    pages = {_path(origin, page.url): page for page in report_of(workspace, origin).page_list}
    assert (pages["/target.html"].in_links, pages["/end.html"].in_links) == (5, 1)
    # To b.html, to the home page, to what was moved; the link to its own top is none.
    assert pages["/row/0/a.html"].out_links + pages["/row/0/a.html"].out_links_elsewhere == 3
    assert pages["/row/0/"].in_links == 2
    folders = {folder.path: folder for folder in report_of(workspace, origin).tree}
    assert (folders["/row/"].pages, folders["/row/"].own_pages, folders["/row/3/"].own_pages) == (
        15,
        0,
        3,
    )
    assert (folders["/"].pages, folders["/"].broken) == (len(pages), 3)


def test_links_to_from_and_broken(site: Site) -> None:
    workspace, origin, planted = site
    to = links_of(workspace, f"{origin}/target.html", "", broken=False, site="")
    assert [(_path(origin, link.source), link.kind) for link in to] == [("/moved-once", "redirect")]
    held = links_of(workspace, "", f"{origin}/special/", broken=False, site="")
    assert [link.anchor for link in held][:2] == ["to /chain-0", "to /round-1"]
    assert {
        (_path(origin, link.target), link.answer, _path(origin, link.end))
        for link in held
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


def test_what_is_not_known_is_said(site: Site) -> None:
    with pytest.raises(UsageError, match=r"no data about elsewhere\.example"):
        report_of(site[0], "elsewhere.example")
    assert isinstance(CliRunner().invoke(app, ["-w", site[0], "links"]).exception, UsageError)
