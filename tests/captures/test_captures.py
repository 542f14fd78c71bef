"""Test archived versions of pages: lookup, revisits and exclusion."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from lycosa.archive.warc.metadata import Revisited
from lycosa.archive.warc.writer import WarcWriter
from lycosa.captures.captures import (
    CaptureHistory,
    NoVersion,
    capture_at,
    files_holding,
    iso,
    parse_at,
    written_at,
)
from lycosa.captures.content import Show, Versions, shown_as
from lycosa.config.settings import Config
from lycosa.core.errors import UsageError
from lycosa.core.records import UrlState, Visit
from lycosa.store.compaction.compact import compact
from lycosa.store.exclusion.purge import exclude, purge
from lycosa.store.log.transaction import CommitContents
from lycosa.store.storage.files import DataFile
from lycosa.store.tables.buffers import Buffers
from lycosa.store.workspace import Workspace
from tests.store.builders import START_MS, identify, make_exchange, make_visit, url_row
from tests.store.locations import Locations, locations

__all__ = ["locations"]

DAY_MS = 86_400_000
HTML = "<title>Page</title><p>First block.<p>{}<p>Third block."


class Capture(NamedTuple):
    """An exchange to archive.

    `body` None: status 304. `repeated`: same body as before, a revisit.
    """

    url: str
    day: int
    body: bytes | None
    status: int = 200
    head: str = "Content-Type: text/html; charset=utf-8"
    collection: str = "default"
    repeated: bool = False


def archive(workspace: Workspace, exchanges: Sequence[Capture]) -> list[Visit]:
    """Write one commit.

    Revisit records refer to the last changed visit of their URL.
    """
    claim = workspace.claim("test")
    folder, buffers = claim.next_folder(), Buffers()
    writer = WarcWriter(
        Path(workspace.storage.files.draft_path(folder.warc)),
        relative_path=folder.warc,
        info={"software": "test"},
    )
    visits: list[Visit] = []
    for url, day, body, status, head, collection, repeated in exchanges:
        identity = identify(workspace, url)
        visit = make_visit(identity, at=START_MS + day * DAY_MS + 123, collection=collection)
        before = next((each for each in reversed(visits) if each.url == url and each.changed), None)
        visit.http_status = 304 if body is None else status
        visit.content_type = head.partition(":")[2].partition(";")[0].strip()
        visit.changed = body is not None and not repeated
        exchange = make_exchange(url, body or b"", visit.fetched_at)
        exchange.status = visit.http_status
        exchange.response_head = f"HTTP/1.1 {visit.http_status} X\r\n{head}\r\n\r\n".encode()
        target = None
        if (body is None or repeated) and before is not None:
            target = Revisited(url, before.fetched_at, before.record_id, before.digest)
        visit.content_length = len(body or b"")
        writer.append(exchange, visit, revisit_of=target)
        buffers.add_visit(visit)
        row = url_row(identity, UrlState.VISITED, visited_at=visit.fetched_at)
        row.collection = collection
        buffers.add_url(row)
        visits.append(visit)
    writer.close(sync=True)
    claim.commit(folder, buffers.mapping(), CommitContents(warc=folder.warc))
    claim.release()
    return visits


URL = "http://a.example/page"
OTHER = "http://b.example/page"


@pytest.fixture
def root(tmp_path: Path) -> str:
    workspace = Workspace.create(str(tmp_path / "w"), partitions=8)
    archive(
        workspace,
        [
            Capture(URL, 0, HTML.format("Second block.").encode()),
            Capture(URL, 1, None),
            Capture(URL, 2, HTML.format("Second block.").encode(), repeated=True),
            Capture(URL, 3, b"gone", 404, "Content-Type: text/plain"),
            Capture(URL, 4, HTML.format("Another block.").encode()),
            Capture(OTHER, 0, HTML.format("Elsewhere.").encode()),
        ],
    )
    archive(workspace, [Capture(URL, 5, HTML.format("Another block.").encode(), collection="news")])
    return str(tmp_path / "w")


@pytest.fixture
def versions(root: str) -> Iterator[Versions]:
    with closing(Versions(root, Config())) as opened:
        yield opened


def test_captures_are_newest_first_with_their_originals(versions: Versions) -> None:
    """Also after a compaction, in a reader opened before it."""
    for _ in range(2):
        captures = versions.history.captures(URL)
        assert [(each.at - START_MS) // DAY_MS for each in captures] == [5, 4, 3, 2, 1, 0]
        assert [each.status for each in captures] == [200, 200, 404, 200, 304, 200]
        originals = [
            None if each.original is None else (each.original - START_MS) // DAY_MS
            for each in captures
        ]
        assert (originals, captures[0].collections) == ([None, None, None, 0, 0, None], ("news",))
        compact(versions.history.workspace)


def test_a_revisit_is_read_from_its_original(versions: Versions) -> None:
    captures = versions.history.captures(URL)
    for day in (1, 2):
        version = versions.read(captures, capture_at(captures, START_MS + day * DAY_MS + 500))
        assert b"Second block." in version.payload
        assert (version.source.at - START_MS) // DAY_MS == 0
        assert version.show is Show.PAGE
    assert versions.texts(captures, captures[-2]).text.split("\n")[1] == "Second block."
    newest, _ = versions.at(URL)
    assert b"Another block." in newest.payload
    gone, _ = versions.at(URL, START_MS + 3 * DAY_MS + 200)
    assert (gone.capture.status, gone.show, gone.payload) == (404, Show.TEXT, b"gone")


def test_two_versions_are_compared(versions: Versions) -> None:
    captures = versions.history.captures(URL)
    compared = versions.compare(captures, captures[-1], captures[0])
    assert list(compared.difference.lines()) == [
        "@@ -1,3 +1,3 @@", " First block.", "-Second block.", "+Another block.", " Third block.",
    ]  # fmt: skip
    assert versions.compare(captures, captures[-1], captures[-2]).of == ""


@pytest.mark.proves("consistency-exclusion")
def test_excluded_and_purged_pages_have_no_versions(root: str, versions: Versions) -> None:
    versions.history.captures(URL)
    exclude(Workspace.open(root), ["prefix:http://a.example/pa"])
    with pytest.raises(NoVersion, match="no copy of this page"):
        versions.history.captures(URL)
    assert versions.history.captures(OTHER)
    purge(Workspace.open(root), ["host:b.example"])
    with pytest.raises(NoVersion, match="no copy of this page"):
        versions.history.captures(OTHER)


def test_a_page_excluded_by_robots_later_is_not_shown(root: str, versions: Versions) -> None:
    workspace = Workspace.open(root)
    claim = workspace.claim("test")
    buffers = Buffers()
    row = url_row(identify(workspace, OTHER), UrlState.EXCLUDED)
    row.reason = "robots"
    buffers.add_url(row)
    claim.commit(claim.next_folder(), buffers.mapping())
    with pytest.raises(NoVersion, match="excluded \\(robots\\)"):
        versions.history.captures(OTHER)


def test_a_missing_archive_file_raises(root: str, versions: Versions) -> None:
    captures = versions.history.captures(URL)
    for path in Path(root).rglob("archive.warc.gz"):
        path.unlink()
    with pytest.raises(NoVersion, match="no longer in the archive"):
        versions.read(captures, captures[0])


def test_unknown_and_invalid_urls_raise(versions: Versions) -> None:
    with pytest.raises(NoVersion):
        versions.history.captures("http://a.example/never")
    for wrong in ("", "javascript:alert(1)", "http://", "mailto:a@b.example"):
        with pytest.raises((UsageError, NoVersion)):
            versions.history.captures(wrong)


def test_captures_of_a_page_with_many_visits_are_fast(tmp_path: Path) -> None:
    """10,000 visits and 10,000 of other pages, in 40 files and compacted."""
    workspace = Workspace.create(str(tmp_path / "w"), partitions=8)
    many = identify(workspace, URL)
    others = [
        identify(workspace, f"http://h{number % 50}.example/{number}") for number in range(10_000)
    ]
    claim = workspace.claim("test")
    for part in range(40):
        buffers = Buffers()
        for number in range(250):
            visit = make_visit(many, at=START_MS + (part * 250 + number) * 60_000)
            visit.record_id, visit.http_status, visit.digest = (
                f"urn:uuid:{part}-{number}",
                304 if number else 200,
                "sha1:X",
            )
            visit.changed = not number
            buffers.add_visit(visit)
        for identity in others[part::40]:
            visit = make_visit(identity)
            visit.record_id = f"urn:uuid:{identity.url_key}"
            buffers.add_visit(visit)
        claim.commit(claim.next_folder(), buffers.mapping())
    claim.release()
    history = CaptureHistory(str(tmp_path / "w"))
    for _ in range(2):
        started = time.process_time()
        captures = history.captures(URL)
        ended = time.process_time()
        history.captures("http://h1.example/1")
        assert (len(captures), captures[0].original) == (10_000, captures[249].at)
        assert ended - started < 5.0  # seconds of CPU; detects a hang
        compact(workspace)


def test_on_s3_only_the_archive_of_the_version_is_downloaded(
    locations: Locations, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the WARC file with the version is downloaded."""
    for name, value in locations.environment("s3", tmp_path / "there").items():
        monkeypatch.setenv(name, value)
    location = locations.location("s3", tmp_path)
    workspace = Workspace.create(location, partitions=8)
    archive(workspace, [Capture(URL, 0, HTML.format("Over there.").encode())])
    archive(workspace, [Capture(OTHER, 0, HTML.format("Elsewhere.").encode())])
    monkeypatch.setenv("LYCOSA_CACHE", str(tmp_path / "here"))
    with closing(Versions(location, Config())) as opened:
        version, captures = opened.at(URL)
        assert b"Over there." in version.payload
        assert len(captures) == 1
    assert len(list((tmp_path / "here").rglob("*archive.warc.gz"))) == 1


def test_base_files_of_other_partitions_are_skipped() -> None:
    def file(path: str, entry: int = 9) -> DataFile:
        return DataFile(path, 1, 1, "", entry, merged=True)

    base = [file(f"base/news/p{start:02d}/9-1/visits.parquet") for start in (0, 3, 3, 7)]
    other = file("base/web/p00/9-1/visits.parquet")
    delta = file("delta/10/visits.parquet", 10)
    selected = files_holding([*base, other, delta], 5)
    assert sorted(each.path for each in selected) == sorted(
        [base[1].path, base[2].path, other.path, delta.path]
    )
    assert {each.path for each in files_holding(base, 0)} == {base[0].path}
    assert {each.path for each in files_holding(base, 63)} == {base[3].path}


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("2026", None),
        ("2026-11-21", "2026-11-21T23:59:59.999Z"),
        ("2026-02", "2026-02-28T23:59:59.999Z"),
        ("2026-11-21T10:15", "2026-11-21T10:15:59.999Z"),
        ("2026-11-21T10:15:30Z", "2026-11-21T10:15:30.999Z"),
        ("2026-11-21 10", "2026-11-21T10:59:59.999Z"),
        ("20261121101530", "2026-11-21T10:15:30.999Z"),
        ("20261121101530123", "2026-11-21T10:15:30.123Z"),
        ("2026-11-21T10:15:30.123Z", "2026-11-21T10:15:30.123Z"),
        ("2026-13-01", None),
        ("20260230", None),
        ("yesterday", None),
        ("", None),
        ("99999999999999", None),
        ("٢٠٢٦-١١-٢١", None),
    ],
)
def test_timestamps_in_iso_and_archive_notation(text: str, last: str | None) -> None:
    if last is None:
        with pytest.raises(UsageError):
            parse_at(text)
        return
    assert (iso(parse_at(text)), parse_at(written_at(parse_at(text)))) == (last, parse_at(text))


@pytest.mark.parametrize(
    ("content_type", "payload", "show"),
    [
        ("text/html", b"<p>x", Show.PAGE),
        ("application/octet-stream", b"<!doctype html><html><p>x", Show.PAGE),
        ("text/plain", b"<script>alert(1)</script>", Show.TEXT),
        (
            "image/svg+xml",
            b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>",
            Show.TEXT,
        ),
        ("text/css", b"a{color:red}", Show.TEXT),
        ("application/javascript", b"alert(1)", Show.TEXT),
        ("image/png", b"<html><script>alert(1)</script>", None),
        ("image/png", b"\x89PNG\r\n\x1a\n....", Show.IMAGE),
        ("text/html", b"\x89PNG\r\n\x1a\n<script>alert(1)</script>", Show.IMAGE),
        ("application/pdf", b"%PDF-1.4\n1 0 obj", Show.FILE),
        ("application/x-shockwave-flash", b"FWS\x00\x01", Show.FILE),
        ("application/zip", b"PK\x03\x04\x00\x00", Show.FILE),
        ("", b"", None),
    ],
)
def test_presentation_by_media_type_and_payload(
    content_type: str, payload: bytes, show: Show | None
) -> None:
    results, media_type = shown_as(content_type, payload)
    assert show is None or results is show
    assert (results is Show.IMAGE) == media_type.startswith("image/")
