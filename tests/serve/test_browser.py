"""The search page in a real browser: what it renders, and what it asks of whom."""

from __future__ import annotations

import json
import os
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.serve.conftest import HOSTILE_TITLE, lycosa
from tests.serve.pages import Document
from tests.servers.system import require_program

LIMIT_S = 90


@pytest.fixture(scope="module")
def address(workspace: str) -> Iterator[str]:
    """The address of the real server over the crawled workspace."""
    with subprocess.Popen(lycosa("-w", workspace, "serve", "--port", "0"), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield next(word for word in process.stdout.readline().split() if word.startswith("http://127.0.0.1:"))
        finally:
            process.terminate()
            process.wait(timeout=15)


def browse(folder: Path, url: str, *arguments: str) -> str:
    """Open a page in headless Chromium with an empty profile; what it wrote to stdout."""
    command = [
        require_program("chromium"),
        "--headless",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        f"--user-data-dir={folder / 'profile'}",
        *(["--no-sandbox"] if os.geteuid() == 0 else []),
        *arguments,
        url,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def asked(net_log: Path) -> set[str]:
    """The host:port pairs of every http(s) request in a Chromium net log, but for what the browser wants for itself.

    Its maker's hosts are not even looked up: the resolver rules above say so.
    """
    events = json.loads(net_log.read_text(encoding="utf-8"))["events"]
    urls = {event.get("params", {}).get("url", "") for event in events}
    hosts = {urlsplit(url).netloc for url in urls if url.startswith(("http://", "https://"))}
    return {host for host in hosts if not host.endswith((".google.com", ".googleapis.com", ".gvt1.com", ".gstatic.com"))}


def test_browser_shows_results_and_asks_our_server_alone(address: str, tmp_path: Path) -> None:
    net_log = tmp_path / "net.json"
    page = Document(browse(tmp_path, f"{address}?q=wolf+spider+mother", f"--log-net-log={net_log}", "--dump-dom"))
    assert "Mothers with a load · The Wolf Spider Pages" in page.text("h2")
    assert page.text("mark")
    assert asked(net_log) == {urlsplit(address).netloc}


def test_browser_runs_nothing_of_a_hostile_page(address: str, tmp_path: Path) -> None:
    net_log = tmp_path / "net.json"
    page = Document(browse(tmp_path, f"{address}?q=venomous+paragraph", f"--log-net-log={net_log}", "--dump-dom"))
    assert any(HOSTILE_TITLE in title for title in page.text("h2"))
    assert page.text("title")[0] == "venomous paragraph · Lycosa"
    assert page.all("img") == []
    assert asked(net_log) == {urlsplit(address).netloc}


@pytest.mark.parametrize(("width", "height"), [(1280, 900), (390, 844)])
def test_screenshots(address: str, tmp_path: Path, width: int, height: int) -> None:
    picture = tmp_path / "page.png"
    browse(tmp_path, f"{address}?q=%E9%BE%99%E4%BA%95%E8%8C%B6", f"--screenshot={picture}", f"--window-size={width},{height}")
    content = picture.read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    assert struct.unpack(">II", content[16:24]) == (width, height)
    assert len(content) > 20_000  # an unstyled or empty page compresses to a fraction of this
