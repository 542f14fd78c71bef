"""Test reports of invalid values and of selectors that stop matching."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lycosa.commands.crawling.crawl import CrawlOrder, crawl
from lycosa.commands.crawling.reparse import reparse_workspace
from lycosa.config.collection import Collection
from lycosa.config.reading import parse_config
from lycosa.config.settings import Config
from lycosa.core.records import Item, ItemProblem, Visit
from lycosa.fields.reports import MAX_REPORTED, MIN_PAGES, ItemHealth
from lycosa.store.tables.buffers import Buffers
from lycosa.store.tables.rows import item_rows
from lycosa.store.workspace import Workspace
from lycosa.url.keys import Identifier
from tests.crawl.conftest import AS_ROOT, ServeWeb, page

SCHEMA = {"name": "product", "css": ".p", "fields": {"price": {"css": ".price", "type": "number"}}}
SETTINGS = Collection.model_validate({"name": "shop", "items": [SCHEMA]}).model_dump(mode="json")


class Shop:
    """Commit items of pages to a workspace and collect the reports."""

    def __init__(self, root: Path) -> None:
        self.workspace = Workspace.create(str(root))
        self._claim = self.workspace.claim("test", settings={"shop": SETTINGS})
        self._identifier = Identifier(self.workspace.domains, self.workspace.partitions)
        self.reports: list[str] = []

    def health(self) -> ItemHealth:
        return ItemHealth(self.workspace, self.workspace.state().head, self.reports.append)

    def commit(self, first: int, *pages: Item | None, host: str = "shop.test") -> None:
        """Commit one page per item. None: the schema matches nothing on the page."""
        buffers = Buffers()
        for number, item in enumerate(pages, first):
            url = f"http://{host}/{number}"
            _, _, host_key, url_key, partition = self._identifier.identify(url)
            visit = Visit(url, host, partition, host_key, url_key, "page", "shop", 0, 1_000, 1)
            nothing = Item("shop", "product", None, valid=False)
            buffers.items.extend(item_rows(visit, [item or nothing]))
        self._claim.commit(self._claim.next_folder(), buffers.mapping())


WITH_PRICE = Item("shop", "product", 0, json.dumps({"price": 5.0}))
WITHOUT_PRICE = Item("shop", "product", 0, json.dumps({"price": None}), missing=("price",))


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path / "w")


def test_a_selector_that_stops_matching_is_reported(shop: Shop) -> None:
    shop.commit(0, *[WITH_PRICE] * 40)
    health = shop.health()
    shop.commit(0, *[WITHOUT_PRICE] * (MIN_PAGES - 1))
    health.refresh()
    assert shop.reports == []
    shop.commit(20, *[WITHOUT_PRICE] * 15)
    health.refresh()
    [warning] = shop.reports
    assert warning.startswith(
        "warning: items: product.price of shop (.price) selects nothing on the last 10 pages of "
        "shop.test, it selected something on 40 of 40 pages before; the site may have changed; "
    )
    assert "lycosa parse http://shop.test/" in warning


def test_a_change_within_one_crawl_is_reported(shop: Shop) -> None:
    health = shop.health()
    shop.commit(0, *[WITH_PRICE] * 30)
    health.refresh()
    shop.commit(100, *[WITHOUT_PRICE] * 25)
    health.refresh()
    assert ["30 of 30 pages before" in report for report in shop.reports] == [True]
    shop.commit(200, WITH_PRICE)
    shop.commit(300, *[WITHOUT_PRICE] * 25)
    health.refresh()
    assert len(shop.reports) == 2  # it had recovered


def test_an_item_selector_that_stops_matching_is_reported(shop: Shop) -> None:
    shop.commit(0, *[WITH_PRICE] * 40)
    health = shop.health()
    shop.commit(0, *[None] * 15)
    health.refresh()
    [warning] = shop.reports
    assert warning.startswith("warning: items: product of shop (.p) selects nothing on the last 10")


def test_each_host_is_counted_separately(shop: Shop) -> None:
    shop.commit(0, *[WITH_PRICE] * 40)
    health = shop.health()
    shop.commit(0, *[WITHOUT_PRICE] * 50, host="other.test")
    health.refresh()
    assert shop.reports == []
    shop.commit(50, *[WITHOUT_PRICE] * 120, host="other.test")
    health.refresh()
    [warning] = shop.reports
    assert "on the last 160 pages of other.test, and never did; check the selector" in warning


@pytest.mark.parametrize(("rare", "reported"), [(2, False), (20, True)])
def test_missing_values_are_reported_only_if_unlikely_by_chance(
    shop: Shop, rare: int, reported: bool
) -> None:
    shop.commit(0, *[*[WITH_PRICE] * rare, *[WITHOUT_PRICE] * (40 - rare)])
    health = shop.health()
    shop.commit(100, *[WITHOUT_PRICE] * 40)
    health.refresh()
    assert bool(shop.reports) is reported


def test_the_number_of_reported_problems_is_limited(shop: Shop) -> None:
    problem = ItemProblem("price", ".price", "ask us", "not a number")
    health = shop.health()
    shop.commit(0, *[Item("shop", "product", 0, problems=(problem,))] * (MAX_REPORTED + 5))
    health.refresh()
    health.summarize()
    *lines, summary = shop.reports
    assert len(lines) == MAX_REPORTED
    assert "product.price (.price): not a number: 'ask us'" in lines[0]
    assert summary.startswith(f"items: {MAX_REPORTED + 5} values do not fit their fields")


def test_crawl_and_reparse_report_problems(serve: ServeWeb, tmp_path: Path) -> None:
    web = serve({"/index.html": page(text="Home") + "<b class=price>ask us</b>"})
    settings = f"""
        [[collection]]
        name = "shop"
        delay = "0s"
        seeds = ["{web.url()}"]
        [collection.fields]
        price = {{ css = ".price", type = "number" }}
    """
    config = parse_config(settings, overrides=("crawl.patience=1s", *AS_ROOT))
    reports: list[str] = []
    root = str(tmp_path / "w")
    order = CrawlOrder(
        root, config, config.collection[0], (web.url(),), index=False, say=reports.append
    )
    crawl(order)
    expected = f"items: {web.url()}: shop.price (.price): not a number: 'ask us'"
    assert reports == [expected]
    reports.clear()
    reparse_workspace(root, Config(), None, None, "test", report=reports.append)
    assert reports == []  # nothing changed
    changed = parse_config(settings.replace('".price"', '"b"'))
    reparse_workspace(root, changed, None, None, "test", fields_only=True, report=reports.append)
    assert reports == [expected.replace("(.price)", "(b)")]
