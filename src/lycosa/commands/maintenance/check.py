"""Check all parts of a workspace.

These are log, tables and archive (`lycosa.store.verify.check`), search index
(`lycosa.index.verify`), link graph, translation tables, configuration, small files of commands,
leftovers and unknown files.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import sqlite3
from collections.abc import Callable, Container, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl

from lycosa.core.clock import Clock, SystemClock
from lycosa.core.errors import ConfigError, LycosaError, WorkspaceError
from lycosa.crawl.session.workspace_config import CONFIGURATION, read_config
from lycosa.graph import generation as graph
from lycosa.index.verify import AHEAD, check_index
from lycosa.matching.orders import FOLDER as WATCHES
from lycosa.matching.orders import SearchOrder
from lycosa.store.compaction.plan import BASE, DELTA
from lycosa.store.coordination.owner import FOLDER as RUN
from lycosa.store.log.claim import DATA, INBOX
from lycosa.store.log.entry import FOLDER as LOG
from lycosa.store.storage.files import TEMPORARY_SUFFIX
from lycosa.store.storage.staging import PREFIX as BUILD_PREFIX
from lycosa.store.storage.staging import generation_path, list_faults, newest_generations
from lycosa.store.storage.storage import Storage
from lycosa.store.tables.live import LiveTables
from lycosa.store.verify.check import verify
from lycosa.store.verify.findings import ERROR, GRAPH, NOTE, REMOVE, WARNING, CheckReport, Finding
from lycosa.store.workspace import FILE, Workspace
from lycosa.translation.table import TranslationTable
from lycosa.translation.workspace_tables import FOLDER as TRANSLATIONS
from lycosa.vectors.store import FOLDER as VECTORS
from lycosa.vectors.store import ChunkStore

_INDEX = "index"
_TOP = {
    FILE,
    CONFIGURATION,
    LOG,
    DATA,
    DELTA,
    BASE,
    _INDEX,
    graph.FOLDER,
    TRANSLATIONS,
    VECTORS,
    WATCHES,
    INBOX,
    RUN,
    "rankings",
}
_TABLE = r"[a-z]+(-[0-9a-f]{12})?\.parquet"
_FILES = {
    DATA: re.compile(rf"{_TABLE}|archive(-[0-9a-f]{{12}})?\.(warc\.gz|cdxj)"),
    DELTA: re.compile(_TABLE),
    BASE: re.compile(_TABLE),
}
# an unfinished file that was unchanged for this long is abandoned: writing one is fast
_ABANDONED_MS = 60_000
_NOTES = ("tokens", "monitors", "paused", "moderation", "outbox")
_OTHERS_MAY_WRITE, _OTHERS_MAY_READ = 0o002, 0o077


def check_workspace(root: str, *, deep: bool = False, clock: Clock | None = None) -> CheckReport:
    """Check all parts of a workspace; changes nothing.

    `deep`: also read every archived record and every stored text.

    Raises:
        WorkspaceError: there is no workspace, or its `workspace.json` is damaged, so that nothing
        else can be read.
        UsageError: the kind of storage is not supported.
    """
    workspace = Workspace.open(root)
    report = verify(workspace, deep=deep)
    storage = workspace.storage
    tables = None
    damaged = any(
        finding.severity == ERROR and _is_of_tables(finding.where) for finding in report.findings
    )
    with suppress(LycosaError, OSError):  # `verify` has reported it
        tables = None if damaged else LiveTables(workspace, workspace.state())
    return report.with_findings(
        *check_index(workspace, tables, deep=deep),
        *_graph(workspace, tables),
        *_translations(storage),
        *_vectors(storage),
        *_configuration(workspace),
        *_notes(storage),
        *_foreign(storage, _named_files(workspace.root)),
        *(_on_disk(storage, (clock or SystemClock()).now_ms()) if storage.on_disk else ()),
    )


def _on_disk(storage: Storage, now_ms: int) -> Iterator[Finding]:
    yield from _leftovers(storage, now_ms)
    yield from _rights(storage)


def _graph(workspace: Workspace, tables: LiveTables | None) -> Iterator[Finding]:
    remedy = "rebuild it from the tables: `lycosa rank` or `lycosa check --repair`"
    for name in workspace.storage.names(graph.FOLDER):
        folder = (
            workspace.storage.folders.local_path(f"{graph.FOLDER}/{name}")
            if name.isdigit()
            else None
        )
        if folder is not None and not Path(folder, "info.json").exists():
            yield Finding(ERROR, f"{graph.FOLDER}/{name}/info.json", "missing", remedy, GRAPH)
    try:
        generation = graph.newest(workspace)
    except (WorkspaceError, OSError) as error:
        yield Finding(ERROR, graph.FOLDER, str(error), remedy, GRAPH)
        return
    if generation is None:
        return
    info, path = generation
    where = f"{graph.FOLDER}/{info.generation:08d}"
    if tables is not None and info.log_entry > tables.state.head:
        what = (
            f"built from the log up to entry {info.log_entry}, but the log ends at entry "
            f"{tables.state.head}"
        )
        yield Finding(ERROR, where, what, AHEAD.format("rank"))
    for name, what in list_faults(path):
        yield Finding(ERROR, f"{where}/{name}", what, remedy, GRAPH)
    rows = {graph.DUPLICATES: info.duplicates, graph.PAGES: info.pages}
    for name, expected in rows.items():
        try:
            number = pl.read_parquet(path / name).height
            problem = (
                ""
                if number == expected
                else f"{number:,} rows, but {info.generation:08d}/info.json states {expected:,}"
            )
        except (pl.exceptions.PolarsError, OSError) as error:
            problem = f"cannot be read: {_first_line(error)}"
        if problem:
            yield Finding(ERROR, f"{where}/{name}", problem, remedy, GRAPH)
    for file in sorted(path.glob("*.sqlite")):
        problem = _sqlite_problem(file)
        if problem:
            yield Finding(ERROR, f"{where}/{file.name}", problem, remedy, GRAPH)


def _translations(storage: Storage) -> Iterator[Finding]:
    for name in storage.names(TRANSLATIONS):
        folder = storage.folders.local_path(f"{TRANSLATIONS}/{name}")
        if name.startswith(".") or folder is None:
            continue
        problem = _sqlite_problem(Path(folder) / "table.sqlite")
        if problem:
            remedy = f"remove it with `lycosa translate remove {name}` and add it again"
            yield Finding(ERROR, f"{TRANSLATIONS}/{name}/table.sqlite", problem, remedy)


def _sqlite_problem(path: Path) -> str:
    """Return the problem that SQLite finds in a table of translations, which has no checksums."""
    try:
        TranslationTable(path).close()
        database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
        try:
            (result,) = database.execute("PRAGMA quick_check(1)").fetchone()
        finally:
            database.close()
    except (WorkspaceError, sqlite3.Error) as error:
        return f"cannot be read: {_first_line(error)}"
    return "" if result == "ok" else f"damaged: {result}"


def _vectors(storage: Storage) -> Iterator[Finding]:
    newest = next(newest_generations(storage, VECTORS), None)
    if newest is None:
        return
    number, folder = newest
    where = generation_path(VECTORS, number)
    remedy = f"remove the folder {VECTORS}, and run `lycosa index`"
    try:
        ChunkStore(folder, number)
    except (FileNotFoundError, WorkspaceError) as error:
        yield Finding(ERROR, where, f"cannot be read: {_first_line(error)}", remedy)
    for name, what in list_faults(folder):
        yield Finding(ERROR, f"{where}/{name}", what, remedy)


def _configuration(workspace: Workspace) -> Iterator[Finding]:
    try:
        read_config(workspace.root)
    except (ConfigError, UnicodeDecodeError, OSError) as error:
        yield Finding(
            ERROR,
            CONFIGURATION,
            str(error),
            "correct that line; the rest of the workspace is not affected",
        )


def _notes(storage: Storage) -> Iterator[Finding]:
    """Check the small files that commands wrote: watches, notes, submissions."""
    for name in storage.names(WATCHES):
        if name.endswith(".json") and (
            problem := _note_problem(storage, f"{WATCHES}/{name}", SearchOrder.from_json)
        ):
            yield Finding(
                ERROR,
                f"{WATCHES}/{name}",
                problem,
                "delete it and add the watch again; its matches are kept",
            )
    for folder in (*(f"{RUN}/{name}" for name in _NOTES), INBOX):
        remedy = (
            "delete it and submit the URLs again"
            if folder == INBOX
            else "delete it and run its command again; the damaged file is ignored"
        )
        for name in storage.names(folder):
            if name.endswith(".json") and (
                problem := _note_problem(storage, f"{folder}/{name}", _object)
            ):
                yield Finding(ERROR, f"{folder}/{name}", problem, remedy)


def _note_problem(storage: Storage, path: str, read: Callable[[bytes], object]) -> str:
    try:
        content = storage.read(path)
        if content is not None:  # else a worker has just applied it
            read(content)
    except OSError as error:
        return f"cannot be read: {_first_line(error)}"
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return "damaged"
    return ""


def _object(content: bytes) -> dict[str, Any]:
    document = json.loads(content)
    if not isinstance(document, dict):
        raise TypeError("not a JSON object")
    return document


def _named_files(root: str) -> set[str]:
    """Return the first folders, or names, of files in a workspace that lycosa.toml names."""
    try:
        config = read_config(root, bad={})
    except (ConfigError, OSError):  # reported by `_configuration`
        return set()
    files = [each.seed_file for each in config.collection]
    files += [config.fetch.ca_file, config.crawl.exclusions]
    return {os.path.relpath(file, root).split(os.sep)[0] for file in files if file}


def _foreign(storage: Storage, named: Container[str]) -> Iterator[Finding]:
    what, remedy = "not part of a workspace", "it is ignored; delete it if you do not need it"
    for name in storage.names("."):
        if name not in _TOP and name not in named:
            yield Finding(WARNING, name, what, remedy)
    for top, pattern in _FILES.items():
        for path in storage.files_below(top):
            name = os.path.basename(path)
            if not pattern.fullmatch(name) and not name.endswith(TEMPORARY_SUFFIX):
                yield Finding(WARNING, path, what, remedy)


def _leftovers(storage: Storage, now_ms: int) -> Iterator[Finding]:
    """Yield unfinished files and unpublished folders of killed processes."""
    what, remedy = "left behind by a process that was killed", "remove it: `lycosa check --repair`"
    for top in ("", *sorted(_TOP)):
        folder = Path(storage.lock_path(top or "."))
        if not folder.is_dir():
            continue
        for path in _abandoned(folder, now_ms, deep=bool(top)):
            relative = os.path.relpath(path, storage.root)
            if not _being_built(storage, relative):
                yield Finding(NOTE, relative, what, remedy, REMOVE)


def _abandoned(folder: Path, now_ms: int, *, deep: bool) -> Iterator[Path]:
    for entry in sorted(os.scandir(folder), key=lambda each: each.name):
        path = Path(entry.path)
        if entry.name.endswith(TEMPORARY_SUFFIX) or entry.name.startswith(BUILD_PREFIX):
            if now_ms - entry.stat(follow_symlinks=False).st_mtime_ns // 1_000_000 > _ABANDONED_MS:
                yield path
        elif deep and entry.is_dir(follow_symlinks=False):
            yield from _abandoned(path, now_ms, deep=True)


def _being_built(storage: Storage, relative: str) -> bool:
    """Return whether a running process holds the lock of a staging folder."""
    if not os.path.basename(relative).startswith(BUILD_PREFIX):
        return False
    parent = os.path.dirname(relative)
    locks = (
        (f"{_INDEX}/.lock", f"{parent}/.lock")
        if parent.startswith(_INDEX)
        else (f"{RUN}/build-{parent.replace('/', '-')}.lock",)
    )
    return any(_is_locked(storage.lock_path(lock)) for lock in locks)


def _is_locked(path: str) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _rights(storage: Storage) -> Iterator[Finding]:
    """Check the permissions of other users.

    A user who can write to the workspace controls the crawler.
    """
    for relative in (".", CONFIGURATION, FILE, LOG, DATA, RUN, INBOX):
        if _mode(storage, relative) & _OTHERS_MAY_WRITE:
            what = "every account on this machine can write to it and so control the crawler"
            yield Finding(WARNING, relative, what, f"chmod o-w {storage.lock_path(relative)}")
    for relative in (
        f"{RUN}/owner.json",
        *(f"{RUN}/tokens/{name}" for name in storage.names(f"{RUN}/tokens")),
    ):
        if _mode(storage, relative) & _OTHERS_MAY_READ:
            yield Finding(
                WARNING,
                relative,
                "other accounts can read it; only the account of the crawler should",
                f"chmod 600 {relative}",
            )


def _mode(storage: Storage, relative: str) -> int:
    try:
        return os.stat(storage.lock_path(relative)).st_mode
    except OSError:
        return 0


def _is_of_tables(where: str) -> bool:
    """Return whether a finding at this path prevents reading the tables."""
    return where.endswith(".parquet") or where.startswith(f"{LOG}/") or where == "tables"


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
