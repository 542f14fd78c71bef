"""Export to WACZ 1.1.1 (https://specs.webrecorder.net/wacz/1.1.1/): one file for replay.

A ZIP of the WARC files of `lycosa.export.archives.warc`, stored uncompressed for range requests,
with a compressed index, the list of pages and a description with all digests. The same captures
give the same bytes.
"""

from __future__ import annotations

import glob
import gzip
import hashlib
import json
import shutil
import zipfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import IO

import polars as pl

from lycosa.core.errors import UsageError
from lycosa.core.units import format_time
from lycosa.core.version import VERSION
from lycosa.export.archives.warc import (
    DEFAULT_FILE_BYTES,
    UnreadableRecord,
    WarcSelection,
    export_warc,
)
from lycosa.processes.disk import sync_folder
from lycosa.store.storage.files import whole_file, write_errors
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace

WACZ_VERSION = "1.1.1"
BLOCK_LINES = 3_000
"""Lines of the index per gzip member, as in cdxj-indexer.

A player downloads one member to find a page.
"""

_CHUNK = 1 << 20


@dataclass(slots=True, frozen=True)
class WaczReport:
    """Result of an export; `path` is None if no capture was selected.

    `unreadable` records of the archive are omitted.
    """

    path: Path | None = None
    captures: int = 0
    pages: int = 0
    bytes: int = 0
    unreadable: list[UnreadableRecord] = field(default_factory=list)


def export_wacz(
    workspace: Workspace,
    target: str | Path,
    selection: WarcSelection | None = None,
    *,
    title: str = "",
    max_file_bytes: int = DEFAULT_FILE_BYTES,
    responses_only: bool = False,
) -> WaczReport:
    """Write the committed captures of a workspace to one WACZ file.

    It replaces an existing file, completely or not at all. The WARC files are first written to a
    folder next to it, so twice the space is needed. A call after an interruption reuses them.

    Raises:
        UsageError: the target is not the name of a file.
        WorkError: the target cannot be written.
    """
    chosen = selection or WarcSelection()
    path = Path(target)
    if not path.name:
        raise UsageError(f"{str(target)!r} is not the name of a file: write it as pages.wacz")
    default = f"Pages of {chosen.collection or 'all collections'}"
    # the WARC files of an interrupted call can be reused only with the same options
    options = repr((chosen, max_file_bytes, responses_only)).encode()
    parts = path.with_name(f".{path.name}.{hashlib.sha256(options).hexdigest()[:12]}.parts")
    warcs = export_warc(
        workspace, parts, chosen, max_file_bytes=max_file_bytes, responses_only=responses_only
    )
    if warcs.index is None:
        with suppress(OSError):
            parts.rmdir()
        return WaczReport()
    with write_errors(path, "run the same command again"):
        with whole_file(path.resolve()) as draft, open(draft, "wb") as file:
            lost = {record.record_id for record in warcs.unreadable}
            pages = _pages(LiveTables(workspace), chosen, lost)
            count = _write(file, warcs.files, warcs.index, pages, title or default)
        sync_folder(path.parent)
        for obsolete in path.parent.glob(f".{glob.escape(path.name)}.*.parts"):
            shutil.rmtree(obsolete)
    return WaczReport(path, warcs.captures, count, path.stat().st_size, warcs.unreadable)


class _Package:
    """A ZIP file, and the digests of its entries."""

    def __init__(self, archive: zipfile.ZipFile, at: datetime) -> None:
        self._archive = archive
        self._date = (at.year, at.month, at.day, at.hour, at.minute, at.second)
        self.resources: list[dict[str, object]] = []

    def add(
        self, name: str, chunks: Iterable[bytes], *, deflate: bool = False, listed: bool = True
    ) -> str:
        """Add a file and return its digest."""
        entry = zipfile.ZipInfo(name, self._date)
        entry.compress_type = zipfile.ZIP_DEFLATED if deflate else zipfile.ZIP_STORED
        entry.external_attr = 0o644 << 16
        sha256, size = hashlib.sha256(), 0
        with self._archive.open(entry, "w", force_zip64=True) as output:
            for chunk in chunks:
                output.write(chunk)
                sha256.update(chunk)
                size += len(chunk)
        digest = f"sha256:{sha256.hexdigest()}"
        if listed:
            self.resources.append(
                {"name": name.rpartition("/")[2], "path": name, "hash": digest, "bytes": size}
            )
        return digest


class _PageList:
    """The lines of `pages.jsonl`; `count` and `first` are complete after iteration."""

    def __init__(self, pages: Iterable[tuple[str, int, str]]) -> None:
        self._pages = pages
        self.count = 0
        self.first: dict[str, str] = {}

    def __iter__(self) -> Iterator[bytes]:
        yield _line(
            {"format": "json-pages-1.0", "id": "pages", "title": "All Pages", "hasText": False}
        )
        for url, fetched_at, title in self._pages:
            page_id = hashlib.sha1(f"{url} {fetched_at}".encode(), usedforsecurity=False)
            time = format_time(fetched_at - fetched_at % 1000)
            if not self.count:
                self.first = {"mainPageUrl": url, "mainPageDate": time}
            self.count += 1
            row = {"id": page_id.hexdigest()[:16], "url": url, "ts": time, "title": title or url}
            yield _line(row)


def _write(
    file: IO[bytes],
    warcs: list[Path],
    index: Path,
    pages: Iterable[tuple[str, int, str]],
    title: str,
) -> int:
    """Write the package; return the number of pages."""
    stamp = index.name.removeprefix("lycosa-")[:14]
    at = datetime.strptime(stamp, "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    page_list = _PageList(pages)
    with zipfile.ZipFile(file, "w") as archive:
        package = _Package(archive, at)
        for warc in warcs:
            package.add(f"archive/{warc.name}", _chunks(warc))
        blocks: list[bytes] = []
        package.add("indexes/index.cdx.gz", _blocks(index, blocks))
        package.add("indexes/index.idx", blocks)
        package.add("pages/pages.jsonl", page_list, deflate=True)
        description = {
            "profile": "data-package",
            "title": title,
            "software": f"Lycosa {VERSION}",
            "created": at.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "wacz_version": WACZ_VERSION,
            **page_list.first,
            "resources": package.resources,
        }
        content = json.dumps(description, indent=2).encode()
        digest = package.add("datapackage.json", [content], listed=False)
        content = json.dumps({"path": "datapackage.json", "hash": digest}, indent=2).encode()
        package.add("datapackage-digest.json", [content], listed=False)
    return page_list.count


def _pages(
    tables: LiveTables, chosen: WarcSelection, lost: Collection[str]
) -> Iterator[tuple[str, int, str]]:
    """Yield (url, fetched_at, title) of the selected pages by partition, each capture once.

    Pages whose records are `lost` are omitted.
    """
    rows = chosen.of(tables.scan("pages")).filter(~pl.col("record_id").is_in(list(lost)))
    if chosen.language:
        rows = rows.filter(pl.col("language") == chosen.language)
    for partition in (
        rows.select(pl.col("partition").unique().sort()).collect()["partition"].to_list()
    ):
        part = rows.filter(pl.col("partition") == partition).select("url", "fetched_at", "title")
        yield from (
            part.unique(["url", "fetched_at"]).sort("url", "fetched_at").collect().iter_rows()
        )


def _blocks(index: Path, block_index: list[bytes]) -> Iterator[bytes]:
    """Yield the CDXJ in gzip members (ZipNum); append the lines of its index to `block_index`."""
    block_index.append(b'!meta 0 {"format": "cdxj-gzip-1.0", "filename": "index.cdx.gz"}\n')
    offset = 0
    with open(index, "rb") as lines:
        while part := list(islice(lines, BLOCK_LINES)):
            member = gzip.compress(b"".join(part), 6, mtime=0)
            key, stamp, _ = part[0].decode().split(" ", 2)
            block = {
                "offset": offset,
                "length": len(member),
                "digest": f"sha256:{hashlib.sha256(member).hexdigest()}",
                "filename": "index.cdx.gz",
            }
            block_index.append(f"{key} {stamp} {json.dumps(block)}\n".encode())
            offset += len(member)
            yield member


def _chunks(path: Path) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            yield chunk


def _line(document: Mapping[str, object]) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"
