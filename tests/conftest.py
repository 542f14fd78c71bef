"""For all tests: no example of hypothesis has a deadline, for how long one takes says more of the
machine's load than of us. And storage without fsync.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

settings.register_profile("lycosa", deadline=None)
settings.load_profile("lycosa")


@pytest.fixture(scope="module")
def quick() -> Iterator[None]:
    """No fsync: many small commits, and no power cut in sight."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start with the files that have slow tests, so that the workers end at about the same time."""
    slow = {item.path for item in items if item.get_closest_marker("slow") is not None}
    items.sort(key=lambda item: item.path not in slow)
