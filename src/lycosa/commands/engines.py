"""Execution engines by name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lycosa.config.settings import Config
from lycosa.core.errors import UsageError

if TYPE_CHECKING:
    from lycosa.cluster.engine import Engine


@contextmanager
def open_engine(name: str, address: str, config: Config) -> Iterator[Engine]:
    """Open the engine `local` or `ray`, and close it at the end.

    Raises:
        UsageError: the name is unknown, the address is not that of a Ray cluster, or the engine's
            packages are not installed.
        WorkError: the cluster cannot be joined.
    """
    engine = _engine(name, address, config)
    try:
        yield engine
    finally:
        engine.close()


def is_shared(engine: str, address: str, workers: int | None) -> bool:
    """Return whether a coordinator is needed: for a cluster, or several workers.

    Raises:
        UsageError: the engine is unknown, or the address or the number of workers is wrong.
    """
    _check(engine, address)
    if workers is not None and workers < 1:
        raise UsageError(f"--workers {workers}: at least one is needed")
    return engine == "ray" or (workers or 1) > 1


def _check(engine: str, address: str) -> None:
    if engine not in ("", "local", "ray"):
        raise UsageError(f"--engine {engine!r}: choose local or ray")
    if address and engine != "ray":
        raise UsageError("--address names a Ray cluster: add --engine ray")


def _engine(name: str, address: str, config: Config) -> Engine:
    _check(name, address)
    if name != "ray":
        from lycosa.cluster.engines.local import LocalEngine

        return LocalEngine()
    try:
        from lycosa.cluster.engines.ray import RayEngine
    except ImportError as error:
        raise UsageError(
            f"--engine ray needs packages that are not installed ({error.name}): pip "
            "install 'lycosa[ray]'"
        ) from None
    return RayEngine(address, install=config.cluster.install)
