"""`lycosa run` and `lycosa add` as a user types them."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.cli.conftest import Lycosa
from tests.daemon.daemons import QUICK, collection, daemon, rows, site

HOME = "http://127.0.0.1:9/"


@pytest.mark.parametrize(
    ("settings", "arguments", "says"),
    [
        ("", (), "no [[collection]]"),
        (collection("one", "https://www.debian.org/"), (), "fetch.contact is not set"),
        (collection("one", HOME), ("--set", "fetch.connect_to=x"), "HOST:PORT:HOST:PORT"),
        (
            collection("one", HOME),
            ("--set", "crawl.exclusions=/nowhere/list"),
            "exclusion list /nowhere/list cannot be read",
        ),
    ],
)
def test_what_run_refuses(
    lycosa: Lycosa, tmp_path: Path, settings: str, arguments: tuple[str, ...], says: str
) -> None:
    (tmp_path / "lycosa.toml").write_text(settings)
    lycosa("-w", str(tmp_path), "run", *arguments).expect(2, err=(says,), absent_err=("Traceback",))


def test_add_is_taken_up_within_seconds_and_known_urls_are_fetched_again(
    lycosa: Lycosa, tmp_path: Path
) -> None:
    workspace = tmp_path / "w"
    with site(tmp_path / "site", "127.0.6.11", 2, {"hidden.html": "<p>found by nobody"}) as server:
        home = f"http://127.0.6.11:{server.port}/"
        with daemon(
            workspace, QUICK + collection("one", home) + collection("bad", "htp:/x")
        ) as running:
            running.until_pages(3)
            lycosa("-w", str(workspace), "run").expect(1, err=(f"process {running.process.pid} ",))
            outcome = lycosa(
                "-w",
                str(workspace),
                "add",
                f"{home.removeprefix('http://')}hidden.html",
                home,
                "--collection",
                "one",
            )
            outcome.expect(
                0, f"2 URLs submitted to collection one; process {running.process.pid} fetches them"
            )
            before = time.monotonic()
            running.until(lambda: [request.uri for request in server.requests()].count("/") == 2)
            running.until(lambda: "/hidden.html" in [request.uri for request in server.requests()])
            took = time.monotonic() - before
            running.until_pages(4)
            running.until(lambda: not list((workspace / "inbox").glob("*.json")))
            assert running.stop() == 0, running.errors
    assert took < 30  # it is seconds; the machine may be busy
    # robots.txt, three pages, one of them again, and the hidden one
    assert len(rows(workspace, "visits")) == 6


def test_add_at_rest_waits_for_the_next_run(lycosa: Lycosa, tmp_path: Path) -> None:
    workspace = tmp_path / "w"
    with site(tmp_path / "site", "127.0.6.12", 0, {"hidden.html": "<p>found by nobody"}) as server:
        home = f"http://127.0.6.12:{server.port}/"
        workspace.mkdir()
        (workspace / "lycosa.toml").write_text(QUICK + collection("one", home))
        outcome = lycosa("-w", str(workspace), "add", f"{home}hidden.html", "--json")
        assert outcome.code == 0, outcome.err
        assert outcome.json["urls"] == [f"{home}hidden.html"]
        assert outcome.json["running"] is False
        document = json.loads((workspace / "inbox" / str(outcome.json["file"])).read_text())
        assert (document["collection"], document["urls"]) == ("one", [f"{home}hidden.html"])
        with daemon(workspace, QUICK + collection("one", home)) as running:
            running.until_pages(2)
            assert running.stop() == 0, running.errors


def test_add_without_a_workspace(lycosa: Lycosa, tmp_path: Path) -> None:
    lycosa("-w", str(tmp_path / "none"), "add", HOME).expect(1, err=("is not a workspace",))
    assert not (tmp_path / "none").exists()
