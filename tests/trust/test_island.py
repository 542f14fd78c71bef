"""Tests that need a network of their own: see island.py."""

from __future__ import annotations

import pytest

from tests.trust.island import ashore


def test_no_name_and_no_site_leads_inside() -> None:
    """Name servers that lie (island_names.py), and every way into private space
    (island_guard.py).
    """
    ashore("--durations=5")


@pytest.mark.prove
def test_what_takes_longer() -> None:
    ashore("-m", "prove")
