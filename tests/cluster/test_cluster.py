"""Several workers on one machine, started by commands: results, failures, settings, quotas."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from lycosa.cluster.status import cluster_status
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from tests.crawl.kills import here
from tests.daemon.daemons import LIMIT_S, QUICK, RUN, collection, daemon
from tests.daemon.test_daemon import check, requested
from tests.servers.nginx import Nginx, Server, nginx
from tests.waiting import until

CLUSTER = '[cluster]\nping_interval = "200ms"\nhold = "1500ms"\nreassign = "3s"\n'
SET = [
    part
    for each in ("ping_interval=200ms", "hold=1500ms", "reassign=3s")
    for part in ("--set", f"cluster.{each}")
]
SET += ["--set", "crawl.patience=500ms", "--set", "collection.traps=false"]


@dataclass
class Sites:
    """Sites `site0.test`, `site1.test` etc. on different addresses.

    `connect_to` is the value of the setting `fetch.connect_to`.
    """

    server: Nginx
    connect_to: list[str]
    home: str = "http://site0.test/"

    @property
    def hosts(self) -> list[str]:
        return [rule.partition(":")[0] for rule in self.connect_to]


@contextmanager
def sites(folder: Path, net: str, count: int, pages: int) -> Iterator[Sites]:
    """Serve sites in the network `net`. The last page of each links to the next site."""
    servers = []
    for number in range(count):
        root = folder / str(number)
        root.mkdir(parents=True)
        own = "".join(f'<p><a href="/{page}.html">{page}</a>' for page in range(pages))
        (root / "index.html").write_text(
            f"<title>Site {number}</title><p>The dormouse is at home.{own}"
        )
        for page in range(pages):
            next_site = (
                f'<a href="http://site{(number + 1) % count}.test/">next</a>'
                if page == pages - 1
                else ""
            )
            (root / f"{page}.html").write_text(
                f"<title>Page {page}</title><p>It sleeps for the {page}th month. {next_site}"
            )
        servers.append(Server(f"{net}.{number + 1}", root, index="index.html", autoindex=False))
    with nginx(servers) as server:
        yield Sites(
            server,
            [
                f"site{number}.test:80:{each.address}:{server.port}"
                for number, each in enumerate(servers)
            ],
        )


def crawl(
    workspace: Path, web: Sites, *arguments: str, environment: Mapping[str, str] | None = None
) -> dict[str, Any]:
    completed = subprocess.run(
        [
            *(
                *RUN,
                "-w",
                str(workspace),
                *SET,
                "--set",
                f"fetch.connect_to={json.dumps(web.connect_to)}",
            ),
            *("crawl", *arguments, "--scope", "any", "--delay", "0", "--json", "-q"),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=4 * LIMIT_S,
        env={**os.environ, **(environment or {})},
    )
    assert completed.returncode == 0, completed.stderr
    summary: dict[str, Any] = json.loads(completed.stdout)
    return summary


def daemon_config(web: Sites, *, delay: str = "0") -> str:
    """Return a `lycosa.toml` for a daemon."""
    one = collection("one", web.home, more='scope = "any"\n').replace(
        "delay = 0", f'delay = "{delay}"'
    )
    return (
        QUICK.replace("[fetch]", f"[fetch]\nconnect_to = {json.dumps(web.connect_to)}")
        + CLUSTER
        + one
    )


def count_hits(workspace: Path, query: str) -> int:
    """Return the number of matching documents, including duplicates."""
    return int(json.loads(here(workspace, "search", query, "--copies", "--json"))["total"])


def table_rows(workspace: Path, table: str, *columns: str) -> list[tuple[Any, ...]]:
    """Return columns of the live rows of a table, sorted."""
    return sorted(
        LiveTables(Workspace.open(str(workspace))).scan(table).select(columns).collect().iter_rows()
    )


def assert_same_tables(one: Path, other: Path) -> None:
    """Assert that two workspaces have the same rows, except times and claims."""
    for table, columns in (
        ("urls", ("url", "collection", "operation", "state", "depth", "partition")),
        ("pages", ("url", "title", "text", "language", "text_digest")),
        ("links", ("source", "target", "kind", "anchor")),
        ("hosts", ("host", "known", "visited", "pages")),
        ("visits", ("url", "kind", "http_status", "attempt")),
    ):
        assert table_rows(one, table, *columns) == table_rows(other, table, *columns), table


@pytest.mark.proves("cluster-same-result")
def test_three_workers_store_the_same_rows_as_one(tmp_path: Path) -> None:
    with sites(tmp_path / "sites", "127.0.41", 5, 12) as web:
        alone = crawl(tmp_path / "one", web, web.home)
        assert (alone["ended"], alone["pages"]) == ("finished", 65)
        together = crawl(tmp_path / "three", web, web.home, "--engine", "local", "--workers", "3")
        assert (together["ended"], together["pages"], together["states"]) == (
            "finished",
            65,
            alone["states"],
        )
        assert together["statuses"] == alone["statuses"]
        # Each path exists on five sites and is requested by two crawls.
        assert set(requested(web.server).values()) == {10}
    assert_same_tables(tmp_path / "one", tmp_path / "three")
    assert (
        count_hits(tmp_path / "one", "dormouse"),
        count_hits(tmp_path / "three", "dormouse"),
    ) == (5, 5)
    check(tmp_path / "three")


@pytest.mark.proves("cluster-quotas")
@pytest.mark.prove  # test_coordinator.py has quick tests of quotas
def test_page_quota_limits_all_workers_together_and_the_next_crawl_resumes(tmp_path: Path) -> None:
    workspace = tmp_path / "w"
    with sites(tmp_path / "sites", "127.0.42", 4, 10) as web:
        first = crawl(
            workspace, web, web.home, "--engine", "local", "--workers", "2", "--max-pages", "9"
        )
        assert (first["ended"], first["pages"]) == ("max_pages", 9)
        assert len(table_rows(workspace, "pages", "url")) == 9
        second = crawl(workspace, web, "--engine", "local", "--workers", "2")
        assert (second["ended"], second["pages"]) == ("finished", 35)
        assert len(table_rows(workspace, "pages", "url")) == 44
        third = crawl(workspace, web)  # alone
        assert (third["ended"], third["pages"]) == ("finished", 0)
    check(workspace)


def worker_pids(workspace: Path) -> list[int]:
    """Return the process IDs of workers that hold partitions."""
    status = cluster_status(str(workspace)) or {}
    return [
        int(re.findall(r"-(\d+)-", each["worker"])[-1])
        for each in status.get("workers", ())
        if each["claim"]
    ]


@pytest.mark.proves("cluster-deaths")
def test_daemon_restarts_killed_workers_and_applies_changed_settings(tmp_path: Path) -> None:
    workspace = tmp_path / "w"
    with sites(tmp_path / "sites", "127.0.43", 4, 30) as web:
        with daemon(workspace, daemon_config(web, delay="100ms"), "--workers", "2") as running:
            running.until(
                lambda: len(worker_pids(workspace)) == 2 and len(running.rows("pages", "url")) >= 10
            )
            killed = worker_pids(workspace)[0]
            os.kill(killed, signal.SIGKILL)
            running.until(lambda: "restarting it (1 of 5 restarts)" in running.errors)
            running.until(
                lambda: len(worker_pids(workspace)) == 2 and killed not in worker_pids(workspace)
            )
            refused = subprocess.run(
                [*RUN, "-w", str(workspace), "crawl", web.home],
                capture_output=True,
                text=True,
                check=False,
            )
            assert (refused.returncode, "crawling in" in refused.stderr) == (1, True)
            before = worker_pids(workspace)
            (workspace / "lycosa.toml").write_text(daemon_config(web))
            running.until(
                lambda: (
                    len(worker_pids(workspace)) == 2
                    and not set(worker_pids(workspace)) & set(before)
                )
            )
            running.until_pages(124)
            running.until(
                lambda: running.live.get("collections", {}).get("one", {}).get("pages") == 124
            )
            assert running.stop() == 0, running.errors
        pages = table_rows(workspace, "visits", "url", "kind")
        assert len(pages) == len(set(pages))
    assert not Workspace.open(str(workspace)).state().holders
    check(workspace)


def test_killed_worker_does_not_delay_the_end_and_summary_equals_status(tmp_path: Path) -> None:
    """Timeouts of the cluster are the default ones: the end of a local process is certain."""
    workspace = tmp_path / "w"
    with sites(tmp_path / "sites", "127.0.46", 4, 30) as web:
        connect = f"fetch.connect_to={json.dumps(web.connect_to)}"
        command = [*RUN, "-w", str(workspace), "--set", connect, "crawl", web.home, "--json", "-q"]
        command += ["--engine", "local", "--workers", "2", "--max-pages", "40"]
        command += ["--scope", "any", "--delay", "200ms", "--set", "collection.traps=false"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as crawling:
            until(
                lambda: len(worker_pids(workspace)) >= 2 and table_rows(workspace, "pages", "url"),
                LIMIT_S,
            )
            os.kill(worker_pids(workspace)[0], signal.SIGKILL)
            killed_at = time.monotonic()
            output, _ = crawling.communicate(timeout=LIMIT_S)
            assert time.monotonic() - killed_at < 20  # `cluster.reassign` is 30 s
        summary = json.loads(output)
    assert (summary["ended"], summary["pages"]) == ("max_pages", 40)
    command = [*RUN, "-w", str(workspace), "status", "--json"]
    status = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert summary["states"] == {key: status["urls"][key] for key in summary["states"]}
    assert sum(summary["states"].values()) == status["urls"]["total"]
    check(workspace)


@pytest.mark.proves("cluster-driver")
def test_children_end_with_a_killed_driver_and_the_next_crawl_resumes(tmp_path: Path) -> None:
    workspace = tmp_path / "w"
    with sites(tmp_path / "sites", "127.0.44", 3, 10) as web:
        with daemon(workspace, daemon_config(web), "--workers", "2") as running:
            running.until(lambda: worker_pids(workspace))
            descendants = running.family()[1:]
            assert len(descendants) >= 3
            running.process.kill()
            running.process.wait()
            _, alive = psutil.wait_procs(descendants, timeout=LIMIT_S)
            assert not alive
        assert crawl(workspace, web, "--collection", "one", web.home)["ended"] == "finished"
        assert len(table_rows(workspace, "pages", "url")) == 33
        assert max(requested(web.server).values()) <= 6
    check(workspace)


def test_crawl_resumes_at_once_after_all_its_processes_were_killed(tmp_path: Path) -> None:
    """No process of the machine holds the cluster's lock, so the leases of an hour do not count."""
    workspace = tmp_path / "w"
    leases = ("--set", "cluster.hold=30m", "--set", "cluster.reassign=1h")
    with sites(tmp_path / "sites", "127.0.47", 3, 30) as web:
        connect = f"fetch.connect_to={json.dumps(web.connect_to)}"
        command = [*RUN, "-w", str(workspace), *leases, "--set", connect, "crawl", web.home, "-q"]
        command += ["--workers", "2", "--scope", "any", "--delay", "100ms"]
        with subprocess.Popen(command, start_new_session=True) as crawling:
            until(lambda: worker_pids(workspace) and table_rows(workspace, "pages", "url"), LIMIT_S)
            os.killpg(crawling.pid, signal.SIGKILL)
        assert crawling.returncode == -signal.SIGKILL
        resumed = crawl(workspace, web, "--workers", "2", *leases)
        assert resumed["ended"] == "finished"
        assert len(table_rows(workspace, "pages", "url")) == 93
    check(workspace)


def test_workers_report_that_no_seed_could_be_fetched_without_waiting_for_retries(
    tmp_path: Path,
) -> None:
    closed = ["a.test:80:127.0.0.1:9", "b.test:80:127.0.0.1:9"]
    exclusions = tmp_path / "exclusions"
    exclusions.write_text("host c.test\n")
    command = [*RUN, "-w", str(tmp_path / "w"), "--set", "crawl.patience=1h"]
    command += ["--set", f"crawl.exclusions={exclusions}"]
    command += ["--set", f"fetch.connect_to={json.dumps(closed)}", "--set", "fetch.retries=0"]
    command += ["crawl", "http://a.test/", "http://b.test/", "http://c.test/"]
    command += ["--workers", "2", "-q"]
    completed = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=LIMIT_S
    )
    assert completed.returncode != 0
    assert "nothing was fetched: " in completed.stderr
    for host in "ab":
        assert f"http://{host}.test/robots.txt: connect_refused" in completed.stderr
    assert "http://c.test/: excluded by the operator" in completed.stderr


def test_several_workers_fetch_only_unvisited_urls(tmp_path: Path) -> None:
    workspace = tmp_path / "w"
    with sites(tmp_path / "sites", "127.0.45", 3, 8) as web:
        assert crawl(workspace, web, web.home, "--max-pages", "5")["pages"] == 5
        recrawl = ("--set", "collection.recrawl=age", "--set", "collection.max_age=1s")
        rest = crawl(
            workspace, web, "--from", "unvisited", *recrawl, "--engine", "local", "--workers", "2"
        )
        assert (rest["ended"], rest["pages"]) == ("finished", 22)
        # Each path of three sites is requested once: visited pages are not recrawled.
        assert set(requested(web.server).values()) == {3}
    check(workspace)


def test_a_daemon_serves_its_metrics(tmp_path: Path) -> None:
    workspace = tmp_path / "w"
    with (
        sites(tmp_path / "sites", "127.0.46", 1, 3) as web,
        daemon(workspace, daemon_config(web), "--metrics-port", "0") as running,
    ):
        running.until(lambda: "serving metrics at http://127.0.0.1:" in running.errors)
        address = re.findall(r"serving metrics at (\S+)", running.errors)[0]
        running.until_pages(4)

        def scrape() -> str:
            with urllib.request.urlopen(address, timeout=LIMIT_S) as response:
                assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
                text: str = response.read().decode()
            return text

        running.until(lambda: re.search(r"^lycosa_daemon_up 1$", scrape(), re.MULTILINE))
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(address + "/else", timeout=LIMIT_S)
        assert running.stop() == 0, running.errors
