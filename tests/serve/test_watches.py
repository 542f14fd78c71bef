"""Watches and matches by the API, over a workspace that was really crawled."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lycosa.commands.inspection.status import workspace_status
from lycosa.commands.maintenance.tokens import Tokens
from lycosa.serve.app import create_app
from lycosa.store.storage.storage import open_storage
from lycosa.store.workspace import Workspace
from tests.serve.client import Client
from tests.servers.disks import read_only, small_disk
from tests.site.paper import crawled, paper

JSON = {"content-type": "application/json"}


@pytest.fixture
def root(tmp_path: Path) -> str:
    return Workspace.create(str(tmp_path / "w")).root


def test_a_watch_is_added_listed_matched_and_removed(root: str) -> None:
    client = Client(create_app(root, lambda: workspace_status(root)))
    token = JSON | {"authorization": f"Bearer {Tokens(open_storage(root)).add('ada')}"}
    new = {
        "texts": ["wolf"],
        "ignore": ["case"],
        "name": "w",
        "notify": ["webhook https://hooks.example/secret"],
    }
    added = client.send("POST", "/api/v1/watches", json.dumps(new), token)
    assert added.status_code == 201, added.text
    watch = added.json()
    assert watch["notify"] == [
        {
            "target": "webhook https://hooks.example/…",
            "delivered": 0,
            "waiting": 0,
            "dropped": 0,
            "fails": 0,
            "problem": "",
            "delivered_at": 0,
        }
    ]
    with paper("127.0.7.91") as site:
        site.page("/", "The Wolf.")
        crawled(root, f"{site.origin}/")
        assert client.get("/api/v1/watches", headers=token).json()[0]["id"] == watch["id"]
        found = client.get("/api/v1/matches", {"watch": "w", "site": site.origin}, token).json()
    assert (found["total"], found["matches"][0]["count"], found["matches"][0]["text"]) == (
        1,
        1,
        "wolf",
    )
    assert (
        client.get("/api/v1/matches", {"since": "2100-01-01T00:00:00"}, token).json()["total"] == 0
    )
    assert (
        client.request("DELETE", f"/api/v1/watches/{watch['id']}", headers=token).status_code == 204
    )
    assert client.get("/api/v1/watches", headers=token).json() == []
    assert client.request("DELETE", "/api/v1/watches/w", headers=token).status_code == 400


def test_nobody_without_a_token_and_nothing_that_runs_here(root: str) -> None:
    client = Client(create_app(root, lambda: workspace_status(root)))
    token = JSON | {"authorization": f"Bearer {Tokens(open_storage(root)).add('ada')}"}
    for method, path in (
        ("GET", "/api/v1/watches"),
        ("DELETE", "/api/v1/watches/x"),
        ("GET", "/api/v1/matches"),
    ):
        assert client.request(method, path).status_code == 401
    assert (
        client.send("POST", "/api/v1/watches", json.dumps({"texts": ["x"]}), JSON).status_code
        == 401
    )
    for target in (
        "command /bin/true",
        "file /tmp/x",
        "webhook http://127.0.0.1:9/",
        "webhook ftp://x.example/",
    ):
        answer = client.send(
            "POST", "/api/v1/watches", json.dumps({"texts": ["x"], "notify": [target]}), token
        )
        assert answer.status_code in (400, 422), target
    wrong = (
        '{"texts": []}',
        '{"texts": [""]}',
        '{"texts": ["x"], "ignore": ["size"]}',
        '{"texts": ["x"], "collections": [3]}',
        "[]",
    )
    for content in wrong:
        assert client.send("POST", "/api/v1/watches", content, token).status_code == 422
    assert not list(Path(root).glob("watches/*"))


def test_a_disk_that_takes_nothing_is_said_and_is_no_fault_of_ours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with small_disk(tmp_path / "disk", "8m") as disk:
        root = Workspace.create(str(disk / "w")).root
        client = Client(create_app(root, lambda: workspace_status(root)))
        token = JSON | {"authorization": f"Bearer {Tokens(open_storage(root)).add('ada')}"}
        with read_only(disk):
            answer = client.send("POST", "/api/v1/watches", json.dumps({"texts": ["wolf"]}), token)
        assert (answer.status_code, answer.json()["title"]) == (507, "The server cannot store this")
        assert str(disk) not in answer.text
        assert (
            f"POST /api/v1/watches: {root}/watches: Read-only file system"
            in capsys.readouterr().err
        )
        assert (
            client.send(
                "POST", "/api/v1/watches", json.dumps({"texts": ["wolf"]}), token
            ).status_code
            == 201
        )
