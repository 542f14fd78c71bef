"""A workspace with real pages: the demonstration's web and one hostile site, crawled once by the
command.
"""

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
from tests.cli.conftest import printed
from tests.serve.browser import Browser, browser
from tests.serve.client import Client
from tests.servers.local_http import QuietHandler, serving_handler

HOSTILE_TITLE = (
    '"><script>document.title="owned"</script><img src=http://127.0.2.9/beacon onerror=alert(1)>'
)
HOSTILE_PAGE = """<!doctype html><html lang="en"><head><title>{title}</title></head><body><main><h1>Venomous page</h1>
<p>A venomous paragraph that says &lt;script&gt;alert("snippet")&lt;/script&gt; and &lt;img src=http://127.0.2.9/pixel&gt; and
&lt;/p&gt;&lt;/article&gt; in the middle of quite ordinary English words, so that a snippet of it must hold them.</p>
</main></body></html>"""
HOSTILE_PATH = "/%22onmouseover=alert(1)//%3Cb%3E"


def lycosa(*arguments: str) -> list[str]:
    """The command line of the real command."""
    return [sys.executable, "-m", "lycosa.cli.main", *arguments]


@contextmanager
def hostile_site() -> Iterator[str]:
    """One page whose title, text and path try to break out of ours. Gives its URL."""

    page = HOSTILE_PAGE.format(title=HOSTILE_TITLE.replace("<", "&lt;")).encode()

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            self.answer(*((200, page) if self.path == HOSTILE_PATH else (404, b"no")))

    with serving_handler(Handler, "127.0.2.10") as origin:
        yield f"{origin}{HOSTILE_PATH}"


@pytest.fixture(scope="session")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The root of a crawled and indexed workspace."""
    root = tmp_path_factory.mktemp("serve") / "workspace"
    with serve_demo_web() as web, hostile_site() as hostile:
        seeds = (*web.seeds(), hostile)
        printed("-w", str(root), "crawl", "--quiet", *seeds, "--delay", "0", limit_s=120)
    return str(root)


@pytest.fixture(scope="module")
def copy(workspace: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A copy of the workspace that may be changed."""
    root = tmp_path_factory.mktemp("changed") / "w"
    shutil.copytree(workspace, root)
    return str(root)


@pytest.fixture(scope="module")
def writer(copy: str) -> Client:
    """The application over that copy."""
    return Client(create_app(copy, lambda: workspace_status(copy)))


@contextmanager
def server_process(*words: str, end_s: float = 15.0) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`lycosa … serve` in a process of its own, and its address."""
    with subprocess.Popen(lycosa(*words), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield (
                process,
                next(
                    word
                    for word in process.stdout.readline().split()
                    if word.startswith("http://127.0.0.1:")
                ),
            )
        finally:
            process.terminate()
            process.wait(timeout=end_s)


@contextmanager
def serving(root: str, *options: str) -> Iterator[str]:
    """The address of `lycosa serve` over a workspace."""
    with server_process("-w", root, *options, "serve", "--port", "0") as (_, address):
        yield address


@pytest.fixture(scope="session")
def address(workspace: str) -> Iterator[str]:
    """The address of the real server over the crawled workspace."""
    with serving(workspace) as served:
        yield served


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser for one module: its cookies and its storage are nobody else's."""
    with browser(tmp_path_factory.mktemp("chromium")) as opened:
        yield opened


@pytest.fixture(scope="session")
def client(workspace: str) -> Client:
    """The application over that workspace."""
    return Client(create_app(workspace, lambda: workspace_status(workspace)))


@pytest.fixture
def empty_workspace(tmp_path: Path) -> str:
    """A workspace in which nothing was crawled."""
    Workspace.create(str(tmp_path / "empty"))
    return str(tmp_path / "empty")
