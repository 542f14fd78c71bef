"""Lycosa beside the crawlers that users run today: same sites, one machine, no politeness pause.

    python -m bench.peers [--peers a,b] [--sites python-doc,…] [--trial crawl|kill|hostile]

`crawl` measures complete crawls. `kill` ends a crawl with SIGKILL when half of the pages are
fetched, starts it again as its manual says, and counts pages that are not in its store in the end,
and pages that were fetched twice. `hostile` crawls a bad endpoint together with a good host of 21
pages, until it ends or a limit is reached.

The peers are installed into ~/.cache/lycosa-peers. They run in a network namespace with nothing but
loopback: the hostile server redirects to private addresses.
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
from urllib.parse import unquote

from tests.servers.hostile import HostileServer
from tests.servers.nginx import Nginx
from tests.servers.sites import NAMES, Site, lay_sites, serve_sites

from bench.crawl import crawl_target, html_pages, size_mb, summary_rows, those_present
from bench.harness import Usage, arguments, measure, report, table
from bench.peers.commands import COMMANDS, ENVIRONMENT, nginx_program
from bench.peers.products import PEERS

ISOLATED = "LYCOSA_PEERS_ISOLATED"
NAMESPACE = 'ip link set lo up && exec "$@"'
ENDPOINTS = (
    *("hang-before-headers", "hang-in-body", "slow-drip", "slow-headers", "robots-hang"),
    *("endless-body", "endless-chunks", "endless-headers", "interim-endless", "busy-429-huge"),
    *("gzip-bomb", "br-bomb", "zstd-bomb", "deep-nesting", "long-line"),
    *("redirect-endless", "calendar", "deeper"),
)
"""Of the 150 endpoints those that can hold up a crawler, fill its memory or fill its disk."""

DISK_LIMIT_MB = 1_000.0
MEMORY_LIMIT_MB = 3_000.0
TOGETHER = 9
"""Hostile crawls at once: most of them wait."""


@dataclass(frozen=True)
class Killed:
    """A crawl that was killed and started again."""

    peer: str
    site: str
    kept: int  # pages that a crawl without a kill keeps
    before: int  # pages fetched until the kill
    lost: int  # of `kept`, not kept after the second start
    twice: int  # pages fetched before and after the kill
    exit_code: int  # of the second start


@dataclass(frozen=True)
class Attacked:
    """A crawl of a bad endpoint and a good host."""

    peer: str
    endpoint: str
    outcome: str
    good: int
    requests: int  # to the bad host
    wall_s: float
    disk_mb: float
    memory_mb: float


def start(peer: str, seeds: Sequence[str], folder: Path, stop: Callable[[int], object]) -> Usage:
    """Run a peer in its folder, which may hold the beginning of a crawl."""
    command = COMMANDS[peer](seeds, folder)
    output = folder.with_suffix(".output")
    return measure(command, output=output, cwd=folder, environment=ENVIRONMENT, stop=stop)


def kill(peer: str, site: str, seeds: Sequence[str], server: Nginx) -> Killed:
    """Measure what a kill in the middle of a crawl costs."""

    def fetched(mark: int) -> set[str]:
        return html_pages(server.requests(mark))

    with tempfile.TemporaryDirectory(prefix=f"lycosa-bench-{peer}-") as name:
        whole, broken = Path(name) / "whole", Path(name) / "broken"
        whole.mkdir()
        broken.mkdir()
        mark = server.mark()
        start(peer, seeds, whole, lambda _: False)
        server.settle()
        expected = fetched(mark)
        half = len(expected) // 2
        mark = server.mark()
        start(peer, seeds, broken, lambda _: len(fetched(mark)) >= half)
        server.settle()
        before, again = fetched(mark), server.mark()
        usage = start(peer, seeds, broken, lambda _: False)
        server.settle()
        kept = PEERS[peer].pages(whole) & {unquote(url) for url in expected}
        lost = kept - PEERS[peer].pages(broken)
        twice = before & fetched(again)
    return Killed(peer, site, len(kept), len(before), len(lost), len(twice), usage.exit_code)


def attack(peer: str, endpoint: str, limit_s: float) -> Attacked:
    """Crawl a bad endpoint and a good host, within limits of time, memory and disk."""
    reasons: list[str] = []
    looked = began = time.monotonic()
    disk = 0.0

    with (
        tempfile.TemporaryDirectory(prefix=f"lycosa-bench-{peer}-") as name,
        HostileServer() as bad,
    ):
        folder = Path(name) / "folder"
        folder.mkdir()

        def over(resident: int) -> bool:
            nonlocal looked, disk
            now = time.monotonic()
            if now - looked > 1:
                looked, disk = now, max(disk, size_mb(folder))
            reasons.extend(
                reason
                for reason, reached in (
                    (f"runs after {limit_s:.0f} s", now - began > limit_s),
                    (
                        f"more than {MEMORY_LIMIT_MB:.0f} MB of memory",
                        resident / 1e6 > MEMORY_LIMIT_MB,
                    ),
                    (f"more than {DISK_LIMIT_MB:.0f} MB of disk", disk > DISK_LIMIT_MB),
                )
                if reached
            )
            return bool(reasons)

        usage = start(peer, [bad.url(endpoint), bad.url("good")], folder, over)
        disk = max(disk, size_mb(folder))
        paths = {request.path for request in bad.requests("good")}
        host = endpoint if endpoint.startswith("robots-") else "hostile"
        requests = len(bad.requests(host))
    ended = "ended" if usage.exit_code == 0 else f"exit code {usage.exit_code}"
    good = len([path for path in paths if path == "/" or path.startswith("/page/")])
    memory = usage.tree_rss_mb
    return Attacked(
        peer, endpoint, *(reasons or [ended])[:1], good, requests, usage.wall_s, disk, memory
    )


def attack_all(peers: Sequence[str], limit_s: float) -> list[Attacked]:
    """Every peer at every endpoint."""
    results = []
    for peer in peers:
        with ThreadPoolExecutor(TOGETHER) as pool:
            for result in pool.map(partial(attack, peer, limit_s=limit_s), ENDPOINTS):
                print(result, file=sys.stderr)
                results.append(result)
    return results


def rows_of(results: Sequence[Killed | Attacked]) -> list[dict[str, object]]:
    return [
        {key: round(cell) if isinstance(cell, float) else cell for key, cell in row.items()}
        for row in map(asdict, results)
    ]


def run(
    trial: str, peers: Sequence[str], names: Sequence[str], runs: int, limit_s: float
) -> list[dict[str, object]]:
    """Rows of the table of one trial."""
    if trial == "hostile":
        return rows_of(attack_all(peers, limit_s))
    sites: list[Site] = [site for site in lay_sites() if site.name in names]
    if trial == "crawl":
        return summary_rows(
            [result for site in sites for result in crawl_target(site.name, (site,), peers, runs)]
        )
    results = []
    for site in sites:
        with serve_sites((site,), program=nginx_program()) as served:
            for _ in range(runs):
                for peer in peers:
                    results.append(kill(peer, site.name, served.seeds(), served.server))
                    print(results[-1], file=sys.stderr)
    return rows_of(results)


def main(words: Sequence[str]) -> int:
    parser = arguments(
        __doc__,
        1,
        peers=(",".join(PEERS), f"of {', '.join(PEERS)}"),
        sites=("tuxpaint-doc,python-doc", f"of {', '.join(NAMES)}"),
        limit=(200.0, "seconds for each hostile crawl (default 200)"),
    )
    parser.add_argument("--trial", choices=("crawl", "kill", "hostile"), default="crawl")
    options = parser.parse_args(words)
    peers, names = options.peers.split(","), options.sites.split(",")
    unknown = [*({*peers} - PEERS.keys()), *({*names} - {*NAMES})]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}")
    if ISOLATED not in os.environ:
        peers = those_present(peers, tls=False)  # installs them, while there is a network
        command = [
            "unshare",
            "--net",
            "--map-root-user",
            "sh",
            "-c",
            NAMESPACE,
            "sh",
            sys.executable,
        ]
        module = ["-m", "bench.peers", *words, "--peers", ",".join(peers)]
        os.execvpe(command[0], [*command, *module], {**os.environ, ISOLATED: "1"})
    rows = run(options.trial, peers, names, options.runs, options.limit)
    body = table(list(rows[0]), [list(row.values()) for row in rows])
    report(options, f"Peers, {options.trial}", body, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
