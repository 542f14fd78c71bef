"""`lycosa exclude` and `lycosa compact`: hide, delete and compact data of a workspace."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import pytest

from lycosa.store.workspace import Workspace
from tests.cli.conftest import Lycosa, printed_here


@pytest.fixture(scope="module")
def crawled(site: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Workspace in which the site was crawled by two commands."""
    path = tmp_path_factory.mktemp("crawled") / "w"
    for limit in ("1", "10"):
        options = ("--delay", "0", "--max-pages", limit, "--set", "crawl.patience=3s")
        printed_here("-w", str(path), "crawl", site, *options)
    return path


@pytest.fixture
def root(crawled: Path, tmp_path: Path) -> str:
    """A copy of that workspace, which the test may change."""
    return str(shutil.copytree(crawled, tmp_path / "w"))


def _files_with(root: str, text: bytes) -> list[str]:
    """Return the names of files that contain a text, also within gzip."""
    names = []
    for path in Path(root).rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            if path.suffix == ".gz":
                content = gzip.decompress(content)
            if text in content:
                names.append(path.name)
    return names


@pytest.mark.proves("politeness-exclusions", "consistency-exclusion")
def test_excluded_pages_are_hidden_but_not_deleted(here: Lycosa, site: str, root: str) -> None:
    assert here("-w", root, "search", "compound").code == 0
    here("-w", root, "exclude", f"prefix:{site}/eyes").expect(0, "still on disk")
    assert here("-w", root, "search", "compound").code == 1
    assert here("-w", root, "search", "moths").code == 0
    assert here("-w", root, "status", "--json").json["pages"] == 1
    assert "excluded" in here("-w", root, "explain", f"{site}/eyes.html").out
    recrawl = here("-w", root, "crawl", "--json", "--delay", "0", "--set", "crawl.patience=3s")
    assert recrawl.json["pages"] == 0
    assert "archive.warc.gz" in _files_with(root, b"A compound eye sees movement")


@pytest.mark.proves("consistency-purge")
def test_purge_deletes_all_bytes_of_excluded_pages(here: Lycosa, site: str, root: str) -> None:
    report = here("-w", root, "exclude", "--purge", "--json", f"prefix:{site}/eyes").json
    assert report["pending"] == {}
    assert report["records"]
    assert report["rows"]["pages"] == 1  # type: ignore[index]
    assert _files_with(root, b"A compound eye sees movement") == []
    assert _files_with(root, b"Compound eyes") == []
    assert _files_with(root, b"Moths fly at night") != []
    assert here("-w", root, "search", "moths").code == 0
    assert here("-w", root, "check", "--deep").code == 0
    purged = here("-w", root, "exclude", "--purge", "host:127.0.4.1")
    purged.expect(0, "Deleted from this workspace")
    assert _files_with(root, b"Moths fly at night") == []
    assert here("-w", root, "status", "--json").json["pages"] == 0


def test_purge_during_a_crawl_is_reported_as_incomplete(here: Lycosa, site: str, root: str) -> None:
    with Workspace.open(root).own("run"):
        outcome = here("-w", root, "exclude", "--purge", f"prefix:{site}/eyes")
    outcome.expect(1, "may have rows that are not committed yet")
    assert (
        here("-w", root, "exclude").out == f"excluded  prefix:{site.removeprefix('http://')}/eyes\n"
    )
    here("-w", root, "exclude", "--purge").expect(0, "Deleted from this workspace")


def test_invalid_exclusion_changes_nothing(here: Lycosa, root: str) -> None:
    assert "this workspace has no exclusions" in here("-w", root, "exclude").err
    outcome = here("-w", root, "exclude", "*.example.org")
    outcome.expect(2, err=("domain:example.org includes all its subdomains",))
    assert here("-w", root, "exclude").code == 2


def test_full_compaction_reduces_the_number_of_files(here: Lycosa, root: str) -> None:
    pages = here("-w", root, "sql", "SELECT url, title FROM pages ORDER BY url", "--json").out
    outcome = here("-w", root, "compact", "--full", "--json").json
    assert outcome["merged"]["files_after"] < outcome["merged"]["files_before"]  # type: ignore[index]
    assert (
        here("-w", root, "sql", "SELECT url, title FROM pages ORDER BY url", "--json").out == pages
    )
    assert "became" in here("-w", root, "compact").out
    assert here("-w", root, "check", "--deep").code == 0
