"""Records of what translation tables were trained from, so that unchanged tables are reused.

training.json   format, and for each language: a digest of its input, and the result

A table is a function of the pairs of pages, their texts, and the program. All three are in one
digest. A table is reused only if all its pages still exist with the same text, so that no table
contains purged or excluded pages.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import polars as pl
from xxhash import xxh3_64_intdigest, xxh3_128

from lycosa.store.tables.live import LiveTables
from lycosa.text.analyze import Analysis
from lycosa.translation.parallel_pages import ParallelPages, texts, wanted_keys
from lycosa.translation.table import FORMAT, analyzers
from lycosa.translation.word_alignment import LEARNER_VERSION

RECORDS = "training.json"
_FORMAT = 1
_BLOCK = 1 << 20


@dataclass(slots=True, frozen=True)
class TrainingRecord:
    """Digests of the input and of the table's file ("": too little text), and the counts."""

    source: str
    table: str
    pages: int
    sentences: int
    pairs: int


def sources(tables: LiveTables, parallel: ParallelPages, analysis: Analysis) -> dict[str, str]:
    """Return for each language the digest of its input: pairs, texts, analyzers, learner, format.
    Memory: 100 bytes a page.

    Raises:
        FileNotFoundError: a table's file went away: refresh the tables and try again.
    """
    digests = {
        (host, url): xxh3_64_intdigest(text.encode("utf-8", "replace"))
        for host, url, text in texts(tables, wanted_keys(parallel.pairs))
    }
    found = {}
    for (language,), pairs in parallel.pairs.group_by("language"):
        made_by = (
            FORMAT,
            LEARNER_VERSION,
            parallel.hub,
            *analyzers(parallel.hub, str(language), analysis),
        )
        digest = xxh3_128(json.dumps(made_by).encode())
        for host, url, _, hub_host, hub_url in pairs.sort(pl.all()).iter_rows():
            row = (
                host,
                url,
                hub_host,
                hub_url,
                digests.get((host, url), 0),
                digests.get((hub_host, hub_url), 0),
            )
            digest.update(b"".join(number.to_bytes(8, "little") for number in row))
        found[str(language)] = digest.hexdigest()
    return found


def read_training_records(folder: Path | None) -> dict[str, TrainingRecord]:
    """Return the records of a generation by language; none if they cannot be read."""
    if folder is None:
        return {}
    try:
        document: dict[str, Any] = json.loads((folder / RECORDS).read_bytes())
        return (
            {
                language: TrainingRecord(**values)
                for language, values in document["languages"].items()
            }
            if document["format"] == _FORMAT
            else {}
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def write_training_records(folder: Path, found: Mapping[str, TrainingRecord]) -> None:
    document = {
        "format": _FORMAT,
        "languages": {language: asdict(lesson) for language, lesson in sorted(found.items())},
    }
    (folder / RECORDS).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def reuse_table(source: Path, target: Path, lesson: TrainingRecord) -> bool:
    """Copy a table of the previous generation; return False if it is missing or damaged."""
    try:
        shutil.copyfile(source, target)
    except OSError:
        return False
    if file_digest(target) == lesson.table:
        return True
    target.unlink()
    return False


def file_digest(path: Path) -> str:
    """xxh3_128 of a file's bytes."""
    digest = xxh3_128(b"")
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
