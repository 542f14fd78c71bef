"""A focused crawl, by the daemon of the workspace or in this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lycosa.config.settings import Config
from lycosa.core.parameters import texts
from lycosa.crawl.worker import Worker
from lycosa.hunt.requests import HuntHandle, ask_daemon
from lycosa.hunt.session import Event, HuntEnvironment, HuntOrder, HuntRequest, hunt
from lycosa.url.normalise import typed_url


def hunt_request(**parameters: Any) -> HuntRequest:
    """Return a request with the parameters of `HuntRequest`.

    Raises:
        UsageError: the strategy or the scope is unknown, or a seed is invalid.
    """
    seeds = map(typed_url, texts("seeds", parameters.get("seeds", ())))
    return HuntRequest(**{**parameters, "seeds": tuple(seeds)})


def run_hunt(
    root: str,
    config: Config,
    request: HuntRequest,
    on_event: Callable[[Event], None],
    on_start: Callable[[Worker | HuntHandle], None],
) -> Event:
    """Hunt, report the events, and return the last one.

    Raises:
        UsageError: the question, a seed or a setting is invalid.
        OwnedError: a crawl or another hunt uses the workspace.
        WorkError: the disk is full, or the archive or the log is damaged.
    """
    last: Event = {}

    def handle(event: Event) -> None:
        last.clear()
        last.update(event)
        on_event(event)

    handle_of_daemon = ask_daemon(root, request)
    if handle_of_daemon is None:
        hunt(HuntOrder(root, config, request), HuntEnvironment(handle, on_worker=on_start))
        return last
    handle({"event": "delegated"})
    on_start(handle_of_daemon)
    for event in handle_of_daemon.events():
        handle(event)
    return last
