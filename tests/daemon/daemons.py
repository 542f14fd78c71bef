"""A `lycosa run` in a process of its own, over small sites that a real nginx serves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from lycosa.daemon.daemon import live_status
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from tests.servers.nginx import Nginx, Server, nginx
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
RUN = (sys.executable, "-m", "lycosa.cli.main")
LIMIT_S = 60.0

QUICK = """
[fetch]
retry_wait = "100ms"
[crawl]
commit_interval = "300ms"
[index]
interval = "300ms"
"""


def collection(name: str, *seeds: str, more: str = "") -> str:
    """A `[[collection]]` that does not wait. Pages made up for a test say the same: to the rules
    about content they are traps.
    """
    listed = ", ".join(f'"{seed}"' for seed in seeds)
    return (
        f'[[collection]]\nname = "{name}"\nseeds = [{listed}]\ndelay = 0\ncourtesy_factor = '
        f"0\ntraps = false\n{more}\n"
    )


@contextmanager
def site(
    folder: Path, address: str, pages: int, extra: dict[str, str] | None = None
) -> Iterator[Nginx]:
    """A home page that links to `pages` others; `extra` is further files by name, which nobody
    links to.
    """
    folder.mkdir(parents=True)
    links = "".join(f'<p><a href="/{number}.html">{number}</a>' for number in range(pages))
    (folder / "index.html").write_text(f"<title>Home</title><p>The dormouse is at home.{links}")
    for number in range(pages):
        (folder / f"{number}.html").write_text(
            f"<title>Page {number}</title><p>The dormouse sleeps for the {number}th month."
        )
    for name, content in (extra or {}).items():
        (folder / name).write_text(content)
    with nginx([Server(address, folder, index="index.html", autoindex=False)]) as server:
        yield server


@dataclass
class Running:
    """A daemon; `errors` is what it has said so far."""

    workspace: Path
    process: subprocess.Popen[bytes]

    @property
    def errors(self) -> str:
        return (self.workspace / ".." / "stderr").read_text()

    @property
    def live(self) -> dict[str, Any]:
        return live_status(str(self.workspace)) or {}

    @property
    def worker(self) -> int:
        """Its worker's process id, 0 if there is none."""
        pid: int = self.live.get("pid", 0)
        return pid

    def family(self) -> list[psutil.Process]:
        """It and all its descendants."""
        me = psutil.Process(self.process.pid)
        return [me, *me.children(recursive=True)]

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Its exit code, when it and its children are gone."""
        family = self.family()
        self.send(number)
        code = self.process.wait(LIMIT_S)
        # the tracker of multiprocessing sees the end a moment later
        _, alive = psutil.wait_procs(family, timeout=2)
        assert not alive
        return code

    def rows(self, table: str) -> list[dict[str, Any]]:
        return rows(self.workspace, table)

    def until(
        self, reached: Callable[[], object], limit_s: float = LIMIT_S, what: str = ""
    ) -> None:
        """Wait until something is so, while the daemon lives."""
        until(reached, limit_s, alive=self.process, messages=lambda: f"{what} {self.errors}")

    def until_pages(self, number: int) -> None:
        self.until(lambda: len(self.rows("pages")) >= number)


def rows(workspace: Path, table: str) -> list[dict[str, Any]]:
    """The live rows of a table; none while there is no workspace."""
    if not (workspace / "workspace.json").exists():
        return []
    return LiveTables(Workspace.open(str(workspace))).scan(table).collect().to_dicts()


@contextmanager
def daemon(
    workspace: Path, settings: str, *arguments: str, command: Sequence[str] | None = None
) -> Iterator[Running]:
    """`lycosa run` over a lycosa.toml; killed with all its children at the end, if it still
    lives.
    """
    workspace.mkdir(parents=True, exist_ok=True)
    (workspace / "lycosa.toml").write_text(settings)
    words = command or (*RUN, "-w", str(workspace), "run", *arguments)
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}/src:{ROOT}"}
    with (workspace / ".." / "stderr").open("wb") as errors:
        process = subprocess.Popen(
            words, stdout=subprocess.DEVNULL, stderr=errors, cwd=ROOT, env=environment
        )
    running = Running(workspace, process)
    try:
        yield running
    finally:
        if process.poll() is None:
            for each in reversed(running.family()):
                each.kill()
            process.wait()
