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
