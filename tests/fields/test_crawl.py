"""Test the table `items`: crawl, reparse, maintenance and exports."""

from __future__ import annotations

import csv
import json
import resource
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

from lycosa.commands.crawling.crawl import CrawlOrder, crawl
from lycosa.commands.crawling.reparse import reparse_workspace
from lycosa.commands.demo.demo import DemoWeb
from lycosa.config.reading import parse_config
from lycosa.config.settings import Config
from lycosa.core.errors import UsageError, WorkError
from lycosa.export.archives.collection_copy import copy_collection
from lycosa.fields.export import ItemSelection, export_items
from lycosa.store.compaction.compact import compact
from lycosa.store.exclusion.purge import purge
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from tests.crawl.conftest import AS_ROOT, Crawled, RunCrawl, ServeWeb, page
from tests.crawl.sessions import LaterClock, collection, work
from tests.servers.demo import web as web

PRODUCT = """<h1>{name}</h1><p class="price">{price}</p>
<time datetime="2024-05-13T10:00:00Z">May</time><a class="more" href="/list.html">more</a>
<i class="tag">new</i><i class="tag">blue</i>
<b class="offer"><i class="seller">A</i><i class="of">1.299,00</i></b>"""
SITE = {
    "/index.html": page("/p/1.html", "/p/2.html", "/list.html", text="The home page."),
    "/p/1.html": page(text="One") + PRODUCT.format(name="Lamp", price="£51.77"),
    "/p/2.html": page(text="Two") + PRODUCT.format(name="Chair", price="ask us"),
    "/list.html": page(text="List") + "<li class=e>a</li><li class=e>b</li><li class=e>c</li>",
}
ITEMS: list[dict[str, Any]] = [
    {
        "name": "product",
        "url_pattern": "/p/",
        "fields": {
            "title": "h1",
            "price": {"css": ".price", "type": "number", "required": True},
            "at": {"css": "time", "attribute": "datetime", "type": "date"},
            "more": {"css": ".more", "type": "url"},
            "tags": {"css": ".tag", "list": True},
            "offers": {
                "css": ".offer",
                "list": True,
                "fields": {
                    "seller": ".seller",
                    "price": {"css": ".of", "type": "number"},
                    "at": {"css": "time", "type": "date"},
                },
            },
        },
    },
    {"name": "entry", "css": ".e", "url_pattern": "list", "fields": {"text": {}}},
]


def _items(root: Path | str) -> pl.DataFrame:
    rows = LiveTables(Workspace.open(str(root))).scan("items")
    return rows.sort("collection", "url", "schema", "position").collect()


def _sql(root: Path | str, query: str) -> list[dict[str, Any]]:
    return LiveTables(Workspace.open(str(root))).sql(query).to_dicts()


def _configured(items: list[dict[str, Any]]) -> Config:
    return Config.model_validate({"collection": [{"name": "default", "items": items}]})


def _reparse(crawled: Crawled, items: list[dict[str, Any]], *, fields_only: bool) -> int:
    root = str(crawled.root)
    report = reparse_workspace(
        root, _configured(items), None, None, "test", fields_only=fields_only
    )
    return report.changed


@pytest.fixture
def crawled(serve: ServeWeb, run: RunCrawl) -> Crawled:
    return run(serve(SITE).url(), items=ITEMS)


def test_items_are_typed_columns_in_sql(crawled: Crawled) -> None:
    rows = _items(crawled.root)
    assert rows["schema"].to_list() == ["entry"] * 3 + ["product"] * 2
    assert rows["position"].to_list() == [0, 1, 2, 0, 0]
    [lamp, chair] = _sql(crawled.root, "SELECT * FROM items_product ORDER BY url")
    assert (lamp["title"], lamp["price"], lamp["tags"]) == ("Lamp", 51.77, ["new", "blue"])
    assert lamp["at"].isoformat() == "2024-05-13T10:00:00+00:00"
    assert lamp["more"].endswith("/list.html")
    assert lamp["offers"] == [{"seller": "A", "price": 1299.0, "at": None}]
    assert (lamp["valid"], chair["valid"], chair["price"]) == (True, False, None)
    [problem] = chair["problems"]
    assert (problem["field"], problem["selector"], problem["value"]) == (
        "price",
        ".price",
        "ask us",
    )
    with pytest.raises(
        UsageError, match="items_entry has url, collection, position, fetched_at, te"
    ):
        _sql(crawled.root, "SELECT titel FROM items_entry")
    with pytest.raises(UsageError, match="matches, items_product, items_entry"):
        _sql(crawled.root, "SELECT * FROM items_nothing")
    [row] = _sql(crawled.root, "SELECT COUNT(*) AS n FROM items_entry WHERE text IN ('a', 'c')")
    assert row["n"] == 2
    assert _sql(crawled.root, "SELECT url FROM items WHERE ARRAY_LENGTH(problems) > 0") == [
        {"url": chair["url"]}
    ]


def test_tables_of_items_are_listed(crawled: Crawled) -> None:
    names = {row["name"] for row in _sql(crawled.root, "SHOW TABLES")}
    assert {"items", "items_entry", "items_product", "pages"} <= names


@pytest.mark.parametrize("fields_only", [True, False])
def test_reparse_gives_the_items_of_a_crawl(
    serve: ServeWeb, run: RunCrawl, tmp_path: Path, crawled: Crawled, fields_only: bool
) -> None:
    live = _items(crawled.root)
    assert _reparse(crawled, ITEMS, fields_only=fields_only) == 0
    assert _reparse(crawled, [], fields_only=fields_only) == 3
    assert _items(crawled.root).is_empty()
    pages = crawled.rows("pages")
    links = LiveTables(Workspace.open(str(crawled.root))).scan("links").collect().height
    assert links
    compact(Workspace.open(str(crawled.root)), whole=True)
    assert _items(crawled.root).is_empty()
    assert _reparse(crawled, ITEMS, fields_only=fields_only) == 3
    assert _items(crawled.root).equals(live)
    assert crawled.rows("pages") == pages
    tables = LiveTables(Workspace.open(str(crawled.root)))
    assert tables.scan("links").collect().height == links
    assert pl.concat(list(tables.batches("items"))).height == live.height
    assert pl.concat(list(tables.ordered("items"))).height == live.height
    assert _reparse(crawled, ITEMS, fields_only=fields_only) == 0


def test_reparse_uses_the_stored_schemas_without_settings(crawled: Crawled) -> None:
    live = _items(crawled.root)
    assert reparse_workspace(str(crawled.root), Config(), None, None, "test").changed == 0
    assert _items(crawled.root).equals(live)


def test_a_new_visit_replaces_the_items_of_a_page(serve: ServeWeb, tmp_path: Path) -> None:
    web = serve(SITE)
    settings = {"items": ITEMS, "recrawl": "age", "max_age": "1d"}
    work(tmp_path / "w", [(collection("shop", **settings), [web.url("/list.html")])])
    assert _items(tmp_path / "w").height == 3
    (tmp_path / "site-1" / "list.html").write_text(page(text="Another list") + "<li class=e>z</li>")
    later = LaterClock(2 * 86_400_000)
    work(tmp_path / "w", [(collection("shop", **settings), [web.url("/list.html")])], clock=later)
    assert [json.loads(text) for text in _items(tmp_path / "w")["values"]] == [{"text": "z"}]


def test_items_of_gone_pages_are_not_exported(serve: ServeWeb, tmp_path: Path) -> None:
    web, root = serve(SITE), tmp_path / "w"
    settings = {"items": ITEMS, "recrawl": "age", "max_age": "1d"}
    job = (collection("shop", **settings), [web.url("/p/1.html"), web.url("/list.html")])
    work(root, [job])
    (tmp_path / "site-1" / "list.html").unlink()
    work(root, [job], clock=LaterClock(2 * 86_400_000))
    workspace, path = Workspace.open(str(root)), str(tmp_path / "x.jsonl")
    assert export_items(workspace, path, ItemSelection("entry", invalid=True)).items == 0
    assert export_items(workspace, path, ItemSelection("product", invalid=True)).items > 0


def test_collections_have_their_own_items(serve: ServeWeb, tmp_path: Path) -> None:
    url = serve(SITE).url("/p/1.html")
    jobs = [
        (collection("one", fields={"title": "h1"}), [url]),
        (collection("two", fields={"price": ".price"}), [url]),
        (collection("none"), [url]),
    ]
    work(tmp_path / "w", jobs)
    rows = _items(tmp_path / "w").filter(pl.col("url") == url)
    by_collection = {
        collection: json.loads(values)
        for collection, values in rows.select("collection", "values").rows()
    }
    assert by_collection == {"one": {"title": "Lamp"}, "two": {"price": "£51.77"}}


def test_fields_of_several_types_are_text_or_json(serve: ServeWeb, tmp_path: Path) -> None:
    url, root = serve(SITE).url("/p/1.html"), tmp_path / "w"
    one = {"title": "h1", "n": {"css": "h1", "type": "boolean"}, "tags": "i"}
    two = {"title": {"css": "h1", "list": True}, "n": "h1", "tags": {"fields": {"t": "i"}}}
    jobs = [
        (collection("a", items=[{"name": "x-y", "fields": one}]), [url]),
        (collection("b", items=[{"name": "x-y", "fields": two}]), [url]),
        (collection("c", items=[{"name": "x_y", "fields": {"title": "h1"}}]), [url]),
    ]
    work(root, jobs)
    query = f"SELECT title, n, tags FROM items_x_y WHERE url = '{url}' ORDER BY collection"
    first, second, third = (tuple(row.values()) for row in _sql(root, query))
    assert first == ("Lamp", "true", "new")
    assert second == ('["Lamp"]', "Lamp", '{"t":"new"}')
    assert third == ("Lamp", None, None)
    workspace, path = Workspace.open(str(root)), tmp_path / "x.jsonl"
    export_items(workspace, str(path), ItemSelection("x-y"))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert {line["collection"] for line in lines} == {"a", "b"}
    export_items(workspace, str(path), ItemSelection(collection="b"))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    [item] = [line for line in lines if line["url"] == url]
    assert (item["title"], item["tags"]) == (["Lamp"], {"t": "new"})


def test_compaction_copy_and_purge(crawled: Crawled, tmp_path: Path) -> None:
    rows = _items(crawled.root)
    workspace = Workspace.open(str(crawled.root))
    compact(workspace, whole=True)
    assert _items(crawled.root).equals(rows)
    copy_collection(workspace, "default", Workspace.create(str(tmp_path / "copy")), {})
    assert _items(tmp_path / "copy").equals(rows)
    product = rows.filter(pl.col("schema") == "product").item(0, "url")
    assert purge(workspace, [f"prefix:{product}"]).rows["items"] == 1
    assert _items(crawled.root).height == rows.height - 1


def test_values_that_do_not_fit_a_newer_schema_are_null(crawled: Crawled) -> None:
    product = {**ITEMS[0], "fields": {**ITEMS[0]["fields"], "title": {"css": "h1", "type": "date"}}}
    product["fields"]["tags"] = {"css": ".tag", "type": "integer"}
    workspace = Workspace.open(str(crawled.root))
    workspace.claim("test", settings={"default": {"items": [product]}}).release()
    [lamp, _] = _sql(crawled.root, "SELECT * FROM items_product ORDER BY url")
    assert (lamp["title"], lamp["tags"], lamp["price"]) == (None, None, 51.77)


def test_exports_have_typed_columns(crawled: Crawled, tmp_path: Path) -> None:
    workspace = Workspace.open(str(crawled.root))
    selection = ItemSelection("product")
    reports = [
        export_items(workspace, str(tmp_path / f"x.{end}"), selection)
        for end in ("jsonl", "csv", "parquet")
    ]
    assert [(report.items, report.left_out) for report in reports] == [(1, 1)] * 3
    [line] = map(json.loads, (tmp_path / "x.jsonl").read_text().splitlines())
    assert (line["title"], line["price"]) == ("Lamp", 51.77)
    assert (line["at"], line["position"]) == ("2024-05-13T10:00:00.000Z", 0)
    assert line["offers"] == [{"seller": "A", "price": 1299.0, "at": None}]
    with open(tmp_path / "x.csv", newline="") as file:
        [row] = csv.DictReader(file)
    assert (row["price"], row["at"], json.loads(row["tags"])) == (
        "51.77",
        "2024-05-13T10:00:00.000Z",
        ["new", "blue"],
    )
    table = f"'{tmp_path}/x.parquet'"
    query = f'SELECT title, price + 1, year("at"), offers[1].price FROM {table}'
    assert duckdb.execute(query).fetchall() == [("Lamp", 52.77, 2024, 1299.0)]
    everything = ItemSelection("product", "default", invalid=True)
    assert export_items(workspace, str(tmp_path / "x.jsonl"), everything).items == 2
    lines = [json.loads(line) for line in (tmp_path / "x.jsonl").read_text().splitlines()]
    assert sorted(line["valid"] for line in lines) == [False, True]


@pytest.mark.parametrize("end", ["jsonl", "csv", "parquet"])
def test_a_file_that_cannot_be_written_is_an_error(
    crawled: Crawled, tmp_path: Path, end: str
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(WorkError, match=f"x.{end} cannot be written: File too large"):
            export_items(
                Workspace.open(str(crawled.root)),
                str(tmp_path / f"x.{end}"),
                ItemSelection("product", invalid=True),
            )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not list(tmp_path.glob("x.*"))


@pytest.mark.parametrize(
    ("name", "selection", "message"),
    [
        ("x.xml", ItemSelection("product"), r"\.jsonl, \.csv, \.parquet"),
        ("x.csv", ItemSelection(), "several schemas: choose --schema entry | product"),
        ("x.csv", ItemSelection("produce"), "unknown schema 'produce'"),
        ("x.csv", ItemSelection("", "other"), "the latest crawl of other had no fields"),
    ],
)
def test_invalid_exports_are_refused(
    crawled: Crawled, tmp_path: Path, name: str, selection: ItemSelection, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        export_items(Workspace.open(str(crawled.root)), str(tmp_path / name), selection)
    assert not list(tmp_path.glob("x.*"))


def test_crawl_and_reparse_give_equal_items_in_eight_languages(
    web: DemoWeb, tmp_path: Path
) -> None:
    settings = """
        [[collection]]
        name = "all"
        delay = "0s"
        courtesy_factor = 0.0
        traps = false
        [collection.fields]
        title = { css = "h1", required = true }
        language = { css = "html", attribute = "lang" }
        links = { css = "main a[href], article a[href]", type = "url", list = true }
        headings = { xpath = "//h2", list = true }
    """
    config = parse_config(settings, overrides=("crawl.patience=1s", *AS_ROOT))
    root = str(tmp_path / "w")
    seeds = tuple(f"{origin}/" for origin in web.origins.values())
    crawl(CrawlOrder(root, config, config.collection[0], seeds, index=False))
    live = _items(root)
    assert live.height == LiveTables(Workspace.open(root)).scan("pages").collect().height > 80
    titles = _sql(root, "SELECT p.headline, i.title FROM pages p JOIN items_all i ON p.url = i.url")
    assert all(row["headline"] == row["title"] for row in titles)
    assert len({row["language"] for row in _sql(root, "SELECT language FROM items_all")}) >= 7
    without = config.model_copy(
        update={"collection": (config.collection[0].model_copy(update={"fields": {}}),)}
    )
    for fields_only in (True, False):
        for configuration, number in ((without, 0), (config, live.height)):
            reparse_workspace(root, configuration, None, None, "test", fields_only=fields_only)
            assert _items(root).height == number
        assert _items(root).equals(live)
