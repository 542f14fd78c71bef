"""SIGKILL at random moments of a crawl, and the checks afterwards.

Each kill records the complete exchanges of all WARCs and the end of the server's log: an archived
response must not be requested again. After the final run, tables, archive and index contain every
page exactly once.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from fastwarc.warc import ArchiveIterator, WarcRecordType

from lycosa.archive.warc.reader import read_exchanges
from tests.cli.conftest import printed, printed_here
from tests.servers.nginx import Nginx
from tests.waiting import until

LYCOSA = Path(sys.executable).parent / "lycosa"
RUN_LIMIT_S = 120.0
LOG_SETTLES_S = 0.05  # nginx writes its log line shortly after it sent the response


@dataclass
class Kill:
    """State of the disk and of the server's log when a process was killed."""

    after_s: float
    archived: frozenset[str]  # URLs of pages with a complete exchange in a WARC
    log_mark: int


@dataclass
class KilledCrawl:
    """A crawl that was killed repeatedly, then finished."""

    workspace: Path
    kills: list[Kill] = field(default_factory=list)


def crawl_command(workspace: Path, seed: str, delay: str) -> list[str]:
    """Return a `lycosa crawl` command.

    Commits are small, so that kills occur before, during and after them.
    """
    commits = ("crawl.commit_pages=25", "crawl.commit_interval=300ms", "index.interval=200ms")
    settings = (
        *commits,
        "collection.courtesy_factor=0",
        "collection.media_types=*",
        "crawl.patience=1s",
    )
    overrides = [part for setting in settings for part in ("--set", setting)]
    return [
        str(LYCOSA),
        "-w",
        str(workspace),
        *overrides,
        "crawl",
        seed,
        "--delay",
        delay,
        "--json",
        "--quiet",
    ]


def kill_until(
    server: Nginx,
    workspace: Path,
    seed: str,
    *,
    kills: int,
    chance: random.Random,
    delay: str = "10ms",
) -> KilledCrawl:
    """Kill the crawl at random moments, then let it finish.

    The kills end after `kills`, or earlier when the crawl has finished.
    """
    crawl = KilledCrawl(workspace)
    while len(crawl.kills) < kills:
        process = subprocess.Popen(
            crawl_command(workspace, seed, delay), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        if chance.random() < 5 / 6:
            await_request(process, server)
        wait = chance.uniform(0.05, 2.0)
        try:
            _, errors = process.communicate(timeout=wait)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            time.sleep(LOG_SETTLES_S)
            crawl.kills.append(Kill(wait, archived_pages(workspace), server.mark()))
            continue
        assert process.returncode == 0, errors.decode(errors="replace")
        break
    arguments = crawl_command(workspace, seed, delay)[1:]
    assert json.loads(printed(*arguments, limit_s=RUN_LIMIT_S))["ended"] == "finished"
    return crawl


def await_request(process: subprocess.Popen[bytes], server: Nginx) -> None:
    """Wait for the first request of a crawl, or for the end of the process."""
    before = server.mark()
    until(lambda: server.mark() != before or process.poll() is not None, RUN_LIMIT_S)


def archived_pages(workspace: Path) -> frozenset[str]:
    """Return the URLs of pages with a complete exchange in any WARC.

    Uncommitted WARCs are included.
    """
    warcs = sorted(workspace.glob("data/*/archive.warc.gz"))
    return frozenset(
        stored.visit.url
        for warc in warcs
        for stored in read_exchanges(warc)
        if stored.visit.kind == "page" and stored.visit.http_status
    )


def assert_nothing_lost(crawl: KilledCrawl, server: Nginx, expected: dict[str, int]) -> None:
    """Compare server log, tables, archive and index.

    fastwarc reads the archive independently of Lycosa.
    """
    for kill in crawl.kills:
        again = {request.url for request in server.requests(kill.log_mark)} & kill.archived
        assert not again, (
            f"requested again although archived before the kill at {kill.after_s:.2f} s: "
            f"{sorted(again)[:5]}"
        )
    visits = ask(
        crawl.workspace,
        "SELECT url, http_status, record_id, warc_file FROM visits WHERE kind = 'page'",
    )
    seen = Counter(row["url"] for row in visits)
    wrong = {url: number for url, number in seen.items() if number != 1 or url not in expected}
    missing = sorted(expected.keys() - seen.keys())
    assert not wrong, f"fetched wrongly: {wrong}; kills: {crawl.kills}"
    assert not missing, f"never fetched: {missing}; kills: {crawl.kills}"
    assert {row["url"]: row["http_status"] for row in visits} == expected
    states = ask(crawl.workspace, "SELECT url, state FROM urls")
    assert Counter(row["url"] for row in states) == Counter(expected.keys())
    assert {row["state"] for row in states} <= {"visited", "gone"}
    pages = ask(crawl.workspace, "SELECT url, may_index FROM pages")
    page_urls = [row["url"] for row in pages]
    assert len(set(page_urls)) == len(page_urls)
    archived = Counter(_archived_responses(crawl.workspace, {row["warc_file"] for row in visits}))
    assert archived == Counter(expected.keys())
    status = json.loads(here(crawl.workspace, "status", "--json"))
    assert status["index"]["documents"] == sum(row["may_index"] is True for row in pages)
    here(crawl.workspace, "check", "--deep")


def ask(workspace: Path, query: str) -> list[dict[str, object]]:
    """Return the rows of `lycosa sql`."""
    rows = json.loads(here(workspace, "sql", query, "--json"))
    assert isinstance(rows, list)
    return rows


def lycosa(workspace: Path | str, *arguments: str) -> str:
    """Run a command that must succeed and return its output."""
    return printed("-w", str(workspace), *arguments, limit_s=300)


def here(workspace: Path | str, *arguments: str) -> str:
    """Run a command in this process and return its output."""
    return printed_here("-w", str(workspace), *arguments)


def run_json(workspace: Path | str, *arguments: str) -> dict[str, dict[str, object]]:
    """Return the JSON output of a command."""
    document: dict[str, dict[str, object]] = json.loads(here(workspace, *arguments))
    return document


def _archived_responses(workspace: Path, committed: set[object]) -> list[str]:
    """Return the targets of all page responses in committed WARCs."""
    targets = []
    for path in sorted(str(name) for name in committed):
        with (workspace / path).open("rb") as stream:
            for record in ArchiveIterator(stream, record_types=WarcRecordType.response):
                target = record.headers["WARC-Target-URI"]
                if not target.endswith("/robots.txt"):
                    targets.append(target)
    return targets
