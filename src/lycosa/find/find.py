"""`find`: the exact positions of a text.

It searches stored pages, or a site that is crawled for it.

For a crawl, an order is written (`lycosa.matching.orders`) and put into the inbox as an operation,
which links inherit; the process that crawls in the workspace executes it. Its results are rows of
`matches`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from lycosa.config.settings import Config
from lycosa.core.errors import UsageError
from lycosa.core.records import UrlState
from lycosa.core.units import format_time
from lycosa.crawl.admission.inbox import submission
from lycosa.crawl.session.submission import submit
from lycosa.find.scan import Scan
from lycosa.matching.matches import StoredMatch, matches_in
from lycosa.matching.normalise import folding_of
from lycosa.matching.orders import OrderScope, SearchOrder, new_order, remove_order, write_order
from lycosa.matching.patterns import normalized_text
from lycosa.matching.plugin import FIND
from lycosa.store.log.claim import INBOX
from lycosa.store.log.state import LogState
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from lycosa.url.site_name import SiteScope


def find_stored(
    root: str,
    texts: Sequence[str],
    ignored: Sequence[str] = (),
    *,
    site: str = "",
    collection: str = "",
) -> Scan:
    """Return a scan of the stored pages for texts; `run` it.

    Raises:
        UsageError: no text to find, or no site.
        WorkspaceError: there is no workspace, or it is damaged.
    """
    patterns = [normalized_text(text) for text in texts]
    if not all(patterns) or not patterns:
        raise UsageError("nothing to search for: specify a text that is not empty")
    tables = LiveTables(Workspace.open(root))
    return Scan(
        tables,
        patterns,
        folding_of(ignored),
        site=SiteScope.of(site) if site else None,
        collection=collection,
    )


@dataclass(slots=True, frozen=True)
class Ordered:
    """A submitted request in the inbox. `running`: whether a process that handles it is running."""

    order: SearchOrder
    collection: str
    file: str
    running: bool


def order_in_site(
    root: str,
    texts: Sequence[str],
    ignored: Sequence[str],
    site: SiteScope,
    collection: str,
    max_age_ms: int,
) -> Ordered:
    """Submit a search of a site from its start, independent of the collection's scope. Creates the
    workspace if there is none.

    Raises:
        UsageError: no text to find.
    """
    workspace = Workspace.open_or_create(root)
    order = new_order(
        workspace,
        "find",
        texts,
        folding_of(ignored),
        OrderScope([collection], site.start, max_age_ms),
    )
    write_order(workspace.storage, order)
    workspace.storage.make_folder(INBOX)
    file = f"{order.created_at:013d}-{order.id}.json"
    content = submission(
        collection, [site.start], format_time(order.created_at), f"{FIND}:{order.id}"
    )
    workspace.storage.create(f"{INBOX}/{file}", content)
    return Ordered(order, collection, file, workspace.owner() is not None)


def submit_find(
    root: str,
    config: Config,
    urls: Sequence[str],
    texts: Sequence[str],
    ignored: Sequence[str],
    collection: str,
    max_age_ms: int,
) -> Ordered:
    """Submit URLs with a find: these pages, and all pages that they lead to within the collection's
    scope, are searched.

    Raises the same errors as `submit`.
    """
    workspace = Workspace.open(root)
    order = new_order(
        workspace, "find", texts, folding_of(ignored), OrderScope(max_age_ms=max_age_ms)
    )
    write_order(workspace.storage, order)
    try:
        submitted = submit(root, config, urls, collection, operation=f"{FIND}:{order.id}")
    except BaseException:
        remove_order(workspace.storage, order.id)
        raise
    return Ordered(order, submitted.collection, submitted.file, submitted.owner is not None)


class FindResults:
    """The results of an order, read as they are committed."""

    def __init__(self, root: str, ordered: Ordered) -> None:
        self._workspace = Workspace.open(root)
        self._ordered = ordered
        self._state: LogState = self._workspace.state()
        self._tables = LiveTables(self._workspace, self._state)
        self._read_to = ordered.order.since

    def fresh(self) -> Iterator[StoredMatch]:
        """Yield the results since the last call."""
        self._state.refresh()
        head = self._state.head
        if head > self._read_to:
            yield from matches_in(
                self._tables.changes("matches", self._read_to), self._ordered.order.id
            )
        self._read_to = head

    def left(self) -> int | None:
        """Return the approximate number of remaining pages.

        None: the order is not started yet.

        Reads a table's column.
        """
        storage = self._workspace.storage
        if storage.size(f"{INBOX}/{self._ordered.file}") is not None:
            return None
        self._state.refresh()
        operation = pl.col("operation") == f"{FIND}:{self._ordered.order.id}"
        queued = (
            self._tables.scan("urls")
            .filter(operation & (pl.col("state") == UrlState.KNOWN.value))
            .select(pl.len())
        )
        discovered = self._tables.scan("found").filter(operation).select(pl.len())
        return int(queued.collect().item()) + int(discovered.collect().item())
