"""How one monitored page stands, check by check: well, failing, down, recovering. Pure; told by
every check, or by runs of equal ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from lycosa.uptime.verdict import UP

RECOVERED = 2
"""So many checks in a row must find a page well before it counts as up again: one that flaps is
down.
"""


class Change(StrEnum):
    """What a check changed."""

    NONE = ""
    FAILED = "failed"  # it may be nothing: look again soon
    DOWN = "down"  # that is confirmed
    RECOVERS = "recovers"  # well once after an outage: look again soon
    UP = "up"  # that is confirmed


@dataclass(slots=True)
class Standing:
    """Times in ms since 1970, of the checks' beginnings. `since`: of the first of the failed checks
    in a row, and of an outage; `well_at`: of the last check that found it well; `up_at`: of the
    first such after an outage.
    """

    down: bool = False
    since: int = 0
    fails: int = 0
    oks: int = 0
    up_at: int = 0
    cause: str = ""
    text: str = ""
    well_at: int = 0

    def take(
        self, verdict: str, text: str, at: int, confirm: int, *, count: int = 1, last_at: int = 0
    ) -> Change:
        """One more check, or `count` of the same kind up to `last_at`. `confirm`: failed checks
        beyond the first that make an outage.
        """
        return (
            self._well(at, count, last_at or at)
            if verdict == UP
            else self._failed(verdict, text, at, confirm, count)
        )

    def forget(self) -> None:
        """The failed checks so far say nothing of the page."""
        self.fails = self.since = 0

    def _well(self, at: int, count: int, last_at: int) -> Change:
        self.well_at = last_at
        if not self.down:
            self.forget()
            return Change.NONE
        if not self.oks:
            self.up_at = at
        self.oks += count
        if self.oks < RECOVERED:
            return Change.RECOVERS
        self.down = False
        self.forget()
        return Change.UP

    def _failed(self, verdict: str, text: str, at: int, confirm: int, count: int) -> Change:
        self.oks = 0
        if self.down:
            self.fails += count
            return Change.NONE
        if not self.fails:
            self.since = at
        self.fails += count
        self.cause, self.text = verdict, text
        if self.fails <= confirm:
            return Change.FAILED
        self.down = True
        return Change.DOWN
