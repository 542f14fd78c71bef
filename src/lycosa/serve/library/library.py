"""The queries of the library's pages and API, cached for a minute, the files of its days, and the
stored record of one page.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import polars as pl

from lycosa.commands.inspection.collection_facts import holdings
from lycosa.commands.inspection.hosts import list_hosts
from lycosa.commands.inspection.status_by import By, groups_of
from lycosa.commands.maintenance.export import LibraryTask, export_task
from lycosa.commands.models import CollectionHoldings, GroupTable, HostTable
from lycosa.core.dataclass import doc
from lycosa.core.errors import UrlError
from lycosa.crawl.session.workspace_config import read_config
from lycosa.export.library.day_writer import INDEX
from lycosa.export.library.editions import LibrarySelection, library_languages
from lycosa.export.library.formats import DEFAULT_FILE_BYTES, FORMATS
from lycosa.export.library.library import DaySize, LibraryDay, library_days, library_documents
from lycosa.serve.web.rendering import with_query
from lycosa.serve.web.ttl_cache import TtlCache
from lycosa.store.storage.storage import open_storage
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from lycosa.url.keys import Identifier
from lycosa.url.normalise import normalise

LANGUAGE = r"^[a-z]{2,3}$"
COLLECTION = r"^([a-z0-9][a-z0-9_-]{0,63})?$"
_FILE = re.compile(r"[a-z]{2,3}-\d{4}-\d{2}-\d{2}-\d{5}\.[a-z.]{2,12}")


@dataclass(slots=True, frozen=True)
class LibraryFile:
    """A complete file of a day."""

    kind: str
    name: str
    bytes: int
    made_at: datetime
    href: str = field(metadata=doc("Path on this server."))


class Library:
    """A workspace's library. `folder`: where `lycosa export` writes libraries; empty: a place in
    the workspace. Shared by threads.
    """

    def __init__(self, root: str, folder: str = "") -> None:
        self._root = root
        self._folder = folder
        self._making = threading.Lock()
        self._groups = TtlCache[tuple[By, bool], GroupTable](self._count)
        self._hosts = TtlCache[str, HostTable](lambda _: list_hosts(root, count=1))
        self._days = TtlCache[tuple[str, str], Mapping[LibraryDay, DaySize]](self._count_days)
        self._documents = TtlCache[tuple[str, date, str], pl.DataFrame](self._list, max_entries=8)
        self._holdings = TtlCache[str, CollectionHoldings](lambda name: holdings(root, name))

    def groups(self, by: By, *, sites: bool = False) -> GroupTable:
        """Return the table by language (always with sites), collection or type."""
        return self._groups.get((by, sites or by == "language"))

    def hosts(self) -> HostTable:
        """Return the number of hosts, the days on which they were discovered, and their software;
        the table has one row.
        """
        return self._hosts.get("")

    def days(self, language: str = "", collection: str = "") -> Mapping[LibraryDay, DaySize]:
        """Return the days of a language or collection with their sizes; empty: of all."""
        return self._days.get((language, collection))

    def documents(self, language: str, day: date, collection: str = "") -> pl.DataFrame:
        """Return the documents of a day; columns as `library_documents` has them."""
        return self._documents.get((language, day, collection))

    def holdings(self, collection: str) -> CollectionHoldings:
        """Return the stored data of a collection."""
        return self._holdings.get(collection)

    def files(self, language: str, day: date) -> list[LibraryFile]:
        """Return the files that an export has finished for a day."""
        files = []
        for kind in sorted(FORMATS):
            place = self._place(kind, language, day)
            if not (place / INDEX).is_file():
                continue
            for path in sorted(place.iterdir()):
                if _FILE.fullmatch(path.name) and path.is_file():
                    status = path.stat()
                    made_at = datetime.fromtimestamp(status.st_mtime, UTC)
                    query = {"lang": language, "day": day, "kind": kind, "name": path.name}
                    href = with_query("/api/v1/library/file", **query)
                    files.append(LibraryFile(kind, path.name, status.st_size, made_at, href))
        return files

    def path(self, language: str, day: date, kind: str, name: str) -> Path | None:
        """Return the file of that name, if it is one of the day's."""
        if not any((each.kind, each.name) == (kind, name) for each in self.files(language, day)):
            return None
        return self._place(kind, language, day) / name

    def make(self, language: str, day: date, kind: str) -> bool:
        """Write a day's files.

        False: others are being written now, here or by an export.

        Raises:
            WorkError: they could not be written.
        """
        if not self._making.acquire(blocking=False):
            return False
        try:
            languages = self._languages(Workspace.open(self._root))
            chosen = LibrarySelection(language, since=day, until=day, languages=languages)
            config, target = read_config(self._root), str(self._home())
            export_task(LibraryTask(self._root, target, kind, chosen, config, DEFAULT_FILE_BYTES))
            return True
        finally:
            self._making.release()

    def _home(self) -> Path:
        return Path(self._folder or f"{open_storage(self._root).scratch_dir()}/library")

    def _place(self, kind: str, language: str, day: date) -> Path:
        return self._home() / kind / language / day.isoformat()

    def _languages(self, workspace: Workspace) -> Mapping[str, str]:
        return library_languages(read_config(self._root), workspace.state())

    def _count(self, key: tuple[By, bool]) -> GroupTable:
        by, sites = key
        return groups_of(Workspace.open(self._root), by, read_config(self._root), sites=sites)

    def _count_days(self, key: tuple[str, str]) -> Mapping[LibraryDay, DaySize]:
        workspace = Workspace.open(self._root)
        chosen = LibrarySelection(*key, languages=self._languages(workspace))
        counts = library_days(workspace, chosen)
        return dict(
            sorted(counts.items(), key=lambda item: (item[0].day, item[0].language), reverse=True)
        )

    def _list(self, key: tuple[str, date, str]) -> pl.DataFrame:
        language, day, collection = key
        workspace = Workspace.open(self._root)
        languages = self._languages(workspace)
        return library_documents(
            workspace, LibrarySelection(language, collection, day, day, languages=languages)
        )


MAX_LINKS = 200

_DATED = pl.when(pl.col("published_at").dt.year().is_between(1, 9999)).then(pl.col("published_at"))


@dataclass(slots=True, frozen=True)
class StoredPage:
    """A page. `row` is its row in `pages`; `published_at` is null for impossible years.

    The links are the first of `out` and `into`; `held`: those other ends that are pages.
    """

    row: dict[str, Any]
    out: int
    out_links: list[dict[str, Any]]
    into: int
    in_links: list[dict[str, Any]]
    held: frozenset[str]


def page_record(root: str, url: str) -> StoredPage | None:
    """Return the record of a page, None if it does not exist or is excluded.

    Raises:
        WorkspaceError: there is no workspace, or it is damaged.
    """
    workspace = Workspace.open(root)
    state = workspace.state()
    try:
        plain = normalise(url)
        identity = Identifier(workspace.domains, workspace.partitions).identify(plain)
    except UrlError:
        return None
    if state.excluded(plain, identity.host):
        return None
    tables = LiveTables(workspace, state)
    here = (pl.col("host_key") == pl.lit(identity.host_key, pl.UInt64)) & (
        pl.col("url_key") == pl.lit(identity.url_key, pl.UInt64)
    )
    links = tables.scan("links")
    out = links.filter(here & (pl.col("source") == plain))
    into = links.filter(pl.col("target") == plain)
    pages, out_count, out_rows, in_count, in_rows = pl.collect_all(
        [
            tables.scan("pages")
            .filter(here & (pl.col("url") == plain))
            .with_columns(_DATED)
            .sort("fetched_at")
            .tail(1),
            out.select(pl.len()),
            out.sort("position").select("target", "anchor", "kind", "rel").head(MAX_LINKS),
            into.select(pl.len()),
            into.sort("found_at").select("source", "anchor", "kind").head(MAX_LINKS),
        ]
    )
    if not pages.height:
        return None
    ends = pl.concat([out_rows["target"], in_rows["source"].rename("target")]).unique()
    held = frozenset(
        tables.scan("pages")
        .filter(pl.col("url").is_in(ends.implode()))
        .select("url")
        .collect()["url"]
    )
    return StoredPage(
        pages.row(0, named=True),
        int(out_count.item()),
        out_rows.to_dicts(),
        int(in_count.item()),
        in_rows.to_dicts(),
        held,
    )
