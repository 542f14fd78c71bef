"""Snapshots of the log's state, one after every 100th entry.

`log/00000100.snapshot` is one line of JSON (number, prefixes of the attempt IDs of its hundred
entries, xxh3_128 of the rest) followed by `LogState.document`, compressed with zstd. It is a
function of the entries, so all writers write the same. Old snapshots are reduced to the first line,
which records that the entries were written, and by which attempts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import xxhash
import zstandard

from lycosa.core.dataclass import dataclass
from lycosa.core.errors import WorkspaceError
from lycosa.store.log.entry import FOLDER
from lycosa.store.storage.storage import Storage

INTERVAL = 100
"""Entries between snapshots; part of the format."""

_NAME = re.compile(r"^(\d{8,})\.snapshot\Z")
_LEVEL = 3


@dataclass(slots=True, frozen=True)
class Snapshot:
    """A snapshot: its entry, the attempts of its hundred entries (`brief`), the log's state."""

    number: int
    attempts: list[str]
    document: dict[str, Any]


def snapshot_path(number: int) -> str:
    """Return the path of a snapshot: `log/00000100.snapshot`."""
    return f"{FOLDER}/{number:08d}.snapshot"


def brief(attempt: str) -> str:
    """Return a prefix of an attempt ID that is unique within a hundred entries."""
    return attempt[:12]


def write_snapshot(
    storage: Storage, number: int, attempts: Sequence[str], document: dict[str, Any]
) -> bool:
    """Create the snapshot after entry `number`; False if it exists. Raises OSError."""
    body = zstandard.ZstdCompressor(level=_LEVEL).compress(
        json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
    )
    return storage.create(snapshot_path(number), _header(number, attempts, body) + body)


def write_header(storage: Storage, number: int, attempts: Sequence[str]) -> None:
    """Reduce a snapshot to its first line, or write a first line with these attempts if there is no
    snapshot. Raises OSError.
    """
    path = snapshot_path(number)
    content = storage.read(path)
    if content is None:
        storage.create(path, _header(number, attempts, b""))
    elif content.partition(b"\n")[2]:
        storage.replace(path, content.partition(b"\n")[0] + b"\n", sync=True)


def snapshot_numbers(storage: Storage) -> list[int]:
    """Return the sorted numbers of all snapshots, reduced ones included."""
    matches = (_NAME.match(name) for name in storage.names(FOLDER))
    return sorted(int(match[1]) for match in matches if match)


def read_snapshot(storage: Storage, number: int) -> Snapshot | None:
    """Return a snapshot, None if it is absent or reduced. Raises WorkspaceError: it is damaged."""
    content = storage.read(snapshot_path(number))
    if content is None:
        return None
    line, _, body = content.partition(b"\n")
    attempts, digest = _read_header(line, number)
    if not body:
        return None
    if digest != _digest(body):
        raise WorkspaceError(
            f"{snapshot_path(number)} is damaged: its bytes have changed; restore it from a backup"
        )
    try:
        document = json.loads(zstandard.ZstdDecompressor().decompress(body))
    except (ValueError, RecursionError, zstandard.ZstdError):
        raise WorkspaceError(
            f"{snapshot_path(number)} is damaged: it is not JSON; restore it from a backup"
        ) from None
    return Snapshot(number, attempts, document)


def snapshots_newest_first(storage: Storage) -> Iterator[Snapshot]:
    """Yield complete snapshots. Damaged ones are skipped: an older one with its later entries is
    equivalent.

    A listing may lack the newest snapshots, so they are requested by name.
    """
    numbers = snapshot_numbers(storage)
    while (
        storage.size(snapshot_path(following := (numbers[-1] if numbers else 0) + INTERVAL))
        is not None
    ):
        numbers.append(following)
    for number in reversed(numbers):
        try:
            snapshot = read_snapshot(storage, number)
        except WorkspaceError:
            continue  # `lycosa check` reports it
        if snapshot is not None:
            yield snapshot


def wrote(storage: Storage, hundred: int, number: int, attempt: str) -> bool:
    """Return whether snapshot `hundred` records this attempt for entry `number`."""
    try:
        attempts, _ = _read_header(
            (storage.read(snapshot_path(hundred)) or b"").partition(b"\n")[0], hundred
        )
    except WorkspaceError:
        return False
    return attempts[number - hundred - 1 :][:1] == [brief(attempt)]


def _header(number: int, attempts: Sequence[str], body: bytes) -> bytes:
    head = {"number": number, "digest": _digest(body), "attempts": list(map(brief, attempts))}
    return json.dumps(head, separators=(",", ":")).encode() + b"\n"


def _read_header(line: bytes, number: int) -> tuple[list[str], str]:
    try:
        header = json.loads(line)
        attempts = list(map(str, header["attempts"]))
        if header["number"] == number and len(attempts) == INTERVAL:
            return attempts, str(header["digest"])
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise WorkspaceError(
        f"{snapshot_path(number)} is damaged: its first line is invalid; restore it from a backup"
    )


def _digest(body: bytes) -> str:
    return xxhash.xxh3_128_hexdigest(body)
