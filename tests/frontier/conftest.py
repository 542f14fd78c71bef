"""Fixture of the frontier tests: real tables, without fsync."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module", autouse=True)
def _no_fsync(no_fsync: None) -> None:
    """Skip fsync; power cuts are tested in tests/trust."""
