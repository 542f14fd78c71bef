"""The monitors of a workspace: those of lycosa.toml, and one file (`run/monitors/KEY.json`) each.

A file is created or deleted without stopping the crawl. The process that runs the checks applies
the change within seconds.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field

from pydantic import ValidationError

from lycosa.config.monitor import Monitor
from lycosa.config.section import first_fault
from lycosa.config.settings import Config
from lycosa.core.dataclass import dataclass, doc
from lycosa.core.errors import ConfigError, UrlError, UsageError
from lycosa.fetch.guard import is_public, named_pair
from lycosa.notify.transports import checked_target
from lycosa.store.storage.storage import Storage, json_documents
from lycosa.store.workspace import Workspace
from lycosa.url.keys import url_key
from lycosa.url.normalise import normalise
from lycosa.url.scope import hostname

FOLDER = "run/monitors"
_LAST_ADDED = "run/last-monitor"
"""A random ID, written with each monitor. A removed and added one has the same file name again."""


@dataclass(slots=True, frozen=True)
class StoredMonitor:
    """A monitor and its origin. `private`: it may have a private address."""

    monitor: Monitor
    configured: bool
    private: bool = True


@dataclass(frozen=True)
class MonitorInfo:
    """A monitor. `configured`: it is a [[monitor]] in lycosa.toml."""

    monitor: Monitor
    configured: bool
    running: bool = field(metadata=doc("Whether a process runs its checks."))


def monitors_of(storage: Storage, config: Config) -> dict[str, StoredMonitor]:
    """Return all monitors by their normalised URLs. Those of lycosa.toml have precedence.

    Raises:
        ConfigError: a URL in lycosa.toml is invalid, or occurs twice.
    """
    monitors: dict[str, StoredMonitor] = {}
    for monitor in config.monitor:
        try:
            url = normalise(monitor.url)
        except UrlError as error:
            raise ConfigError(f"[[monitor]]: {error}") from None
        if url in monitors:
            raise ConfigError(f"[[monitor]]: {url} occurs twice; a URL can have one monitor")
        monitors[url] = StoredMonitor(monitor.model_copy(update={"url": url}), configured=True)
    for _, document in json_documents(storage, FOLDER):
        private = bool(document.pop("private", True))
        with suppress(ValueError):  # pydantic's errors are ValueErrors
            monitor = Monitor.model_validate(document)
            stored = StoredMonitor(monitor, configured=False, private=private)
            monitors.setdefault(monitor.url, stored)
    return monitors


def list_monitors(root: str, config: Config) -> list[MonitorInfo]:
    """Return the monitors of lycosa.toml and of the workspace."""
    workspace = Workspace.open(root)
    running = workspace.owner() is not None
    return [
        MonitorInfo(each.monitor, each.configured, running)
        for each in monitors_of(workspace.storage, config).values()
    ]


def private_pairs(monitors: Mapping[str, StoredMonitor]) -> list[tuple[str, int]]:
    """Return (host, port) of the monitors that may have private addresses."""
    return [named_pair(url) for url, each in monitors.items() if each.private]


def add_monitor(
    root: str, config: Config, settings: Mapping[str, object], *, private: bool = True
) -> MonitorInfo:
    """Add a monitor; `settings` as in [[monitor]]. The workspace is created if necessary.

    Raises:
        UsageError: a setting is wrong, the URL is excluded, or it is already monitored.
        WorkspaceError: the workspace is damaged.
    """
    try:
        monitor = Monitor.model_validate(settings)
    except ValidationError as error:
        raise UsageError(first_fault(error, Monitor)) from None
    url = normalise(monitor.url)
    host = hostname(url).strip("[]")
    if not private and (":" in host or host.rpartition(".")[2].isdigit()) and not is_public(host):
        raise UsageError(
            f"{host} is not a public address: such monitors can only be added on the "
            "server itself (`lycosa monitor add`)"
        )
    monitor = with_targets(monitor.model_copy(update={"url": url}), config)
    workspace = Workspace.open_or_create(root)
    if workspace.state().excluded(url, hostname(url)):
        raise UsageError(
            f"{url} is excluded in this workspace (`lycosa exclude`) and cannot be monitored"
        )
    stored = monitors_of(workspace.storage, config).get(url)
    if stored is not None and stored.configured:
        raise UsageError(f"{url} is already monitored: it is a [[monitor]] in lycosa.toml")
    workspace.storage.make_folder(FOLDER)
    document = {**monitor.model_dump(mode="json"), "private": private}
    if not workspace.storage.create(
        _path(url), (json.dumps(document, ensure_ascii=False, indent=1) + "\n").encode(), mode=0o600
    ):
        raise UsageError(
            f"{url} is already monitored; to change its settings, run `lycosa monitor "
            f"remove {url}` first"
        )
    workspace.storage.replace(_LAST_ADDED, secrets.token_bytes(16))
    return MonitorInfo(monitor, configured=False, running=workspace.owner() is not None)


def remove_monitor(root: str, config: Config, url: str) -> None:
    """Remove a monitor. Its history is kept.

    Raises:
        UsageError: the URL is not monitored, or is monitored by lycosa.toml.
        WorkspaceError: there is no workspace.
    """
    workspace = Workspace.open(root)
    url = normalise(url)
    stored = monitors_of(workspace.storage, config).get(url)
    if stored is None:
        raise UsageError(f"{url} is not monitored; list the monitors with `lycosa monitor`")
    if stored.configured:
        raise UsageError(f"{url} is a [[monitor]] in lycosa.toml: remove it there")
    workspace.storage.remove(_path(url))


def forget_excluded(workspace: Workspace) -> None:
    """Remove the monitors of excluded URLs."""
    state = workspace.state()
    for url in monitors_of(workspace.storage, Config()):
        if state.excluded(url, hostname(url)):
            workspace.storage.remove(_path(url))


def signature(storage: Storage) -> tuple[bytes | None, Mapping[str, int]]:
    """Return a value that changes when monitors are added or removed."""
    times = {
        name: (storage.modified_at(f"{FOLDER}/{name}") or 0) if storage.on_disk else 0
        for name in storage.names(FOLDER)
    }
    return storage.read(_LAST_ADDED), times


def has_monitors(storage: Storage) -> bool:
    """Return whether monitors were added to the workspace."""
    return bool(storage.names(FOLDER))


def with_targets(monitor: Monitor, config: Config) -> Monitor:
    """Return a monitor with validated targets, as they are stored.

    Raises:
        UsageError: a target is invalid.
    """
    targets = tuple(dict.fromkeys(checked_target(each, config) for each in monitor.notify))
    return monitor.model_copy(update={"notify": targets})


def _path(url: str) -> str:
    return f"{FOLDER}/{url_key(url):016x}.json"
