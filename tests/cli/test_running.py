"""A crawl while it runs: Ctrl-C and SIGTERM commit and end, status sees it, search finds what is
committed.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.conftest import LIMIT_S, LYCOSA, Lycosa
from tests.servers.nginx import Server, nginx
from tests.waiting import until

PAGES = 60


@pytest.fixture(scope="module")
def slow_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A site that takes about 6 s at 100 ms a page."""
    root = tmp_path_factory.mktemp("slow")
    links = "".join(f'<a href="/{number}.html">{number}</a>' for number in range(PAGES))
    (root / "index.html").write_text(f"<title>Home</title><p>The dormouse sleeps.</p>{links}")
    for number in range(PAGES):
        (root / f"{number}.html").write_text(
            f"<title>Page {number}</title><p>The dormouse sleeps for the {number}th month.</p>"
        )
    with nginx([Server("127.0.4.2", root, index="index.html", autoindex=False)]) as server:
        yield f"http://127.0.4.2:{server.port}/"


@contextmanager
def crawling(workspace: Path, seed: str) -> Iterator[subprocess.Popen[str]]:
    """A crawl that commits and indexes twice a second."""
    settings = (
        "crawl.commit_interval=500ms",
        "index.interval=200ms",
        "collection.courtesy_factor=0",
    )
    overrides = [part for setting in settings for part in ("--set", setting)]
    command = [*LYCOSA, "-w", str(workspace), *overrides, "crawl", seed, "--delay", "100ms"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_commits_and_ends_and_the_next_call_goes_on(
    lycosa: Lycosa, slow_site: str, tmp_path: Path, number: signal.Signals
) -> None:
    workspace = tmp_path / "w"
    with crawling(workspace, slow_site) as process:
        until(lambda: (workspace / "log" / "00000002.json").exists())
        process.send_signal(number)
        out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, err
    assert "Stopped on request" in out
    assert "not_reached" in out
    status = lycosa("-w", str(workspace), "status", "--json").json
    assert status["running"] is None
    before = int(str(status["pages"]))
    assert 0 < before < PAGES + 1
    rest = lycosa("-w", str(workspace), "crawl", "--delay", "0", "--json")
    assert rest.json["pages"] == PAGES + 1 - before
    assert lycosa("-w", str(workspace), "check", "--deep").code == 0


def test_search_and_status_while_it_crawls(lycosa: Lycosa, slow_site: str, tmp_path: Path) -> None:
    workspace = tmp_path / "w"
    with crawling(workspace, slow_site) as process:
        until(lambda: lycosa("-w", str(workspace), "search", "dormouse").code == 0)
        status = lycosa("-w", str(workspace), "status", "--json").json
        refused = lycosa("-w", str(workspace), "crawl", slow_site)
        assert process.poll() is None, "it ended before it could be looked at"
    assert status["running"]["pid"] == process.pid  # type: ignore[index]
    refused.expect(1, err=("crawling in",))
