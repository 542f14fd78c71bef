"""Test exports to WARC and WACZ with other readers, and their indexes."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import zipfile
from collections import Counter
from contextlib import redirect_stdout
from pathlib import Path
from types import SimpleNamespace

import pytest
from fastwarc.warc import ArchiveIterator
from warcio.checker import Checker

from lycosa.archive.cdxj import write_cdxj
from lycosa.archive.import_formats import read_captures
from lycosa.archive.warc.members import read_records
from lycosa.archive.warc.metadata import Revisited
from lycosa.archive.warc.reader import read_exchanges, read_response
from lycosa.archive.warc.writer import WarcWriter
from lycosa.commands.crawling.import_archives import ImportOptions, import_files
from lycosa.config.reading import parse_config
from lycosa.core.errors import WorkError
from lycosa.core.records import Page, Visit
from lycosa.export.archives import wacz as wacz_module
from lycosa.export.archives import warc as export_module
from lycosa.export.archives.collection_copy import copy_collection
from lycosa.export.archives.wacz import WaczReport, export_wacz
from lycosa.export.archives.warc import WarcSelection, export_warc
from lycosa.store.log.transaction import CommitContents
from lycosa.store.tables.buffers import TableBuffer
from lycosa.store.tables.rows import page_row, visit_row
from lycosa.store.verify.check import verify
from lycosa.store.workspace import Workspace
from lycosa.url.keys import Identifier
from lycosa.url.site_name import site_name
from tests.archive.exchanges import AT, failure, pair
from tests.archive.foreign_files import ANSWERS, HOST, Answer, html, warc
from tests.cli.conftest import printed_here, run_here

LANGUAGES = ("en", "de", "zh")


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """Two commits with 12 pages on 3 hosts.

    Also a page of two collections, a revisit, a failure and a response that is not HTTP.
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
                revisit_of=Revisited(first.url, first.fetched_at, first.record_id, first.digest),
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
        assert all(
            record.verify_block_digest() for record in ArchiveIterator(file, parse_http=False)
        )


def test_all_captures_in_one_file(workspace: Workspace, tmp_path: Path) -> None:
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
    # Each exchange once, unchanged, with request and metadata.
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
    warcinfo_ids = {record.id() for record in records if record.type == "warcinfo"}
    assert len(warcinfo_ids) == 3  # of the export and of both sources
    assert {
        record.id("warc-warcinfo-id") for record in records if record.type != "warcinfo"
    } < warcinfo_ids
    assert records[0].headers["warc-filename"] == path.name
    assert b"description: exported by Lycosa" in records[0].block


def test_the_index_locates_every_record(workspace: Workspace, tmp_path: Path) -> None:
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
def test_selections(
    workspace: Workspace, tmp_path: Path, selection: WarcSelection, expected: list[str]
) -> None:
    report = export_warc(workspace, tmp_path / "out", selection)
    assert [url.split(".example")[1] for path in report.files for url in urls(path)] == expected
    assert (report.captures, report.index is None) == (len(expected), not expected)


def test_only_responses_and_revisits_are_exported(workspace: Workspace, tmp_path: Path) -> None:
    report = export_warc(workspace, tmp_path / "out", responses_only=True)
    check(report.files[0])
    kinds = [record.type for record in read_records(report.files[0])]
    assert (kinds.count("response"), kinds.count("revisit")) == (12, 1)
    assert set(kinds) == {"warcinfo", "response", "revisit"}


def test_a_second_warc_export_gives_the_same_bytes(workspace: Workspace, tmp_path: Path) -> None:
    export_warc(workspace, tmp_path / "a", max_file_bytes=20_000)
    export_warc(workspace, tmp_path / "b", max_file_bytes=20_000)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


@pytest.mark.proves("durability-export-kill")
def test_interrupted_export_is_resumed_after_its_last_file(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    complete = export_warc(workspace, tmp_path / "whole", max_file_bytes=20_000)
    target = tmp_path / "out"
    replaced: list[str] = []
    original_replace = os.replace

    def fail_at_the_second_file(source: Path, destination: Path) -> None:
        if destination.name.endswith("-00001.warc.gz"):
            raise OSError(5, "Input/output error")
        replaced.append(destination.name)
        original_replace(source, destination)

    monkeypatch.setattr("lycosa.store.storage.files.os.replace", fail_at_the_second_file)
    with pytest.raises(WorkError, match=r"Input/output error.*run the same command again"):
        export_warc(workspace, target, max_file_bytes=20_000)
    monkeypatch.undo()
    assert "lycosa-20261121102748-00001.warc.gz" not in contents(target)
    first = target / "lycosa-20261121102748-00000.warc.gz"
    before = first.stat().st_mtime_ns
    assert export_warc(workspace, target, max_file_bytes=20_000).existing == 1
    assert (first.stat().st_mtime_ns, contents(target)) == (before, contents(tmp_path / "whole"))
    assert export_warc(workspace, target, max_file_bytes=20_000).existing == len(complete.files)


def test_another_export_is_not_overwritten(workspace: Workspace, tmp_path: Path) -> None:
    export_warc(workspace, tmp_path / "out")
    before = contents(tmp_path / "out")
    with pytest.raises(WorkError, match="belongs to another export"):
        export_warc(workspace, tmp_path / "out", responses_only=True)
    assert contents(tmp_path / "out") == before


def test_damaged_records_are_omitted_and_reported(workspace: Workspace, tmp_path: Path) -> None:
    complete = urls(export_warc(workspace, tmp_path / "whole").files[0])
    warc = Path(workspace.path(next(iter(workspace.state().warcs))))
    intact = warc.read_bytes()
    data = bytearray(intact)
    data[5_000] ^= 0xFF
    warc.write_bytes(data)
    out = tmp_path / "out"
    report = export_warc(workspace, out)
    [record] = report.unreadable
    assert re.search(r"archive.warc.gz: no complete WARC record at offset \d+", record.reason)
    exported = urls(report.files[0])
    assert [url for url in complete if url not in exported] == [record.url]
    assert (report.captures, report.without_record) == (12, 2)
    check(report.files[0])
    packed = export_wacz(workspace, tmp_path / "x.wacz")
    assert (packed.captures, packed.pages, packed.unreadable) == (12, 11, [record])
    copied = copy_collection(workspace, "default", Workspace.create(str(tmp_path / "copy"), 4), {})
    assert (copied.exchanges, copied.unreadable) == (16, [record])
    [finding] = verify(Workspace.open(str(tmp_path / "copy")), deep=True).findings
    assert finding.what.startswith("visits of URLs that are not in urls: 17")  # as in the source
    for command in (f"export warc {out}", f"collection copy default {tmp_path / 'other'}"):
        outcome = run_here("-w", workspace.root, *command.split())
        outcome.expect(
            1, f"1 record omitted, because the archive cannot be read; the first: {warc}"
        )
    warc.write_bytes(intact)
    assert export_warc(workspace, out).unreadable == []
    assert contents(out) == contents(tmp_path / "whole")


def test_the_warcinfo_records_of_copied_records_are_copied(
    workspace: Workspace, tmp_path: Path
) -> None:
    source = workspace
    for name in ("copy", "copy of a copy"):
        target = Workspace.create(str(tmp_path / name), 4)
        copy_collection(source, "default", target, {})
        source = target
    files = [Path(source.path(warc)) for warc in source.state().warcs]
    files += export_warc(source, tmp_path / "out").files
    for file in files:
        records = list(read_records(file))
        ids = {record.id() for record in records if record.type == "warcinfo"}
        others = [record for record in records if record.type != "warcinfo"]
        assert {record.id("warc-warcinfo-id") for record in others} <= ids


def test_damaged_accompanying_records_do_not_omit_the_response(
    workspace: Workspace, tmp_path: Path
) -> None:
    warc = Path(workspace.path(next(iter(workspace.state().warcs))))
    data = bytearray(warc.read_bytes())
    request = next(record for record in read_records(warc) if record.type == "request")
    data[0] ^= 0xFF  # the warcinfo record
    data[request.offset] ^= 0xFF
    warc.write_bytes(data)
    report = export_warc(workspace, tmp_path / "out")
    assert (report.captures, report.without_record) == (13, 2)
    assert [record.record_id for record in report.unreadable] == ["", ""]


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


PAGES = {f"{HOST}/": "Home", f"{HOST}/eyes": "Compound eyes", f"{HOST}/wings": "Wings"}


@pytest.fixture(scope="module")
def workspace_wacz(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    root = tmp_path_factory.mktemp("wacz")
    path = root / "a.warc.gz"
    path.write_bytes(
        warc((*ANSWERS, Answer("http://b.example/ü", html("Ümlaut & <more>"))), gzipped=True)
    )
    import_files(
        str(root / "w"), parse_config(""), "default", [str(path)], ImportOptions(index=False)
    )
    return Workspace.open(str(root / "w"))


def export(
    workspace_wacz: Workspace,
    folder: Path,
    *,
    selection: WarcSelection | None = None,
    name: str = "x.wacz",
) -> tuple[WaczReport, Path]:
    report = export_wacz(workspace_wacz, folder / name, selection)
    assert report.path is not None
    return report, report.path


def test_wacz_files_follow_the_specification(workspace_wacz: Workspace, tmp_path: Path) -> None:
    report, path = export(workspace_wacz, tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["x.wacz"]
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        infos = {info.filename: info for info in archive.infolist()}
        package = json.loads(archive.read("datapackage.json"))
        assert (package["profile"], package["wacz_version"]) == ("data-package", "1.1.1")
        assert package["mainPageUrl"] in PAGES or package["mainPageUrl"].startswith(
            "http://b.example/"
        )
        listed = {resource["path"]: resource for resource in package["resources"]}
        assert set(infos) - {"datapackage.json", "datapackage-digest.json"} == set(listed)
        for name, resource in listed.items():
            content = archive.read(name)
            assert resource["bytes"] == len(content)
            assert resource["hash"] == f"sha256:{hashlib.sha256(content).hexdigest()}"
            assert resource["name"] == name.rpartition("/")[2]
            if name.startswith(("archive/", "indexes/")):
                # replay tools read byte ranges
                assert infos[name].compress_type == zipfile.ZIP_STORED
        digest = json.loads(archive.read("datapackage-digest.json"))
        assert digest == {
            "path": "datapackage.json",
            "hash": f"sha256:{hashlib.sha256(archive.read('datapackage.json')).hexdigest()}",
        }
        head, *pages = map(json.loads, archive.read("pages/pages.jsonl").splitlines())
        assert head["format"] == "json-pages-1.0"
        assert {page["url"]: page["title"] for page in pages} == {
            **PAGES,
            "http://b.example/%C3%BC": "Ümlaut & <more>",
        }
        assert {page["ts"] for page in pages} == {"2026-11-21T10:00:00Z"}
        assert len({page["id"] for page in pages}) == len(pages) == report.pages


def test_every_line_of_the_wacz_index_locates_its_record(
    workspace_wacz: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wacz_module, "BLOCK_LINES", 2)
    report, path = export(workspace_wacz, tmp_path)
    with zipfile.ZipFile(path) as archive:
        meta, *blocks = archive.read("indexes/index.idx").decode().splitlines()
        assert json.loads(meta.partition("!meta 0 ")[2]) == {
            "format": "cdxj-gzip-1.0",
            "filename": "index.cdx.gz",
        }
        compressed = archive.read("indexes/index.cdx.gz")
        lines: list[str] = []
        for block in blocks:
            key, stamp, text = block.split(" ", 2)
            fields = json.loads(text)
            member = compressed[fields["offset"] : fields["offset"] + fields["length"]]
            assert fields["digest"] == f"sha256:{hashlib.sha256(member).hexdigest()}"
            results = gzip.decompress(member).decode().splitlines()
            assert results[0].startswith(f"{key} {stamp} ")
            lines += results
        assert lines == sorted(lines)
        assert len(lines) == report.captures == 6
        for line in lines:
            fields = json.loads(line.split(" ", 2)[2])
            file = archive.read(f"archive/{fields['filename']}")
            record = file[int(fields["offset"]) : int(fields["offset"]) + int(fields["length"])]
            (found_record,) = ArchiveIterator(io.BytesIO(record), parse_http=True)
            assert found_record.headers["WARC-Target-URI"] == fields["url"]
            assert str(found_record.http_headers.status_code) == fields["status"]


def test_a_second_wacz_export_gives_the_same_bytes(
    workspace_wacz: Workspace, tmp_path: Path
) -> None:
    _, first = export(workspace_wacz, tmp_path, name="a.wacz")
    _, second = export(workspace_wacz, tmp_path, name="b.wacz")
    assert first.read_bytes() == second.read_bytes()
    assert export(workspace_wacz, tmp_path, name="a.wacz")[1].read_bytes() == second.read_bytes()


def test_wacz_of_one_site(workspace_wacz: Workspace, tmp_path: Path) -> None:
    report, path = export(
        workspace_wacz, tmp_path, selection=WarcSelection(site=site_name("b.example"))
    )
    assert (report.captures, report.pages) == (1, 1)
    assert [each.url for each in read_captures(path, limit=1 << 20, others=Counter())] == [
        "http://b.example/%C3%BC"
    ]
    assert (
        export_wacz(
            workspace_wacz, tmp_path / "none.wacz", WarcSelection(site=site_name("c.example"))
        ).path
        is None
    )
    assert not list(tmp_path.glob("*none*"))


def test_py_wacz_accepts_the_file(workspace_wacz: Workspace, tmp_path: Path) -> None:
    """Needs `pip install wacz` in a separate environment.

    It pins old versions of shared dependencies.
    """
    program = shutil.which("wacz")
    if program is None:
        pytest.skip("the program 'wacz' is not installed")
    _, path = export(workspace_wacz, tmp_path)
    output = subprocess.run(
        [program, "validate", "-f", str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert output.returncode == 0, output.stdout + output.stderr


def test_the_command_reports_captures(workspace_wacz: Workspace, tmp_path: Path) -> None:
    call = ("-w", workspace_wacz.root, "export", "wacz", "--json")
    assert json.loads(printed_here(*call, str(tmp_path / "a.wacz")))["captures"] == 6
    assert run_here(*call, str(tmp_path / "a.zip")).code == 2
