"""The uptime API: access, reports, and refused monitors."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from lycosa.config.settings import Config
from lycosa.core.records import CHECKS, Visit, VisitKind
from lycosa.serve.app import create_app
from lycosa.store.log.transaction import CommitContents
from lycosa.store.tables.buffers import Buffers
from lycosa.store.workspace import Workspace
from lycosa.uptime.monitors import add_monitor, monitors_of
from lycosa.url.keys import Identifier
from tests.serve.client import JSON, Client, bearer_headers, sign_in

URL = "http://example.org/"
MINUTE = 60_000


def commit_checks(workspace: Workspace, url: str, verdicts: str, until_ms: int) -> None:
    """Commit one check per minute up to `until_ms`.

    Verdicts: u is up, s an HTTP error, c no connection.
    """
    identity = Identifier(workspace.domains, workspace.partitions).identify(url)
    buffers = Buffers()
    for place, letter in enumerate(verdicts):
        at = until_ms - (len(verdicts) - 1 - place) * MINUTE
        visit = Visit(
            url,
            identity.host,
            identity.partition,
            identity.host_key,
            identity.url_key,
            VisitKind.CHECK,
            CHECKS,
            0,
            at,
            20 + place,
        )
        visit.http_status, visit.verdict, visit.error = {
            "u": (200, "up", ""),
            "s": (500, "status", ""),
            "c": (0, "connect", "connect_refused"),
        }[letter]
        visit.record_id, visit.first_byte_ms = f"urn:{url}{at}", 5.0
        buffers.add_visit(visit)
    claim = workspace.claim("test")
    claim.commit(
        claim.next_folder(), buffers.mapping(), CommitContents(counters={"visits": len(verdicts)})
    )
    claim.release()


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace.create(str(tmp_path / "ws"))


@pytest.fixture
def client(workspace: Workspace) -> Client:
    return Client(create_app(workspace.root, dict))


@pytest.fixture
def key(workspace: Workspace) -> dict[str, str]:
    """Headers of a request with a token."""
    return bearer_headers(workspace.root)


def test_monitor_is_added_reported_and_removed_with_a_token(
    workspace: Workspace, client: Client, key: dict[str, str]
) -> None:
    assert client.get("/api/v1/uptime").status_code == 401
    refused = client.send("POST", "/api/v1/uptime", json.dumps({"url": URL}), JSON)
    assert refused.status_code == 401
    monitor = {
        "url": URL,
        "every": "60s",
        "expect": "well",
        "notify": ["webhook https://hooks.example/x"],
    }
    added = client.send("POST", "/api/v1/uptime", json.dumps(monitor), key)
    assert (added.status_code, added.json()["monitor"]["url"], added.json()["running"]) == (
        201,
        URL,
        False,
    )
    (stored,) = monitors_of(workspace.storage, Config()).values()
    assert (stored.monitor.expect, stored.private, stored.monitor.every) == ("well", False, 60_000)

    now_ms = round(time.time() * 1000) // MINUTE * MINUTE
    commit_checks(workspace, URL, "u" * 10 + "ssss" + "u" * 6, now_ms)
    (report,) = client.get("/api/v1/uptime", headers=key).json()["monitors"]
    assert (report["windows"]["24h"]["checks"], report["windows"]["24h"]["failed"]) == (20, 4)
    assert 0.78 < report["windows"]["24h"]["availability"] < 0.80
    (outage,) = client.get("/api/v1/uptime/outages", {"url": URL}, key).json()
    assert (outage["cause"], outage["text"], outage["checks"], outage["offline"]) == (
        "status",
        "http 500",
        4,
        False,
    )
    assert outage["until"] is not None
    single = client.get("/api/v1/uptime", {"url": "example.org"}, key).json()
    assert set(single["monitors"][0]["windows"]) == {"24h", "7d", "30d"}
    assert client.get("/api/v1/uptime", {"url": "unknown.example"}, key).status_code == 400

    assert client.request("DELETE", "/api/v1/uptime", {"url": URL}, key).status_code == 204
    assert monitors_of(workspace.storage, Config()) == {}
    assert client.request("DELETE", "/api/v1/uptime", {"url": URL}, key).status_code == 400


def test_configured_monitors_have_no_button_that_removes_them(
    workspace: Workspace, client: Client, key: dict[str, str]
) -> None:
    (Path(workspace.root) / "lycosa.toml").write_text(f"[[monitor]]\nurl = '{URL}'\n")
    add_monitor(workspace.root, Config(), {"url": f"{URL}added"})
    session, _ = sign_in(client, key["authorization"].removeprefix("Bearer "))
    page = client.get("/uptime", headers=session).text
    assert f'name="url" value="{URL}added"' in page
    assert f'name="url" value="{URL}"' not in page


@pytest.mark.proves("access-callers", "access-remote-targets")
def test_private_monitor_urls_and_local_notification_targets_are_refused(
    workspace: Workspace, client: Client, key: dict[str, str]
) -> None:
    for monitor, status in (
        ({"url": "http://169.254.169.254/latest"}, 400),
        ({"url": "http://[::1]/"}, 400),
        ({"url": URL, "notify": ["command /bin/sh"]}, 422),
        ({"url": URL, "notify": ["file /etc/passwd"]}, 422),
        ({"url": URL, "notify": ["webhook http://127.0.0.1:9/"]}, 400),
        ({"url": URL, "every": "1ms"}, 400),
        ({"url": "ftp://example.org/"}, 400),
    ):
        refused = client.send("POST", "/api/v1/uptime", json.dumps(monitor), key)
        assert refused.status_code == status, monitor
    assert monitors_of(workspace.storage, Config()) == {}


def test_outage_of_all_monitors_is_an_outage_of_the_own_network(
    workspace: Workspace, client: Client, key: dict[str, str]
) -> None:
    now_ms = round(time.time() * 1000) // MINUTE * MINUTE
    for url in (URL, "http://other.example/"):
        assert (
            client.send("POST", "/api/v1/uptime", json.dumps({"url": url}), key).status_code == 201
        )
        commit_checks(workspace, url, "u" * 10 + "c" * 10 + "u" * 10, now_ms)
    outages = client.get("/api/v1/uptime/outages", headers=key).json()
    assert [each["offline"] for each in outages] == [True, True]
    for monitor in client.get("/api/v1/uptime", headers=key).json()["monitors"]:
        assert monitor["windows"]["24h"]["availability"] == 1.0
