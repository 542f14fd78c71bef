"""The library pages and API: languages, days, page records and files, over a crawled workspace."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import polars as pl
import pytest

from lycosa.commands.inspection.collection_facts import holdings
from lycosa.commands.inspection.hosts import list_hosts
from lycosa.commands.inspection.status import workspace_status
from lycosa.commands.inspection.status_by import groups_of
from lycosa.commands.maintenance.tokens import Tokens
from lycosa.config.serving import ServeSettings
from lycosa.core.units import format_size
from lycosa.crawl.session.workspace_config import read_config
from lycosa.export.library.formats import FORMATS
from lycosa.serve.app import create_app
from lycosa.store.exclusion.purge import exclude
from lycosa.store.storage.storage import open_storage
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from tests.serve.client import FORM, JSON, Client, bearer_headers, sign_in
from tests.serve.conftest import HOSTILE_TITLE
from tests.serve.pages import Document


@pytest.fixture(scope="module")
def client(writer: Client) -> Client:
    return writer


def links(client: Client, path: str, start: str) -> list[str]:
    """Return the links of a page that begin with a path."""
    return [
        link["href"]
        for link in Document(client.get(path).text).all("a")
        if link["href"].startswith(start)
    ]


def test_links_lead_from_languages_to_days_to_page_records(client: Client, copy: str) -> None:
    pages = LiveTables(Workspace.open(copy)).scan("pages").collect()
    languages = links(client, "/library", "/library/days?")
    assert {parse_qs(urlsplit(href).query)["lang"][0] for href in languages} == set(
        pages["language"].to_list()
    )
    (german,) = (href for href in languages if href.endswith("lang=de"))
    (day,) = links(client, german, "/library/day?")
    shown = links(client, day, "/library/page?")
    urls = {parse_qs(urlsplit(href).query)["url"][0] for href in shown}
    assert urls <= set(pages.filter(pages["language"] == "de")["url"].to_list())
    assert len(shown) == len(urls) >= 5
    record = Document(client.get(shown[0]).text)
    row = pages.filter(pages["url"] == parse_qs(urlsplit(shown[0]).query)["url"][0]).row(
        0, named=True
    )
    assert row["main_text"].split("\n")[0] in record.text("p")
    assert row["charset"] in record.text("dd")
    assert any(heading.startswith("Linked from: ") for heading in record.text("h2"))


def test_collection_page_counts_visits_and_links_to_its_days(client: Client, copy: str) -> None:
    visits = LiveTables(Workspace.open(copy)).scan("visits").collect()
    (collection_page,) = links(client, "/library", "/library/collection?")
    assert f"{visits.height:,}" in Document(client.get(collection_page).text).text("td")
    german = next(
        link for link in links(client, collection_page, "/library/day?") if "lang=de" in link
    )
    assert "collection=default" in german
    assert links(client, german, "/library/page?") == links(
        client, german.replace("&collection=default", ""), "/library/page?"
    )
    assert links(client, german.replace("=default", "=other"), "/library/page?") == []
    assert client.get("/library/collection", {"name": "nowhere"}).status_code == 404


def size(count: float) -> str:
    """Format a number of bytes as the pages do."""
    return re.sub(r"(?<=\d)(?=[A-Z])", " ", format_size(count))


def test_library_page_shows_all_statistics_and_charts(client: Client, copy: str) -> None:
    """The page shows the figures of `lycosa status --by` for language, type and host."""
    workspace = Workspace.open(copy)
    config = read_config(copy)
    page = Document(client.get("/library").text)
    cells = page.text("td")
    for by in ("language", "collection", "type"):
        for row in (*groups_of(workspace, by, config).rows, groups_of(workspace, by, config).total):
            assert {
                f"{row.pages:,}",
                f"{row.sites:,}",
                size(row.bytes),
                size(row.bytes_a_day),
            } <= set(cells)
    assert len([each for each in page.all("svg") if each.get("class") == "share"]) > len(
        set(page.text("h3"))
    )
    hosts = list_hosts(workspace.root)
    assert {f"{day}: {number}" for day, number in hosts.new_by_day.items()} <= set(page.text("li"))
    assert {f"{day}: {number}" for day, number in hosts.new_by_day.items()} <= set(
        page.text("title")
    ), "the chart shows new hosts per day"
    assert set(hosts.servers) <= set(page.text("th"))
    sites = {
        site.host
        for site in groups_of(workspace, "language", config, sites=True).sites
        if site.name == "de"
    }
    assert sites == set(Document(client.get("/library/days", {"lang": "de"}).text).text("a")) & set(
        LiveTables(workspace).scan("hosts").collect()["host"]
    )


def test_library_api_matches_the_tables(client: Client, copy: str) -> None:
    tables = LiveTables(Workspace.open(copy))
    pages = tables.scan("pages").collect()
    table = client.get("/api/v1/library", {"by": "collection", "sites": "true"}).json()
    assert (table["rows"][0]["name"], table["total"]["pages"]) == ("default", pages.height)
    assert sum(site["pages"] for site in table["sites"]) == pages.height
    assert table["totals"] == {"rows": len(table["rows"]), "sites": len(table["sites"])}
    parameters: dict[str, str | int] = {"by": "collection", "sites": "true", "offset": 1, "n": 2}
    assert client.get("/api/v1/library", parameters).json()["sites"] == table["sites"][1:3]
    assert client.get("/api/v1/hosts").json()["total"] == table["total"]["sites"]
    collection = client.get("/api/v1/library/collections/default").json()
    assert (collection["documents"], collection["links"]) == (
        pages.height,
        holdings(copy, "default").links,
    )
    assert collection["days"] == client.get("/api/v1/library/days").json()
    assert (
        client.get("/api/v1/library/days", {"offset": 1, "n": 1}).json() == collection["days"][1:2]
    )
    assert client.get("/api/v1/library/days", {"n": 1_001}).status_code == 422
    (day,) = client.get("/api/v1/library/days", {"lang": "de"}).json()
    assert day in collection["days"]
    edition = {"lang": "de", "day": day["day"]}
    listed = client.get("/api/v1/library/documents", {**edition, "n": 4, "offset": 1}).json()
    complete = client.get("/api/v1/library/documents", edition).json()
    assert listed["total"] == complete["total"] == day["documents"]
    assert listed["documents"] == complete["documents"][1:5]
    record = client.get("/api/v1/library/page", {"url": complete["documents"][0]["url"]}).json()
    row = pages.filter(pages["url"] == record["url"]).row(0, named=True)
    assert (record["main_text"], record["charset"], record["headline"]) == (
        row["main_text"],
        row["charset"],
        row["headline"],
    )
    links_of = tables.scan("links").filter(pl.col("source") == record["url"]).collect()
    assert (record["link_count"], len(record["links"])) == (links_of.height, links_of.height)
    for path in (
        "collections/nowhere",
        "page?url=http://nowhere.example/",
        f"file?lang=de&day={day['day']}&kind=xml&name=x",
    ):
        answer = client.get(f"/api/v1/library/{path}")
        assert (answer.status_code, answer.headers["content-type"]) == (
            404,
            "application/problem+json",
        )


def test_files_are_created_and_downloaded_by_the_api(copy: str) -> None:
    client = Client(
        create_app(
            copy,
            lambda: workspace_status(copy),
            limits=ServeSettings(library=f"{copy}/../exported"),
        )
    )
    (day,) = client.get("/api/v1/library/days", {"lang": "fr"}).json()
    edition = {"lang": "fr", "day": day["day"]}
    assert client.get("/api/v1/library/files", edition).json() == []
    body, headers = json.dumps({**edition, "kind": "jsonl"}), bearer_headers(copy, "eva")
    assert client.send("POST", "/api/v1/library/files", body, JSON).status_code == 401
    (file,) = client.send("POST", "/api/v1/library/files", body, headers).json()
    assert client.get("/api/v1/library/files", edition).json() == [file]
    download = client.get(file["href"])
    assert (download.headers["content-type"], len(download.content)) == (
        "application/octet-stream",
        file["bytes"],
    )
    assert len(download.text.splitlines()) == day["documents"]
    wrong = json.dumps({**edition, "kind": "exe"})
    assert client.send("POST", "/api/v1/library/files", wrong, headers).status_code == 422


def test_kinds_of_files_are_the_export_formats(client: Client) -> None:
    schema = client.get("/api/v1/openapi.json").json()["components"]["schemas"]["FilesRequest"]
    assert set(schema["properties"]["kind"]["enum"]) == set(FORMATS)


def test_unknown_and_invalid_parameters(client: Client) -> None:
    for path, query, status in (
        ("days", {"lang": "kk"}, 404),
        ("days", {"lang": "../x"}, 422),
        ("day", {"lang": "de", "day": "1999-01-01"}, 200),
        ("day", {"lang": "de", "day": "yesterday"}, 422),
        ("page", {"url": "http://nowhere.example/"}, 404),
        ("page", {"url": "http://[x"}, 404),
    ):
        assert client.get(f"/library/{path}", query).status_code == status, query


def test_empty_workspace_reports_no_archived_pages(empty_workspace: str) -> None:
    client = Client(create_app(empty_workspace, lambda: workspace_status(empty_workspace)))
    assert "No pages are archived yet" in client.get("/library").text


def test_creating_files_requires_a_token_and_downloading_does_not(
    client: Client, copy: str
) -> None:
    (day,) = links(client, "/library/days?lang=de", "/library/day?")
    date = parse_qs(urlsplit(day).query)["day"][0]
    assert links(client, day, "/library/file?") == []
    assert (
        client.send("POST", "/library/day", f"lang=de&day={date}&kind=jsonl", FORM).status_code
        == 401
    )
    headers, csrf = sign_in(client, Tokens(open_storage(copy)).add("ada"))
    for kind in ("jsonl", "xml"):
        created = client.send(
            "POST", "/library/day", f"lang=de&day={date}&kind={kind}&csrf={csrf}", headers
        )
        assert created.status_code == 303, created.text
    for wrong in (
        f"lang=de&day={date}&kind=exe",
        "lang=de&day=x&kind=xml",
        f"lang=../de&day={date}&kind=xml",
    ):
        refused = client.send("POST", "/library/day", f"{wrong}&csrf={csrf}", headers)
        assert refused.status_code == 400
    json_lines, xml = links(client, day, "/library/file?")
    download = client.get(json_lines)
    assert (
        download.headers["content-disposition"] == f'attachment; filename="de-{date}-00000.jsonl"'
    )
    assert download.headers["x-content-type-options"] == "nosniff"
    assert len(download.text.splitlines()) == len(links(client, day, "/library/page?"))
    assert b"<?xml" in client.get(xml).content[:100]
    folder = Path(copy) / "run" / "library" / "jsonl" / "de" / date
    (folder / "secret").write_text("x")
    for name in (
        "secret",
        "index.json",
        "../../../../../workspace.json",
        ".lock",
        f"de-{date}-00001.jsonl",
    ):
        parameters = {"lang": "de", "day": date, "kind": "jsonl", "name": name}
        assert client.get("/library/file", parameters).status_code == 404
    parameters = {"lang": "de", "day": date, "kind": "..", "name": f"de-{date}-00000.jsonl"}
    assert client.get("/library/file", parameters).status_code == 404


def test_untrusted_text_is_escaped_and_excluded_pages_are_not_found(
    client: Client, copy: str
) -> None:
    pages = LiveTables(Workspace.open(copy)).scan("pages").collect()
    hostile = pages.filter(pages["title"] == HOSTILE_TITLE)["url"][0]
    page = client.get("/library/page", {"url": hostile})
    assert Document(page.text).all("script") == Document(page.text).all("img") == []
    assert HOSTILE_TITLE in Document(page.text).text("bdi") or "Venomous page" in Document(
        page.text
    ).text("bdi")
    exclude(Workspace.open(copy), [f"host:{re.sub(r':.*', '', urlsplit(hostile).netloc)}"])
    assert client.get("/library/page", {"url": hostile}).status_code == 404
