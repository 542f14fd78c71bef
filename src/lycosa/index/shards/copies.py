"""Copies of generations of a shard on the local disk of a replica.

    COPIES/00000007/     all files of the generation; renamed to this name when complete

Files that a generation shares with the previous one have the same name and are linked.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from lycosa.index.generation import BUILD_PREFIX, INFO, Generation
from lycosa.store.storage.staging import LIST

# files with the same name and different content in each generation
_REWRITTEN = frozenset({"meta.json", INFO, LIST})


def local_copy(generation: Generation, copies: Path) -> Generation:
    """Copy a generation to this disk. Raises OSError if it is removed, or the disk is full."""
    target = copies / generation.path.name
    if target.is_dir():
        if (target / INFO).read_bytes() == (generation.path / INFO).read_bytes():
            return Generation(target, generation.info)
        shutil.rmtree(target)  # of an earlier index that was deleted
    copies.mkdir(parents=True, exist_ok=True)
    before = [path for path in copies.iterdir() if not path.name.startswith(BUILD_PREFIX)]
    build = Path(tempfile.mkdtemp(prefix=BUILD_PREFIX, dir=copies))
    try:
        for source in generation.path.iterdir():
            if source.name.startswith("."):
                continue
            _fetch(source, build / source.name, [path / source.name for path in before])
        os.rename(build, target)
    except FileExistsError:  # another replica on this machine was faster
        shutil.rmtree(build)
    except OSError as error:
        shutil.rmtree(build)
        if not target.is_dir():
            raise error
    return Generation(target, generation.info)


def remove_copies(copies: Path, number: int) -> None:
    """Remove the copies of older generations; open files stay readable."""
    for path in copies.iterdir():
        if path.name.isdigit() and int(path.name) < number:
            shutil.rmtree(path, ignore_errors=True)  # another replica may remove it too


def _fetch(source: Path, target: Path, before: list[Path]) -> None:
    if source.name not in _REWRITTEN:
        for path in before:
            if path.is_file() and path.stat().st_size == source.stat().st_size:
                os.link(path, target)
                return
    shutil.copyfile(source, target)
