"""The table `metadata`: one row per row of `pages`, in the same commit."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from lycosa.commands.crawling.reparse import reparse_workspace
from lycosa.config.settings import Config
from lycosa.core.records import Page
from lycosa.crawl.processing import page_reader as parse
from lycosa.export.archives.collection_copy import copy_collection
from lycosa.export.bulk.actions import BulkSelection
from lycosa.export.bulk.bulk import export_jsonl
from lycosa.export.markdown.pages import export_markdown
from lycosa.page.parse import parse_page
from lycosa.store.compaction.compact import compact
from lycosa.store.exclusion.purge import purge
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from tests.crawl.conftest import Crawled, RunCrawl, ServeWeb, page

ARTICLE = json.dumps(
    {
        "@type": "BlogPosting",
        "headline": "Spiders",
        "author": {"@type": "Person", "name": "Jane Doe"},
        "datePublished": "2024-05-13",
        "dateModified": "2999-01-01",
        "image": "/i.png",
    }
)
SCRIPT = f'<script type="application/ld+json">{ARTICLE}</script>'
SITE = {
    "/index.html": page("/a.html", "/b.html", text="The home page of a small site."),
    "/a.html": page("/", text="An article about spiders in the garden.") + SCRIPT,
    "/b.html": page(text="Another page."),
}
KEY = ["partition", "host_key", "url_key", "collection", "url", "fetched_at", "record_id", "entry"]


def _keys(root: Path | str, table: str) -> pl.DataFrame:
    rows = LiveTables(Workspace.open(str(root))).scan(table, entry=True)
    return rows.select(KEY).sort(KEY).collect()


def _same_keys(crawled: Crawled) -> int:
    pages, metadata = (_keys(crawled.root, table) for table in ("pages", "metadata"))
    assert pages.equals(metadata)
    return pages.height


def _article(root: Path | str) -> dict[str, object]:
    tables = LiveTables(Workspace.open(str(root)))
    [row] = tables.sql("SELECT * FROM metadata WHERE url LIKE '%/a.html'").to_dicts()
    return row


def test_metadata_has_the_rows_of_pages(serve: ServeWeb, run: RunCrawl, tmp_path: Path) -> None:
    web = serve(SITE)
    crawled = run(web.url())
    assert _same_keys(crawled) == 3
    row = _article(crawled.root)
    assert (row["type"], row["authors"]) == ("BlogPosting", ["Jane Doe"])
    assert (row["image"], row["modified_at"]) == (web.url("/i.png"), None)
    [page_row] = [each for each in crawled.rows("pages") if str(each["url"]).endswith("/a.html")]
    assert row["published_at"] == page_row["published_at"] is not None
    assert json.loads(str(row["raw"]))["json-ld"] == [json.loads(ARTICLE)]
    workspace = Workspace.open(str(crawled.root))
    compact(workspace, whole=True)
    assert _article(crawled.root) == row
    copy_collection(workspace, "default", Workspace.create(str(tmp_path / "copy")), {})
    assert _article(tmp_path / "copy") == row
    assert purge(workspace, [f"prefix:{web.url('/a.html')}"]).rows["metadata"] == 1
    assert _same_keys(crawled) == 2


def test_reparse_updates_the_metadata(
    serve: ServeWeb, run: RunCrawl, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawled = run(serve(SITE).url())

    def newer(payload: bytes, **about: object) -> Page:
        read = parse_page(payload, **about)  # type: ignore[arg-type]
        if str(about["url"]).endswith("/a.html"):
            read.metadata.site_name = "A site"
        return read

    monkeypatch.setattr(parse, "parse_page", newer)
    report = reparse_workspace(str(crawled.root), Config(), None, None, "test")
    assert (report.pages, report.changed, report.text_changed) == (3, 1, 0)
    assert _article(crawled.root)["site_name"] == "A site"
    assert _same_keys(crawled) == 3
    assert reparse_workspace(str(crawled.root), Config(), None, None, "test").changed == 0


def test_exports_contain_the_metadata(serve: ServeWeb, run: RunCrawl, tmp_path: Path) -> None:
    workspace = Workspace.open(str(run(serve(SITE).url()).root))
    with open(tmp_path / "lines", "wb") as output:
        export_jsonl(workspace, BulkSelection(), output)
    lines = [json.loads(line) for line in (tmp_path / "lines").read_text().splitlines()]
    [declared] = [line["metadata"] for line in lines if line["url"].endswith("/a.html")]
    assert declared["authors"] == ["Jane Doe"]
    assert declared["published_at"] == "2024-05-13T00:00:00Z"
    assert "price" not in declared
    export_markdown(workspace, tmp_path / "markdown")
    [file] = (tmp_path / "markdown").rglob("a*.md")
    front = file.read_text().split("---")[1]
    assert 'type: "BlogPosting"\nauthors: ["Jane Doe"]' in front
    assert 'published: "2024-05-13T00:00:00Z"' in front
