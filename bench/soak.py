"""A daemon for hours: a web that changes, readers, and sudden deaths. Does memory grow, do answers
slow down, is anything lost?

    python -m bench.soak [--hours H] [--hosts N] [--queries Q] [--seed S] [--workers N] [--folder
    DIR] [--results FILE] python -m bench.soak --judge DIR                                # once
    more, of what a run has left

`lycosa run --serve` crawls the synthetic web of the tests (pages change, come and go; hosts answer
429, 500, 503, redirect, hang, break off) and fetches what is older than some minutes again, for
good. Readers ask 20 questions a second. Every one to five minutes some process gets SIGKILL: in the
first half any of them, the daemon too, which is started again at once, as systemd would; in the
second half only one worker, so that the others live long enough for a leak to show. What is
measured goes to DIR while it runs; in the end `lycosa check --deep`, and the tables are held
against the web's own log of requests (`bench.soak_verdict`). Exit code 1: something is wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tests.servers.nginx import free_port

from bench.harness import append_results
from bench.soak_plan import Plan
from bench.soak_readers import Asked, Reader, Readers
from bench.soak_samples import DAEMON, Sampler, family
from bench.soak_verdict import judge, known_urls

ROLES = ("worker", "worker", "worker", DAEMON, "pages", "coordinator", "index")
"""What may be killed; a role that stands here more often is killed more often."""

_SETTLE_S, _START_S, _STOP_S = 0.5, 120.0, 60.0
_LOOK_S = 0.2
_LEFT_HOLDS = 6
_KNOWN_EVERY_S = 600.0


class Daemon:
    """`lycosa run --serve`, started again when it dies."""

    def __init__(self, folder: Path, workers: int) -> None:
        self.workspace = folder / "workspace"
        self.port = free_port(["127.0.0.1"])
        self._workers = workers
        self._said = folder / "said.txt"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        return self._process.pid if self._process is not None else 0

    def start(self) -> None:
        engine = ("--engine", "local", "--workers", str(self._workers)) if self._workers > 1 else ()
        command = [
            sys.executable,
            "-m",
            "lycosa.cli.main",
            "-w",
            str(self.workspace),
            "run",
            "--serve",
            "--port",
            str(self.port),
            *engine,
        ]
        with self._said.open("ab") as said:
            self._process = subprocess.Popen(
                command, stdout=said, stderr=said, start_new_session=True
            )

    def ended(self) -> int | None:
        """Its exit code; None while it lives."""
        return self._process.poll() if self._process is not None else None

    def answers(self) -> bool:
        """Whether the pages are served."""
        reader = Reader(self.port)
        status, _ = reader.ask("/api/v1/search?q=water&n=1")
        reader.close()
        return status == 200

    def stop(self) -> int:
        """SIGTERM; the exit code, or -9 if it had to be killed."""
        assert self._process is not None
        left = family(self.pid)
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            return -9
        finally:
            for pid in left:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)


class Killer:
    """Kills now and then, and notes when and until when nobody could be asked. Main thread."""

    def __init__(self, plan: Plan, daemon: Daemon, folder: Path) -> None:
        self._plan, self._daemon = plan, daemon
        self._chance = random.Random(plan.seed)
        self._notes = folder / "kills.jsonl"
        self._notes.touch()
        self._begun = time.monotonic()
        self._next = self._begun + self._pause()
        self._spared = 0
        self.count = 0

    def look(self) -> None:
        """Do what is due; start the daemon again if it has died."""
        if (code := self._daemon.ended()) is not None:
            self._down(DAEMON, time.time_ns() // 1_000_000, f"exited with {code}")
        if time.monotonic() >= self._next:
            if (
                time.monotonic() - self._begun
                > self._plan.seconds - _LEFT_HOLDS * self._plan.hold_s
            ):
                return  # what a worker leaves is to be taken up before the end
            self._kill()
            self._next = time.monotonic() + self._pause()

    def _pause(self) -> float:
        return self._chance.uniform(self._plan.shortest_s, self._plan.longest_s)

    def _kill(self) -> None:
        living = family(self._daemon.pid)
        late = time.monotonic() - self._begun > self._plan.seconds / 2
        wanted = "worker" if late else self._chance.choice(ROLES)
        if late and self._spared not in living:
            self._spared = min(
                (pid for pid, role in living.items() if role.startswith("worker")), default=0
            )
        chosen = [
            pid
            for pid, role in living.items()
            if role.startswith(wanted) and (self._plan.workers == 1 or pid != self._spared)
        ]
        if not chosen:
            return
        pid = self._chance.choice(chosen)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        self.count += 1
        self._down(living[pid], time.time_ns() // 1_000_000, "killed")

    def _down(self, role: str, at_ms: int, how: str) -> None:
        """Note a death. Where it took the pages with it, until they answer again."""
        back_ms = at_ms
        if role in (DAEMON, "pages"):
            end = time.monotonic() + _START_S
            while role == DAEMON and self._daemon.ended() is None and time.monotonic() < end:
                time.sleep(0.05)
            time.sleep(_SETTLE_S)
            if role == DAEMON:
                self._daemon.start()
            while time.monotonic() < end and not self._daemon.answers():
                time.sleep(0.1)
            back_ms = time.time_ns() // 1_000_000
        with self._notes.open("a") as notes:
            notes.write(
                json.dumps({"at_ms": at_ms, "role": role, "how": how, "back_ms": back_ms}) + "\n"
            )


@contextlib.contextmanager
def served_web(plan: Plan, folder: Path) -> Iterator[dict[str, Any]]:
    """The web in a process of its own: what it says when it is ready."""
    command = [
        sys.executable,
        "-m",
        "tests.servers.synthetic",
        *plan.web_options(folder / "requests.log"),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())
        finally:
            process.terminate()


def soak(plan: Plan, folder: Path) -> None:
    """Run, and leave in the folder all that `bench.soak_verdict.judge` needs."""
    plan = plan if plan.epoch_ms else replace(plan, epoch_ms=time.time_ns() // 1_000_000)
    (folder / "plan.json").write_text(json.dumps(asdict(plan)))
    (folder / "seeds.txt").write_text(
        "\n".join(plan.web(folder / "requests.log").seeds(max(plan.hosts // 10, 1)))
    )
    daemon = Daemon(folder, plan.workers)
    (folder / "known").mkdir(exist_ok=True)
    with served_web(plan, folder) as said, (folder / "queries.csv").open("a") as queries:
        daemon.workspace.mkdir()
        (daemon.workspace / "lycosa.toml").write_text(
            plan.settings(said["connect_to"], folder / "seeds.txt")
        )
        daemon.start()
        _await(daemon)
        lock = threading.Lock()

        def record(asked: Asked) -> None:
            with lock:
                queries.write(f"{asked.due_ms},{asked.took_ms:.2f},{asked.status},{asked.what}\n")

        end = time.monotonic() + plan.seconds
        next_known = time.monotonic() + _KNOWN_EVERY_S
        try:
            with (
                Sampler(folder, daemon.workspace, lambda: daemon.pid),
                Readers(daemon.port, plan.queries, plan.seed, record),
            ):
                killer = Killer(plan, daemon, folder)
                while time.monotonic() < end:
                    killer.look()
                    if time.monotonic() >= next_known:
                        next_known += _KNOWN_EVERY_S
                        (folder / "known" / f"{time.time_ns() // 1_000_000}.txt").write_text(
                            "\n".join(sorted(known_urls(daemon.workspace)))
                        )
                    time.sleep(_LOOK_S)
        finally:
            stopped_ms = time.time_ns() // 1_000_000
            code = daemon.stop()
            (folder / "end.json").write_text(json.dumps({"at_ms": stopped_ms, "code": code}))
        time.sleep(_SETTLE_S)  # the web writes its log ten times a second


def _await(daemon: Daemon) -> None:
    end = time.monotonic() + _START_S
    while not daemon.answers():
        if time.monotonic() > end or daemon.ended() is not None:
            daemon.stop()
            raise RuntimeError("the daemon does not serve")
        time.sleep(_LOOK_S)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    defaults = Plan()
    parser.add_argument("--hours", type=float, default=defaults.seconds / 3600)
    parser.add_argument("--hosts", type=int, default=defaults.hosts)
    parser.add_argument("--pages", type=int, help="of all hosts; default: four a host")
    parser.add_argument("--queries", type=float, default=defaults.queries, help="a second")
    parser.add_argument("--workers", type=int, default=defaults.workers)
    parser.add_argument("--seed", type=int, default=defaults.seed)
    parser.add_argument(
        "--delay",
        type=float,
        default=defaults.delay_s,
        help="seconds between two requests to a host",
    )
    parser.add_argument(
        "--max-age",
        type=float,
        default=defaults.max_age_s,
        help="seconds after which a page is fetched again",
    )
    parser.add_argument(
        "--kills",
        type=float,
        nargs=2,
        default=(defaults.shortest_s, defaults.longest_s),
        metavar=("LEAST", "MOST"),
    )
    parser.add_argument(
        "--folder",
        type=Path,
        help="where to keep what is measured; default: a folder that goes in the end",
    )
    parser.add_argument(
        "--judge", type=Path, metavar="DIR", help="only judge what a run has left there"
    )
    parser.add_argument("--results", type=Path, help="append the report to this file")
    chosen = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = (
            chosen.judge
            or chosen.folder
            or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lycosa-soak-")))
        )
        if not chosen.judge:
            folder.mkdir(parents=True, exist_ok=True)
            plan = Plan(
                seconds=chosen.hours * 3600,
                hosts=chosen.hosts,
                pages=chosen.pages or 4 * chosen.hosts,
                queries=chosen.queries,
                workers=chosen.workers,
                seed=chosen.seed,
                delay_s=chosen.delay,
                max_age_s=chosen.max_age,
                shortest_s=chosen.kills[0],
                longest_s=chosen.kills[1],
            )
            soak(plan, folder)
        verdict = judge(folder)
    print(verdict.text())
    if chosen.results:
        append_results(
            chosen.results, "Soak", "python -m bench.soak " + " ".join(sys.argv[1:]), verdict.text()
        )
    return 1 if verdict.faults else 0


if __name__ == "__main__":
    sys.exit(main())
