"""The settings files of the daemon: lycosa.toml and the seed files that it names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from lycosa.config.reading import parse_config
from lycosa.config.settings import Config
from lycosa.core.clock import Clock, Interval
from lycosa.core.errors import UsageError
from lycosa.crawl.session.planning import CrawlPlan, make_plan
from lycosa.crawl.session.workspace_config import read_settings
from lycosa.store.storage.storage import open_storage
from lycosa.store.workspace import CONFIGURATION

_POLL_MS = 1_000

_Signature = tuple[int, int, int]


class SettingsFiles:
    """Reads the settings files and notices their changes.

    A change counts once two looks, a second apart, see the same: not while a file is written.
    """

    def __init__(
        self, root: str, collections: tuple[str, ...], overrides: tuple[str, ...], clock: Clock
    ) -> None:
        self.source = os.path.join(root, CONFIGURATION)
        self._collections = collections
        self._overrides = overrides
        self._looks = Interval(clock, _POLL_MS)
        self._signatures = {self.source: _signature(self.source)}
        self._seen: dict[str, _Signature] = {}

    def read_plan(self, before: Mapping[str, Any], *, monitors: bool) -> CrawlPlan:
        """Read the plan; `before`, `monitors` and errors as of `make_plan`, and OSError."""
        text = read_settings(self.source)
        try:
            return make_plan(
                text,
                self.source,
                overrides=self._overrides,
                chosen=self._collections,
                before=before,
                monitors=monitors,
            )
        except UsageError:
            with suppress(UsageError):  # a missing seed file may be created
                self.watch(parse_config(text, self.source, self._overrides, {}))
            raise

    def watch(self, config: Config) -> None:
        """Watch lycosa.toml and the seed files of a configuration, and no others."""
        paths = [self.source, *(each.seed_file for each in config.collection if each.seed_file)]
        self._signatures = {path: self._signatures.get(path) or _signature(path) for path in paths}
        self._seen = {}

    def changed(self) -> bool:
        """Return whether a file has changed since the last change that was returned."""
        if not self._looks.is_due():
            return False
        seen = {path: _signature(path) for path in self._signatures}
        settled = seen != self._signatures and seen == self._seen
        self._seen = seen
        if settled:
            self._signatures = seen
        return settled


def _signature(path: str) -> _Signature:
    folder, name = os.path.split(path)
    try:
        if "://" in folder:
            storage = open_storage(folder)
            return storage.modified_at(name) or 0, storage.size(name) or 0, 0
        status = os.stat(path)
    except OSError:
        return 0, 0, 0
    return status.st_mtime_ns, status.st_size, status.st_ino
