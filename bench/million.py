"""Up to a million pages crawled, indexed and searched on one machine, in steps of ten.

    python -m bench.million [--first 10000] [--pages 1000000] [--queries 400] [--workers 1]

For 10,000 pages (or `--first`), 100,000 and so on up to `--pages`: `lycosa crawl` fetches this number
of pages of a larger web of real pages (`bench.million_web`, a host for 50 pages) and indexes them.
The next crawl gets SIGKILL and the one after it resumes: the time is that until its first request.
Then `lycosa serve` answers queries drawn from the pages, with snippets, and compact, rank and check
run once. CPU includes all processes but the web's. A million pages take about three hours and 60 GB
in TMPDIR.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.client import HTTPConnection
from pathlib import Path

import polars as pl

from bench.commands import run
from bench.corpora import Sample, queries
from bench.harness import (
    arguments,
    load_average,
    lycosa,
    measure,
    quantile,
    report,
    server_process,
    table,
)
from bench.million_web import SEED
from bench.search import Client, latencies, serving
from lycosa.store.tables.files import with_main_text
from lycosa.store.tables.schema import PAGES
from lycosa.store.workspace import Workspace

PAGES_PER_HOST = 50
FIRST_STEP, STEP = 10_000, 10
WEB_SHARE = 1.2  # the web to the crawled pages: it has other responses, and the killed crawls fetch
KILL_AFTER, RESUMED = 0.02, 200  # pages of the killed crawl, as a share; of those after it, more
SAMPLES = 2_000
WARM_UP = 50
S_PER_PAGE = 0.1  # limit of each command
COLUMNS = (
    *("pages", "CPU ms per page", "memory, MB", "anonymous, MB", "resume s"),
    *("search p50 ms", "p95 ms", "compact CPU s", "check CPU s", "rank CPU s", "load"),
)


def log(text: str) -> None:
    print(f"{text}; load {load_average():.1f}", file=sys.stderr, flush=True)


@contextmanager
def web(pages: int) -> Iterator[int]:
    """Serve a web that is large enough in a process; yield its port."""
    words = ["--pages", str(round(pages * WEB_SHARE)), "--hosts", str(pages // PAGES_PER_HOST)]
    with server_process([sys.executable, "-m", "bench.million_web", *words]) as (_, line):
        yield int(line)


def answered_requests(port: int) -> int:
    """Return the number of requests that the web has answered."""
    connection = HTTPConnection("127.0.0.1", port)
    connection.request("GET", "/-served")
    return int(connection.getresponse().read())


def crawl_command(root: Path, port: int, max_pages: int, workers: int = 1) -> list[str]:
    settings = {
        "fetch.connect_to": f'["::127.0.0.1:{port}"]',
        "collection.address_connections": 0,
        "collection.scope": "any",
        "collection.delay": "50ms",
        "collection.courtesy_factor": 1,
    }
    words = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    options = ("--quiet", "--max-pages", max_pages, "--workers", workers)
    return lycosa(root, "crawl", SEED, *options, *words)


@contextmanager
def killed_after(command: list[str], port: int, requests: int) -> Iterator[float]:
    """Run a command until the web has answered some more requests; yield the seconds, then kill it."""
    before, start = answered_requests(port), time.perf_counter()
    with subprocess.Popen(command, start_new_session=True) as process:
        try:
            while answered_requests(port) < before + requests:
                if process.poll() is not None:
                    raise SystemExit("the crawl ended before it was killed")
                time.sleep(0.02)
            yield time.perf_counter() - start
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def search_ms(root: Path, count: int) -> tuple[float, float]:
    """Return the median and the 95th percentile of `lycosa serve`, with snippets."""
    workspace = Workspace.open(str(root))
    paths = [workspace.path(file.path) for file in workspace.state().files["pages"]]
    pages = pl.scan_parquet(paths)
    step = max(1, pages.select(pl.len()).collect().item() // SAMPLES)
    sample = with_main_text(pages.gather_every(step), PAGES)
    rows = sample.select("url", "title", "main_text", "language").collect(engine="streaming")
    requests = queries([Sample(*row) for row in rows.iter_rows()], count + WARM_UP)
    with serving(str(root)) as (address, _):
        client = Client(address)
        latencies(client.search, requests[:WARM_UP])
        wall, _ = latencies(client.search, requests[WARM_UP:])
    return quantile(wall, 0.5), quantile(wall, 0.95)


def step_row(folder: Path, pages: int, count: int, workers: int) -> tuple[str, ...]:
    """Crawl, kill, resume, search and maintain a workspace; return its row."""
    root, limit_s = folder / "w", 600 + pages * S_PER_PAGE
    with web(pages) as port:
        command = partial(crawl_command, root, port, workers=workers)
        crawl = measure(command(pages), output=folder / "output", limit_s=limit_s)
        if crawl.exit_code:
            raise SystemExit((folder / "output").read_text())
        log(f"{pages:,}: crawled in {crawl.wall_s:,.0f} s, {1000 * crawl.cpu_s / pages:.1f} ms")
        killed = round(pages * KILL_AFTER)
        with killed_after(command(2 * pages), port, killed):
            pass
        with killed_after(command(killed + RESUMED), port, 1) as resume_s:
            pass
        log(f"{pages:,}: resumed in {resume_s:.1f} s")
        run(folder, *command(killed + RESUMED)[3:])
    medians = search_ms(root, count)
    log(f"{pages:,}: searches take {medians[0]:.1f} and {medians[1]:.1f} ms")
    maintenance = []
    for name in ("compact", "check", "rank"):
        cpu_s, wall_s, peak = run(folder, "-w", str(root), name, limit_s=limit_s)
        log(f"{pages:,}: {name} took {wall_s:.0f} s and {peak:.0f} MB")
        maintenance.append(cpu_s)
    cells = [1000 * crawl.cpu_s / pages, crawl.tree_rss_mb, crawl.tree_anonymous_mb, resume_s]
    cells += [*medians, *maintenance, load_average()]
    return (str(pages), *(f"{cell:.1f}" for cell in cells))


def main() -> None:
    options = arguments(
        __doc__, runs=1, first=FIRST_STEP, pages=FIRST_STEP, queries=400, workers=1
    ).parse_args()
    rows = []
    pages = options.first
    while pages <= options.pages:
        with tempfile.TemporaryDirectory(prefix="lycosa-bench-") as folder:
            rows.append(step_row(Path(folder), pages, options.queries, options.workers))
        log("; ".join(rows[-1]))
        pages *= STEP
    figures = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
    report(options, "A million pages", table(COLUMNS, rows), figures)


if __name__ == "__main__":
    main()
