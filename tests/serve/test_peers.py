"""Federated search over peers: real servers, and silent, slow, invalid or hostile ones."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lycosa.cli.main import app as program
from lycosa.config.settings import Config, FetchSettings
from lycosa.core.errors import UsageError
from lycosa.search.crosslingual.translated import Across
from lycosa.search.engine.searcher import Searcher
from lycosa.search.federation.backend import LocalBackend
from lycosa.search.federation.federated_search import FederatedSearch, open_federated_search
from lycosa.search.federation.peer_backend import PeerBackend
from lycosa.search.federation.wire import PATH
from lycosa.search.presentation.results import SearchRequest
from lycosa.serve.app import create_app
from tests.search.shards import queries
from tests.search.test_several_workspaces import Halves, agreement, halves, urls
from tests.serve.client import Client
from tests.serve.conftest import server_process, serving
from tests.servers.local_http import QuietHandler, serving_handler

TIMEOUT_S = 0.7


@contextmanager
def peer_server(root: str, *settings: str) -> Iterator[str]:
    """Run a server; yield its address without a trailing slash."""
    with serving(root, *(part for setting in settings for part in ("--set", setting))) as address:
        yield address.rstrip("/")


@contextmanager
def scripted_server(respond: Callable[[QuietHandler], None]) -> Iterator[str]:
    """Run a server that passes every request to a function; yield its origin."""

    class Handler(QuietHandler):
        protocol_version = "HTTP/1.0"  # the body ends with the connection

        def do_GET(self) -> None:
            with contextlib.suppress(OSError):  # the client has closed the connection
                respond(self)

        do_POST = do_GET

    with serving_handler(Handler) as origin:
        yield origin


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> Halves:
    return halves(tmp_path_factory.mktemp("peers"))


@pytest.fixture(scope="module")
def peer(split: Halves) -> Iterator[str]:
    with peer_server(split.second) as address:
        yield address


def federated(
    root: str, *peers: str, timeout_s: float = 20.0, hops: int = 1, rest_s: float = 0.0
) -> FederatedSearch:
    """Return a search over a workspace, named `here`, and peers."""
    return FederatedSearch(
        [LocalBackend("here", Searcher(root))],
        [PeerBackend(address, FetchSettings(), rest_s) for address in peers],
        timeout_s=timeout_s,
        hops=hops,
    )


def test_peer_and_local_half_return_the_results_of_one_index(split: Halves, peer: str) -> None:
    together, searcher = federated(split.first, peer), Searcher(split.whole)
    agreed = positions = 0
    for query in queries():
        request = SearchRequest(query, per_host=0, spelling=False)
        single, merged = searcher.search(request), together.search(request)
        same, compared = agreement(single, merged)
        agreed, positions = agreed + same, positions + compared
        assert merged.notes == single.notes, query
    assert agreed >= 0.95 * positions
    assert positions > 250
    hits = together.search(SearchRequest("web", 40, explain=True)).hits
    assert {hit.source for hit in hits} == {"here", peer}
    assert all(hit.snippet and hit.explanation for hit in hits)
    assert (
        together.search(SearchRequest("web", hops=0)).total
        == Searcher(split.first).search(SearchRequest("web")).total
    )
    together.close()


def test_facets_and_cross_language_search_include_the_peer(split: Halves, peer: str) -> None:
    together = federated(split.first, peer)
    results = together.search(SearchRequest("web OR netz", facets=("language", "date")))
    assert sum(results.facets["language"].values()) >= results.total
    across = together.search(SearchRequest("web", 20, across=Across(("en", "de"))))
    assert {hit.source for hit in across.hits} == {"here", peer}
    assert len(set(urls(across))) == len(across.hits)
    together.close()


def test_search_command_uses_peers_and_workspaces(
    split: Halves, peer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*arguments: str) -> Any:
        return CliRunner().invoke(program, arguments)

    def sources(*arguments: str) -> set[str]:
        document = json.loads(run("search", *arguments, "web", "--json").stdout)
        return {hit["source"] for hit in document["hits"]}

    assert sources("-w", split.first, "--peer", peer, "-n", "30") == {split.first, peer}
    both = sources("-w", split.first, "-w", split.second, "-n", "30")
    assert both == {split.first, split.second}
    configured = ("--set", f"search.peers={peer}", "-w", split.first, "search", "web")
    assert f"from {peer}" in run(*configured).stdout
    assert f"from {peer}" not in run(*configured, "--alone").stdout
    monkeypatch.chdir(tmp_path)
    assert sources("--peer", peer) == {peer}
    wrong = run("search", "-w", split.first, "--peer", "ftp://h", "web")
    assert isinstance(wrong.exception, UsageError)


def test_api_and_page_show_the_source_of_results(split: Halves, peer: str) -> None:
    source = open_federated_search([split.first], [peer], Config(), own_name="")
    client = Client(create_app(split.first, dict, source=source))
    hits = client.get("/api/v1/search", {"q": "web", "n": 40}).json()["hits"]
    assert Counter(hit["source"] for hit in hits).keys() == {"", peer}
    assert all(hit["cached"].startswith(f"{hit['source']}/cached?url=") for hit in hits)
    alone = client.get("/api/v1/search", {"q": "web", "n": 40, "hops": 0}).json()
    assert {hit["source"] for hit in alone["hits"]} == {""}
    assert peer in client.get("/", {"q": "web"}).text
    source.close()


def test_mutual_peers_do_not_cause_a_request_loop(split: Halves) -> None:
    """A has B as a peer and B has A, with the maximum number of hops."""
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    with peer_server(split.second, f"search.peers=http://127.0.0.1:{port}") as other:
        options = ("--set", f"search.peers={other}", "--set", "search.hops=3", "-w", split.first)
        with server_process(*options, "serve", "--port", str(port)):
            search = federated(split.first, f"http://127.0.0.1:{port}", other, hops=3)
            results = search.search(SearchRequest("web", 50))
            assert results.notes == []
            assert len(set(urls(results))) == len(results.hits) == 50
            search.close()


def test_peer_without_peer_routes_is_searched_by_the_public_api(split: Halves) -> None:
    """An older Lycosa has only the public API. Result lists are merged by rank."""
    client = Client(create_app(split.second, dict))

    def respond(request: QuietHandler) -> None:
        if request.path.startswith(PATH):
            request.answer(404, b"{}")
            return
        path, _, query = request.path.partition("?")
        request.answer(200, client.get(f"{path}?{query}").content)

    with scripted_server(respond) as address:
        together = federated(split.first, address)
        results = together.search(SearchRequest("web night", 10, facets=("language",)))
        assert (
            {hit.source for hit in results.hits},
            results.notes,
            [hit.score for hit in results.hits],
        ) == ({"here", address}, [], sorted((hit.score for hit in results.hits), reverse=True))
        assert sum(results.facets["language"].values()) > 0
        second = together.search(SearchRequest("web night", 10, 10))
        assert not set(urls(results)) & set(urls(second))
        together.close()


def _silent(request: QuietHandler) -> None:
    time.sleep(30)


def _drip(request: QuietHandler) -> None:
    request.send_response(200)
    request.end_headers()
    for _ in range(300):
        request.wfile.write(b" ")
        time.sleep(0.1)


def _gigabyte(request: QuietHandler) -> None:
    request.send_response(200)
    request.send_header("Content-Length", str(2**30))
    request.end_headers()
    for _ in range(2**10):
        request.wfile.write(b"[" * 2**20)


def _headers(request: QuietHandler) -> None:
    request.wfile.write(b"HTTP/1.1 200 OK\r\n")
    for number in range(100_000):
        request.wfile.write(b"X-%d: %s\r\n" % (number, b"y" * 1_000))


def _fixed_response(status: int, body: bytes, **fields: str) -> Callable[[QuietHandler], None]:
    return lambda request: request.answer(status, body, **fields)


ACROSS = Across(("en", "de"))
INVALID_JSON, NOT_FOUND = (
    _fixed_response(200, b"<html>\x00\xff not json"),
    _fixed_response(404, b"{}"),
)
INVALID_RESPONSES = {
    "silent": _silent,
    "drip": _drip,
    "garbage": INVALID_JSON,
    "deep": _fixed_response(200, b"[" * 500_000),
    "gigabyte": _gigabyte,
    "redirect": _fixed_response(302, b"", Location="http://169.254.169.254/"),
    "headers": _headers,
    "compressed": _fixed_response(200, b"\x1f\x8b" + b"\0" * 100, **{"Content-Encoding": "gzip"}),
    "not found": NOT_FOUND,
}


@pytest.mark.proves("limits-peers")
@pytest.mark.parametrize(
    ("respond", "across"),
    [
        *(pytest.param(respond, None, id=name) for name, respond in INVALID_RESPONSES.items()),
        pytest.param(_silent, ACROSS, id="silent, across"),
        pytest.param(INVALID_JSON, ACROSS, id="garbage, across"),
        pytest.param(NOT_FOUND, ACROSS, id="not found, across"),
    ],
)
def test_faulty_peer_is_reported_and_its_results_are_omitted(
    split: Halves, respond: Callable[[QuietHandler], None], across: Across | None
) -> None:
    alone = Searcher(split.first).search(SearchRequest("web", across=across))
    with scripted_server(respond) as address:
        together = federated(split.first, address, timeout_s=TIMEOUT_S)
        started = time.monotonic()
        results = together.search(SearchRequest("web", across=across))
        took = time.monotonic() - started
        assert (results.total, urls(results)) == (alone.total, urls(alone))
        assert len(results.notes) == len(alone.notes) + 1
        assert results.notes[-1].startswith(address)
        assert took < TIMEOUT_S + 4.0
        together.close()


def _replace_field(field: str, value: Any) -> Callable[[str, Any], Any]:
    """Return a function that replaces a field at any depth."""

    def changed(path: str, document: Any) -> Any:
        if isinstance(document, dict):
            return {
                name: value if name == field else changed(path, inner)
                for name, inner in document.items()
            }
        return (
            [changed(path, each) for each in document] if isinstance(document, list) else document
        )

    return changed


FORGERIES: dict[str, Callable[[str, Any], Any]] = {
    "negative documents": _replace_field("documents", -5),
    "endless documents": _replace_field("documents", 10**30),
    "not a number": lambda path, document: (
        document
        if not path.endswith("find")
        else {"total": 1, "pages": [[float("nan"), 0, 0, 0, 0]]}
    ),
    "infinite": lambda path, document: (
        document
        if not path.endswith("find")
        else {"total": 1, "pages": [[float("inf"), 0, 0, 0, 0]]}
    ),
    "more pages than requested": lambda path, document: (
        document
        if not path.endswith("find")
        else {"total": 9_999, "pages": [[1.0, 0, number, 1, 0] for number in range(9_999)]}
    ),
    "too few weights": _replace_field("scores", []),
    "too few hits": _replace_field("hits", []),
    "script for a URL": _replace_field("url", "javascript:alert(1)"),
    "terminal codes in a URL": _replace_field("url", "http://a/\x1b[31m"),
    "a title of megabytes": _replace_field("title", "x" * 3_000_000),
    "wrong types": _replace_field("total", "many"),
    "huge frequencies": lambda path, document: (
        document
        if "statistics" not in document
        else {
            **document,
            "statistics": {
                **document["statistics"],
                "frequencies": [["body_en", f"t{n}", 1] for n in range(60_000)],
            },
        }
    ),
}


@pytest.mark.proves("limits-peers")
@pytest.mark.parametrize("forgery", FORGERIES)
def test_forged_responses_of_a_peer_are_refused_or_harmless(
    split: Halves, peer: str, forgery: str
) -> None:
    """A proxy in front of a valid peer changes its responses."""
    valid = PeerBackend(peer, FetchSettings())._http
    forge = FORGERIES[forgery]

    def respond(request: QuietHandler) -> None:
        length = int(request.headers.get("Content-Length") or 0)
        body = request.rfile.read(length) if length else None
        status, answer, _ = valid._client.exchange(request.path, body, 20.0)
        request.answer(status, json.dumps(forge(request.path, json.loads(answer))).encode())

    with scripted_server(respond) as address:
        together = federated(split.first, address)
        results = together.search(SearchRequest("web night", 30))
        assert results.hits
        for hit in results.hits:
            assert hit.url.startswith("http://")
            assert hit.url.isprintable()
            assert len(hit.title) < 20_001
        if not results.notes:
            assert all(hit.score >= 0 for hit in results.hits)
        else:
            assert {hit.source for hit in results.hits} == {"here"}
            assert address in results.notes[-1]
        together.close()
    valid.close()


def test_failed_peer_is_not_requested_again_during_its_pause(split: Halves) -> None:
    paths: list[str] = []

    def respond(request: QuietHandler) -> None:
        paths.append(request.path)
        _silent(request)

    with scripted_server(respond) as address:
        together = federated(split.first, address, timeout_s=0.3, rest_s=60.0)
        for _ in range(5):
            assert len(together.search(SearchRequest("web")).notes) == 1
        assert len(paths) == 1
        together.close()


@pytest.mark.proves("limits-peers")
@pytest.mark.parametrize(
    ("route", "body"),
    [
        ("statistics", b""),
        ("statistics", b"[" * 100_000),
        ("statistics", b'{"question": {"text": "", "languages": []}}'),
        (
            "find",
            b'{"generation": 99, "question": {"text": "web", "languages": ["en"]}, "stage": '
            b'-1, "limit": 10, "everywhere": {}}',
        ),
        ("find", b"x" * (5 * 2**20)),
        ("urls", {"places": [[0, 4_000_000_000]]}),
        ("urls", {"places": [[77, 0]]}),
        ("hits", {"pages": [{"score": 1, "place": [77, 0]}]}),
        ("urls", {"places": [[0, 99_999_999]]}),
        ("urls", {"places": [[-1, 0]]}),
        ("facets", {"names": ["password"]}),
        ("find", {"limit": 10**9}),
        ("find", {"stage": 5}),
        ("nothing", b"{}"),
    ],
)
def test_requests_of_peers_are_validated(split: Halves, route: str, body: Any) -> None:
    """Invalid document addresses would make tantivy panic."""
    client = Client(create_app(split.first, dict))
    described = client.get(PATH).json()
    if isinstance(body, dict):
        statistics = {"documents": 0, "counted": 0, "frequencies": [], "lengths": {}, "having": {}}
        valid = {
            "question": {"text": "web", "languages": ["en"]}, "generation": described["generation"], "stage": -1.0, "limit": 5,
            "everywhere": statistics,
        }  # fmt: skip
        body = json.dumps(valid | body).encode()
    answer = client.send("POST", f"{PATH}/{route}", body)
    assert answer.status_code in (404, 405, 410, 413, 422), answer.text
    assert client.get("/healthz").status_code == 200


@pytest.mark.parametrize(
    "address",
    [
        "",
        "ftp://h",
        "http://",
        "http://u:p@h/",
        "http://h/?q=1",
        "http://h:99999/",
        "file:///etc/passwd",
        "h:80",
    ],
)
def test_invalid_peer_address_is_refused(address: str) -> None:
    with pytest.raises(UsageError):
        PeerBackend(address, FetchSettings())
