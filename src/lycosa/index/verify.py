"""Check the search index: complete files, built from this log, same pages as the tables.

The index is derived data: `lycosa index --rebuild` repairs every finding (`Finding.repair`: INDEX).
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import polars as pl
import tantivy
import zstandard

from lycosa.core.errors import WorkspaceError
from lycosa.graph import generation as graph
from lycosa.index import generation as generations
from lycosa.index.builder import index_files
from lycosa.index.generation import INFO, Generation, GenerationInfo
from lycosa.index.schema import ID, analysis_versions, schema, url_id
from lycosa.index.shards.shards import LAYOUT, Shard, current, newest_of_all, open_searcher
from lycosa.index.snippets.texts import LENGTH, TextFile, decompressor, files, text_key
from lycosa.index.suggest import file as suggest_file
from lycosa.store.log.snapshot import INTERVAL, wrote
from lycosa.store.storage.staging import list_faults
from lycosa.store.tables.live import LiveTables
from lycosa.store.tables.visible import is_removed
from lycosa.store.verify.findings import ERROR, INDEX, NOTE, WARNING, Finding
from lycosa.store.workspace import Workspace
from lycosa.text.analyze import analysis_by

REBUILD = (
    "the index can be rebuilt from the tables: `lycosa index --rebuild`, or `lycosa check --repair`"
)
AHEAD = (
    "the log has lost its last entries: restore them from a backup; or it belongs to another "
    "workspace: rebuild it with `lycosa {}`"
)
_SAMPLE = 10_000  # pages of a shard that are looked up in it
# end of tantivy's files: length of the JSON before it, magic number
_FOOTER = struct.Struct("<II")
_FOOTER_MAGIC = 1337
_CHUNK = 1 << 20


def check_index(
    workspace: Workspace, tables: LiveTables | None, *, deep: bool = False
) -> Iterator[Finding]:
    """Yield the faults of the current index.

    Args:
        tables: compared with the index; None if they are damaged.
        deep: also read every text.
    """
    try:
        parts = newest_of_all(workspace.storage)
        shards = current(workspace.storage)
    except (WorkspaceError, OSError) as error:
        yield _fault(f"{generations.FOLDER}/{LAYOUT}", str(error))
        return
    pages = 0 if tables is None else sum(file.rows for file in tables.state.files.get("pages", ()))
    for shard, part in zip(shards, parts, strict=False):
        if part is None:
            if pages:
                yield Finding(
                    WARNING,
                    shard.line,
                    "there is no index, so searches return nothing",
                    REBUILD,
                    INDEX,
                )
        elif isinstance(part, WorkspaceError):
            yield _fault(shard.line, str(part))
        else:
            yield from _check_generation(workspace, tables, shard, part, deep)


def _check_generation(
    workspace: Workspace, tables: LiveTables | None, shard: Shard, part: Generation, deep: bool
) -> Iterator[Finding]:
    where = f"{shard.line}/{part.number:08d}"
    try:
        faults = list(_file_faults(where, part.path, deep))
        yield from faults
        ahead = tables is not None and part.info.log_entry > tables.state.head
        odd = "" if ahead else _origin(workspace, part.info)
        if tables is not None and ahead:
            what = (
                f"it contains log entry {part.info.log_entry}, but the log ends with "
                f"{tables.state.head}"
            )
            yield Finding(ERROR, f"{where}/{INFO}", what, AHEAD.format("index --rebuild"))
        elif odd:
            yield _fault(f"{where}/{INFO}", odd)
        elif not faults and tables is not None:
            yield from _compare(workspace, tables, shard, part, where)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        yield _fault(where, f"it cannot be read: {type(error).__name__}: {error}")


def _fault(where: str, what: str) -> Finding:
    return Finding(ERROR, where, what, REBUILD, INDEX)


def _origin(workspace: Workspace, info: GenerationInfo) -> str:
    """Return why it is from another log; "" if it is not, or that is unknown."""
    if not info.log_entry:
        return ""
    try:
        entry = workspace.log.read(info.log_entry)
    except (WorkspaceError, OSError):
        return ""
    hundred = -(-info.log_entry // INTERVAL) * INTERVAL
    if entry is not None:
        own = entry.attempt == info.attempt
    else:
        own = workspace.storage.size(f"log/{hundred:08d}.snapshot") is None or wrote(
            workspace.storage, hundred, info.log_entry, info.attempt
        )
    return "" if own else f"it was built from another log: its entry {info.log_entry} differs"


def _file_faults(where: str, path: Path, deep: bool) -> Iterator[Finding]:
    listed = list(list_faults(path))
    for name, what in listed:
        yield _fault(f"{where}/{name}", what)
    if listed:
        return
    named = index_files(path)
    segments = {
        segment["segment_id"].replace("-", "")
        for segment in json.loads((path / "meta.json").read_bytes())["segments"]
    }
    for segment in segments - {name.partition(".")[0] for name in named}:
        yield _fault(f"{where}/{segment}", "files of a segment are missing")
    for name in named:
        if name != "meta.json" and not _sound(path / name):
            yield _fault(f"{where}/{name}", "it was changed, or is incomplete")
    for text_path in files(path):
        try:
            opened = TextFile(text_path)
            if deep and not _texts_sound(opened):
                yield _fault(
                    f"{where}/{text_path.name}", "it contains a text that does not match its key"
                )
        except (WorkspaceError, zstandard.ZstdError, struct.error, IndexError) as error:
            yield _fault(f"{where}/{text_path.name}", str(error))
    suggestions = suggest_file.find(path)
    if suggestions is not None:
        try:
            suggest_file.SuggestFile(suggestions)
        except WorkspaceError as error:
            yield _fault(f"{where}/{suggestions.name}", str(error))


def _sound(path: Path) -> bool:
    """Return whether a file of tantivy has the CRC-32 of its footer."""
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(0, size - _FOOTER.size))
        tail = file.read()
        if len(tail) < _FOOTER.size:
            return False
        length, magic = _FOOTER.unpack(tail)
        end = size - _FOOTER.size - length
        if magic != _FOOTER_MAGIC or end < 0:
            return False
        file.seek(end)
        try:
            expected = json.loads(file.read(length))["crc"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return False
        file.seek(0)
        crc, left = 0, end
        while left and (chunk := file.read(min(_CHUNK, left))):
            crc, left = zlib.crc32(chunk, crc), left - len(chunk)
    return bool(crc == expected)


def _texts_sound(texts: TextFile) -> bool:
    """Return whether each text matches its key. Each block is decompressed once."""
    order = sorted(
        range(len(texts.keys)), key=lambda place: (texts.blocks[place], texts.places[place])
    )
    for number, group in groupby(order, key=lambda place: texts.blocks[place]):
        block = decompressor().decompress(texts.block(number))
        for place in group:
            at = texts.places[place]
            start = at + LENGTH.size
            if (
                text_key(block[start : start + LENGTH.unpack_from(block, at)[0]])
                != texts.keys[place]
            ):
                return False
    return True


def _compare(
    workspace: Workspace, tables: LiveTables, shard: Shard, part: Generation, where: str
) -> Iterator[Finding]:
    info = part.info
    if info.analyzers != analysis_versions(analysis_by(info.analyzers).here()[0]):
        what = "built by another version: its words may differ from those of queries"
        yield Finding(
            NOTE, where, what, "nothing to do: the next crawl or `lycosa index` rebuilds it", INDEX
        )
        return
    if any(
        file.entry > info.log_entry and file.rows
        for name in ("pages", "urls")
        for file in tables.state.files.get(name, ())
    ):
        yield Finding(
            NOTE,
            where,
            f"it contains log entries up to {info.log_entry} of {tables.state.head}",
            "`lycosa index` adds the others",
        )
        return
    partitions = shard.partitions(workspace.partitions)
    inside = pl.col("partition").is_between(partitions.start, partitions.stop - 1)
    key = ["collection", "url_key"]
    removed = tables.scan("urls").filter(inside & is_removed()).select(*key)
    live = (
        tables.scan("pages").filter(inside & pl.col("may_index")).join(removed, on=key, how="anti")
    )
    pages = live.select("url_key", "url").unique("url_key").sort("url_key").collect()
    _, searcher = open_searcher([part.path])
    if searcher.num_docs != info.documents:
        yield _fault(
            where,
            f"it contains {searcher.num_docs:,} documents, but {info.documents:,} "
            f"according to {INFO}",
        )
    if searcher.num_docs > pages.height:
        yield _fault(
            where,
            f"it contains {searcher.num_docs:,} documents, but the tables have "
            f"only {pages.height:,} pages for it",
        )
    if info.graph:
        copies = _copies(workspace, info.graph)
        if copies is None:
            return
        pages = pages.join(copies, on="url_key", how="anti")
    sample = pages.gather_every(max(1, -(-pages.height // _SAMPLE)))
    missing = [url for url_key, url in sample.iter_rows() if not _contains(searcher, url_key)]
    if missing:
        yield _fault(
            where,
            f"missing pages: {len(missing):,} of {sample.height:,} in a sample, "
            f"for example {missing[0]}",
        )


def _copies(workspace: Workspace, generation: int) -> pl.DataFrame | None:
    """Return the copies, which are not indexed, of a graph generation; None: it is unreadable."""
    try:
        newest = graph.newest(workspace)
        return (
            graph.current_duplicates(workspace)
            if newest is not None and newest[0].generation == generation
            else None
        )
    except (WorkspaceError, OSError, pl.exceptions.PolarsError):
        return None  # reported by the check of the graph


def _contains(searcher: Any, url_key: int) -> bool:
    return bool(searcher.search(tantivy.Query.term_query(schema(), ID, url_id(url_key)), 1).hits)
