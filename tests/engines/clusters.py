"""A real Ray cluster for tests: several raylets on loopback, with a token."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]

ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # 127.0.0.1 is this machine's address
    "RAY_AUTH_MODE": "token",
}


class RayCluster:
    """A running cluster.

    `nodes` are the node objects of Ray, the head first; each has one CPU. `environment` is for
    drivers in other processes.
    """

    def __init__(self, cluster: Any, environment: dict[str, str]) -> None:
        self._cluster = cluster
        self.environment = environment
        self.nodes = [cluster.head_node]

    @property
    def address(self) -> str:
        return str(self._cluster.address)

    def add(self) -> Any:
        """Start another raylet and wait until it has joined."""
        node = self._cluster.add_node(num_cpus=1, node_ip_address="127.0.0.1")
        self.nodes.append(node)
        return node

    def kill(self, node: Any) -> None:
        """Send SIGKILL to the raylet of a node, which also ends its workers."""
        self.nodes.remove(node)
        self._cluster.remove_node(node, allow_graceful=False)

    def engine(self) -> Any:
        from lycosa.cluster.engines.ray import RayEngine

        return RayEngine(self.address, variables={"PYTHONPATH": str(ROOT)})


@contextmanager
def ray_cluster(nodes: int = 1) -> Iterator[RayCluster]:
    """Start a head and `nodes - 1` other nodes with one CPU each."""
    pytest.importorskip("ray")
    environment = {**ENVIRONMENT, "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    try:
        import ray
        from ray._private import ray_constants
        from ray._private.authentication.authentication_token_setup import _enable_token_auth
        from ray._raylet import AuthenticationTokenLoader  # type: ignore[attr-defined]
        from ray.cluster_utils import Cluster

        # Ray may have been imported, and read all three, before the environment was set.
        ray_constants.ENABLE_RAY_CLUSTER = False
        _enable_token_auth()
        AuthenticationTokenLoader.instance().reset_cache()
        cluster = Cluster(
            initialize_head=True,
            head_node_args={
                "num_cpus": 1,
                "node_ip_address": "127.0.0.1",
                "include_dashboard": False,
            },
        )
        try:
            running = RayCluster(cluster, environment)
            for _ in range(nodes - 1):
                running.add()
            yield running
        finally:
            ray.shutdown()
            cluster.shutdown()  # type: ignore[no-untyped-call]
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
