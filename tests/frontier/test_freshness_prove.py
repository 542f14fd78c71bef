"""Freshness in simulation reaches its bars on several webs: run by `make prove`."""

from __future__ import annotations

import pytest
from bench.freshness import FLOORS, below_floors, run

RIVALS = ("uniform", "proportional", "adaptive")


@pytest.mark.prove
@pytest.mark.parametrize("budget", [1_000, 5_000])
@pytest.mark.parametrize("seed", [11, 12])  # webs that no constant was chosen on
def test_close_to_the_optimum_and_better_than_simple_rules(seed: int, budget: int) -> None:
    results = [run(policy, seed, budget) for policy in ("fresh", "learned", *RIVALS)]
    assert below_floors(results, FLOORS) == []


@pytest.mark.prove
def test_claims_of_changes_are_worth_listening_to() -> None:
    learned, claims = (run(policy, 11, 1_000) for policy in ("learned", "claims"))
    assert claims.share > learned.share
