"""The engines under test: child processes, and a real Ray cluster on loopback."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lycosa.cluster.engine import Engine
from lycosa.cluster.engines.local import LocalEngine
from tests.engines.clusters import ray_cluster


@pytest.fixture(scope="module", params=["local", "ray"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    if request.param == "local":
        with LocalEngine(2) as local:
            yield local
        return
    with ray_cluster(nodes=2) as cluster, cluster.engine() as ray_engine:
        yield ray_engine
