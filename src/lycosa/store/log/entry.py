"""Log entries: their fields, and their form on disk, one JSON object each."""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import xxhash

from lycosa.core.errors import NewerError, WorkspaceError

FOLDER = "log"
CLAIM, COMMIT, RELEASE, MERGE, EXCLUDE, PURGE = (
    "claim",
    "commit",
    "release",
    "merge",
    "exclude",
    "purge",
)
KINDS = frozenset({CLAIM, COMMIT, RELEASE, MERGE, EXCLUDE, PURGE})
"""The kinds of entry of workspace format 1, closed: a further kind is a further format.

A program refuses a log with a kind that it does not know, and must: one that passed over an
exclusion would publish what its operator had excluded. `exclude` and `purge` could still join
format 1 because no released program reads it; from the first release on a new kind, a new field or
a new way to delete moves FORMAT to 2, and the newer program migrates.
"""

_HIGHEST_PARTITION = 2**16 - 1


@dataclass(slots=True, frozen=True)
class DataFile:
    """A file that an entry makes count. `rows` is 0 for files without rows (WARC, CDXJ).

    `as_of` is the entry whose place its rows have; 0: the entry that names the file. A merge names
    the last entry that it folded.
    """

    path: str  # relative to the workspace
    rows: int
    bytes: int
    digest: str  # xxh3_128 of the file's bytes, hexadecimal
    as_of: int = 0


@dataclass(slots=True, frozen=True)
class Entry:
    """One log entry. `number` is its place; 0 while it has none. `claim` is the claim it was
    written under (a claim's own number).
    """

    kind: str
    attempt: str
    at: str  # ISO 8601, UTC
    number: int = 0
    claim: int = 0
    worker: str = ""
    partitions: tuple[int, ...] = ()  # claim: those taken
    files: Mapping[str, tuple[DataFile, ...]] = field(default_factory=dict)  # table -> files
    warcs: tuple[DataFile, ...] = ()
    indexes: tuple[DataFile, ...] = ()  # CDXJ beside the WARCs
    # paths of files that stop counting (a purge: WARCs and CDXJ too)
    replaces: tuple[str, ...] = ()
    orphans: tuple[str, ...] = ()  # WARCs of earlier claims whose exchanges are in this commit
    inbox: tuple[str, ...] = ()  # names of inbox files applied in this commit
    # partition -> entry up to which its found rows are applied
    applied: Mapping[int, int] = field(default_factory=dict)
    counters: Mapping[str, int] = field(default_factory=dict)  # increments
    # claim: collection -> the settings in force
    settings: Mapping[str, Any] = field(default_factory=dict)
    # exclude: rules (`lycosa.store.exclusion.exclusions`) that hold from now on
    exclusions: tuple[str, ...] = ()


def entry_path(number: int) -> str:
    """`log/00000042.json`."""
    return f"{FOLDER}/{number:08d}.json"


def at_ms(entry: Entry) -> int:
    """When an entry says that it was written, in milliseconds since 1970; 0 if it does not say. For
    deleting, never for order.
    """
    try:
        return round(datetime.fromisoformat(entry.at).timestamp() * 1000)
    except ValueError:
        return 0


def new_attempt() -> str:
    """An id by which a writer knows its own entry again."""
    return uuid.uuid4().hex


def encode_entry(entry: Entry) -> bytes:
    """An entry as JSON, `sealed`; empty fields are left out, partitions are written as ranges."""
    document: dict[str, Any] = {
        "kind": entry.kind,
        "number": entry.number,
        "attempt": entry.attempt,
        "claim": entry.claim,
        "at": entry.at,
        "worker": entry.worker,
        "partitions": ranges_of(entry.partitions),
        "files": {
            table: [_file_out(file) for file in files] for table, files in entry.files.items()
        },
        "warcs": [_file_out(file) for file in entry.warcs],
        "indexes": [_file_out(file) for file in entry.indexes],
        "replaces": list(entry.replaces),
        "orphans": list(entry.orphans),
        "inbox": list(entry.inbox),
        "applied": {str(partition): number for partition, number in entry.applied.items()},
        "counters": dict(entry.counters),
        "settings": dict(entry.settings),
        "exclusions": list(entry.exclusions),
    }
    kept = {
        key: value
        for key, value in document.items()
        if key in _REQUIRED or value not in ("", [], {})
    }
    return sealed(json.dumps(kept, ensure_ascii=False, separators=(",", ":")).encode())


def decode_entry(content: bytes, number: int) -> Entry:
    """The inverse of `encode_entry`.

    Raises:
        WorkspaceError: not JSON, an unknown kind or field, a missing or mistyped one, another
        number than its name says.
    """
    where = entry_path(number)
    try:
        document = json.loads(content.decode(), parse_constant=_no_number, parse_float=_number)
    except (ValueError, RecursionError):
        raise WorkspaceError(
            f"{where} is damaged: it is not JSON; restore it from a backup, or "
            "run `lycosa check` for details"
        ) from None
    if not isinstance(document, dict):
        raise WorkspaceError(f"{where} is damaged: it is not a JSON object; run `lycosa check`")
    if "digest" in document and content != sealed(content[: content.rfind(_SEAL)] + b"}"):
        raise WorkspaceError(
            f"{where} is damaged: its bytes have changed since it was written; "
            "restore it from a backup"
        )
    kind = str(document.get("kind"))
    unknown = sorted(set(document) - _FIELDS - {"digest"})
    if kind not in KINDS or unknown:
        what = f"the kind {kind!r}" if kind not in KINDS else f"the field {unknown[0]!r}"
        raise NewerError(
            f"{where} has {what}, which this version does not know: it was written by a newer "
            "version; upgrade with `pip install -U lycosa`"
        )
    try:
        entry = Entry(
            kind=kind,
            attempt=_text(document["attempt"]),
            at=_text(document["at"]),
            number=_integer(document["number"]),
            claim=_integer(document["claim"]),
            worker=_text(document.get("worker", "")),
            partitions=partitions_of(_list(document.get("partitions", []))),
            files={
                table: tuple(map(_file_in, _list(files)))
                for table, files in _object(document.get("files", {})).items()
            },
            warcs=tuple(map(_file_in, _list(document.get("warcs", [])))),
            indexes=tuple(map(_file_in, _list(document.get("indexes", [])))),
            replaces=tuple(map(_text, _list(document.get("replaces", [])))),
            orphans=tuple(map(_text, _list(document.get("orphans", [])))),
            inbox=tuple(map(_text, _list(document.get("inbox", [])))),
            applied={
                int(partition): _integer(number)
                for partition, number in _object(document.get("applied", {})).items()
            },
            counters={
                name: _integer(count)
                for name, count in _object(document.get("counters", {})).items()
            },
            settings=_object(document.get("settings", {})),
            exclusions=tuple(map(_text, _list(document.get("exclusions", [])))),
        )
        if b"\\u" in content:
            encode_entry(entry)  # half a surrogate pair is no text: no snapshot could hold it
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise WorkspaceError(
            f"{where} is damaged: {type(error).__name__}: {error}; run `lycosa check`"
        ) from None
    if entry.number != number:
        raise WorkspaceError(
            f"{where} contains entry {entry.number}: log files were renamed or "
            "copied; run `lycosa check`"
        )
    return entry


_SEAL = b',"digest":"'


def sealed(document: bytes) -> bytes:
    """An object of JSON with the xxh3_128 of itself as its last member, so that a changed byte is
    seen.
    """
    return b"".join((document[:-1], _SEAL, xxhash.xxh3_128_hexdigest(document).encode(), b'"}\n'))


_REQUIRED = frozenset({"kind", "number", "attempt", "claim", "at"})
_FIELDS = frozenset(Entry.__dataclass_fields__)


def _file_out(file: DataFile) -> dict[str, Any]:
    item: dict[str, Any] = {
        "path": file.path,
        "rows": file.rows,
        "bytes": file.bytes,
        "digest": file.digest,
    }
    return item | {"as_of": file.as_of} if file.as_of else item


def _file_in(item: dict[str, Any]) -> DataFile:
    return DataFile(
        _text(item["path"]),
        _integer(item["rows"]),
        _integer(item["bytes"]),
        _text(item["digest"]),
        _integer(item.get("as_of", 0)),
    )


def _number(text: str) -> float:
    return value if math.isfinite(value := float(text)) else _no_number(text)


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is not a JSON number")


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value


def _integer(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r} is not an integer")
    return value


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is not a list")
    return value


def _object(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{value!r} is not an object")
    return value


def partitions_of(ranges: list[list[int]]) -> tuple[int, ...]:
    """The inverse of `ranges_of`. Raises ValueError or TypeError on what it never wrote."""
    found: list[int] = []
    for first, last in ranges:
        if not 0 <= _integer(first) <= _integer(last) <= _HIGHEST_PARTITION:
            raise ValueError(f"{first} to {last} is not a range of partitions")
        found.extend(range(first, last + 1))
    return tuple(found)


def ranges_of(partitions: Iterable[int]) -> list[list[int]]:
    """Partitions as ranges [first, last], in order."""
    ranges: list[list[int]] = []
    for partition in sorted(partitions):
        if ranges and ranges[-1][1] == partition - 1:
            ranges[-1][1] = partition
        else:
            ranges.append([partition, partition])
    return ranges
