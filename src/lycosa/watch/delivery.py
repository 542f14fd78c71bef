"""Delivers matches: a thread of the crawl follows the log and fills the outboxes of the watches.

There is one per workspace, in the process that owns it. Undelivered notifications stay in the
outboxes for the next process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial

from lycosa.config.settings import Config
from lycosa.core.errors import LycosaError, UsageError
from lycosa.crawl.documents.pool import document_limits
from lycosa.hooks import hook
from lycosa.matching.orders import SearchOrder, read_orders
from lycosa.notify.outbox import DeliveryWorker, Outbox, outboxes
from lycosa.notify.transports import Notifier, notifier_of
from lycosa.processes.threads import PollingThread
from lycosa.store.workspace import Workspace
from lycosa.url.scope import hostname
from lycosa.watch.feed import FeedPosition, MatchFeed

NAME = "watch"
"""Prefix of the names of outbox files."""

_LOCAL_POLL_S, _REMOTE_POLL_S = 1.0, 5.0
_ORDERS_S = 3.0
_FINISH_TIMEOUT_S = 10.0
_FINISH_POLL_S = 0.05


class MatchDelivery:
    """Follows the log after `start`; `finish` delivers the rest, `close` ends at once.

    `report` gets a line for each problem.
    """

    def __init__(self, root: str, config: Config, report: Callable[[str], None]) -> None:
        self._workspace = Workspace.open(root)
        self._config = config
        self._report = report
        self._feed: MatchFeed | None = None
        self._orders: dict[str, SearchOrder] = {}
        self._boxes: dict[str, Outbox] = {}
        # by target: read up to here; the cursor of an outbox is at its last notification
        self._positions: dict[str, FeedPosition] = {}
        self._next_orders = 0.0
        self._deliveries = DeliveryWorker(report)
        poll_s = _LOCAL_POLL_S if self._workspace.storage.on_disk else _REMOTE_POLL_S
        self._polling = PollingThread(self._poll, poll_s, report, name="watch-post")

    def start(self) -> None:
        self._deliveries.start()
        self._polling.start()

    def finish(self) -> None:
        """Deliver the committed matches that targets accept within seconds; then end."""
        if not self._polling.started:
            return
        self._polling.end()
        self._next_orders = 0.0
        self._polling.poll()
        deadline = time.monotonic() + _FINISH_TIMEOUT_S
        while time.monotonic() < deadline and any(
            self._is_deliverable(box) for box in self._boxes.values()
        ):
            time.sleep(_FINISH_POLL_S)
        self.close()
        for box in self._boxes.values():
            left = box.state()
            if left.waiting:
                self._report(
                    f"undelivered notifications for {left.target}, kept for the next `lycosa run` "
                    f"or `crawl`: {left.waiting} "
                    f"({left.problem or 'the target is slow'})"
                )

    def close(self) -> None:
        """Stop the threads. Running deliveries are completed if that takes a few seconds."""
        self._polling.end()
        self._deliveries.stop()

    def _poll(self) -> str:
        try:
            now = time.monotonic()
            if now >= self._next_orders:
                self._next_orders = now + _ORDERS_S
                self._load_orders()
            if self._boxes:
                self._fill()
        except (LycosaError, OSError) as error:
            return f"watches: {error}"
        return ""

    def _load_orders(self) -> None:
        storage = self._workspace.storage
        self._orders = read_orders(storage, self._orders)
        targets = {target for order in self._orders.values() for target in order.notify}
        for target in targets - self._boxes.keys():
            box = Outbox(storage, NAME, target, partial(notifier_of, target, self._config))
            self._boxes[target] = box
            self._deliveries.add(box)
        for target in self._boxes.keys() - targets:
            self._deliveries.drop(self._boxes.pop(target))
            self._positions.pop(target, None)

    def _fill(self) -> None:
        if self._feed is None:
            self._feed = MatchFeed(self._workspace, document_limits(self._config))
        moved = self._feed.refresh()
        excluded = self._feed.excluded() if moved else None
        for target, box in self._boxes.items():
            if excluded is not None:
                box.forget(excluded)
            orders = {id: order for id, order in self._orders.items() if target in order.notify}
            position = self._positions.get(target) or (
                FeedPosition.of(box.cursor) if box.cursor else _start_position(orders)
            )
            free_slots = box.free_slots
            if position.entry > self._feed.head or not free_slots or not orders:
                continue
            notices, position = self._feed.after(position, orders, free_slots)
            if notices:
                box.put(notices, cursor=str(position))
                self._deliveries.wake()
            self._positions[target] = position

    def _is_deliverable(self, box: Outbox) -> bool:
        state = box.state()
        return state.waiting > 0 and not state.fails


def _start_position(orders: Mapping[str, SearchOrder]) -> FeedPosition:
    return FeedPosition(min((order.since for order in orders.values()), default=0) + 1)


def empty_outboxes(workspace: Workspace) -> None:
    """Remove notifications about excluded pages from all outboxes of an idle workspace.

    Raises:
        WorkspaceError: one is damaged.
    """
    state = workspace.state()
    for name, target in outboxes(workspace.storage):
        Outbox(workspace.storage, name, target, no_notifier).forget(
            lambda url: state.excluded(url, hostname(url))
        )


def no_notifier() -> Notifier:
    """Refuse to deliver: for outboxes that are only read or cleaned."""
    raise UsageError("notifications are not delivered here")


@hook
def crawl_service(root: str, config: Config, report: Callable[[str], None]) -> MatchDelivery:
    return MatchDelivery(root, config, report)
