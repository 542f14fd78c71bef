"""Test `lycosa monitor` with real servers, and verdicts on responses."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lycosa.commands.maintenance.exclude import exclude_and_purge
from lycosa.config.monitor import Monitor
from lycosa.config.reading import parse_config
from lycosa.config.settings import Config
from lycosa.core.clock import SystemClock
from lycosa.core.errors import ConfigError, FetchError, UsageError
from lycosa.core.records import CHECKS, Exchange, Visit, VisitKind
from lycosa.crawl.session.session import SessionOptions, open_session
from lycosa.store.log.claim import Claim
from lycosa.store.storage.local import LocalStorage
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from lycosa.uptime.monitors import add_monitor, monitors_of, remove_monitor, signature
from lycosa.uptime.report import live_status
from lycosa.uptime.results import evaluate_check
from tests import waiting
from tests.cli.conftest import LYCOSA, run_here
from tests.crawl.kills import here
from tests.daemon.daemons import collection, daemon, site
from tests.servers.certificates import make_certificate
from tests.servers.controllable_server import ControllableServer, expired_certificate
from tests.waiting import ManualClock

LIMIT_S = 60.0
QUICK = {"every": "1s", "timeout": "5s", "confirm_after": "200ms", "pause": 0}


@contextmanager
def monitor_process(workspace: Path) -> Iterator[subprocess.Popen[bytes]]:
    with (workspace / "output").open("ab") as output:
        process = subprocess.Popen(
            [*LYCOSA, "-w", str(workspace), "monitor", "run"], stdout=output, stderr=output
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def until(process: subprocess.Popen[bytes], workspace: Path, reached: Callable[[], object]) -> None:
    waiting.until(reached, LIMIT_S, alive=process, messages=(workspace / "output").read_text)


def states(workspace: Path) -> dict[str, str]:
    path = workspace / "run" / "uptime.json"
    if not path.exists():
        return {}
    return {url: each["state"] for url, each in json.loads(path.read_text())["monitors"].items()}


def notices(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def urls_of(sent: list[dict[str, Any]], kind: str) -> set[str]:
    return {
        url for notice in sent if notice["kind"] == kind for url in notice["facts"]["urls"].split()
    }


@pytest.mark.proves("politeness-checks")
@pytest.mark.prove  # the same decisions are tested in simulated time
def test_outages_and_their_ends_are_notified_once_despite_a_kill(
    tmp_path: Path,
) -> None:
    authority = make_certificate(tmp_path, "authority", "")
    good = make_certificate(tmp_path, "good", "IP:127.0.0.1", authority)
    received, workspace = tmp_path / "notices.jsonl", tmp_path / "ws"
    with (
        ControllableServer() as stopped,
        ControllableServer() as broken,
        ControllableServer() as changed,
        ControllableServer(certificate=good) as expired,
        ControllableServer() as fine,
    ):
        servers = [stopped, broken, changed, expired, fine]
        Workspace.create(str(workspace))
        settings = "".join(
            f"[[monitor]]\nurl = '{each.url}'\nexpect = 'well'\nevery = '1s'\ntimeout = "
            "'5s'\nconfirm_after = '200ms'\n"
            f"certificate = '0s'\nnotify = ['file {received}']\n"
            for each in servers
        )
        (workspace / "lycosa.toml").write_text(
            f"[fetch]\nca_file = '{authority.certificate}'\n{settings}"
        )
        with monitor_process(workspace) as process:
            until(process, workspace, lambda: list(states(workspace).values()) == ["up"] * 5)
            stopped.stop()
            broken.status = 500
            changed.text = "sold"
            expired.stop()
            expired.certificate = expired_certificate(tmp_path, "old", "IP:127.0.0.1", authority)
            expired.start()
            until(process, workspace, lambda: "has been down" in (workspace / "output").read_text())
            # killed while some outages are confirmed and others are not
            process.send_signal(signal.SIGKILL)
            process.wait()
        bad = {each.url for each in servers[:4]}
        with monitor_process(workspace) as process:
            until(process, workspace, lambda: urls_of(notices(received), "down") == bad)
            stopped.start()
            broken.status, changed.text = 200, "all is well"
            expired.stop()
            expired.certificate = good
            expired.start()
            until(process, workspace, lambda: urls_of(notices(received), "up") == bad)
            process.send_signal(signal.SIGTERM)
            assert process.wait(LIMIT_S) == 0
    ids = [notice["id"] for notice in notices(received)]
    assert len(ids) == len(set(ids))  # the kill repeated no notice
    assert (
        sum(notice["facts"]["monitors"] for notice in notices(received) if notice["kind"] == "down")
        == 4
    )
    rows = LiveTables(Workspace.open(str(workspace))).scan("visits").collect()
    assert set(rows["kind"]) == {"check"}
    assert rows["record_id"].is_unique().all()
    listed = json.loads(here(workspace, "monitor", "--json"))
    causes = {
        each["url"]: {outage["cause"] for outage in each["outages"]} for each in listed["monitors"]
    }
    assert causes == {
        stopped.url: {"connect"},
        broken.url: {"status"},
        changed.url: {"content"},
        expired.url: {"tls"},
        fine.url: set(),
    }
    assert all(outage["until"] for each in listed["monitors"] for outage in each["outages"])
    assert "no errors" in here(workspace, "check", "--deep")
    # At most that of the killed process, which was replayed.
    assert len(list(workspace.rglob("*.warc.gz"))) <= 1
    assert f"{broken.url}: up" in here(workspace, "monitor", broken.url)


@pytest.mark.prove  # waits for 45 s
def test_a_daemon_monitors_during_a_crawl_and_after_its_worker_is_killed(
    tmp_path: Path,
) -> None:
    with site(tmp_path / "site", "127.0.3.90", 8) as server, ControllableServer() as other:
        home = f"http://127.0.3.90:{server.port}/"
        settings = (
            collection("a", home) + f"[[monitor]]\nurl = '{home}'\nevery = '1s'\ntimeout = '5s'\n"
        )
        with daemon(tmp_path / "ws", settings) as running:
            running.until_pages(9)
            running.until(lambda: states(tmp_path / "ws"))
            here(
                tmp_path / "ws",
                "monitor",
                "add",
                other.url,
                "--every",
                "1s",
                "--timeout",
                "5s",
                "--expect",
                "well",
            )
            running.until(lambda: states(tmp_path / "ws").get(other.url) == "up")
            running.until(lambda: len(other.arrival_times) >= 3)
            worker = running.worker
            running.until(lambda: running.worker != 0)
            next(each for each in running.family() if each.pid == worker).kill()
            running.until(lambda: running.worker not in (0, worker))
            requests = len(other.arrival_times)
            running.until(lambda: len(other.arrival_times) >= requests + 2)
            here(tmp_path / "ws", "monitor", "remove", other.url)
            running.until(lambda: other.url not in states(tmp_path / "ws"))
            assert running.stop() == 0
        checks = [row for row in running.rows("visits") if row["kind"] == "check"]
        assert {row["url"] for row in checks} == {home, other.url}
        assert len(running.rows("pages")) == 9
        other_checks = [row for row in checks if row["url"] == other.url]
        # one check may have been in flight at the kill, one at the end
        assert len(other_checks) >= len(other.arrival_times) - 2
        assert {row["verdict"] for row in checks} == {"up"}
        report = json.loads(here(tmp_path / "ws", "monitor", f"127.0.3.90:{server.port}", "--json"))
        assert report["pages"]["pages"] == 9
        assert [each["url"] for each in report["monitors"]] == [home]
        assert "no errors" in here(tmp_path / "ws", "check", "--deep")


def test_only_a_process_that_runs_the_checks_has_a_live_state(tmp_path: Path) -> None:
    root, workspace = tmp_path / "ws", Workspace.create(str(tmp_path / "ws"))
    with ControllableServer() as server:
        add_monitor(str(root), Config(), {"url": server.url, **QUICK})
        with monitor_process(root) as process:
            until(process, root, lambda: states(root).get(server.url) == "up")
            live = live_status(workspace)
            assert live is not None
            assert live.monitors[server.url].checked_at <= live.written_at
        with workspace.own("crawl", ManualClock(live.written_at + 60_000)):
            assert live_status(workspace) is None


def test_invalid_monitors_are_refused_with_a_reason(tmp_path: Path) -> None:
    root = str(tmp_path / "ws")
    config = Config()
    with pytest.raises(UsageError, match="status"):
        add_monitor(root, config, {"url": "http://example.org/", "status": ["9xx"]})
    with pytest.raises(UsageError, match="not a notification target"):
        add_monitor(root, config, {"url": "http://example.org/", "notify": ["mail me"]})
    assert (
        add_monitor(root, config, {"url": "HTTP://Example.org", **QUICK}).monitor.url
        == "http://example.org/"
    )
    with pytest.raises(UsageError, match="already monitored"):
        add_monitor(root, config, {"url": "http://example.org/"})
    configured = parse_config("[[monitor]]\nurl = 'http://example.org/b'\n")
    with pytest.raises(UsageError, match=r"lycosa.toml"):
        remove_monitor(root, configured, "http://example.org/b")
    assert set(monitors_of(Workspace.open(root).storage, configured)) == {
        "http://example.org/",
        "http://example.org/b",
    }
    remove_monitor(root, config, "http://example.org/")
    with pytest.raises(UsageError, match="not monitored"):
        remove_monitor(root, config, "http://example.org/")


@pytest.mark.parametrize("on_disk", [True, False])
def test_a_monitor_that_is_removed_and_added_again_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_disk: bool
) -> None:
    """Its file has the same name, and remote storage is only listed, every 30 s."""
    monkeypatch.setattr(LocalStorage, "on_disk", on_disk)
    root, url = str(tmp_path / "ws"), "http://example.org/"
    add_monitor(root, Config(), {"url": url})
    storage = Workspace.open(root).storage
    before = signature(storage)
    assert signature(storage) == before
    remove_monitor(root, Config(), url)
    add_monitor(root, Config(), {"url": url, "every": "10s"})
    assert signature(storage) != before


def test_errors_of_configured_monitors_name_the_url(tmp_path: Path) -> None:
    monitor = "[[monitor]]\nurl = 'http://{}'\n"
    twice = parse_config(monitor.format("example.org") + monitor.format("EXAMPLE.org/"))
    with pytest.raises(ConfigError, match=r"example\.org/ occurs twice"):
        monitors_of(Workspace.create(str(tmp_path / "ws")).storage, twice)
    (tmp_path / "ws" / "lycosa.toml").write_text(
        monitor.format("example.org") + "notify = ['command no-such-program']\n"
    )
    refused = run_here("-w", str(tmp_path / "ws"), "monitor", "run")
    refused.expect(2, err=("[[monitor]] http://example.org/: there is no executable program",))


@pytest.mark.proves("consistency-purge-derived")
def test_purge_removes_monitors_of_excluded_hosts(tmp_path: Path) -> None:
    root = str(tmp_path / "ws")
    for url in ("http://a.example/", "http://b.example/"):
        add_monitor(root, Config(), {"url": url})
    exclude_and_purge(root, Config(), ["host:a.example"], remove=True)
    assert set(monitors_of(Workspace.open(root).storage, Config())) == {"http://b.example/"}
    with pytest.raises(UsageError, match="excluded"):
        add_monitor(root, Config(), {"url": "http://a.example/x"})


def test_a_journal_left_by_a_kill_after_a_commit_is_not_applied_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = Workspace.create(str(tmp_path / "ws"))
    monkeypatch.setattr(Claim, "drop_journal", lambda claim, folder: None)
    for number in range(3):
        session = open_session(
            workspace,
            Config(),
            (),
            SessionOptions(forever=True),
            command="test",
            clock=SystemClock(),
        )
        session.load()
        assert session.crawl.progress.replayed == 0
        identity = session.crawl.identifier.identify("http://example.org/")
        at = 1_700_000_000_000 + number
        visit = Visit(
            identity.url,
            identity.host,
            identity.partition,
            identity.host_key,
            identity.url_key,
            VisitKind.CHECK,
            CHECKS,
            0,
            at,
            5,
        )
        visit.verdict = "up"
        session.crawl.buffer.batch.add_check(
            Exchange(identity.url, VisitKind.CHECK, at, 5, status=200), visit
        )
        session.worker.commits.now()
        session.claim.release()
        session.close()
    rows = LiveTables(workspace).scan("visits").collect()
    assert (rows.height, rows["record_id"].n_unique(), set(rows["warc_file"])) == (3, 3, {""})
    assert "no errors" in here(tmp_path / "ws", "check", "--deep")


URL = "http://example.org/"


def exchange(
    status: int = 200, body: bytes = b"", fields: str = "", error: str = "", text: str = ""
) -> Exchange:
    head = (
        b""
        if error
        else f"HTTP/1.1 {status} Fine\r\nContent-Type: text/html\r\n{fields}\r\n".encode()
    )
    return Exchange(
        URL,
        VisitKind.CHECK,
        0,
        1,
        response_head=head,
        body=body,
        status=0 if error else status,
        error=error,
        error_text=text,
    )


@pytest.mark.parametrize(
    ("expect", "status", "answer", "verdict"),
    [
        ("", ("2xx", "3xx"), exchange(), "up"),
        ("", ("2xx", "3xx"), exchange(302), "up"),
        ("", ("2xx", "3xx"), exchange(404), "status"),
        ("", ("404",), exchange(404), "up"),
        ("", ("404",), exchange(200), "status"),
        ("well", ("2xx",), exchange(body=b"<p>all is well"), "up"),
        ("Well", ("2xx",), exchange(body=b"<p>all is well"), "content"),
        ("schön", ("2xx",), exchange(body="<p>schön".encode()), "up"),
        (
            "schön",
            ("2xx",),
            exchange(body='<meta charset="iso-8859-1"><p>schön'.encode("latin-1")),
            "up",
        ),
        ("晴天", ("2xx",), exchange(body='<meta charset="gbk"><p>今日晴天'.encode("gbk")), "up"),
        (
            "",
            ("2xx",),
            exchange(body=b"\x1f\x8b\x08no gzip at all", fields="Content-Encoding: gzip\r\n"),
            "content",
        ),
        ("", ("2xx",), exchange(error="dns"), "dns"),
        ("", ("2xx",), exchange(error="connect_timeout"), "connect"),
        ("", ("2xx",), exchange(error="tls_certificate"), "tls"),
        ("", ("2xx",), exchange(error="first_byte_timeout"), "timeout"),
        ("", ("2xx",), exchange(error="bad_http"), "content"),
    ],
)
def test_verdicts(expect: str, status: tuple[str, ...], answer: Exchange, verdict: str) -> None:
    assert evaluate_check(Monitor(url=URL, expect=expect, status=status), answer).verdict == verdict


def test_every_error_has_a_cause_and_equal_errors_have_equal_texts() -> None:
    monitor = Monitor(url=URL)
    for error in FetchError:
        assert evaluate_check(monitor, exchange(error=error)).verdict != "up"
    messages = {
        evaluate_check(
            monitor,
            exchange(
                error="connect_refused",
                text=f"Failed to connect to x:1 after {ms} ms: Could not connect",
            ),
        ).text
        for ms in (0, 12)
    }
    assert messages == {"Failed to connect to x:1: Could not connect"}
    refused = exchange(error="address_refused", text="Could not connect")
    assert "not a public address" in evaluate_check(monitor, refused).text
