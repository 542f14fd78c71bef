"""Test vectors of the WHATWG URL standard (web-platform-tests)."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

FOLDER = (
    Path(
        os.environ.get("LYCOSA_TEST_DATA", Path(__file__).resolve().parents[3] / "shared" / "data")
    )
    / "whatwg-url"
)


def vectors(name: str) -> list[dict[str, Any]]:
    """Return the cases of a file without its comments.

    Skips the test if the data is absent.
    """
    path = FOLDER / name
    if not path.exists():
        pytest.skip(f"the URL standard's vectors are absent: {path}")
    return [case for case in json.loads(path.read_text(encoding="utf-8")) if isinstance(case, dict)]
