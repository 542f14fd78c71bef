"""Builds the rivals that are programs of Go and Rust, once for each state of their sources, outside
the repository.

The sources lie beside this file, with the versions of everything they use written down; the
libraries come from the languages' registries. Spider takes some twenty minutes of CPU, colly one.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

SOURCES = Path(__file__).resolve().parent
CACHE = Path.home() / ".cache" / "lycosa-rivals"
BUILD_LIMIT_S = 5400.0

_PROGRAMS = {"colly": "go", "spider": "cargo"}


class RivalAbsent(Exception):
    """A program that a run needs is not there."""


def built(name: str) -> Path:
    """The program of a rival; builds it when its sources changed. Safe to call from several
    processes at once.

    Raises:
        RivalAbsent: the compiler is not installed, or the build fails (its libraries cannot be
        fetched); the message says which.
    """
    compiler = _PROGRAMS[name]
    program = CACHE / f"{name}-{_digest(SOURCES / name)}"
    if program.exists():
        return program
    if shutil.which(compiler) is None:
        raise RivalAbsent(f"{name} cannot be built: {compiler} is not installed")
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            print(f"building {name} into {CACHE}", file=sys.stderr)
            _build(name, program)
    return program


def _build(name: str, program: Path) -> None:
    target = CACHE / f"{name}-target"
    made = target / "release" / "lycosa-bench-spider" if name == "spider" else target / "colly"
    command = (
        ["cargo", "build", "--release", "--locked"]
        if name == "spider"
        else ["go", "build", "-o", str(made), "."]
    )
    environment = {**os.environ, "CARGO_TARGET_DIR": str(target)}
    try:
        result = subprocess.run(
            command,
            cwd=SOURCES / name,
            env=environment,
            capture_output=True,
            text=True,
            timeout=BUILD_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise RivalAbsent(
            f"{name} was not built within {BUILD_LIMIT_S:.0f} s; {target} keeps what was compiled"
        ) from error
    if result.returncode:
        raise RivalAbsent(
            f"{name} cannot be built: {' '.join(command)} ended with "
            f"{result.returncode}:\n{result.stderr[-2000:]}"
        )
    for old in CACHE.glob(f"{name}-{'?' * 16}"):
        old.unlink()
    shutil.copy2(made, program.with_suffix(".part"))
    program.with_suffix(".part").rename(program)


def _digest(folder: Path) -> str:
    """A name for the state of the sources: 16 hexadecimal digits."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]
