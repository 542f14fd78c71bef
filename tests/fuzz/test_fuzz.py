"""Run all fuzz targets with hundreds of inputs.

`make prove` uses a million inputs for each.
"""

from __future__ import annotations

import os

import pytest

from tests.fuzz.mutate import run_inputs
from tests.fuzz.targets import TARGETS

QUICK_INPUTS = {"html": 200, "documents": 60}
INPUTS = int(os.environ.get("LYCOSA_FUZZ_INPUTS", "1000000"))
FIRST = int(os.environ.get("LYCOSA_FUZZ_FIRST", "0"))


@pytest.mark.proves("isolation-any-input")
@pytest.mark.parametrize("name", TARGETS)
def test_targets_accept_mutated_inputs(name: str) -> None:
    run_inputs(name, range(QUICK_INPUTS.get(name, 400)))


@pytest.mark.proves("isolation-any-input")
@pytest.mark.prove
@pytest.mark.parametrize("name", TARGETS)
def test_targets_accept_a_million_mutated_inputs(name: str) -> None:
    run_inputs(name, range(FIRST, FIRST + INPUTS))
