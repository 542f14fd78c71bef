"""Reads the state of a cluster (`run/cluster.json`) for `lycosa status` and the metrics."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from lycosa.core.clock import Clock, SystemClock
from lycosa.core.json_object import json_object
from lycosa.store.coordination.owner import FOLDER
from lycosa.store.storage.storage import open_storage

FILE = f"{FOLDER}/cluster.json"
SILENT_MS = 30_000
"""Time without an update from which there is no leader, or clocks differ.

The leading coordinator writes every 2 s.
"""


def cluster_status(root: str, clock: Clock | None = None) -> dict[str, Any] | None:
    """Return the last report of the coordinator; None without a valid one.

    Keys as the coordinator writes them: `leader`, `engine`, `dashboard` ("" without), `written_at`,
    `cpu_s` (its own), `log_head`, `ended`, `nodes` (`name`, `address`, `cpus`), `workers`
    (`worker`, `node`, `claim`, `partitions`, `idle`, `last_ping_ms_ago`, `lag_entries`, `waiting`,
    `progress`), `partitions`, `unassigned`, `granted`. Added here: `heard_ms_ago`, by this
    machine's clock; `silent`: overdue, so the rest is outdated; `over`: the work has ended and no
    partition is held; in each of `nodes` the sums over its workers: `workers`, `partitions`, `rate`
    (pages a second).
    """
    document = json_object(open_storage(root).read(FILE))
    try:
        written_ms = round(datetime.fromisoformat(document["written_at"]).timestamp() * 1000)
    except (ValueError, KeyError, TypeError):
        return None
    age_ms = max(0, (clock or SystemClock()).now_ms() - written_ms)
    workers = [each for each in document.get("workers") or [] if isinstance(each, dict)]
    nodes = {
        str(each.get("name")): dict(each)
        for each in document.get("nodes") or []
        if isinstance(each, dict)
    }
    for worker in workers:
        nodes.setdefault(
            str(worker.get("node")),
            {"name": worker.get("node"), "address": "", "cpus": 0},
        )
    for name, node in nodes.items():
        there = [worker for worker in workers if str(worker.get("node")) == name]
        node["workers"] = len(there)
        node["partitions"] = sum(worker.get("partitions") or 0 for worker in there)
        rates = (float((each.get("progress") or {}).get("rate") or 0.0) for each in there)
        node["rate"] = round(sum(rates), 2)
    over = bool(document.get("ended")) and not any(node["partitions"] for node in nodes.values())
    added = {
        "workers": workers,
        "nodes": list(nodes.values()),
        "heard_ms_ago": age_ms,
        "silent": age_ms > SILENT_MS,
        "over": over,
    }
    return {**document, **added}
