"""`lycosa status`: what waits and why, by collection, and what a living daemon says."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl

from lycosa.app.live import write_live
from lycosa.app.status import _traps, workspace_status
from lycosa.core.clock import ManualClock
from lycosa.store.workspace import Workspace
from tests.cli.conftest import Lycosa

FOREVER = ("--delay", "0", "--set", "crawl.patience=3s")


def _only(status: Mapping[str, Any]) -> Mapping[str, Any]:
    (collection,) = status["collections"]
    found: Mapping[str, Any] = collection
    return found


def test_what_waits_and_why(lycosa: Lycosa, site: str, tmp_path: Path) -> None:
    root = str(tmp_path / "w")
    again = ("--set", "collection.recrawl=age", "--set", "collection.max_age=1h")
    assert lycosa("-w", root, "crawl", site, "--max-pages", "1", "--delay", "2s", *again).code == 0
    assert "waiting " in lycosa("-w", root, "status").out
    last_visit = datetime.fromisoformat(str(lycosa("-w", root, "status", "--json").json["last_visit"])).timestamp()
    at_once = workspace_status(root, ManualClock(round(last_visit * 1000) + 100))
    assert at_once["waiting"] == {"host_rests": 3}
    collection = _only(at_once)
    assert (collection["recrawl"], collection["strategy"], collection["open_now"]) == ("age", "breadth-first", True)
    then = workspace_status(root, ManualClock(round(last_visit * 1000) + 2 * 3_600_000))
    assert then["waiting"] == {"due": 3}
    assert (_only(then)["due_again"], collection["due_again"]) == (1, 0)


def test_hours_and_pauses_of_collections(lycosa: Lycosa, site: str, tmp_path: Path) -> None:
    root = str(tmp_path / "w")
    lycosa("-w", root, "crawl", site, *FOREVER, "--set", "collection.schedule=22:00-06:00", "--set", "collection.max_pages=10")
    night, noon = (ManualClock(hour * 3_600_000) for hour in (23, 12))
    assert _only(workspace_status(root, night))["open_now"] is True
    assert _only(workspace_status(root, noon))["open_now"] is False
    assert "only 22:00-06:00 UTC" in lycosa("-w", root, "status").out


def test_what_a_living_daemon_says_is_shown(lycosa: Lycosa, workspace: Path) -> None:
    opened = Workspace.open(str(workspace))
    document = {
        "daemon": os.getpid(), "pid": 1, "since": "2026-11-21T10:00:00Z", "pages": 12, "visits": 14, "rate": 1.5, "queue": 3, "hosts": 2,
        "in_flight": 1, "errors": {"timeout": 2}, "collections": {"news": {"pages": 12, "in_flight": 1, "resting": True}},
        "message": "the disk is full", "last_commit": {"entry": 7, "at": "2026-11-21T10:01:00Z"}, "bad": {"old": "seed_file is missing"},
    }  # fmt: skip
    assert lycosa("-w", str(workspace), "status", "--json").json["live"] is None
    with opened.own("run"):
        write_live(opened.storage, document)
        said = lycosa("-w", str(workspace), "status").out
    for text in ("1.5 pages a second", "timeout 2", "the disk is full", "left out: old", "seed_file is missing", "resting", "entry 7"):
        assert text in said
    assert "the disk is full" not in lycosa("-w", str(workspace), "status").out


def test_traps_are_counted_by_rule() -> None:
    rows = [("calendar", 2, 30), ("stopped:near_identical:/a/", 1, 9), ("stopped:near_identical:/b/", 1, 7), ("near_identical", 1, 4)]
    frame = pl.DataFrame(rows, schema=["name", "len", "count"], orient="row")
    assert _traps(frame) == [{"rule": "calendar", "urls": 30, "parts": 0}, {"rule": "near_identical", "urls": 4, "parts": 2}]
