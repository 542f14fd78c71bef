"""The daemon: settings, crashes of workers, full disks and signals."""

from __future__ import annotations

import os
import signal
import socket
import struct
import sys
import threading
import time
import urllib.request
from collections import Counter
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from lycosa.core.errors import ConfigError
from lycosa.crawl.session.worker_status import live_status
from lycosa.daemon.metrics_port import metrics_served
from lycosa.daemon.settings_files import SettingsFiles
from lycosa.store.workspace import Workspace
from tests.crawl.kills import here
from tests.daemon.daemons import LIMIT_S, QUICK, Running, collection, daemon, rows, site
from tests.servers.disks import fill, small_disk
from tests.servers.nginx import Nginx
from tests.waiting import ManualClock

CRASHING_DAEMON = Path(__file__).with_name("crashing_daemon.py")


def check(workspace: Path) -> None:
    """Assert that `lycosa check --deep` reports no error."""
    here(workspace, "check", "--deep")


def requested(server: Nginx) -> Counter[str]:
    """Return the number of requests per path, without robots.txt."""
    return Counter(request.uri for request in server.requests() if request.uri != "/robots.txt")


@pytest.mark.proves("durability-signal")
def test_collections_share_responses_and_sigterm_commits(tmp_path: Path) -> None:
    workspace = tmp_path / "w"
    with site(tmp_path / "site", "127.0.6.1", 20) as server:
        home = f"http://127.0.6.1:{server.port}/"
        settings = (
            QUICK
            + collection("one", home, more='recrawl = "never"')
            + collection("two", home, more="depth = 0")
        )
        settings += collection("bad", "htp:/x")
        with daemon(workspace, settings) as running:
            running.until_pages(22)
            running.until(
                lambda: running.live.get("collections", {}).get("one", {}).get("pages") == 21
            )
            live = running.live
            running.until(lambda: Path(workspace / "index").is_dir())
            assert running.stop() == 0, running.errors
        assert live["daemon"] == running.process.pid
        assert live["collections"]["two"] == {"pages": 1, "in_flight": 0, "paused": False}
        assert "only http, https" in live["bad"]["bad"]
        assert "collection bad is not crawled" in running.errors
        assert "committed" in running.errors
        assert set(requested(server).values()) == {1}
    assert Counter(row["collection"] for row in rows(workspace, "pages")) == {"one": 21, "two": 1}
    both = [row for row in rows(workspace, "visits") if row["url"] == home]
    assert sorted(row["collection"] for row in both) == ["one", "two"]
    assert len({row["record_id"] for row in both}) == 1
    assert live_status(str(workspace)) is None
    check(workspace)


def test_valid_changes_of_lycosa_toml_are_applied_and_invalid_ones_refused(tmp_path: Path) -> None:
    workspace = tmp_path / "w"
    with site(tmp_path / "site", "127.0.6.2", 3, {"hub.html": "<p>a hub"}) as server:
        home = f"http://127.0.6.2:{server.port}/"
        with daemon(workspace, QUICK + collection("one", home, more="paused = true")) as running:
            file = workspace / "lycosa.toml"
            running.until(lambda: "is paused" in running.live.get("message", ""))
            assert requested(server) == {}
            # read when two checks see the same file
            file.write_text("[fetch]\nconections = 3\n")
            running.until(lambda: "did you mean 'connections'" in running.errors)
            minute = int(time.time()) // 60 % 1440
            later = [
                f"{(minute + ahead) // 60 % 24:02}:{(minute + ahead) % 60:02}"
                for ahead in (120, 180)
            ]
            file.write_text(
                QUICK + collection("one", home, more=f'schedule = "{later[0]}-{later[1]}"')
            )
            before = running.worker
            running.send(signal.SIGHUP)
            running.until(
                lambda: running.worker not in (0, before) and "is paused" in running.live["message"]
            )
            assert requested(server) == {}
            file.write_text(
                QUICK
                + collection("one", home)
                + collection("two", f"{home}hub.html", more="depth = 0")
            )
            running.until_pages(5)
            file.write_text(
                QUICK
                + collection("one", home, more="foo = 1")
                + collection("two", f"{home}hub.html", more="depth = 1")
            )
            running.until(
                lambda: "collection one continues with its previous settings" in running.errors
            )
            running.until(lambda: set(running.live.get("collections", ())) == {"one", "two"})
            assert running.stop(signal.SIGINT) == 0, running.errors
    assert "restarts)" not in running.errors
    file.write_text(QUICK + collection("one", home))  # `check` reports the invalid setting
    check(workspace)


def test_seed_file_that_is_created_after_its_settings_were_refused_is_noticed(
    tmp_path: Path,
) -> None:
    (tmp_path / "lycosa.toml").write_text(collection("one", more='seed_file = "seeds.txt"'))
    clock = ManualClock()
    files = SettingsFiles(str(tmp_path), (), (), clock)
    with pytest.raises(ConfigError, match=r"seeds\.txt cannot be read"):
        files.read_plan({}, monitors=False)
    (tmp_path / "seeds.txt").write_text("http://127.0.0.1/\n")
    assert not files.changed()
    clock.advance(2_000)
    assert files.changed()


def _has_worked(running: Running, server: Nginx, pages: int) -> bool:
    return len(requested(server)) >= pages and running.worker > 0


def _has_new_worker(running: Running, killed: int) -> bool:
    return running.worker not in (0, killed)


@pytest.mark.proves("durability-kill", "isolation-supervision")
def test_killed_worker_is_restarted_without_repeated_requests(tmp_path: Path) -> None:
    workspace = tmp_path / "w"
    with site(tmp_path / "site", "127.0.6.3", 60) as server:
        slow = collection("one", f"http://127.0.6.3:{server.port}/", delay="30ms")
        with daemon(workspace, QUICK + slow) as running:
            for pages in (5, 25):
                running.until(partial(_has_worked, running, server, pages))
                killed = running.worker
                os.kill(killed, signal.SIGKILL)
                running.until(partial(_has_new_worker, running, killed))
            running.until_pages(61)
            assert running.stop() == 0, running.errors
        assert "killed by signal 9 (SIGKILL)" in running.errors
        assert "(2 of 5 restarts)" in running.errors
        # the page that was in flight is fetched again
        assert max(requested(server).values()) <= 2
        assert sum(requested(server).values()) <= 63
    assert len(rows(workspace, "pages")) == 61
    check(workspace)


@pytest.mark.proves("isolation-children")
def test_children_end_with_a_killed_daemon(tmp_path: Path) -> None:
    workspace = tmp_path / "w"
    with (
        site(tmp_path / "site", "127.0.6.4", 5) as server,
        daemon(workspace, QUICK + collection("one", f"http://127.0.6.4:{server.port}/")) as running,
    ):
        running.until_pages(6)
        children = running.family()[1:]
        assert running.worker in [child.pid for child in children]
        running.process.kill()
        running.process.wait()
        _, alive = psutil.wait_procs(children, timeout=LIMIT_S)
        assert not alive
        assert live_status(str(workspace)) is None
    with daemon(
        workspace,
        '[run]\nstop_timeout = "2s"\n'
        + QUICK
        + collection("one", f"http://127.0.6.4:{server.port}/"),
    ) as running:
        running.until(lambda: running.worker)
        # a stopped process does not handle SIGTERM, so it is killed after run.stop_timeout
        os.kill(running.worker, signal.SIGSTOP)
        assert running.stop() == 0, running.errors
        assert "the worker: killed by signal 9 (SIGKILL)" in running.errors
    check(workspace)


CRASHING_SITE = {
    "crashing.html": "<p>This kills the parser.",
    "index.html": '<a href="/crashing.html">d</a> <a href="/0.html">0</a>',
}


def crashing_command(workspace: Path) -> tuple[str, ...]:
    return (sys.executable, str(CRASHING_DAEMON), str(workspace))


@pytest.mark.proves("isolation-parser-crash")
def test_page_that_crashes_the_parser_is_excluded(tmp_path: Path) -> None:
    workspace = tmp_path / "w"
    with site(tmp_path / "site", "127.0.6.5", 1, CRASHING_SITE) as server:
        settings = QUICK + collection("one", f"http://127.0.6.5:{server.port}/")
        with daemon(workspace, settings, command=crashing_command(workspace)) as running:
            running.until(
                lambda: any(row["reason"] == "parse_crashed" for row in running.rows("urls"))
            )
            running.until_pages(2)
            running.until(lambda: running.worker)
            # garbage is collected periodically; the interval is shortened here
            running.until(lambda: "a cycle was collected" in running.errors)
            assert running.stop() == 0, running.errors
        assert requested(server)["/crashing.html"] == 1
    assert "signal 11 (SIGSEGV), while parsing http://127.0.6.5" in running.errors
    assert {
        row["error"] for row in rows(workspace, "visits") if row["url"].endswith("crashing.html")
    } == {"parse_crashed"}
    url = f"http://127.0.6.5:{server.port}/crashing.html"
    assert "parse_crashed" in here(workspace, "explain", url)
    check(workspace)


@pytest.mark.proves("isolation-parser-hang")
def test_worker_that_hangs_during_parsing_is_killed(tmp_path: Path) -> None:
    workspace = tmp_path / "w"
    with site(
        tmp_path / "site", "127.0.6.13", 0, {"index.html": "<p>This hangs the parser."}
    ) as server:
        settings = (
            "[run]\nrestarts = 0\n" + QUICK + collection("one", f"http://127.0.6.13:{server.port}/")
        )
        with daemon(workspace, settings, command=(*crashing_command(workspace), "1000")) as running:
            assert running.process.wait(LIMIT_S) == 1
    assert (
        f"killed by signal 9 (SIGKILL), while parsing http://127.0.6.13:{server.port}/"
        in running.errors
    )


@pytest.mark.proves("isolation-supervision")
def test_daemon_stops_with_a_reason_after_too_many_worker_deaths(tmp_path: Path) -> None:
    workspace = tmp_path / "w"
    with site(tmp_path / "site", "127.0.6.6", 1, CRASHING_SITE) as server:
        settings = (
            "[run]\nrestarts = 1\n" + QUICK + collection("one", f"http://127.0.6.6:{server.port}/")
        )
        with daemon(workspace, settings, command=crashing_command(workspace)) as running:
            children = running.family()
            assert running.process.wait(LIMIT_S) == 1
            _, alive = psutil.wait_procs(children, timeout=2)
            assert not alive
    last = running.errors.splitlines()[-1]
    assert "died 2 times in 10m, more than run.restarts (1) allows" in last
    assert f"while parsing http://127.0.6.6:{server.port}/crashing.html" in last


@pytest.mark.proves("durability-full-disk")
def test_crawl_is_paused_while_the_disk_reserve_is_missing(tmp_path: Path) -> None:
    with (
        site(tmp_path / "site", "127.0.6.7", 80) as server,
        small_disk(tmp_path / "disk", "64m") as disk,
    ):
        workspace = disk / "w"
        slow = collection("one", f"http://127.0.6.7:{server.port}/", delay="60ms")
        with daemon(workspace, '[run]\ndisk_reserve = "16MiB"\n' + QUICK + slow) as running:
            running.until(lambda: len(requested(server)) >= 5)
            fill(disk / "ballast", 8 << 20)
            running.until(
                lambda: (
                    "run.disk_reserve requires (16MiB)" in running.live.get("message", "")
                    and "paused: the disk of" in running.errors
                )
            )
            paused, output = len(requested(server)), running.live["written_at"]
            running.until(
                lambda: running.live["written_at"] != output and running.live["in_flight"] == 0
            )
            assert len(requested(server)) <= min(paused + 1, 80)
            (disk / "ballast").unlink()
            running.until_pages(81)
            assert running.stop() == 0, running.errors
        assert running.errors.count("paused: the disk of") == 1
        assert "the disk has enough free space again" in running.errors
        assert set(requested(server).values()) == {1}
        check(workspace)


@pytest.mark.proves("durability-full-disk")
def test_worker_restarts_without_penalty_when_a_full_disk_has_space_again(tmp_path: Path) -> None:
    with (
        site(tmp_path / "site", "127.0.6.8", 80) as server,
        small_disk(tmp_path / "disk", "64m") as disk,
    ):
        workspace = disk / "w"
        slow = collection("one", f"http://127.0.6.8:{server.port}/", delay="20ms")
        with daemon(workspace, "[run]\ndisk_reserve = 0\nrestarts = 0\n" + QUICK + slow) as running:
            running.until(lambda: len(requested(server)) >= 5)
            fill(disk / "ballast", 0)
            running.until(
                lambda: "it is restarted when the disk has enough free space" in running.errors
            )
            (disk / "ballast").unlink()
            running.until_pages(81)
            assert running.stop() == 0, running.errors
        # pages in flight when the disk was full may not be archived
        assert max(requested(server).values()) <= 2
        check(workspace)


def test_reset_of_a_metrics_connection_is_not_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with metrics_served(str(tmp_path), 0) as address:
        endpoint = ("127.0.0.1", urlsplit(address).port or 0)
        for _ in range(5):
            client = socket.create_connection(endpoint)
            # reset, not closed
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.sendall(b"GET /met")
            client.close()
        with socket.create_connection(endpoint) as client:  # accepted after the others
            client.sendall(b"GET /nothing HTTP/1.0\r\n\r\n")
            assert client.recv(100).startswith(b"HTTP/1.0 404")
        while any("process_request" in thread.name for thread in threading.enumerate()):
            time.sleep(0.01)
    assert capsys.readouterr().err == ""


def test_metrics_are_served_at_an_ipv6_address(tmp_path: Path) -> None:
    Workspace.create(str(tmp_path / "w"))
    with metrics_served(str(tmp_path / "w"), 0, "::1") as address:
        assert address.startswith("http://[::1]:")
        assert b"lycosa_build_info" in urllib.request.urlopen(address, timeout=30).read()
