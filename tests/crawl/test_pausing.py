"""Pausing and resuming collections while a crawl or the daemon runs."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest

from lycosa.core.clock import SystemClock
from lycosa.core.errors import UsageError
from lycosa.crawl.session.pausing import ManualPauses, pause, paused, resume, set_paused
from lycosa.store.storage.storage import open_storage
from lycosa.store.workspace import Workspace
from tests.cli.conftest import Outcome, run, run_here
from tests.daemon.daemons import QUICK, RUN, collection, daemon, site
from tests.waiting import until


def lycosa(workspace: Path, *words: str) -> Outcome:
    return run_here("-w", str(workspace), *words)


def test_paused_collection_is_not_crawled_until_resumed(tmp_path: Path) -> None:
    workspace = tmp_path / "w"
    with site(tmp_path / "site", "127.0.6.31", 5) as server:
        home = f"http://127.0.6.31:{server.port}/"
        Workspace.create(str(workspace))
        (workspace / "lycosa.toml").write_text(QUICK + collection("one", home))
        assert lycosa(workspace, "collection", "pause", "one").code == 0
        with daemon(workspace, QUICK + collection("one", home)) as running:
            running.until(lambda: "every collection is paused" in running.live.get("message", ""))
            assert server.requests() == []
            assert lycosa(workspace, "collection", "resume", "one").code == 0
            running.until_pages(6)
            set_paused(str(workspace), "one", paused=True, by="ada")
            running.until(lambda: running.live["collections"]["one"]["paused"])
            assert running.stop() == 0, running.errors
    unknown = lycosa(workspace, "collection", "pause", "on")
    assert unknown.code == 2
    assert "did you mean 'one'" in unknown.err


@pytest.mark.parametrize("workers", [1, 2])
def test_a_running_crawl_is_paused_and_resumed(tmp_path: Path, workers: int) -> None:
    workspace = tmp_path / "w"
    with site(tmp_path / "site", "127.0.6.31", 600) as server:
        home = f"http://127.0.6.31:{server.port}/"
        crawl = [*RUN, "-w", str(workspace), "crawl", home, "--delay", "100ms"]
        crawl += ["--workers", str(workers)]
        errors = tmp_path / "errors"
        with errors.open("w") as messages:
            running = subprocess.Popen(crawl, stderr=messages, stdout=subprocess.DEVNULL)
        until(lambda: len(server.requests()) >= 5, alive=running)
        assert "default is paused" in lycosa(workspace, "collection", "pause", "default").out
        until(lambda: "'default' is paused" in errors.read_text(), alive=running)
        # a request may be in flight, and workers of a cluster look once a second
        time.sleep(0.5 if workers == 1 else 5)
        before = len(server.requests())
        assert before < 600
        time.sleep(1)
        assert len(server.requests()) == before
        assert "default is resumed" in lycosa(workspace, "collection", "resume", "default").out
        until(lambda: len(server.requests()) > before, alive=running)
        running.send_signal(signal.SIGINT)
        assert running.wait(60) == 0, errors.read_text()
    text = errors.read_text()
    assert "collection 'default' is paused: `lycosa collection resume default` resumes it" in text
    assert "collection 'default' is resumed" in text


def test_a_crawl_of_a_paused_collection_is_refused(tmp_path: Path) -> None:
    workspace = tmp_path / "w"
    with site(tmp_path / "site", "127.0.6.31", 3) as server:
        home = f"http://127.0.6.31:{server.port}/"
        assert lycosa(workspace, "crawl", home, "--delay", "0", "--max-pages", "1").code == 0
        set_paused(str(workspace), "default", paused=True, by="ada")
        for options in ((), ("--workers", "2")):
            refused = lycosa(workspace, "crawl", *options)
            assert refused.code == 2
            assert "collection 'default' is paused since" in refused.err
            assert "by ada: `lycosa collection resume default` resumes it" in refused.err
        assert "; paused" in lycosa(workspace, "collection", "list").out
        known_url = lycosa(
            workspace, "sql", "SELECT url FROM urls WHERE state = 'known' LIMIT 1", "--csv"
        ).out.split()[1]
        assert "the collection is paused since" in lycosa(workspace, "explain", known_url).out


def test_crawl_ignores_the_schedule_and_obeys_the_setting_paused(tmp_path: Path) -> None:
    workspace = tmp_path / "w"
    minute = int(time.time()) // 60 % 1440
    hours = [f"{(minute + ahead) // 60 % 24:02}:{(minute + ahead) % 60:02}" for ahead in (120, 180)]
    with site(tmp_path / "site", "127.0.6.31", 3) as server:
        home = f"http://127.0.6.31:{server.port}/"
        Workspace.create(str(workspace))
        (workspace / "lycosa.toml").write_text(
            collection("night", home, more=f'schedule = "{hours[0]}-{hours[1]}"')
            + collection("off", home, more="paused = true")
        )
        crawl = ("crawl", "--no-index", "--json", "--workers", "2", "--collection")
        done = run("-w", str(workspace), *crawl, "night", limit_s=180)
        assert done.json["pages"] == 4
        refused = lycosa(workspace, *crawl, "off")
    assert refused.code == 2
    assert "collection 'off' has paused = true in lycosa.toml" in refused.err


def test_pause_files(tmp_path: Path) -> None:
    """The first pause counts, damaged files pause, other files are ignored."""
    storage = open_storage(str(tmp_path))
    assert paused(storage) == {}
    pause(storage, "a", "ada")
    pause(storage, "a", "bob")
    pause(storage, "b")
    (tmp_path / "run" / "paused" / "c.json").write_text("{")
    (tmp_path / "run" / "paused" / "note").write_text("")
    assert {name: record["by"] for name, record in paused(storage).items()} == {
        "a": "ada",
        "b": "",
        "c": "",
    }
    assert ManualPauses(storage, SystemClock()).read() == {"a", "b", "c"}
    resume(storage, "a")
    resume(storage, "a")
    assert set(paused(storage)) == {"b", "c"}
    for name in ("../x", "", "A", "a/b"):
        with pytest.raises(UsageError):
            pause(storage, name)
