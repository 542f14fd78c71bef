"""Run the `lycosa` command; a small site and a workspace with its pages."""

from __future__ import annotations

import gc
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

from lycosa.cli.main import main
from tests.servers.nginx import Server, nginx

LYCOSA = (sys.executable, "-m", "lycosa.cli.main")
LIMIT_S = 60.0
NO_DELAY = ("--delay", "0", "--set", "crawl.patience=0")
"""Options of a crawl of a test site: no delays, and an end as soon as no URL is due."""

SITE = {
    "robots.txt": "User-agent: *\nDisallow: /private/\n",
    "index.html": (
        '<html lang="en"><head><title>The home of <script> & moths</title><meta '
        'name="description" content="About moths."></head>'
        "<body><h1>Moths</h1><p>Moths fly at night, and they are drawn to light. This page speaks "
        "of moths at length.</p>"
        '<a href="/eyes.html">Eyes of moths</a> <a href="/private/x.html">no</a> <a '
        'href="/gone.html">gone</a>'
        '<a href="mailto:a@b.example">mail</a></body></html>'
    ),
    "eyes.html": (
        "<html><head><title>Compound eyes</title></head><body><p>A compound eye sees movement "
        "before it sees shape.</p></body></html>"
    ),
    "private/x.html": "<p>not for robots",
}


@dataclass
class Outcome:
    """Exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, object]:
        document: dict[str, object] = json.loads(self.out)
        return document

    def expect(
        self,
        code: int | None,
        *out: str,
        err: Sequence[str] = (),
        absent: Sequence[str] = (),
        absent_err: Sequence[str] = (),
    ) -> None:
        """Check the exit code (None: any), printed texts, and absent texts."""
        assert self.code == (self.code if code is None else code), self.err
        missing = [text for text in out if text not in self.out]
        missing += [text for text in err if text not in self.err]
        printed = [text for text in absent if text in self.out]
        printed += [text for text in absent_err if text in self.err]
        assert (missing, printed) == ([], []), f"{self.out}\n{self.err}"


Lycosa = Callable[..., Outcome]


@contextmanager
def small_site(root: Path, address: str) -> Iterator[str]:
    """Write a small site to a folder and serve it; yield its origin."""
    for name, content in SITE.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(content)
    with nginx([Server(address, root, index="index.html", autoindex=False)]) as server:
        yield f"http://{address}:{server.port}"


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with small_site(tmp_path_factory.mktemp("site"), "127.0.4.1") as url:
        yield url


@pytest.fixture(scope="session")
def workspace(site: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Workspace in which the site was crawled."""
    path = tmp_path_factory.mktemp("cli") / "workspace"
    outcome = run("-w", str(path), "crawl", site, *NO_DELAY)
    assert outcome.code == 0, outcome.err
    return path


def run(
    *arguments: str,
    cwd: Path | None = None,
    text: str | None = None,
    environment: Mapping[str, str] = os.environ,
    limit_s: float = LIMIT_S,
) -> Outcome:
    """Run `lycosa` in a process."""
    result = subprocess.run(
        [*LYCOSA, *arguments],
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
        cwd=cwd,
        input=text,
        env=environment,
    )
    return Outcome(result.returncode, result.stdout, result.stderr)


def printed(
    *arguments: str,
    cwd: Path | None = None,
    environment: Mapping[str, str] = os.environ,
    limit_s: float = LIMIT_S,
) -> str:
    """Run `lycosa`, which must succeed; return its standard output."""
    outcome = run(*arguments, cwd=cwd, environment=environment, limit_s=limit_s)
    assert outcome.code == 0, outcome.out + outcome.err
    return outcome.out


def run_here(*arguments: str, cwd: Path | None = None, text: str | None = None) -> Outcome:
    """Run `lycosa` in this process, which saves 0.5 s per command."""
    out, err = (
        io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2)
    )
    gc_threshold, code = gc.get_threshold(), 0
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", [LYCOSA[-1], *arguments])
        patch.setattr(os, "environ", os.environ.copy())
        if cwd is not None:
            patch.chdir(cwd)
        if text is not None:
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
    gc.set_threshold(*gc_threshold)
    return Outcome(code, *[stream.buffer.getvalue().decode() for stream in (out, err)])


def printed_here(*arguments: str) -> str:
    """Run `lycosa` in this process, which must succeed; return its standard output."""
    outcome = run_here(*arguments)
    assert outcome.code == 0, outcome.out + outcome.err
    return outcome.out


@pytest.fixture
def lycosa() -> Lycosa:
    """Runs `lycosa` in a process."""
    return run


@pytest.fixture
def here() -> Lycosa:
    """Runs `lycosa` in this process."""
    return run_here
