"""From fetched to searchable: a changing web, `lycosa run` and `lycosa serve` with the settings
that everybody gets.

    python -m bench.searchable [--minutes N] [--pages N] [--results FILE]

Every page holds a word that stands nowhere else, and another one each time it is asked for. The
server notes when it sent which word; the log says when the commit with it was written, the index
when a generation that has read that commit was published, and `lycosa serve` when it first answers
with it. Pages are fetched again when they are two minutes old. The bar: 60 s for 95 of 100 (issue
5).
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from bench.measure import append_results, load_average, quantile, table
from bench.search_scale import Served
from lycosa.index.generation import newest
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace

HOSTS = 8
WORDS = 300  # of a page
LOOK_S = 0.5
_MARK = re.compile(r"\bmark[0-9]+x\b")
_ENDINGS = ("ran", "lish", "mor", "tide")
_VOCABULARY = ["".join(parts) for parts in itertools.product("bdfgklmnprst", "aeiou", _ENDINGS)]


@dataclass(slots=True)
class Version:
    """What became of one answer of the server; times are seconds since 1970, 0: not yet."""

    sent: float
    committed: float = 0.0
    entry: int = 0
    published: float = 0.0
    found: float = 0.0


class Web:
    """Hosts 127.0.3.1 and up, all their pages linked from each home page; notes every word that it
    sends.
    """

    def __init__(self, pages: int) -> None:
        self.versions: dict[str, Version] = {}
        numbers, lock, generator = itertools.count(), threading.Lock(), random.Random(7)
        versions = self.versions

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                status, kind, body = 200, "text/html; charset=utf-8", ""
                if self.path == "/robots.txt":
                    kind = "text/plain"
                elif self.path == "/":
                    body = "<title>Home</title>" + "".join(
                        f'<p><a href="/p{number}.html">Page {number}</a>' for number in range(pages)
                    )
                else:
                    with lock:
                        mark = f"mark{next(numbers)}x"
                        words = " ".join(generator.choices(_VOCABULARY, k=WORDS))
                    body = f"<title>Page {self.path}</title><p>The {mark} of today. {words}."
                    versions[mark] = Version(time.time())
                content = body.encode()
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self._servers = [
            ThreadingHTTPServer((f"127.0.3.{number + 1}", self.port), Handler)
            for number in range(HOSTS)
        ]
        for server in self._servers:
            threading.Thread(target=server.serve_forever, daemon=True).start()

    @property
    def seeds(self) -> list[str]:
        return [f"http://127.0.3.{number + 1}:{self.port}/" for number in range(HOSTS)]

    def close(self) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()


@contextmanager
def daemon(folder: Path, seeds: list[str]) -> Iterator[str]:
    """`lycosa run` over these seeds; gives the workspace."""
    root = folder / "workspace"
    program = (sys.executable, "-m", "lycosa.cli.main", "-w", str(root))
    subprocess.run((*program, "init"), check=True, stdout=subprocess.DEVNULL)
    listed = ", ".join(f'"{seed}"' for seed in seeds)
    settings = (
        f'[[collection]]\nname = "web"\nseeds = [{listed}]\ndelay = "100ms"\ntraps = '
        'false\nrecrawl = "age"\nmax_age = "120s"\n'
    )
    (root / "lycosa.toml").write_text(settings)
    with (folder / "said").open("wb") as said:
        process = subprocess.Popen((*program, "run"), stdout=said, stderr=said)
        try:
            yield str(root)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


class Watcher:
    """Looks at the log, the index and the server's answers, and notes when each version got
    there.
    """

    def __init__(self, root: str, versions: dict[str, Version]) -> None:
        self._workspace = Workspace.open(root)
        self._state = self._workspace.state()
        self._versions = versions
        self._server = Served(root)
        self._connection = http.client.HTTPConnection("127.0.0.1", self._server.port)
        self._generation = 0
        self._answered = -1

    def look(self) -> None:
        """Note what is new."""
        self._read_log()
        self._read_index()
        answer = self._server.ask(self._connection, "today")
        if answer["generation"] != self._answered:
            for mark, version in list(self._versions.items()):
                if version.published and not version.found:
                    hits = self._server.ask(self._connection, mark)["hits"]
                    version.found = time.time() if hits else 0.0
            self._answered = answer["generation"]

    def close(self) -> None:
        self._server.close()

    def _read_log(self) -> None:
        before = self._state.head
        self._state.refresh()
        if self._state.head == before:
            return
        for frame in LiveTables(self._workspace, self._state).changes(
            "pages", before, ("url_key", "text")
        ):
            for text, entry in frame.select("text", "entry").iter_rows():
                mark = _MARK.search(text)
                if mark and mark[0] in self._versions:
                    version = self._versions[mark[0]]
                    version.entry = version.entry or entry
                    written = (
                        (Path(self._workspace.root) / "log" / f"{version.entry:08d}.json")
                        .stat()
                        .st_mtime
                    )
                    version.committed = version.committed or written

    def _read_index(self) -> None:
        generation = newest(self._workspace.storage)
        if generation is None or generation.info.generation == self._generation:
            return
        self._generation = generation.info.generation
        published = time.time()
        for version in list(self._versions.values()):
            if 0 < version.entry <= generation.info.log_entry and not version.published:
                version.published = published


def measure(minutes: float, pages: int) -> str:
    """Run it, and say how long the steps took."""
    web = Web(pages)
    with (
        tempfile.TemporaryDirectory(prefix="lycosa-bench-") as folder,
        daemon(Path(folder), web.seeds) as root,
    ):
        while not (Path(root) / "workspace.json").exists():
            time.sleep(0.1)
        watcher = Watcher(root, web.versions)
        end = time.monotonic() + 60 * minutes
        try:
            while time.monotonic() < end:
                watcher.look()
                time.sleep(LOOK_S)
            sent_until = time.time() - 120  # what was sent later has had no time to be found
        finally:
            watcher.close()
    web.close()
    due = [version for version in web.versions.values() if version.sent < sent_until]
    # A page that was fetched again before the index took in what it said is found by its newer
    # word.
    found = [version for version in due if version.found]
    steps = {
        "fetched to committed": [version.committed - version.sent for version in found],
        "committed to published": [version.published - version.committed for version in found],
        "published to answered": [version.found - version.published for version in found],
        "fetched to searchable": [version.found - version.sent for version in found],
    }
    whole = sum(steps["fetched to searchable"])
    rows = [
        (
            name,
            *(f"{quantile(took, share):.1f}" for share in (0.5, 0.95, 1.0)),
            f"{sum(took) / whole:.0%}",
        )
        for name, took in steps.items()
    ]
    body = table(("step", "p50 s", "p95 s", "max s", "share"), rows)
    return (
        f"{body}\n\n{len(due)} versions of {HOSTS * pages} pages in {minutes:g} minutes, "
        f"{len(found)} of them found, "
        f"the others replaced before; load {load_average():.1f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--pages", type=int, default=40, help=f"on each of {HOSTS} hosts")
    parser.add_argument("--results", type=Path, help="append the figures to this file")
    options = parser.parse_args()
    body = measure(options.minutes, options.pages)
    print(body)
    if options.results:
        command = (
            f"python -m bench.searchable --minutes {options.minutes:g} --pages {options.pages}"
        )
        append_results(options.results, "Fetched to searchable", command, body)


if __name__ == "__main__":
    main()
