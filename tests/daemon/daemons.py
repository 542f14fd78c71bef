"""Run `lycosa run` in a separate process, over sites of a real nginx."""

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

from lycosa.crawl.session.worker_status import live_status
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


def collection(name: str, *seeds: str, delay: str = "", more: str = "") -> str:
    """Return a `[[collection]]`, by default without a delay.

    The trap rules are off, because generated pages are nearly identical.
    """
    listed = ", ".join(f'"{seed}"' for seed in seeds)
    pause = f'"{delay}"' if delay else "0"
    return (
        f'[[collection]]\nname = "{name}"\nseeds = [{listed}]\ndelay = {pause}\n'
        f"courtesy_factor = 0\ntraps = false\n{more}\n"
    )


@contextmanager
def site(
    folder: Path, address: str, pages: int, extra: dict[str, str] | None = None
) -> Iterator[Nginx]:
    """Serve a home page with links to `pages` other pages.

    Args:
        extra: further files by name; no page links to them.
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
    """A running daemon."""

    workspace: Path
    process: subprocess.Popen[bytes]

    @property
    def errors(self) -> str:
        """The standard error output so far."""
        return (self.workspace / ".." / "stderr").read_text()

    @property
    def live(self) -> dict[str, Any]:
        return live_status(str(self.workspace)) or {}

    @property
    def worker(self) -> int:
        """Process ID of the worker, 0 if there is none."""
        pid: int = self.live.get("pid", 0)
        return pid

    def family(self) -> list[psutil.Process]:
        """Return the daemon's process and all its descendants."""
        process = psutil.Process(self.process.pid)
        return [process, *process.children(recursive=True)]

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and return the exit code.

        Asserts that all child processes end.
        """
        family = self.family()
        self.send(number)
        code = self.process.wait(LIMIT_S)
        # the resource tracker of multiprocessing ends slightly later
        _, alive = psutil.wait_procs(family, timeout=2)
        assert not alive
        return code

    def rows(self, table: str, *columns: str) -> list[dict[str, Any]]:
        return rows(self.workspace, table, *columns)

    def until(
        self, condition: Callable[[], object], limit_s: float = LIMIT_S, what: str = ""
    ) -> None:
        """Wait until a condition holds; fail if the daemon ends."""
        until(condition, limit_s, alive=self.process, messages=lambda: f"{what} {self.errors}")

    def until_pages(self, number: int) -> None:
        self.until(lambda: len(self.rows("pages", "url")) >= number)


def rows(workspace: Path, table: str, *columns: str) -> list[dict[str, Any]]:
    """Return columns of the live rows of a table, by default all; no rows without a workspace."""
    if not (workspace / "workspace.json").exists():
        return []
    frame = LiveTables(Workspace.open(str(workspace))).scan(table)
    return (frame.select(columns) if columns else frame).collect().to_dicts()


@contextmanager
def daemon(
    workspace: Path, settings: str, *arguments: str, command: Sequence[str] | None = None
) -> Iterator[Running]:
    """Run `lycosa run` with a configuration.

    Kills the daemon and its children at the end if necessary.
    """
    workspace.mkdir(parents=True, exist_ok=True)
    (workspace / "lycosa.toml").write_text(settings)
    command_line = command or (*RUN, "-w", str(workspace), "run", *arguments)
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}/src:{ROOT}"}
    with (workspace / ".." / "stderr").open("wb") as errors:
        process = subprocess.Popen(
            command_line, stdout=subprocess.DEVNULL, stderr=errors, cwd=ROOT, env=environment
        )
    running = Running(workspace, process)
    try:
        yield running
    finally:
        if process.poll() is None:
            for member in reversed(running.family()):
                member.kill()
            process.wait()
