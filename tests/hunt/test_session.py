"""Test focused crawls from Python, the command, a daemon and the API.

The sites are served by a real nginx.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lycosa.commands.maintenance.tokens import Tokens
from lycosa.config.reading import parse_config
from lycosa.core.errors import OwnedError, UsageError
from lycosa.crawl.worker import Worker
from lycosa.hunt import requests
from lycosa.hunt.requests import HuntFolder
from lycosa.hunt.session import (
    Event,
    HuntEnvironment,
    HuntOrder,
    HuntRequest,
    hunt,
)
from lycosa.index.indexer import Indexer
from lycosa.search.engine.searcher import Searcher, SearchRequest
from lycosa.serve.app import create_app
from lycosa.store.storage.storage import open_storage
from lycosa.store.verify.check import verify
from lycosa.store.workspace import Workspace
from tests.daemon.daemons import QUICK, RUN, collection, daemon, rows
from tests.serve.client import Client
from tests.servers.nginx import Nginx, Server, nginx

ADDRESS = "127.0.6.40"
# Generated pages are alike, so the trap detection would exclude them.
COLLECTIONS = "".join(
    f'[[collection]]\nname = "{name}"\ntraps = false\n' for name in ("default", "first", "second")
)
CONFIG = parse_config(
    COLLECTIONS, overrides=("crawl.patience=2s", "fetch.retry_wait=100ms", "index.interval=0")
)
QUESTION = "wolf spider silk"
LEAVES = 8


def write_site(root: Path) -> None:
    """Write a home page, one relevant section and five that are not relevant.

    One relevant page is behind a redirect, one is excluded by robots.txt.
    """

    def put(path: str, title: str, text: str, links: dict[str, str] | None = None) -> None:
        anchors = "".join(
            f'<li><a href="{target}">{anchor}</a></li>' for target, anchor in (links or {}).items()
        )
        file = root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(
            "<!doctype html><html "
            f"lang=en><title>{title}</title><main><h1>{title}</h1><p>{text}</p><ul>{anchors}</ul></main>"
        )

    sections = {f"/s{number}/index.html": f"Chapter {number}" for number in range(5)}
    put(
        "/index.html",
        "Home",
        "Welcome to these pages.",
        {**sections, "/spiders/index.html": "Spiders and their silk"},
    )
    for path, name in sections.items():
        leaves = {path.replace("index", str(number)): f"Leaf {number}" for number in range(LEAVES)}
        put(path, name, "An overview of the chapter.", leaves)
        for leaf, title in leaves.items():
            put(leaf, title, "Bread and letters come by ferry in the morning.")
    silk = {
        f"/spiders/{number}.html": f"Silk of the wolf spider, part {number}"
        for number in range(LEAVES)
    }
    put(
        "/spiders/index.html",
        "A list",
        "What there is.",
        {
            **silk,
            "/moved.html": "More wolf spider silk",
            "/secret/silk.html": "Wolf spider silk",
            "/gone.html": "Old wolf spider silk",
        },
    )
    for path, title in silk.items():
        put(
            path,
            title,
            f"The wolf spider spins silk. Part {title[-1]} says how the silk of a "
            "wolf spider is spun.",
        )
    put("/secret/silk.html", "Wolf spider silk", "The silk of the wolf spider.")
    put("/target.html", "Wolf spider silk moved", "The silk of the wolf spider has moved.")
    (root / "robots.txt").write_text("User-agent: *\nDisallow: /secret/\n")


@contextmanager
def site(root: Path, address: str = ADDRESS) -> Iterator[Nginx]:
    write_site(root)
    extra = "location = /moved.html { return 301 /target.html; }"
    with nginx([Server(address, root, index="index.html", autoindex=False, extra=extra)]) as server:
        yield server


@pytest.fixture
def web(tmp_path: Path) -> Iterator[str]:
    with site(tmp_path / "site") as server:
        yield f"http://{ADDRESS}:{server.port}"


def run_hunt(
    root: Path, request: HuntRequest, *, stop_after: int = 0, index: bool = True
) -> tuple[Event, list[Event]]:
    """Run a focused crawl in this process.

    `stop_after`: stop it after this number of results, as Ctrl-C does.
    """
    hits: list[Event] = []
    workers: list[Worker] = []

    def add(event: Event) -> None:
        if event["event"] == "found":
            hits.append(event)
            if len(hits) == stop_after:
                workers[0].stop()

    order = HuntOrder(str(root), CONFIG, request, index)
    return hunt(order, HuntEnvironment(add, on_worker=workers.append)), hits


def paths(table: list[dict[str, object]]) -> set[str]:
    return {"/" + str(row["url"]).split("/", 3)[3] for row in table}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "w"


def test_relevant_pages_are_found_first_and_all_fetched_pages_are_stored(
    root: Path, web: str
) -> None:
    report, hits = run_hunt(root, HuntRequest(QUESTION, (f"{web}/",), delay="0", pages=12))
    assert report["ended"] == "max_pages"
    relevant = {f"{web}/spiders/{number}.html" for number in range(LEAVES)} | {f"{web}/target.html"}
    assert relevant <= {hit["url"] for hit in hits}
    assert {each["url"] for each in report["results"]} == {hit["url"] for hit in hits}
    assert hits[0]["number"] <= 4
    assert [hit["seconds"] for hit in hits] == sorted(hit["seconds"] for hit in hits)
    fetched = paths(rows(root, "pages"))
    assert "/secret/silk.html" not in fetched
    assert {row["url"]: (row["state"], row["reason"]) for row in rows(root, "urls")}[
        f"{web}/secret/silk.html"
    ] == ("excluded", "robots")
    assert (report["failed"], len(fetched)) == ({"robots": 1, "http_404": 1}, 12)
    states = {str(row["url"]): row["state"] for row in rows(root, "urls")}
    # discovered, not fetched; stored like the URLs of a crawl
    assert states[f"{web}/s4/index.html"] == "known"
    results = Searcher(str(root)).search(SearchRequest("wolf spider silk", count=20, per_host=0))
    assert relevant <= {hit.url for hit in results.hits}
    assert verify(Workspace.open(str(root)), deep=True).findings == []


def test_a_hunt_ends_after_enough_results_or_a_stop_and_another_continues(
    root: Path, web: str
) -> None:
    report, hits = run_hunt(
        root, HuntRequest(QUESTION, (f"{web}/",), delay="0", enough=3), index=False
    )
    assert (report["ended"], len(hits)) == ("enough", 3)
    report, later_hits = run_hunt(
        root, HuntRequest(QUESTION, (f"{web}/",), delay="0"), stop_after=2, index=False
    )
    assert (report["ended"], len(later_hits)) == ("stopped", 2)
    assert {hit["url"] for hit in later_hits}.isdisjoint(hit["url"] for hit in hits)
    pages = rows(root, "pages")
    assert (
        len(pages)
        == len({row["url"] for row in pages})
        == len(rows(root, "visits")) - _other_visits(root)
    )


def _other_visits(root: Path) -> int:
    """Return the number of visits without a page (robots.txt, redirects)."""
    return sum(row["kind"] != "page" or row["http_status"] != 200 for row in rows(root, "visits"))


def test_a_hunt_without_seeds_starts_from_indexed_pages(root: Path, web: str) -> None:
    Workspace.create(str(root))
    with pytest.raises(UsageError, match=r"there are no start pages.*; specify seed URLs"):
        run_hunt(root, HuntRequest(QUESTION))
    run_hunt(
        root,
        HuntRequest("list of what there is", (f"{web}/spiders/index.html",), delay="0", pages=1),
    )
    report, hits = run_hunt(root, HuntRequest(QUESTION, delay="0", enough=4))
    assert report["ended"] == "enough"
    assert all(hit["via"] == f"{web}/spiders/index.html" for hit in hits)
    assert len(rows(root, "pages")) == 1 + report["pages"]
    # No indexed page matches: the crawl starts with the links of the pages nearest to the seeds.
    report, hits = run_hunt(
        root, HuntRequest("overview of a chapter", delay="0", time_ms=20_000, pages=8)
    )
    assert report["pages"] > 0


def test_pages_of_another_collection_are_not_fetched_again(root: Path, web: str) -> None:
    run_hunt(
        root,
        HuntRequest(
            QUESTION, (f"{web}/spiders/index.html",), delay="0", enough=3, collection="first"
        ),
        index=False,
    )
    before = {row["url"] for row in rows(root, "pages")}
    run_hunt(
        root,
        HuntRequest(QUESTION, (f"{web}/",), delay="0", enough=4, collection="second"),
        index=False,
    )
    second = {row["url"] for row in rows(root, "pages") if row["collection"] == "second"}
    assert f"{web}/" in second
    assert second.isdisjoint(before - {f"{web}/spiders/index.html"})


def test_invalid_questions_and_seeds_create_no_workspace(web: str, tmp_path: Path) -> None:
    for request in (
        HuntRequest("-without", (f"{web}/",)),
        HuntRequest("spider", ("mailto:a@b.example",)),
    ):
        with pytest.raises(UsageError):
            run_hunt(tmp_path / "w", request)
    assert not (tmp_path / "w").exists()


def lycosa(root: Path, *arguments: str) -> list[str]:
    """Return the command line.

    Writes the collections of `CONFIG` to lycosa.toml.
    """
    if not (root / "lycosa.toml").exists():
        root.mkdir(parents=True, exist_ok=True)
        (root / "lycosa.toml").write_text(COLLECTIONS)
    return [*RUN, "-w", str(root), *arguments]


def run_command(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = lycosa(root, *arguments)
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def run_and_signal(
    command: list[str], results: int, number: signal.Signals
) -> tuple[list[Event], int, str]:
    """Run a command and send it a signal after `results` results.

    Returns the events, the exit code and the standard error.
    """
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        events: list[Event] = []
        while sum(event["event"] == "found" for event in events) < results:
            events.append(json.loads(process.stdout.readline()))
        process.send_signal(number)
        rest, errors = process.communicate(timeout=60)
    if process.returncode == 0:  # a kill may cut a line
        events += map(json.loads, rest.splitlines())
    return events, process.returncode, errors


def test_the_command_streams_results_and_ctrl_c_stores_them(root: Path, web: str) -> None:
    arguments = [
        "hunt",
        "wolf",
        "spider",
        "silk",
        "--seed",
        f"{web}/",
        "--delay",
        "150ms",
        "--time",
        "60s",
        "--jsonl",
    ]
    events, code, errors = run_and_signal(lycosa(root, *arguments), 2, signal.SIGINT)
    assert code == 0, errors
    assert events[0] == {
        "event": "started",
        "question": "wolf spider silk",
        "named": 1,
        "hits": 0,
        "well_linked": 0,
        "listed": 1,
    }
    assert (events[-1]["event"], events[-1]["ended"]) == ("ended", "stopped")
    urls = {event["url"] for event in events if event["event"] == "found"}
    assert {each["url"] for each in events[-1]["results"]} == urls
    shown = run_command(root, "search", "wolf spider silk", "--json")
    shown.check_returncode()
    assert urls <= {hit["url"] for hit in json.loads(shown.stdout)["hits"]}
    other = ("--seed", f"{web}/s1/0.html", "--scope", "prefix", "--delay", "0", "--pages", "1")
    nothing = run_command(root, "hunt", "zeppelin", *other)
    assert nothing.returncode == 1, nothing.stderr
    assert "0 relevant of 1 page" in nothing.stdout


@pytest.mark.proves("durability-kill")
def test_a_killed_hunt_loses_nothing(root: Path, web: str) -> None:
    arguments = [
        "hunt",
        QUESTION,
        "--seed",
        f"{web}/",
        "--delay",
        "50ms",
        "--time",
        "60s",
        "--jsonl",
    ]
    events, *_ = run_and_signal(lycosa(root, *arguments), 3, signal.SIGKILL)
    urls = [event["url"] for event in events if event["event"] == "found"][:3]
    # nothing is committed yet
    assert not {str(row["url"]) for row in rows(root, "pages")} & set(urls)
    report, hits = run_hunt(
        root, HuntRequest(QUESTION, (f"{web}/",), delay="0", enough=1), index=False
    )
    assert report["ended"] == "enough"
    assert hits[0]["url"] not in urls
    assert set(urls) <= {str(row["url"]) for row in rows(root, "pages")}
    assert verify(Workspace.open(str(root)), deep=True).findings == []


def test_a_daemon_runs_a_hunt_and_continues_its_crawl(tmp_path: Path, root: Path) -> None:
    with site(tmp_path / "site") as server, site(tmp_path / "other", "127.0.6.41") as crawled:
        web, other = f"http://{ADDRESS}:{server.port}", f"http://127.0.6.41:{crawled.port}"
        with daemon(
            root, QUICK + collection("slow", f"{other}/").replace("delay = 0", 'delay = "400ms"')
        ) as running:
            running.until_pages(2)
            arguments = [
                "hunt",
                QUESTION,
                "--seed",
                f"{web}/",
                "--delay",
                "0",
                "--enough",
                "3",
                "--collection",
                "other",
                "--jsonl",
            ]
            done = run_command(root, *arguments)
            assert done.returncode == 0, done.stderr + running.errors
            events = [json.loads(line) for line in done.stdout.splitlines()]
            assert sum(event["event"] == "found" for event in events) == 3
            assert events[-1]["ended"] == "enough"
            assert "a daemon is running in this workspace" in done.stderr
            fetched = {
                str(row["url"]) for row in running.rows("pages") if row["collection"] == "other"
            }
            assert {event["url"] for event in events if event["event"] == "found"} <= fetched
            number = len(running.rows("pages", "url"))
            running.until_pages(number + 3)  # the crawl continues
            refused = run_command(root, "hunt", "?!", "--seed", f"{web}/")
            assert refused.returncode == 2, refused.stdout
            assert "words to search for" in refused.stderr
            assert not list((root / "run" / "hunts").iterdir())
            running.until(lambda: running.worker)
            assert running.stop() == 0, running.errors
    assert verify(Workspace.open(str(root)), deep=True).findings == []


def parse_events(text: str) -> list[dict[str, object]]:
    """Return the events of a stream of server-sent events."""
    events = []
    for block in text.split("\n\n"):
        if block and not block.startswith(":"):
            name, data = block.split("\n")
            events.append(json.loads(data.removeprefix("data: ")))
            assert name == f"event: {events[-1]['event']}"
    return events


def test_the_api_streams_a_hunt(root: Path, web: str) -> None:
    run_hunt(root, HuntRequest("welcome", (f"{web}/",), delay="0", pages=1))
    token = Tokens(open_storage(str(root))).add("test")
    client = Client(create_app(str(root), dict))
    request = json.dumps(
        {"query": QUESTION, "seeds": [f"{web}/spiders/index.html"], "enough": 2, "time": "20s"}
    )
    headers = {"content-type": "application/json"}
    assert client.send("POST", "/api/v1/hunts", request, headers).status_code == 401
    headers["authorization"] = f"Bearer {token}"
    wrong = client.send("POST", "/api/v1/hunts", '{"query": "x", "hurry": 1}', headers)
    assert wrong.status_code == 422
    assert client.send("POST", "/api/v1/hunts", '{"query": "-x"}', headers).status_code == 400
    assert (
        client.send("POST", "/api/v1/hunts", '{"query": "x", "time": "2h"}', headers).status_code
        == 400
    )
    with Workspace.open(str(root)).own("crawl"):
        busy = client.send("POST", "/api/v1/hunts", request, headers)
        assert (busy.status_code, busy.json()["title"]) == (409, "The workspace is in use")
    answer = client.send("POST", "/api/v1/hunts", request, headers)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = parse_events(answer.text)
    assert (
        events[0]["event"],
        sum(event["event"] == "found" for event in events),
        events[-1]["event"],
        events[-1]["ended"],
    ) == ("started", 2, "ended", "enough")
    described = client.get("/api/v1/openapi.json").json()["paths"]["/api/v1/hunts"]["post"]
    assert "text/event-stream" in described["responses"]["200"]["content"]
    assert {"400", "401", "403", "409", "429"} <= set(described["responses"])
    fields = described["responses"]["200"]["content"]["text/event-stream"]["schema"]["properties"]
    assert set(fields) == set(next(event for event in events if event["event"] == "found"))


@pytest.mark.proves("access-callers")
def test_seeds_of_the_api_open_no_private_addresses(root: Path, web: str) -> None:
    Workspace.create(str(root))
    report, hits = run_hunt(
        root,
        HuntRequest(QUESTION, (f"{web}/spiders/index.html",), typed=False, time_ms=10_000),
        index=False,
    )
    assert (report["pages"], hits) == (0, [])
    assert {row["reason"] for row in rows(root, "urls")} == {"address_refused"}
    assert Workspace.open(str(root)).state().settings["default"]["seeds"] == []


def test_events_of_running_and_waiting_hunts_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "MAX_KEPT", 1)
    folder = HuntFolder(open_storage(str(tmp_path)))
    request = HuntRequest(QUESTION)
    ended, running, waiting, newest = sorted(folder.create(request, "me") for _ in range(4))
    folder.submit(waiting, request)
    for hunt_id in (ended, waiting):
        os.utime(folder.path(hunt_id, "jsonl"), (0, 0))
    folder.clean()
    assert set(folder.ids("jsonl")) == {running, waiting, newest}


def test_a_hunt_indexes_all_its_pages(root: Path, web: str) -> None:
    report, _ = run_hunt(root, HuntRequest(QUESTION, (f"{web}/",), delay="0", pages=5))
    before = Searcher(str(root)).index
    Indexer(str(root), CONFIG.index).update()
    after = Searcher(str(root)).index
    assert before is not None
    assert after is not None
    assert before.documents == after.documents == report["pages"] == 5


def test_a_hunt_is_refused_during_a_crawl_of_the_workspace(root: Path, web: str) -> None:
    Workspace.create(str(root))
    with Workspace.open(str(root)).own("crawl"), pytest.raises(OwnedError):
        run_hunt(root, HuntRequest(QUESTION, (f"{web}/",)))
