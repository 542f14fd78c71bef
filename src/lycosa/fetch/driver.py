"""Runs libcurl's multi handle by its socket interface and epoll or `poll`.

Unlike with select, neither the number of connections nor the highest file descriptor matters, and
idle connections cost no time.
"""

from __future__ import annotations

import select
import time
from contextlib import suppress
from typing import Any

import pycurl

from lycosa.processes.platform import open_poller


def monotonic_ms() -> int:
    """Return real time for waiting on sockets; exchanges are dated by another clock."""
    return time.monotonic_ns() // 1_000_000


class Driver:
    """Runs easy handles concurrently.

    After `add`, call `step` repeatedly; `done` returns the handles that have ended.
    """

    def __init__(self, connections: int) -> None:
        """`connections`: maximum number of open idle connections, over all hosts."""
        self._poller = open_poller()
        # descriptor -> events that libcurl waits for; 0: none at present
        self._watched: dict[int, int] = {}
        self._timer_due: int | None = None
        self._others: set[int] = set()
        # handles that were added and not removed, including those that have ended
        self._running = 0
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._watch)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._set_timer)
        self._multi.setopt(pycurl.M_PIPELINING, pycurl.PIPE_MULTIPLEX)
        self._multi.setopt(pycurl.M_MAXCONNECTS, connections)

    def add(self, curl: Any) -> None:
        self._multi.add_handle(curl)
        self._running += 1

    def remove(self, curl: Any) -> None:
        """Remove a handle. If it has not ended, close its connection or stream."""
        self._multi.remove_handle(curl)
        self._running -= 1

    def watch_descriptor(self, descriptor: int) -> None:
        """Make `step` return also when this descriptor is readable."""
        self._others.add(descriptor)
        self._poller.register(descriptor, select.POLLIN)

    def step(self, until: int) -> None:
        """Process events, waiting for them at most until `until` (`monotonic_ms`)."""
        now = monotonic_ms()
        if self._timer_due is not None:
            if now >= self._timer_due:
                self._timer_due = None
                _, running = self._multi.socket_action(pycurl.SOCKET_TIMEOUT, 0)
                if running < self._running:
                    # a fast response was read completely in this call
                    until = now
                elif self._timer_due is not None:
                    until = min(until, self._timer_due)
            else:
                until = min(until, self._timer_due)
        for descriptor, events in self._poller.poll(max(0, until - now) / 1000):
            if not self._watched.get(descriptor):
                if descriptor in self._others:
                    continue
                self._forget(descriptor)
                continue
            action = pycurl.CSELECT_IN if events & select.POLLIN else 0
            if events & select.POLLOUT:
                action |= pycurl.CSELECT_OUT
            if events & (select.POLLERR | select.POLLHUP):
                action |= pycurl.CSELECT_ERR
            self._multi.socket_action(descriptor, action)

    def done(self) -> list[tuple[Any, int, str]]:
        """Return (handle, code, text) of handles that ended since the last call.

        Code 0 is success.
        """
        ended: list[tuple[Any, int, str]] = []
        left = 1
        while left:
            left, succeeded, failed = self._multi.info_read()
            ended += [(curl, 0, "") for curl in succeeded]
            ended += failed
        return ended

    def close(self) -> None:
        """Close all connections. Handles must have been removed."""
        self._multi.close()
        self._poller.close()

    def _watch(self, what: int, descriptor: int, multi: object, data: object) -> None:
        """Set the events of a socket that libcurl waits for (callback).

        Removal does not change epoll, because most connections are used again soon; the next event
        of such a descriptor does.
        """
        if what == pycurl.POLL_REMOVE:
            self._watched[descriptor] = 0
            return
        mask = (select.POLLIN if what & pycurl.POLL_IN else 0) | (
            select.POLLOUT if what & pycurl.POLL_OUT else 0
        )
        self._watched[descriptor] = mask
        try:
            self._poller.modify(descriptor, mask)
        except FileNotFoundError:
            self._poller.register(descriptor, mask)

    def _forget(self, descriptor: int) -> None:
        self._watched.pop(descriptor, None)
        with suppress(OSError):  # closed meanwhile: the kernel has removed it already
            self._poller.unregister(descriptor)

    def _set_timer(self, timeout_ms: int) -> None:
        """Set the time after which to call libcurl (callback); -1: never."""
        self._timer_due = None if timeout_ms < 0 else monotonic_ms() + timeout_ms
