"""Prometheus metrics of a workspace, from the log, small files and the disk; no table is scanned.

Counters from the log never decrease. Those of a worker restart with each of its processes.
"""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from lycosa.cluster.status import cluster_status
from lycosa.core.clock import Clock, SystemClock
from lycosa.core.version import VERSION
from lycosa.crawl.session.worker_status import live_status
from lycosa.export.bulk.bulk import EXPORTS
from lycosa.index.generation import GenerationInfo
from lycosa.index.shards.shards import current_generation
from lycosa.store.log.entry import COMMIT, at_ms
from lycosa.store.log.state import LogState
from lycosa.store.workspace import Workspace

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_LOCAL = "local"  # label of the only worker of a daemon without a cluster


@dataclass(slots=True)
class Measured:
    """The state of a workspace at a moment.

    `live`, `cluster`: from `lycosa.crawl.session.worker_status` and `lycosa.cluster.status`; None:
    no worker uses the workspace.
    """

    now_ms: int
    log_head: int = 0
    counters: Mapping[str, int] = field(default_factory=dict)  # sums over the commits of the log
    last_commit_ms: int = 0  # 0: unknown
    partitions: int = 0
    held: int = 0  # partitions under a claim
    # table -> live files, rows, bytes
    tables: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    archive_files: int = 0
    archive_bytes: int = 0
    index: GenerationInfo | None = None
    # bytes; None: the workspace is not on a disk of this machine
    disk_free: int | None = None
    exports: Iterable[tuple[str, str, int]] = ()  # kind, index, confirmed log entry
    live: Mapping[str, Any] | None = None
    cluster: Mapping[str, Any] | None = None


class Meter:
    """Measures a workspace repeatedly, reading only the new log entries. Thread-safe."""

    def __init__(self, root: str, clock: Clock | None = None) -> None:
        self._root = root
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._workspace: Workspace | None = None
        self._state: LogState | None = None
        self._last_commit_ms = 0

    def text(self) -> str:
        """Return the metrics as text. Raises the errors of `measure`."""
        return metrics_text(self.measure())

    def measure(self) -> Measured:
        """Return the current state of the workspace.

        Raises:
            WorkspaceError: it is missing or damaged.
            OSError: storage failed.
        """
        with self._lock:
            workspace, state = self._refresh()
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
                    for name, each in state.files.items()
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

    def _refresh(self) -> tuple[Workspace, LogState]:
        workspace = self._workspace = self._workspace or Workspace.open(self._root)
        state = self._state = self._state or LogState(workspace.log)
        entries = state.catch_up()
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


_Labels = Mapping[str, object]
_Samples = Iterable[tuple[_Labels, object]]
_Family = tuple[str, str, _Samples]
"""Name, description and samples of a metric; only numbers are written."""


def metrics_text(measured: Measured) -> str:
    """Return the text exposition format 0.0.4 (prometheus.io/docs/instrumenting)."""
    lines = []
    for name, help_text, samples in _families(measured):
        values = [(labels, value) for labels, value in samples if isinstance(value, (int, float))]
        if values:
            kind = "counter" if name.endswith("_total") else "gauge"
            lines += [f"# HELP lycosa_{name} {help_text}", f"# TYPE lycosa_{name} {kind}"]
        for labels, value in values:
            pairs = ",".join(f'{label}="{_escaped(str(text))}"' for label, text in labels.items())
            labelled = f"{{{pairs}}}" if pairs else ""
            number = int(value) if isinstance(value, bool) else value
            lines.append(f"lycosa_{name}{labelled} {number!r}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _families(measured: Measured) -> list[_Family]:
    cluster, index = measured.cluster, measured.index
    is_up = measured.live is not None or (cluster is not None and not cluster["silent"])
    return [
        ("build_info", "Version of Lycosa.", [({"version": VERSION}, 1)]),
        *_log_families(measured),
        *_store_families(measured),
        *(_index_families(measured, index) if index is not None else ()),
        *(_cluster_families(cluster) if cluster is not None else ()),
        (
            "daemon_up",
            "Whether a daemon on this machine or a cluster coordinator is using the workspace.",
            _one(is_up),
        ),
        *_worker_families(_workers(measured)),
    ]


def _one(value: object) -> _Samples:
    return [({}, value)]


def _by(label: str, values: Mapping[str, object]) -> _Samples:
    return [({label: key}, value) for key, value in values.items()]


def _with_prefix(counters: Mapping[str, int], prefix: str) -> dict[str, int]:
    return {
        name.removeprefix(prefix): number
        for name, number in sorted(counters.items())
        if name.startswith(prefix)
    }


def _log_families(measured: Measured) -> list[_Family]:
    counters, last_s = measured.counters, measured.last_commit_ms / 1000
    age_s = max(0.0, measured.now_ms / 1000 - last_s) if last_s else None
    return [
        ("log_head", "Number of the latest log entry.", _one(measured.log_head)),
        ("pages_total", "Committed pages.", _one(counters.get("pages", 0))),
        ("visits_total", "Committed HTTP exchanges.", _one(counters.get("visits", 0))),
        (
            "fetched_bytes_total",
            "Committed bytes of response bodies, as transferred.",
            _one(counters.get("bytes", 0)),
        ),
        (
            "collection_pages_total",
            "Committed pages, by collection.",
            _by("collection", _with_prefix(counters, "pages.")),
        ),
        (
            "links_refused_total",
            "Links not admitted, by reason.",
            _by("reason", _with_prefix(counters, "refused.")),
        ),
        (
            "last_commit_timestamp_seconds",
            "Time of the latest commit, in seconds since 1970.",
            _one(last_s or None),
        ),
        (
            "last_commit_age_seconds",
            "Time since the latest commit, in seconds.",
            _one(age_s),
        ),
    ]


_OF_TABLES = (
    ("files", "Live files"),
    ("rows", "Rows of live files, including superseded rows"),
    ("bytes", "Bytes of live files"),
)


def _store_families(measured: Measured) -> list[_Family]:
    free = max(0, measured.partitions - measured.held)
    tables = sorted(measured.tables.items())
    return [
        (
            "partitions",
            "Partitions with a claim (held) and without one (free).",
            _by("state", {"held": measured.held, "free": free}),
        ),
        *(
            (
                f"table_{name}",
                f"{meaning}, by table.",
                _by("table", {table: figures[column] for table, figures in tables}),
            )
            for column, (name, meaning) in enumerate(_OF_TABLES)
        ),
        ("archive_files", "Committed WARC files.", _one(measured.archive_files)),
        ("archive_bytes", "Bytes of committed WARC files.", _one(measured.archive_bytes)),
        ("disk_free_bytes", "Free bytes on the workspace's disk.", _one(measured.disk_free)),
        (
            "export_lag_entries",
            "Log entries not yet sent to the target of a bulk export.",
            [
                ({"kind": kind, "index": index}, max(0, measured.log_head - entry))
                for kind, index, entry in sorted(measured.exports)
            ],
        ),
    ]


def _index_families(measured: Measured, index: GenerationInfo) -> list[_Family]:
    age_s: float | None = None
    with suppress(ValueError):
        created_s = datetime.fromisoformat(index.created_at).timestamp()
        age_s = max(0.0, measured.now_ms / 1000 - created_s)
    return [
        ("index_documents", "Documents in the search index.", _one(index.documents)),
        (
            "index_generation",
            "Number of the latest generation of the search index.",
            _one(index.generation),
        ),
        (
            "index_lag_entries",
            "Log entries not yet processed by the search index.",
            _one(max(0, measured.log_head - index.log_entry)),
        ),
        (
            "index_age_seconds",
            "Time since the latest generation was published, in seconds.",
            _one(age_s),
        ),
    ]


_OF_NODES = (
    ("node_cpus", "cpus", "CPUs of a node."),
    ("node_workers", "workers", "Workers on a node."),
    ("node_pages_per_second", "rate", "Pages per second of all workers on a node."),
)


def _cluster_families(cluster: Mapping[str, Any]) -> list[_Family]:
    families: list[_Family] = [
        (
            "cluster_up",
            "Whether the coordinator reported within the last 30 s.",
            _one(not cluster["silent"]),
        ),
        (
            "cluster_heard_age_seconds",
            "Time since the last report of the coordinator, in seconds.",
            _one(cluster["heard_ms_ago"] / 1000),
        ),
    ]
    if cluster["silent"]:
        return families
    nodes = cluster["nodes"]
    return [
        *families,
        ("nodes", "Running nodes of the cluster.", _one(len(nodes))),
        *(
            (name, meaning, [({"node": node.get("name", "")}, node.get(key)) for node in nodes])
            for name, key, meaning in _OF_NODES
        ),
        (
            "partitions_unassigned",
            "Partitions assigned to no worker.",
            _one(cluster.get("unassigned")),
        ),
        (
            "granted_pages",
            "Page quota of a collection leased to workers.",
            _by("collection", dict(sorted((cluster.get("granted") or {}).items()))),
        ),
    ]


class _Worker(NamedTuple):
    labels: _Labels
    progress: Mapping[str, Any]
    status: Mapping[str, Any]  # of its last ping to the coordinator


def _workers(measured: Measured) -> list[_Worker]:
    cluster, live = measured.cluster, measured.live
    if cluster is not None and not cluster["silent"]:
        return [
            _Worker(
                {"worker": worker.get("worker", ""), "node": worker.get("node", "")},
                worker.get("progress") or {},
                worker,
            )
            for worker in cluster["workers"]
        ]
    if live is not None and "pages" in live:
        return [_Worker({"worker": _LOCAL, "node": ""}, live, {})]
    return []


_OF_PROGRESS = (
    ("worker_pages_total", "pages", "Pages added by a worker since it started."),
    ("worker_visits_total", "visits", "HTTP exchanges of a worker since it started."),
    ("worker_pages_per_second", "rate", "Pages per second over the last minute."),
    ("worker_queue", "queue", "URLs queued in memory."),
    ("worker_hosts", "hosts", "Active hosts."),
    ("worker_in_flight", "in_flight", "HTTP exchanges in flight."),
)
_OF_PING = (
    ("worker_partitions", "partitions", "Partitions held by a worker."),
    ("worker_waiting_urls", "waiting", "Known URLs waiting in a worker's partitions."),
    ("worker_lag_entries", "lag_entries", "Log entries not yet applied by a worker."),
    ("worker_idle", "idle", "Whether a worker is idle."),
)


def _worker_families(workers: Sequence[_Worker]) -> list[_Family]:
    return [
        ("workers", "Workers that currently report.", _one(len(workers))),
        *(
            (name, meaning, [(each.labels, each.progress.get(key)) for each in workers])
            for name, key, meaning in _OF_PROGRESS
        ),
        *(
            (name, meaning, [(each.labels, each.status.get(key)) for each in workers])
            for name, key, meaning in _OF_PING
        ),
        (
            "worker_errors_total",
            "Errors of a worker since it started, by kind.",
            [
                ({**each.labels, "kind": kind}, number)
                for each in workers
                for kind, number in sorted((each.progress.get("errors") or {}).items())
            ],
        ),
        (
            "worker_ping_age_seconds",
            "Time since a worker's last answered ping, in seconds.",
            [
                (each.labels, age_ms / 1000)
                for each in workers
                if isinstance(age_ms := each.status.get("last_ping_ms_ago"), (int, float))
            ],
        ),
    ]
