"""Each part that reads strangers' bytes keeps its promises for bytes made up at random: hundreds
here, a million each in `make prove`.
"""

from __future__ import annotations

import os

import pytest

from tests.fuzz.mutate import attack
from tests.fuzz.targets import TARGETS

FEW = {"html": 200, "documents": 60}
MANY = int(os.environ.get("LYCOSA_FUZZ_INPUTS", "1000000"))
FIRST = int(os.environ.get("LYCOSA_FUZZ_FIRST", "0"))


@pytest.mark.proves("isolation-any-input")
@pytest.mark.parametrize("name", TARGETS)
def test_made_up_inputs(name: str) -> None:
    attack(name, range(FEW.get(name, 400)))


@pytest.mark.proves("isolation-any-input")
@pytest.mark.prove
@pytest.mark.parametrize("name", TARGETS)
def test_a_million_made_up_inputs(name: str) -> None:
    attack(name, range(FIRST, FIRST + MANY))
