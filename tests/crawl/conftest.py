"""Fixtures: in-process crawls of small sites that a real nginx serves."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from lycosa.commands.crawling.crawl import CrawlOrder, crawl
from lycosa.config.reading import parse_config
from lycosa.config.settings import Collection
from lycosa.core.clock import Clock, SystemClock
from lycosa.core.errors import WorkError
from lycosa.crawl.state.progress import Progress
from lycosa.crawl.worker import Limits
from lycosa.processes.threads import Stoppable
from lycosa.store.log.claim import Claim
from lycosa.store.tables.live import LiveTables
from lycosa.store.verify.check import verify
from lycosa.store.workspace import Workspace
from tests.servers.nginx import Nginx, Server, nginx


@dataclass
class SmallWeb:
    """Sites on loopback: hosts `127.0.3.1`, `127.0.3.2`, … in order."""

    server: Nginx

    def url(self, path: str = "/", host: int = 1) -> str:
        return f"http://127.0.3.{host}:{self.server.port}{path}"

    def write(self, files: Mapping[str, str], host: int = 1) -> None:
        """Write files of a host while it is served."""
        for path, content in files.items():
            (self.server.servers[host - 1].root / path).write_text(content)

    def requested_paths(self, mark: int = 0) -> list[str]:
        """Return the requested paths in order, without robots.txt."""
        return [
            request.uri for request in self.server.requests(mark) if request.uri != "/robots.txt"
        ]


ServeWeb = Callable[..., SmallWeb]


@contextmanager
def full_disk(monkeypatch: pytest.MonkeyPatch, *, commits: int = 0) -> Iterator[None]:
    """Let every commit after the first `commits` fail with ENOSPC.

    Expects the crawl to raise `WorkError`. The archive is complete, as after a kill.
    """
    commit, left = Claim.commit, iter(range(commits))

    def fail(claim: Claim, *positional: Any, **named: Any) -> int:
        if next(left, None) is not None:
            return commit(claim, *positional, **named)
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(Claim, "commit", fail)
        with pytest.raises(WorkError, match=r"could not be committed.*No space left"):
            yield


def page(*links: str, text: str = "", head: str = "") -> str:
    """Return a small HTML page with links."""
    anchors = "\n".join(f'<p><a href="{target}">to {target}</a></p>' for target in links)
    start = f"<!doctype html><html><head><title>{text or 'a page'}</title>{head}</head>"
    return f"{start}<body><p>{text or 'Some words of text.'}</p>{anchors}</body></html>"


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[ServeWeb]:
    """Serve one site per mapping: `serve({path: content}, …, extra=[…])`."""
    with ExitStack() as stack:

        def start(*sites: Mapping[str, str], extra: list[str] | None = None) -> SmallWeb:
            servers = []
            for number, site in enumerate(sites, 1):
                root = tmp_path / f"site-{number}"
                for path, content in site.items():
                    file = root / path.lstrip("/")
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_text(content)
                root.mkdir(exist_ok=True)
                more = extra[number - 1] if extra else ""
                servers.append(
                    Server(
                        f"127.0.3.{number}", root, index="index.html", autoindex=False, extra=more
                    )
                )
            return SmallWeb(stack.enter_context(nginx(servers)))

        yield start


@dataclass
class Crawled:
    """The workspace and the progress of a crawl that has ended."""

    root: Path
    progress: Progress

    def rows(self, table: str) -> list[dict[str, object]]:
        return LiveTables(Workspace.open(str(self.root))).scan(table).collect().to_dicts()

    def states(self) -> dict[str, tuple[str, str]]:
        """Return path -> (state, reason)."""
        return {
            path_of(str(row["url"])): (str(row["state"]), str(row["reason"]))
            for row in self.rows("urls")
        }

    def depths(self) -> dict[str, int]:
        return self.by_path("urls", "depth")

    def pages(self) -> list[str]:
        return sorted(path_of(str(row["url"])) for row in self.rows("pages"))

    def by_path(self, table: str, column: str) -> dict[str, Any]:
        """Return path -> value of a column in the last row of its URL."""
        return {path_of(str(row["url"])): row[column] for row in self.rows(table)}

    def titles(self) -> list[str]:
        return sorted(str(row["title"]) for row in self.rows("pages"))

    def assert_sound(self) -> None:
        """Assert that `lycosa check --deep` finds nothing."""
        report = verify(Workspace.open(str(self.root)), deep=True)
        assert report.ok, [finding.what for finding in report.findings]

    def count(self, table: str, **equal: object) -> int:
        frame = LiveTables(Workspace.open(str(self.root))).scan(table)
        for column, value in equal.items():
            frame = frame.filter(pl.col(column) == value)
        return int(frame.select(pl.len()).collect().item())


def path_of(url: str) -> str:
    return "/" + url.split("/", 3)[3]


def assert_valid_warc(warc: Path) -> None:
    """Assert that `warcio check` accepts a file."""
    command = [str(Path(sys.executable).with_name("warcio")), "check", str(warc)]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout


AS_ROOT = ("render.sandbox=false",) if os.geteuid() == 0 else ()
"""Chromium's sandbox does not work as root."""

QUICK = ("crawl.patience=3s", "fetch.retry_wait=100ms", "fetch.first_byte_timeout=2s", *AS_ROOT)
QUICK_COLLECTION = {
    "traps": False,
    "media_types": ["*"],
    "delay": 0,
    "courtesy_factor": 0.0,
    "backoff": "100ms",
}
"""Without trap rules: generated pages are near-identical, detection by content would stop them."""

RunCrawl = Callable[..., Crawled]


@pytest.fixture
def run(tmp_path: Path) -> RunCrawl:
    """Crawl into one workspace, also repeatedly.

    Example: `run(url, …, depth=2, settings=("fetch.retries=1",))`.
    """

    def start(
        *seeds: str,
        settings: tuple[str, ...] = (),
        max_pages: int | None = None,
        max_time_ms: int | None = None,
        started: Callable[[Stoppable], None] | None = None,
        index: bool = False,
        clock: Clock | None = None,
        quota: int | None = None,
        **collection: object,
    ) -> Crawled:
        config = parse_config("", overrides=(*QUICK, *settings))
        chosen = Collection.model_validate({**QUICK_COLLECTION, "max_pages": quota, **collection})
        order = CrawlOrder(
            str(tmp_path / "workspace"),
            config,
            chosen,
            seeds,
            Limits(max_pages, max_time_ms),
            index=index,
        )
        return Crawled(
            tmp_path / "workspace", crawl(order, started=started, clock=clock or SystemClock())
        )

    return start
