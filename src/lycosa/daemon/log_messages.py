"""Report log entries to the user: commits at most once a minute, others as they come."""

from __future__ import annotations

from collections.abc import Callable

from lycosa.core.clock import Clock
from lycosa.core.units import number_of
from lycosa.store.log.entry import COMMIT, EXCLUDE, MERGE, PURGE, Entry
from lycosa.store.log.log import EntriesGone
from lycosa.store.workspace import Workspace

_LOOK_EVERY_MS = 1_000
_COMMITS_EVERY_MS = 60_000


class LogMessages:
    """Follows the log; `report` gets one line at a time."""

    def __init__(self, workspace: Workspace, report: Callable[[str], None], clock: Clock) -> None:
        self._workspace = workspace
        self._report = report
        self._clock = clock
        self._head = workspace.state().head
        self._next_look = 0
        self._next_commits = 0
        self._commits = self._pages = self._visits = 0

    def tick(self) -> None:
        """Report new entries; call it often. Raises WorkspaceError if the log is damaged."""
        now = self._clock.monotonic_ms()
        if now < self._next_look:
            return
        self._next_look = now + _LOOK_EVERY_MS
        try:
            entries = self._workspace.log.entries(self._head)
        except EntriesGone:
            self._head = self._workspace.state().head
            return
        for entry in entries:
            self._report_entry(entry)
        if self._commits and now >= self._next_commits:
            self._next_commits = now + _COMMITS_EVERY_MS
            self.report_commits()

    def report_commits(self) -> None:
        """Report the commits that were not reported yet."""
        if self._commits:
            self._report(
                f"committed {number_of(self._pages, 'page')} from "
                f"{number_of(self._visits, 'fetch', 'fetches')} in "
                f"{number_of(self._commits, 'commit')} (log entry {self._head})"
            )
        self._commits = self._pages = self._visits = 0

    def _report_entry(self, entry: Entry) -> None:
        self._head = entry.number
        if entry.kind == COMMIT:
            self._commits += 1
            self._pages += entry.counters.get("pages", 0)
            self._visits += entry.counters.get("visits", 0)
        elif entry.kind == MERGE:
            made = sum(len(files) for files in entry.files.values())
            self._report(
                f"compacted {number_of(len(entry.replaces), 'file')} into {made} (log entry "
                f"{entry.number})"
            )
        elif entry.kind in (EXCLUDE, PURGE):
            self._report(f"{entry.kind} (log entry {entry.number})")
