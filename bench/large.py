"""Memory, CPU and disk of the worker on a large frontier, and of the frontier alone.

    python -m bench.large [--urls 10000000 --hosts 1000000] [--fetches 200000]
    python -m bench.large --urls 1000000 --hosts 100000 --bare --fetches 50000

Generates a compacted state (`tests/frontier/large.py`), then crawls in a new process as `lycosa
crawl` does, without the index. The web responds in process, on a clock that advances only while the
worker waits: pages of 15 KB with 40 links, of which 34 lead to known URLs, and one page in ten
links to a new host. CPU includes all threads and the compaction processes, but not the generation
of the pages.

`--bare`: no archive and no parser; a page has ten links. URLs that were scheduled, fetched and
committed are counted, robots.txt included.
"""

from __future__ import annotations

import heapq
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import threading
import time
from argparse import Namespace
from collections import defaultdict
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any
from zlib import crc32

import polars as pl
from tests.frontier.large import COLLECTION, START_MS, Plan, build
from tests.waiting import ManualClock

from bench.harness import arguments, report, table
from lycosa.config.reading import parse_config
from lycosa.config.settings import Collection
from lycosa.core.records import Exchange, Link, LinkKind, Page, Request
from lycosa.crawl.processing.page_reader import ParsedExchange
from lycosa.crawl.session.session import CrawlSession, SessionOptions, open_session
from lycosa.crawl.state.batch import Batch
from lycosa.crawl.state.task import Job
from lycosa.crawl.worker import Limits
from lycosa.frontier.scheduler.scheduler import Scheduler
from lycosa.maintenance.upkeep import Upkeep
from lycosa.processes.memory import tune_memory
from lycosa.processes.threads import StopFlag
from lycosa.store.compaction.compact import compact
from lycosa.store.compaction.plan import CompactionSettings
from lycosa.store.workspace import Workspace

NOW_MS = START_MS + 100_000_000
SAMPLE = 20_000  # known URLs that pages link to
_SIZES = re.compile(r"^(VmHWM|RssAnon|RssFile):\s+(\d+) kB$", re.MULTILINE)
_ENVIRONMENT = {  # of `lycosa crawl`
    "_RJEM_MALLOC_CONF": "narenas:1,dirty_decay_ms:100,muzzy_decay_ms:0",
    "OPENBLAS_NUM_THREADS": "1",
    "POLARS_MAX_THREADS": "1",
}
_WORDS = (__doc__ or "").split()
_OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n"
_NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\n\r\n"


class Meter:
    """CPU seconds by part of the crawl."""

    def __init__(self) -> None:
        self.cpu_s: defaultdict[str, float] = defaultdict(float)
        self._main = time.pthread_getcpuclockid(threading.get_ident())

    def wrap(self, name: str, work: Callable[..., Any], clock: str = "process") -> Any:
        """Return `work` with its CPU added to `name`.

        `clock`: "thread" counts the calling thread, "process" all threads, "others" all threads
        but the main one.
        """

        def now() -> float:
            if clock == "thread":
                return time.thread_time()
            main = time.clock_gettime(self._main) if clock == "others" else 0.0
            return time.process_time() - main

        def measured(*values: Any, **options: Any) -> Any:
            start = now()
            try:
                return work(*values, **options)
            finally:
                self.cpu_s[name] += now() - start

        return measured


class Web:
    """A fetcher that generates pages from the digest of their URL, in 50 to 150 simulated ms."""

    def __init__(self, clock: ManualClock, known: list[str], meter: Meter, *, bare: bool) -> None:
        self._clock, self._known, self._bare = clock, known, bare
        self._order = count()
        self._running: list[tuple[int, int, Exchange]] = []
        self.fetches = 0
        self._exchange = meter.wrap("web", self._generate, "thread")
        self.parse = meter.wrap("web", self._parse, "thread")

    @property
    def active(self) -> int:
        return len(self._running)

    def start(self, request: Request) -> None:
        exchange = self._exchange(request)
        end_ms = exchange.started_at + exchange.duration_ms
        heapq.heappush(self._running, (end_ms, next(self._order), exchange))
        self.fetches += 1

    def wait(self, timeout_ms: int) -> list[Exchange]:
        if not self._running:
            return []
        self._clock.advance(max(0, min(self._running[0][0] - self._clock.now_ms(), timeout_ms)))
        done = []
        while self._running and self._running[0][0] <= self._clock.now_ms():
            done.append(heapq.heappop(self._running)[2])
        return done

    def sleep(self, timeout_ms: int, wake: StopFlag) -> None:
        self._clock.advance(timeout_ms)

    def stop(self) -> None:
        pass

    def close(self) -> None:
        self._running.clear()

    def _generate(self, request: Request) -> Exchange:
        digest = crc32(request.url.encode())
        robots = request.url.endswith("/robots.txt")
        return Exchange(
            request.url,
            request.kind,
            self._clock.now_ms(),
            50 + digest % 100,
            ip=f"127.{digest >> 16 & 0xFF}.{digest >> 8 & 0xFF}.{digest & 0xFF}",
            protocol="http/1.1",
            request_head=b"GET / HTTP/1.1\r\n\r\n",
            response_head=_NOT_FOUND if robots else _OK,
            body=b"" if robots or self._bare else self._body(request.url, digest),
            status=404 if robots else 200,
            first_byte_ms=20,
            connect_ms=10,
            token=request.token,
        )

    def _parse(self, exchange: Exchange, *_: object, **__: object) -> ParsedExchange:
        """Return a page with links only, in place of the parser."""
        digest = crc32(exchange.url.encode())
        targets = self._targets(exchange.url, digest, known=7, new=2, host_share=40)
        links = [Link(url, "a page", "", LinkKind.A, place) for place, url in enumerate(targets)]
        page = Page(title=exchange.url, language="en", text_digest=digest, links=links)
        return ParsedExchange(page)

    def _targets(
        self, url: str, digest: int, *, known: int, new: int, host_share: int
    ) -> list[str]:
        """Return links: known URLs, new ones of this host and of another, one to a new host."""
        urls = [self._known[digest * (place + 1) % len(self._known)] for place in range(known)]
        host, other = ("/".join(each.split("/", 3)[:3]) for each in (url, urls[0]))
        urls += [f"{host}/new/{digest:x}/{place}.html" for place in range(new)]
        urls.append(f"{other}/from/{digest:x}.html")
        if digest % host_share == 0:
            urls[0] = f"https://www.fresh{digest:x}.com/"
        return urls

    def _body(self, url: str, digest: int) -> bytes:
        numbers = range(1_200)
        words = [_WORDS[(digest + 7 * each + each * each) % len(_WORDS)] for each in numbers]
        items = "".join(
            f'<li class="entry"><a href="{link}">{words[place]} {words[place + 1]}</a></li>\n'
            for place, link in enumerate(self._targets(url, digest, known=34, new=4, host_share=10))
        )
        paragraphs = "".join(
            f"<p>{' '.join(words[first : first + 60])} {digest:x}.</p>\n" for first in numbers[::60]
        )
        head = f"<!doctype html><title>Page {digest:x}</title>"
        return f"{head}<body><ul>{items}</ul><article>{paragraphs}</article></body>".encode()


class Series:
    """Memory and files over time; each peak is that since the previous row."""

    COLUMNS = ("fetches", "peak MiB", "anonymous", "file", "hosts", "queued", "files", "log")

    def __init__(self, web: Web, step: int) -> None:
        self._web, self._step, self._next = web, step, 0
        self.rows: list[tuple[int, ...]] = []

    def observe(self, session: CrawlSession, *, end: bool = False) -> None:
        """Add a row after every `step` fetches, and at the end."""
        if end or self._web.fetches >= self._next:
            self._next = self._web.fetches + self._step
            sizes = dict(_SIZES.findall(Path("/proc/self/status").read_text()))
            memory = (int(sizes[name]) // 1024 for name in ("VmHWM", "RssAnon", "RssFile"))
            frontier, state = session.crawl.frontier, session.claim.state
            files = sum(map(len, state.files.values()))
            queued = len(frontier.hosts), len(frontier)
            self.rows.append((self._web.fetches, *memory, *queued, files, state.head))
            Path("/proc/self/clear_refs").write_text("5")


def _skip_archive(batch: Batch, *_: object) -> None:
    batch.exchanges += 1


def _instrument(meter: Meter, *, bare: bool) -> None:
    """Measure the parts of the crawl; without an archive if `bare`."""
    for owner, method, name, clock_name in (
        (Scheduler, "refill", "refill", "process"),
        (Scheduler, "next_time", "next time", "thread"),
        (Scheduler, "log_advanced", "refresh", "process"),
        (Batch, "cut", "cut", "thread"),
        (Batch, "commit", "commit", "others"),
    ):
        setattr(owner, method, meter.wrap(name, getattr(owner, method), clock_name))
    if bare:
        setattr(Batch, "archive", _skip_archive)  # noqa: B010


def crawl(options: Namespace) -> None:
    """Crawl the prepared workspace in this process, and report."""
    tune_memory()
    config = parse_config("", overrides=tuple(options.set))
    collection = Collection(name=COLLECTION, scope="any")
    workspace = Workspace.open(str(options.inside))
    known = json.loads((options.inside / "known.json").read_text())
    clock, meter = ManualClock(NOW_MS), Meter()
    web = Web(clock, known, meter, bare=options.bare)
    _instrument(meter, bare=options.bare)
    with workspace.own("bench"):
        upkeep = Upkeep(workspace, config, clock, ranking=False)
        series = Series(web, max(1, options.fetches // 20))
        session = open_session(
            workspace,
            config,
            [Job(collection, ())],
            SessionOptions(
                limits=Limits(max_pages=options.fetches),
                observer=lambda _: series.observe(session),
                fetcher=web,
            ),
            command="bench",
            clock=clock,
        )
        session.worker.ticks.append(upkeep.tick)
        if options.bare:
            session.worker.processor._read = web.parse
        start = time.perf_counter()
        session.load()
        resume_s = time.perf_counter() - start
        meter.cpu_s.clear()
        cpu_s = time.process_time()
        progress = session.worker.run()
        cpu_s = time.process_time() - cpu_s
        series.observe(session, end=True)
        urls = len(session.crawl.assignments[COLLECTION].seen)
        session.claim.release()
        session.close()
        upkeep.close()
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    meter.cpu_s["merge"] = children.ru_utime + children.ru_stime
    own_s = cpu_s - meter.cpu_s.pop("web") + meter.cpu_s["merge"]
    figures = {
        "resume_s": resume_s,
        "peak_mib": max(row[1] for row in series.rows),
        "resident_mib": [row[2] + row[3] for row in series.rows],
        "shares": {name: seconds / own_s for name, seconds in meter.cpu_s.items()},
        "bytes_a_url": sum(file.bytes for file in workspace.state().files["urls"]) / urls,
        "files": max(row[6] for row in series.rows),
        "pages": progress.pages,
        "urls_a_cpu_second": web.fetches / own_s,
    }
    body = table(Series.COLUMNS, series.rows) + "\n\n"
    body += table(("figure", "value"), figures.items())
    report(options, "Large frontier", body, figures)


def main() -> None:
    parser = arguments(
        __doc__,
        runs=1,
        urls=10_000_000,
        hosts=1_000_000,
        fetches=200_000,
        bare=(False, "the frontier alone"),
        inside=(Path, "the prepared workspace (internal)"),
    )
    parser.add_argument("--set", action="append", default=[], help="crawl.active_hosts=5000")
    options = parser.parse_args()
    if options.inside:
        crawl(options)
        return
    with tempfile.TemporaryDirectory(prefix="lycosa-bench-") as folder:
        workspace = build(f"{folder}/w", Plan(options.urls, options.hosts))
        compact(workspace, CompactionSettings(), whole=True)
        paths = [workspace.path(file.path) for file in workspace.state().files["urls"]]
        urls = pl.scan_parquet(paths).select("url")
        step = max(1, options.urls // SAMPLE)
        known = urls.gather_every(step).collect(engine="streaming")["url"].to_list()
        Path(folder, "w", "known.json").write_text(json.dumps(known))
        command = [sys.executable, "-m", "bench.large", *sys.argv[1:], "--inside", f"{folder}/w"]
        subprocess.run(command, check=True, env={**os.environ, **_ENVIRONMENT})


if __name__ == "__main__":
    main()
