"""Add, list and remove watches, and list their matches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from datetime import UTC, datetime

from lycosa.config.settings import Config
from lycosa.core.dataclass import dataclass, doc
from lycosa.core.errors import NameTaken, UsageError
from lycosa.core.units import format_time
from lycosa.matching.matches import StoredMatch, matches_of
from lycosa.matching.normalise import folding_of
from lycosa.matching.orders import (
    OrderScope,
    SearchOrder,
    find_order,
    new_order,
    read_orders,
    remove_order,
    write_order,
)
from lycosa.notify.outbox import DeliveryState, Outbox
from lycosa.notify.transports import checked_target
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from lycosa.url.site_name import SiteScope
from lycosa.watch.delivery import NAME, no_notifier


@dataclass(frozen=True)
class WatchInfo:
    """A watch and the state of its notifications."""

    id: str
    name: str
    texts: Sequence[str]
    ignore: Sequence[str]
    collections: Sequence[str]
    created_at: str = field(metadata=doc("UTC, ISO 8601."))
    notify: Sequence[DeliveryState] = field(
        metadata=doc("Delivery state of each target, without parts of a URL that may be secret.")
    )
    running: bool = field(metadata=doc("Whether a running crawl applies it."))


def add_watch(
    root: str,
    config: Config,
    texts: Sequence[str],
    ignored: Sequence[str] = (),
    *,
    name: str = "",
    collections: Sequence[str] = (),
    notify: Sequence[str] = (),
) -> WatchInfo:
    """Search every page that is fetched from now on for texts.

    Raises:
        UsageError: nothing to look for, an unknown collection, a target that cannot be used.
        NameTaken: another watch has the name; without a name, the first text is the name.
        WorkspaceError: there is no workspace, or it is damaged.
    """
    workspace = Workspace.open(root)
    names = {*(each.name for each in config.collection), *workspace.state().settings}
    for collection in collections:
        if names and collection not in names:
            raise UsageError(
                f"unknown collection {collection!r}; available: {', '.join(sorted(names))}"
            )
    targets = [checked_target(target, config) for target in notify]
    order = new_order(
        workspace,
        "watch",
        texts,
        folding_of(ignored),
        OrderScope(collections),
        name=name,
        notify=targets,
    )
    for other in read_orders(workspace.storage).values():
        if other.kind == "watch" and order.name in (other.name, other.id):
            raise NameTaken(
                f"there is a watch with the name {order.name!r} ({other.id}): choose another name, "
                "or remove that watch first"
            )
    write_order(workspace.storage, order)
    return _status(workspace, order)


def list_watches(root: str) -> list[WatchInfo]:
    """Return all watches, oldest first. Raises WorkspaceError."""
    workspace = Workspace.open(root)
    return [
        _status(workspace, order)
        for order in read_orders(workspace.storage).values()
        if order.kind == "watch"
    ]


def remove_watch(root: str, name: str) -> WatchInfo:
    """Remove a watch by ID or by a unique name. Its matches stay.

    Raises:
        UsageError: there is none.
    """
    storage = Workspace.open(root).storage
    order = find_order(storage, name)
    remove_order(storage, order.id)
    return _info(order, (), running=False)


def matches(
    root: str,
    name: str = "",
    *,
    since: datetime | None = None,
    site: str = "",
    most: int | None = None,
    every: bool = False,
) -> tuple[list[StoredMatch], int]:
    """Return matches, latest first, and their number: of one watch or find (by ID, or a watch by
    its name), or of all.

    Raises:
        UsageError: there is no such watch, and never was.
    """
    workspace = Workspace.open(root)
    tables = LiveTables(workspace)
    if since is not None and since.tzinfo is None:
        since = since.replace(tzinfo=UTC)
    ids: tuple[str, ...] = ()
    if name:
        ids = (name,)
        if not name.startswith(("watch-", "find-")):
            ids = (find_order(workspace.storage, name).id,)
    return matches_of(
        tables, ids, since=since, site=SiteScope.of(site) if site else None, most=most, every=every
    )


def _status(workspace: Workspace, order: SearchOrder) -> WatchInfo:
    boxes = [Outbox(workspace.storage, NAME, target, no_notifier) for target in order.notify]
    running = workspace.owner() is not None
    return _info(order, [box.state() for box in boxes], running=running)


def _info(order: SearchOrder, notify: Sequence[DeliveryState], *, running: bool) -> WatchInfo:
    return WatchInfo(
        order.id,
        order.name,
        order.texts,
        order.folding.names,
        order.collections,
        format_time(order.created_at),
        notify,
        running,
    )
