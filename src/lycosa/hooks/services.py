"""Services of plug-ins that run beside a crawl, each in threads of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from lycosa.hooks.plugins import installed_plugins


class CrawlService(Protocol):
    """What the hook `crawl_service` returns."""

    def start(self) -> None:
        """Start; called once the crawl holds the workspace."""
        ...

    def finish(self) -> None:
        """Do what is left, within a few seconds, and end."""
        ...

    def close(self) -> None:
        """End now. Called in any case, after `finish` too."""
        ...


class CrawlServices:
    """The services of all plug-ins for one crawl."""

    def __init__(self, root: str, config: Any, report: Callable[[str], None]) -> None:
        self._services: list[CrawlService] = installed_plugins().call(
            "crawl_service", root=root, config=config, report=report
        )

    def start(self) -> None:
        for service in self._services:
            service.start()

    def finish(self) -> None:
        for service in self._services:
            service.finish()

    def close(self) -> None:
        for service in self._services:
            service.close()
