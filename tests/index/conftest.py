from __future__ import annotations

from pathlib import Path

import pytest

from tests.index.corpus import Corpus


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    """Return an empty workspace."""
    return Corpus(str(tmp_path / "workspace"))
