"""`--json` of a command and the HTTP API return the same document."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from lycosa.commands.inspection.status import workspace_status
from lycosa.commands.maintenance.tokens import Tokens
from lycosa.config.settings import Config
from lycosa.serve.app import create_app
from lycosa.store.storage.storage import open_storage
from lycosa.store.workspace import Workspace
from lycosa.uptime.monitors import add_monitor
from lycosa.watch.watches import add_watch
from tests.captures.test_captures import HTML, Capture, archive
from tests.cli.conftest import run_here
from tests.serve.client import Client
from tests.serve.conftest import serving
from tests.serve.test_uptime import commit_checks
from tests.site.editable_site import crawled, editable_site

MONITORED = "http://example.org/"
VERSIONED = "http://a.example/page"


@dataclass(frozen=True)
class ReadCase:
    """A query by command and API.

    varying: fields whose values differ between two calls.
    filled: lists and objects that must not be empty, so that their fields are compared.
    """

    name: str
    command: tuple[str, ...]
    path: str
    parameters: Mapping[str, str | int] = field(default_factory=dict)
    varying: frozenset[str] = frozenset()
    filled: tuple[str, ...] = ()


READ_CASES = (
    ReadCase(
        "search",
        ("search", "-n", "5", "--explain", "--facets", "language,host,date", "spider OR Siel"),
        "search",
        {"q": "spider OR Siel", "n": 5, "explain": "true", "facets": "language,host,date"},
        frozenset({"took_ms"}),
        filled=("hits", "facets"),
    ),
    ReadCase(
        "search, misspelt",
        ("search", "spidre"),
        "search",
        {"q": "spidre"},
        frozenset({"took_ms"}),
        filled=("did_you_mean",),
    ),
    ReadCase(
        "search with a note",
        ("search", 'similar:"http://nowhere.test/"'),
        "search",
        {"q": 'similar:"http://nowhere.test/"'},
        frozenset({"took_ms"}),
        filled=("notes", "remarks"),
    ),
    ReadCase(
        "search across languages",
        ("search", "--across", "--translate", "de:lighthouse=Leuchtturm", "lighthouse"),
        "search",
        {"q": "lighthouse", "across": "all", "translate": "de:lighthouse=Leuchtturm"},
        frozenset({"took_ms"}),
        filled=("hits", "translations"),
    ),
    ReadCase(
        "passages",
        ("search", "--passages", "-n", "3", "--max-tokens", "60", "spider"),
        "passages",
        {"q": "spider", "n": 3, "tokens": 60},
        frozenset({"took_ms"}),
        filled=("passages",),
    ),
    ReadCase(
        "similar",
        ("search", "--no-spelling", 'similar:"{page}"'),
        "similar",
        {"url": "{page}"},
        frozenset({"took_ms"}),
        filled=("hits",),
    ),
    ReadCase("status", ("status",), "status", filled=("hosts", "collections", "index")),
    ReadCase(
        "explain",
        ("explain", "{page}"),
        "explain",
        {"url": "{page}"},
        filled=("collections", "host_clock", "visits", "page", "referrers"),
    ),
    ReadCase("collections", ("collection", "list"), "collections"),
    ReadCase(
        "hosts",
        ("status", "--by", "host"),
        "hosts",
        {"n": 1_000},
        filled=("hosts", "new_by_day", "servers"),
    ),
    *(
        ReadCase(
            f"library by {by}",
            ("status", "--by", by, "--sites"),
            "library",
            {"by": by, "sites": "true"},
            filled=("rows", "sites", "totals"),
        )
        for by in ("language", "collection", "type")
    ),
    ReadCase(
        "terms", ("terms", "--lang", "en"), "terms", {"lang": "en"}, filled=("terms", "languages")
    ),
    ReadCase("rising terms", ("terms", "--rising"), "terms", {"rising": "true"}),
    ReadCase(
        "site",
        ("site", "{host}"),
        "site",
        {"name": "{host}"},
        filled=("page_list", "tree", "totals"),
    ),
    ReadCase(
        "changes",
        ("changes", "--no-diff", "--since", "3650d", "--site", "{host}"),
        "changes",
        {"name": "{host}", "days": 3650},
    ),
    ReadCase("uptime", ("monitor", "show"), "uptime", filled=("monitors",)),
    ReadCase(
        "uptime of a URL",
        ("monitor", "show", MONITORED),
        "uptime",
        {"url": MONITORED},
        filled=("monitors",),
    ),
    ReadCase("watches", ("watch", "list"), "watches"),
    ReadCase("matches", ("watch", "matches"), "matches", filled=("matches",)),
    ReadCase(
        "versions", ("versions", VERSIONED), "versions", {"url": VERSIONED}, filled=("versions",)
    ),
    ReadCase(
        "difference",
        ("versions", VERSIONED, "--diff", "1", "2"),
        "versions/diff",
        {"url": VERSIONED, "a": 1, "b": 2},
        filled=("difference", "before"),
    ),
    ReadCase(
        "text of a version",
        ("versions", VERSIONED, "--text", "--at", "2"),
        "versions/text",
        {"url": VERSIONED, "at": 2},
    ),
)


@dataclass(frozen=True)
class WriteCase:
    """A change by command and API, each in its own copy of the workspace."""

    name: str
    command: tuple[str, ...]
    path: str
    body: Mapping[str, object]
    varying: frozenset[str] = frozenset()


WRITE_CASES = (
    WriteCase(
        "add",
        ("add", "{page}"),
        "urls",
        {"urls": ["{page}"]},
        frozenset({"workspace", "file"}),
    ),
    WriteCase(
        "watch",
        ("watch", "add", "eye", "--ignore", "case", "--notify", "webhook https://hooks.example/x"),
        "watches",
        {"texts": ["eye"], "ignore": ["case"], "notify": ["webhook https://hooks.example/x"]},
        frozenset({"id", "created_at"}),
    ),
    WriteCase(
        "monitor",
        ("monitor", "add", "https://example.org/new", "--expect", "Welcome"),
        "uptime",
        {"url": "https://example.org/new", "expect": "Welcome"},
    ),
    WriteCase(
        "exclude",
        ("exclude", "host:{host}", "--purge"),
        "exclusions",
        {"rules": ["host:{host}"], "purge": True},
        frozenset({"bytes_deleted"}),
    ),
)


@dataclass(frozen=True)
class Served:
    """A workspace, a server over it, and its token."""

    root: str
    address: str
    headers: Mapping[str, str]
    page: str
    host: str

    def fill(self, text: str) -> str:
        """Replace the placeholders for a page and a host."""
        return text.format(page=self.page, host=self.host)


def command_json(root: str, words: Collection[str]) -> Any:
    """Return the document that a command prints with `--json`."""
    done = run_here("-w", root, *words, "--json")
    assert done.code in (0, 1), done.err  # 1: no results
    return json.loads(done.out)


def comparable(document: object, varying: Collection[str]) -> object:
    """Return a document without the values of varying fields."""
    if isinstance(document, list):
        return [comparable(each, varying) for each in document]
    if isinstance(document, dict):
        return {
            name: "…" if name in varying else comparable(value, varying)
            for name, value in document.items()
        }
    return document


@pytest.fixture(scope="module")
def served(copy: str) -> Iterator[Served]:
    opened = Workspace.open(copy)
    archive(
        opened,
        [Capture(VERSIONED, day, HTML.format(f"Day {day}.").encode()) for day in range(3)],
    )
    add_watch(copy, Config(), ["wolf"], ["case"], notify=["webhook https://hooks.example/x"])
    with editable_site("127.0.7.95") as site:
        site.page("/", "The Wolf.")
        crawled(copy, f"{site.origin}/")
    add_monitor(copy, Config(), {"url": MONITORED})
    # Far from the ends of all time windows, which move between the two calls.
    minute_ms = time.time_ns() // 60_000_000_000 * 60_000
    commit_checks(opened, MONITORED, "uuuussssuuuu", minute_ms - 20 * 60_000)
    token = Tokens(open_storage(copy)).add("parity")
    hit = Client(create_app(copy, dict)).get("/api/v1/search", {"q": "spider"}).json()["hits"][0]
    with serving(copy) as address:
        yield Served(copy, address, {"authorization": f"Bearer {token}"}, hit["url"], hit["host"])


@pytest.mark.parametrize("case", READ_CASES, ids=lambda case: case.name)
def test_command_and_api_return_the_same_document(served: Served, case: ReadCase) -> None:
    parameters = {
        name: served.fill(value) if isinstance(value, str) else value
        for name, value in case.parameters.items()
    }
    answer = httpx.get(
        f"{served.address}api/v1/{case.path}", params=parameters, headers=served.headers
    )
    assert answer.status_code == 200, answer.text
    printed = command_json(served.root, [served.fill(word) for word in case.command])
    assert printed, "an empty document has no fields to compare"
    for name in case.filled:
        assert printed[name], f"{name} is empty: its fields are not compared"
    assert comparable(answer.json(), case.varying) == comparable(printed, case.varying)


@pytest.mark.parametrize("case", WRITE_CASES, ids=lambda case: case.name)
def test_command_and_api_return_the_same_report_of_a_change(
    served: Served, case: WriteCase, tmp_path: Path
) -> None:
    roots = [str(tmp_path / name) for name in ("api", "command")]
    for root in roots:
        shutil.copytree(served.root, root)
    client = Client(create_app(roots[0], lambda: workspace_status(roots[0])))
    body = json.dumps(case.body).replace("{page}", served.page).replace("{host}", served.host)
    headers = {**served.headers, "content-type": "application/json"}
    answer = client.send("POST", f"/api/v1/{case.path}", body, headers)
    assert answer.is_success, answer.text
    printed = command_json(roots[1], [served.fill(word) for word in case.command])
    assert comparable(answer.json(), case.varying) == comparable(printed, case.varying)
