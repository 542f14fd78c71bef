"""The frontier over real tables, without fsync."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module", autouse=True)
def _no_fsync(quick: None) -> None:
    """No power cut is in sight (tests/trust has those)."""
