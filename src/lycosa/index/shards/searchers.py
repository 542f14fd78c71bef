"""Opening what was indexed, for searches: one generation, or the shards of one as a single
index.
"""

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
    """A searcher of all that these folders of generations hold. They need not be writable. Raises
    ValueError, OSError.
    """
    if len(paths) == 1 and os.access(paths[0], os.W_OK):
        return _open(paths[0])
    return _open_together(paths)  # tantivy makes a lock file where it opens an index


def _open(path: Path) -> tuple[tantivy.Schema, tantivy.Searcher]:
    index = tantivy.Index.open(str(path))
    index.reload()
    return index.schema, index.searcher()


def _open_together(paths: Sequence[Path]) -> tuple[tantivy.Schema, tantivy.Searcher]:
    """One index of all segments: links to their files, and one list of them. tantivy maps the files
    when it opens them.
    """
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
    """A thread of tantivy looks at what it has opened once more within a second, and makes a lock
    file there while it does.
    """
    for _ in range(_MAX_REMOVALS):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.01)
