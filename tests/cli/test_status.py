"""`lycosa status`: waiting URLs, collections, a running daemon, traps and a cluster."""

from __future__ import annotations

import json
import os
import socket
from datetime import datetime
from pathlib import Path

import polars as pl

from lycosa.cluster.status import FILE as CLUSTER
from lycosa.commands.inspection.status import _traps, workspace_status
from lycosa.commands.models import CollectionStatus, TrapCount, WorkspaceStatus
from lycosa.core.clock import SystemClock
from lycosa.core.units import format_time
from lycosa.crawl.session.worker_status import write_live
from lycosa.store.workspace import Workspace
from tests.cli.conftest import NO_DELAY, Lycosa
from tests.waiting import ManualClock


def _only_collection(status: WorkspaceStatus) -> CollectionStatus:
    (collection,) = status.collections
    return collection


def test_waiting_urls_are_counted_by_reason(here: Lycosa, site: str, tmp_path: Path) -> None:
    root = str(tmp_path / "w")
    recrawl = ("--set", "collection.recrawl=age", "--set", "collection.max_age=1h")
    assert here("-w", root, "crawl", site, "--max-pages", "1", "--delay", "2s", *recrawl).code == 0
    assert "waiting " in here("-w", root, "status").out
    last_visit = datetime.fromisoformat(
        str(here("-w", root, "status", "--json").json["last_visit"])
    ).timestamp()
    at_once = workspace_status(root, ManualClock(round(last_visit * 1000) + 100))
    assert at_once.waiting == {"host_paused": 3}
    collection = _only_collection(at_once)
    assert (collection.recrawl, collection.strategy, collection.open_now) == (
        "age",
        "breadth-first",
        True,
    )
    then = workspace_status(root, ManualClock(round(last_visit * 1000) + 2 * 3_600_000))
    assert (then.waiting, _only_collection(then).due_again, collection.due_again) == (
        {"due": 3},
        1,
        0,
    )


def test_a_collection_that_is_not_configured_is_marked(
    here: Lycosa, site: str, tmp_path: Path
) -> None:
    root, mark = tmp_path / "w", "not in lycosa.toml"
    here("-w", str(root), "crawl", site, *NO_DELAY, "--set", "collection.recrawl=daily").expect(0)
    here("-w", str(root), "status").expect(0, "recrawl daily", absent=(mark,))
    (root / "lycosa.toml").write_text('[[collection]]\nname = "other"\n')
    here("-w", str(root), "status").expect(0, mark, absent=("recrawl daily",))


def test_index_is_behind_only_by_entries_that_change_it(
    here: Lycosa, site: str, tmp_path: Path
) -> None:
    root = str(tmp_path / "w")
    for _ in range(2):  # the second call adds a claim and its release to the log
        here("-w", root, "crawl", site, *NO_DELAY).expect(0)
    here("-w", root, "status").expect(0, "index", absent=("behind by",))
    here("-w", root, "crawl", f"{site}/gone.html?new", *NO_DELAY, "--no-index").expect(None)
    here("-w", root, "status").expect(0, "behind by")


def test_schedule_of_a_collection_is_shown(here: Lycosa, site: str, tmp_path: Path) -> None:
    root = str(tmp_path / "w")
    settings = ("collection.schedule=22:00-06:00", "collection.max_pages=10", "crawl.patience=3s")
    options = [part for setting in settings for part in ("--set", setting)]
    here("-w", root, "crawl", site, "--delay", "0", *options)
    night, noon = (ManualClock(hour * 3_600_000) for hour in (23, 12))
    assert _only_collection(workspace_status(root, night)).open_now is True
    assert _only_collection(workspace_status(root, noon)).open_now is False
    assert "only 22:00-06:00 UTC" in here("-w", root, "status").out


def test_status_of_a_running_daemon_is_shown(here: Lycosa, workspace: Path) -> None:
    opened = Workspace.open(str(workspace))
    document = {
        "daemon": os.getpid(), "pid": 1, "since": "2026-11-21T10:00:00Z", "pages": 12, "visits": 14, "rate": 1.5, "queue": 3, "hosts": 2,
        "in_flight": 1, "errors": {"timeout": 2}, "collections": {"news": {"pages": 12, "in_flight": 1, "paused": True}},
        "message": "the disk is full", "last_commit": {"entry": 7, "at": "2026-11-21T10:01:00Z"}, "bad": {"old": "seed_file is missing", "news": "a bad seed"},
    }  # fmt: skip
    assert here("-w", str(workspace), "status", "--json").json["live"] is None
    with opened.own("run"):
        write_live(opened.storage, document)
        outcome = here("-w", str(workspace), "status").out
    for text in (
        "1.5 pages/s",
        "timeout 2",
        "the disk is full",
        "left out: old",
        "previous settings: news",
        "seed_file is missing",
        "inactive",
        "entry 7",
    ):
        assert text in outcome
    assert "the disk is full" not in here("-w", str(workspace), "status").out


def test_a_worker_without_reports_is_shown(tmp_path: Path) -> None:
    root, clock = str(tmp_path / "w"), ManualClock(1_000_000_000_000)
    opened = Workspace.create(root)
    document = {"daemon": os.getpid(), "pid": 7, "written_at": format_time(clock.now_ms())}
    with opened.own("run"):
        write_live(opened.storage, {**document, "message": "slow"})
        messages = []
        for passed_ms in (6_000, 1_500):
            clock.advance(passed_ms)
            live = workspace_status(root, clock).live
            assert live is not None
            messages.append(live["message"])
    assert messages[0] == "slow"
    assert messages[1] == (
        f"slow; no report from process 7 on {socket.gethostname()} for 7s (the last at "
        "2001-09-09T01:46:40Z): it may be suspended, busy with one page, or waiting for the storage"
    )


def test_invalid_settings_are_reported(here: Lycosa, tmp_path: Path) -> None:
    root = str(tmp_path / "w")
    here("-w", root, "init").expect(0)
    here("-w", root, "status", "--set", "fetch.x=1").expect(2, err=("no setting 'x'",))
    (tmp_path / "w" / "lycosa.toml").write_text("[fetch]\nno_such = 1\n")
    status = here("-w", root, "status", "--json")
    status.expect(0, err=("warning: ", "lycosa.toml, line 2: fetch.no_such: unknown setting"))
    assert status.json["pages"] == 0


def test_traps_are_counted_by_rule() -> None:
    rows = [
        ("calendar", 2, 30),
        ("stopped:near_identical:/a/", 1, 9),
        ("stopped:near_identical:/b/", 1, 7),
        ("near_identical", 1, 4),
    ]
    frame = pl.DataFrame(rows, schema=["name", "len", "count"], orient="row")
    assert _traps(frame) == [
        TrapCount("calendar", 30, 0),
        TrapCount("near_identical", 4, 2),
    ]


def test_status_of_a_running_silent_and_ended_cluster(here: Lycosa, workspace: Path) -> None:
    storage = Workspace.open(str(workspace)).storage
    assert here("-w", str(workspace), "status", "--json").json["cluster"] is None

    def worker(name: str, node: str, **more: object) -> dict[str, object]:
        progress = {
            "pages": 1_200,
            "visits": 1_300,
            "rate": 2.5,
            "queue": 3,
            "hosts": 2,
            "in_flight": 7,
            "errors": {"timeout": 2},
        }
        outcome = {
            "worker": name,
            "node": node,
            "claim": 5,
            "partitions": 16,
            "idle": False,
            "last_ping_ms_ago": 400,
            "lag_entries": 0,
        }
        return outcome | {"waiting": 51_000, "progress": progress} | more

    document = {
        "leader": "ray-head-77", "engine": "ray", "dashboard": "http://127.0.0.1:8265", "written_at": format_time(SystemClock().now_ms()),
        "log_head": 9, "ended": False, "nodes": [{"name": "a", "address": "10.0.0.1", "cpus": 8.0},
        {"name": "b", "address": "10.0.0.2", "cpus": 4.0}], "unassigned": 2, "partitions": 64, "granted": {"news": 500},
        "workers": [worker("w1", "a"), worker("w2", "a", idle=True, lag_entries=3), worker("w3", "b", progress={})],
    }  # fmt: skip
    try:
        storage.make_folder("run")
        storage.replace(CLUSTER, json.dumps(document).encode())
        outcome = here("-w", str(workspace), "status").out
        for text in (
            "engine ray, led by ray-head-77: 2 nodes, 3 workers, 64 partitions (2 "
            "unassigned), log entry 9",
            "running             a cluster",
            "http://127.0.0.1:8265",
            "page quota        news 500\n",
            "10.0.0.1, 8 CPUs, 2 workers, 32 partitions, 5.0 pages/s",
            "10.0.0.2, 4 CPUs, 1 worker, 16 partitions, 0.0 pages/s",
            "2.5 pages/s, 1,200 pages, 7 in flight; 51,000 waiting; behind by 3 log entries; "
            "idle; errors timeout 2",
        ):
            assert text in outcome
        nodes = here("-w", str(workspace), "status", "--json").json["cluster"]["nodes"]  # type: ignore[index]
        assert [(node["name"], node["rate"], node["partitions"]) for node in nodes] == [
            ("a", 5.0, 32),
            ("b", 0, 16),
        ]
        document["written_at"] = "2026-01-01T00:00:00Z"
        storage.replace(CLUSTER, json.dumps(document).encode())
        outcome = here("-w", str(workspace), "status").out
        assert "no message from ray-head-77 for" in outcome
        assert "since 2026-01-01T00:00:00Z" in outcome
        assert "10.0.0.1" not in outcome
        assert "no crawl is running" in outcome
        document |= {
            "ended": True,
            "workers": [],
            "written_at": format_time(SystemClock().now_ms()),
        }
        storage.replace(CLUSTER, json.dumps(document).encode())
        outcome = here("-w", str(workspace), "status").out
        assert "ended at" in outcome
        assert "no crawl is running" in outcome
    finally:
        storage.remove(CLUSTER)


def test_number_of_partitions_cannot_be_changed(here: Lycosa, tmp_path: Path) -> None:
    root = str(tmp_path / "w")
    assert here("-w", root, "init", "--partitions", "8").code == 0
    assert Workspace.open(root).partitions == 8
    here("-w", root, "init", "--partitions", "16", "--force").expect(2, err=("8 partitions",))
    assert here("-w", str(tmp_path / "x"), "init", "--partitions", "5000").code == 2
