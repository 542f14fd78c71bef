"""The API of watches and matches, and proposals of anonymous users."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lycosa.commands.crawling.submissions import MAX_WAITING, drop, proposals, propose
from lycosa.commands.inspection.status import workspace_status
from lycosa.commands.maintenance.tokens import Tokens
from lycosa.config.serving import ServeSettings
from lycosa.core.errors import UsageError
from lycosa.serve.app import create_app
from lycosa.serve.services import PROPOSALS_PER_HOUR
from lycosa.store.storage.storage import Storage, open_storage
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from tests.serve.client import FORM, JSON, Client, bearer_headers, sign_in
from tests.servers.disks import read_only, small_disk
from tests.site.editable_site import crawled, editable_site


@pytest.fixture
def root(tmp_path: Path) -> str:
    return Workspace.create(str(tmp_path / "w")).root


def test_watch_is_added_listed_matched_and_removed(root: str) -> None:
    client = Client(create_app(root, lambda: workspace_status(root)))
    headers = bearer_headers(root)
    new = {
        "texts": ["wolf"],
        "ignore": ["case"],
        "name": "w",
        "notify": ["webhook https://hooks.example/secret"],
    }
    added = client.send("POST", "/api/v1/watches", json.dumps(new), headers)
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
    taken = client.send("POST", "/api/v1/watches", json.dumps(new), headers)
    assert taken.status_code == 409
    assert f"there is a watch with the name 'w' ({watch['id']})" in taken.json()["detail"]
    with editable_site("127.0.7.91") as site:
        site.page("/", "The Wolf.")
        crawled(root, f"{site.origin}/")
        assert client.get("/api/v1/watches", headers=headers).json()[0]["id"] == watch["id"]
        matches = client.get("/api/v1/matches", {"watch": "w", "site": site.origin}, headers).json()
    assert (matches["total"], matches["matches"][0]["count"], matches["matches"][0]["text"]) == (
        1,
        1,
        "wolf",
    )
    assert (
        client.get("/api/v1/matches", {"since": "2100-01-01T00:00:00"}, headers).json()["total"]
        == 0
    )
    assert (
        client.request("DELETE", f"/api/v1/watches/{watch['id']}", headers=headers).status_code
        == 204
    )
    assert client.get("/api/v1/watches", headers=headers).json() == []
    assert client.request("DELETE", "/api/v1/watches/w", headers=headers).status_code == 400


@pytest.mark.proves("access-remote-targets")
def test_watches_require_a_token_and_refuse_local_notification_targets(root: str) -> None:
    client = Client(create_app(root, lambda: workspace_status(root)))
    headers = bearer_headers(root)
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
            "POST", "/api/v1/watches", json.dumps({"texts": ["x"], "notify": [target]}), headers
        )
        assert answer.status_code in (400, 422), target
    wrong = (
        ('{"texts": []}', "texts"),
        ('{"texts": [""]}', "texts.0"),
        ('{"texts": ["x"], "ignore": ["size"]}', "ignore.0"),
        ('{"texts": ["x"], "collections": [3]}', "collections.0"),
        ("[]", "body"),
        ("{not", "body"),
    )
    for content, parameter in wrong:
        answer = client.send("POST", "/api/v1/watches", content, headers)
        assert answer.status_code == 422
        assert [fault["parameter"] for fault in answer.json()["faults"]] == [parameter]
    assert not list(Path(root).glob("watches/*"))


def test_read_only_disk_is_reported_with_status_507(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with small_disk(tmp_path / "disk", "8m") as disk:
        root = Workspace.create(str(disk / "w")).root
        client = Client(create_app(root, lambda: workspace_status(root)))
        headers = bearer_headers(root)
        with read_only(disk):
            answer = client.send(
                "POST", "/api/v1/watches", json.dumps({"texts": ["wolf"]}), headers
            )
        assert (answer.status_code, answer.json()["title"]) == (507, "The server cannot store this")
        assert str(disk) not in answer.text
        assert (
            f"POST /api/v1/watches: {root}/watches: Read-only file system"
            in capsys.readouterr().err
        )
        answer = client.send("POST", "/api/v1/watches", json.dumps({"texts": ["wolf"]}), headers)
        assert answer.status_code == 201


@pytest.fixture
def storage(empty_workspace: str) -> Storage:
    return open_storage(empty_workspace)


@pytest.mark.proves("access-proposals")
def test_proposal_form_is_disabled_by_default(client: Client) -> None:
    assert client.get("/propose").status_code == 404
    assert client.send("POST", "/propose", "url=https://example.org/", FORM).status_code in (
        404,
        405,
    )


@pytest.mark.proves("access-proposals")
@pytest.mark.parametrize(
    "url",
    [
        "",
        "nonsense",
        "ftp://example.org/",
        "http://127.0.0.1/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[::1]/",
        "http://[::ffff:10.0.0.1]/",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://localhost/",
        "http://a.localhost/",
        "http://intranet/",
        "http://nas.local/",
        "javascript:alert(1)",
    ],
)
def test_invalid_proposals_are_refused(storage: Storage, url: str) -> None:
    with pytest.raises(UsageError):
        propose(storage, url)
    assert proposals(storage) == []


@pytest.mark.proves("access-proposals")
def test_proposals_are_stored_once_and_bounded(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = propose(storage, "https://example.org/#top", "  a\n good   site ")
    assert propose(storage, "https://EXAMPLE.org/") == first
    assert (first.url, first.note) == ("https://example.org/", "a good site")
    monkeypatch.setattr("lycosa.commands.crawling.submissions.MAX_WAITING", 2)
    propose(storage, "https://example.com/")
    with pytest.raises(UsageError, match="too many"):
        propose(storage, "https://example.net/")
    drop(storage, "../../workspace")
    drop(storage, first.id)
    assert [each.url for each in proposals(storage)] == ["https://example.com/"]
    assert MAX_WAITING >= 100


def test_proposal_form_is_linked_and_keeps_what_is_refused(root: str) -> None:
    client = Client(create_app(root, dict, limits=ServeSettings(public_form=True)))
    assert 'href="/propose"' in client.get("/").text
    assert 'href="/propose"' not in Client(create_app(root, dict)).get("/").text
    answer = client.send("POST", "/propose", "url=nonsense&note=a+note", FORM)
    assert answer.status_code == 400
    assert 'value="nonsense"' in answer.text
    assert ">a note</textarea>" in answer.text


def test_number_of_matches_that_are_shown_is_reported(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lycosa.serve.watches.pages.matches", lambda *_, **__: ([], 250))
    page = Client(create_app(root, dict)).get("/watch/matches", headers=bearer_headers(root)).text
    assert "250 matches Only the first 0 are shown." in page


@pytest.mark.proves("access-csrf", "access-proposals")
def test_accepted_proposal_is_added_to_the_crawl(copy: str) -> None:
    client = Client(create_app(copy, dict, limits=ServeSettings(public_form=True)))
    seed = LiveTables(Workspace.open(copy)).scan("pages").collect()["url"][0]
    assert "Propose a site" in client.get("/propose").text
    statuses = [
        client.send(
            "POST", "/propose", f"url=https://example.org/{number}&note=x", FORM
        ).status_code
        for number in range(PROPOSALS_PER_HOUR + 2)
    ]
    assert statuses == [303] * PROPOSALS_PER_HOUR + [429] * 2
    assert (
        client.send(
            "POST", "/propose", "url=https://example.org/", {**FORM, "sec-fetch-site": "cross-site"}
        ).status_code
        == 403
    )
    assert client.get("/proposals").headers["location"] == "/login?next=%2Fproposals"
    headers, csrf = sign_in(client, Tokens(open_storage(copy)).add("ada"))
    storage = open_storage(copy)
    pending = proposals(storage)
    body = f"decision=take&collection=default&proposal={pending[0].id}"
    assert client.send("POST", "/proposals", body, headers).status_code == 403
    refused = client.send("POST", "/proposals", f"{body}&csrf={csrf}", headers)
    assert "is+not+accepted+by+collection" in refused.headers["location"], (
        "a proposal out of scope stays pending"
    )
    assert len(proposals(storage)) == PROPOSALS_PER_HOUR
    in_scope = propose_on_loopback(storage, seed)
    client.send("POST", "/proposals", f"decision=take&proposal={in_scope}&csrf={csrf}", headers)
    client.send(
        "POST",
        "/proposals",
        f"decision=drop&proposal={pending[1].id}&csrf={csrf}",
        headers,
    )
    assert {each.id for each in proposals(storage)} == {each.id for each in pending} - {
        pending[1].id
    }
    assert len(storage.names("inbox")) == 1
    assert "example.org/0" in client.get("/proposals", headers=headers).text


def propose_on_loopback(storage: Storage, url: str) -> str:
    """Store a proposal that the form would refuse; return its ID."""
    proposal = propose(storage, "https://public.example/")
    path = f"run/moderation/{proposal.id}.json"
    storage.replace(
        path, (storage.read(path) or b"").replace(b"https://public.example/", url.encode())
    )
    return proposal.id
