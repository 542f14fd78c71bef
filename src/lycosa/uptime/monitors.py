"""The monitors of a workspace: those of lycosa.toml, and those that were added, one small file each
(`run/monitors/KEY.json`).

Adding is creating a file and removing is deleting it, so neither needs the crawl to stand still,
and whoever makes checks in the workspace sees it within seconds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from lycosa.config.monitor import Monitor
from lycosa.config.section import first_fault
from lycosa.config.settings import Config
from lycosa.core.errors import ConfigError, UrlError, UsageError
from lycosa.crawl.session.single_fetch import named_pair
from lycosa.fetch.guard import is_public
from lycosa.notify.transports import checked_target
from lycosa.store.coordination.owner import OwnerNote
from lycosa.store.storage.storage import Storage
from lycosa.store.workspace import Workspace
from lycosa.url.keys import url_key
from lycosa.url.normalise import normalise
from lycosa.url.scope import hostname

FOLDER = "run/monitors"


@dataclass(slots=True, frozen=True)
class Kept:
    """A monitor and where it is from. `private`: its address may be one that is not public, for the
    operator named it.
    """

    monitor: Monitor
    configured: bool
    private: bool = True


@dataclass(slots=True, frozen=True)
class Added:
    """What was added, and who makes checks in the workspace now, if somebody does."""

    monitor: Monitor
    owner: OwnerNote | None


def monitors_of(storage: Storage, config: Config) -> dict[str, Kept]:
    """All monitors by their normalised URLs. One of lycosa.toml counts before one that was added.

    Raises:
        ConfigError: a URL in lycosa.toml cannot be used.
    """
    found: dict[str, Kept] = {}
    for monitor in config.monitor:
        try:
            url = normalise(monitor.url)
        except UrlError as error:
            raise ConfigError(f"[[monitor]]: {error}") from None
        found[url] = Kept(monitor.model_copy(update={"url": url}), configured=True)
    for name in sorted(storage.names(FOLDER)):
        kept = _read(storage, name)
        if kept is not None:
            found.setdefault(kept.monitor.url, kept)
    return found


def private_pairs(kept: Mapping[str, Kept]) -> list[tuple[str, int]]:
    """(host, port) of the monitors that may be reached at any address."""
    return [named_pair(url) for url, each in kept.items() if each.private]


def add_monitor(
    root: str, config: Config, settings: Mapping[str, object], *, private: bool = True
) -> Added:
    """Add a monitor; `settings` as in [[monitor]]. There must be a workspace, or a collection that
    makes one.

    Raises:
        UsageError: a setting is wrong, the URL is excluded, or it is watched already.
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
            "server itself (`lycosa uptime add`)"
        )
    targets = tuple(dict.fromkeys(checked_target(each, config) for each in monitor.notify))
    monitor = monitor.model_copy(update={"url": url, "notify": targets})
    workspace = Workspace.open_or_create(root)
    if workspace.state().excluded(url, hostname(url)):
        raise UsageError(
            f"{url} is excluded in this workspace (`lycosa exclude`) and cannot be monitored"
        )
    if any(
        each.configured
        for known, each in monitors_of(workspace.storage, config).items()
        if known == url
    ):
        raise UsageError(f"{url} is already monitored: it is a [[monitor]] in lycosa.toml")
    workspace.storage.make_folder(FOLDER)
    document = {**monitor.model_dump(mode="json"), "private": private}
    if not workspace.storage.create(
        _path(url), (json.dumps(document, ensure_ascii=False, indent=1) + "\n").encode(), mode=0o600
    ):
        raise UsageError(
            f"{url} is already monitored; to change its settings, run `lycosa uptime "
            f"remove {url}` first"
        )
    return Added(monitor, workspace.owner())


def remove_monitor(root: str, config: Config, url: str) -> None:
    """Watch a URL no more; its history stays.

    Raises:
        UsageError: it is not watched, or lycosa.toml says that it is.
        WorkspaceError: there is no workspace.
    """
    workspace = Workspace.open(root)
    url = normalise(url)
    known = monitors_of(workspace.storage, config).get(url)
    if known is None:
        raise UsageError(f"{url} is not monitored; list the monitors with `lycosa uptime`")
    if known.configured:
        raise UsageError(f"{url} is a [[monitor]] in lycosa.toml: remove it there")
    workspace.storage.remove(_path(url))


def forget_excluded(workspace: Workspace) -> None:
    """Remove the monitors of what is excluded by the log."""
    state = workspace.state()
    for url, kept in monitors_of(workspace.storage, Config()).items():
        if not kept.configured and state.excluded(url, hostname(url)):
            workspace.storage.remove(_path(url))


def signature(storage: Storage) -> tuple[tuple[str, int], ...]:
    """Changes when monitors are added or removed: cheap to ask."""
    names = sorted(storage.names(FOLDER))
    return tuple(
        (name, (storage.modified_at(f"{FOLDER}/{name}") or 0) if storage.on_disk else 0)
        for name in names
    )


def has_monitors(storage: Storage) -> bool:
    """Whether monitors were added here."""
    return bool(storage.names(FOLDER))


def with_targets(kept: Kept, config: Config) -> Monitor:
    """A monitor with its targets as they are kept: of those that were added that is so already.

    Raises:
        UsageError: one of lycosa.toml has a target that is wrong.
    """
    if not kept.configured:
        return kept.monitor
    targets = tuple(dict.fromkeys(checked_target(each, config) for each in kept.monitor.notify))
    return kept.monitor.model_copy(update={"notify": targets})


def _read(storage: Storage, name: str) -> Kept | None:
    """None for a file that was just removed, or is none of ours."""
    try:
        document = json.loads(storage.read(f"{FOLDER}/{name}") or b"null")
        private = bool(document.pop("private", True))
        return Kept(Monitor.model_validate(document), configured=False, private=private)
    except (ValueError, AttributeError, RecursionError):  # pydantic's errors are ValueErrors
        return None


def _path(url: str) -> str:
    return f"{FOLDER}/{url_key(url):016x}.json"
