"""Export to WACZ 1.1.1 (https://specs.webrecorder.net/wacz/1.1.1/): one file that any web-archive
player replays.

A ZIP of the WARC files that `lycosa.export.archives.warc` makes, stored as they are so that a
player can read ranges of them, with a compressed index, the list of pages and a description that
holds every digest. The same captures give the same bytes.
"""

from __future__ import annotations

import glob
import gzip
import hashlib
import json
import os
import shutil
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import IO

import polars as pl

from lycosa.archive.warc.writer import sync_folder
from lycosa.core.errors import WorkError
from lycosa.core.units import format_time
from lycosa.core.version import VERSION
from lycosa.export.archives.warc import DEFAULT_FILE_BYTES, WarcSelection, export_warc
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace

WACZ_VERSION = "1.1.1"
BLOCK_LINES = 3_000
"""Lines of the index in one gzip member: what a player fetches to find a page. As cdxj-indexer has
it.
"""

_PIECE = 1 << 20


@dataclass(slots=True)
class WaczReport:
    """What was written; `path` is None where nothing was chosen."""

    path: Path | None = None
    captures: int = 0
    pages: int = 0
    bytes: int = 0


def export_wacz(
    workspace: Workspace,
    target: str | Path,
    selection: WarcSelection | None = None,
    *,
    title: str = "",
    max_file_bytes: int = DEFAULT_FILE_BYTES,
    responses_only: bool = False,
) -> WaczReport:
    """Write the committed captures of a workspace as one WACZ file. It appears whole or not at all,
    in the place of one that is there.

    The WARC files are made beside it first, so for a while twice the space is needed; a call that
    was interrupted goes on with them.

    Raises:
        WorkError: the target cannot be written.
        ArchiveError: a record is damaged or missing.
    """
    chosen = selection or WarcSelection()
    path = Path(target)
    # Named after what it is made of: what an interrupted call with other options left is of no use
    # here.
    options = hashlib.sha256(repr((chosen, max_file_bytes, responses_only)).encode()).hexdigest()[
        :12
    ]
    parts, aside = (
        path.with_name(f".{path.name}.{options}.parts"),
        path.with_name(f".{path.name}.part"),
    )
    warcs = export_warc(
        workspace, parts, chosen, max_file_bytes=max_file_bytes, responses_only=responses_only
    )
    if warcs.index is None:
        with suppress(OSError):
            parts.rmdir()
        return WaczReport()
    try:
        with open(aside, "wb") as file:
            pages = _write(file, workspace, chosen, warcs.files, warcs.index, title)
            file.flush()
            os.fsync(file.fileno())
        size = aside.stat().st_size
        os.replace(aside, path)
        sync_folder(path.parent)
        for left in path.parent.glob(f".{glob.escape(path.name)}.*.parts"):
            shutil.rmtree(left)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise WorkError(
            f"{path} cannot be written: {error.strerror}; run the same command again"
        ) from error
    return WaczReport(path, warcs.captures, pages, size)


class _Package:
    """A ZIP under way, and the digests of what was put into it."""

    def __init__(self, archive: zipfile.ZipFile, at: datetime) -> None:
        self._archive = archive
        self._date = (at.year, at.month, at.day, at.hour, at.minute, at.second)
        self.resources: list[dict[str, object]] = []

    def put(
        self, name: str, pieces: Iterable[bytes], *, deflate: bool = False, listed: bool = True
    ) -> str:
        """Add a file; its digest."""
        entry = zipfile.ZipInfo(name, self._date)
        entry.compress_type = zipfile.ZIP_DEFLATED if deflate else zipfile.ZIP_STORED
        entry.external_attr = 0o644 << 16
        digest, size = hashlib.sha256(), 0
        with self._archive.open(entry, "w", force_zip64=True) as output:
            for piece in pieces:
                output.write(piece)
                digest.update(piece)
                size += len(piece)
        if listed:
            self.resources.append(
                {
                    "name": name.rpartition("/")[2],
                    "path": name,
                    "hash": f"sha256:{digest.hexdigest()}",
                    "bytes": size,
                }
            )
        return f"sha256:{digest.hexdigest()}"


def _write(
    file: IO[bytes],
    workspace: Workspace,
    chosen: WarcSelection,
    warcs: list[Path],
    index: Path,
    title: str,
) -> int:
    at = datetime.strptime(index.name.removeprefix("lycosa-")[:14], "%Y%m%d%H%M%S").replace(
        tzinfo=UTC
    )
    first: dict[str, str] = {}
    count = 0

    def pages() -> Iterator[bytes]:
        nonlocal count
        yield _line(
            {"format": "json-pages-1.0", "id": "pages", "title": "All Pages", "hasText": False}
        )
        for url, fetched_at, page_title in _pages(LiveTables(workspace), chosen):
            count += 1
            row = {
                "url": url,
                "ts": format_time(fetched_at - fetched_at % 1000),
                "title": page_title or url,
            }
            if not first:
                first.update(row)
            yield _line(
                {
                    "id": hashlib.sha1(
                        f"{url} {fetched_at}".encode(), usedforsecurity=False
                    ).hexdigest()[:16],
                    **row,
                }
            )

    with zipfile.ZipFile(file, "w") as archive:
        package = _Package(archive, at)
        for warc in warcs:
            package.put(f"archive/{warc.name}", _read(warc))
        blocks: list[dict[str, object]] = []
        package.put("indexes/index.cdx.gz", _blocks(index, blocks))
        package.put("indexes/index.idx", _block_index(blocks))
        package.put("pages/pages.jsonl", pages(), deflate=True)
        main = {"mainPageUrl": first["url"], "mainPageDate": first["ts"]} if first else {}
        described = {
            "profile": "data-package",
            "title": title or f"Pages of {chosen.collection or 'all collections'}",
            "software": f"Lycosa {VERSION}",
            "created": at.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "wacz_version": WACZ_VERSION,
            **main,
            "resources": package.resources,
        }
        digest = package.put(
            "datapackage.json", [json.dumps(described, indent=2).encode()], listed=False
        )
        content = json.dumps({"path": "datapackage.json", "hash": digest}, indent=2).encode()
        package.put("datapackage-digest.json", [content], listed=False)
    return count


def _pages(tables: LiveTables, chosen: WarcSelection) -> Iterator[tuple[str, int, str]]:
    """(url, fetched_at, title) of the chosen pages, each capture once, partition by partition."""
    rows = tables.scan("pages").with_columns(pl.col("fetched_at").dt.epoch("ms"))
    if chosen.collection:
        rows = rows.filter(pl.col("collection") == chosen.collection)
    if chosen.language:
        rows = rows.filter(pl.col("language") == chosen.language)
    if chosen.since:
        rows = rows.filter(pl.col("fetched_at") >= chosen.since)
    if chosen.site is not None:
        rows = rows.filter(chosen.site.rows())
    for partition in (
        rows.select(pl.col("partition").unique().sort()).collect()["partition"].to_list()
    ):
        part = rows.filter(pl.col("partition") == partition).select("url", "fetched_at", "title")
        yield from (
            part.unique(["url", "fetched_at"]).sort("url", "fetched_at").collect().iter_rows()
        )


def _blocks(index: Path, blocks: list[dict[str, object]]) -> Iterator[bytes]:
    """The CDXJ in gzip members of some lines each (ZipNum); `blocks` gets where each lies and what
    it begins with.
    """
    offset = 0
    with open(index, "rb") as lines:
        while part := list(islice(lines, BLOCK_LINES)):
            member = gzip.compress(b"".join(part), 6, mtime=0)
            key, stamp, _ = part[0].split(b" ", 2)
            digest = f"sha256:{hashlib.sha256(member).hexdigest()}"
            blocks.append(
                {
                    "key": f"{key.decode()} {stamp.decode()}",
                    "offset": offset,
                    "length": len(member),
                    "digest": digest,
                }
            )
            offset += len(member)
            yield member


def _block_index(blocks: list[dict[str, object]]) -> Iterator[bytes]:
    yield b'!meta 0 {"format": "cdxj-gzip-1.0", "filename": "index.cdx.gz"}\n'
    for block in blocks:
        fields = {name: block[name] for name in ("offset", "length", "digest")} | {
            "filename": "index.cdx.gz"
        }
        yield f"{block['key']} {json.dumps(fields)}\n".encode()


def _read(path: Path) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while piece := file.read(_PIECE):
            yield piece


def _line(document: dict[str, object]) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"
