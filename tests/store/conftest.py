from __future__ import annotations

from pathlib import Path

import pytest

from lycosa.store.workspace import Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace.create(str(tmp_path / "w"), partitions=8)
