"""Test passages of a crawled site: Python, API and command line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from lycosa import Workspace
from lycosa.captures.captures import NoVersion
from lycosa.commands.inspection.chunked_pages import ChunkedPages
from lycosa.commands.inspection.passages import NO_PASSAGE
from lycosa.core.errors import UsageError, WorkspaceError
from lycosa.serve.app import create_app
from tests.cli.conftest import run_here
from tests.serve.client import Client
from tests.servers.nginx import Server, nginx

PROSE = "This sentence of prose is long enough to be main text, and it has no links at all."
FILES = {
    "index.html": f"<html lang=en><title>Manual</title><main><h1>Manual</h1><p>{PROSE}</p>"
    "<a href=/reset.html>Reset</a> <a href=/copy.html>Copy</a> <a href=/no.html>No</a></main>",
    "reset.html": "<html lang=en><title>Accounts</title><main><h1>Accounts</h1>"
    f"<p>{PROSE}</p><h2>Lost password</h2><p>To reset a password, open the menu and choose the "
    "entry for lost keys. A message with a code arrives.</p><h2>Prices</h2>"
    f"<p>{PROSE} Every account costs ten coins a month.</p></main>",
    "copy.html": "<html lang=en><title>Accounts, old</title><main><h1>Old</h1><p>Older pages of "
    "the manual are like the new ones.</p><h2>Lost password</h2><p>To reset a password, open the "
    "menu and choose the entry for lost keys. A message with a code arrives.</p></main>",
    "no.html": "<title>Hidden</title><meta name=robots content=noindex><p>reset a password secretly",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    root = tmp_path_factory.mktemp("passages")
    (root / "site").mkdir()
    for name, content in FILES.items():
        (root / "site" / name).write_text(content)
    with nginx([Server("127.0.8.9", root / "site", index="index.html")]) as server:
        start = f"http://127.0.8.9:{server.port}/"
        Workspace(root / "w", settings={"crawl.patience": 0}).crawl(start, delay=0)
        yield start, str(root / "w")


def test_the_best_passage_has_its_source(site: tuple[str, str]) -> None:
    start, root = site
    result = Workspace(root).texts.passages("how do I reset my password?", count=3, max_tokens=80)
    first = result.passages[0]
    assert first.url in (f"{start}reset.html", f"{start}copy.html")
    assert first.headings[-1] == "Lost password"
    assert first.text.startswith("## Lost password\n\nTo reset a password")
    assert first.tokens <= 80
    assert first.copies == 1
    assert result.tokens == sum(each.tokens for each in result.passages)
    assert all("secretly" not in each.text for each in result.passages)


def test_the_citation_leads_to_the_capture(site: tuple[str, str]) -> None:
    _, root = site
    first = Workspace(root).texts.passages("coins a month").passages[0]
    at = first.cached.partition("&at=")[2]
    version = Workspace(root).archive.text(first.url, at).version
    assert (version.record_id, version.cached) == (first.record_id, first.cached)
    assert "ten coins" in first.text


def test_passages_are_chunks_of_their_page(site: tuple[str, str]) -> None:
    start, root = site
    workspace = Workspace(root)
    passage = workspace.texts.passages("coins a month", max_tokens=60).passages[0]
    page = workspace.texts.chunks(passage.url, max_tokens=60)
    (chunk,) = (each for each in page.chunks if each.id == passage.id)
    assert (chunk.text, chunk.position, chunk.previous) == (
        passage.text,
        passage.position,
        passage.previous,
    )
    assert [each.position for each in page.chunks] == [*range(1, len(page.chunks) + 1)]
    assert (page.record_id, page.title) == (passage.record_id, "Accounts")
    with pytest.raises(UsageError):
        workspace.texts.chunks("http://")
    for absent in (f"{start}nowhere", f"{start}no.html"):
        with pytest.raises(NoVersion):
            workspace.texts.chunks(absent)


def test_budget_and_filters_restrict_passages(site: tuple[str, str]) -> None:
    start, root = site
    workspace = Workspace(root)
    limited = workspace.texts.passages("password manual prose", budget=60, max_tokens=50)
    assert 0 < limited.tokens <= 60
    assert workspace.texts.passages("password", site=start.split("/")[2]).passages
    assert not workspace.texts.passages("password", site="other.test").passages
    assert not workspace.texts.passages("password", language="de").passages
    with pytest.raises(UsageError, match="unknown collection 'other'"):
        workspace.texts.passages("password", collection="other")
    assert not workspace.texts.passages("nowhereword").passages


def test_operators_without_words_are_answered_without_reading_pages(
    site: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = Workspace(site[1]).texts
    read = dict[str, int]()
    monkeypatch.setattr(ChunkedPages, "get", lambda _, urls, split: read.update(urls) or {})
    assert texts.passages("-nowhereword").notes == [NO_PASSAGE]
    assert not read
    monkeypatch.undo()
    assert texts.passages("lang:en").notes == [NO_PASSAGE]
    assert texts.passages("coins", budget=20).notes == [NO_PASSAGE]
    assert not texts.passages("nowhereword").notes


def test_words_in_groups_rank_passages(site: tuple[str, str]) -> None:
    texts = Workspace(site[1]).texts
    plain = texts.passages("coins").passages
    assert plain
    for query in ("coins OR nowhereword", "(coins OR nowhereword) -absentword"):
        assert [each.id for each in texts.passages(query).passages] == [each.id for each in plain]


def test_words_of_an_absent_phrase_rank_passages(site: tuple[str, str]) -> None:
    result = Workspace(site[1]).texts.passages('"month ten coins"', max_tokens=60)
    assert "ten coins a month" in result.passages[0].text
    assert result.notes[0].startswith('no page contains the phrase "month ten coins"; its words')


def test_the_api_returns_passages_and_chunks(site: tuple[str, str]) -> None:
    start, root = site
    client = Client(create_app(root, dict))
    parameters: dict[str, str | int] = {"q": "coins a month", "n": 1, "tokens": 60}
    (passage,) = client.get("/api/v1/passages", params=parameters).json()["passages"]
    assert "ten coins" in passage["text"]
    page = client.get("/api/v1/chunks", params={"url": passage["url"], "tokens": 60}).json()
    assert passage["id"] in [each["id"] for each in page["chunks"]]
    assert client.get(passage["cached"]).status_code == 200
    assert client.get("/api/v1/chunks", params={"url": f"{start}nowhere"}).status_code == 404
    assert client.get("/api/v1/passages", params={"q": "x", "tokens": 3}).status_code == 422


def test_passages_without_the_archive_come_from_the_stored_text(
    site: tuple[str, str], tmp_path: Path
) -> None:
    _, root = site
    copy = tmp_path / "w"
    shutil.copytree(root, copy)
    for file in copy.rglob("*.warc*"):
        file.unlink()
    first = Workspace(str(copy)).texts.passages("coins a month").passages[0]
    assert "ten coins" in first.text


def test_the_command_prints_passages(site: tuple[str, str]) -> None:
    _, root = site
    outcome = run_here("-w", root, "search", "--passages", "--max-tokens", "80", "reset password")
    assert outcome.code == 0, outcome.err
    assert "Accounts › Accounts › Lost password" in outcome.out
    assert "/cached?url=http" in outcome.out
    assert "1 more with nearly the same text" in outcome.out
    printed = json.loads(
        run_here("-w", root, "search", "--passages", "--json", "-n", "1", "password").out
    )
    assert len(printed["passages"]) == 1
    assert run_here("-w", root, "search", "--passages", "nowhereword").code == 1


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--passages", "--explain", "x"], "--passages goes with"),
        (["--passages", "--across", "x"], "--passages goes with"),
        (["--passages", "--page", "2", "x"], "--passages goes with"),
        (["--budget", "100", "x"], "need --passages"),
        (["--passages", "--max-tokens", "3", "x"], "from 16 to 4000"),
        (["--passages", "-n", "500", "x"], "from 1 to 100"),
        (["--passages", "--budget", "-1", "x"], "at least 0"),
    ],
)
def test_wrong_options_are_refused(site: tuple[str, str], words: list[str], problem: str) -> None:
    outcome = run_here("-w", site[1], "search", *words)
    assert outcome.code == 2
    assert problem in outcome.err


def test_a_missing_workspace_and_an_invalid_count_raise(tmp_path: Path) -> None:
    with pytest.raises(WorkspaceError):
        Workspace(tmp_path / "none").texts.passages("x")
    with pytest.raises(UsageError):
        Workspace(tmp_path).texts.passages("x", count=0)
