"""Our package as it travels to the nodes of a cluster: with its byte code, or every worker there
would compile it first (.3 CPU-s each).
"""

from __future__ import annotations

import compileall
import hashlib
import os
import shutil
import sys
import tempfile
from pathlib import Path
from py_compile import PycInvalidationMode

from lycosa.store.storage.cache import cache_root

_FOLDER = "code"
_KEPT = 4
_BYTE_CODE = "__pycache__"


def ready_to_ship(package: Path) -> Path:
    """A copy of the package, in the user's cache, whose byte code holds wherever it is unpacked
    (PEP 552, unchecked: the folder is named by what it was compiled from). The package itself where
    the cache cannot be written.
    """
    try:
        files = {
            path.relative_to(package): path.read_bytes()
            for path in sorted(package.rglob("*"))
            if _travels(path)
        }
        digest = hashlib.sha256(repr((sys.version, sys.implementation.cache_tag)).encode())
        for path, content in files.items():
            digest.update(f"{path}\0{len(content)}\0".encode() + content)
        folder = cache_root() / _FOLDER / digest.hexdigest()[:24]
        if not folder.exists():
            _build(folder, package.name, files)
        return folder / package.name
    except OSError:
        return package


def _travels(path: Path) -> bool:
    return path.is_file() and _BYTE_CODE not in path.parts


def _build(folder: Path, name: str, files: dict[Path, bytes]) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    _forget_old(folder.parent)
    aside = Path(tempfile.mkdtemp(prefix=".aside-", dir=folder.parent))
    try:
        for path, content in files.items():
            target = aside / name / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        compileall.compile_dir(
            str(aside / name), quiet=2, invalidation_mode=PycInvalidationMode.UNCHECKED_HASH
        )
        os.rename(aside, folder)
    except OSError:
        if not folder.exists():  # else somebody else was first
            raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _forget_old(parent: Path) -> None:
    """All but the newest few, and what a killed process left."""
    newest_first = sorted(parent.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in newest_first[_KEPT:]:
        shutil.rmtree(path, ignore_errors=True)
