"""Shared fixtures."""

from __future__ import annotations

import pytest

from tests.trust.scenario import make_workspace


@pytest.fixture(scope="session")
def initial_workspace(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the path of a workspace before the scenario. Tests copy it."""
    return make_workspace(str(tmp_path_factory.mktemp("initial") / "w")).root
