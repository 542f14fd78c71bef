"""The search page over many pages: the server's time, bytes on the wire, and a hundred readers at
once.

    python -m bench.search_scale --folder DIR --make-only
    python -m bench.pages DIR [--readers N] [--processes N] [--results FILE]

The workspace and the queries are those of `bench.search_scale`. `lycosa serve` answers from a
process of its own, or from several (`--processes`); the page is the whole HTML with ten results and
facets. Its CPU is read from the kernel, so that load beside it counts little; times by the clock
are given with the load.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import psutil

from bench.measure import append_results, quantile, table
from bench.search_scale import Made

REQUESTS, READERS, EACH = 400, 100, 10


@contextlib.contextmanager
def server(root: Path, processes: int) -> Iterator[tuple[str, psutil.Process]]:
    """The address of `lycosa serve` over a workspace, and its process, the parent of others if
    there are several.
    """
    command = [
        sys.executable,
        "-m",
        "lycosa.cli.main",
        "-w",
        str(root),
        "serve",
        "--port",
        "0",
        "--processes",
        str(processes),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            address = next(
                word for word in process.stdout.readline().split() if word.startswith("http://")
            )
            yield urlsplit(address).netloc, psutil.Process(process.pid)
        finally:
            process.terminate()


def ask(connection: http.client.HTTPConnection, query: str) -> tuple[int, int]:
    """Status and size of a results page."""
    connection.request("GET", f"/?{urlencode({'q': query})}", headers={"accept": "text/html"})
    answer = connection.getresponse()
    return answer.status, len(answer.read())


def cpu_ms(process: psutil.Process) -> float:
    """Of the process and those that it started."""
    used = [each.cpu_times() for each in (process, *process.children(recursive=True))]
    return float(sum(times.user + times.system for times in used)) * 1000


def warm_up(address: str, queries: list[str], processes: int) -> None:
    """The kernel deals connections out: several for each process, so that all have opened the index
    before it is measured.
    """
    for number in range(8 * processes if processes > 1 else 1):
        connection = http.client.HTTPConnection(address, timeout=60)
        for query in queries[: 20 if number == 0 else 2]:
            ask(connection, query)
        connection.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--readers", type=int, default=READERS)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--results", type=Path, help="append the figures to this file")
    chosen = parser.parse_args()
    made = Made(**json.loads((chosen.folder / "made.json").read_text()))
    asked = made.queries[:REQUESTS]
    with server(chosen.folder / "workspace", chosen.processes) as (address, process):
        warm_up(address, asked, chosen.processes)
        connection = http.client.HTTPConnection(address, timeout=60)
        times, costs, sizes = [], [], []
        for query in asked:
            before, began = cpu_ms(process), time.perf_counter()
            status, size = ask(connection, query)
            assert status == 200
            times.append((time.perf_counter() - began) * 1000)
            costs.append(cpu_ms(process) - before)
            sizes.append(size)
        static = 0
        for name in ("style.css", "search.js", "suggest.js", "preferences.js", "icon.svg"):
            connection.request("GET", f"/static/{name}")
            static += len(connection.getresponse().read())
        wrong: list[int] = []
        waits: list[float] = []

        def read(number: int) -> None:
            mine = http.client.HTTPConnection(address, timeout=120)
            for turn in range(EACH):
                began = time.perf_counter()
                try:
                    status, _ = ask(mine, asked[(number * EACH + turn) % len(asked)])
                except OSError:
                    status = 0
                waits.append((time.perf_counter() - began) * 1000)
                if status != 200:
                    wrong.append(status)

        before_all = cpu_ms(process)
        began = time.perf_counter()
        threads = [
            threading.Thread(target=read, args=(number,)) for number in range(chosen.readers)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        rate = chosen.readers * EACH / (time.perf_counter() - began)
        parallel = (cpu_ms(process) - before_all) / (chosen.readers * EACH)
        memory = (
            sum(each.memory_info().rss for each in (process, *process.children(recursive=True)))
            / 2**20
        )
    rows = [
        (
            "server CPU a page, mean; p95",
            f"{sum(costs) / len(costs):.1f} ms; {quantile(costs, 0.95):.1f} ms",
        ),
        (
            "wall-clock time, p50; p95",
            f"{quantile(times, 0.5):.1f} ms; {quantile(times, 0.95):.1f} ms",
        ),
        (
            "page, with styles and scripts",
            f"{sum(sizes) / len(sizes) / 1000:.1f} KB, "
            f"{(max(sizes) + static) / 1000:.1f} KB at most",
        ),
        (
            f"{chosen.readers} readers at once",
            f"{len(wrong)} errors, {rate:.0f} pages/s, p50 {quantile(waits, 0.5):.0f} ms, p99 "
            f"{quantile(waits, 0.99):.0f} ms; "
            f"server CPU a page {parallel:.1f} ms",
        ),
        ("memory of the server, all processes", f"{memory:.0f} MiB"),
    ]
    text = table(("what", "measured"), rows)
    print(f"load {os.getloadavg()[0]:.1f}\n{text}")
    if chosen.results:
        append_results(
            chosen.results,
            f"The search page over {made.pages:,} pages",
            "python -m bench.pages",
            text,
        )


if __name__ == "__main__":
    main()
