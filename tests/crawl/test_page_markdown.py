"""The setting `collection.markdown`: Markdown in the table `pages`."""

from __future__ import annotations

from pathlib import Path

import pytest

from lycosa.api.workspace import Workspace as Api
from lycosa.commands.crawling.reparse import reparse_workspace
from lycosa.config.reading import parse_config
from lycosa.config.settings import Config
from lycosa.export.archives.collection_copy import copy_collection
from lycosa.export.markdown.pages import selected_pages
from lycosa.page.html.markdown import MarkdownMode
from lycosa.store.compaction.compact import compact
from lycosa.store.exclusion.purge import purge
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from tests.crawl.conftest import RunCrawl, ServeWeb, page
from tests.crawl.kills import here
from tests.crawl.sessions import collection, work
from tests.page.document_files import docx

PROSE = "They hunt at night, and they make no webs."
ARTICLE = f"<title>Spiders</title><h1>Spiders</h1><p>{PROSE}</p><ul><li><b>Wolf</b><li>Jump</ul>"
SITE = {
    "/index.html": page("/a.html", "/d.docx", "/n.txt", text="The home page of a small site."),
    "/a.html": ARTICLE,
    "/d.docx": "",
    "/n.txt": "# no heading",
    "/empty.html": "<title>Empty</title>",
}
ARTICLE_MARKDOWN = f"# Spiders\n\n{PROSE}\n\n- **Wolf**\n- Jump\n"


@pytest.fixture
def site(serve: ServeWeb) -> str:
    web = serve(SITE)
    (web.server.servers[0].root / "d.docx").write_bytes(docx())
    return web.url()


def _stored(root: Path) -> dict[str, str | None]:
    rows = LiveTables(Workspace.open(str(root))).scan("pages").select("url", "markdown").collect()
    return {url.rpartition("/")[2]: markdown for url, markdown in rows.iter_rows()}


def test_pages_are_stored_as_markdown(site: str, run: RunCrawl, tmp_path: Path) -> None:
    crawled = run(site, f"{site}empty.html", markdown=True)
    stored = _stored(crawled.root)
    assert stored["a.html"] == ARTICLE_MARKDOWN
    assert stored["n.txt"] == "\\# no heading\n"
    assert stored["empty.html"] == ""
    document = stored["d.docx"]
    assert document is not None
    assert document.startswith("# Wolf spiders\n\nThey hunt at night.\n")
    workspace = Workspace.open(str(crawled.root))
    compact(workspace, whole=True)
    copy_collection(workspace, "default", Workspace.create(str(tmp_path / "copy")), {})
    assert _stored(crawled.root) == _stored(tmp_path / "copy") == stored
    assert purge(workspace, [f"prefix:{site}a.html"]).rows["pages"] == 1
    assert "a.html" not in _stored(crawled.root)
    crawled.assert_sound()


def test_reparse_adds_and_removes_markdown(site: str, run: RunCrawl) -> None:
    crawled = run(site)
    assert set(_stored(crawled.root).values()) == {None}
    root = str(crawled.root)
    assert reparse_workspace(root, Config(), None, None, "test").changed == 0
    with_markdown = parse_config("", overrides=("collection.markdown=true",))
    assert reparse_workspace(root, with_markdown, None, None, "test").changed == 4
    assert _stored(crawled.root)["a.html"] == ARTICLE_MARKDOWN
    assert reparse_workspace(root, with_markdown, None, None, "test").changed == 0
    report = reparse_workspace(root, Config(), None, None, "test")
    assert (report.changed, report.text_changed) == (4, 0)
    assert set(_stored(crawled.root).values()) == {None}


def test_reparse_uses_the_setting_of_the_last_crawl(site: str, run: RunCrawl) -> None:
    crawled = run(site, markdown=True)
    assert reparse_workspace(str(crawled.root), Config(), None, None, "test").changed == 0
    assert _stored(crawled.root)["a.html"] == ARTICLE_MARKDOWN


def test_setting_applies_per_collection(site: str, tmp_path: Path) -> None:
    one, two = collection("one"), collection("two", markdown=True)
    work(tmp_path / "w", [(one, [site]), (two, [site])])
    rows = LiveTables(Workspace.open(str(tmp_path / "w"))).scan("pages").collect().to_dicts()
    stored = {row["collection"]: row["markdown"] for row in rows if row["url"].endswith("/a.html")}
    assert stored == {"one": None, "two": ARTICLE_MARKDOWN}


def test_readers_use_the_stored_markdown(site: str, run: RunCrawl) -> None:
    """The stored Markdown does not need the archive; other modes do."""
    crawled = run(site, markdown=True)
    root = str(crawled.root)
    for archive in crawled.root.rglob("*.warc.gz"):
        archive.write_bytes(archive.read_bytes()[:200])
    unreadable: list[str] = []
    pages = {
        page.url: page.markdown
        for page in selected_pages(Workspace.open(root), unreadable=unreadable)
    }
    assert (pages[f"{site}a.html"], unreadable) == (ARTICLE_MARKDOWN, [])
    list(selected_pages(Workspace.open(root), mode=MarkdownMode.FULL, unreadable=unreadable))
    assert len(unreadable) == 4
    workspace = Api(root)
    version = workspace.archive.markdown(f"{site}a.html")
    assert (version.title, version.markdown) == ("Spiders", ARTICLE_MARKDOWN)
    records = {record.url: record.markdown for record in workspace.pages()}
    assert records[f"{site}a.html"] == ARTICLE_MARKDOWN


def test_without_the_setting_markdown_is_made_from_the_archive(site: str, run: RunCrawl) -> None:
    workspace = Api(str(run(site).root))
    assert workspace.archive.markdown(f"{site}a.html").markdown == ARTICLE_MARKDOWN
    cited = workspace.archive.markdown(f"{site}d.docx", mode="citations").markdown
    assert "A page [1]" in cited
    assert "[1]: http://elsewhere.example/a\n" in cited
    exported = {page.url: page.markdown for page in selected_pages(Workspace.open(workspace.root))}
    assert exported[f"{site}d.docx"].startswith("# Wolf spiders\n\nThey hunt at night.\n")
    assert all(record.markdown == "" for record in workspace.pages())


def test_setting_on_the_command_line(site: str, tmp_path: Path) -> None:
    crawl = ("crawl", site, "--delay", "0s", "--set", "collection.markdown=true")
    here(tmp_path / "w", *crawl)
    assert _stored(tmp_path / "w")["a.html"] == ARTICLE_MARKDOWN
