"""The inbox: submitted URLs, with and without a running worker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lycosa.core.records import UrlId, UrlRow
from lycosa.crawl.admission import inbox
from lycosa.crawl.admission.inbox import submission
from lycosa.crawl.session.session import CrawlSession
from lycosa.crawl.worker import Limits
from lycosa.frontier.scheduler.heads import Heads
from tests.crawl.conftest import RunCrawl, ServeWeb, full_disk, page, path_of
from tests.crawl.sessions import collection, work

SITE = {
    "/index.html": page("/a.html"),
    "/a.html": page(text="a"),
    "/alone.html": page("/behind.html"),
    "/behind.html": page(text="b"),
}


def now(ahead_s: float = 0) -> str:
    return (datetime.now(UTC) + timedelta(seconds=ahead_s)).isoformat(timespec="milliseconds")


def send(root: Path, name: str, *urls: str, at: str = "", to: str = "default") -> Path:
    file = root / "inbox" / f"{name}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(submission(to, urls, at or now()))
    return file


def test_new_urls_are_crawled_and_known_urls_refetched(serve: ServeWeb, run: RunCrawl) -> None:
    web = serve(SITE)
    first = run(web.url())
    assert first.pages() == ["/", "/a.html"]
    mark = web.server.mark()
    file = send(
        first.root,
        "1",
        web.url("/alone.html"),
        web.url("/a.html"),
        "mailto:x@y",
        "http://127.0.3.99/",
    )
    second = run()
    assert sorted(web.requested_paths(mark)) == ["/a.html", "/alone.html", "/behind.html"]
    assert (second.depths()["/alone.html"], second.progress.refused["scheme"]) == (0, 1)
    assert second.progress.refused["scope"] == 1
    assert not file.exists()


def test_submission_during_a_crawl_is_crawled(serve: ServeWeb, tmp_path: Path) -> None:
    web = serve(SITE)
    sent: list[Path] = []

    def tick(session: CrawlSession) -> None:
        if not sent:
            sent.append(send(tmp_path / "w", "1", web.url("/alone.html")))
        session.inbox.apply()

    crawled = work(tmp_path / "w", [(collection("default", delay="600ms"), [web.url()])], tick=tick)
    assert crawled.pages() == ["/", "/a.html", "/alone.html", "/behind.html"]
    assert not sent[0].exists()


def test_names_of_committed_files_are_dropped(serve: ServeWeb, tmp_path: Path) -> None:
    web = serve(SITE)
    remembered: list[int] = []

    def tick(session: CrawlSession) -> None:
        for number in range(5 if not remembered else 0):
            file = send(tmp_path / "w", str(number), web.url("/a.html"))
            session.inbox.apply()
            session.worker.commits.now()
            assert not file.exists()
            remembered.append(len(session.inbox._settled))

    work(tmp_path / "w", [(collection("default", delay=0), [web.url()])], tick=tick)
    assert remembered == [1] * 5


def test_many_submissions_are_looked_up_in_one_batch(
    serve: ServeWeb, run: RunCrawl, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = [f"/{number}.html" for number in range(12)]
    web = serve({"/index.html": page(*pages), **{name: page(text=name) for name in pages}})
    first = run(web.url())
    mark = web.server.mark()
    for number, name in enumerate(pages):
        send(first.root, str(number), web.url(name))
    batch_sizes: list[int] = []
    stored = Heads.stored

    def counted(heads: Heads, identities: Sequence[UrlId]) -> Iterator[UrlRow]:
        batch_sizes.append(len(identities))
        return stored(heads, identities)

    monkeypatch.setattr(Heads, "stored", counted)
    run()
    assert (sorted(web.requested_paths(mark)), batch_sizes.count(12)) == (sorted(pages), 1)
    assert 1 not in batch_sizes


def test_url_visited_since_its_submission_is_not_refetched(serve: ServeWeb, run: RunCrawl) -> None:
    """The file is still there after a kill before its deletion."""
    web = serve(SITE)
    sent_at = now(-60)
    first = run(web.url())
    mark = web.server.mark()
    send(first.root, "late", web.url("/a.html"), at=sent_at)
    run()
    assert web.requested_paths(mark) == []


def test_unreadable_files_are_deleted_when_they_no_longer_change(
    serve: ServeWeb, run: RunCrawl, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = run(serve(SITE).url()).root / "inbox"
    folder.mkdir()
    (folder / "half.json").write_text('{"collection": "default", "urls": ["http')
    (folder / "deep.json").write_text("[" * 100_000)
    (folder / "text.json").write_text('{"collection": "default", "urls": "http://127.0.3.1/"}')
    (folder / "odd.json").mkdir()
    (folder / "note.txt").write_text("no submission")
    run()
    assert len(list(folder.iterdir())) == 5  # they may still be incomplete
    monkeypatch.setattr(inbox, "SETTLED_MS", 0)
    (folder / "odd.json").rmdir()
    assert run().progress.refused["inbox_unreadable"] == 3
    assert [file.name for file in folder.iterdir()] == ["note.txt"]


def test_files_of_other_collections_are_kept(serve: ServeWeb, run: RunCrawl) -> None:
    web = serve(SITE)
    file = send(run(web.url()).root, "1", web.url("/alone.html"), to="other")
    assert "/alone.html" not in run().pages()
    assert file.exists()
    assert "/alone.html" in run(web.url(), name="other", depth=0).pages()
    assert not file.exists()


def test_uncommitted_exchanges_of_submitted_urls_are_replayed(
    serve: ServeWeb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit after the fetch fails, and the inbox file is kept."""
    web = serve(SITE)
    jobs = [(collection("default"), [web.url()])]
    work(tmp_path / "w", jobs)
    file = send(tmp_path / "w", "1", web.url("/alone.html"), web.url("/a.html"))
    with full_disk(monkeypatch):
        work(tmp_path / "w", jobs)
    assert file.exists()
    mark = web.server.mark()
    crawled = work(tmp_path / "w", jobs)
    assert (web.requested_paths(mark), crawled.progress.replayed) == ([], 3)
    assert crawled.pages() == ["/", "/a.html", "/alone.html", "/behind.html"]
    visits = Counter(
        path_of(str(row["url"])) for row in crawled.rows("visits") if row["kind"] == "page"
    )
    assert visits == Counter({"/": 1, "/a.html": 2, "/alone.html": 1, "/behind.html": 1})
    assert not file.exists()


def test_submitted_url_that_failed_is_retried_immediately(serve: ServeWeb, tmp_path: Path) -> None:
    web = serve(
        {"/index.html": page("/late.html")},
        extra=["location = /late.html { if (!-f $document_root/late.html) { return 500; } }"],
    )
    jobs = [(collection("default"), [web.url()])]
    first = work(tmp_path / "w", jobs, settings=("fetch.retries=0",))
    assert first.states()["/late.html"][0] == "known"
    (web.server.servers[0].root / "late.html").write_text(page(text="there"))
    mark = web.server.mark()
    work(tmp_path / "w", jobs, limits=Limits(max_time_ms=2_000))
    assert web.requested_paths(mark) == []  # the retry is due in a day
    send(tmp_path / "w", "1", web.url("/late.html"))
    assert "/late.html" in work(tmp_path / "w", jobs).pages()
