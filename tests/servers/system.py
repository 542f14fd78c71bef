"""Require system programs: a test is skipped, or fails in CI, if one is missing."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest

REQUIRE = "LYCOSA_REQUIRE_SYSTEM"
"""Environment variable: with the value 1, a missing program or file fails the test (CI)."""

_SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")


def require_program(name: str) -> str:
    """Return the path of a program, or skip the test (fail with LYCOSA_REQUIRE_SYSTEM=1)."""
    path = shutil.which(name) or shutil.which(name, path=os.pathsep.join(_SYSTEM_FOLDERS))
    if path is None:
        _skip_or_fail(f"the program {name!r} is not installed")
    return path


def require_file(path: str, package: str) -> Path:
    """Return the path of a file, or skip the test like `require_program`.

    Args:
        package: the system package that contains the file, for the message.
    """
    if not Path(path).exists():
        _skip_or_fail(f"{path} is missing (package {package})")
    return Path(path)


def _skip_or_fail(message: str) -> NoReturn:
    if os.environ.get(REQUIRE) == "1":
        pytest.fail(f"{message}, but {REQUIRE}=1 requires it")
    pytest.skip(message)
