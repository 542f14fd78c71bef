"""A small crawl on S3 and on HDFS that is killed and resumed has the results of a local one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from tests.cli.conftest import printed
from tests.crawl.kills import LYCOSA
from tests.servers.nginx import Nginx, Server, nginx
from tests.store.locations import REMOTE, Locations
from tests.waiting import until

PAGES = 60
LIMIT_S = 240.0
SETTINGS = (
    "collection.courtesy_factor=0",
    "crawl.patience=1s",
    "crawl.commit_pages=10",
    "crawl.commit_interval=300ms",
    "store.merge_commits=2",
)


@dataclass
class Machine:
    """A machine with its own cache, on which commands run."""

    workspace: str
    environment: dict[str, str]

    def command(self, *arguments: str) -> list[str]:
        settings = [part for setting in SETTINGS for part in ("--set", setting)]
        return [str(LYCOSA), "-w", self.workspace, *settings, *arguments]

    def run(self, *arguments: str) -> str:
        environment = os.environ | self.environment
        return printed(*self.command(*arguments)[1:], environment=environment, limit_s=LIMIT_S)

    def kill_crawl(self, server: Nginx, origin: str, *, after: int) -> None:
        """Start a crawl and kill it after this many requests."""
        mark = server.mark()
        process = subprocess.Popen(
            self.command(*crawl_arguments(origin)),
            env=os.environ | self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until(lambda: len(server.requests(mark)) >= after, LIMIT_S, alive=process)
        assert process.poll() is None, "the crawl was over before it could be killed"
        process.send_signal(signal.SIGKILL)
        process.wait()

    def rows(self, query: str) -> list[dict[str, object]]:
        """Return the rows of `lycosa sql`, without starting a process."""
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.environment.items():
                patch.setenv(name, value)
            rows = LiveTables(Workspace.open(self.workspace)).sql(query).to_dicts()
        return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))


def crawl_arguments(origin: str) -> tuple[str, ...]:
    return ("crawl", f"{origin}/", "--delay", "40ms", "--json", "--quiet")


def write_site(root: Path, pages: int = PAGES) -> None:
    root.mkdir()
    for number in range(pages):
        links = "".join(
            f'<a href="/{2 * number + more}.html">page</a> '
            for more in (1, 2)
            if 2 * number + more < pages
        )
        words = " ".join(f"word{number * 7 % (index + 13)}" for index in range(60))
        text = (
            f"<html><head><title>Page {number}</title></head><body><p>The spider number "
            f"{number} hunts. {words}</p>{links}</body></html>"
        )
        (root / ("index.html" if number == 0 else f"{number}.html")).write_text(text)


def crawl_results(machine: Machine, out: Path) -> dict[str, object]:
    """Return tables, search results and the number of exported captures, without times."""
    results = json.loads(machine.run("search", "spider hunts", "-n", "100", "--json"))
    machine.run("export", "warc", str(out))
    return {
        "pages": machine.rows("SELECT url, title, main_text, text_digest FROM pages"),
        "visits": machine.rows("SELECT url, http_status, digest FROM visits WHERE kind = 'page'"),
        "urls": machine.rows("SELECT url, state, depth FROM urls"),
        "links": machine.rows("SELECT source, target, anchor FROM links"),
        "found": sorted((hit["url"], hit["title"]) for hit in results["hits"]),
        "exported": sum(
            "robots.txt" not in line
            for path in out.glob("*-00000.cdxj")
            for line in path.read_text().splitlines()
        ),
    }


@pytest.mark.parametrize("workers", [1, 2])
def test_daemon_continues_after_an_outage_of_storage(
    workers: int, locations: Locations, tmp_path: Path
) -> None:
    write_site(tmp_path / "site", pages=600)  # the crawl is not over before the outage is
    location, faults = locations.location("s3", tmp_path), locations.s3.faults
    machine = Machine(location, locations.environment("s3", tmp_path / "cache"))
    machine.run("init")
    with (
        nginx([Server("127.0.4.3", tmp_path / "site")]) as server,
        (tmp_path / "errors").open("w") as errors,
    ):
        seed = f'collection.seeds=["http://127.0.4.3:{server.port}/"]'
        arguments = machine.command("run", "--set", seed, "--set", "collection.delay=200ms")
        daemon = subprocess.Popen(
            [*arguments, "--workers", str(workers)],
            env=os.environ | machine.environment,
            stderr=errors,
        )

        def has(message: str) -> bool:
            return message in (tmp_path / "errors").read_text()

        try:
            until(lambda: len(server.requests()) >= 5, LIMIT_S, alive=daemon)
            faults.refuse = lambda method, key: 500
            until(lambda: has("storage is not available"), LIMIT_S, alive=daemon)
            if workers == 1:
                until(lambda: has("it is restarted until storage"), LIMIT_S, alive=daemon)
            faults.clear()
            before = len(server.requests())
            until(lambda: len(server.requests()) > before + 5, LIMIT_S, alive=daemon)
        finally:
            faults.clear()
            daemon.terminate()
        assert daemon.wait(LIMIT_S) == 0
    assert not has("Traceback")
    assert not has("restarts)")
    assert not has("cannot be used")


@pytest.mark.proves("durability-remote-kill")
@pytest.mark.parametrize("kind", REMOTE)
def test_killed_crawl_on_remote_storage_has_the_same_results_as_in_a_folder(
    kind: str, locations: Locations, tmp_path: Path
) -> None:
    write_site(tmp_path / "site")
    location = locations.location(kind, tmp_path)
    first = Machine(location, locations.environment(kind, tmp_path / "one"))
    second = Machine(location, locations.environment(kind, tmp_path / "two"))
    folder = Machine(str(tmp_path / "folder"), {})
    with nginx([Server("127.0.4.1", tmp_path / "site")]) as server:
        origin = f"http://127.0.4.1:{server.port}"
        folder.run(*crawl_arguments(origin))
        mark = server.mark()
        first.kill_crawl(server, origin, after=25)
        first.kill_crawl(server, origin, after=8)
        requested = Counter(request.uri for request in server.requests(mark))
        # Each of the two kills may interrupt one request.
        assert max(count for uri, count in requested.items() if uri != "/robots.txt") <= 1 + 2, (
            requested
        )
        again = {uri for uri, count in requested.items() if count > 1} - {"/robots.txt"}
        assert len(again) <= 2, f"fetched again though in the spool of this machine: {again}"
        # The second machine fetches only the pages that are uncommitted in the first one's spool.
        retained = len(second.rows("SELECT url FROM visits WHERE kind = 'page'"))
        mark = server.mark()
        second.run(*crawl_arguments(origin))
        fetched = sum(request.uri != "/robots.txt" for request in server.requests(mark))
        assert fetched <= PAGES - retained
        assert json.loads(second.run("sql", "SELECT count(*) AS n FROM pages", "--json")) == [
            {"n": PAGES}
        ]
        assert "became" in second.run("compact", "--full")
        expected, out = crawl_results(folder, tmp_path / "out-folder"), tmp_path / "out-remote"
        assert crawl_results(second, out) == expected
        assert len(out.glob("*.warc.gz").__next__().read_bytes()) > 1_000
        # The first machine replays the exchanges in its spool and fetches no page.
        mark = server.mark()
        first.run(*crawl_arguments(origin))
        assert not {request.uri for request in server.requests(mark)} - {"/robots.txt"}
        last = crawl_results(first, tmp_path / "out-again")
        assert all(last[name] == expected[name] for name in ("pages", "urls", "links", "found"))
        exchanges = first.rows("SELECT DISTINCT record_id FROM visits WHERE kind = 'page'")
        assert last["exported"] == len(exchanges)
        assert len(exchanges) <= sum(requested.values()) + fetched
        assert "no errors" in first.run("check", "--deep")
