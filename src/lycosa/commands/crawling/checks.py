"""`lycosa monitor run`: availability checks without a crawl.

The process owns the workspace like a crawl and commits the checks.
"""

from __future__ import annotations

import signal
from collections.abc import Callable

from lycosa.config.settings import Config
from lycosa.core.clock import Clock, SystemClock
from lycosa.core.errors import UsageError
from lycosa.crawl.session.session import SessionOptions, open_session
from lycosa.crawl.session.worker_status import workspace_disk
from lycosa.maintenance.upkeep import Upkeep
from lycosa.processes.memory import tune_memory
from lycosa.store.coordination.owner import Owner
from lycosa.store.workspace import Workspace
from lycosa.uptime.monitors import monitors_of
from lycosa.uptime.session import Uptime

COMMAND = "monitor run"


def run_checks(
    root: str, config: Config, report: Callable[[str], None], clock: Clock | None = None
) -> None:
    """Run the checks until SIGTERM or SIGINT (main thread only). `report` gets lines of text.

    Raises:
        UsageError: there are no monitors, or a setting is wrong.
        OwnedError: another process uses the workspace; a daemon runs the checks itself.
        WorkError: the disk is full, or the log is damaged.
    """
    clock = clock or SystemClock()
    tune_memory()
    workspace = Workspace.open_or_create(root)
    monitors = monitors_of(workspace.storage, config)
    if not monitors:
        raise UsageError(
            "there are no monitors: add one with `lycosa monitor add URL` or as a "
            "[[monitor]] in lycosa.toml"
        )
    with workspace.own(COMMAND, clock, report) as owner:
        plural = "s" if len(monitors) != 1 else ""
        started = f"checking {len(monitors)} URL{plural}; stop with Ctrl-C"
        _run(workspace, config, owner, clock, report, started)


def _run(
    workspace: Workspace,
    config: Config,
    owner: Owner,
    clock: Clock,
    report: Callable[[str], None],
    started: str,
) -> None:
    upkeep = Upkeep(workspace, config, clock)
    space = workspace_disk(workspace.storage, config)

    def tick() -> None:
        session.worker.dispatcher.pause(not space.check())
        upkeep.tick(has_space=space.enough)
        owner.touch()
        uptime.tick()

    options = SessionOptions(forever=True)
    session = open_session(workspace, config, (), options, command="uptime", clock=clock)
    uptime = Uptime(workspace, session.crawl, session.worker, config, clock, report)
    handlers = {
        number: signal.signal(number, lambda number, frame: session.worker.stop())
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        session.load()
        uptime.tick()
        session.worker.ticks.append(tick)
        report(started)
        session.worker.run()
        uptime.close()
        session.claim.release()
    finally:
        uptime.close()
        session.close()
        upkeep.close()
        for number, handler in handlers.items():
            signal.signal(number, handler)
