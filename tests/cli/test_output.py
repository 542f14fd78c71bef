"""Control characters in untrusted text are escaped before they reach the terminal."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import pytest
import typer

from lycosa.cli.crawling.progress import ProgressBar
from lycosa.cli.main import app
from lycosa.cli.output import json_text
from lycosa.crawl.state.progress import Progress
from lycosa.processes.children import Child, ReportKind
from lycosa.processes.terminal import EscapingStream, styled
from tests.cli.conftest import LYCOSA, Lycosa, run_here
from tests.servers.local_http import QuietHandler, serving_handler

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp\x08\x7fword"
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u202a-\u202e\u2066-\u2069\ufdd0-\ufdd3]")
PAGE = f"""<!doctype html><html lang=en><head><title>Title {HOSTILE}</title><meta name=description content="{HOSTILE}">
<link rel=canonical href="/?{HOSTILE}"></head><body><h1>{HOSTILE}</h1><p>The word {HOSTILE} is in a text about spiders.</p>
<a href="/b?{HOSTILE}" rel="{HOSTILE}">{HOSTILE}</a> <a href="/gone">gone {HOSTILE}</a></body></html>""".encode()


class _HostilePage(QuietHandler):
    protocol_version = "HTTP/1.0"  # the body ends with the connection

    def do_GET(self) -> None:
        self.send_response(404 if self.path in ("/gone", "/robots.txt") else 200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("X-Powered-By", "\x1b[31mred")
        self.end_headers()
        self.wfile.write(PAGE)


@contextmanager
def hostile_site() -> Iterator[str]:
    with serving_handler(_HostilePage) as origin:
        yield f"{origin}/"


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Workspace and URL of its site; a watch matches later pages."""
    root = str(tmp_path_factory.mktemp("hostile") / "w")
    with hostile_site() as url:
        crawl = ["crawl", url, "--delay", "0", "--set", "crawl.patience=1s", "--max-pages"]
        crawl[2:2] = ["--set", "collection.fields={title='h1',number={css='h1',type='number'}}"]
        for words in ([*crawl, "1"], ["watch", "add", "word"], [*crawl, "2"]):
            outcome = run_here("-w", root, *words)
            assert outcome.code == 0, outcome.err
            assert not CONTROLS.search(outcome.out + outcome.err)
        yield root, url


COMMANDS = [
    "search word",
    "search word --explain --json",
    "search spiders --facets host",
    "search --passages word",
    "search --passages word --json",
    "explain URL",
    "explain URL --json",
    "site HOST",
    "links --to URL",
    "links --from URL",
    "links --broken",
    "changes --since 2020-01-01 --site HOST",
    "versions URL",
    "status",
    "status --by host",
    "status --by type",
    "sql SELECT*FROM/**/pages",
    "sql SELECT/**/title,text/**/FROM/**/pages",
    "sql SELECT*FROM/**/links --json",
    "terms",
    "parse URL",
    "parse URL --fields --set collection.fields={title='h1',n={css='h1',type='number'}}",
    "validate URL",
    "fetch URL",
    "robots URL",
    "find word",
    "export items OUT/items.csv",
    "hunt word --seed URL --time 4s",
    "hunt word --seed URL --time 4s --json",
    "watch list",
    "watch matches",
    "watch matches --json",
    "monitor add URL",
    "monitor list",
    "monitor show HOST",
    "add URL",
    "rank",
    "check",
    "index",
    "reparse",
    "reparse --fields",
    "compact",
    "exclude host:bad.example",
    "collection list",
    "export warc OUT/warc",
    "import OUT/warc --collection copy",
    "export wacz OUT/all.wacz",
    "export mirror HOST OUT/mirror --collection default",
    "export markdown OUT/markdown",
    "export chunks OUT/chunks",
    "export llms HOST OUT/llms",
    "fetch URL --markdown",
    "export xml OUT/xml",
    "export jsonl OUT/jsonl",
    "export parquet OUT/parquet",
    "export text OUT/text",
    "export bulk --to jsonl --out OUT/bulk.jsonl",
    "collection copy default OUT/other",
]
WITHOUT_UNTRUSTED_TEXT = {
    *("run", "serve", "mcp", "init", "demo"),
    *("collection pause", "collection resume", "collection purge"),
    *("token add", "token list", "token remove", "monitor remove", "monitor run"),
    *("translate add", "translate learn", "translate list", "translate remove"),
    *("translate lookup", "watch remove"),
}


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_are_no_error(tmp_path: Path, closed: str) -> None:
    script = f'"$@" {closed}'
    command = ["sh", "-c", script, "sh", *LYCOSA, "-w", str(tmp_path / "w"), "init"]
    done = subprocess.run(command, capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.fixture
def broken_pipe() -> Iterator[int]:
    """Return the writing end of a pipe whose reader has ended."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


@pytest.mark.parametrize("command", [("--help",), ("init",)])
def test_commands_end_quietly_when_the_reader_of_their_output_has_ended(
    tmp_path: Path, broken_pipe: int, command: tuple[str, ...]
) -> None:
    arguments = [*LYCOSA, "-w", str(tmp_path / "w"), *command]
    done = subprocess.run(arguments, stdout=broken_pipe, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_messages_without_a_reader_are_dropped(broken_pipe: int) -> None:
    code = """
import sys
from lycosa.cli.output import timed_note
from lycosa.processes.terminal import escape_output
escape_output()
for _ in range(3):
    timed_note("committed 1 page")
print("the crawl continues")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=broken_pipe, check=True
    )
    assert done.stdout == b"the crawl continues\n"


def test_every_command_is_covered() -> None:
    def names(group: Any, prefix: str = "") -> Iterator[str]:
        for name in group.list_commands(None):
            command = group.get_command(None, name)
            if hasattr(command, "commands"):
                yield from names(command, f"{prefix}{name} ")
            else:
                yield prefix + name

    covered = {*COMMANDS, "crawl", "watch add"}
    missing = [
        name
        for name in names(typer.main.get_command(app))
        if not any(f"{each} ".startswith(f"{name} ") for each in covered)
    ]
    assert sorted(missing) == sorted(WITHOUT_UNTRUSTED_TEXT)


@pytest.mark.parametrize(
    "typed", ["site", "export mirror", "search words --site", "collection purge"]
)
def test_names_of_the_workspace_are_completed(crawled: tuple[str, str], typed: str) -> None:
    root, url = crawled
    name = "default" if "collection" in typed else urlsplit(url).hostname or ""
    words = f"lycosa -w {root} {typed} {name[:3]}"
    environment = {
        **os.environ,
        "_LYCOSA_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    code = "import sys; sys.argv[0] = 'lycosa'; from lycosa.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == [name], done.stderr


@pytest.mark.proves("access-terminal")
@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_prints_control_characters(
    lycosa: Lycosa, here: Lycosa, crawled: tuple[str, str], command: str
) -> None:
    root, url = crawled
    words = [
        word.replace("URL", url)
        .replace("HOST", url.split("/")[2])
        .replace("OUT", str(Path(root).parent))
        .replace("/**/", " ")
        for word in command.split()
    ]
    outcome = (lycosa if words[0] == "hunt" else here)("-w", root, *words)
    assert outcome.code in (0, 1), outcome.err
    assert "Usage" not in outcome.err
    assert not CONTROLS.search(outcome.out + outcome.err)
    if "--json" in words:
        json.loads(outcome.out)


def _run_on_terminal(*words: str) -> str:
    """Run a command on a pseudo-terminal; return its output."""
    reader, writer = pty.openpty()
    with subprocess.Popen([*LYCOSA, *words], stdout=writer, stderr=subprocess.PIPE) as command:
        os.close(writer)
        written = bytearray()
        with suppress(OSError):  # EIO: the other end is closed
            while piece := os.read(reader, 65_536):
                written += piece
    os.close(reader)
    assert command.returncode == 0
    return written.decode().replace("\r\n", "\n")


@pytest.mark.proves("access-terminal")
@pytest.mark.parametrize(
    "command",
    [
        "fetch URL --body",
        "sql SELECT*FROM/**/pages --csv",
        "export bulk --to jsonl",
    ],
)
def test_data_is_escaped_on_a_terminal(crawled: tuple[str, str], command: str) -> None:
    root, url = crawled
    words = [word.replace("URL", url).replace("/**/", " ") for word in command.split()]
    written = _run_on_terminal("-w", root, *words)
    assert not CONTROLS.search(written)
    assert "gnp" in written


def test_progress_bar_escapes_failures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = _Terminal()
    monkeypatch.setattr(sys, "stderr", EscapingStream(terminal))
    bar = ProgressBar()
    bar.update(Progress(0, failures={"http://a.test/": HOSTILE}))
    bar.close()
    printed = terminal.getvalue()
    assert "\\x1b]0;owned\\x07" in printed
    assert not re.search("[\x07\x9b\u202e]|\x1b]|\x1b\\[31m", printed)


def _print_hostile(report: Callable[[ReportKind, str], None]) -> None:
    print(HOSTILE, flush=True)
    print(HOSTILE, file=sys.stderr, flush=True)


@pytest.mark.proves("access-terminal")
def test_child_processes_escape_what_they_print(capfd: pytest.CaptureFixture[str]) -> None:
    child = Child("hostile", _print_hostile)
    assert child.wait(60)
    assert child.end() == ""
    printed = capfd.readouterr()
    assert ("\\x1b]0;owned" in printed.out, "\\x1b]0;owned" in printed.err) == (True, True)
    assert not CONTROLS.search(printed.out + printed.err)


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_styles_are_colours_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream, variables, expected in (
        (_Terminal(), ("", "xterm"), "\x1b[1mplain\\x1b[2J\x1b[0m\n"),
        (_Terminal(), ("1", "xterm"), "plain\\x1b[2J\n"),
        (_Terminal(), ("", "dumb"), "plain\\x1b[2J\n"),
        (io.StringIO(), ("", "xterm"), "plain\\x1b[2J\n"),
    ):
        monkeypatch.setenv("NO_COLOR", variables[0])
        monkeypatch.setenv("TERM", variables[1])
        print(styled("bold", "plain\ufdd1\x1b[2J"), file=cast(Any, EscapingStream(stream)))
        assert stream.getvalue() == expected


def test_json_is_printable_and_unchanged_when_parsed() -> None:
    assert not CONTROLS.search(json_text({"title": HOSTILE}))
    assert json.loads(json_text({"title": HOSTILE})) == {"title": HOSTILE}


def test_data_for_programs_is_not_escaped(
    here: Lycosa, crawled: tuple[str, str], tmp_path: Path
) -> None:
    root, _ = crawled
    assert "\x1b[2J" in here("-w", root, "sql", "SELECT title FROM pages", "--csv").out
