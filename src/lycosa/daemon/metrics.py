"""Figures for Prometheus: measured cheaply (the log, small files, the disk; no table is scanned),
written as its text format 0.0.4.

Counters that the log holds never fall; a worker's own begin anew with each of its lives, as
Prometheus expects.
"""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from lycosa.cluster.status import cluster_status
from lycosa.core.clock import Clock, SystemClock
from lycosa.core.version import VERSION
from lycosa.crawl.session.worker_status import live_status
from lycosa.export.bulk.bulk import EXPORTS
from lycosa.index.generation import GenerationInfo
from lycosa.index.shards.shards import current_generation
from lycosa.store.log.entry import COMMIT, at_ms
from lycosa.store.log.log import EntriesGone
from lycosa.store.log.state import LogState
from lycosa.store.workspace import Workspace

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PAGES, _REFUSED = "pages.", "refused."
_LOCAL = "local"  # the label of the one worker of a machine's own daemon


@dataclass(slots=True)
class Measured:
    """What is known of a workspace at a moment. `live`, `cluster`: as in
    `lycosa.crawl.session.worker_status` and `cluster_view`; None: no worker uses it.
    """

    now_ms: int
    log_head: int = 0
    counters: Mapping[str, int] = field(default_factory=dict)  # as the log's commits add them up
    last_commit_ms: int = 0  # 0: not known
    partitions: int = 0
    held: int = 0  # partitions under a claim
    # table -> live files, rows, bytes
    tables: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    archive_files: int = 0
    archive_bytes: int = 0
    index: GenerationInfo | None = None
    # bytes; None: the workspace does not lie on a disk of this machine
    disk_free: int | None = None
    exports: Iterable[tuple[str, str, int]] = ()  # kind, index, log entry that is confirmed
    live: Mapping[str, Any] | None = None
    cluster: Mapping[str, Any] | None = None


class Meter:
    """Measures one workspace again and again: each time what the log got since is read. For any
    thread.
    """

    def __init__(self, root: str, clock: Clock | None = None) -> None:
        self._root = root
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._workspace: Workspace | None = None
        self._state: LogState | None = None
        self._last_commit_ms = 0

    def text(self) -> str:
        """The metrics as text. Raises what `measure` raises."""
        return metrics_text(self.measure())

    def measure(self) -> Measured:
        """Raises WorkspaceError: there is no workspace, or it is damaged. OSError: storage
        failed.
        """
        with self._lock:
            workspace, state = self._read_on()
            files = state.files.items()
            cluster = cluster_status(self._root, self._clock)
            return Measured(
                now_ms=self._clock.now_ms(),
                log_head=state.head,
                counters=dict(state.counters),
                last_commit_ms=self._last_commit_ms,
                partitions=workspace.partitions,
                held=len(state.holders),
                tables={
                    name: (
                        len(each),
                        sum(file.rows for file in each),
                        sum(file.bytes for file in each),
                    )
                    for name, each in files
                },
                archive_files=len(state.warcs),
                archive_bytes=state.warcs.total_bytes,
                index=current_generation(self._root),
                disk_free=shutil.disk_usage(workspace.root).free
                if workspace.storage.on_disk
                else None,
                exports=_exports(workspace),
                live=live_status(self._root),
                cluster=cluster if cluster is not None and not cluster["over"] else None,
            )

    def _read_on(self) -> tuple[Workspace, LogState]:
        workspace = self._workspace = self._workspace or Workspace.open(self._root)
        state = self._state
        if state is None:
            state = LogState(workspace.log)
        try:
            entries = state.refresh()
        except EntriesGone:  # nobody asked for days: begin at the snapshot
            state = LogState(workspace.log)
            entries = state.refresh()
        self._state = state
        self._last_commit_ms = next(
            (at_ms(entry) for entry in reversed(entries) if entry.kind == COMMIT),
            self._last_commit_ms,
        )
        return workspace, state


def _exports(workspace: Workspace) -> list[tuple[str, str, int]]:
    exports = []
    for name in workspace.storage.names(EXPORTS):
        with suppress(ValueError, KeyError, TypeError):
            document = json.loads(workspace.storage.read(f"{EXPORTS}/{name}") or b"{}")
            exports.append(
                (
                    str(document["kind"]),
                    f"{document['url']}/{document['index']}",
                    int(document["confirmed"]["log_entry"]),
                )
            )
    return exports


_Label = tuple[str, object]


class _Page:
    """The text, family by family."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(
        self,
        name: str,
        kind: str,
        help_text: str,
        samples: Iterable[tuple[Iterable[_Label], float | int | bool | None]],
    ) -> None:
        """A family with its samples; one without is left out."""
        values = [(tuple(labels), value) for labels, value in samples if value is not None]
        if not values:
            return
        name = f"lycosa_{name}"
        self.lines.append(f"# HELP {name} {_escaped(help_text)}")
        self.lines.append(f"# TYPE {name} {kind}")
        for labels, value in values:
            text = ",".join(
                f'{label}="{_escaped(str(label_value), quoted=True)}"'
                for label, label_value in labels
            )
            self.lines.append(
                f"{name}{{{text}}} {_number(value)}" if text else f"{name} {_number(value)}"
            )

    def gauge(self, name: str, help_text: str, value: float | int | bool | None) -> None:
        self.add(name, "gauge", help_text, [((), value)])

    def counter(self, name: str, help_text: str, value: float | int | None) -> None:
        self.add(f"{name}_total", "counter", help_text, [((), value)])


def metrics_text(measured: Measured) -> str:
    """The text exposition format 0.0.4 (prometheus.io/docs/instrumenting/exposition_formats)."""
    page = _Page()
    page.add("build_info", "gauge", "Version of Lycosa.", [([("version", VERSION)], 1)])
    _write_log(page, measured)
    _write_index(page, measured)
    cluster = measured.cluster
    if cluster is not None:
        _write_cluster(page, cluster)
    page.gauge(
        "daemon_up",
        "Whether a daemon on this machine or a cluster coordinator is using the workspace.",
        _is_up(measured),
    )
    _write_workers(page, _workers(measured))
    return "\n".join(page.lines) + "\n"


def _write_log(page: _Page, measured: Measured) -> None:
    counters = measured.counters
    page.gauge("log_head", "Number of the latest log entry.", measured.log_head)
    page.counter("pages", "Committed pages.", counters.get("pages", 0))
    page.counter("visits", "Committed HTTP exchanges.", counters.get("visits", 0))
    page.counter(
        "fetched_bytes",
        "Committed bytes of response bodies, as transferred.",
        counters.get("bytes", 0),
    )
    of_collections = [
        ([("collection", name.removeprefix(_PAGES))], n)
        for name, n in sorted(counters.items())
        if name.startswith(_PAGES)
    ]
    page.add("collection_pages_total", "counter", "Committed pages, by collection.", of_collections)
    refused = [
        ([("reason", name.removeprefix(_REFUSED))], n)
        for name, n in sorted(counters.items())
        if name.startswith(_REFUSED)
    ]
    page.add("links_refused_total", "counter", "Links not admitted, by reason.", refused)
    committed_s = measured.last_commit_ms / 1000 or None
    page.gauge(
        "last_commit_timestamp_seconds",
        "Time of the latest commit, in seconds since 1970.",
        committed_s,
    )
    age_s = max(0.0, measured.now_ms / 1000 - committed_s) if committed_s else None
    page.gauge("last_commit_age_seconds", "Time since the latest commit, in seconds.", age_s)
    _write_tables(page, measured)


def _write_tables(page: _Page, measured: Measured) -> None:
    states = {"held": measured.held, "free": max(0, measured.partitions - measured.held)}
    page.add(
        "partitions",
        "gauge",
        "Partitions with a claim (held) and without one (free).",
        [([("state", name)], n) for name, n in states.items()],
    )
    for place, (name, meaning) in enumerate(
        (
            ("files", "Live files"),
            ("rows", "Rows of live files, including superseded rows"),
            ("bytes", "Bytes of live files"),
        )
    ):
        samples = [
            ([("table", table)], figures[place])
            for table, figures in sorted(measured.tables.items())
        ]
        page.add(f"table_{name}", "gauge", f"{meaning}, by table.", samples)
    page.gauge("archive_files", "Committed WARC files.", measured.archive_files)
    page.gauge("archive_bytes", "Bytes of committed WARC files.", measured.archive_bytes)
    page.gauge("disk_free_bytes", "Free bytes on the workspace's disk.", measured.disk_free)
    lags = [
        ([("kind", kind), ("index", index)], max(0, measured.log_head - entry))
        for kind, index, entry in sorted(measured.exports)
    ]
    page.add(
        "export_lag_entries",
        "gauge",
        "Log entries not yet sent to the target of a bulk export.",
        lags,
    )


def _write_index(page: _Page, measured: Measured) -> None:
    index = measured.index
    if index is None:
        return
    page.gauge("index_documents", "Documents in the search index.", index.documents)
    page.gauge(
        "index_generation", "Number of the latest generation of the search index.", index.generation
    )
    page.gauge(
        "index_lag_entries",
        "Log entries not yet processed by the search index.",
        max(0, measured.log_head - index.log_entry),
    )
    with suppress(ValueError):
        created_s = datetime.fromisoformat(index.created_at).timestamp()
        page.gauge(
            "index_age_seconds",
            "Time since the latest generation was published, in seconds.",
            max(0.0, measured.now_ms / 1000 - created_s),
        )


def _write_cluster(page: _Page, cluster: Mapping[str, Any]) -> None:
    page.gauge(
        "cluster_up",
        "Whether the coordinator reported within the last 30 s.",
        not cluster["silent"],
    )
    page.gauge(
        "cluster_heard_age_seconds",
        "Time since the last report of the coordinator, in seconds.",
        cluster["heard_ms_ago"] / 1000,
    )
    if cluster["silent"]:
        return
    nodes = cluster["nodes"]
    alive = sum(bool(node.get("alive")) for node in nodes)
    states = {"alive": alive, "dead": len(nodes) - alive}
    page.add(
        "nodes",
        "gauge",
        "Nodes of the cluster.",
        [([("state", name)], number) for name, number in states.items()],
    )
    for key, meaning in (
        ("cpus", "CPUs of a node."),
        ("workers", "Workers on a node."),
        ("rate", "Pages per second of all workers on a node."),
    ):
        name = "node_pages_per_second" if key == "rate" else f"node_{key}"
        page.add(
            name,
            "gauge",
            meaning,
            [([("node", node.get("name", ""))], _figure(node.get(key))) for node in nodes],
        )
    page.gauge(
        "partitions_unassigned",
        "Partitions assigned to no worker.",
        _figure(cluster.get("unassigned")),
    )
    granted = [
        ([("collection", name)], _figure(pages))
        for name, pages in sorted((cluster.get("granted") or {}).items())
    ]
    page.add("granted_pages", "gauge", "Page quota of a collection leased to workers.", granted)


@dataclass(slots=True, frozen=True)
class _Worker:
    labels: tuple[_Label, ...]
    progress: Mapping[str, Any]
    figures: Mapping[str, Any] = field(default_factory=dict)  # by the coordinator


def _workers(measured: Measured) -> list[_Worker]:
    cluster, live = measured.cluster, measured.live
    workers = []
    if cluster is not None and not cluster["silent"]:
        for worker in cluster["workers"]:
            labels = (("worker", worker.get("worker", "")), ("node", worker.get("node", "")))
            workers.append(_Worker(labels, worker.get("progress") or {}, worker))
    elif live is not None and "pages" in live:
        workers.append(_Worker((("worker", _LOCAL), ("node", "")), live))
    return workers


def _write_workers(page: _Page, workers: list[_Worker]) -> None:
    page.gauge("workers", "Workers that currently report.", len(workers))
    for key, meaning in (
        ("pages", "Pages added by a worker since it started."),
        ("visits", "HTTP exchanges of a worker since it started."),
    ):
        page.add(
            f"worker_{key}_total",
            "counter",
            meaning,
            [(each.labels, _figure(each.progress.get(key))) for each in workers],
        )
    errors = [
        ((*each.labels, ("kind", kind)), _figure(number))
        for each in workers
        for kind, number in sorted((each.progress.get("errors") or {}).items())
    ]
    page.add(
        "worker_errors_total", "counter", "Errors of a worker since it started, by kind.", errors
    )
    for name, key, meaning in _OF_PROGRESS:
        page.add(
            f"worker_{name}",
            "gauge",
            meaning,
            [(each.labels, _figure(each.progress.get(key))) for each in workers],
        )
    for name, key, meaning in _OF_PING:
        page.add(
            f"worker_{name}",
            "gauge",
            meaning,
            [(each.labels, _figure(each.figures.get(key))) for each in workers],
        )
    ages = [
        (each.labels, each.figures["last_ping_ms_ago"] / 1000)
        for each in workers
        if _figure(each.figures.get("last_ping_ms_ago")) is not None
    ]
    page.add(
        "worker_ping_age_seconds",
        "gauge",
        "Time since a worker's last answered ping, in seconds.",
        ages,
    )


_OF_PROGRESS = (
    ("pages_per_second", "rate", "Pages per second over the last minute."),
    ("queue", "queue", "URLs queued in memory."),
    ("hosts", "hosts", "Active hosts."),
    ("in_flight", "in_flight", "HTTP exchanges in flight."),
)
_OF_PING = (
    ("partitions", "partitions", "Partitions held by a worker."),
    ("waiting_urls", "waiting", "Known URLs waiting in a worker's partitions."),
    ("lag_entries", "lag_entries", "Log entries not yet applied by a worker."),
    ("idle", "idle", "Whether a worker is idle."),
)


def _is_up(measured: Measured) -> bool:
    return measured.live is not None or (
        measured.cluster is not None and not measured.cluster["silent"]
    )


def _figure(value: object) -> float | int | bool | None:
    """A number as it was said; None for anything else."""
    return value if isinstance(value, (int, float)) else None


def _number(value: float | int | bool) -> str:
    return str(int(value)) if isinstance(value, bool) else repr(value)


def _escaped(text: str, *, quoted: bool = False) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quoted else text
