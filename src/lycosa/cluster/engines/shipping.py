"""Requirements of a node.

This package is sent with the job; its dependencies are present on the node or are installed there.

Runs on bare nodes, before anything is installed: it imports nothing but the standard library.
(Ray's own `pip` environments need `virtualenv` on nodes with Python in a virtual environment; these
need pip alone.)
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path

from lycosa.core.errors import WorkError

AUTO, ALWAYS, NEVER = "auto", "always", "never"
DISTRIBUTION = "lycosa"
EXTRAS = ("s3", "hdfs")
"""Extras for nodes, if installed on the driver: the workspace may need them."""

_NAME = re.compile(r"^[A-Za-z0-9._-]+")
_EXTRA = re.compile(r"""extra\s*==\s*["']([^"']+)["']""")


def requirements() -> list[str]:
    """Return the requirements of this package as `name==version`, sorted.

    The versions are those that are installed here.
    """
    pinned = set()
    for line in metadata.requires(DISTRIBUTION) or ():
        extra = _EXTRA.search(line)
        if extra is not None and extra[1] not in EXTRAS:
            continue
        name = _NAME.match(line)
        if name is None or name[0] == DISTRIBUTION:
            continue
        version = installed(name[0])
        if version:
            pinned.add(f"{name[0]}=={version}")
    return sorted(pinned)


def missing(requirements: Iterable[str]) -> list[str]:
    """Return the requirements (`name==version`) with no installed version."""
    return [each for each in requirements if not installed(each.partition("==")[0])]


def provide(requirements: Sequence[str], how: str) -> None:
    """Ensure that this process can import the requirements.

    `how`: AUTO installs only missing packages. They are installed in the user's cache on this
    machine, once per list and Python. In the import path they follow the node's own packages; with
    ALWAYS they precede them. Child processes use them too.

    Raises:
        WorkError: it cannot be installed.
    """
    if how == NEVER or (how == AUTO and not missing(requirements)):
        return
    folder = _folder(requirements)
    _install(requirements, folder)
    if str(folder) in sys.path:
        return
    before = os.environ.get("PYTHONPATH", "")
    if how == ALWAYS:
        sys.path.insert(0, str(folder))
    else:
        sys.path.append(str(folder))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (before, str(folder))))
    importlib.invalidate_caches()


def _folder(requirements: Sequence[str]) -> Path:
    text = "\n".join((*sorted(requirements), sys.version, sys.prefix))
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(cache, "lycosa", "packages", hashlib.sha256(text.encode()).hexdigest()[:16])


def _install(requirements: Sequence[str], folder: Path) -> None:
    """Install requirements in a folder, unless they are there already.

    Several processes may call this at once.
    """
    done = folder / "installed"
    if done.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if done.exists():
            return
        command = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--upgrade",
            "--target",
            str(folder),
        ]
        called = subprocess.run(
            [*command, *requirements], capture_output=True, text=True, check=False
        )
        if called.returncode:
            raise WorkError(
                "the packages that Lycosa needs cannot be installed on this node: "
                f"{called.stderr.strip()[-500:]}; "
                "install lycosa there manually, or fix pip, and set cluster.install"
            )
        done.touch()


def installed(name: str) -> str:
    """Return the installed version; "" if there is none."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""
