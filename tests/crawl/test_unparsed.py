"""Documents are archived on arrival and parsed later.

A kill or stop in between does not cause a second request.
"""

from __future__ import annotations

import json
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lycosa.core.errors import ArchiveError
from lycosa.core.records import Exchange
from lycosa.crawl import dispatcher
from lycosa.crawl.documents import pool as document_pool
from lycosa.crawl.documents.pool import DocumentPool
from tests.crawl.kills import LYCOSA, archived_pages, await_request, here, run_json
from tests.crawl.sessions import LaterClock, collection, select, work
from tests.crawl.test_documents import LONG
from tests.page.document_files import pdf
from tests.servers.nginx import Nginx, Server, nginx
from tests.waiting import until

PAGES = 8
_QUICK = ("--set", "crawl.patience=1s", "--set", "crawl.commit_interval=500ms")
_CRAWL = ("--delay", "0s", "--quiet")
_DAY_MS = 86_400_000


@contextmanager
def _site(root: Path, slow: int = 1) -> Iterator[tuple[Nginx, str]]:
    """Serve a page that links slow documents first, then quick ones and pages.

    Yields the server and the URL of the page.
    """
    root.mkdir()
    names = [f"slow{number}.docx" for number in range(slow)]
    for name in names:
        (root / name).write_bytes(LONG)
    for number in range(PAGES):
        (root / f"page{number}.html").write_text(
            f"<title>Page {number}</title><p>The words of page number {number}."
        )
        (root / f"quick{number}.pdf").write_bytes(
            pdf(f"Words of the quick document {number}.".encode())
        )
        names += [f"page{number}.html", f"quick{number}.pdf"]
    (root / "index.html").write_text(
        "<title>All</title>" + "".join(f"<a href='{name}'>{name}</a>" for name in names)
    )
    with nginx([Server("127.0.0.1", root)]) as served:
        yield served, f"http://127.0.0.1:{served.port}/"


def _start(workspace: Path, url: str, *more: str) -> subprocess.Popen[bytes]:
    command = [str(LYCOSA), "-w", str(workspace), *_QUICK, "crawl", url, *_CRAWL, *more]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def _crawl(workspace: Path, url: str, *more: str) -> dict[str, dict[str, object]]:
    return run_json(workspace, *_QUICK, "crawl", url, *_CRAWL, "--json", *more)


def _archived(workspace: Path) -> int:
    """Return the number of archived pages; 0 if a file was deleted meanwhile."""
    try:
        return len(archived_pages(workspace))
    except ArchiveError:
        return 0


def _committed(workspace: Path) -> int:
    """Return the number of log entries."""
    return len(list((workspace / "log").glob("*.json")))


def _unread(workspace: Path) -> list[str]:
    """Return the folders of archived documents that are not parsed yet."""
    return [path.name for path in (workspace / "data").glob("*-10000*")]


def _assert_complete(workspace: Path, url: str, request_counts: Counter[str]) -> None:
    """Check that every file has one request, page and visit."""
    files = (
        {f"page{number}.html" for number in range(PAGES)}
        | {f"quick{number}.pdf" for number in range(PAGES)}
        | {"slow0.docx", ""}
    )
    assert {
        path: number for path, number in request_counts.items() if path != "/robots.txt"
    } == dict.fromkeys((f"/{name}" for name in files), 1)
    for table in ("pages", "visits"):
        rows = Counter(
            str(row["url"])
            for row in select(
                workspace, f"SELECT url FROM {table} WHERE url NOT LIKE '%robots.txt'"
            )
        )
        assert rows == Counter(f"{url}{name}" for name in files), table
    here(workspace, "check", "--deep")


def _request_counts(server: Nginx) -> Counter[str]:
    return Counter(request.uri for request in server.requests())


@pytest.mark.proves("durability-kill-document")
def test_kill_nine_during_document_parsing_repeats_no_request(tmp_path: Path) -> None:
    """The crawl continues and commits during the parsing.

    The next crawl parses the document from the archive.
    """
    workspace = tmp_path / "workspace"
    with _site(tmp_path / "root") as (server, url):
        process = _start(workspace, url, "--set", "crawl.document_timeout=300s")
        await_request(process, server)
        until(lambda: _archived(workspace) == 2 * PAGES + 2, 120, alive=process)
        entries = _committed(workspace)
        assert _unread(workspace)
        until(
            lambda: (
                _committed(workspace) > entries
                or len(select(workspace, "SELECT url FROM pages")) == 2 * PAGES + 1
            ),
            120,
            alive=process,
        )
        process.send_signal(signal.SIGKILL)
        process.communicate()
        summary = _crawl(workspace, url, "--set", "crawl.document_timeout=1s")
        assert str(summary["ended"]) == "finished"
        assert int(str(summary["replayed"])) >= 1
        _assert_complete(workspace, url, _request_counts(server))
    faults = select(workspace, f"SELECT faults FROM pages WHERE url = '{url}slow0.docx'")
    assert faults == [{"faults": ["document_timeout"]}]
    assert json.loads(here(workspace, "search", "quick document", "--json"))["hits"]


def test_documents_unparsed_at_a_stop_are_parsed_by_the_next_crawl(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    with _site(tmp_path / "root") as (server, url):
        process = _start(workspace, url, "--set", "crawl.document_timeout=300s")
        await_request(process, server)
        until(lambda: _archived(workspace) == 2 * PAGES + 2, 120, alive=process)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors.decode(errors="replace")
        pages = {str(row["url"]) for row in select(workspace, "SELECT url FROM pages")}
        assert f"{url}slow0.docx" not in pages
        assert len(pages) == 2 * PAGES + 1
        _crawl(workspace, url, "--set", "crawl.document_timeout=1s")
        _assert_complete(workspace, url, _request_counts(server))


def test_files_of_parsed_documents_are_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit of a parsed document deletes its temporary archive.

    An unchanged document is not parsed again.
    """
    workspace = tmp_path / "workspace"
    with _site(tmp_path / "root", slow=0) as (_, url):
        job = (collection("default", recrawl="age", max_age="1d"), [url])
        work(workspace, [job], clock=LaterClock(-3 * _DAY_MS))
        assert _unread(workspace) == []
        monkeypatch.setattr(DocumentPool, "begin", None)
        work(workspace, [job])
        assert _unread(workspace) == []
    visits = select(
        workspace, "SELECT url, changed FROM visits WHERE url LIKE '%.pdf' ORDER BY fetched_at"
    )
    assert [row["changed"] for row in visits] == [True] * PAGES + [False] * PAGES


@pytest.mark.prove
def test_slow_documents_do_not_delay_other_hosts(tmp_path: Path) -> None:
    """One host has 20 documents that take seconds to parse.

    The pages of the other host are committed before the last document is parsed.
    """
    workspace, slow, quick = tmp_path / "workspace", tmp_path / "slow", tmp_path / "quick"
    slow.mkdir()
    quick.mkdir()
    names = [f"slow{number}.docx" for number in range(20)]
    for name in names:
        (slow / name).write_bytes(LONG)
    (slow / "index.html").write_text(
        "<title>Slow</title>" + "".join(f"<a href='{name}'>{name}</a>" for name in names)
    )
    for number in range(PAGES):
        (quick / f"page{number}.html").write_text(
            f"<title>Page {number}</title><p>The words of page number {number}."
        )
    (quick / "index.html").write_text(
        "".join(f"<a href='page{number}.html'>page</a>" for number in range(PAGES))
    )
    with nginx([Server("127.0.0.1", slow), Server("127.0.0.2", quick)]) as server:
        seeds = [f"http://{address}:{server.port}/" for address in ("127.0.0.1", "127.0.0.2")]
        process = _start(workspace, seeds[0], seeds[1], "--set", "crawl.document_timeout=2s")
        await_request(process, server)
        until(
            lambda: (
                sum(
                    seeds[1] in str(row["url"])
                    for row in select(workspace, "SELECT url FROM pages")
                )
                == PAGES + 1
            ),
            120,
            alive=process,
        )
        parsed = [
            row for row in select(workspace, "SELECT url FROM pages") if "slow" in str(row["url"])
        ]
        assert len(parsed) < 20
        _, errors = process.communicate(timeout=600)
        assert process.returncode == 0, errors.decode(errors="replace")
    assert len(select(workspace, "SELECT url FROM pages")) == PAGES + 22


def test_many_unparsed_documents_stop_new_fetches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting: list[int] = []
    begin = DocumentPool.begin

    def counted(
        pool: DocumentPool, exchange: Exchange, load: Callable[[], bytes] | None = None
    ) -> None:
        begin(pool, exchange, load)
        waiting.append(pool.pending)

    monkeypatch.setattr(DocumentPool, "begin", counted)
    monkeypatch.setattr(dispatcher, "MAX_UNPARSED", 2)
    monkeypatch.setattr(document_pool, "_MAX_HELD_BYTES", 0)
    with _site(tmp_path / "root", slow=0) as (_, url):
        crawled = work(
            tmp_path / "workspace",
            [(collection("default"), [url])],
            settings=("crawl.documents=1",),
        )
    assert (crawled.progress.pages, len(waiting), max(waiting)) == (2 * PAGES + 1, PAGES, 2)
