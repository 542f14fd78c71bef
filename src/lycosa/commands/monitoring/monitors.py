"""Monitors of a workspace as the models that are printed and served."""

from __future__ import annotations

from collections.abc import Mapping

from lycosa.commands.feature_models import MonitorInfo
from lycosa.config.settings import Config
from lycosa.store.workspace import Workspace
from lycosa.uptime.monitors import add_monitor, monitors_of


def list_monitors(root: str, config: Config) -> list[MonitorInfo]:
    """Return the monitors of lycosa.toml and of the workspace."""
    workspace = Workspace.open(root)
    running = workspace.owner() is not None
    return [
        MonitorInfo(each.monitor, each.configured, running)
        for each in monitors_of(workspace.storage, config).values()
    ]


def create_monitor(
    root: str, config: Config, settings: Mapping[str, object], *, private: bool = True
) -> MonitorInfo:
    """Add a monitor. `private`: as of `lycosa.uptime.monitors.add_monitor`, which raises."""
    stated = {name: value for name, value in settings.items() if value not in ("", None)}
    monitor, running = add_monitor(root, config, stated, private=private)
    return MonitorInfo(monitor, configured=False, running=running)
