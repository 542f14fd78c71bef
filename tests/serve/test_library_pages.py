"""The library's pages: from a language to a page's record, and the files of a day, over a workspace
that was really crawled.
"""

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
from tests.serve.client import Client
from tests.serve.conftest import HOSTILE_TITLE
from tests.serve.pages import Document
from tests.serve.test_crawl_pages import FORM, come_in


@pytest.fixture(scope="module")
def client(writer: Client) -> Client:
    return writer


def links(client: Client, path: str, start: str) -> list[str]:
    return [
        link["href"]
        for link in Document(client.get(path).text).all("a")
        if link["href"].startswith(start)
    ]


def test_from_a_language_to_a_page(client: Client, copy: str) -> None:
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


def test_what_a_collection_holds(client: Client, copy: str) -> None:
    visits = LiveTables(Workspace.open(copy)).scan("visits").collect()
    (place,) = links(client, "/library", "/library/collection?")
    assert f"{visits.height:,}" in Document(client.get(place).text).text("td")
    german = next(link for link in links(client, place, "/library/day?") if "lang=de" in link)
    assert "collection=default" in german
    assert links(client, german, "/library/page?") == links(
        client, german.replace("&collection=default", ""), "/library/page?"
    )
    assert links(client, german.replace("=default", "=other"), "/library/page?") == []
    assert client.get("/library/collection", {"name": "nowhere"}).status_code == 404


def size(count: float) -> str:
    """Bytes as a page shows them."""
    return re.sub(r"(?<=\d)(?=[A-Z])", " ", format_size(count))


def test_every_statistic_is_there_and_drawn(client: Client, copy: str) -> None:
    """What `lycosa status --by` prints, by language, type and host."""
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
    ), "the picture"
    assert set(hosts.servers) <= set(page.text("th"))
    sites = {
        site.host
        for site in groups_of(workspace, "language", config, sites=True).sites
        if site.name == "de"
    }
    assert sites == set(Document(client.get("/library/days", {"lang": "de"}).text).text("a")) & set(
        LiveTables(workspace).scan("hosts").collect()["host"]
    )


def test_the_same_as_json(client: Client, copy: str) -> None:
    tables = LiveTables(Workspace.open(copy))
    pages = tables.scan("pages").collect()
    table = client.get("/api/v1/library", {"by": "collection", "sites": "true"}).json()
    assert (table["rows"][0]["name"], table["total"]["pages"]) == ("default", pages.height)
    assert sum(site["pages"] for site in table["sites"]) == pages.height
    assert table["totals"] == {"rows": len(table["rows"]), "sites": len(table["sites"])}
    asked: dict[str, str | int] = {"by": "collection", "sites": "true", "offset": 1, "n": 2}
    assert client.get("/api/v1/library", asked).json()["sites"] == table["sites"][1:3]
    assert client.get("/api/v1/hosts").json()["total"] == table["total"]["sites"]
    held = client.get("/api/v1/library/collections/default").json()
    assert (held["documents"], held["links"]) == (pages.height, holdings(copy, "default").links)
    assert held["days"] == client.get("/api/v1/library/days").json()
    assert client.get("/api/v1/library/days", {"offset": 1, "n": 1}).json() == held["days"][1:2]
    assert client.get("/api/v1/library/days", {"n": 1_001}).status_code == 422
    (day,) = client.get("/api/v1/library/days", {"lang": "de"}).json()
    assert day in held["days"]
    shelf = {"lang": "de", "day": day["day"]}
    listed = client.get("/api/v1/library/documents", {**shelf, "n": 4, "offset": 1}).json()
    whole = client.get("/api/v1/library/documents", shelf).json()
    assert listed["total"] == whole["total"] == day["documents"]
    assert listed["documents"] == whole["documents"][1:5]
    record = client.get("/api/v1/library/page", {"url": whole["documents"][0]["url"]}).json()
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


def test_a_file_is_made_and_taken_by_the_api(copy: str) -> None:
    client = Client(
        create_app(
            copy,
            lambda: workspace_status(copy),
            limits=ServeSettings(library=f"{copy}/../exported"),
        )
    )
    (day,) = client.get("/api/v1/library/days", {"lang": "fr"}).json()
    shelf = {"lang": "fr", "day": day["day"]}
    assert client.get("/api/v1/library/files", shelf).json() == []
    body, kind = json.dumps({**shelf, "kind": "jsonl"}), {"content-type": "application/json"}
    assert client.send("POST", "/api/v1/library/files", body, kind).status_code == 401
    bearer = {"authorization": f"Bearer {Tokens(open_storage(copy)).add('eva')}"}
    (made,) = client.send("POST", "/api/v1/library/files", body, {**kind, **bearer}).json()
    assert client.get("/api/v1/library/files", shelf).json() == [made]
    taken = client.get(made["href"])
    assert (taken.headers["content-type"], len(taken.content)) == (
        "application/octet-stream",
        made["bytes"],
    )
    assert len(taken.text.splitlines()) == day["documents"]
    wrong = json.dumps({**shelf, "kind": "exe"})
    assert (
        client.send("POST", "/api/v1/library/files", wrong, {**kind, **bearer}).status_code == 422
    )


def test_the_kinds_of_files_are_those_of_exports(client: Client) -> None:
    schema = client.get("/api/v1/openapi.json").json()["components"]["schemas"]["FilesRequest"]
    assert set(schema["properties"]["kind"]["enum"]) == set(FORMATS)


def test_what_is_not_there(client: Client) -> None:
    for path, query, status in (
        ("days", {"lang": "kk"}, 404),
        ("days", {"lang": "../x"}, 422),
        ("day", {"lang": "de", "day": "1999-01-01"}, 200),
        ("day", {"lang": "de", "day": "yesterday"}, 422),
        ("page", {"url": "http://nowhere.example/"}, 404),
        ("page", {"url": "http://[x"}, 404),
    ):
        assert client.get(f"/library/{path}", query).status_code == status, query


def test_an_empty_workspace(empty_workspace: str) -> None:
    client = Client(create_app(empty_workspace, lambda: workspace_status(empty_workspace)))
    assert "No pages are archived yet" in client.get("/library").text


def test_files_are_made_by_those_with_a_token_and_taken_by_all(client: Client, copy: str) -> None:
    (day,) = links(client, "/library/days?lang=de", "/library/day?")
    date = parse_qs(urlsplit(day).query)["day"][0]
    assert links(client, day, "/library/file?") == []
    assert (
        client.send("POST", "/library/day", f"lang=de&day={date}&kind=jsonl", FORM).status_code
        == 401
    )
    headers, csrf = come_in(client, Tokens(open_storage(copy)).add("ada"))
    for kind in ("jsonl", "xml"):
        made = client.send(
            "POST",
            "/library/day",
            f"lang=de&day={date}&kind={kind}&csrf={csrf}",
            {**FORM, **headers},
        )
        assert made.status_code == 303, made.text
    for wrong in (
        f"lang=de&day={date}&kind=exe",
        "lang=de&day=x&kind=xml",
        f"lang=../de&day={date}&kind=xml",
    ):
        assert (
            client.send(
                "POST", "/library/day", f"{wrong}&csrf={csrf}", {**FORM, **headers}
            ).status_code
            == 400
        )
    json_lines, xml = links(client, day, "/library/file?")
    taken = client.get(json_lines)
    assert taken.headers["content-disposition"] == f'attachment; filename="de-{date}-00000.jsonl"'
    assert taken.headers["x-content-type-options"] == "nosniff"
    assert len(taken.text.splitlines()) == len(links(client, day, "/library/page?"))
    assert b"<?xml" in client.get(xml).content[:100]
    place = Path(copy) / "run" / "library" / "jsonl" / "de" / date
    (place / "secret").write_text("x")
    for name in (
        "secret",
        "index.json",
        "../../../../../workspace.json",
        ".lock",
        f"de-{date}-00001.jsonl",
    ):
        assert (
            client.get(
                "/library/file", {"lang": "de", "day": date, "kind": "jsonl", "name": name}
            ).status_code
            == 404
        )
    assert (
        client.get(
            "/library/file",
            {"lang": "de", "day": date, "kind": "..", "name": f"de-{date}-00000.jsonl"},
        ).status_code
        == 404
    )


def test_strangers_words_stay_words_and_what_is_excluded_is_gone(client: Client, copy: str) -> None:
    pages = LiveTables(Workspace.open(copy)).scan("pages").collect()
    hostile = pages.filter(pages["title"] == HOSTILE_TITLE)["url"][0]
    page = client.get("/library/page", {"url": hostile})
    assert Document(page.text).all("script") == Document(page.text).all("img") == []
    assert HOSTILE_TITLE in Document(page.text).text("bdi") or "Venomous page" in Document(
        page.text
    ).text("bdi")
    exclude(Workspace.open(copy), [f"host:{re.sub(r':.*', '', urlsplit(hostile).netloc)}"])
    assert client.get("/library/page", {"url": hostile}).status_code == 404
