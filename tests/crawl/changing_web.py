"""Kills during a crawl of a small web with pages that change.

It has sitemaps, a feed and an inbox. Every page is reachable in one way only (a link, the sitemap,
the feed, the inbox, a redirect), so a loss in any of them is detected. While the crawl runs,
`BackgroundChanges` rewrites pages, writes inbox files and sometimes kills the merge process.
"""

from __future__ import annotations

import gzip
import json
import random
import signal
import subprocess
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from lycosa.archive.warc.reader import read_exchanges
from lycosa.core.errors import ArchiveError
from lycosa.crawl.admission.inbox import submission
from lycosa.graph.generation import current_duplicates
from lycosa.store.workspace import Workspace
from tests.cli.conftest import printed
from tests.crawl.conftest import page
from tests.crawl.kills import (
    LOG_SETTLES_S,
    LYCOSA,
    RUN_LIMIT_S,
    ask,
    await_request,
    here,
)
from tests.servers.nginx import Nginx, Server

ADDRESSES = ("127.0.3.41", "127.0.3.42")
LINKED, LISTED, FED, SENT = 40, 30, 10, 30
MOVED = "location ~ ^/moved-(\\d+)$ { return 302 /arrived-$1.html; }"
SETTINGS = (
    "crawl.commit_pages=40",
    "crawl.commit_interval=300ms",
    "crawl.patience=1s",
    "index.interval=500ms",
    "store.merge_commits=2",
    "store.keep_replaced=1m",
    "run.merge_interval=1s",
    "collection.courtesy_factor=0",
    "collection.media_types=*",
    "collection.traps=false",
    "collection.backoff=100ms",
)
_ATOM = (
    '<?xml version="1.0"?><feed '
    'xmlns="http://www.w3.org/2005/Atom"><title>news</title><id>urn:x</id>{}</feed>'
)
_ENTRY = (
    "<entry><title>{0}</title><id>{0}</id><link "
    "href='{0}'/><updated>2026-01-0{1}T00:00:00Z</updated></entry>"
)


@dataclass
class ChangingWeb:
    """Two hosts on loopback.

    `write_site` writes the pages when the servers run and the port is known.
    """

    roots: tuple[Path, Path]
    port: int = 0

    def servers(self) -> list[Server]:
        for root in self.roots:
            root.mkdir(parents=True)
        return [
            Server(address, root, autoindex=False, extra=MOVED)
            for address, root in zip(ADDRESSES, self.roots, strict=True)
        ]

    def origin(self, host: int) -> str:
        return f"http://{ADDRESSES[host]}:{self.port}"

    def write_site(self, port: int) -> None:
        """Write all pages, sitemaps, feeds and robots.txt files."""
        self.port = port
        for host, root in enumerate(self.roots):
            origin = self.origin(host)
            links = [f"/l/{number}.html" for number in range(6)] + [
                f"/moved-{number}" for number in range(5)
            ]
            feed = '<link rel="alternate" type="application/atom+xml" href="/feed.xml">'
            self.write(
                root,
                "index.html",
                page(*links, f"{self.origin(1 - host)}/", head=feed, text="home"),
            )
            for number in range(LINKED):
                more = [
                    f"/l/{number * 5 + step}.html"
                    for step in range(1, 6)
                    if number * 5 + step < LINKED
                ]
                self.write(root, f"l/{number}.html", page(*more, text=f"linked {number}"))
            for number in range(5):
                self.write(root, f"arrived-{number}.html", page(text=f"arrived {number}"))
            for number in range(LISTED):
                self.write(root, f"s/{number}.html", page(text=f"listed {number}"))
            for number in range(FED):
                self.write(root, f"f/{number}.html", page(text=f"fed {number}"))
            for number in range(SENT):
                self.write(root, f"i/{number}.html", page(text=f"sent {number}"))
            index = "".join(
                f"<sitemap><loc>{origin}/maps/{part}.xml.gz</loc></sitemap>" for part in range(3)
            )
            self.write(
                root, "maps.xml", f"<?xml version='1.0'?><sitemapindex>{index}</sitemapindex>"
            )
            for part in range(3):
                listed = "".join(
                    f"<url><loc>{origin}/s/{number}.html</loc></url>"
                    for number in range(part, LISTED, 3)
                )
                file = root / "maps" / f"{part}.xml.gz"
                file.parent.mkdir(exist_ok=True)
                file.write_bytes(
                    gzip.compress(f"<?xml version='1.0'?><urlset>{listed}</urlset>".encode())
                )
            self.write(
                root,
                "feed.xml",
                _ATOM.format(
                    "".join(_ENTRY.format(f"{origin}/f/{n}.html", n % 9 + 1) for n in range(FED))
                ),
            )
            self.write(
                root,
                "robots.txt",
                f"User-agent: *\nDisallow: /never/\nSitemap: {origin}/maps.xml\n",
            )

    def write(self, root: Path, path: str, content: str) -> None:
        """Create or replace a file atomically."""
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary = file.with_suffix(".new")
        temporary.write_text(content)
        temporary.replace(file)

    def pages(self, sent: set[int]) -> set[str]:
        """Return all pages that a crawl must find, given the submitted ones."""
        paths = [
            "/",
            *(f"/l/{n}.html" for n in range(LINKED)),
            *(f"/arrived-{n}.html" for n in range(5)),
        ]
        paths += [
            *(f"/s/{n}.html" for n in range(LISTED)),
            *(f"/f/{n}.html" for n in range(FED)),
            *(f"/i/{n}.html" for n in sent),
        ]
        return {self.origin(host) + path for host in range(2) for path in paths}


@dataclass
class BackgroundChanges:
    """Changes and kills during the crawl, in a thread of the test."""

    web: ChangingWeb
    workspace: Path
    chance: random.Random
    sent: set[int] = field(default_factory=set)
    children_killed: int = 0
    crawler: int = 0
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> BackgroundChanges:
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        assert self._thread is not None
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(self.chance.uniform(0.02, 0.3)):
            host, number = self.chance.randrange(2), self.chance.randrange(6, LINKED)
            links = [
                f"/l/{number * 5 + step}.html" for step in range(1, 6) if number * 5 + step < LINKED
            ]
            text = f"linked {number}, new words {self.chance.randrange(1_000_000)}"
            self.web.write(self.web.roots[host], f"l/{number}.html", page(*links, text=text))
            if self.chance.random() < 0.3 and (self.workspace / "workspace.json").exists():
                self._send(self.chance.randrange(SENT))
            if self.chance.random() < 0.4:
                self._kill_child()

    def _send(self, number: int) -> None:
        urls = [f"{self.web.origin(host)}/i/{number}.html" for host in range(2)]
        known_urls = f"{self.web.origin(0)}/l/{self.chance.randrange(LINKED)}.html"
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        file = self.workspace / "inbox" / f"{time.time_ns()}.json"
        file.parent.mkdir(exist_ok=True)
        file.with_suffix(".new").write_bytes(
            submission("default", [*urls, known_urls, "mailto:no@where"], at)
        )
        file.with_suffix(".new").rename(file)
        self.sent.add(number)

    def _kill_child(self) -> None:
        """Kill the merge process, identified by its lock."""
        with suppress(psutil.Error, ProcessLookupError):
            for child in psutil.Process(self.crawler).children() if self.crawler else ():
                if any(file.path.endswith("merge.lock") for file in child.open_files()):
                    child.kill()
                    self.children_killed += 1


@dataclass
class KilledCrawl:
    """A crawl that was killed repeatedly.

    `archived`: record id -> kind and URL of every complete exchange in a WARC.
    """

    web: ChangingWeb
    workspace: Path
    archived: dict[str, str] = field(default_factory=dict)
    kills: int = 0
    children_killed: int = 0
    sent: set[int] = field(default_factory=set)
    _sizes: dict[Path, int] = field(default_factory=dict)

    def record_archived(self) -> None:
        """Read the WARCs that have grown since the last call."""
        for warc in sorted(self.workspace.glob("data/*/archive.warc.gz")):
            # an orphaned merge may delete it meanwhile
            with suppress(FileNotFoundError, ArchiveError):
                size = warc.stat().st_size
                if self._sizes.get(warc) != size:
                    self.archived.update(
                        (each.visit.record_id, f"{each.visit.kind} {each.visit.url}")
                        for each in read_exchanges(warc)
                    )
                    self._sizes[warc] = size


def command(crawl: KilledCrawl, *more: str) -> list[str]:
    """Return the `lycosa crawl` command; `more` are settings."""
    overrides = [part for setting in (*SETTINGS, *more) for part in ("--set", setting)]
    seeds = [f"{crawl.web.origin(host)}/" for host in range(2)]
    return [
        str(LYCOSA),
        "-w",
        str(crawl.workspace),
        *overrides,
        "crawl",
        *seeds,
        "--delay",
        "5ms",
        "--json",
        "--quiet",
    ]


def kill_repeatedly(
    crawl: KilledCrawl, server: Nginx, *, kills: int, chance: random.Random
) -> None:
    """Kill the crawl `kills` times at random moments, then let it finish.

    Most moments are measured from the first request of a run, one in six from the start of the
    process.
    """
    with BackgroundChanges(crawl.web, crawl.workspace, chance) as changes:
        while crawl.kills < kills:
            process = subprocess.Popen(
                command(
                    crawl, "collection.recrawl=age", "collection.max_age=2s", "crawl.patience=1m"
                ),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
            changes.crawler = process.pid
            if chance.random() < 5 / 6:
                await_request(process, server)
            try:
                _, errors = process.communicate(timeout=chance.uniform(0.05, 2.0))
            except subprocess.TimeoutExpired:
                _kill(process, with_children=chance.random() < 0.5)
                crawl.kills += 1
            else:  # a call fetches each page at most once, so a fast one ends before its kill
                assert process.returncode == 0, errors.decode(errors="replace")
            time.sleep(LOG_SETTLES_S)
            crawl.record_archived()
        changes.crawler = 0
    crawl.sent, crawl.children_killed = changes.sent, changes.children_killed
    assert '"finished"' in printed(*command(crawl)[1:], limit_s=RUN_LIMIT_S)


def _kill(process: subprocess.Popen[bytes], *, with_children: bool) -> None:
    """Send SIGKILL, optionally also to a merge process."""
    children: list[psutil.Process] = []
    with suppress(psutil.Error):
        children = psutil.Process(process.pid).children()
    process.send_signal(signal.SIGKILL)
    for child in children:
        with suppress(psutil.Error):
            if with_children:
                child.kill()
    assert process.stderr is not None
    process.stderr.close()  # an orphan keeps the other end open
    process.wait()


def assert_nothing_lost(crawl: KilledCrawl) -> None:
    """Check tables, index and inbox through the commands."""
    visits = ask(crawl.workspace, "SELECT url, kind, record_id, http_status FROM visits")
    ids = Counter(str(row["record_id"]) for row in visits)
    assert [name for name, number in ids.items() if number > 1] == [], "committed twice"
    missing = sorted(text for name, text in crawl.archived.items() if name not in ids)
    assert not missing, (
        f"{len(missing)} of {len(crawl.archived)} archived exchanges have no visit: {missing[:5]}"
    )
    rows = ask(crawl.workspace, "SELECT collection, operation, url, state, reason FROM urls")
    keys = Counter((row["collection"], row["operation"], row["url"]) for row in rows)
    assert [key for key, number in keys.items() if number > 1] == []
    pages = [str(row["url"]) for row in ask(crawl.workspace, "SELECT url FROM pages")]
    assert len(set(pages)) == len(pages)
    expected = crawl.web.pages(crawl.sent)
    lost = {url: [row for row in rows if row["url"] == url] for url in expected - set(pages)}
    assert not lost, f"{len(lost)} lost: {lost}"
    assert set(pages) <= expected, f"not expected: {set(pages) - expected}"
    waiting = {(row["operation"], row["reason"]) for row in rows if row["state"] == "known"}
    assert waiting <= {("sitemap", "scheduled"), ("feed", "scheduled")}, waiting
    assert not list((crawl.workspace / "inbox").glob("*.json"))
    hosts = ask(
        crawl.workspace,
        "SELECT sum(known) AS known, sum(visited) AS visited, sum(pages) AS pages FROM hosts",
    )[0]
    states = Counter(row["state"] for row in rows)
    assert (hosts["known"], hosts["visited"]) == (states["known"], states["visited"])
    indexed = json.loads(here(crawl.workspace, "status", "--json"))["index"]["documents"]
    indexable = {
        (row["collection"], row["url"])
        for row in ask(crawl.workspace, "SELECT collection, url FROM pages WHERE may_index")
    }
    # empty before the first ranking
    copies = set(
        current_duplicates(Workspace.open(str(crawl.workspace)))
        .select("collection", "url")
        .iter_rows()
    )
    assert indexed == len(indexable - copies), (indexed, len(indexable), len(copies))
    here(crawl.workspace, "check", "--deep")
