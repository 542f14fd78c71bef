"""Run StormCrawler's topology in Storm's local mode until nothing is left to do.

    python -m bench.peers.stormcrawler_topology LIB FOLDER CONCURRENCY PER_HOST SEED…

The topology and its filters are in `stormcrawler/`: those of the archetype, and a WARC bolt. URLs
are kept in memory, because the other kinds of storage are servers. The same command therefore starts
a killed crawl again from the seeds.

A topology never ends. Each second, the fetcher logs its numbers of queued and of active URLs. Storm
is terminated once both were zero twice, and no page was parsed or archived meanwhile.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from bench.peers.build import SOURCES

CONFIGURATION = SOURCES / "stormcrawler"
HEAP = "-Xmx2g"  # of a worker in the archetype; `storm local` sets none
LIFETIME_S = 86_400  # of Storm's local mode; its default is 20
STARTS = 3  # on a busy machine, local mode may halt because its supervisor is faster than Nimbus
POLL_S = 0.25
IDLE_REPORTS = 4  # of two figures each second

_FIGURE = re.compile(r":fetcher\s+(?:activethreads|in_queues)\s+(\d+)")
_WORKERS = ("FetcherBolt", "HDFSWriter", "JSoupParserBolt")


def wait_until_idle(log: Iterable[str]) -> bool:
    """Read the log until no URL is queued, fetched, parsed or archived.

    Returns:
        whether a URL was queued or fetched.
    """
    started = parsing = False
    idle = 0
    for line in log:
        if figure := _FIGURE.search(line):
            started = started or figure[1] != "0"
            idle = idle + 1 if started and figure[1] == "0" and not parsing else 0
            if idle == IDLE_REPORTS:
                break
        elif line.startswith(_WORKERS):
            started, idle = started or "://" in line, 0
            if line.startswith("JSoup"):
                parsing = line.startswith("JSoupParserBolt Pars")  # "Parsing", then "Parsed"
    return started


def follow(path: Path, process: subprocess.Popen[bytes]) -> Iterator[str]:
    """Yield the lines of a growing file until the process has ended."""
    with path.open(errors="replace") as log:
        while process.poll() is None:
            if line := log.readline():
                yield line
            else:
                time.sleep(POLL_S)


def rules(seeds: Sequence[str]) -> str:
    """Return a filter that accepts URLs of the seeds' hosts only.

    That of the archetype also drops loopback addresses, and suffixes such as .gz, which the other
    programs request.
    """
    hosts = sorted({urlsplit(seed).netloc for seed in seeds})
    return "".join(f"+^https?://{re.escape(host)}(/|$)\n" for host in hosts)


def main(library: Path, folder: Path, concurrency: str, per_host: str, seeds: Sequence[str]) -> int:
    conf, temporary, log = folder / "conf", folder / "storm", folder / "storm.log"
    shutil.rmtree(temporary, ignore_errors=True)  # of a killed crawl
    for path in (conf, temporary):
        path.mkdir(exist_ok=True)
    (conf / "hosts.txt").write_text(rules(seeds))
    values = {
        "threads": concurrency,
        "threads_per_host": per_host,
        "warc": folder / "warc",
        "seeds": json.dumps([*seeds]),
    }
    properties = conf / "values.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
    jar = next(library.glob("storm-crawler-core-*.jar"))  # one is required; it has no effect
    command: list[str | Path] = [
        *("java", HEAP, "-Djava.net.preferIPv4Stack=true", f"-Djava.io.tmpdir={temporary}"),
        *(f"-Dstorm.local.sleeptime={LIFETIME_S}", f"-Dstorm.jar={jar}"),
        *("-cp", f"{CONFIGURATION}:{conf}:{library}/*", "org.apache.storm.LocalCluster"),
        *("org.apache.storm.flux.Flux", "--filter", properties, CONFIGURATION / "crawler.flux"),
    ]
    for _ in range(STARTS):
        with log.open("wb") as sink:
            process = subprocess.Popen(command, stderr=sink)
        if wait_until_idle(follow(log, process)):
            break
    if failed := process.poll() is not None:
        print(log.read_text(errors="replace")[-3000:], file=sys.stderr)
    process.terminate()
    process.wait()
    shutil.rmtree(temporary, ignore_errors=True)
    return int(failed)


if __name__ == "__main__":
    place, directory, limit, host_limit, *urls = sys.argv[1:]
    sys.exit(main(Path(place), Path(directory), limit, host_limit, urls))
