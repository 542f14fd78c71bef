"""The library's pages: from a language to a page's record, and the files of a day, over a workspace that was really crawled."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from lycosa.app.status import workspace_status
from lycosa.app.tokens import Tokens
from lycosa.serve.app import create_app
from lycosa.store.live import LiveTables
from lycosa.store.purge import exclude
from lycosa.store.storage import open_storage
from lycosa.store.workspace import Workspace
from tests.serve.client import Client
from tests.serve.conftest import HOSTILE_TITLE
from tests.serve.pages import Document
from tests.serve.test_crawl_pages import FORM, come_in


@pytest.fixture(scope="module")
def copy(workspace: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp("library") / "w"
    shutil.copytree(workspace, root)
    return str(root)


@pytest.fixture(scope="module")
def client(copy: str) -> Client:
    return Client(create_app(copy, lambda: workspace_status(copy)))


def links(client: Client, path: str, start: str) -> list[str]:
    return [link["href"] for link in Document(client.get(path).text).all("a") if link["href"].startswith(start)]


def test_from_a_language_to_a_page(client: Client, copy: str) -> None:
    pages = LiveTables(Workspace.open(copy)).scan("pages").collect()
    languages = links(client, "/library", "/library/days?")
    assert {parse_qs(urlsplit(href).query)["lang"][0] for href in languages} == set(pages["language"].to_list())
    (german,) = (href for href in languages if href.endswith("lang=de"))
    (day,) = links(client, german, "/library/day?")
    shown = links(client, day, "/library/page?")
    urls = {parse_qs(urlsplit(href).query)["url"][0] for href in shown}
    assert urls <= set(pages.filter(pages["language"] == "de")["url"].to_list())
    assert len(shown) == len(urls) >= 5
    record = Document(client.get(shown[0]).text)
    row = pages.filter(pages["url"] == parse_qs(urlsplit(shown[0]).query)["url"][0]).row(0, named=True)
    assert row["main_text"].split("\n")[0] in record.text("p")
    assert row["charset"] in record.text("dd")
    assert any(heading.startswith("Linked from: ") for heading in record.text("h2"))


def test_what_is_not_there(client: Client) -> None:
    assert client.get("/library/days", {"lang": "kk"}).status_code == 404
    assert client.get("/library/days", {"lang": "../x"}).status_code == 422
    assert client.get("/library/day", {"lang": "de", "day": "1999-01-01"}).status_code == 200
    assert client.get("/library/day", {"lang": "de", "day": "yesterday"}).status_code == 422
    assert client.get("/library/page", {"url": "http://nowhere.example/"}).status_code == 404
    assert client.get("/library/page", {"url": "http://[x"}).status_code == 404


def test_an_empty_workspace(empty_workspace: str) -> None:
    client = Client(create_app(empty_workspace, lambda: workspace_status(empty_workspace)))
    assert "There is no page yet" in client.get("/library").text


def test_files_are_made_by_those_with_a_token_and_taken_by_all(client: Client, copy: str) -> None:
    (day,) = links(client, "/library/days?lang=de", "/library/day?")
    date = parse_qs(urlsplit(day).query)["day"][0]
    assert links(client, day, "/library/file?") == []
    assert client.send("POST", "/library/day", f"lang=de&day={date}&kind=jsonl", FORM).status_code == 401
    headers, csrf = come_in(client, Tokens(open_storage(copy)).add("ada"))
    for kind in ("jsonl", "xml"):
        made = client.send("POST", "/library/day", f"lang=de&day={date}&kind={kind}&csrf={csrf}", {**FORM, **headers})
        assert made.status_code == 303, made.text
    for wrong in (f"lang=de&day={date}&kind=exe", "lang=de&day=x&kind=xml", f"lang=../de&day={date}&kind=xml"):
        assert client.send("POST", "/library/day", f"{wrong}&csrf={csrf}", {**FORM, **headers}).status_code == 400
    json_lines, xml = links(client, day, "/library/file?")
    taken = client.get(json_lines)
    assert taken.headers["content-disposition"] == f'attachment; filename="de-{date}-00000.jsonl"'
    assert taken.headers["x-content-type-options"] == "nosniff"
    assert len(taken.text.splitlines()) == len(links(client, day, "/library/page?"))
    assert b"<?xml" in client.get(xml).content[:100]
    place = Path(copy) / "run" / "library" / "jsonl" / "de" / date
    (place / "secret").write_text("x")
    for name in ("secret", "index.json", "../../../../../workspace.json", ".lock", f"de-{date}-00001.jsonl"):
        assert client.get("/library/file", {"lang": "de", "day": date, "kind": "jsonl", "name": name}).status_code == 404
    assert client.get("/library/file", {"lang": "de", "day": date, "kind": "..", "name": f"de-{date}-00000.jsonl"}).status_code == 404


def test_strangers_words_stay_words_and_what_is_excluded_is_gone(client: Client, copy: str) -> None:
    pages = LiveTables(Workspace.open(copy)).scan("pages").collect()
    hostile = pages.filter(pages["title"] == HOSTILE_TITLE)["url"][0]
    page = client.get("/library/page", {"url": hostile})
    assert Document(page.text).all("script") == Document(page.text).all("img") == []
    assert HOSTILE_TITLE in Document(page.text).text("bdi") or "Venomous page" in Document(page.text).text("bdi")
    exclude(Workspace.open(copy), [f"host:{re.sub(r':.*', '', urlsplit(hostile).netloc)}"])
    assert client.get("/library/page", {"url": hostile}).status_code == 404
