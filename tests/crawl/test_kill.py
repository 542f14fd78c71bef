"""`kill -9` loses no data; a page that crashes the parser affects no other.

A few random kills run by default, many more in `make prove`.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from lycosa.core.records import Exchange
from lycosa.crawl.documents.sandbox import ChildReader
from lycosa.crawl.processing.page_reader import Reader
from tests.crawl import changing_web
from tests.crawl.conftest import Crawled, ServeWeb, page
from tests.crawl.kills import assert_nothing_lost, kill_until
from tests.servers.nginx import nginx
from tests.servers.sites import require_sites, serve_sites
from tests.sites.walk import expected_urls

SEED = int(os.environ.get("LYCOSA_KILL_SEED", "20261121"))


@pytest.mark.proves("durability-kill", "consistency-once", "consistency-index")
@pytest.mark.parametrize("kills", [5, pytest.param(60, marks=pytest.mark.prove)])
def test_no_page_is_fetched_twice_after_kill_nine(tmp_path: Path, kills: int) -> None:
    chance = random.Random(SEED)
    site = next(site for site in require_sites() if site.name == "tuxpaint-doc")
    done = rounds = 0
    while done < kills:
        rounds += 1
        with serve_sites((site,)) as served:
            home = f"{served.origin(site.name)}/"
            crawl = kill_until(
                served.server,
                tmp_path / f"workspace-{rounds}",
                home,
                kills=kills - done,
                chance=chance,
            )
            done += len(crawl.kills)
            assert_nothing_lost(crawl, served.server, expected_urls(served.roots(), [home]))
    print(f"{done} kills in {rounds} crawls, seed {SEED}")


@pytest.mark.proves("durability-kill", "consistency-index")
@pytest.mark.parametrize("kills", [5, pytest.param(100, marks=pytest.mark.prove)])
def test_kill_nine_during_recrawl_and_compaction_loses_nothing(tmp_path: Path, kills: int) -> None:
    web = changing_web.ChangingWeb((tmp_path / "one", tmp_path / "two"))
    with nginx(web.servers()) as server:
        web.write_site(server.port)
        crawl = changing_web.KilledCrawl(web, tmp_path / "workspace")
        changing_web.kill_repeatedly(crawl, server, kills=kills, chance=random.Random(SEED))
        changing_web.assert_nothing_lost(crawl)
    print(
        f"{crawl.kills} kills, {crawl.children_killed} of merges; {len(crawl.archived)} exchanges, "
        f"{len(crawl.sent)} submissions, seed {SEED}"
    )


SCRIPT = Path(__file__).with_name("crashing_parser.py")
ROOT = Path(__file__).resolve().parents[2]


def _exchange(body: bytes) -> Exchange:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
    return Exchange(
        "http://h/",
        "page",
        1_700_000_000_000,
        1,
        response_head=head,
        body=body,
        status=200,
        token=object(),
    )


def test_child_process_returns_the_same_result() -> None:
    reader = Reader(1 << 20, "lycosa")
    exchange = _exchange(page("/a", text="Some words to be read in a child.").encode())
    with closing(ChildReader(reader)) as child:
        assert child(exchange) == reader(exchange)


@pytest.mark.proves("durability-archive-first", "isolation-parser-crash")
def test_page_that_crashes_the_parser_is_recorded_and_the_crawl_continues(
    serve: ServeWeb, tmp_path: Path
) -> None:
    web = serve(
        {
            "/index.html": page("/a.html", "/crashing.html", "/z.html"),
            "/a.html": page(),
            "/crashing.html": page("/behind.html", text="This kills the parser."),
            "/z.html": page(),
        }
    )
    workspace = tmp_path / "workspace"
    command = [sys.executable, str(SCRIPT), str(workspace), web.url()]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}/src:{ROOT}"}

    def crawl() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, capture_output=True, text=True, cwd=ROOT, check=False, env=environment
        )

    for _ in range(2):  # the page crashes the parser, then its replay does
        crashed = crawl()
        assert crashed.returncode == -signal.SIGSEGV, crashed.stderr
    finished = crawl()
    assert (finished.returncode, finished.stdout.strip()) == (0, "finished"), finished.stderr
    crawled = Crawled(workspace, None)  # type: ignore[arg-type]
    assert crawled.states()["/crashing.html"] == ("excluded", "parse_crashed")
    assert crawled.pages() == ["/", "/a.html", "/z.html"]
    assert (
        web.requested_paths().count("/crashing.html") == 1
    )  # later runs replay it from the archive
    errors = {str(row["url"]).rsplit("/", 1)[1]: row["error"] for row in crawled.rows("visits")}
    assert errors["crashing.html"] == "parse_crashed"


def test_page_is_parsed_again_when_the_child_was_killed_externally() -> None:
    exchange = _exchange(page(text="Harmless.").encode())
    with closing(ChildReader(Reader(1 << 20, "lycosa"))) as child:
        child._child.kill()
        child._child.join()
        parsed = child(exchange)
    assert parsed.page is not None


@pytest.mark.parametrize("size", [0, 5_000_000])
def test_child_process_parses_responses_of_any_size(size: int) -> None:
    exchange = _exchange(b"<p>word " * (size // 8) + b"<p>end")
    with closing(ChildReader(Reader(1 << 24, "lycosa"))) as child:
        parsed = child(exchange)
    assert parsed.page is not None
    assert parsed.page.text.endswith("end")
