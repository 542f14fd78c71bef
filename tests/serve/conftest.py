"""Fixtures: a workspace with the demo sites and a hostile site, a server and a browser for it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lycosa.commands.demo.demo import serve_demo_web
from lycosa.commands.inspection.status import workspace_status
from lycosa.serve.app import create_app
from lycosa.store.workspace import Workspace
from tests.cli.conftest import printed_here
from tests.serve.browser import Browser, launch_browser
from tests.serve.client import Client
from tests.servers.local_http import QuietHandler, serving_handler
from tests.shared import created_once

HOSTILE_TITLE = (
    '"><script>document.title="owned"</script><img src=http://127.0.2.9/beacon onerror=alert(1)>'
)
HOSTILE_PAGE = """<!doctype html><html lang="en"><head><title>{title}</title></head><body><main><h1>Venomous page</h1>
<p>A venomous paragraph that says &lt;script&gt;alert("snippet")&lt;/script&gt; and &lt;img src=http://127.0.2.9/pixel&gt; and
&lt;/p&gt;&lt;/article&gt; in the middle of quite ordinary English words, so that a snippet of it must hold them.</p>
</main></body></html>"""
HOSTILE_PATH = "/%22onmouseover=alert(1)//%3Cb%3E"


def lycosa(*arguments: str) -> list[str]:
    """Return the command line of a `lycosa` process."""
    return [sys.executable, "-m", "lycosa.cli.main", *arguments]


@contextmanager
def hostile_site() -> Iterator[str]:
    """Serve a page that tries to inject markup; yield its URL."""
    page = HOSTILE_PAGE.format(title=HOSTILE_TITLE.replace("<", "&lt;")).encode()

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            self.answer(*((200, page) if self.path == HOSTILE_PATH else (404, b"no")))

    with serving_handler(Handler, "127.0.2.10") as origin:
        yield f"{origin}{HOSTILE_PATH}"


@pytest.fixture(scope="session")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Root of a crawled and indexed workspace; each pytest worker has a copy."""

    def crawl(root: Path) -> None:
        with serve_demo_web() as web, hostile_site() as hostile:
            seeds = (*web.seeds(), hostile)
            printed_here("-w", str(root), "crawl", "--quiet", *seeds, "--delay", "0")

    crawled = created_once(tmp_path_factory, "demo-workspace", crawl)
    return str(shutil.copytree(crawled, tmp_path_factory.mktemp("serve") / "workspace"))


@pytest.fixture(scope="module")
def copy(workspace: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Root of a copy of the workspace that tests may change."""
    root = tmp_path_factory.mktemp("changed") / "w"
    shutil.copytree(workspace, root)
    return str(root)


@pytest.fixture(scope="module")
def writer(copy: str) -> Client:
    """Application over the copy."""
    return Client(create_app(copy, lambda: workspace_status(copy)))


def printed_address(process: subprocess.Popen[str]) -> str:
    """Return the address that a server process prints when it is ready."""
    assert process.stdout is not None
    words = process.stdout.readline().split()
    return next(word for word in words if word.startswith("http://127.0.0.1:"))


@contextmanager
def server_process(*words: str, end_s: float = 15.0) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run `lycosa … serve` in a process; yield the process and its address."""
    with subprocess.Popen(lycosa(*words), stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process, printed_address(process)
        finally:
            process.terminate()
            process.wait(timeout=end_s)


@contextmanager
def serving(root: str, *options: str) -> Iterator[str]:
    """Run `lycosa serve` over a workspace; yield its address."""
    with server_process("-w", root, *options, "serve", "--port", "0") as (_, address):
        yield address


@pytest.fixture(scope="session")
def address(workspace: str) -> Iterator[str]:
    """Address of a server process over the crawled workspace."""
    with serving(workspace) as served:
        yield served


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Browser whose cookies and storage are limited to one module."""
    with launch_browser(tmp_path_factory.mktemp("chromium")) as opened:
        yield opened


@pytest.fixture(scope="session")
def client(workspace: str) -> Client:
    """Application over the crawled workspace."""
    return Client(create_app(workspace, lambda: workspace_status(workspace)))


@pytest.fixture
def empty_workspace(tmp_path: Path) -> str:
    """Root of a workspace without pages."""
    Workspace.create(str(tmp_path / "empty"))
    return str(tmp_path / "empty")
