"""`[[monitor]]`: a URL that is checked periodically, and the expected response."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from lycosa.config.section import DurationMs, SettingsSection

_TIMEOUT_SHARE, _CONFIRM_SHARE = 0.12, 0.15
"""Shares of the interval: time limit of a check, and delay before a confirming check. With three
confirming checks an outage is detected within 1 + 0.12 + 3 * 0.27 = 1.93 intervals of its start.
Calibrated with the noise in tests/uptime/test_world.py.
"""

_MAX_MS = 10_000


def _web_url(value: str) -> str:
    if not re.match(r"https?://[^/@\s?#]+([/?#]|$)", value, re.IGNORECASE):
        raise ValueError("write an http or https URL without a user name in it")
    return value


def _status(value: str) -> str:
    if not re.fullmatch(r"[1-5](\d\d|xx)", value):
        raise ValueError(
            f"{value!r} is not an HTTP status: write one, for example 200, or a "
            "class, for example 2xx"
        )
    return value


class Monitor(SettingsSection):
    """A URL that is checked for availability.

    Each check is a row of `visits` with kind `check`.
    """

    url: Annotated[str, AfterValidator(_web_url)] = Field(
        description="URL to check. Each URL can have one monitor."
    )
    name: str = Field(
        "", max_length=200, description="Name in notifications and lists. Empty: the URL."
    )
    every: DurationMs = Field(
        60_000, ge=1_000, le=86_400_000, description="Interval between two checks."
    )
    expect: str = Field(
        "",
        max_length=10_000,
        description="Text that the source of the page must contain, case-sensitive.",
    )
    status: tuple[Annotated[str, AfterValidator(_status)], ...] = Field(
        ("2xx", "3xx"),
        min_length=1,
        description="Accepted status codes. `2xx` accepts 200 to 299. Redirects are not followed.",
    )
    timeout: DurationMs = Field(
        0, ge=0, le=120_000, description="Time limit of a check. 0: 12 % of `every`, at most 10 s."
    )
    confirm: int = Field(
        3,
        ge=0,
        le=10,
        description="Number of further failed checks, each on a new connection, that confirm an "
        "outage.",
    )
    confirm_after: DurationMs = Field(
        0,
        ge=0,
        le=3_600_000,
        description="Delay before each confirming check, and before the check that confirms a "
        "recovery. 0: 15 % of `every`, at most 10 s.",
    )
    pause: DurationMs = Field(
        1_000,
        ge=0,
        description="Minimum delay between two checks of a host. The delay of the "
        "crawl for this host applies as well.",
    )
    certificate: DurationMs = Field(
        14 * 86_400_000,
        ge=0,
        description="Warn when the certificate expires within this time. 0: no warning.",
    )
    notify: tuple[str, ...] = Field(
        (), description="Notification targets: `webhook URL`, `command PROGRAM …` or `file PATH`."
    )

    @property
    def label(self) -> str:
        """The displayed name."""
        return self.name or self.url

    @property
    def timeout_ms(self) -> int:
        """Time limit of a check."""
        return self.timeout or max(500, min(_MAX_MS, round(self.every * _TIMEOUT_SHARE)))

    @property
    def confirm_after_ms(self) -> int:
        """Delay before a confirming check."""
        return self.confirm_after or min(_MAX_MS, round(self.every * _CONFIRM_SHARE))

    def accepts(self, status: int) -> bool:
        """Return whether a status is accepted."""
        return any(
            str(status) == each or (each.endswith("xx") and str(status)[:1] == each[0])
            for each in self.status
        )
