"""Results that all pytest workers share."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest


def created_once(
    factory: pytest.TempPathFactory, name: str, create: Callable[[Path], object]
) -> Path:
    """Return a file or folder of this test run; the first worker that needs it creates it."""
    base = factory.getbasetemp()
    path = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            partial = path.with_suffix(".partial")
            create(partial)
            partial.rename(path)
    return path
