"""Test exports of a crawled site as Markdown files and `llms.txt`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from lycosa.config.reading import parse_config
from lycosa.core.errors import UsageError
from lycosa.export.markdown.pages import (
    MarkdownReport,
    export_llms,
    export_markdown,
    selected_pages,
)
from lycosa.export.mirror.mirror import MirrorReport, export_mirror
from lycosa.page.html.markdown import MarkdownMode
from lycosa.store.exclusion.purge import purge
from lycosa.store.workspace import Workspace
from tests.servers.nginx import Server, nginx
from tests.site.editable_site import crawled

PROSE = "This is a sentence of prose that is long enough to be main text, and it has no links."
MENU = "<nav><ul><li><a href=/>Home</a><li><a href=/docs/install.html>Install</a></ul></nav>"
FILES = {
    "index.html": f"<title>Example: start</title><meta name=description content='All about it.'>"
    f"{MENU}<main><h1>Start</h1><p>{PROSE}</p><p>{PROSE}</p></main>",
    "docs/install.html": f"<html lang=en><title>Install</title>{MENU}<main><h1>Install</h1>"
    f"<p>{PROSE}</p><pre><code class=language-sh>pip install x\n  y\n</code></pre>"
    "<table><tr><th>a<th>b<tr><td>1<td>2</table><a href=/notes.txt>Notes</a></main>",
    "docs/hidden.html": "<title>Hidden</title><meta name=robots content=noindex><p>Not for all.",
    "notes.txt": f"# Not a heading\n{PROSE}",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Workspace]]:
    root = tmp_path_factory.mktemp("markdown")
    for name, content in FILES.items():
        (root / "site" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "site" / name).write_text(content)
    with nginx([Server("127.0.8.7", root / "site", index="index.html")]) as server:
        start = f"http://127.0.8.7:{server.port}/"
        config = parse_config("", overrides=("crawl.patience=0",))
        crawled(str(root / "w"), start, f"{start}docs/hidden.html", config=config)
        yield start, Workspace.open(str(root / "w"))


def test_one_markdown_file_per_page(site: tuple[str, Workspace], tmp_path: Path) -> None:
    start, workspace = site
    report = export_markdown(workspace, tmp_path)
    host = start.split("/")[2].replace(":", "_")
    names = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.md"))
    assert names == [f"{host}/docs/install.html.md", f"{host}/index.md", f"{host}/notes.txt.md"]
    assert (report.pages, report.unreadable) == (3, [])
    text = (tmp_path / host / "docs/install.html.md").read_text()
    head, _, body = text.removeprefix("---\n").partition("---\n")
    front = {
        name: json.loads(value)
        for name, value in (line.split(": ", 1) for line in head.strip().split("\n"))
    }
    assert (front["url"], front["title"]) == (f"{start}docs/install.html", "Install")
    assert front["language"] == "en"
    assert front["fetched"].endswith("Z")
    assert body.lstrip("\n") == (
        f"# Install\n\n{PROSE}\n\n```sh\npip install x\n  y\n```\n\n| a | b |\n| --- | --- |\n"
        f"| 1 | 2 |\n\n[Notes]({start}notes.txt)\n"
    )
    assert "\\# Not a heading" in (tmp_path / host / "notes.txt.md").read_text()


def test_unchanged_files_are_not_written_again(site: tuple[str, Workspace], tmp_path: Path) -> None:
    _, workspace = site
    export_markdown(workspace, tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.md")}
    changed = next(iter(before))
    changed.write_text("changed")
    export_markdown(workspace, tmp_path)
    after = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.md")}
    assert {path for path in before if before[path] != after[path]} == {changed}


def test_files_are_removed_if_no_page_is_left(site: tuple[str, Workspace], tmp_path: Path) -> None:
    start, workspace = site
    shutil.copytree(workspace.path(""), tmp_path / "w")
    copy = Workspace.open(str(tmp_path / "w"))
    markdown, mirror = tmp_path / "markdown", tmp_path / "mirror"

    def exported() -> tuple[MarkdownReport, MirrorReport]:
        site_mirror = export_mirror(copy, "127.0.8.7", mirror, collection="default")
        return export_markdown(copy, markdown), site_mirror

    first = exported()
    written = [first[0].pages, first[1].files]
    purge(copy, [f"prefix:{start}"])
    removed = exported()
    assert [(report.pages, report.removed) for report in removed] == [(0, n) for n in written]
    assert not [path for path in markdown.rglob("*") if path.suffix == ".md"]
    assert export_markdown(copy, markdown).removed == 0
    with pytest.raises(UsageError, match="no such pages"):
        export_markdown(copy, tmp_path / "new")


def test_llms_files_list_the_pages(site: tuple[str, Workspace], tmp_path: Path) -> None:
    start, workspace = site
    assert export_llms(workspace, start, tmp_path).pages == 3
    assert (tmp_path / "llms.txt").read_text() == (
        "# Example: start\n\n> All about it.\n\n## Pages\n\n"
        f"- [Example: start]({start}): All about it.\n- [{start}notes.txt]({start}notes.txt)\n\n"
        f"## Docs\n\n- [Install]({start}docs/install.html)\n"
    )
    full = (tmp_path / "llms-full.txt").read_text()
    assert full.count("Source: ") == 3
    assert "pip install x" in full


def test_full_markdown_and_a_damaged_archive(site: tuple[str, Workspace], tmp_path: Path) -> None:
    start, workspace = site
    pages = {page.url: page for page in selected_pages(workspace, mode=MarkdownMode.FULL)}
    assert "- [Home]" in pages[start].markdown
    with pytest.raises(UsageError, match="no such pages"):
        list(selected_pages(workspace, site="other.example", required=True))
    copy = tmp_path / "copy"
    shutil.copytree(workspace.path(""), copy)
    for archive in copy.rglob("*.warc.gz"):
        archive.write_bytes(archive.read_bytes()[:200])
    unreadable: list[str] = []
    assert list(selected_pages(Workspace.open(str(copy)), unreadable=unreadable)) == []
    assert len(unreadable) == 3
