"""The pages of hunts, watches and monitors: forms, progress and stored results."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from lycosa.commands.maintenance.tokens import Tokens
from lycosa.crawl.session.workspace_config import read_config
from lycosa.hunt.requests import HuntHistory
from lycosa.hunt.session import HuntRequest
from lycosa.serve.app import create_app
from lycosa.store.storage.storage import open_storage
from lycosa.store.workspace import Workspace
from lycosa.uptime.monitors import add_monitor, monitors_of
from lycosa.watch.watches import list_watches
from tests.hunt.test_session import QUESTION, run_hunt, site
from tests.serve.client import FORM, Client, sign_in
from tests.serve.pages import Document
from tests.waiting import until

LIMIT_S = 60.0


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with site(tmp_path_factory.mktemp("site") / "s", "127.0.6.41") as server:
        yield f"http://127.0.6.41:{server.port}"


@pytest.fixture(scope="module")
def root(web: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Root of a workspace in which the home page of the site was fetched."""
    folder = tmp_path_factory.mktemp("live") / "w"
    run_hunt(folder, HuntRequest("welcome", (f"{web}/",), delay="0", pages=1))
    return str(folder)


@pytest.fixture(scope="module")
def client(root: str) -> Client:
    return Client(create_app(root, dict))


@pytest.fixture(scope="module")
def session(client: Client, root: str) -> tuple[dict[str, str], str]:
    """Headers and CSRF token of a signed-in user."""
    return sign_in(client, Tokens(open_storage(root)).add("ada"))


def test_hunt_is_started_by_the_form_and_its_results_are_stored(
    client: Client, web: str, root: str, session: tuple[dict[str, str], str]
) -> None:
    headers, csrf = session
    assert "Sign in with a token to start a hunt" in client.get("/hunt").text
    assert client.send("POST", "/hunt", f"query={QUESTION}&seeds={web}/", FORM).status_code == 401
    for wrong in (
        "query=",
        "query=x&time=never",
        "query=x&pages=-1",
        "query=x&strategy=magic",
        "query=-x",
    ):
        assert client.send("POST", "/hunt", f"{wrong}&csrf={csrf}", headers).status_code == 400, (
            wrong
        )
    form = f"query={QUESTION.replace(' ', '+')}&seeds={web}/spiders/index.html&time=20s&enough=3&csrf={csrf}"
    started = client.send("POST", "/hunt", form, headers)
    assert started.status_code == 303, started.text
    location = started.headers["location"]
    deadline = time.monotonic() + LIMIT_S
    while 'data-state="running"' in (page := client.get(location, headers=headers).text):
        assert time.monotonic() < deadline, page
        assert "/stop" in page
        time.sleep(0.2)
    ended = Document(page)
    assert "Ended: enough results found." in ended.text("p")
    assert len(ended.all("article")) == 3
    assert all("silk" in title.lower() for title in ended.text("h2"))
    restarted = Client(create_app(root, dict))
    assert len(Document(restarted.get(location).text).all("article")) == 3, "results are stored"
    assert location in client.get("/hunt").text
    assert client.get("/hunt/0000000000000-" + "0" * 32).status_code == 404
    assert client.get("/hunt/..%2f..%2fworkspace").status_code == 404


def test_stopped_hunt_keeps_its_results(web: str, root: str) -> None:
    history = HuntHistory(root)
    hunt = history.begin(HuntRequest("ferry", (f"{web}/",), time_ms=60_000, scope="host"), "ada")
    until(lambda: (view := history.view(hunt)) and view.results)
    history.stop(hunt)
    until(lambda: (view := history.view(hunt)) is None or view.state != "running")
    view = history.view(hunt)
    assert view is not None
    assert (view.state, view.ended, view.by) == ("ended", "stopped", "ada")
    assert view.results


def test_hunt_is_refused_while_a_crawl_runs(
    client: Client, web: str, root: str, session: tuple[dict[str, str], str]
) -> None:
    headers, csrf = session
    with Workspace.open(root).own("crawl"):
        busy = client.send("POST", "/hunt", f"query=silk&seeds={web}/&csrf={csrf}", headers)
    assert busy.status_code == 409


def test_hunt_is_refused_while_another_one_starts(
    client: Client, web: str, root: str, session: tuple[dict[str, str], str]
) -> None:
    headers, csrf = session
    form = f"query=silk&seeds={web}/&csrf={csrf}"
    started, busy = [client.send("POST", "/hunt", form, headers) for _ in range(2)]
    assert (started.status_code, busy.status_code) == (303, 409)
    assert "a hunt can start when" in busy.text
    history, hunt = HuntHistory(root), started.headers["location"].removeprefix("/hunt/")
    history.stop(hunt)
    until(lambda: (view := history.view(hunt)) is None or view.state != "running")


def test_watches_are_added_shown_and_removed(
    client: Client, root: str, session: tuple[dict[str, str], str]
) -> None:
    headers, csrf = session
    assert client.get("/watch").headers["location"] == "/login?next=%2Fwatch"
    assert client.get("/watch/matches").status_code == 303
    added = client.send(
        "POST", "/watch", f"texts=wolf+spider%0A%0Asilk&name=spiders&case=1&csrf={csrf}", headers
    )
    assert added.status_code == 303, added.text
    (watch,) = list_watches(root)
    assert (watch.texts, watch.ignore) == (("wolf spider", "silk"), ("case",))
    assert "spiders" in Document(client.get("/watch", headers=headers).text).text("a")
    assert "No matches yet" in client.get("/watch/matches", {"watch": watch.id}, headers).text
    assert client.get("/watch/matches", {"watch": "nonsense"}, headers).status_code == 404
    for wrong in ("texts=", "texts=x&webhook=file:///etc/passwd", "texts=x&webhook=ftp://h/"):
        assert client.send("POST", "/watch", f"{wrong}&csrf={csrf}", headers).status_code == 400, (
            wrong
        )
    assert (
        client.send("POST", "/watch/remove", f"watch={watch.id}&csrf={csrf}", headers).status_code
        == 303
    )
    assert list_watches(root) == []


def test_monitors_are_added_shown_and_removed(
    client: Client, web: str, root: str, session: tuple[dict[str, str], str]
) -> None:
    headers, csrf = session
    assert client.get("/uptime").headers["location"] == "/login?next=%2Fuptime"
    assert "No monitors yet" in client.get("/uptime", headers=headers).text
    assert client.send("POST", "/uptime", f"url={web}/", FORM).status_code == 401
    private = client.send("POST", "/uptime", f"url={web}/&csrf={csrf}", headers)
    assert (private.status_code, "not a public address" in private.text) == (400, True)
    added = client.send(
        "POST", "/uptime", f"url=https://example.org/&name=Example&every=30s&csrf={csrf}", headers
    )
    assert added.status_code == 303, added.text
    add_monitor(root, read_config(root), {"url": f"{web}/", "name": "Home"})
    assert set(monitors_of(open_storage(root), read_config(root))) == {
        "https://example.org/",
        f"{web}/",
    }
    fresh = Client(create_app(root, dict))  # the list is cached for some seconds
    signed_in, _ = sign_in(fresh, Tokens(open_storage(root)).add("eve"))

    def details(name: str) -> httpx.Response:
        return fresh.get("/uptime/of", {"name": name}, headers=signed_in)

    shown = fresh.get("/uptime", headers=signed_in)
    assert shown.status_code == 200, shown.text
    page = Document(shown.text)
    assert {"Home", "Example"} <= set(page.text("a"))
    assert "not checked yet" in page.text("td")
    assert "Outages in the last 30 days" in details(f"{web}/").text
    assert "Pages of this host in the crawl" in details("127.0.6.41").text
    assert details("nowhere.example").status_code == 404
    for wrong in (
        "url=nonsense",
        "url=https://example.com/&every=never",
        "url=https://example.org/",
    ):
        assert client.send("POST", "/uptime", f"{wrong}&csrf={csrf}", headers).status_code == 400, (
            wrong
        )
    for url in ("https://example.org/", f"{web}/"):
        assert (
            client.send("POST", "/uptime/remove", f"url={url}&csrf={csrf}", headers).status_code
            == 303
        )
    assert monitors_of(open_storage(root), read_config(root)) == {}


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/hunt", "query=a+query&seeds=nonsense&time=never&strategy=fish"),
        ("/watch", "texts=a+text&name=a+name&collection=nowhere&case=1"),
        ("/uptime", "url=nonsense&name=a+name&every=7s&expect=text"),
    ],
)
def test_refused_form_keeps_its_fields(
    client: Client, session: tuple[dict[str, str], str], path: str, fields: str
) -> None:
    headers, csrf = session
    answer = client.send("POST", path, f"{fields}&csrf={csrf}", headers)
    page = Document(answer.text)
    assert answer.status_code == 400
    shown = {each.get("value") for tag in ("input", "option") for each in page.all(tag)}
    shown |= set(page.text("textarea"))
    sent = {value.replace("+", " ") for value in re.findall("=([^&]+)", fields)}
    assert sent - shown <= {"nowhere"}
    assert ("selected" in answer.text) == (path == "/hunt")
    assert ("checked" in answer.text) == (path == "/watch")
    assert [each for each in page.all("p") if each.get("role") == "alert"]


def test_hunt_page_has_the_failures_of_seeds(root: str) -> None:
    name = "0" * 13 + "-" + "b" * 32
    events = (
        {"event": "requested", "question": "silk", "began_at": "2026-11-28T01:07:01Z", "by": "ada"},
        {"event": "ended", "ended": "finished", "failures": {"http://x.example/robots.txt": "dns"}},
    )
    path = Path(root) / "run" / "hunts" / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(event)}\n" for event in events))
    shown = Document(Client(create_app(root, dict)).get(f"/hunt/{name}").text)
    assert "Failed: http://x.example/robots.txt: dns" in shown.text("li")


def test_damaged_file_is_not_listed_as_a_hunt(root: str) -> None:
    (Path(root) / "run" / "hunts" / ("0" * 13 + "-" + "a" * 32 + ".jsonl")).write_text("{")
    assert all(view.state == "ended" for view in HuntHistory(root).all())
