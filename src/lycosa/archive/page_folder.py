"""Reads a folder of pages, as `wget --mirror` or a browser writes it: each file is the response to
the URL of its path.
"""

from __future__ import annotations

import mimetypes
import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from lycosa.archive.import_formats import ImportedCapture, made_up_head, made_up_id
from lycosa.archive.warc.record import sha1_digest
from lycosa.core.errors import ArchiveError, UsageError

_HOST = re.compile(r"(?:[a-z0-9_-]+\.)+[a-z0-9-]+(?::\d+)?", re.IGNORECASE)
_INDEX = re.compile(r"index\.x?html?", re.IGNORECASE)
_SAFE = "/:@!$&'()*+,;=~%-._"
# the standard library's own list, not the machine's: the same everywhere
_TYPES = mimetypes.MimeTypes()


def folder_captures(
    folder: Path, base: str, *, limit: int, others: Counter[str]
) -> Iterator[ImportedCapture]:
    """Yield the files of a folder and its subfolders as captures, by path.

    `base` is the URL of the folder; without it the top folders are hosts (over http). An
    `index.html` is the page of its folder, and a `?` in a name begins a query. The date of a
    capture is the modification time of the file, its type that of the file's extension. `others`
    counts links and devices, which are skipped.

    Raises:
        UsageError: without `base`, no top folder is named as a host is.
        ArchiveError: a file cannot be read.
    """
    roots = [(folder, base if base.endswith("/") else f"{base}/")] if base else _hosts(folder)
    for root, start in roots:
        for path in _files(root, others):
            yield _capture(path, start + _address(path.relative_to(root)), limit)


def _hosts(folder: Path) -> list[tuple[Path, str]]:
    hosts = [
        (each, f"http://{each.name}/")
        for each in sorted(folder.iterdir())
        if each.is_dir() and _HOST.fullmatch(each.name)
    ]
    if not hosts:
        raise UsageError(
            f"{folder} contains no archive and no folder named like a host: specify "
            "the base URL of its files with --base URL"
        )
    return hosts


def _files(root: Path, others: Counter[str]) -> Iterator[Path]:
    for parent, folders, names in os.walk(root):
        folders.sort()
        for name in sorted(names):
            path = Path(parent, name)
            if path.is_symlink() or not path.is_file():
                others["files that are links or devices"] += 1
            else:
                yield path


def _address(path: Path) -> str:
    parent = "".join(f"{quote(os.fsencode(part), safe=_SAFE)}/" for part in path.parent.parts)
    if _INDEX.fullmatch(path.name):
        return parent
    name, mark, query = path.name.partition("?")
    query = quote(os.fsencode(query), safe=_SAFE + "?")
    return f"{parent}{quote(os.fsencode(name), safe=_SAFE)}{mark}{query}"


def _capture(path: Path, url: str, limit: int) -> ImportedCapture:
    try:
        at = path.stat().st_mtime_ns // 1_000_000
        with open(path, "rb") as file:
            body = file.read(limit + 1)
    except OSError as error:
        raise ArchiveError(f"{path} cannot be read: {error.strerror}") from None
    kind = (
        _TYPES.guess_type(path.name.partition("?")[0])[0]
        or _TYPES.guess_type(path.name)[0]
        or _looks(body)
    )
    head = made_up_head(kind, len(body[:limit]))
    identity = made_up_id(url, at, sha1_digest(body))
    cut = len(body) > limit
    return ImportedCapture(
        url, at, identity, head, body[:limit], truncated="length" if cut else "", cut=cut
    )


def _looks(body: bytes) -> str:
    start = body[:512].lstrip().lower()
    return (
        "text/html"
        if start.startswith((b"<!doctype html", b"<html", b"<?xml"))
        else "application/octet-stream"
    )
