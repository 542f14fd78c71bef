"""Programs of the system that tests drive: found, or the test is skipped by name, never silently
passed.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

REQUIRE = "LYCOSA_REQUIRE_SYSTEM"
"""Set to 1 where every program must be there (CI): a missing one then fails the test."""

_SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")


def require_program(name: str) -> str:
    """The path of a program. Without it: `pytest.skip` naming it, or `pytest.fail` when
    LYCOSA_REQUIRE_SYSTEM=1.
    """
    path = shutil.which(name) or shutil.which(name, path=os.pathsep.join(_SYSTEM_FOLDERS))
    if path is None:
        message = f"the program {name!r} is not installed"
        if os.environ.get(REQUIRE) == "1":
            pytest.fail(f"{message}, and {REQUIRE}=1 says that it must be")
        pytest.skip(message)
    return path


def require_file(path: str, package: str) -> Path:
    """A file that a package of the system brings; without it as `require_program`."""
    if not Path(path).exists():
        message = f"{path} is not there (package {package})"
        if os.environ.get(REQUIRE) == "1":
            pytest.fail(f"{message}, and {REQUIRE}=1 says that it must be")
        pytest.skip(message)
    return Path(path)
