"""The real worker on a large frontier: memory over time, what commits, refills and merges take of
the CPU, files, start.

    python -m bench.large [--urls 10000000 --hosts 1000000] [--fetches 200000] [--workspace FOLDER]
    python -m bench.large --urls 1000000 --hosts 100000
    python -m bench.large --urls 1000000 --hosts 100000 --bare --fetches 50000

Generates the state by `tests/frontier/large.py` (or copies FOLDER), folds it as a crawl would have
long before, then crawls it in a fresh process as `lycosa crawl` does: session, resume, worker,
commits, upkeep; without the index. The web answers in process, on a clock that moves only when the
worker waits: pages of 15 KB with 40 links, 34 of them to known URLs, 5 to new URLs of known hosts,
and one page in ten leads to a new host. CPU is of all threads and of the merges' processes; what
the web takes to make its pages is left out.

`--bare`: the frontier alone, with politeness and tables. Nothing is archived or parsed; a page is
ten links, seven of them to known URLs, two to new ones of its host, one to a new one of a known
host, and one page in forty leads to a new host. Counted are URLs that were scheduled, asked for,
answered, and whose rows of `urls`, `hosts`, `visits`, `links` and `pages` were committed; robots
files too.
"""

from __future__ import annotations

import argparse
import cProfile
import heapq
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import nullcontext
from itertools import count
from pathlib import Path
from typing import Any, TypeVar
from zlib import crc32

import polars as pl
from tests.frontier.large import COLLECTION, START_MS, Plan, build

from bench.harness import load_average, machine, table
from lycosa.config.reading import parse_config
from lycosa.config.settings import Collection
from lycosa.core.clock import ManualClock
from lycosa.core.records import Exchange, Link, LinkKind, Page, Request, Visit
from lycosa.crawl.processing.page_reader import ParsedExchange
from lycosa.crawl.session.session import CrawlSession, SessionOptions, open_session
from lycosa.crawl.state.batch import Batch
from lycosa.crawl.state.task import Job
from lycosa.crawl.worker import Limits
from lycosa.frontier.scheduler.scheduler import Scheduler
from lycosa.maintenance.upkeep import Upkeep
from lycosa.processes.memory import tune_memory
from lycosa.processes.stopping import StopFlag
from lycosa.store.compaction.compact import compact
from lycosa.store.compaction.plan import CompactionSettings
from lycosa.store.workspace import Workspace

T = TypeVar("T")

NOW_MS = START_MS + 100_000_000
SAMPLE = 20_000
"""Known URLs that pages link to."""

_SIZES = re.compile(r"^(VmHWM|RssAnon|RssFile):\s+(\d+) kB$", re.MULTILINE)
_ENVIRONMENT = {  # of `lycosa crawl`
    "_RJEM_MALLOC_CONF": "narenas:1,dirty_decay_ms:100,muzzy_decay_ms:0", "OPENBLAS_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"
}  # fmt: skip
_WORDS = (__doc__ or "").split()
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n"
_MISSING = b"HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\n\r\n"


class Web:
    """A fetcher whose pages are made of their URL's digest, and take 50 to 150 ms of its own
    clock.
    """

    def __init__(
        self, clock: ManualClock, known: list[str], tasks: Meter, *, bare: bool = False
    ) -> None:
        self._bare = bare
        self._clock = clock
        self._known = known
        self._meter = tasks
        self._order = count()
        self._running: list[tuple[int, int, Exchange]] = []
        self.fetches = 0
        self.asked: Counter[str] = Counter()

    @property
    def active(self) -> int:
        return len(self._running)

    def start(self, request: Request) -> None:
        with self._meter.part("web"):
            digest = crc32(request.url.encode())
            now = self._clock.now_ms()
            robots = request.url.endswith("/robots.txt")
            exchange = Exchange(
                request.url,
                request.kind,
                now,
                50 + digest % 100,
                ip=f"127.{digest >> 16 & 0xFF}.{digest >> 8 & 0xFF}.{digest & 0xFF}",
                protocol="http/1.1",
                request_head=b"GET / HTTP/1.1\r\n\r\n",
                response_head=_MISSING if robots else _HEAD,
                body=b"" if robots or self._bare else self._page(request.url, digest),
                status=404 if robots else 200,
                first_byte_ms=20,
                connect_ms=10,
                token=request.token,
            )
            heapq.heappush(self._running, (now + exchange.duration_ms, next(self._order), exchange))
            self.fetches += 1

    def wait(self, timeout_ms: int) -> list[Exchange]:
        if not self._running:
            return []
        now = self._clock.now_ms()
        self._clock.advance(max(0, min(self._running[0][0] - now, timeout_ms)))
        now = self._clock.now_ms()
        done = []
        while self._running and self._running[0][0] <= now:
            done.append(heapq.heappop(self._running)[2])
        return done

    def sleep(self, timeout_ms: int, wake: StopFlag) -> None:
        self._clock.advance(timeout_ms)

    def stop(self) -> None:
        for _, _, exchange in self._running:
            exchange.error = "interrupted"
        self._running = [(0, place, exchange) for _, place, exchange in self._running]

    def close(self) -> None:
        self._running.clear()

    def parse(self, exchange: Exchange, _: object) -> ParsedExchange:
        """What a page says in place of the parser, where nothing else is measured than what follows
        from links.
        """
        with self._meter.part("web"):
            url, digest, known = exchange.url, crc32(exchange.url.encode()), self._known
            targets = [known[(digest * (place + 1)) % len(known)] for place in range(8)]
            host, other = ("/".join(each.split("/", 3)[:3]) for each in (url, targets.pop()))
            targets += [
                f"{host}/new/{digest:x}/0.html",
                f"{host}/new/{digest:x}/1.html",
                f"{other}/from/{digest:x}.html",
            ]
            if digest % 40 == 0:
                targets[0] = f"https://www.fresh{digest:x}.com/"
            links = [
                Link(target, "a page", "", LinkKind.A.value, place)
                for place, target in enumerate(targets)
            ]
            return ParsedExchange(Page(title=url, language="en", text_digest=digest, links=links))

    def _links(self, url: str, digest: int) -> list[str]:
        host = "/".join(url.split("/", 3)[:3])
        known = self._known
        links = [known[(digest * (place + 1)) % len(known)] for place in range(34)]
        links += [f"{host}/new/{digest:x}/{place}.html" for place in range(4)]
        links.append(f"{'/'.join(links[0].split('/', 3)[:3])}/from/{digest:x}.html")
        if digest % 10 == 0:
            links.append(f"https://www.fresh{digest:x}.com/")
        return links

    def _page(self, url: str, digest: int) -> bytes:
        links = self._links(url, digest)
        text = [
            _WORDS[(digest + 7 * place + place * place) % len(_WORDS)] for place in range(1_200)
        ]
        anchors = "".join(
            f'<li class="entry"><a href="{link}">{text[place]} {text[place + 1]}</a></li>\n'
            for place, link in enumerate(links)
        )
        blocks = "".join(
            f"<p>{' '.join(text[first : first + 60])} {digest:x}.</p>\n"
            for first in range(0, 1_200, 60)
        )
        return f"<!doctype html><title>Page {digest:x}</title><body><ul>{anchors}</ul><article>{blocks}</article></body>".encode()


def _not_archived(
    batch: Batch, exchange: Exchange, visit: Visit, revisit_of: object = None
) -> None:
    """In place of `Batch.archive`."""
    batch.exchanges += 1


class Meter:
    """CPU seconds by part of the work."""

    def __init__(self) -> None:
        self.cpu_s: defaultdict[str, float] = defaultdict(float)
        self.calls: Counter[str] = Counter()
        self._main = time.pthread_getcpuclockid(threading.get_ident())

    def part(self, name: str) -> Part:
        """A part of the main thread's work, with what it lets other threads do meanwhile."""
        return Part(self, name)

    def inside(self, name: str, work: Callable[..., T]) -> Callable[..., T]:
        def measured(*given: Any) -> T:
            with self.part(name):
                return work(*given)

        return measured

    def beside(self, name: str, work: Callable[..., T]) -> Callable[..., T]:
        """Work of another thread: CPU of the process, less what the main thread took meanwhile."""

        def measured(*given: Any) -> T:
            before = time.process_time() - time.clock_gettime(self._main)
            try:
                return work(*given)
            finally:
                self.cpu_s[name] += time.process_time() - time.clock_gettime(self._main) - before
                self.calls[name] += 1

        return measured


class Part:
    def __init__(self, meter: Meter, name: str) -> None:
        self._meter = meter
        self._name = name
        self._clock = time.thread_time if name in ("web", "next time", "cut") else time.process_time

    def __enter__(self) -> None:
        self._start = self._clock()

    def __exit__(self, *_: object) -> None:
        self._meter.cpu_s[self._name] += self._clock() - self._start
        self._meter.calls[self._name] += 1


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--urls", type=int, default=10_000_000)
    parser.add_argument("--hosts", type=int, default=1_000_000)
    parser.add_argument("--fetches", type=int, default=200_000)
    parser.add_argument("--workspace", type=Path, help="a state to copy, instead of generating one")
    parser.add_argument(
        "--set", action="append", default=[], help="a setting, as crawl.active_hosts=5000"
    )
    parser.add_argument("--strategy", default="breadth-first")
    parser.add_argument(
        "--bare",
        action="store_true",
        help="the frontier alone: no archive, no parsing, ten links a page",
    )
    parser.add_argument(
        "--seconds", type=int, default=0, help="stop after this many seconds of wall time"
    )
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--profile", type=Path, help="write a profile of the main thread here")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        _measure(arguments)
        return
    with tempfile.TemporaryDirectory(prefix="large-") as temporary:
        folder = Path(temporary) / "w"
        if arguments.workspace:
            shutil.copytree(arguments.workspace, folder)
        else:
            compact(
                build(str(folder), Plan(arguments.urls, arguments.hosts)),
                CompactionSettings(),
                whole=True,
            )
        (folder / "known.json").write_text(json.dumps(_sample(Workspace.open(str(folder)))))
        print(f"{machine()}; load {load_average():.1f}\n", flush=True)
        command = [sys.executable, "-m", "bench.large", *sys.argv[1:], "--inside", str(folder)]
        subprocess.run(command, check=True, env={**os.environ, **_ENVIRONMENT})


def _sample(workspace: Workspace) -> list[str]:
    """Known URLs out of all files of `urls`."""
    paths = [workspace.path(file.path) for file in workspace.state().files["urls"]]
    frames = [pl.read_parquet(path, columns=["url"]) for path in paths]
    return [
        url
        for frame in frames
        for url in frame["url"].gather_every(max(1, frame.height * len(paths) // SAMPLE)).to_list()
    ]


def _measure(arguments: argparse.Namespace) -> None:
    tune_memory()
    overrides = tuple(arguments.set)
    config = parse_config("", overrides=overrides)
    collection = Collection(name=COLLECTION, scope="any", strategy=arguments.strategy)
    workspace = Workspace.open(str(arguments.inside))
    known = json.loads((arguments.inside / "known.json").read_text())
    clock = ManualClock(NOW_MS)
    meter = Meter()
    web = Web(clock, known, meter, bare=arguments.bare)
    for name, part in (("refill", "refill"), ("next_time", "next time"), ("refresh", "refresh")):
        setattr(Scheduler, name, meter.inside(part, getattr(Scheduler, name)))
    Batch.cut = meter.inside("cut", Batch.cut)  # type: ignore[method-assign]
    Batch.commit = meter.beside("commit", Batch.commit)  # type: ignore[method-assign]
    with workspace.own("bench"):
        # it comes once a day and is another row's business
        upkeep = Upkeep(workspace, config, clock, ranking=False)
        series = _Series(web)
        session = open_session(
            workspace,
            config,
            [Job(collection, ())],
            SessionOptions(
                limits=Limits(max_pages=arguments.fetches),
                observer=lambda _: series.look(session),
                tick=upkeep.tick,
                fetcher=web,
                wrap_reader=(lambda _: web.parse) if arguments.bare else None,
            ),
            command="bench",
            clock=clock,
        )
        if arguments.bare:
            setattr(Batch, "archive", _not_archived)  # noqa: B010
        _note(series, session, "session")
        start, cpu = time.perf_counter(), time.process_time()
        session.take_up()
        resumed_s, resumed_cpu_s = time.perf_counter() - start, time.process_time() - cpu
        _note(series, session, "resumed")
        known_before = len(session.crawl.assignments[COLLECTION].seen)
        meter.cpu_s.clear()
        meter.calls.clear()
        series.every = max(1, arguments.fetches // 20)
        start, cpu = time.perf_counter(), time.process_time()
        signal.signal(signal.SIGALRM, lambda *_: session.worker.stop())
        signal.alarm(arguments.seconds)
        profile = cProfile.Profile(time.thread_time) if arguments.profile else None
        with profile or nullcontext():
            progress = session.worker.run()
        wall_s, cpu_s = time.perf_counter() - start, time.process_time() - cpu
        if profile:
            profile.dump_stats(str(arguments.profile))
        _note(series, session, "end")
        session.claim.release()
        session.close()
        upkeep.close()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    merge_s = used.ru_utime + used.ru_stime
    own_s = cpu_s - meter.cpu_s["web"] + merge_s
    files = workspace.state().files
    urls = sum(file.rows for file in files["urls"])
    known_after = len(session.crawl.assignments[COLLECTION].seen)
    size = sum(file.bytes for file in files["urls"])
    print(
        table(
            [
                "",
                "fetches",
                "peak MiB",
                "anonymous MiB",
                "file MiB",
                "active hosts",
                "queued URLs",
                "live files",
                "log",
            ],
            series.rows,
        )
    )
    parts = [
        (name, f"{seconds:.1f}", f"{100 * seconds / own_s:.1f} %", meter.calls[name])
        for name, seconds in sorted(meter.cpu_s.items(), key=lambda part: -part[1])
    ]
    print(
        table(
            ["part", "CPU s", "share", "calls"],
            [*parts, ("merge (processes)", f"{merge_s:.1f}", f"{100 * merge_s / own_s:.1f} %", "")],
        )
    )
    print(f"resume {resumed_s:.1f} s ({resumed_cpu_s:.1f} s of CPU), {known_before:,} URLs")
    print(
        f"{progress.ended}: {progress.pages:,} pages, {web.fetches:,} fetches, "
        f"{known_after - known_before:,} new URLs in {wall_s:.0f} s",
        end="",
    )
    print(
        f", {own_s:.0f} s of CPU, {progress.pages / own_s:.0f} pages a CPU second; "
        f"{(clock.now_ms() - NOW_MS) / 1000:.0f} s of the web's time"
    )
    alone_s = own_s - merge_s
    print(
        f"{web.fetches / own_s:,.0f} URLs a CPU second, {web.fetches / alone_s:,.0f} without "
        "the merges"
    )
    print(
        f"`urls`: {size / known_after:.1f} bytes a known URL, {urls:,} rows in "
        f"{len(files['urls'])} files"
    )
    if arguments.json:
        figures = {
            "resume_s": resumed_s,
            "peak_mib": max(row[2] for row in series.rows),
            "resident_mib": [row[3] + row[4] for row in series.rows],
            "shares": {"merge": merge_s / own_s}
            | {name: seconds / own_s for name, seconds in meter.cpu_s.items()},
            "bytes_a_url": size / known_after,
            "files": max(row[7] for row in series.rows),
            "pages": progress.pages,
            "urls_a_cpu_second": web.fetches / own_s,
        }
        arguments.json.write_text(json.dumps(figures))


class _Series:
    """Memory and files over time."""

    def __init__(self, web: Web) -> None:
        self._web = web
        self.every = 0
        self._next = 0
        self.rows: list[tuple[Any, ...]] = []

    def look(self, session: CrawlSession) -> None:
        if self.every and self._web.fetches >= self._next:
            self._next = self._web.fetches + self.every
            _note(self, session, "")

    @property
    def fetches(self) -> int:
        return self._web.fetches


def _note(series: _Series, session: CrawlSession, name: str) -> None:
    """A row of the series; the peak is that since the last one."""
    sizes = {
        field: int(size) // 1024
        for field, size in _SIZES.findall(Path("/proc/self/status").read_text())
    }
    state, crawl = session.claim.state, session.crawl
    files = sum(map(len, state.files.values()))
    memory = (sizes["VmHWM"], sizes["RssAnon"], sizes["RssFile"])
    row = (
        name,
        series.fetches,
        *memory,
        len(crawl.frontier.hosts),
        len(crawl.frontier),
        files,
        state.head,
    )
    series.rows.append(row)
    print(*row, f"{time.process_time():.0f}s", flush=True, sep="\t")
    Path("/proc/self/clear_refs").write_text("5")


if __name__ == "__main__":
    main()
