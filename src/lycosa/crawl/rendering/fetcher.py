"""Between the worker and its fetcher: pages that are to be rendered come when they are."""

from __future__ import annotations

import time

from lycosa.core.records import Exchange, Request, VisitKind
from lycosa.crawl.documents.queue import DocumentFetcher
from lycosa.crawl.rendering.rendering import Renders
from lycosa.processes.stopping import StopFlag

_SLICE_MS = 10  # while pages are in the browser, how long to listen to the network alone


class RenderFetcher:
    """A fetcher whose exchanges come when they are rendered, if they are to be."""

    def __init__(self, fetcher: DocumentFetcher, renders: Renders) -> None:
        self._fetcher = fetcher
        self._renders = renders
        self._requisites: list[Exchange] = []  # heard when they are archived

    @property
    def active(self) -> int:
        """Exchanges that were started and not yet handed back."""
        return self._fetcher.active + self._renders.pending

    @property
    def fetching(self) -> int:
        """Those of them that the network is busy with."""
        return self._fetcher.fetching

    @property
    def unparsed(self) -> int:
        """Documents that have come and are not read yet."""
        return self._fetcher.unparsed

    def start(self, request: Request) -> None:
        """Begin an exchange."""
        self._fetcher.start(request)

    def wait(self, timeout_ms: int) -> list[Exchange]:
        """What has finished, waiting for the first one at most `timeout_ms`; less if a page asks
        for something.
        """
        renders = self._renders
        for exchange in self._requisites:
            renders.record_response(exchange)
        self._requisites.clear()
        finished: list[Exchange] = []
        deadline = time.monotonic_ns() // 1_000_000 + timeout_ms
        while True:
            left = max(deadline - time.monotonic_ns() // 1_000_000, 0)
            took = min(left, _SLICE_MS) if renders.pending else left
            if self._fetcher.active:
                for exchange in self._fetcher.wait(took):
                    if exchange.kind == VisitKind.REQUISITE:
                        self._requisites.append(exchange)
                    if not renders.takes(exchange):
                        finished.append(exchange)
            elif renders.pending:
                time.sleep(took / 1000)
            prerequisites = len(renders.prerequisites)
            finished += renders.pump()
            if (
                finished
                or not left
                or not self.active
                or len(renders.prerequisites) != prerequisites
            ):
                return finished

    def sleep(self, timeout_ms: int, wake: StopFlag) -> None:
        """Let time pass while nothing is under way, until `wake` is set at the latest."""
        self._renders.pump()
        self._fetcher.sleep(timeout_ms, wake)

    def stop(self) -> None:
        """End what is under way on the network."""
        self._fetcher.stop()

    def leave(self) -> None:
        """Read and render no more: what has come is archived."""
        self._fetcher.leave()
        self._renders.leave()

    def close(self) -> None:
        """Give connections back, end the children and the browser."""
        self._renders.close()
        self._fetcher.close()
