"""The disk is full, fails, or says that it failed, at any operation of a commit, an index
generation, a merge, a purge, a sweep.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from lycosa.core.errors import LycosaError
from lycosa.store.verify.check import verify
from lycosa.store.workspace import Workspace
from tests.trust.faults import Fault, Faults
from tests.trust.scenario import goes_on, live, new_life, survives

SEED = 20261122


def fail(young: str, root: Path, fault: Fault, at: int) -> Faults:
    """Live with one fault. Whatever had been promised stands, and the next run ends the work."""
    shutil.copytree(young, root)
    workspace = Workspace.open(str(root))
    life, faults = new_life(workspace), Faults(fault, at)
    error: Exception | None = None
    try:
        live(workspace, life, faults)
    except (OSError, LycosaError) as failure:
        error = failure
    life.note(workspace)
    why = f"{fault.value}, call {at}: {faults.happened} gave {error!r}"
    if fault is Fault.SHORT:
        assert error is None, why
    survives(life, root, faults.promised, why)
    shutil.rmtree(root)
    return faults


def test_a_disk_that_fails_once_loses_nothing(young: str, tmp_path: Path) -> None:
    at = random.Random(SEED).randint(1, 400)
    assert fail(young, tmp_path / "w", Fault.UNANSWERED, at).happened


@pytest.mark.prove
@pytest.mark.parametrize("fault", list(Fault), ids=lambda fault: fault.name.lower())
def test_a_disk_that_fails_at_any_call_loses_nothing(
    young: str, tmp_path: Path, fault: Fault
) -> None:
    stride = int(os.environ.get("LYCOSA_FAULT_STRIDE", "1"))
    at = 1
    while (faults := fail(young, tmp_path / "w", fault, at)).happened:
        at += stride
    print(f"{(at - 1) // stride} faults of {faults.calls} calls")
    assert at > 9


# A file that may not grow beyond so many bytes fails as on a full disk, whoever writes it: tables
# and index are not written by Python.
SCRIPT = """
    import resource, signal, sys
    from lycosa.store.workspace import Workspace
    from tests.trust.faults import Fault, Faults
    from tests.trust.scenario import live, new_life

    workspace = Workspace.open(sys.argv[1])
    life = new_life(workspace)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
    try:
        live(workspace, life, Faults(Fault.FULL, 0))
    except Exception as error:
        print(type(error).__name__, error)
"""


@pytest.mark.prove
@pytest.mark.parametrize(
    "limit", [100, 300, 600, 1_000, 2_000, 3_000, 4_500, 6_500, 9_000, 13_000, 20_000]
)
def test_files_that_may_not_grow_lose_nothing(young: str, tmp_path: Path, limit: int) -> None:
    shutil.copytree(young, tmp_path / "w")
    workspace = Workspace.open(str(tmp_path / "w"))
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT), workspace.root, str(limit)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    why = f"no file may have more than {limit} bytes: {output}"
    report = verify(workspace, deep=True)
    assert report.ok, f"{why}: {report.findings}"
    goes_on(workspace, why)
