"""Fixtures: a new workspace, a claim of a worker, and a clock."""

from __future__ import annotations

from pathlib import Path

import pytest

from lycosa.store.log.claim import Claim
from lycosa.store.workspace import Workspace
from tests.store.locations import locations, storage
from tests.waiting import ManualClock

__all__ = ["locations", "storage"]


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace.create(str(tmp_path / "w"), partitions=8)


@pytest.fixture
def claim(workspace: Workspace) -> Claim:
    """A claim of all partitions by the worker `w`."""
    return workspace.claim("w")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()
