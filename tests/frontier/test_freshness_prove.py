"""Freshness in simulation reaches its bars on several webs: run by `make prove`. The judge of the
bars is tested always.
"""

from __future__ import annotations

import pytest
from bench.freshness import FLOORS, Result, below_floors, run

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


def _result(policy: str, freshness: float, fetches: float = 1_000.0) -> Result:
    return Result(policy, 1, 1_000, fetches, freshness, freshness, 1.0)


def test_the_judge_of_the_bars() -> None:
    good = [_result("fresh", 0.99), _result("learned", 0.93), _result("uniform", 0.6)]
    assert below_floors(good, FLOORS) == []
    assert len(below_floors([_result("fresh", 0.97), *good[1:]], FLOORS)) == 1
    assert len(below_floors([good[0], _result("learned", 0.89), good[2]], FLOORS)) == 1
    # better than what was learned
    assert len(below_floors([*good, _result("adaptive", 0.95)], FLOORS)) == 1
    assert len(below_floors([_result("fresh", 0.99, fetches=1_002.0), *good[1:]], FLOORS)) == 1
    assert len(below_floors(good[1:], FLOORS)) == 1  # not run
    assert below_floors([_result("claims", 0.5), *good], FLOORS) == []
