"""Crawls whose seeds cannot be fetched end early with the reason and exit code 1."""

from __future__ import annotations

import socket
import ssl
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import lycosa
from lycosa.fetch.handle import accepts_tls
from tests.cli.conftest import Lycosa
from tests.cli.test_output import hostile_site
from tests.servers.certificates import make_certificate
from tests.servers.members import Request, served_site

ALL_DISALLOWED = "User-agent: *\nDisallow: /"
ONE_PAGE = ("--max-pages", "1", "--delay", "0", "--set", "crawl.patience=1s")


@dataclass
class _Site:
    robots: str
    status: int
    port: int = 0
    requests: list[Request] = field(default_factory=list)

    def answer(self, request: Request) -> tuple[int, list[tuple[str, str]], str]:
        if request.path == "/robots.txt":
            return (
                (200, [("Content-Type", "text/plain")], self.robots)
                if self.robots
                else (404, [], "")
            )
        return self.status, [("Content-Type", "text/html")], "<p>x</p>"


def closed_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        ("nowhere.invalid", "name_unknown: Could not resolve host: nowhere.invalid"),
        ("127.0.0.1", "connect_refused: "),
    ],
)
def test_unreachable_seed(here: Lycosa, tmp_path: Path, host: str, reason: str) -> None:
    seed = f"http://{host}:{closed_port()}/"
    started = time.monotonic()
    outcome = here("-w", str(tmp_path / "w"), "crawl", seed)
    assert time.monotonic() - started < 30  # without an early end it takes 68 s
    outcome.expect(
        1,
        err=(
            f"failed: {seed}robots.txt: {reason}",
            f"lycosa: nothing was fetched: {seed}robots.txt: {reason}",
        ),
        absent=("search WORDS",),
    )
    first = here("-w", str(tmp_path / "w2"), "crawl", seed, "--json")
    assert first.code == 1
    document: Any = first.json
    assert list(document["failures"]) == [f"{seed}robots.txt"]
    assert sum(document["errors"].values()) == 1


def test_an_excluded_seed_is_reported(here: Lycosa, site: str, tmp_path: Path) -> None:
    rules = tmp_path / "never.txt"
    rules.write_text(f"prefix {site}/\n")
    workspace = ("-w", str(tmp_path / "w"))
    here(*workspace, "crawl", f"{site}/", *ONE_PAGE, "--set", f"crawl.exclusions={rules}").expect(
        1, err=(f"nothing was fetched: {site}/: excluded by the operator",)
    )
    here(*workspace, "exclude", f"prefix:{site}/").expect(0)
    here(*workspace, "crawl", *ONE_PAGE[2:]).expect(0)  # the seed of an earlier call


def test_an_unchanged_page_is_not_nothing(here: Lycosa, site: str, tmp_path: Path) -> None:
    workspace = ("-w", str(tmp_path / "w"))
    here(*workspace, "crawl", f"{site}/eyes.html", *ONE_PAGE).expect(0)
    here(*workspace, "add", f"{site}/eyes.html", f"{site}/nowhere.html").expect(0)
    outcome = here(*workspace, "crawl", *ONE_PAGE[2:])
    outcome.expect(0, "304 1", err=(f"failed: {site}/nowhere.html: http_404",))


@pytest.mark.parametrize(
    ("robots", "status", "reason"),
    [(ALL_DISALLOWED, 200, "robots.txt disallows it"), ("", 404, "http_404")],
)
def test_disallowed_and_missing_seed(
    here: Lycosa, tmp_path: Path, robots: str, status: int, reason: str
) -> None:
    site = _Site(robots, status)
    with served_site(site):
        seed = f"http://127.0.0.1:{site.port}/"
        arguments = ("-w", str(tmp_path / "w"), "crawl", seed, "--set", "crawl.patience=2s")
        outcome, again = here(*arguments), here(*arguments)
    outcome.expect(1, err=(f"nothing was fetched: {seed}: {reason}",))
    again.expect(0, f"explain {seed}")


@pytest.mark.parametrize("command", ["crawl", "hunt"])
def test_an_earlier_crawl_does_not_delay_the_end(
    here: Lycosa, tmp_path: Path, command: str
) -> None:
    root = str(tmp_path / "w")
    unreachable = f"http://127.0.0.2:{closed_port()}/"
    with hostile_site() as site:
        limit = ("--depth", "0") if command == "crawl" else ("--max-pages", "1")
        first = here("-w", root, "crawl", site, *limit, "--delay", "0")
        assert first.code == 0, first.err
        called = (
            ("crawl", unreachable, "--depth", "0")
            if command == "crawl"
            else ("hunt", "x", "--seed", unreachable)
        )
        started = time.monotonic()
        outcome = here("-w", root, *called)
    assert time.monotonic() - started < 28  # a hunt lasts 30 s, the host is paused for 60 s
    assert outcome.code == 1
    assert f"{unreachable}robots.txt: connect_refused" in outcome.err + outcome.out
    assert "search WORDS" not in outcome.out


def test_one_of_two_seeds_is_unreachable(here: Lycosa, tmp_path: Path) -> None:
    with hostile_site() as site:
        unreachable = f"http://127.0.0.2:{closed_port()}/"
        outcome = here("-w", str(tmp_path / "w"), "crawl", unreachable, site, *ONE_PAGE)
    outcome.expect(0, err=(f"failed: {unreachable}robots.txt: connect_refused",))


def test_seeds_without_a_scheme_are_https_if_the_server_supports_tls(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path, "self", "IP:127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.certificate, certificate.key)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection, context.wrap_socket(connection, server_side=True):
                pass

        threading.Thread(target=serve, daemon=True).start()
        assert accepts_tls(f"127.0.0.1:{listener.getsockname()[1]}/path")
    with hostile_site() as site:
        assert not accepts_tls(site.removeprefix("http://"))
    assert not accepts_tls(f"127.0.0.1:{closed_port()}")
    for invalid in ("", "[::1", "a b", "x:99999999"):
        assert not accepts_tls(invalid)


LONG, VERY_LONG = ("http://127.0.0.1/" + "x" * length for length in (3_000, 70_000))


@pytest.mark.parametrize(
    "seed", ["mailto:a@b.test", LONG, VERY_LONG, "http:///", "http://[::1", "data:text/plain,x"]
)
def test_refused_seed_creates_no_workspace_and_breaks_no_later_crawl(
    here: Lycosa, tmp_path: Path, seed: str
) -> None:
    root = str(tmp_path / "w")
    with hostile_site() as site:
        refused = here("-w", root, "crawl", seed, site)
        assert refused.code == 2, refused.err
        assert not Path(root).exists()
        accepted = here("-w", root, "crawl", site, *ONE_PAGE)
        assert accepted.code == 0, accepted.err
        assert here("-w", root, "crawl", seed).code == 2
        assert here("-w", root, "crawl", *ONE_PAGE).code == 0


def test_package_runs_with_python_m(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "lycosa", "--version"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (ran.returncode, ran.stdout) == (0, f"lycosa {lycosa.__version__}\n")
