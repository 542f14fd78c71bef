"""The crawl pages and the API that controls a crawl, over a crawled workspace."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lycosa.captures.history import STEPS_MS, visits_over_time
from lycosa.commands.inspection.status import workspace_status
from lycosa.commands.maintenance.tokens import Tokens
from lycosa.crawl.session.pausing import paused
from lycosa.serve.app import create_app
from lycosa.serve.web.access import COOKIE
from lycosa.serve.web.ttl_cache import TtlCache
from lycosa.store.storage.storage import open_storage
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from tests.serve.client import JSON, Client, sign_in
from tests.serve.pages import Document


@pytest.fixture(scope="module")
def token(copy: str) -> str:
    return Tokens(open_storage(copy)).add("ada")


def hosts_of(root: str) -> list[str]:
    return sorted(LiveTables(Workspace.open(root)).scan("hosts").collect()["host"].to_list())


def test_overview_matches_the_status(client: Client, workspace: str) -> None:
    status = workspace_status(workspace)
    answer = client.get("/crawl")
    page = Document(answer.text)
    assert answer.status_code == 200
    assert f"{status.visits:,}" in page.text("dd")
    assert page.text("h2")[:3] == ["Current activity", "Fetches over time", "Collections"]
    assert {host.host for host in status.hosts.largest} <= set(page.text("a"))
    assert "No crawl is running" in answer.text
    assert page.all("form")
    assert "/crawl/add" not in answer.text, "forms require a token"


def test_fetches_over_time_match_the_visits(workspace: str) -> None:
    history = visits_over_time(workspace)
    visits = LiveTables(Workspace.open(workspace)).scan("visits").collect()
    assert sum(bucket.visits for bucket in history.buckets) == visits.height
    assert (
        sum(bucket.errors for bucket in history.buckets)
        == visits.filter((visits["http_status"] >= 400) | (visits["error"] != "")).height
    )
    assert history.step_ms in STEPS_MS
    assert len(visits_over_time(workspace, most=2).buckets) <= 2
    host = visits["host"][0]
    assert (
        sum(bucket.visits for bucket in visits_over_time(workspace, host=host).buckets)
        == visits.filter(visits["host"] == host).height
    )


def test_empty_workspace_shows_how_to_start(empty_workspace: str) -> None:
    client = Client(create_app(empty_workspace, lambda: workspace_status(empty_workspace)))
    page = client.get("/crawl").text
    assert "Nothing has been fetched yet" in page
    assert "lycosa run" in page


def test_hosts_are_listed_filtered_and_shown(client: Client, workspace: str) -> None:
    names = [name for name in hosts_of(workspace) if name]
    page = Document(client.get("/crawl/hosts").text)
    assert set(names) <= set(page.text("a"))
    assert [
        name
        for name in Document(client.get("/crawl/hosts", {"like": "127.0.2.1"}).text).text("a")
        if name in names
    ] == [name for name in sorted(names) if "127.0.2.1" in name]
    shown = client.get("/crawl/host", {"name": names[0]})
    assert (shown.status_code, Document(shown.text).text("h1")) == (200, [names[0]])
    assert client.get("/crawl/host", {"name": "nowhere.example"}).status_code == 404
    listed = client.get("/api/v1/hosts", {"n": 2}).json()
    assert (listed["total"], len(listed["hosts"])) == (len(names), 2)


def test_explain_page_and_api(client: Client, workspace: str) -> None:
    url = LiveTables(Workspace.open(workspace)).scan("pages").collect()["url"][0]
    page = client.get("/crawl/explain", {"url": url})
    assert "State and schedule" in page.text
    assert url in Document(page.text).text("bdi")
    assert client.get("/api/v1/explain", {"url": url}).json()["url"] == url
    assert client.get("/crawl/explain", {"url": "<b>"}).status_code in (200, 400)
    assert client.get("/api/v1/explain", {"url": "http://[bad"}).status_code == 400
    assert client.get("/crawl/explain").status_code == 200


@pytest.mark.proves("access-callers", "access-csrf")
def test_adding_urls_requires_a_token_and_obeys_the_scope(
    writer: Client, copy: str, token: str
) -> None:
    seed = LiveTables(Workspace.open(copy)).scan("pages").collect()["url"][0]
    body = f'{{"urls": ["{seed}?new=1"]}}'
    assert writer.send("POST", "/api/v1/urls", body, JSON).status_code == 401
    with_token = {**JSON, "authorization": f"Bearer {token}"}
    accepted = writer.send("POST", "/api/v1/urls", body, with_token)
    assert (accepted.status_code, accepted.json()["urls"]) == (202, [f"{seed}?new=1"])
    assert len(list((Path(copy) / "inbox").iterdir())) == 1
    out_of_scope = writer.send(
        "POST", "/api/v1/urls", '{"urls": ["http://169.254.169.254/latest/meta-data"]}', with_token
    )
    assert (out_of_scope.status_code, out_of_scope.headers["content-type"]) == (
        400,
        "application/problem+json",
    )
    assert writer.send("POST", "/api/v1/urls", '{"urls": []}', with_token).status_code == 422
    mistyped = body.replace("}", ', "colection": "x"}')
    for wrong, headers, fault in (
        (mistyped, with_token, "colection"),
        (body, {"authorization": f"Bearer {token}"}, "Content-Type: application/json"),
    ):
        refused = writer.send("POST", "/api/v1/urls", wrong, headers)
        assert (refused.status_code, fault in refused.text) == (422, True)
    assert len(list((Path(copy) / "inbox").iterdir())) == 1
    headers, csrf = sign_in(writer, token)
    assert "/crawl/add" in writer.get("/crawl", headers=headers).text
    assert writer.send("POST", "/crawl/add", f"urls={seed}", headers).status_code == 403
    added = writer.send("POST", "/crawl/add", f"urls={seed}?a%0A%0A{seed}?b&csrf={csrf}", headers)
    assert (added.status_code, added.headers["location"]) == (303, "/crawl?notice=added")
    assert len(list((Path(copy) / "inbox").iterdir())) == 2


def test_refused_urls_stay_in_the_form(writer: Client, token: str) -> None:
    headers, csrf = sign_in(writer, token)
    answer = writer.send("POST", "/crawl/add", f"urls=no+URL%0Ahttp://b.test/&csrf={csrf}", headers)
    assert answer.status_code == 400
    assert "no URL\nhttp://b.test/</textarea>" in answer.text
    assert "is not a valid URL" in answer.text


def test_start_of_a_running_command_is_a_time_in_utc(copy: str) -> None:
    with Workspace.open(copy).own("crawl"):
        page = Client(create_app(copy, lambda: workspace_status(copy))).get("/crawl").text
    assert re.search(r"has been running since \d+ \w+ \d{4}, \d\d:\d\d UTC\.", page)


def test_pause_and_resume_by_page_and_api(writer: Client, copy: str, token: str) -> None:
    headers, csrf = sign_in(writer, token)
    done = writer.send(
        "POST", "/crawl/pause", f"collection=default&paused=yes&csrf={csrf}", headers
    )
    assert done.headers["location"] == "/crawl?notice=paused"
    assert paused(open_storage(copy))["default"]["by"] == "ada"
    assert "Resume" in writer.get("/crawl", headers=headers).text
    bearer = {"authorization": f"Bearer {token}"}
    assert writer.request("POST", "/api/v1/collections/default/resume", headers=bearer).json() == {
        "collection": "default",
        "paused": False,
    }
    assert paused(open_storage(copy)) == {}
    assert (
        writer.request("POST", "/api/v1/collections/nowhere/pause", headers=bearer).status_code
        == 400
    )


def test_exclusion_is_previewed_before_it_is_applied(writer: Client, copy: str, token: str) -> None:
    host = next(name for name in hosts_of(copy) if name)
    tables = LiveTables(Workspace.open(copy)).scan("pages").collect()
    pages = sum(url.startswith(f"http://{host}:") for url in tables["url"])
    assert (
        writer.get("/crawl/exclude", {"rule": f"host:{host}"})
        .headers["location"]
        .startswith("/login?")
    )
    headers, csrf = sign_in(writer, token)
    preview = writer.get("/crawl/exclude", {"rule": f"host:{host}"}, headers)
    assert f"The rule matches {pages} stored pages" in preview.text
    assert writer.get("/crawl/exclude", {"rule": "host:"}, headers).status_code == 400
    done = writer.send("POST", "/crawl/exclude", f"rule=host:{host}&csrf={csrf}", headers)
    assert (done.status_code, done.headers["location"]) == (303, "/crawl?notice=excluded")
    assert f"host:{host}" in Workspace.open(copy).state().exclusions.rules
    assert writer.get("/api/v1/search", {"q": f"site:{host}"}).json()["total"] == 0
    assert COOKIE in headers["cookie"]


def test_a_cached_value_is_computed_once() -> None:
    computed: list[str] = []
    now, cost = [0.0], [0.0]

    def compute(key: str) -> int:
        computed.append(key)
        now[0] += cost[0]
        if key == "x":
            raise ValueError(key)
        return len(computed)

    cache = TtlCache[str, int](compute, max_entries=2, now=lambda: now[0])
    assert [cache.get("a"), cache.get("a"), cache.get("b")] == [1, 1, 2]
    now[0] = 3
    assert cache.get("a") == 3
    cache.get("c")
    cache.get("d")
    assert cache.get("a") == 6, "the least recently used entry was evicted"
    for _ in range(2):
        with pytest.raises(ValueError, match="x"):
            cache.get("x")
    assert computed[-2:] == ["x", "x"], "exceptions are not cached"
    cost[0] = 0.5
    first = cache.get("slow")
    now[0] += 9
    assert cache.get("slow") == first, "what takes long is cached for longer"
    now[0] += 1
    assert cache.get("slow") > first
