"""Watches as the model that is printed and served."""

from __future__ import annotations

from lycosa.commands.feature_models import WatchInfo
from lycosa.core.units import format_time
from lycosa.watch.watches import WatchStatus, remove_watch


def watch_info(watch: WatchStatus) -> WatchInfo:
    """Return a watch with the state of its notifications."""
    order = watch.order
    return WatchInfo(
        id=order.id,
        name=order.name,
        texts=order.texts,
        ignore=order.folding.names,
        collections=order.collections,
        created_at=format_time(order.created_at),
        notify=watch.targets,
        running=watch.running,
    )


def remove(root: str, name: str) -> WatchInfo:
    """Remove a watch by ID or name, and keep its matches.

    Raises:
        UsageError: there is none.
    """
    order = remove_watch(root, name)
    return watch_info(WatchStatus(order, (), running=False))
