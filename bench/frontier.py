"""What the frontier's memory of a large crawl costs: resume, look-ups, picks and refills, memory,
bytes on disk.

    python -m bench.frontier [--urls 10000000 --hosts 1000000] [--workspace FOLDER]
    python -m bench.frontier --urls 1000000 --hosts 100000

Generates the state by `tests/frontier/large.py` (kept in FOLDER if one is named, and used again),
then measures in a fresh process, as a worker would go: index the files, one pass over the live rows
that fills the known URLs and the directory of hosts, the hosts' own rows, then look-ups, and picks
with refills. Times are wall and CPU of all threads; memory is of the process when a part has ended
and at its highest while it ran, which starts at what the imports take.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl
from tests.frontier.large import COLLECTION, START_MS, Plan, build

from bench.harness import load_average, machine, table
from lycosa.core.records import UrlId
from lycosa.frontier.hosts.directory import HostDirectory, HostOrder
from lycosa.frontier.rows.row_reader import HostRowReader, RowChoice, summary
from lycosa.frontier.seen.seen_urls import SeenUrls
from lycosa.processes.memory import tune_memory
from lycosa.store.workspace import Workspace

T = TypeVar("T")

_SIZES = re.compile(r"^(VmHWM|RssAnon|RssFile):\s+(\d+) kB$", re.MULTILINE)
_ALLOCATOR = "_RJEM_MALLOC_CONF"
_QUICKLY_BACK = "narenas:1,dirty_decay_ms:100,muzzy_decay_ms:0"
"""Polars' allocator: one arena, and freed memory goes back after a tenth of a second; 60 MB less at
the peak, 10 % more CPU.
"""

_NOW_MS = START_MS + 100_000_000
_HEAD = 100  # URLs that a host takes into memory
_LOOK_UPS = 100_000
_KNOWN = pl.col("state") == "known"
_DUE = {
    COLLECTION: pl.when(_KNOWN)
    .then(pl.col("not_before").dt.epoch("ms").fill_null(0))
    .otherwise(None)
}
_BREADTH = (pl.col("depth"), pl.col("first_seen_at"))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--urls", type=int, default=10_000_000)
    parser.add_argument("--hosts", type=int, default=1_000_000)
    parser.add_argument("--workspace", type=Path)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        tune_memory()
        _measure(Workspace.open(str(arguments.workspace)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.workspace or Path(temporary) / "w"
        command = [sys.executable, "-m", "bench.frontier", "--workspace", str(folder)]
        if not folder.exists():
            start = time.perf_counter()
            build(str(folder), Plan(arguments.urls, arguments.hosts))
            print(f"generated in {time.perf_counter() - start:.0f} s\n", flush=True)
        subprocess.run(
            [*command, "--inside"], check=True, env={**os.environ, _ALLOCATOR: _QUICKLY_BACK}
        )


class _Parts:
    """Measures one part after the other."""

    def __init__(self) -> None:
        self.rows: list[tuple[object, ...]] = []
        self._note("imports and log", 0.0, 0.0, "")

    def part(self, name: str, work: Callable[[], T], note: Callable[[T, float], str]) -> T:
        Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts anew
        wall, cpu = time.perf_counter(), time.process_time()
        result = work()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        self._note(name, wall, cpu, note(result, cpu))
        return result

    def _note(self, name: str, wall: float, cpu: float, note: str) -> None:
        sizes = {
            field: int(size) / 1024
            for field, size in _SIZES.findall(Path("/proc/self/status").read_text())
        }
        self.rows.append(
            (
                name,
                f"{wall:.3f}",
                f"{cpu:.3f}",
                *(f"{sizes[field]:.0f}" for field in ("VmHWM", "RssAnon", "RssFile")),
                note,
            )
        )


def _measure(workspace: Workspace) -> None:
    files = workspace.state().files
    urls, host_rows = HostRowReader("urls", workspace.path), HostRowReader("hosts", workspace.path)
    run = workspace.path("run")
    os.makedirs(run, exist_ok=True)
    known, hosts = SeenUrls(run), HostDirectory(run)
    parts = _Parts()

    def index() -> None:
        urls.refresh(files["urls"])
        host_rows.refresh(files["hosts"])

    def resume() -> None:
        def frames() -> Iterator[pl.DataFrame]:
            for frame in urls.live(["state", "depth", "not_before"]):
                hosts.extend(summary(frame, _DUE))
                yield frame

        known.load(frames())

    def host_fields() -> None:
        fields = (
            pl.col("last_visit_at").dt.epoch("ms"),
            pl.col("not_before").dt.epoch("ms").alias("next_at"),
        )
        hosts.update(
            frame.select("host_key", *fields)
            for frame in host_rows.live(["last_visit_at", "not_before"])
        )

    parts.part(
        "index of the files",
        index,
        lambda _, cpu: "",
    )
    parts.part(
        "known URLs and hosts",
        resume,
        lambda _, cpu: f"{len(known):,} URLs, {len(hosts):,} hosts, {hosts.nbytes / 1e6:.0f} MB",
    )
    parts.part("what `hosts` reports", host_fields, lambda _, cpu: "")
    _look_ups(parts, urls, known, hosts)
    _refills(parts, urls, host_rows, hosts)
    size, count = sum(file.bytes for file in files["urls"]), len(known)
    print(f"{machine()}; load {load_average():.1f}\n")
    print(
        table(["part", "wall s", "CPU s", "peak MiB", "anonymous MiB", "file MiB", ""], parts.rows)
    )
    print(
        f"\n`urls`: {len(files['urls'])} live files, {size / count:.1f} bytes of disk a URL; "
        "`hosts`: ",
        end="",
    )
    print(f"{sum(file.bytes for file in files['hosts']) / len(hosts):.1f} a host")


def _look_ups(parts: _Parts, urls: HostRowReader, known: SeenUrls, hosts: HostDirectory) -> None:
    sample = next(iter(urls.live(["url", "depth"]))).sample(20_000, seed=1, with_replacement=True)
    chosen = sample.select("url", "host_key", "url_key", "partition")
    identities = [
        UrlId(url, "", host_key, url_key, partition)
        for url, host_key, url_key, partition in chosen.iter_rows()
    ]
    new = [
        UrlId("http://new/", "", 0, key, 0)
        for key in np.random.default_rng(2)
        .integers(0, 1 << 64, _LOOK_UPS, dtype=np.uint64)
        .tolist()
    ]

    def per_call(count: int) -> Callable[[object, float], str]:
        return lambda _, cpu: f"{1e6 * cpu / count:.2f} us each"

    def enter() -> None:
        for url in new:
            if known.depth(url) is None:
                known.put(url, 3)

    parts.part(
        "depth of a known URL",
        lambda: [known.depth(identity) for identity in identities],
        per_call(len(identities)),
    )
    parts.part("a new URL: depth, put, compactions", enter, per_call(len(new)))
    keys = hosts.host_key[: len(hosts) : max(1, len(hosts) // _LOOK_UPS)].tolist()
    parts.part("slot of a host", lambda: [hosts.slot(key) for key in keys], per_call(len(keys)))
    wanted = sample[:1_000]
    parts.part(
        "find 1,000 URLs",
        lambda: urls.find(
            *(wanted[name].to_numpy() for name in ("partition", "host_key", "url_key"))
        ),
        per_call(1_000),
    )


def _refills(
    parts: _Parts, urls: HostRowReader, host_rows: HostRowReader, hosts: HostDirectory
) -> None:
    random = np.random.default_rng(3)

    def refill(slots: npt.NDArray[np.int64]) -> pl.DataFrame:
        partitions, host_keys = hosts.partition[slots], hosts.host_key[slots]
        host_rows.rows(partitions, host_keys)
        hosts.activate(slots)
        return urls.rows(partitions, host_keys, _KNOWN, RowChoice(_BREADTH, _HEAD))

    def note(rows: pl.DataFrame, cpu: float) -> str:
        return f"{rows.height:,} URLs, {1e3 * cpu / max(rows.height, 1):.3f} ms each"

    for count in (200, 2_000):
        for order in (HostOrder.TIME, HostOrder.SERVERS):
            picked = lambda: refill(hosts.pick(_NOW_MS, 600_000, count, order))  # noqa: B023, E731
            parts.part(f"pick and refill {count:,} hosts by {order}", picked, note)
        scattered = random.choice(len(hosts), count, replace=False)
        parts.part(f"refill {count:,} hosts anywhere", lambda: refill(scattered), note)  # noqa: B023
    largest = np.argsort(hosts.waiting[: len(hosts)])[-200:]
    parts.part("refill the 200 largest hosts", lambda: refill(largest), note)
    parts.part(
        "pick 2,000 alone",
        lambda: hosts.pick(_NOW_MS, 600_000, 2_000, HostOrder.SERVERS),
        lambda slots, cpu: "",
    )
    parts.part("next_time", hosts.next_time, lambda _, cpu: "")


if __name__ == "__main__":
    main()
