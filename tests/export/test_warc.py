"""Export to WARC from a workspace that was written through the store."""

from __future__ import annotations

import gzip
import io
import json
import os
from contextlib import redirect_stdout
from pathlib import Path
from types import SimpleNamespace

import pytest
from fastwarc.warc import ArchiveIterator as FastIterator
from warcio.checker import Checker

from lycosa.archive.cdxj import write_cdxj
from lycosa.archive.warc.members import read_records
from lycosa.archive.warc.reader import read_exchanges, read_response
from lycosa.archive.warc.writer import RevisitTarget, WarcWriter
from lycosa.core.errors import ArchiveError, WorkError
from lycosa.core.records import Page, Visit
from lycosa.export.archives import warc as export_module
from lycosa.export.archives.warc import WarcSelection, export_warc
from lycosa.store.log.transaction import CommitContents
from lycosa.store.tables.buffers import TableBuffer
from lycosa.store.tables.rows import page_row, visit_row
from lycosa.store.workspace import Workspace
from lycosa.url.keys import Identifier
from lycosa.url.site_name import site_name
from tests.archive.exchanges import AT, failure, pair

LANGUAGES = ("en", "de", "zh")


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """Two commits: twelve pages on three hosts, a page for two collections, a revisit, a failure,
    an answer that is no HTTP.
    """
    workspace = Workspace.create(str(tmp_path / "crawl"), partitions=4)
    identifier = Identifier(workspace.domains, workspace.partitions)
    claim = workspace.claim("test")
    first: Visit | None = None
    for commit in range(2):
        folder = claim.next_folder()
        writer = WarcWriter(workspace.path(folder.warc), relative_path=folder.warc, info={})
        visits, pages = TableBuffer("visits"), TableBuffer("pages")
        rows: list[Visit] = []
        items = [
            pair(
                f"http://h{n % 3}.example/{commit}/{n}",
                body=os.urandom(3_000),
                at=AT + 60_000 * commit + n,
            )
            for n in range(6)
        ]
        items += [
            failure(f"http://h0.example/{commit}/gone"),
            pair(f"http://h0.example/{commit}/odd", head=b"ICY 200\r\n\r\n", at=AT - 1),
        ]
        for exchange, visit in items:
            identity = identifier.identify(visit.url)
            visit.host, visit.partition, visit.host_key, visit.url_key = (
                identity.host,
                identity.partition,
                identity.host_key,
                identity.url_key,
            )
            writer.append(exchange, visit)
            rows.append(visit)
            if visit.http_status and exchange.response_head.startswith(b"HTTP"):
                pages.add(
                    page_row(
                        visit, Page(title="t", text="t", language=LANGUAGES[int(visit.host[1])])
                    )
                )
        first = first or rows[0]
        if commit:
            exchange, visit = pair(first.url, body=b"", at=AT + 90_000)
            visit.host, visit.partition, visit.host_key, visit.url_key = (
                first.host,
                first.partition,
                first.host_key,
                first.url_key,
            )
            writer.append(
                exchange,
                visit,
                revisit_of=RevisitTarget(
                    first.url, first.fetched_at, first.record_id, first.digest
                ),
            )
            rows.append(visit)
            rows.append(
                Visit(
                    **{name: getattr(rows[1], name) for name in Visit.__slots__}
                    | {"collection": "second"}
                )
            )
        for visit in rows:
            visits.add(visit_row(visit))
        writer.close()
        write_cdxj(workspace.path(folder.cdxj), rows, record_types=writer.record_types)
        claim.commit(
            folder,
            {"visits": visits, "pages": pages},
            CommitContents(warc=folder.warc, cdxj=folder.cdxj),
        )
    claim.release()
    return workspace


def urls(path: Path) -> list[str]:
    return [stored.exchange.url for stored in read_exchanges(path)]


def index(path: Path) -> list[dict[str, str]]:
    return [json.loads(line.split(" ", 2)[2]) for line in path.read_text().splitlines()]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def check(path: Path) -> None:
    output = io.StringIO()
    with redirect_stdout(output):
        assert Checker(SimpleNamespace(inputs=[str(path)], verbose=False)).process_all() == 0, (
            output.getvalue()
        )
    with open(path, "rb") as file:
        assert all(record.verify_block_digest() for record in FastIterator(file, parse_http=False))


def test_everything_in_one_file(workspace: Workspace, tmp_path: Path) -> None:
    report = export_warc(workspace, tmp_path / "out")
    (path,) = report.files
    assert path.name == "lycosa-20261121102748-00000.warc.gz"
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "lycosa-20261121102748-00000.cdxj",
        "lycosa-20261121102748-00000.warc.gz",
        "lycosa-20261121102748.cdxj",
    ]
    check(path)
    assert (report.captures, report.without_record, report.existing, report.bytes) == (
        13,
        2,
        0,
        path.stat().st_size,
    )
    # Each exchange once, exactly as it was archived, request and metadata with it.
    expected = [
        stored
        for file in workspace.state().warcs
        for stored in read_exchanges(workspace.path(file))
    ]
    expected = [stored for stored in expected if stored.exchange.response_head.startswith(b"HTTP")]
    exported = list(read_exchanges(path))
    assert [
        (stored.exchange, stored.revisit_of, stored.visit.record_id) for stored in exported
    ] == [(stored.exchange, stored.revisit_of, stored.visit.record_id) for stored in expected]
    records = list(read_records(path))
    existing = {record.id() for record in records if record.type == "warcinfo"}
    assert len(existing) == 3  # the export's and each source's
    assert {
        record.id("warc-warcinfo-id") for record in records if record.type != "warcinfo"
    } < existing
    assert records[0].headers["warc-filename"] == path.name
    assert b"description: exported by Lycosa" in records[0].block


def test_the_index_finds_every_page(workspace: Workspace, tmp_path: Path) -> None:
    report = export_warc(workspace, tmp_path / "out", max_file_bytes=20_000)
    assert len(report.files) > 2
    assert report.index is not None
    lines = report.index.read_bytes().splitlines()
    assert lines == sorted(lines)
    entries = index(report.index)
    assert (len(entries), [entry["mime"] for entry in entries].count("warc/revisit")) == (13, 1)
    bodies = {
        stored.visit.record_id: stored.exchange.body
        for file in workspace.state().warcs
        for stored in read_exchanges(workspace.path(file))
    }
    for entry in entries:
        stored = read_response(
            tmp_path / "out" / entry["filename"], int(entry["offset"]), int(entry["length"])
        )
        assert stored.url == entry["url"]
        assert stored.body == bodies[stored.headers["warc-record-id"].strip("<>")]
    for path in report.files:
        check(path)
        assert path.stat().st_size <= 20_000


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (WarcSelection(language="de"), ["/0/1", "/0/4", "/1/1", "/1/4"]),
        (WarcSelection(site=site_name("h2.example")), ["/0/2", "/0/5", "/1/2", "/1/5"]),
        (WarcSelection(since=AT + 60_004), ["/1/4", "/1/5", "/0/0"]),
        (WarcSelection(collection="second"), ["/1/1"]),
        (WarcSelection(language="en", since=AT + 1), ["/0/3", "/1/0", "/1/3", "/0/0"]),
        (WarcSelection(collection="none"), []),
    ],
)
def test_what_is_chosen(
    workspace: Workspace, tmp_path: Path, selection: WarcSelection, expected: list[str]
) -> None:
    report = export_warc(workspace, tmp_path / "out", selection)
    assert [url.split(".example")[1] for path in report.files for url in urls(path)] == expected
    assert (report.captures, report.index is None) == (len(expected), not expected)


def test_responses_only(workspace: Workspace, tmp_path: Path) -> None:
    report = export_warc(workspace, tmp_path / "out", responses_only=True)
    check(report.files[0])
    kinds = [record.type for record in read_records(report.files[0])]
    assert (kinds.count("response"), kinds.count("revisit")) == (12, 1)
    assert set(kinds) == {"warcinfo", "response", "revisit"}


def test_a_second_run_gives_the_same_bytes(workspace: Workspace, tmp_path: Path) -> None:
    export_warc(workspace, tmp_path / "a", max_file_bytes=20_000)
    export_warc(workspace, tmp_path / "b", max_file_bytes=20_000)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_an_interrupted_export_goes_on_where_it_stopped(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = export_warc(workspace, tmp_path / "whole", max_file_bytes=20_000)
    target = tmp_path / "out"
    replaced: list[str] = []
    real_replace = os.replace

    def fail_at_the_second_file(source: Path, destination: Path) -> None:
        if destination.name.endswith("-00001.warc.gz"):
            raise OSError(5, "Input/output error")
        replaced.append(destination.name)
        real_replace(source, destination)

    monkeypatch.setattr("lycosa.export.archives.warc.os.replace", fail_at_the_second_file)
    with pytest.raises(WorkError, match=r"Input/output error.*run the same command again"):
        export_warc(workspace, target, max_file_bytes=20_000)
    monkeypatch.undo()
    assert "lycosa-20261121102748-00001.warc.gz" not in contents(target)
    first = target / "lycosa-20261121102748-00000.warc.gz"
    before = first.stat().st_mtime_ns
    assert export_warc(workspace, target, max_file_bytes=20_000).existing == 1
    assert (first.stat().st_mtime_ns, contents(target)) == (before, contents(tmp_path / "whole"))
    assert export_warc(workspace, target, max_file_bytes=20_000).existing == len(whole.files)


def test_another_export_is_not_overwritten(workspace: Workspace, tmp_path: Path) -> None:
    export_warc(workspace, tmp_path / "out")
    before = contents(tmp_path / "out")
    with pytest.raises(WorkError, match="belongs to another export"):
        export_warc(workspace, tmp_path / "out", responses_only=True)
    assert contents(tmp_path / "out") == before


def test_damaged_sources_are_not_handed_on(workspace: Workspace, tmp_path: Path) -> None:
    warc = Path(workspace.path(next(iter(workspace.state().warcs))))
    data = bytearray(warc.read_bytes())
    data[5_000] ^= 0xFF
    warc.write_bytes(data)
    with pytest.raises(ArchiveError, match=r"no complete WARC record at offset \d+"):
        export_warc(workspace, tmp_path / "out")
    assert not contents(tmp_path / "out")


def test_uncommitted_exchanges_are_not_exported(workspace: Workspace, tmp_path: Path) -> None:
    folder = workspace.claim("another").next_folder()
    writer = WarcWriter(workspace.path(folder.warc), relative_path=folder.warc, info={})
    writer.append(*pair("http://h0.example/uncommitted"))
    writer.close()
    report = export_warc(workspace, tmp_path / "out")
    assert report.captures == 13
    assert b"uncommitted" not in gzip.decompress(report.files[0].read_bytes())


def test_many_source_files_are_read_in_batches(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export_warc(workspace, tmp_path / "a")
    monkeypatch.setattr(export_module, "_ROWS_AT_ONCE", 1)
    export_warc(workspace, tmp_path / "b")
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
