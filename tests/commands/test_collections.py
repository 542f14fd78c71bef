"""Collections are separate: each is counted, exported, copied, purged and compacted alone."""

from __future__ import annotations

import shutil
from pathlib import Path

import polars as pl
import pytest

from lycosa.api import Workspace as Api
from lycosa.archive.warc.reader import read_exchanges
from lycosa.commands.crawling.crawl import CrawlOrder, crawl
from lycosa.commands.maintenance.collections import copy_to, list_collections, purge
from lycosa.config.reading import parse_config
from lycosa.config.settings import Collection
from lycosa.core.errors import UsageError
from lycosa.export.library.editions import LibrarySelection, library_languages
from lycosa.export.library.formats import FORMATS
from lycosa.export.library.library import export_library
from lycosa.index.indexer import Indexer
from lycosa.index.shards.shards import current_generation
from lycosa.store.compaction.compact import compact
from lycosa.store.compaction.plan import base_place
from lycosa.store.tables.live import LiveTables
from lycosa.store.verify.check import verify
from lycosa.store.workspace import Workspace
from tests.export.library_pages import READER
from tests.servers.s3 import BUCKET, s3_server
from tests.servers.synthetic.plan import WebPlan
from tests.servers.synthetic.simulated import SimulatedClock, SimulatedFetcher
from tests.servers.synthetic.web import Web

CONFIG = parse_config("")
PLAN = WebPlan(
    hosts=8,
    pages=120,
    traps=0,
    refused=0,
    unresolved=0,
    hanging=0,
    stalling=0,
    dripping=0,
    failing=0,
    limiting=0,
)


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Workspace with three collections.

    `one` has all pages of a web, `two` some of its hosts, fetched again, `three` another web.
    """
    root = tmp_path_factory.mktemp("collections") / "w"
    clock = SimulatedClock(PLAN.epoch_ms)
    for name, web, scope, max_pages in (
        ("one", Web(PLAN), "any", None),
        ("two", Web(PLAN), "host", None),
        ("three", Web(WebPlan(seed=9, hosts=2, pages=20, traps=0)), "host", 5),
    ):
        collection = Collection(
            name=name, scope=scope, delay=0, courtesy_factor=0.0, max_pages=max_pages
        )
        order = CrawlOrder(str(root), CONFIG, collection, tuple(web.seeds()), index=False)
        crawl(order, clock=clock, fetcher=SimulatedFetcher(web, clock, CONFIG.fetch))
    return root


@pytest.fixture
def root(crawled: Path, tmp_path: Path) -> Path:
    shutil.copytree(crawled, tmp_path / "w")
    return tmp_path / "w"


def rows(
    root: Path | str,
    table: str,
    name: str,
) -> set[str]:
    """Return the live rows of a collection without WARC locations."""
    frame = (
        LiveTables(Workspace.open(str(root)))
        .scan(table)
        .filter(pl.col("collection") == name)
        .collect()
    )
    return {str(row) for row in frame.drop("warc_file", "warc_offset", strict=False).rows()}


def links(root: Path | str, name: str) -> set[str]:
    """Return the links from pages of a collection."""
    tables = LiveTables(Workspace.open(str(root)))
    urls = (
        tables.scan("visits")
        .filter(pl.col("collection") == name)
        .select("host_key", "url_key")
        .unique()
    )
    return {
        str(row)
        for row in tables.scan("links")
        .join(urls, on=["host_key", "url_key"], how="semi")
        .collect()
        .rows()
    }


def assert_undamaged(root: Path | str) -> None:
    report = verify(Workspace.open(str(root)), deep=True)
    assert [finding for finding in report.findings if finding.severity != "note"] == []


def record_ids(root: Path | str) -> set[str]:
    workspace = Workspace.open(str(root))
    return {
        stored.visit.record_id
        for path in workspace.state().warcs
        for stored in read_exchanges(workspace.path(path))
    }


def test_compacted_files_contain_rows_of_one_collection(root: Path) -> None:
    workspace = Workspace.open(str(root))
    compact(workspace, whole=True)
    state = workspace.state()
    for table in ("visits", "pages", "urls"):
        locations = [base_place(file.path) for file in state.files[table]]
        assert {location[0] for location in locations if location} == {"one", "two", "three"}
        for file, location in zip(state.files[table], locations, strict=True):
            assert location is not None
            assert pl.read_parquet(workspace.path(file.path))["collection"].unique().to_list() == [
                location[0]
            ]
    listed = {each.name: each for each in list_collections(workspace, CONFIG)}
    assert all(each.on_disk > 0 for each in listed.values())
    assert_undamaged(root)


def test_collections_are_listed_with_their_pages_and_urls(root: Path) -> None:
    tables = LiveTables(Workspace.open(str(root)))
    listed = {
        each.name: each
        for each in list_collections(
            Workspace.open(str(root)), parse_config('[[collection]]\nname = "new"\n')
        )
    }
    assert set(listed) == {"one", "two", "three", "new"}
    pages = dict(
        tables.sql("SELECT collection, COUNT(*) FROM pages GROUP BY collection").iter_rows()
    )
    assert {name: each.pages for name, each in listed.items()} == {**pages, "new": 0}
    assert listed["three"].pages_ever == 5
    visited = tables.sql(
        "SELECT collection, COUNT(*) FROM urls WHERE state = 'visited' AND "
        "operation = '' GROUP BY collection"
    )
    assert {name: each.urls.get("visited") for name, each in listed.items() if each.urls} == dict(
        visited.iter_rows()
    )


@pytest.mark.parametrize("compacted", [False, True])
def test_copy_has_the_same_rows_and_no_damage(root: Path, tmp_path: Path, compacted: bool) -> None:
    if compacted:
        compact(Workspace.open(str(root)), whole=True)
    for name in ("two", "three"):
        report = copy_to(str(root), name, str(tmp_path / "copy"))
        assert report.rows["pages"] == len(rows(root, "pages", name)) > 0
    copy = tmp_path / "copy"
    for name in ("two", "three"):
        for table in ("visits", "pages", "urls"):
            assert rows(copy, table, name) == rows(root, table, name)
        assert links(copy, name) == links(root, name)
    assert rows(copy, "pages", "one") == set()
    assert_undamaged(copy)
    state = Workspace.open(str(copy)).state()
    assert (state.counters["pages.three"], state.settings["three"]["max_pages"]) == (5, 5)
    with pytest.raises(UsageError, match="already"):
        copy_to(str(root), "two", str(copy))
    with pytest.raises(UsageError, match="has no collection"):
        copy_to(str(root), "unknown", str(tmp_path / "other"))


def test_copy_to_s3_and_back(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with s3_server() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("LYCOSA_CACHE", str(tmp_path / "cache"))
        remote = f"s3://{BUCKET}/copy"
        copy_to(str(root), "three", remote)
        assert rows(remote, "pages", "three") == rows(root, "pages", "three") != set()
        assert_undamaged(remote)
        copy_to(remote, "three", str(tmp_path / "back"))
    assert rows(tmp_path / "back", "visits", "three") == rows(root, "visits", "three")
    assert_undamaged(tmp_path / "back")


def test_copy_is_exported_and_indexed_like_the_original(root: Path, tmp_path: Path) -> None:
    copy_to(str(root), "two", str(tmp_path / "copy"))
    for name, source in (("a", root), ("b", tmp_path / "copy")):
        export_library(
            Workspace.open(str(source)),
            tmp_path / name,
            FORMATS["xml"],
            LibrarySelection(collection="two"),
            READER,
        )

    def content(name: str) -> dict[str, bytes]:
        folder = tmp_path / name
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.xml")}

    assert content("a") == content("b") != {}
    with Indexer(str(tmp_path / "copy"), CONFIG.index) as indexer:
        assert indexer.update().documents > 0


def test_crawl_of_a_copy_continues(root: Path, tmp_path: Path) -> None:
    copy_to(str(root), "three", str(tmp_path / "copy"))
    clock, web = (
        SimulatedClock(PLAN.epoch_ms + 10**9),
        Web(WebPlan(seed=9, hosts=2, pages=20, traps=0)),
    )
    collection = Collection(name="three", delay=0, courtesy_factor=0.0)
    order = CrawlOrder(str(tmp_path / "copy"), CONFIG, collection, index=False)
    assert crawl(order, clock=clock, fetcher=SimulatedFetcher(web, clock, CONFIG.fetch)).pages > 5
    assert_undamaged(tmp_path / "copy")


@pytest.mark.parametrize("compacted", [False, True])
def test_purge_deletes_one_collection_and_no_other_rows(root: Path, compacted: bool) -> None:
    if compacted:
        compact(Workspace.open(str(root)), whole=True)
    rows_before = {
        (table, name): rows(root, table, name)
        for table in ("visits", "pages", "urls")
        for name in ("one", "three")
    }
    links_before = {name: links(root, name) for name in ("one", "three")}
    visits = (
        LiveTables(Workspace.open(str(root)))
        .scan("visits")
        .select("record_id", "collection")
        .collect()
    )
    with Indexer(str(root), CONFIG.index) as indexer:
        indexer.update()
    before = current_generation(str(root))
    report = purge(str(root), "two", CONFIG)
    assert report.complete
    assert (report.records > 0, report.bytes_deleted > 0) == (True, True)
    for table in ("visits", "pages", "urls"):
        assert rows(root, table, "two") == set()
        for name in ("one", "three"):
            assert rows(root, table, name) == rows_before[table, name]
    assert {name: links(root, name) for name in ("one", "three")} == links_before
    assert record_ids(root) == set(visits.filter(pl.col("collection") != "two")["record_id"])
    assert_undamaged(root)
    assert {each.name for each in list_collections(Workspace.open(str(root)), CONFIG)} == {
        "one",
        "three",
    }
    assert Workspace.open(str(root)).state().counters["pages.two"] == 0
    after = current_generation(str(root))
    assert before is not None
    assert after is not None
    assert (set(before.collections), set(after.collections)) == (
        {"one", "two", "three"},
        {"one", "three"},
    )


def test_a_purged_collection_is_unknown_until_it_is_crawled_again(
    root: Path, tmp_path: Path
) -> None:
    purge(str(root), "two", CONFIG)
    workspace = Api(str(root))
    for refused in (
        lambda: workspace.export.library("jsonl", str(tmp_path / "out"), collection="two"),
        lambda: workspace.search("word", collection="two"),
        lambda: purge(str(root), "two", CONFIG),
    ):
        with pytest.raises(UsageError, match="collection 'two'"):
            refused()
    assert sorted(Workspace.open(str(root)).state().settings) == ["one", "three"]
    claim = Workspace.open(str(root)).claim("worker", settings={"two": {}})
    claim.release()
    assert workspace.export.library("jsonl", str(tmp_path / "out"), collection="two").files == 0


def test_purge_of_all_collections_empties_tables_and_archive(root: Path) -> None:
    for name in ("one", "two", "three"):
        purge(str(root), name, CONFIG)
    workspace = Workspace.open(str(root))
    tables = LiveTables(workspace)
    assert {
        name: tables.scan(name).collect().height for name in ("visits", "pages", "urls", "links")
    } == {
        "visits": 0,
        "pages": 0,
        "urls": 0,
        "links": 0,
    }
    assert tables.scan("hosts").filter(pl.col("host") != "").collect().height == 0
    assert not workspace.state().warcs
    assert not list(root.rglob("*.warc.gz"))
    assert_undamaged(root)


def test_purge_of_a_configured_or_unknown_collection_is_refused(root: Path) -> None:
    with pytest.raises(UsageError, match="configured"):
        purge(str(root), "two", parse_config('[[collection]]\nname = "two"\n'))
    with pytest.raises(UsageError, match="has no collection 'unknown'"):
        purge(str(root), "unknown", CONFIG)
    assert not Workspace.open(str(root)).state().holders, "no claim is left behind"


def test_library_language_of_a_collection_is_the_configured_one(root: Path) -> None:
    config = parse_config(
        '[[collection]]\nname = "it"\n[[collection]]\nname = "press"\nlanguage = "de"\n'
    )
    assert library_languages(config, Workspace.open(str(root)).state()) == {"press": "de"}
