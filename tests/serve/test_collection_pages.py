"""The page of a collection and its JSON: crawled, and only configured."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lycosa.commands.inspection.collection_facts import collection_facts, holdings
from lycosa.commands.inspection.status import workspace_status
from lycosa.commands.maintenance.tokens import Tokens
from lycosa.crawl.session.pausing import paused
from lycosa.crawl.session.workspace_config import read_config
from lycosa.store.storage.storage import open_storage
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from tests.index.corpus import Corpus, page
from tests.serve.client import Client, sign_in
from tests.serve.pages import Document

CONFIG = """
[[collection]]
name = "news"
seeds = ["https://example.org/"]
paused = true
delay = "5s"

[[collection]]
name = "default"
seeds = ["http://127.0.2.1/"]
depth = 3
"""


@pytest.fixture(scope="module")
def copy(copy: str) -> str:
    """Copy of the crawled workspace with a new configuration."""
    (Path(copy) / "lycosa.toml").write_text(CONFIG)
    return copy


def test_collection_page_matches_the_tables(client: Client, workspace: str) -> None:
    tables = LiveTables(Workspace.open(workspace))
    pages, visits = tables.scan("pages").collect(), tables.scan("visits").collect()
    answer = client.get("/crawl/collection/default")
    page = Document(answer.text)
    assert (answer.status_code, page.text("h1")) == (200, ["default"])
    values = {" ".join(text.split()) for text in page.text("dd")}
    assert {f"{pages.height:,}", f"{visits.height:,}"} <= values
    columns = [
        match for title in page.text("title") if (match := re.search(r": ([\d,]+) fetch", title))
    ]
    assert sum(int(match[1].replace(",", "")) for match in columns) == visits.height
    hosts = {
        link["href"].partition("name=")[2]
        for link in page.all("a")
        if link["href"].startswith("/crawl/host?")
    }
    assert hosts == {re.sub(r"^\w+://([^/:]+).*", r"\1", url) for url in pages["url"]}
    assert "courtesy_factor" in page.text("code"), (
        "settings of the crawl that differ from the defaults are shown"
    )
    assert page.all("form") == [], "forms require a token"
    assert "/crawl/collection/default" in {
        link["href"] for link in Document(client.get("/crawl").text).all("a")
    }


def test_collection_api_matches_the_status(client: Client, workspace: str) -> None:
    status = workspace_status(workspace)
    facts = client.get("/api/v1/collections/default").json()
    assert (facts["pages"], facts["fetches"], facts["languages"]) == (
        status.pages,
        status.visits,
        status.languages,
    )
    assert (
        facts["statuses"],
        sum(host["pages"] for host in facts["hosts"]),
        facts["settings"]["delay"],
    ) == (status.statuses, facts["pages"], "0s")
    assert not {"auth", "login"} & facts["settings"].keys()
    assert facts["paused"] is None
    (listed,) = client.get("/api/v1/collections").json()
    assert (listed["name"], listed["pages"], listed["urls"]) == (
        "default",
        facts["pages"],
        dict(sorted(facts["states"].items())),
    )


def test_unknown_collection_is_not_found(client: Client) -> None:
    for path in ("/crawl/collection/nowhere", "/api/v1/collections/nowhere"):
        assert client.get(path).status_code == 404
    assert (
        client.get("/api/v1/collections/nowhere").headers["content-type"]
        == "application/problem+json"
    )
    assert (
        "未知的集合"
        in client.get(
            "/crawl/collection/nowhere", headers={"accept": "text/html", "accept-language": "zh"}
        ).text
    )
    assert client.get("/crawl/collection/..%2Fx").status_code in (404, 422)


def test_uncrawled_collection_and_pending_settings_are_shown(
    writer: Client,
) -> None:
    news = writer.get("/crawl/collection/news").text
    assert "paused in lycosa.toml" in news
    assert "Nothing has been fetched yet" in news
    uncrawled = writer.get("/api/v1/collections/news").json()
    assert (uncrawled["configured"], uncrawled["changed"], uncrawled["seeds"]) == (
        True,
        ["delay", "paused"],
        ["https://example.org/"],
    )
    changed = writer.get("/api/v1/collections/default").json()
    assert changed["settings"]["depth"] is None, "the settings of the last crawl apply"
    assert changed["pending"] == ["depth", "delay", "courtesy_factor"]
    assert "depth, delay, courtesy_factor" in writer.get("/crawl/collection/default").text


def test_facts_of_a_collection_without_configuration(tmp_path: Path) -> None:
    corpus = Corpus(str(tmp_path / "w"))
    corpus.commit([("http://h.test/", page("A spider."))])
    facts = collection_facts(corpus.root, read_config(corpus.root), "default")
    assert facts is not None
    assert (facts.pages, facts.configured, facts.changed, facts.pending) == (1, False, [], [])
    assert collection_facts(corpus.root, read_config(corpus.root), "other") is None


def test_pause_and_resume_return_to_the_collection_page(writer: Client, copy: str) -> None:
    headers, csrf = sign_in(writer, Tokens(open_storage(copy)).add("ada"))
    for pausing, button, notice in (("yes", "Resume", "Paused"), ("no", "Pause", "Resumed.")):
        body = f"collection=default&back=collection&paused={pausing}&csrf={csrf}"
        done = writer.send("POST", "/crawl/pause", body, headers)
        assert done.status_code == 303
        page = writer.get(done.headers["location"], headers=headers).text
        assert button in Document(page).text("button")
        assert notice in page
        assert ("default" in paused(open_storage(copy))) == (pausing == "yes")


def test_holdings_match_tables_and_archive(workspace: str) -> None:
    tables = LiveTables(Workspace.open(workspace))
    totals = holdings(workspace, "default")
    assert totals.captures == tables.scan("visits").collect().height
    assert totals.archived_bytes <= sum(
        path.stat().st_size for path in Path(workspace).rglob("*.warc.gz")
    )
    links = tables.scan("links").collect()
    assert totals.links == links.filter(links["kind"] != "redirect").height, (
        "redirects are not counted as links"
    )
    assert holdings(workspace, "nowhere").pages == 0
