"""Shared fixtures."""

from __future__ import annotations

import pytest

from tests.trust.scenario import begin


@pytest.fixture(scope="session")
def young(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of a workspace at the start of the scenario; tests copy it."""
    return begin(str(tmp_path_factory.mktemp("young") / "w")).root
