"""Text from the web cannot control the terminal."""

from __future__ import annotations

import io
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import pytest

from lycosa.cli.output import EscapingStream, json_text, styled
from tests.cli.conftest import Lycosa

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp\x08\x7fword"
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u202a-\u202e\u2066-\u2069\ufdd0-\ufdd3]")
PAGE = f"""<!doctype html><html lang=en><head><title>Title {HOSTILE}</title><meta name=description content="{HOSTILE}">
<link rel=canonical href="/?{HOSTILE}"></head><body><h1>{HOSTILE}</h1><p>The word {HOSTILE} is in a text about spiders.</p>
<a href="/b?{HOSTILE}" rel="{HOSTILE}">{HOSTILE}</a> <a href="/gone">gone {HOSTILE}</a></body></html>""".encode()


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        status = 404 if self.path in ("/gone", "/robots.txt") else 200
        self.send_response(status)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("X-Powered-By", "\x1b[31mred")
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def hostile_site() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    from tests.cli.conftest import run_here

    root = str(tmp_path_factory.mktemp("hostile") / "w")
    with hostile_site() as url:
        said = run_here(
            "-w",
            root,
            "crawl",
            url,
            "--delay",
            "0",
            "--max-pages",
            "3",
            "--set",
            "crawl.patience=1s",
        )
        assert said.code == 0, said.err
        assert not CONTROLS.search(said.out + said.err)
        yield root, url


COMMANDS = [
    "search word",
    "search word --explain --json",
    "search spiders --facet host",
    "explain URL",
    "explain URL --json",
    "site HOST",
    "links URL",
    "changes HOST",
    "versions URL",
    "status",
    "status --by host",
    "sql SELECT*FROM/**/pages",
    "sql SELECT/**/title,text/**/FROM/**/pages",
    "sql SELECT*FROM/**/links --json",
    "terms",
    "parse URL",
    "fetch URL --headers",
    "robots URL",
    "find word --stored",
    "rank",
    "check",
    "collection list",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_lets_control_characters_through(
    here: Lycosa, crawled: tuple[str, str], command: str
) -> None:
    root, url = crawled
    words = [
        word.replace("URL", url).replace("HOST", url.split("/")[2]).replace("/**/", " ")
        for word in command.split()
    ]
    said = here("-w", root, *words)
    assert not CONTROLS.search(said.out + said.err)
    if "--json" in words:
        json.loads(said.out)


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_styles_are_colours_on_a_terminal_only() -> None:
    for stream, expected in (
        (_Terminal(), "\x1b[1mplain\\x1b[2J\x1b[0m\n"),
        (io.StringIO(), "plain\\x1b[2J\n"),
    ):
        print(styled("bold", "plain\ufdd1\x1b[2J"), file=cast(Any, EscapingStream(stream)))
        assert stream.getvalue() == expected


def test_json_is_printable_and_says_the_same() -> None:
    assert not CONTROLS.search(json_text({"title": HOSTILE}))
    assert json.loads(json_text({"title": HOSTILE})) == {"title": HOSTILE}


def test_data_for_programs_is_as_it_is(
    here: Lycosa, crawled: tuple[str, str], tmp_path: Path
) -> None:
    root, _ = crawled
    assert "\x1b[2J" in here("-w", root, "sql", "SELECT title FROM pages", "--csv").out
