"""Open a generation, or the generations of several shards as one index, for searching."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tantivy

from lycosa.index.generation import INFO

META = "meta.json"
_MAX_REMOVALS = 20


def open_searcher(paths: Sequence[Path]) -> tuple[tantivy.Schema, tantivy.Searcher]:
    """Return a searcher of the generations in these folders, which may be read-only.

    Raises:
        ValueError, OSError: one cannot be opened.
    """
    if len(paths) == 1 and os.access(paths[0], os.W_OK):
        return _open(paths[0])
    return _open_together(paths)  # tantivy creates a lock file in the folder that it opens


def _open(path: Path) -> tuple[tantivy.Schema, tantivy.Searcher]:
    index = tantivy.Index.open(str(path))
    index.reload()
    return index.schema, index.searcher()


def _open_together(paths: Sequence[Path]) -> tuple[tantivy.Schema, tantivy.Searcher]:
    """Open one index of all segments, in a temporary folder of links. tantivy maps the files."""
    documents: list[dict[str, Any]] = [json.loads((path / META).read_bytes()) for path in paths]
    folder = Path(tempfile.mkdtemp(prefix="lycosa-shards-"))
    try:
        segments = []
        for path, document in zip(paths, documents, strict=True):
            segments += document["segments"]
            for name in os.listdir(path):
                if "." in name and not name.startswith(".") and name not in (META, INFO):
                    os.symlink(path.absolute() / name, folder / name)
        together: Mapping[str, Any] = documents[0] | {
            "segments": segments,
            "opstamp": max(document["opstamp"] for document in documents),
        }
        (folder / META).write_text(json.dumps(together))
        return _open(folder)
    finally:
        _remove(folder)


def _remove(folder: Path) -> None:
    """Remove a folder in which a thread of tantivy may create a lock file within a second."""
    for _ in range(_MAX_REMOVALS):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.01)
