"""Ray nodes that die as machines do: all their processes at one moment."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import psutil

from tests.cluster.driver import now_ms
from tests.engines.clusters import RayCluster


def die(cluster: RayCluster, node: Any) -> int:
    """Kill a node and everything on it; when, in ms since 1970."""
    raylet = psutil.Process(node.all_processes["raylet"][0].process.pid)
    doomed = [raylet, *raylet.children(recursive=True)]
    for process in doomed:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    at = now_ms()
    cluster.kill(node)
    return at
