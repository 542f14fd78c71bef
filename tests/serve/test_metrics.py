"""`/metrics`: valid for the parser of Prometheus, and equal to the figures of the workspace."""

from __future__ import annotations

import json
import math
import os
import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from lycosa.cluster.status import FILE
from lycosa.commands.inspection.status import workspace_status
from lycosa.core.units import format_time
from lycosa.crawl.session.worker_status import write_live
from lycosa.daemon.metrics import CONTENT_TYPE, Measured, Meter, metrics_text
from lycosa.index.indexer import Indexer
from lycosa.serve.app import ENCODER_FAILURES, create_app
from lycosa.store.compaction.compact import compact
from lycosa.store.workspace import Workspace
from tests.serve.client import Client
from tests.store.builders import commit_pages
from tests.waiting import ManualClock

NOW_MS = 1_790_000_000_000
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def parse_metrics(text: str) -> Samples:
    """Return the samples by name and labels; fail on duplicates."""
    assert text.endswith("\n")
    samples: Samples = {}
    families: set[str] = set()
    for family in text_string_to_metric_families(text):
        assert family.name not in families, family.name
        families.add(family.name)
        assert family.documentation, family.name
        assert family.type in ("gauge", "counter"), family.name
        for sample in family.samples:
            assert sample.name.startswith("lycosa_")
            assert sample.name.endswith("_total") == (family.type == "counter"), sample.name
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in samples, key
            assert math.isfinite(sample.value)
            samples[key] = sample.value
    assert text.count("# TYPE") == text.count("# HELP") == len(families)
    return samples


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[f"lycosa_{name}", tuple(sorted(labels.items()))]


def cluster_document(**more: Any) -> dict[str, Any]:
    def progress(rate: float) -> dict[str, Any]:
        return {
            "pages": 10,
            "visits": 12,
            "rate": rate,
            "queue": 3,
            "hosts": 2,
            "in_flight": 1,
            "errors": {"timeout": 2},
        }

    def worker(name: str, node: str, rate: float) -> dict[str, Any]:
        return {
            "worker": name, "node": node, "claim": 5, "partitions": 16, "idle": False, "last_ping_ms_ago": 400, "lag_entries": 3,
            "waiting": 1_000, "progress": progress(rate),
        }  # fmt: skip

    return {
        "leader": "ray-a-77", "engine": "ray", "dashboard": "", "written_at": format_time(NOW_MS - 1_000), "log_head": 9,
        "ended": False, "nodes": [{"name": "a", "address": "10.0.0.1", "cpus": 8.0},
        {"name": "b\"\\\n", "address": "10.0.0.2", "cpus": 8.0}],
        "workers": [worker("w1", "a", 1.5), worker("w2", "a", 2.5), worker("w3", "b\"\\\n", 4.0)],
        "unassigned": 2, "partitions": 64, "granted": {"news": 500},
    } | more  # fmt: skip


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace.create(str(tmp_path / "crawl"), partitions=4)


def test_metrics_route_returns_current_figures(workspace: Workspace) -> None:
    commit_pages(workspace, workspace.claim("w", settings={}), range(7))
    client = Client(create_app(workspace.root, lambda: workspace_status(workspace.root)))
    answer = client.get("/metrics")
    assert (answer.status_code, answer.headers["content-type"]) == (200, CONTENT_TYPE)
    samples = parse_metrics(answer.text)
    assert (value(samples, "pages_total"), value(samples, "daemon_up")) == (7, 0)
    commit_pages(workspace, workspace.claim("w"), range(7, 9))
    assert value(parse_metrics(client.get("/metrics").text), "pages_total") == 9
    assert "/metrics" in client.get("/api/v1/openapi.json").json()["paths"]


def test_metrics_of_a_missing_workspace_are_unavailable(tmp_path: Path) -> None:
    assert Client(create_app(f"{tmp_path}/nowhere", dict)).get("/metrics").status_code == 503


def test_metrics_of_log_tables_archive_index_and_disk(workspace: Workspace) -> None:
    meter = Meter(workspace.root)
    claim = workspace.claim("w", range(3))
    commit_pages(workspace, claim, range(5))
    with Indexer(workspace.root) as indexer:
        indexer.update()
    head = commit_pages(workspace, claim, range(5, 9))
    samples = parse_metrics(meter.text())
    assert (value(samples, "log_head"), value(samples, "visits_total")) == (head, 9)
    assert (
        value(samples, "partitions", state="held"),
        value(samples, "partitions", state="free"),
    ) == (3, 1)
    assert value(samples, "table_files", table="pages") == 2
    assert value(samples, "table_rows", table="pages") == 9
    assert value(samples, "archive_files") == 2
    assert (
        value(samples, "archive_bytes")
        == sum(file.bytes for file in workspace.state().warcs.values())
        > 0
    )
    assert (value(samples, "index_documents"), value(samples, "index_lag_entries")) == (5, 1)
    assert value(samples, "disk_free_bytes") > 0
    assert 0 <= value(samples, "last_commit_age_seconds") < 3_600
    compact(workspace, whole=True)
    after = parse_metrics(meter.text())
    assert (value(after, "table_files", table="pages"), value(after, "pages_total")) == (1, 9)
    assert value(after, "log_head") > head


def test_metrics_of_a_daemon_and_its_worker(workspace: Workspace) -> None:
    live = {
        "daemon": os.getpid(), "pid": 1, "since": "2026-11-21T10:00:00Z", "pages": 12, "visits": 14, "rate": 1.5, "queue": 3, "hosts": 2,
        "in_flight": 1, "errors": {"timeout": 2, "http_503": 4}, "collections": {}, "message": "", "last_commit": None, "bad": {},
    }  # fmt: skip
    with workspace.own("run"):
        write_live(workspace.storage, live)
        samples = parse_metrics(Meter(workspace.root).text())
    assert (value(samples, "daemon_up"), value(samples, "workers")) == (1, 1)
    assert value(samples, "worker_pages_total", worker="local", node="") == 12
    assert value(samples, "worker_errors_total", worker="local", node="", kind="http_503") == 4
    assert value(samples, "worker_pages_per_second", worker="local", node="") == 1.5
    assert value(parse_metrics(Meter(workspace.root).text()), "daemon_up") == 0


def test_metrics_of_a_cluster(workspace: Workspace) -> None:
    workspace.storage.make_folder("run")
    workspace.storage.replace(FILE, json.dumps(cluster_document()).encode())
    samples = parse_metrics(Meter(workspace.root, ManualClock(NOW_MS)).text())
    assert value(samples, "cluster_up") == value(samples, "daemon_up") == 1
    assert value(samples, "nodes") == 2
    assert value(samples, "node_pages_per_second", node="a") == 4.0
    assert value(samples, "node_workers", node='b"\\\n') == 1
    assert value(samples, "worker_lag_entries", worker="w2", node="a") == 3
    assert value(samples, "worker_ping_age_seconds", worker="w2", node="a") == 0.4
    assert value(samples, "granted_pages", collection="news") == 500
    assert value(samples, "partitions_unassigned") == 2
    silent = parse_metrics(Meter(workspace.root, ManualClock(NOW_MS + 60_000)).text())
    assert (
        value(silent, "cluster_up") == value(silent, "daemon_up") == value(silent, "workers") == 0
    )
    assert value(silent, "cluster_heard_age_seconds") == 61
    assert not [name for name, _ in silent if name.startswith("lycosa_worker_")]
    workers = [worker | {"partitions": 0} for worker in cluster_document()["workers"]]
    workspace.storage.replace(
        FILE, json.dumps(cluster_document(ended=True, workers=workers)).encode()
    )
    ended = parse_metrics(Meter(workspace.root, ManualClock(NOW_MS)).text())
    assert value(ended, "daemon_up") == 0
    assert not [
        name
        for name, _ in ended
        if name.startswith(("lycosa_cluster", "lycosa_node", "lycosa_worker_"))
    ]


@pytest.mark.parametrize(
    "document",
    [
        {},
        [],
        {"written_at": "soon"},
        {"written_at": 7},
        {"written_at": format_time(NOW_MS), "workers": [{}], "nodes": [{}]},
    ],
)
def test_invalid_cluster_status_does_not_break_metrics(
    workspace: Workspace, document: object
) -> None:
    workspace.storage.make_folder("run")
    workspace.storage.replace(FILE, json.dumps(document).encode())
    assert parse_metrics(Meter(workspace.root, ManualClock(NOW_MS)).text())


def test_metrics_without_measurements() -> None:
    assert value(parse_metrics(metrics_text(Measured(0))), "pages_total") == 0


def test_documented_metrics_exist(workspace: Workspace) -> None:
    commit_pages(workspace, workspace.claim("w"), range(3))
    with Indexer(workspace.root) as indexer:
        indexer.update()
    meter = Meter(workspace.root, ManualClock(NOW_MS))
    workspace.storage.make_folder("run")
    workspace.storage.replace(FILE, json.dumps(cluster_document()).encode())
    measured = meter.measure()
    measured.counters = {**measured.counters, "pages.news": 3, "refused.scope": 1}
    measured.exports = [("opensearch", "http://127.0.0.1:9200/pages", 1)]
    emitted = {name for name, _ in parse_metrics(metrics_text(measured))}
    docs = Path(__file__).resolve().parents[2] / "docs"
    documentation = "".join(
        (docs / name).read_text(encoding="utf-8")
        for name in ("reference/metrics.md", "how-to/monitoring.md")
    )
    documented = set(re.findall(r"\blycosa_[a-z_]+\b", documentation))
    assert len(documented) >= 30
    assert documented <= emitted | {ENCODER_FAILURES}
