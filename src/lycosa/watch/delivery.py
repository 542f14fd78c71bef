"""Telling of matches: a thread beside a crawl that follows the log, fills the outboxes of watches,
and has them delivered.

There is one a workspace: in the process that owns it. What is not delivered when that ends lies in
the outboxes, for the next one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from lycosa.config.settings import Config
from lycosa.core.errors import LycosaError, UsageError
from lycosa.matching.orders import SearchOrder, read_orders
from lycosa.notify.outbox import DeliveryWorker, Outbox, outboxes
from lycosa.notify.transports import Notifier, notifier_of
from lycosa.processes.threads import OnError, background_thread
from lycosa.store.workspace import Workspace
from lycosa.url.scope import hostname
from lycosa.watch.feed import MatchFeed, Place

NAME = "watch"
"""Of the outboxes' files."""

_HERE_S, _ELSEWHERE_S = 1.0, 5.0
_ORDERS_S = 3.0
_PATIENCE_S = 10.0
_TURN_S = 0.05


class WatchPost:
    """Begins with `start`; `finish` tells what is left, `close` ends it in any case. `say` gets
    lines for people.
    """

    def __init__(self, root: str, config: Config, say: Callable[[str], None]) -> None:
        self._workspace = Workspace.open(root)
        self._config = config
        self._say = say
        self._every_s = _HERE_S if self._workspace.storage.on_disk else _ELSEWHERE_S
        self._feed: MatchFeed | None = None
        self._orders: dict[str, SearchOrder] = {}
        self._boxes: dict[str, Outbox] = {}
        # how far each outbox has been filled; its own cursor stands where it last got something
        self._places: dict[str, Place] = {}
        self._next_orders = 0.0
        self._trouble = ""
        self._deliveries = DeliveryWorker(say)
        self._ending = threading.Event()
        self._thread = background_thread(self._run, name="watch-post", on_error=OnError.RESTART)
        self._started = False

    def start(self) -> None:
        self._started = True
        self._deliveries.start()
        self._thread.start()

    def finish(self) -> None:
        """Tell of all that is committed by now, as far as targets take it within a few seconds;
        then end.
        """
        if not self._started:
            return
        self._end()
        self._next_orders = 0.0
        self._look()
        deadline = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline and any(
            self._hopeful(box) for box in self._boxes.values()
        ):
            time.sleep(_TURN_S)
        self.close()
        for box in self._boxes.values():
            left = box.standing()
            if left.waiting:
                self._say(
                    f"undelivered notifications for {left.target}, kept for the next `lycosa run` "
                    f"or `crawl`: {left.waiting} "
                    f"({left.problem or 'the target is slow'})"
                )

    def close(self) -> None:
        """End; what is under way may take a little."""
        if self._started:
            self._end()
            self._deliveries.stop()

    def _end(self) -> None:
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._ending.is_set():
            self._look()
            self._ending.wait(self._every_s)

    def _look(self) -> None:
        """One round; what goes wrong is told once, and tried again in the next."""
        try:
            now = time.monotonic()
            if now >= self._next_orders:
                self._next_orders = now + _ORDERS_S
                self._take_orders()
            if self._boxes:
                self._fill()
            self._trouble = ""
        except (LycosaError, OSError) as error:
            if str(error) != self._trouble:
                self._say(f"watches: {error}")
            self._trouble = str(error)

    def _take_orders(self) -> None:
        storage = self._workspace.storage
        self._orders = read_orders(storage, self._orders)
        targets = {target for order in self._orders.values() for target in order.notify}
        for target in targets - self._boxes.keys():
            box = Outbox(storage, NAME, target, self._maker(target))
            self._boxes[target] = box
            self._deliveries.add(box)
        for target in self._boxes.keys() - targets:
            self._deliveries.drop(self._boxes.pop(target))
            self._places.pop(target, None)

    def _maker(self, target: str) -> Callable[[], Notifier]:
        return lambda: notifier_of(target, self._config)

    def _fill(self) -> None:
        if self._feed is None:
            self._feed = MatchFeed(self._workspace)
        moved = self._feed.refresh()
        excluded = self._feed.excluded() if moved else None
        for target, box in self._boxes.items():
            if excluded is not None:
                box.forget(excluded)
            wanted = {id: order for id, order in self._orders.items() if target in order.notify}
            place = self._places.get(target) or (
                Place.of(box.cursor) if box.cursor else _start(wanted)
            )
            room = box.room
            if place.entry > self._feed.head or not room or not wanted:
                continue
            notices, place = self._feed.after(place, wanted, room)
            if notices:
                box.put(notices, cursor=str(place))
                self._deliveries.wake()
            self._places[target] = place

    def _hopeful(self, box: Outbox) -> bool:
        standing = box.standing()
        return standing.waiting > 0 and not standing.fails


def _start(orders: Mapping[str, SearchOrder]) -> Place:
    return Place(min((order.since for order in orders.values()), default=0) + 1)


def empty_outboxes(workspace: Workspace) -> None:
    """Take notices about excluded pages out of all outboxes of a workspace in which nobody
    delivers.

    Raises:
        WorkspaceError: one is damaged.
    """
    state = workspace.state()
    for name, target in outboxes(workspace.storage):
        Outbox(workspace.storage, name, target, _nobody).forget(
            lambda url: state.excluded(url, hostname(url))
        )


def _nobody() -> Notifier:
    raise UsageError("notifications are not delivered here")
