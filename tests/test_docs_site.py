"""The documentation site builds without warnings, is complete, and works without a network."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from pydantic import BaseModel
from selectolax.lexbor import LexborHTMLParser

from lycosa.api import Workspace
from lycosa.api.exports import Exports
from lycosa.api.groups import Collections, Maintenance, Monitors, Translations, Watches
from lycosa.api.inspection import ArchivedVersions, Sites, Texts, Urls, WorkspaceStatistics
from lycosa.api.results import Results
from lycosa.api.streams import PageStream
from lycosa.cli.main import COMMANDS
from lycosa.config.credentials import BasicAuth, FormLogin
from lycosa.config.monitor import Monitor
from lycosa.config.settings import Collection, Config
from lycosa.store.tables.schema import TABLES
from tests.servers.system import require_program

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent
API = (
    *(ArchivedVersions, Collections, Exports, Maintenance, Monitors, Sites, Texts),
    *(Translations, Urls, Watches, Workspace, WorkspaceStatistics, PageStream, Results),
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("docs") / "site"
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(target)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return target


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, LexborHTMLParser]:
    return {path: LexborHTMLParser(path.read_bytes()) for path in site.rglob("*.html")}


def test_every_document_has_a_page(site: Path) -> None:
    for document in (ROOT / "docs").rglob("*.md"):
        page = site / document.relative_to(ROOT / "docs").with_suffix(".html")
        assert page.is_file(), document


def test_pages_load_nothing_from_other_hosts(pages: dict[Path, LexborHTMLParser]) -> None:
    for path, page in pages.items():
        resources = [
            node.attributes.get("src") or node.attributes.get("href") or ""
            for node in page.css("script[src], img[src], iframe[src], link[rel=stylesheet]")
        ]
        assert resources or path.name == "404.html", path
        assert not [url for url in resources if urlsplit(url).netloc], path


def test_targets_of_links_and_anchors_exist(pages: dict[Path, LexborHTMLParser]) -> None:
    anchors = {
        path: {node.attributes["id"] for node in page.css("[id]")} for path, page in pages.items()
    }
    checked = 0
    for path, page in pages.items():
        if path.name == "404.html":  # its links are absolute
            continue
        for node in page.css("a[href]"):
            parts = urlsplit(node.attributes["href"] or "")
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert target.is_file(), f"{path}: {node.attributes['href']}"
            if parts.fragment and target in anchors:
                assert unquote(parts.fragment) in anchors[target], (
                    f"{path}: {node.attributes['href']}"
                )
            checked += 1
    assert checked > 2_000


def _codes(page: LexborHTMLParser) -> set[str]:
    """Return the code in the first cells of the tables of a page."""
    return {node.text(strip=True) for node in page.css("td:first-child code")}


def test_every_setting_is_in_the_reference(site: Path, pages: dict[Path, LexborHTMLParser]) -> None:
    documented = set[str]()
    for path, page in pages.items():
        if path.name.startswith("settings-"):
            documented |= _codes(page)
    models: list[type[BaseModel]] = [Collection, BasicAuth, FormLogin, Monitor]
    config = Config()
    models += [
        type(section)
        for name in Config.model_fields
        if isinstance(section := getattr(config, name), BaseModel)
    ]
    expected = {name for model in models for name in model.model_fields}
    assert len(expected) > 100
    assert expected - documented == set()


def test_every_column_is_in_the_reference(pages: dict[Path, LexborHTMLParser], site: Path) -> None:
    page = pages[site / "reference" / "tables.html"]
    assert {column.name for table in TABLES.values() for column in table.columns} <= _codes(page)
    assert TABLES.keys() <= {node.attributes["id"] for node in page.css("h2[id]")}


def test_every_command_is_in_the_reference(pages: dict[Path, LexborHTMLParser], site: Path) -> None:
    titles = " ".join(
        node.text()
        for path, page in pages.items()
        if path.name.startswith("commands-")
        for node in page.css("h2")
    )
    for panel in COMMANDS.values():
        for name in panel:
            assert f"lycosa {name}" in titles, name


def test_every_public_function_of_the_python_api_is_in_the_reference(
    pages: dict[Path, LexborHTMLParser], site: Path
) -> None:
    page = pages[site / "reference" / "python-api.html"]
    anchors = {node.attributes["id"] or "" for node in page.css("[id]")}
    names = {".".join(anchor.split(".")[-2:]) for anchor in anchors}
    expected = {
        f"{owner.__name__}.{name}"
        for owner in API
        for name, member in vars(owner).items()
        if not name.startswith("_") and (inspect.isfunction(member) or hasattr(member, "func"))
    }
    assert len(expected) > 60
    assert expected - names == set()


def test_the_search_index_contains_the_pages(site: Path) -> None:
    text = (site / "search" / "search_index.js").read_text(encoding="utf-8")
    entries = json.loads(text.removeprefix("var __index = "))["docs"]
    texts = " ".join(entry["text"] for entry in entries)
    assert len(entries) > 400
    assert "wolf spider mother" in texts


def test_search_works_on_file_urls(site: Path, tmp_path: Path) -> None:
    page = (site / "how-to" / "export.html").as_uri()
    done = subprocess.run(
        [
            require_program("chromium"),
            *("--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}"),
            *("--allow-file-access-from-files", "--host-resolver-rules=MAP * ~NOTFOUND"),
            *("--virtual-time-budget=30000", "--dump-dom", f"{page}?q=courtesy"),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    results = LexborHTMLParser(done.stdout).css("a.md-search-result__link")
    targets = [result.attributes["href"] or "" for result in results]
    assert any("reference/settings-collection.html" in target for target in targets), targets
