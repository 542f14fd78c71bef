"""How long a site's report takes and what memory: `python -m bench.site [--pages N] [--links N]
[--workspace DIR --site HOST]`.

Without a workspace one is made: a site of N pages with `--links` links each, 2,000 characters of
text, some broken, in commits of 5,000 pages. Each report is a process of its own, as a user starts
it; CPU, wall and peak memory of it are printed.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time

from bench.harness import load_average
from lycosa.core.records import HostRow, Link, LinkKind, Page, UrlRow, UrlState, Visit
from lycosa.store.log.claim import Claim
from lycosa.store.tables.buffers import Buffers
from lycosa.store.workspace import Workspace
from lycosa.url.keys import Identifier

_ORIGIN = "http://site.example"
_AT = 1_700_000_000_000
_BATCH = 5_000
_BROKEN = 50  # one page in so many is gone
_TEXT = "The quick brown fox jumps over the lazy dog and runs on.\n" * 35


def build(root: str, pages: int, links: int) -> None:
    """A workspace with such a site."""
    workspace = Workspace.create(root)
    claim = workspace.claim("bench")
    identifier = Identifier(workspace.domains, workspace.partitions)
    draw = random.Random(7)
    for start in range(0, pages, _BATCH):
        _commit(claim, identifier, range(start, min(start + _BATCH, pages)), pages, links, draw)
    claim.release()


def _url(number: int) -> str:
    return f"{_ORIGIN}/{number % 37}/{number % 11}/page-{number}.html" if number else f"{_ORIGIN}/"


def _commit(
    claim: Claim,
    identifier: Identifier,
    numbers: range,
    pages: int,
    links: int,
    draw: random.Random,
) -> None:
    buffers = Buffers()
    for number in numbers:
        url = identifier.identify(_url(number))
        is_gone = number % _BROKEN == _BROKEN - 1
        visit = Visit(
            url.url,
            url.host,
            url.partition,
            url.host_key,
            url.url_key,
            "page",
            "default",
            1,
            _AT + number,
            12,
        )
        visit.http_status, visit.content_type = (404 if is_gone else 200), "text/html"
        buffers.add_visit(visit)
        state = UrlState.GONE if is_gone else UrlState.VISITED
        buffers.add_url(
            UrlRow(url, "default", 1, state=state, state_at=_AT, first_seen_at=_AT, visited_at=_AT)
        )
        if is_gone:
            continue
        targets = [
            number * 7 + 1,
            number * 7 + 2,
            *(draw.randrange(pages) for _ in range(links - 2)),
        ]
        page = Page(
            title=f"Page {number}",
            text=f"{number} {_TEXT}",
            main_text=_TEXT,
            language="en",
            text_digest=number + 1,
            size=9_000,
        )
        page.links = [
            Link(_url(target % pages), f"to {target}", "", LinkKind.A, place)
            for place, target in enumerate(targets)
        ]
        buffers.add_page(visit, page)
        buffers.links.add_links(visit, page.links)
    if not numbers.start:
        first = identifier.identify(f"{_ORIGIN}/")
        buffers.add_host(
            HostRow(first.host, first.partition, first.host_key, "site.example", _AT, pages=pages)
        )
    claim.commit(claim.next_folder(), buffers.mapping())


def report(root: str, site: str, *options: str) -> str:
    """One run of `lycosa site`: a line of figures."""
    command = [sys.executable, "-m", "lycosa.cli.main", "-w", root, "site", site, *options]
    started = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    size = len(process.stdout.read())
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.monotonic() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    cpu = usage.ru_utime + usage.ru_stime
    return (
        f"{' '.join(options) or 'text':<8} {cpu:6.2f} s CPU  {wall:6.2f} s wall  "
        f"{usage.ru_maxrss // 1024:6,} MiB peak  {size:,} bytes"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=700)
    parser.add_argument("--links", type=int, default=30)
    parser.add_argument("--workspace", default="")
    parser.add_argument("--site", default="site.example")
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = given.workspace or f"{folder}/w"
        if not given.workspace:
            build(root, given.pages, given.links)
            print(f"{given.pages:,} pages, {given.links} links each; load {load_average():.1f}")
        for _ in range(given.repeat):
            print(report(root, given.site))
        print(report(root, given.site, "--json"))
        print(report(root, given.site, "--svg", f"{folder}/site.svg"))


if __name__ == "__main__":
    main()
