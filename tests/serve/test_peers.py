"""Peers: real servers that are asked, and servers that are silent, slow, wrong or hostile."""

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
from tests.search.test_many import Halves, agreement, halves, urls
from tests.serve.client import Client
from tests.serve.conftest import server_process, serving
from tests.servers.local_http import QuietHandler, serving_handler

TIMEOUT_S = 0.7


@contextmanager
def served(root: str, *more: str) -> Iterator[str]:
    """The address of a real server over a workspace, without a slash at its end."""
    with serving(root, *(("--set", more[0]) if more else ())) as address:
        yield address.rstrip("/")


@contextmanager
def answering(act: Callable[[QuietHandler], None]) -> Iterator[str]:
    """A server that does to every request what it is told."""

    class Handler(QuietHandler):
        protocol_version = "HTTP/1.0"  # the end of the connection is that of the body

        def do_GET(self) -> None:
            with contextlib.suppress(OSError):  # the other side has had enough
                act(self)

        do_POST = do_GET

    with serving_handler(Handler) as origin:
        yield origin


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Halves:
    return halves(tmp_path_factory.mktemp("peers"))


@pytest.fixture(scope="module")
def peer(made: Halves) -> Iterator[str]:
    with served(made.second) as address:
        yield address


def many(
    root: str, *peers: str, timeout_s: float = 20.0, hops: int = 1, rest_s: float = 0.0
) -> FederatedSearch:
    return FederatedSearch(
        [LocalBackend("here", Searcher(root))],
        [PeerBackend(address, FetchSettings(), rest_s) for address in peers],
        timeout_s=timeout_s,
        hops=hops,
    )


def test_a_peer_is_searched_as_a_shard_is(made: Halves, peer: str) -> None:
    """The half that is elsewhere and the one that is here answer as one index."""
    together, searcher, agreed, places = many(made.first, peer), Searcher(made.whole), 0, 0
    for query in queries():
        request = SearchRequest(query, per_host=0, spelling=False)
        one, both = searcher.search(request), together.search(request)
        same, of = agreement(one, both)
        agreed, places = agreed + same, places + of
        assert both.notes == one.notes, query
    assert agreed >= 0.95 * places
    assert places > 250
    hits = together.search(SearchRequest("web", 40, explain=True)).hits
    assert {hit.source for hit in hits} == {"here", peer}
    assert all(hit.snippet and hit.explanation for hit in hits)
    assert (
        together.search(SearchRequest("web", hops=0)).total
        == Searcher(made.first).search(SearchRequest("web")).total
    )
    together.close()


def test_facets_and_languages_with_a_peer(made: Halves, peer: str) -> None:
    together = many(made.first, peer)
    results = together.search(SearchRequest("web OR netz", facets=("language", "date")))
    assert sum(results.facets["language"].values()) >= results.total
    across = together.search(SearchRequest("web", 20, across=Across(("en", "de"))))
    assert {hit.source for hit in across.hits} == {"here", peer}
    assert len(set(urls(across))) == len(across.hits)
    together.close()


def test_the_command_and_the_settings(
    made: Halves, peer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = CliRunner()
    document = json.loads(
        run.invoke(
            program, ["search", "-w", made.first, "--peer", peer, "web", "--json", "-n", "30"]
        ).stdout
    )
    assert {hit["source"] for hit in document["hits"]} == {made.first, peer}
    document = json.loads(
        run.invoke(
            program, ["search", "-w", made.first, "-w", made.second, "web", "--json", "-n", "30"]
        ).stdout
    )
    assert {hit["source"] for hit in document["hits"]} == {made.first, made.second}
    text = run.invoke(
        program, ["--set", f"search.peers={peer}", "-w", made.first, "search", "web"]
    ).stdout
    assert f"from {peer}" in text
    assert (
        f"from {peer}"
        not in run.invoke(
            program, ["--set", f"search.peers={peer}", "-w", made.first, "search", "web", "--alone"]
        ).stdout
    )
    monkeypatch.chdir(tmp_path)
    document = json.loads(run.invoke(program, ["search", "--peer", peer, "web", "--json"]).stdout)
    assert {hit["source"] for hit in document["hits"]} == {peer}
    wrong = run.invoke(program, ["search", "-w", made.first, "--peer", "ftp://h", "web"])
    assert isinstance(wrong.exception, UsageError)


def test_the_api_asks_peers_and_says_so(made: Halves, peer: str) -> None:
    source = open_federated_search([made.first], [peer], Config(), own_name="")
    client = Client(create_app(made.first, dict, source=source))
    hits = client.get("/api/v1/search", {"q": "web", "n": 40}).json()["hits"]
    assert Counter(hit["source"] for hit in hits).keys() == {"", peer}
    assert all(hit["cached"].startswith(f"{hit['source']}/cached?url=") for hit in hits)
    alone = client.get("/api/v1/search", {"q": "web", "n": 40, "hops": 0}).json()
    assert {hit["source"] for hit in alone["hits"]} == {""}
    assert peer in client.get("/", {"q": "web"}).text
    source.close()


def test_two_that_name_each_other_do_not_go_round(made: Halves) -> None:
    """A asks B, which has A as its peer, with as many hops as there can be."""
    with socket.create_server(("127.0.0.1", 0)) as kept:
        port = kept.getsockname()[1]
    with served(made.second, f"search.peers=http://127.0.0.1:{port}") as other:
        command = [
            "--set",
            f"search.peers={other}",
            "--set",
            "search.hops=3",
            "-w",
            made.first,
            "serve",
            "--port",
            str(port),
        ]
        with server_process(*command):
            here = many(made.first, f"http://127.0.0.1:{port}", other, hops=3)
            results = here.search(SearchRequest("web", 50))
            assert results.notes == []
            assert len(set(urls(results))) == len(results.hits) == 50
            here.close()


def test_of_another_version_a_whole_answer_is_asked(made: Halves, peer: str) -> None:
    """An older Lycosa: it has the API and no route for peers. Lists are joined by rank."""
    client = Client(create_app(made.second, dict))

    def act(request: QuietHandler) -> None:
        if request.path.startswith(PATH):
            request.answer(404, b"{}")
            return
        path, _, query = request.path.partition("?")
        request.answer(200, client.get(f"{path}?{query}").content)

    with answering(act) as address:
        together = many(made.first, address)
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


def _says(status: int, body: bytes, **fields: str) -> Callable[[QuietHandler], None]:
    return lambda request: request.answer(status, body, **fields)


ACROSS = Across(("en", "de"))
GARBAGE, NOT_FOUND = _says(200, b"<html>\x00\xff not json"), _says(404, b"{}")
WRONG = {
    "silent": _silent,
    "drip": _drip,
    "garbage": GARBAGE,
    "deep": _says(200, b"[" * 500_000),
    "gigabyte": _gigabyte,
    "elsewhere": _says(302, b"", Location="http://169.254.169.254/"),
    "headers": _headers,
    "compressed": _says(200, b"\x1f\x8b" + b"\0" * 100, **{"Content-Encoding": "gzip"}),
    "not found": NOT_FOUND,
}


@pytest.mark.proves("limits-peers")
@pytest.mark.parametrize(
    ("act", "across"),
    [
        *(pytest.param(act, None, id=name) for name, act in WRONG.items()),
        pytest.param(_silent, ACROSS, id="silent, across"),
        pytest.param(GARBAGE, ACROSS, id="garbage, across"),
        pytest.param(NOT_FOUND, ACROSS, id="not found, across"),
    ],
)
def test_a_peer_that_is_wrong_costs_its_results_and_a_note(
    made: Halves, act: Callable[[QuietHandler], None], across: Across | None
) -> None:
    alone = Searcher(made.first).search(SearchRequest("web", across=across))
    with answering(act) as address:
        together = many(made.first, address, timeout_s=TIMEOUT_S)
        begin = time.monotonic()
        results = together.search(SearchRequest("web", across=across))
        took = time.monotonic() - begin
        assert (results.total, urls(results)) == (alone.total, urls(alone))
        assert len(results.notes) == len(alone.notes) + 1
        assert results.notes[-1].startswith(address)
        assert took < TIMEOUT_S + 4.0
        together.close()


def _lying(field: str, value: Any) -> Callable[[str, Any], Any]:
    """What an honest peer says, with one field changed wherever it stands."""

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


LIES: dict[str, Callable[[str, Any], Any]] = {
    "negative documents": _lying("documents", -5),
    "endless documents": _lying("documents", 10**30),
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
    "more than was asked": lambda path, document: (
        document
        if not path.endswith("find")
        else {"total": 9_999, "pages": [[1.0, 0, number, 1, 0] for number in range(9_999)]}
    ),
    "too few weights": _lying("scores", []),
    "too few hits": _lying("hits", []),
    "script for a URL": _lying("url", "javascript:alert(1)"),
    "terminal codes in a URL": _lying("url", "http://a/\x1b[31m"),
    "a title of megabytes": _lying("title", "x" * 3_000_000),
    "wrong types": _lying("total", "many"),
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
@pytest.mark.parametrize("lie", LIES)
def test_a_peer_that_lies_is_left_out_or_harmless(made: Halves, peer: str, lie: str) -> None:
    """Between us and an honest peer stands one that changes what it says."""
    honest = PeerBackend(peer, FetchSettings())._http
    change = LIES[lie]

    def act(request: QuietHandler) -> None:
        length = int(request.headers.get("Content-Length") or 0)
        body = request.rfile.read(length) if length else None
        status, answer, _ = honest._client.exchange(request.path, body, 20.0)
        request.answer(status, json.dumps(change(request.path, json.loads(answer))).encode())

    with answering(act) as address:
        together = many(made.first, address)
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
    honest.close()


def test_a_peer_that_failed_is_left_alone_for_a_while(made: Halves) -> None:
    asked: list[str] = []

    def act(request: QuietHandler) -> None:
        asked.append(request.path)
        _silent(request)

    with answering(act) as address:
        together = many(made.first, address, timeout_s=0.3, rest_s=60.0)
        for _ in range(5):
            assert len(together.search(SearchRequest("web")).notes) == 1
        assert len(asked) == 1
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
def test_what_is_asked_of_us_is_checked(made: Halves, route: str, body: Any) -> None:
    """Places that are none would make tantivy panic."""
    client = Client(create_app(made.first, dict))
    described = client.get(PATH).json()
    if isinstance(body, dict):
        nothing = {"documents": 0, "counted": 0, "frequencies": [], "lengths": {}, "having": {}}
        whole = {
            "question": {"text": "web", "languages": ["en"]}, "generation": described["generation"], "stage": -1.0, "limit": 5,
            "everywhere": nothing,
        }  # fmt: skip
        body = json.dumps(whole | body).encode()
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
def test_addresses_that_are_none(address: str) -> None:
    with pytest.raises(UsageError):
        PeerBackend(address, FetchSettings())
