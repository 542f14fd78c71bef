"""The reports of `lycosa uptime`: history from the tables, and how things stand from whoever makes
the checks now.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from lycosa.config.monitor import Monitor
from lycosa.config.settings import Config
from lycosa.core.clock import Clock, SystemClock
from lycosa.core.errors import UsageError
from lycosa.store.storage.storage import Storage
from lycosa.store.tables.live import read_live
from lycosa.store.workspace import Workspace
from lycosa.uptime.history import Interval, checks, outages, runs, with_blame
from lycosa.uptime.monitors import monitors_of
from lycosa.uptime.report import (
    WINDOWS,
    HostReport,
    Listed,
    Pages,
    availability,
    pages_of_host,
    urls_of_host,
)
from lycosa.uptime.session import LIVE
from lycosa.url.normalise import normalise, typed_url
from lycosa.url.scope import hostname


def list_monitors(root: str, config: Config, clock: Clock | None = None) -> Listed:
    """How everything that is watched fared over the last 24 hours.

    Raises:
        WorkspaceError: there is no workspace, or it is damaged.
    """
    now_ms = (clock or SystemClock()).now_ms()
    workspace = Workspace.open(root)
    monitors = _monitors(workspace.storage, config)
    day = WINDOWS["24h"]
    found = read_live(
        root, lambda tables: availability(tables, list(monitors), monitors, now_ms, longest_ms=day)
    )
    return Listed(found, live_standing(workspace))


def host_report(root: str, config: Config, what: str, clock: Clock | None = None) -> HostReport:
    """How a host or a URL fared over the last 30 days. The URL of a front page that is not
    monitored names its host.

    Raises:
        UsageError: nothing is known of it.
        WorkspaceError: there is no workspace, or it is damaged.
    """
    now_ms = (clock or SystemClock()).now_ms()
    workspace = Workspace.open(root)
    monitors = _monitors(workspace.storage, config)
    since_ms = now_ms - WINDOWS["30d"]
    pages: Pages | None = None
    url = normalise(typed_url(what))
    if (url in monitors and "://" in what) or urlsplit(url).path not in ("", "/"):
        name, urls = url, [url]
    else:
        name = hostname(url)
        known = read_live(root, lambda tables: urls_of_host(tables, name, since_ms))
        urls = sorted({*known, *(url for url in monitors if hostname(url) == name)})
        pages = read_live(root, lambda tables: pages_of_host(tables, name, since_ms))
    found = read_live(root, lambda tables: availability(tables, urls, monitors, now_ms))
    if not (pages and pages.visits) and all(
        each.last is None and not each.watched for each in found
    ):
        raise UsageError(
            f"no data about {name}: it is not monitored (`lycosa uptime add`) and "
            "was not visited in the last 30 days"
        )
    return HostReport(name, found, pages, live_standing(workspace))


def all_outages(
    root: str, config: Config, what: str = "", clock: Clock | None = None
) -> list[Interval]:
    """The outages of 30 days, the newest first: of all that is watched, or of a host or URL. Raises
    as `host_report` does.
    """
    clock = clock or SystemClock()
    if what:
        found = [
            outage
            for each in host_report(root, config, what, clock).monitors
            for outage in each.outages
        ]
    else:
        monitors = _monitors(Workspace.open(root).storage, config)
        since_ms = clock.now_ms() - WINDOWS["30d"]
        found = read_live(
            root,
            lambda tables: with_blame(
                tables, outages(runs(checks(tables, list(monitors), since_ms)), monitors)
            ),
        )
    return sorted(found, key=lambda each: (-each.since, each.url))


def live_standing(workspace: Workspace) -> Mapping[str, Any] | None:
    """What the process that makes checks here says of them; None if there is none."""
    if workspace.owner() is None:
        return None
    try:
        document = json.loads(workspace.storage.read(LIVE) or b"null")
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def _monitors(storage: Storage, config: Config) -> dict[str, Monitor]:
    return {url: each.monitor for url, each in monitors_of(storage, config).items()}
