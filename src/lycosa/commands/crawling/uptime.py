"""`lycosa uptime watch`: checks of availability without a crawl. It owns the workspace as a crawl
would, and commits what it found.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType

from lycosa.config.settings import Config
from lycosa.core.clock import Clock, SystemClock
from lycosa.core.errors import UsageError
from lycosa.crawl.session.session import SessionOptions, open_session
from lycosa.maintenance.upkeep import Upkeep
from lycosa.processes.disk_space import DiskSpace
from lycosa.processes.memory import tune_memory
from lycosa.store.coordination.leadership import require_no_leader
from lycosa.store.workspace import Workspace
from lycosa.uptime.monitors import monitors_of
from lycosa.uptime.session import Uptime

COMMAND = "uptime watch"


def watch(
    root: str, config: Config, say: Callable[[str], None], clock: Clock | None = None
) -> None:
    """Check what is watched until SIGTERM or SIGINT. Main thread only. `say` gets lines for people.

    Raises:
        UsageError: there is nothing to watch, or a setting is wrong.
        OwnedError: somebody crawls in this workspace; a daemon makes the checks itself.
        WorkError: the disk is full, or the log is damaged: the message says which.
    """
    clock = clock or SystemClock()
    tune_memory()
    workspace = Workspace.open_or_create(root)
    monitors = monitors_of(workspace.storage, config)
    if not monitors:
        raise UsageError(
            "there are no monitors: add one with `lycosa uptime add URL` or as a "
            "[[monitor]] in lycosa.toml"
        )
    with workspace.own(COMMAND, clock) as owner:
        require_no_leader(workspace.storage)
        upkeep = Upkeep(workspace, config, clock)
        here = workspace.storage
        room = DiskSpace(here.root if here.on_disk else here.scratch_dir(), config.run.disk_reserve)
        ticks: list[Callable[[], object]] = [owner.touch]

        def tick() -> None:
            session.worker.dispatcher.pause(not room.look())
            upkeep.tick(room=room.enough)
            for each in ticks:
                each()

        session = open_session(
            workspace,
            config,
            (),
            SessionOptions(forever=True, tick=tick),
            command="uptime",
            clock=clock,
        )
        uptime = Uptime(workspace, session.crawl, session.worker, config, clock, say)

        def stop(number: int, frame: FrameType | None) -> None:
            session.worker.stop()

        former = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            session.take_up()
            uptime.tick()
            ticks.append(uptime.tick)
            say(
                f"checking {len(monitors)} URL{'s' if len(monitors) != 1 else ''}; stop with Ctrl-C"
            )
            session.worker.run()
            uptime.close()
            session.claim.release()
        finally:
            uptime.close()
            session.close()
            upkeep.close()
            for number, handler in former.items():
                signal.signal(number, handler)
