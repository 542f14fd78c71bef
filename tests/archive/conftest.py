from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Path of a WARC file that does not exist yet."""
    return tmp_path / "a.warc.gz"
