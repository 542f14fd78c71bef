"""Log entries: their fields, and their JSON form."""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import field
from datetime import datetime
from typing import Any, TypeVar

import xxhash

from lycosa.core.dataclass import dataclass
from lycosa.core.errors import NewerError, WorkspaceError
from lycosa.store.storage.files import DataFile

FOLDER = "log"
CLAIM, COMMIT, RELEASE = "claim", "commit", "release"
MERGE, EXCLUDE, PURGE = "merge", "exclude", "purge"
KINDS = frozenset({CLAIM, COMMIT, RELEASE, MERGE, EXCLUDE, PURGE})
"""The kinds of entry of workspace format 1. A new kind or field requires a new format.

Unknown kinds are refused: a program that ignored an exclusion would publish excluded pages.
"""

_HIGHEST_PARTITION = 2**16 - 1
_Type = TypeVar("_Type")


@dataclass(slots=True, frozen=True)
class Entry:
    """One log entry. `number` is 0 for a draft. `claim` is the claim under which it was written."""

    kind: str
    attempt: str
    at: str  # ISO 8601, UTC
    number: int = 0
    claim: int = 0
    worker: str = ""
    partitions: tuple[int, ...] = ()  # claim: those acquired
    files: Mapping[str, tuple[DataFile, ...]] = field(default_factory=dict)  # table -> files
    warcs: tuple[DataFile, ...] = ()
    indexes: tuple[DataFile, ...] = ()  # CDXJ files of the WARC files
    # paths of files that are no longer live (a purge: WARC and CDXJ files too)
    replaces: tuple[str, ...] = ()
    orphans: tuple[str, ...] = ()  # WARC files of earlier claims replayed into this commit
    inbox: tuple[str, ...] = ()  # names of inbox files applied in this commit
    # partition -> entry up to which rows of `found` are applied
    applied: Mapping[int, int] = field(default_factory=dict)
    counters: Mapping[str, int] = field(default_factory=dict)  # increments
    # claim: collection -> its settings; None: it was purged
    settings: Mapping[str, Any] = field(default_factory=dict)
    # exclude: new rules (`lycosa.store.exclusion.exclusions`)
    exclusions: tuple[str, ...] = ()


def entry_path(number: int) -> str:
    """Return the path of an entry: `log/00000042.json`."""
    return f"{FOLDER}/{number:08d}.json"


def at_ms(entry: Entry) -> int:
    """Return the time of an entry (ms since 1970), 0 if invalid. For retention, never for order."""
    try:
        return round(datetime.fromisoformat(entry.at).timestamp() * 1000)
    except ValueError:
        return 0


def new_attempt() -> str:
    """Return an ID by which a writer recognises its own entry."""
    return uuid.uuid4().hex


def encode_entry(entry: Entry) -> bytes:
    """Return an entry as sealed JSON, without empty fields, with partitions as ranges."""
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
    fields = {
        key: value
        for key, value in document.items()
        if key in _REQUIRED or value not in ("", [], {})
    }
    return sealed(json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode())


def decode_entry(content: bytes, number: int) -> Entry:
    """Decode an entry.

    Raises:
        WorkspaceError: the content is not JSON, has an unknown kind or field, a missing field, a
            wrong type, or a number other than that of the file name.
    """
    where = entry_path(number)
    document = _parse(content, where)
    kind = str(document.get("kind"))
    unknown = sorted(set(document) - _FIELDS - {"digest"})
    if kind not in KINDS or unknown:
        what = f"the kind {kind!r}" if kind not in KINDS else f"the field {unknown[0]!r}"
        raise NewerError(
            f"{where} has {what}, which this version does not know: it was written by a newer "
            "version; upgrade with `pip install -U lycosa`"
        )
    try:
        entry = _entry_in(document)
        if b"\\u" in content:
            encode_entry(entry)  # unpaired surrogates cannot be stored in a snapshot
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


def _parse(content: bytes, where: str) -> dict[str, Any]:
    try:
        document = json.loads(content.decode(), parse_constant=_no_number, parse_float=_number)
    except (ValueError, RecursionError):
        raise WorkspaceError(
            f"{where} is damaged: it is not JSON; restore it from a backup, or "
            "run `lycosa check` for details"
        ) from None
    if not isinstance(document, dict):
        raise WorkspaceError(f"{where} is damaged: it is not a JSON object; run `lycosa check`")
    if content != sealed(content[: content.rfind(_SEAL)] + b"}"):
        raise WorkspaceError(
            f"{where} is damaged: its bytes have changed since it was written; "
            "restore it from a backup"
        )
    return document


def _entry_in(document: dict[str, Any]) -> Entry:
    files = _typed(document.get("files", {}), dict)
    applied = _typed(document.get("applied", {}), dict)
    counters = _typed(document.get("counters", {}), dict)
    return Entry(
        kind=document["kind"],
        attempt=_typed(document["attempt"], str),
        at=_typed(document["at"], str),
        number=_typed(document["number"], int),
        claim=_typed(document["claim"], int),
        worker=_typed(document.get("worker", ""), str),
        partitions=partitions_of(_typed(document.get("partitions", []), list)),
        files={table: _files_in(items) for table, items in files.items()},
        warcs=_files_in(document.get("warcs", [])),
        indexes=_files_in(document.get("indexes", [])),
        replaces=_texts(document.get("replaces", [])),
        orphans=_texts(document.get("orphans", [])),
        inbox=_texts(document.get("inbox", [])),
        applied={int(partition): _typed(number, int) for partition, number in applied.items()},
        counters={name: _typed(count, int) for name, count in counters.items()},
        settings=_typed(document.get("settings", {}), dict),
        exclusions=_texts(document.get("exclusions", [])),
    )


_SEAL = b',"digest":"'


def sealed(document: bytes) -> bytes:
    """Append the xxh3_128 of a JSON object to it as its last member."""
    return b"".join((document[:-1], _SEAL, xxhash.xxh3_128_hexdigest(document).encode(), b'"}\n'))


_NAMES: Mapping[type, str] = {str: "text", int: "an integer", list: "a list", dict: "an object"}
_REQUIRED = frozenset({"kind", "number", "attempt", "claim", "at"})
_FIELDS = frozenset(Entry.__dataclass_fields__)


def _file_out(file: DataFile) -> dict[str, Any]:
    item: dict[str, Any] = {
        "path": file.path,
        "rows": file.rows,
        "bytes": file.bytes,
        "digest": file.digest,
    }
    return item | {"as_of": file.entry} if file.merged else item


def _file_in(item: dict[str, Any]) -> DataFile:
    as_of = _typed(item.get("as_of", 0), int)
    return DataFile(
        _typed(item["path"], str),
        _typed(item["rows"], int),
        _typed(item["bytes"], int),
        _typed(item["digest"], str),
        as_of,
        as_of > 0,
    )


def _files_in(items: object) -> tuple[DataFile, ...]:
    return tuple(map(_file_in, _typed(items, list)))


def _texts(items: object) -> tuple[str, ...]:
    return tuple(_typed(item, str) for item in _typed(items, list))


def _number(text: str) -> float:
    return value if math.isfinite(value := float(text)) else _no_number(text)


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is not a JSON number")


def _typed(value: object, kind: type[_Type]) -> _Type:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"{value!r} is not {_NAMES[kind]}")
    return value


def partitions_of(ranges: list[list[int]]) -> tuple[int, ...]:
    """Return the partitions of `ranges_of`. Raises ValueError or TypeError."""
    partitions: list[int] = []
    for first, last in ranges:
        if not 0 <= _typed(first, int) <= _typed(last, int) <= _HIGHEST_PARTITION:
            raise ValueError(f"{first} to {last} is not a range of partitions")
        partitions.extend(range(first, last + 1))
    return tuple(partitions)


def ranges_of(partitions: Iterable[int]) -> list[list[int]]:
    """Return partitions as sorted ranges [first, last]."""
    ranges: list[list[int]] = []
    for partition in sorted(partitions):
        if ranges and ranges[-1][1] == partition - 1:
            ranges[-1][1] = partition
        else:
            ranges.append([partition, partition])
    return ranges
