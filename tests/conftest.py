"""Settings and fixtures of all tests.

Examples of hypothesis have no deadline, because their duration depends on the load of the machine.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Generator, Iterator

import pytest
from hypothesis import settings

settings.register_profile("lycosa", deadline=None)
settings.load_profile("lycosa")


@pytest.fixture(scope="module", autouse=True)
def _no_fsync(request: pytest.FixtureRequest) -> Iterator[None]:
    """Disable fsync, which takes most of the time of small commits. tests/trust covers power cuts."""
    with pytest.MonkeyPatch.context() as patch:
        if request.path.parent.name != "trust":
            patch.setattr(os, "fsync", lambda _: None)
        yield


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start with files that have slow tests, so that the workers end at about the same time."""
    slow = {item.path for item in items if item.get_closest_marker("slow") is not None}
    items.sort(key=lambda item: item.path not in slow)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exclude collected tests from garbage collection: crawls in this process call it often."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
