"""Install the peers outside of the repository, once for each state of their files.

A folder next to this file pins all packages of a peer with checksums; they come from the registries
of Go, Rust, Python and Maven. Nutch also needs a clone of its repository, because its plug-ins are
in no registry. Spider takes twenty minutes of CPU, the others about one.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

SOURCES = Path(__file__).resolve().parent
CACHE = Path.home() / ".cache" / "lycosa-peers"
BUILD_LIMIT_S = 5400.0


class PeerAbsent(Exception):
    """A program that a run needs is missing."""


@dataclass(frozen=True)
class _Recipe:
    """How a peer is installed into the folder {target}."""

    command: tuple[str, ...]
    product: str  # path in that folder that `built` returns
    checksum: str = ""  # of the product, if its files pin only versions


_VENV = _Recipe(
    (
        "sh",
        "-c",
        f"{sys.executable} -m venv {{target}} && {{target}}/bin/python -m pip -q "
        "--disable-pip-version-check install --only-binary :all: --require-hashes -r "
        "requirements.lock",
    ),
    "bin/python",
)


_RECIPES = {
    "colly": _Recipe(("go", "build", "-o", "{target}/colly", "."), "colly"),
    "spider": _Recipe(
        ("cargo", "install", "--locked", "--path", ".", "--root", "{target}"),
        "bin/lycosa-bench-spider",
    ),
    "assembled": _VENV,
    "crawlee": _VENV,
    "crawl4ai": _VENV,
    "bubing": _Recipe(
        (
            *("sh", "-c"),
            "mvn -q -B -Dbuild={target}/maven dependency:copy-dependencies "
            "-DincludeScope=runtime -DoutputDirectory={target}/lib && "
            "javac -cp '{target}/lib/*' -d {target}/classes UntilEmpty.java",
        ),
        "lib",
        "3d35fd3c0ce11f23",
    ),
    "stormcrawler": _Recipe(
        (
            *("mvn", "-q", "-B", "-Dbuild={target}/maven"),
            *("dependency:copy-dependencies", "-DoutputDirectory={target}/lib"),
        ),
        "lib",
        "304f37e18d8ff6c9",
    ),
    "heritrix": _Recipe(
        (
            *("mvn", "-q", "-B", "-Dbuild={target}/maven"),
            *("dependency:unpack-dependencies", "-DoutputDirectory={target}/lib"),
        ),
        "lib",
        "564de279b7288f1a",
    ),
    "nutch": _Recipe((sys.executable, "install.py", "{target}"), "packages", "62a8a043f9603f42"),
}


def built(name: str) -> Path:
    """Return the program or folder of a peer; install it when its files changed.

    Several processes may call this at once.

    Raises:
        PeerAbsent: a tool is not installed, or the installation failed.
    """
    recipe = _RECIPES[name]
    folder = CACHE / f"{name}-{_digest(SOURCES / name)}"
    if not folder.exists():
        tool = recipe.command[0]
        if shutil.which(tool) is None:
            raise PeerAbsent(f"{name} cannot be installed: {tool} is not installed")
        CACHE.mkdir(parents=True, exist_ok=True)
        with (CACHE / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.exists():
                print(f"installing {name} into {CACHE}", file=sys.stderr)
                _install(name, recipe, folder)
    return folder / recipe.product


def _install(name: str, recipe: _Recipe, folder: Path) -> None:
    target = CACHE / f"{name}-new"
    shutil.rmtree(target, ignore_errors=True)
    command = [part.format(target=target) for part in recipe.command]
    try:
        result = subprocess.run(
            command,
            cwd=SOURCES / name,
            env={**os.environ, "CARGO_TARGET_DIR": str(CACHE / f"{name}-cargo")},
            capture_output=True,
            text=True,
            timeout=BUILD_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise PeerAbsent(f"{name} was not installed within {BUILD_LIMIT_S:.0f} s") from error
    if result.returncode:
        raise PeerAbsent(
            f"{name} cannot be installed: {' '.join(command)} ended with "
            f"{result.returncode}:\n{(result.stdout + result.stderr)[-2000:]}"
        )
    if recipe.checksum and recipe.checksum != (actual := _digest(target / recipe.product)):
        raise PeerAbsent(f"{name}: the checksum of {target} is {actual}, not {recipe.checksum}")
    for old in CACHE.glob(f"{name}-{'?' * 16}"):
        shutil.rmtree(old)
    target.rename(folder)


def _digest(folder: Path) -> str:
    """Return a digest of the files of a folder: 16 hexadecimal digits."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]
