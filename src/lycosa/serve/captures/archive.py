"""The archive behind the pages: opened at the first question."""

from __future__ import annotations

import atexit
import threading

from lycosa.captures.content import Versions
from lycosa.crawl.session.workspace_config import read_config


class Archive:
    """One `Versions` for all requests; its child process, if a document was read, ends with this
    process.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._opening = threading.Lock()
        self._versions: Versions | None = None

    def versions(self) -> Versions:
        """Raises WorkspaceError if there is no workspace, ConfigError if its settings are wrong."""
        if self._versions is None:
            with self._opening:
                if self._versions is None:
                    self._versions = Versions(self._root, read_config(self._root, ()))
                    atexit.register(self._versions.close)
        return self._versions
