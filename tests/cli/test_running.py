"""Signals, status, search and `lycosa add` during `lycosa crawl` and `lycosa run`."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.conftest import LIMIT_S, LYCOSA, Lycosa
from tests.daemon.daemons import QUICK, collection, daemon, rows, site
from tests.servers.nginx import Server, nginx
from tests.waiting import until

PAGES = 60


@pytest.fixture(scope="module")
def slow_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Origin of a site whose crawl takes about 6 s at 100 ms per page."""
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
    """Run a crawl that commits and indexes at least twice per second."""
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


@pytest.mark.proves("durability-signal")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_commits_and_the_next_crawl_resumes(
    here: Lycosa, slow_site: str, tmp_path: Path, number: signal.Signals
) -> None:
    workspace = tmp_path / "w"
    with crawling(workspace, slow_site) as process:
        until(lambda: (workspace / "log" / "00000002.json").exists())
        process.send_signal(number)
        out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, err
    assert "Stopped on request" in out
    assert "not_reached" in out
    status = here("-w", str(workspace), "status", "--json").json
    assert status["running"] is None
    before = int(str(status["pages"]))
    assert 0 < before < PAGES + 1
    resumed = here("-w", str(workspace), "crawl", "--delay", "0", "--json")
    assert resumed.json["pages"] == PAGES + 1 - before
    assert here("-w", str(workspace), "check", "--deep").code == 0


@pytest.mark.proves("cluster-single-crawl")
def test_search_and_status_during_a_crawl(here: Lycosa, slow_site: str, tmp_path: Path) -> None:
    workspace = tmp_path / "w"
    with crawling(workspace, slow_site) as process:
        until(lambda: here("-w", str(workspace), "search", "dormouse").code == 0)
        status = here("-w", str(workspace), "status", "--json").json
        refused = here("-w", str(workspace), "crawl", slow_site)
        assert process.poll() is None, "the crawl ended before its status was read"
    assert status["running"]["pid"] == process.pid  # type: ignore[index]
    refused.expect(1, err=("crawling in",))


HOME = "http://127.0.0.1:9/"


@pytest.mark.parametrize(
    ("settings", "arguments", "message"),
    [
        ("", (), "no [[collection]]"),
        (collection("one", "https://www.debian.org/"), (), "fetch.contact is not set"),
        (collection("one", HOME), ("--set", "fetch.connect_to=x"), "HOST:PORT:HOST:PORT"),
        (
            collection("one", HOME),
            ("--set", "crawl.exclusions=/nowhere/list"),
            "exclusion list /nowhere/list cannot be read",
        ),
    ],
)
def test_run_refuses_invalid_configurations(
    here: Lycosa, tmp_path: Path, settings: str, arguments: tuple[str, ...], message: str
) -> None:
    (tmp_path / "lycosa.toml").write_text(settings)
    here("-w", str(tmp_path), "run", *arguments).expect(
        2, err=(message,), absent_err=("Traceback",)
    )


def test_added_urls_are_fetched_by_the_running_crawl_even_if_known(
    here: Lycosa, tmp_path: Path
) -> None:
    workspace = tmp_path / "w"
    with site(tmp_path / "site", "127.0.6.11", 2, {"hidden.html": "<p>without inlinks"}) as server:
        home = f"http://127.0.6.11:{server.port}/"
        with daemon(
            workspace, QUICK + collection("one", home) + collection("bad", "htp:/x")
        ) as running:
            running.until_pages(3)
            here("-w", str(workspace), "run").expect(1, err=(f"process {running.process.pid} ",))
            urls = (f"{home.removeprefix('http://')}hidden.html", home)
            outcome = here("-w", str(workspace), "add", *urls, "--collection", "one")
            outcome.expect(
                0, f"2 URLs submitted to collection one; process {running.process.pid} fetches them"
            )
            before = time.monotonic()
            running.until(lambda: [request.uri for request in server.requests()].count("/") == 2)
            running.until(lambda: "/hidden.html" in [request.uri for request in server.requests()])
            took = time.monotonic() - before
            running.until_pages(4)
            running.until(lambda: not list((workspace / "inbox").glob("*.json")))
            assert running.stop() == 0, running.errors
    assert took < 30  # normally a few seconds; the machine may be busy
    # robots.txt, three pages, one of these again, and the hidden page
    assert len(rows(workspace, "visits")) == 6


def test_urls_added_without_a_running_crawl_are_fetched_by_the_next(
    here: Lycosa, tmp_path: Path
) -> None:
    workspace = tmp_path / "w"
    with site(tmp_path / "site", "127.0.6.12", 0, {"hidden.html": "<p>without inlinks"}) as server:
        home = f"http://127.0.6.12:{server.port}/"
        workspace.mkdir()
        (workspace / "lycosa.toml").write_text(QUICK + collection("one", home))
        outcome = here("-w", str(workspace), "add", f"{home}hidden.html", "--json")
        assert outcome.code == 0, outcome.err
        assert outcome.json["urls"] == [f"{home}hidden.html"]
        assert outcome.json["running"] is False
        document = json.loads((workspace / "inbox" / str(outcome.json["file"])).read_text())
        assert (document["collection"], document["urls"]) == ("one", [f"{home}hidden.html"])
        with daemon(workspace, QUICK + collection("one", home)) as running:
            running.until_pages(2)
            assert running.stop() == 0, running.errors
