"""A fixture that serves the demo sites for a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lycosa.commands.demo.demo import DemoWeb, serve_demo_web


@pytest.fixture(scope="module")
def web() -> Iterator[DemoWeb]:
    with serve_demo_web() as running:
        yield running
