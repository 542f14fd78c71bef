"""Lycosa and the crawlers that users run today: same sites, one machine, no politeness pause.

    python -m bench.peers [--peers a,b] [--sites python-doc,…] [--trial crawl|kill|hostile]

`crawl` measures complete crawls. `kill` ends a crawl with SIGKILL when half of the pages are
fetched, restarts it as documented in its manual, and counts pages that are missing in its output at
the end, and pages that were fetched twice. `hostile` crawls a bad endpoint, and then all in one
crawl, together with a good host of 21 pages, until it ends or a limit is reached.

The peers are installed into ~/.cache/lycosa-peers. They run in a network namespace that has only
loopback, because the hostile server redirects to private addresses.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import unquote

from tests.servers.hostile import GOOD_PAGES, HostileServer
from tests.servers.nginx import Nginx
from tests.servers.sites import NAMES, Site, SitesMissing, create_sites, serve_sites

from bench.crawl import crawl_target, html_pages, size_mb, summary_rows, those_present
from bench.harness import (
    MEGABYTE,
    CommandTimeout,
    Usage,
    arguments,
    measure,
    report,
    table,
)
from bench.peers.build import PeerAbsent
from bench.peers.commands import COMMANDS, ENVIRONMENT, nginx_program
from bench.peers.products import PEERS

ISOLATED = "LYCOSA_PEERS_ISOLATED"
# Hadoop looks its host name up, and no resolver answers there: every machine has "localhost".
NAMESPACE = 'ip link set lo up && hostname localhost && exec "$@"'
ENDPOINTS = (
    *("hang-before-headers", "hang-in-body", "slow-drip", "slow-headers", "robots-hang"),
    *("endless-body", "endless-chunks", "endless-headers", "interim-endless", "busy-429-huge"),
    *("gzip-bomb", "br-bomb", "zstd-bomb", "deep-nesting", "long-line"),
    *("redirect-endless", "calendar", "deeper"),
)
"""Endpoints that can delay a crawler, fill its memory or fill its disk; of 150."""
ALL_ENDPOINTS = "all in one crawl"
TRIED = (*ENDPOINTS, ALL_ENDPOINTS)

Row = dict[str, Any]
CRAWL_COLUMNS = {
    "contender": "program",
    "pages": "pages",
    "requests": "requests",
    "robots": "of them robots.txt",
    "pages_per_cpu_second": "pages per CPU-second",
    "wall_s": "wall time, s",
    "tree_rss_mb": "peak memory, MB",
    "kept_mb": "kept, MB",
}
KILL_COLUMNS = {
    "peer": "program",
    "kept": "pages kept without a kill",
    "before": "fetched before the kill",
    "lost": "lost",
    "twice": "fetched twice",
}
GOOD = GOOD_PAGES + 1
DISK_LIMIT_MB = 1_000.0
MEMORY_LIMIT_MB = 3_000.0
NOTABLE_MEMORY_MB = 1_000.0


@dataclass(frozen=True)
class Killed:
    """A crawl that was killed and restarted."""

    peer: str
    site: str
    kept: int  # pages in the output of a crawl without a kill
    before: int  # pages fetched before the kill
    lost: int  # of `kept`, missing after the second run
    twice: int  # pages fetched before and after the kill
    exit_code: int  # of the second run


@dataclass(frozen=True)
class Attacked:
    """A crawl of a bad endpoint and a good host."""

    peer: str
    endpoint: str
    limit: str  # the limit that was reached; empty if the crawl ended
    exit_code: int
    good: int
    requests: int  # to the bad host
    wall_s: float
    disk_mb: float
    memory_mb: float


def start(peer: str, seeds: Sequence[str], folder: Path, stop: Callable[[int], object]) -> Usage:
    """Run a peer in its folder, which may contain an interrupted crawl."""
    command = COMMANDS[peer](seeds, folder)
    output = folder.with_suffix(".output")
    return measure(command, output=output, cwd=folder, environment=ENVIRONMENT, stop=stop)


def kill(peer: str, site: str, seeds: Sequence[str], server: Nginx) -> Killed:
    """Kill a crawl in the middle and restart it; count lost and repeated pages."""

    def fetched(mark: int) -> set[str]:
        return html_pages(server.requests(mark))

    with tempfile.TemporaryDirectory(prefix=f"lycosa-bench-{peer}-") as name:
        complete, broken = Path(name) / "complete", Path(name) / "broken"
        complete.mkdir()
        broken.mkdir()
        mark = server.mark()
        start(peer, seeds, complete, lambda _: False)
        server.settle()
        expected = fetched(mark)
        half = len(expected) // 2
        mark = server.mark()
        start(peer, seeds, broken, lambda _: len(fetched(mark)) >= half)
        server.settle()
        before, again = fetched(mark), server.mark()
        usage = start(peer, seeds, broken, lambda _: False)
        server.settle()
        kept = PEERS[peer].pages(complete) & {unquote(url) for url in expected}
        lost = kept - PEERS[peer].pages(broken)
        twice = before & fetched(again)
    return Killed(peer, site, len(kept), len(before), len(lost), len(twice), usage.exit_code)


def attack(peer: str, endpoint: str, limit_s: float) -> Attacked:
    """Crawl a bad endpoint and a good host, within limits of time, memory and disk."""
    reasons: list[str] = []
    checked = start_time = time.monotonic()
    disk = 0.0

    with (
        tempfile.TemporaryDirectory(prefix=f"lycosa-bench-{peer}-") as name,
        HostileServer() as bad,
    ):
        folder = Path(name) / "folder"
        folder.mkdir()

        def over(resident: int) -> bool:
            nonlocal checked, disk
            now = time.monotonic()
            if now - checked > 1:
                checked, disk = now, max(disk, size_mb(folder))
            limits = {
                "time": now - start_time > limit_s,
                "memory": resident / MEGABYTE > MEMORY_LIMIT_MB,
                "disk": disk > DISK_LIMIT_MB,
            }
            reasons.extend(name for name, reached in limits.items() if reached)
            return bool(reasons)

        endpoints = ENDPOINTS if endpoint == ALL_ENDPOINTS else (endpoint,)
        usage = start(peer, [*map(bad.url, (*endpoints, "good"))], folder, over)
        disk = max(disk, size_mb(folder))
        paths = {request.path for request in bad.requests("good")}
        requests = len(bad.requests(endpoint if endpoint.startswith("robots-") else "hostile"))
    good = len([path for path in paths if path == "/" or path.startswith("/page/")])
    reached, memory = reasons[0] if reasons else "", usage.tree_rss_mb
    return Attacked(
        peer, endpoint, reached, usage.exit_code, good, requests, usage.wall_s, disk, memory
    )


def crawl_all(peers: Sequence[str], sites: Sequence[Site], runs: int) -> list[Row]:
    """Crawl every site by every peer; return medians of the runs."""
    return summary_rows(
        [result for site in sites for result in crawl_target(site.name, (site,), peers, runs)]
    )


def kill_all(peers: Sequence[str], sites: Sequence[Site], runs: int) -> list[Row]:
    results = []
    for site in sites:
        with serve_sites((site,), program=nginx_program()) as served:
            for peer in [*peers] * runs:
                results.append(asdict(kill(peer, site.name, served.seeds(), served.server)))
                print(results[-1], file=sys.stderr)
    return results


def attack_all(
    peers: Sequence[str], endpoints: Sequence[str], limit_s: float, parallel: int
) -> list[Row]:
    """Crawl every endpoint by every peer."""
    results = []
    for peer in peers:
        with ThreadPoolExecutor(parallel) as pool:
            for result in pool.map(partial(attack, peer, limit_s=limit_s), endpoints):
                results.append(asdict(result))
                print(results[-1], file=sys.stderr)
    return results


def crawl_table(rows: Sequence[Row]) -> str:
    """Return a table for each site, as in the documentation."""
    parts = []
    for site in dict.fromkeys(row["target"] for row in rows):
        cells = [[row[name] for name in CRAWL_COLUMNS] for row in rows if row["target"] == site]
        parts.append(f"{site}:\n\n{table(list(CRAWL_COLUMNS.values()), map(_named, cells))}")
    return "\n\n".join(parts)


def kill_table(rows: Sequence[Row]) -> str:
    cells = [[row[name] for name in KILL_COLUMNS] for row in rows]
    return table(list(KILL_COLUMNS.values()), map(_named, cells))


def hostile_table(rows: Sequence[Row]) -> str:
    """Return a row for each endpoint, a column for each peer."""
    peers = list(dict.fromkeys(row["peer"] for row in rows))
    cells = {(row["endpoint"], row["peer"]): _cell(row) for row in rows}
    names = dict.fromkeys(row["endpoint"] for row in rows)
    lines = [[name, *(cells[name, peer] for peer in peers)] for name in names]
    return table(["endpoint", *(f"`{peer}`" for peer in peers)], lines)


def _named(cells: Sequence[object]) -> list[object]:
    return [f"`{cells[0]}`", *cells[1:]]


def _cell(row: Row) -> str:
    """Return how a crawl ended, and its deviations."""
    ended = f"ended with {row['exit_code']}" if row["exit_code"] else "ended"
    parts = [f"**{row['limit']}**" if row["limit"] else ended]
    if row["good"] < GOOD:
        parts.append(f"{row['good']} of {GOOD} pages")
    if row["memory_mb"] > NOTABLE_MEMORY_MB and row["limit"] != "memory":
        parts.append(f"{row['memory_mb']:,.0f} MB")
    return ", ".join(parts)


TRIALS = {"crawl": crawl_all, "kill": kill_all}
TABLES = {"crawl": crawl_table, "kill": kill_table, "hostile": hostile_table}


def isolate(words: Sequence[str]) -> NoReturn:
    """Execute this program again in a new network namespace; peers must be installed before."""
    program = ["unshare", "--net", "--uts", "--map-root-user", "sh", "-c", NAMESPACE, "sh"]
    command = [*program, sys.executable, "-m", "bench.peers", *words]
    os.execvpe(command[0], command, {**os.environ, ISOLATED: "1"})


def main(words: Sequence[str]) -> int:
    parser = arguments(
        __doc__,
        1,
        peers=(",".join(PEERS), f"of {', '.join(PEERS)}"),
        sites=("tuxpaint-doc,python-doc", f"of {', '.join(NAMES)}"),
        endpoints=(",".join(TRIED), "of the hostile crawls (default all)"),
        limit=(200.0, "seconds for each hostile crawl (default 200)"),
        parallel=(9, "hostile crawls at once (default 9: most wait; 4 for programs in Java)"),
    )
    parser.add_argument("--trial", choices=[*TABLES], default="crawl")
    options = parser.parse_args(words)
    peers, names, endpoints = (
        each.split(",") for each in (options.peers, options.sites, options.endpoints)
    )
    unknown = [*({*peers} - PEERS.keys()), *({*names} - {*NAMES}), *({*endpoints} - {*TRIED})]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}")
    try:
        if ISOLATED not in os.environ:
            isolate([*words, "--peers", ",".join(those_present(peers, tls=False))])
        if options.trial == "hostile":
            rows = attack_all(peers, endpoints, options.limit, options.parallel)
        else:
            sites = [site for site in create_sites() if site.name in names]
            rows = TRIALS[options.trial](peers, sites, options.runs)
    except (PeerAbsent, SitesMissing, CommandTimeout, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 1
    report(options, f"Peers, {options.trial}", TABLES[options.trial](rows), rows)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
