"""`verify` on valid workspaces and on workspaces with one error."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from lycosa.core.host_row import HostRow
from lycosa.core.records import UrlId
from lycosa.store.compaction.compact import compact
from lycosa.store.compaction.vacuum import vacuum
from lycosa.store.exclusion.purge import exclude, purge
from lycosa.store.log.entry import entry_path, sealed
from lycosa.store.log.transaction import CommitContents
from lycosa.store.tables.buffers import Buffers
from lycosa.store.tables.files import write_table
from lycosa.store.tables.rows import found_row
from lycosa.store.tables.schema import TABLES
from lycosa.store.verify.check import verify
from lycosa.store.verify.findings import CheckReport
from lycosa.store.workspace import Workspace
from tests.store.builders import commit_pages, identify, make_page, make_visit, url_row

HOST = "www.example.org"


@pytest.fixture
def crawled(workspace: Workspace) -> Workspace:
    claim = workspace.claim("w1", settings={"default": {"depth": 2}})
    commit_pages(workspace, claim, range(5))
    commit_pages(workspace, claim, range(5, 8))
    claim.release()
    return workspace


def errors(workspace: Workspace, *, deep: bool = False) -> list[str]:
    report = verify(workspace, deep=deep)
    results = [
        f"{finding.where}: {finding.what}"
        for finding in report.findings
        if finding.severity == "error"
    ]
    assert report.ok == (not results)
    assert all(finding.remedy for finding in report.findings)
    return results


def assert_errors(workspace: Workspace, *expected: str, deep: bool = False) -> None:
    """Assert that each expected text is part of an error."""
    results = errors(workspace, deep=deep)
    for text in expected:
        assert any(text in error for error in results), (text, results)


def table_path(workspace: Workspace, table: str, index: int = 0) -> str:
    return workspace.path(workspace.state().files[table][index].path)


def rewrite_entry(workspace: Workspace, number: int, change: Callable[[Any], None]) -> None:
    path = Path(workspace.path(entry_path(number)))
    document = json.loads(path.read_text())
    del document["digest"]
    change(document)
    path.write_bytes(sealed(json.dumps(document).encode()))


def replace_rows(
    workspace: Workspace, table: str, change: Callable[[pl.DataFrame], pl.DataFrame]
) -> None:
    """Change the rows of a live file and update its log entry to match."""
    file = workspace.state().files[table][0]
    frame = change(pl.read_parquet(workspace.path(file.path)))
    if file.merged:
        frame.write_parquet(workspace.path(file.path))
    else:
        write_table(frame, workspace.path(file.path), TABLES[table])

    def update_entry(document: dict[str, Any]) -> None:
        document["files"][table][0] |= {
            "rows": frame.height,
            "bytes": workspace.storage.size(file.path),
            "digest": workspace.storage.files.digest(file.path),
        }
        if table in document.get("counters", {}):
            document["counters"][table] = frame.height

    rewrite_entry(
        workspace,
        next(
            entry.number
            for entry in workspace.log.entries()
            if file.path in {each.path for each in entry.files.get(table, ())}
        ),
        update_entry,
    )


def commit(workspace: Workspace, buffers: Buffers) -> None:
    claim = workspace.claim("w2")
    claim.commit(claim.next_folder(), buffers.mapping())


@pytest.mark.parametrize("deep", [False, True])
def test_valid_workspace_has_no_findings(crawled: Workspace, deep: bool) -> None:
    report = verify(crawled, deep=deep)
    assert report.findings == []
    assert report.ok
    assert (report.counts["log entries"], report.counts["pages rows"]) == (4, 8)
    assert report.summary().endswith("no errors")


def test_empty_workspace_has_no_findings(workspace: Workspace) -> None:
    assert verify(workspace, deep=True).findings == []


@pytest.mark.proves("consistency-check")
def test_checking_changes_nothing(crawled: Workspace) -> None:
    def contents() -> dict[str, bytes]:
        return {
            str(path): path.read_bytes() for path in Path(crawled.root).rglob("*") if path.is_file()
        }

    before = contents()
    verify(crawled, deep=True)
    assert contents() == before


def test_missing_log_entry_is_an_error(crawled: Workspace) -> None:
    os.unlink(crawled.path(entry_path(2)))
    [missing] = errors(crawled)
    assert missing == "log/00000002.json: it is missing, but entry 3 exists"


def test_truncated_log_entry_is_an_error(crawled: Workspace) -> None:
    path = Path(crawled.path(entry_path(3)))
    path.write_bytes(path.read_bytes()[:100])
    [torn] = errors(crawled)
    assert "log/00000003.json" in torn
    assert "not JSON" in torn


@pytest.mark.parametrize(
    ("number", "change", "expected"),
    [
        pytest.param(
            2,
            lambda document: document.update(kind="claim", claim=2, partitions=[[0, 7]]),
            "log/00000003.json: a commit under claim 1, which does not hold",
            id="a commit of a fenced claim",
        ),
        pytest.param(
            1,
            lambda document: document.update(partitions=[[0, 8]]),
            "log/00000001.json: it claims partition 8, which does not exist",
            id="an unknown partition",
        ),
        pytest.param(
            2,
            lambda document: document["files"]["pages"][0].update(rows=6),
            "it has 5 rows, but 6 according to the log",
            id="a different number of rows",
        ),
        pytest.param(
            3,
            lambda document: document["files"].update(
                urls=[document["files"]["urls"][0] | {"path": "data/00000001-1/urls.parquet"}]
            ),
            "2 log entries refer to it",
            id="two entries with one file",
        ),
        pytest.param(
            2,
            lambda document: document["counters"].update(visits=4),
            "log/00000002.json: its counter of visits is 4, but its files have 5 rows",
            id="a wrong counter",
        ),
    ],
)
def test_inconsistent_log_entry_is_an_error(
    crawled: Workspace, number: int, change: Callable[[Any], None], expected: str
) -> None:
    rewrite_entry(crawled, number, change)
    assert_errors(crawled, expected)


def flip_byte(path: Path, share: int) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // share] ^= 1
    path.write_bytes(content)


@pytest.mark.proves("consistency-check")
@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (os.unlink, "it is missing"),
        (lambda path: flip_byte(Path(path), 3), "its bytes have changed"),
        (lambda path: os.truncate(path, 100), "it has 100 bytes, but "),
    ],
    ids=["deleted", "changed", "truncated"],
)
@pytest.mark.parametrize("table", ["visits", "pages", "links", "urls", "hosts"])
def test_damaged_table_file_is_an_error(
    crawled: Workspace, table: str, damage: Callable[[str], None], expected: str
) -> None:
    path = crawled.state().files[table][0].path
    damage(crawled.path(path))
    assert_errors(crawled, f"{path}: {expected}")


def test_unsorted_rows_are_an_error(crawled: Workspace) -> None:
    file = crawled.state().files["urls"][0]
    path = crawled.path(file.path)
    pl.read_parquet(path).reverse().write_parquet(path)
    change = {"bytes": os.path.getsize(path), "digest": crawled.storage.files.digest(file.path)}
    rewrite_entry(crawled, file.entry, lambda document: document["files"]["urls"][0].update(change))
    assert_errors(crawled, "not sorted")


@pytest.mark.proves("consistency-check")
@pytest.mark.parametrize("deep", [False, True])
def test_missing_and_truncated_archives_are_errors(crawled: Workspace, deep: bool) -> None:
    first, second = crawled.state().warcs
    os.unlink(crawled.path(first))
    os.truncate(crawled.path(second), 50)
    assert_errors(crawled, f"{first}: it is missing", f"{second}: it has 50 bytes", deep=deep)
    assert not any(error.startswith("visits:") for error in errors(crawled, deep=deep))


@pytest.mark.proves("consistency-check")
def test_a_changed_byte_of_an_archive_needs_a_deep_check(crawled: Workspace) -> None:
    name = next(iter(crawled.state().warcs))
    flip_byte(Path(crawled.path(name)), 2)
    assert errors(crawled) == []
    [wrong] = [error for error in errors(crawled, deep=True) if "wrong record position: 1" in error]
    assert wrong.startswith(name)
    [invalid] = [error for error in errors(crawled, deep=True) if "not a valid record" in error]
    assert invalid.startswith(name)
    assert_errors(crawled, f"{name}: its bytes have changed", deep=True)


@pytest.mark.parametrize(
    ("table", "change", "expected"),
    [
        pytest.param(
            "urls",
            lambda rows: pl.concat(
                [rows, rows.head(1).with_columns(pl.col("url_key") ^ 1, state=pl.lit("known"))]
            ),
            "urls: URLs with more than one state: 1, for example",
            id="a URL with two states",
        ),
        pytest.param(
            "urls",
            lambda rows: rows.with_columns(state=pl.lit("queued")),
            "urls.state: 'queued' is not an allowed value",
            id="an unknown state",
        ),
        pytest.param(
            "pages",
            lambda rows: pl.concat([rows, rows.head(1)]),
            "pages: exchanges with more than one page in one commit: 1",
            id="two pages of an exchange",
        ),
        pytest.param(
            "visits",
            lambda rows: rows.with_columns(warc_offset=pl.lit(10**9, dtype=pl.Int64)),
            "visits: visits whose position is outside their WARC file: 5",
            id="a record outside its file",
        ),
        pytest.param(
            "visits",
            lambda rows: rows.with_columns(warc_file=pl.lit("data/00000001-9/archive.warc.gz")),
            "visits: visits in a WARC file that is not committed: 5",
            id="an uncommitted file",
        ),
    ],
)
def test_invalid_rows_are_an_error(
    crawled: Workspace, table: str, change: Callable[[pl.DataFrame], pl.DataFrame], expected: str
) -> None:
    replace_rows(crawled, table, change)
    assert_errors(crawled, expected)


def test_key_collision_is_an_error(crawled: Workspace) -> None:
    buffers, url = Buffers(), identify(crawled, f"http://{HOST}/page1")
    buffers.add_url(
        url_row(UrlId(f"http://{HOST}/other", url.host, url.host_key, url.url_key, url.partition))
    )
    commit(crawled, buffers)
    assert_errors(
        crawled,
        "URLs with the same key: 1",
        "urls: keys or partitions that do not match the URL: 1",
    )


def test_missing_reason_visit_and_time_of_url_states_are_errors(
    crawled: Workspace,
) -> None:
    buffers = Buffers()
    buffers.add_url(url_row(identify(crawled, f"http://{HOST}/x"), "excluded"))
    buffers.add_url(url_row(identify(crawled, f"http://{HOST}/y"), "visited"))
    commit(crawled, buffers)
    assert_errors(
        crawled,
        f"excluded URLs without a known reason: 1, for example http://{HOST}/x",
        f"visited URLs without a row in visits: 1, for example http://{HOST}/y",
        f"visited URLs without a time: 1, for example http://{HOST}/y",
    )


class FrameBuffer:
    """A table buffer that writes a frame unchanged."""

    rows = 1

    def __init__(self, frame: pl.DataFrame) -> None:
        self._frame = frame

    def write(self, path: str) -> None:
        self._frame.write_parquet(path)


def test_exchange_committed_twice_is_an_error(crawled: Workspace) -> None:
    rows = pl.read_parquet(table_path(crawled, "visits")).head(1)
    claim = crawled.claim("w2")
    contents = CommitContents(counters={"visits": 1})
    claim.commit(claim.next_folder(), {"visits": FrameBuffer(rows)}, contents)
    assert_errors(crawled, "visits: duplicate exchanges: 1")


def test_page_without_visit_and_links_without_page_are_errors(crawled: Workspace) -> None:
    buffers = Buffers()
    first, second = identify(crawled, f"http://{HOST}/x"), identify(crawled, f"http://{HOST}/y")
    visit = make_visit(first)
    visit.record_id = "urn:uuid:none"
    buffers.add_page(visit, make_page(1))
    buffers.links.add_links(make_visit(second), make_page(2, ["http://z/"]).links)
    commit(crawled, buffers)
    assert_errors(
        crawled,
        "pages: pages without a row in visits: 1",
        "links: links whose source is not a page: 1",
    )


def test_wrong_record_position_needs_a_deep_check(crawled: Workspace) -> None:
    replace_rows(crawled, "visits", lambda frame: frame.with_columns(pl.col("warc_offset").first()))
    assert errors(crawled) == []
    assert_errors(crawled, "visits with a wrong record position: 4", deep=True)


def test_archived_exchange_without_visit_needs_a_deep_check(crawled: Workspace) -> None:
    record = pl.read_parquet(table_path(crawled, "visits"))["record_id"][0]
    for table in ("visits", "pages"):
        replace_rows(crawled, table, lambda frame: frame.filter(pl.col("record_id") != record))
    assert_errors(crawled, "exchanges without a row in visits: 1", deep=True)


@pytest.mark.parametrize("column", ["partition", "host_key", "url_key"])
@pytest.mark.parametrize("table", ["visits", "pages", "links", "urls"])
def test_keys_that_do_not_match_the_url_are_an_error(
    crawled: Workspace, table: str, column: str
) -> None:
    first = pl.int_range(pl.len()) == 0
    replace_rows(
        crawled,
        table,
        lambda frame: frame.with_columns(
            pl.when(first).then(pl.col(column) ^ 1).otherwise(pl.col(column)).alias(column)
        ),
    )
    assert_errors(crawled, f"{table}: keys or partitions that do not match the URL: 1")


def test_wrong_keys_of_found_rows_and_hosts_are_errors(crawled: Workspace) -> None:
    buffers = Buffers()
    buffers.found.add(
        found_row(
            url_row(UrlId("http://z.example.org/", "z.example.org", 1, 2, 3)),
            source="http://s/",
            anchor="",
            kind="a",
        )
    )
    buffers.add_host(HostRow("z.example.org", 3, 4, "example.org", 1))
    commit(crawled, buffers)
    assert_errors(
        crawled,
        "found: keys or partitions that do not match the URL: 1",
        "hosts: keys or partitions that do not match the host: 1",
    )


@pytest.mark.parametrize(
    ("column", "by"), [("known", 1), ("visited", 1), ("known", -1), ("visited", -1)]
)
def test_wrong_url_counts_of_a_host_are_an_error(crawled: Workspace, column: str, by: int) -> None:
    frame = pl.read_parquet(table_path(crawled, "hosts", 1)).with_columns(pl.col(column) + by)
    claim = crawled.claim("w2")
    claim.commit(claim.next_folder(), {"hosts": FrameBuffer(frame)})
    assert errors(crawled) == [
        f"hosts: hosts with a wrong number of {column} URLs: 1, for example {HOST}"
    ]


def findings(report: CheckReport) -> list[tuple[str, str]]:
    return [(finding.severity, finding.where) for finding in report.findings]


def test_leftover_files_are_reported_but_are_not_errors(crawled: Workspace) -> None:
    folder = crawled.claim("w2").next_folder()
    Path(crawled.path(folder.warc)).write_bytes(b"exchanges")
    shutil.copytree(folder.absolute, crawled.path("data/00000099-1"))
    Path(crawled.path("log/notes.txt")).write_text("mine")
    report = verify(crawled)
    assert report.ok
    assert sorted(findings(report)) == [
        ("note", folder.warc),
        ("note", "log/notes.txt"),
        ("warning", "data/00000099-1"),
    ]
    successor = crawled.claim("w3")
    successor.commit(
        successor.next_folder(),
        {},
        CommitContents(orphans_used=[orphan.path for orphan in successor.orphans()]),
    )
    report = verify(crawled)
    assert ("note", folder.warc) not in findings(report)
    assert report.counts["replayed archives"] == 1


def test_key_sample_detects_wrong_keys(crawled: Workspace) -> None:
    replace_rows(
        crawled, "urls", lambda frame: frame.with_columns(url_key=pl.lit(5, dtype=pl.UInt64))
    )
    results = [
        finding
        for finding in verify(crawled, key_sample=3).findings
        if finding.where == "urls" and "keys or partitions" in finding.what
    ]
    assert len(results) == 1


@pytest.fixture
def compacted(crawled: Workspace) -> Workspace:
    compact(crawled, whole=True)
    return crawled


def test_compacted_workspace_has_no_findings(compacted: Workspace) -> None:
    report = verify(compacted, deep=True)
    assert (report.findings, report.counts["unreferenced files"]) == ([], 0)
    assert report.counts["table files"] == 6


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda rows: rows.drop("entry"), "it was compacted, but has no column entry"),
        (lambda rows: rows.with_columns(pl.col("entry") + 100), "rows of entries after 3"),
        (lambda rows: rows.head(0), "links whose source is not a page"),
    ],
    ids=["no entries", "later entries", "no rows"],
)
def test_wrong_rows_in_a_compacted_file_are_an_error(
    compacted: Workspace, change: Callable[[pl.DataFrame], pl.DataFrame], expected: str
) -> None:
    replace_rows(compacted, "pages", change)
    assert_errors(compacted, expected)


def test_missing_compacted_file_is_an_error(compacted: Workspace) -> None:
    path = compacted.state().files["urls"][0].path
    os.unlink(compacted.path(path))
    assert_errors(compacted, f"{path}: it is missing")


def test_vacuumed_and_unreferenced_files_are_not_errors(compacted: Workspace) -> None:
    vacuum(compacted, keep_replaced_ms=0, now_ms=4_000_000_000_000)
    compacted.storage.make_folder("delta/00000001-left")
    Path(compacted.path("delta/00000001-left/urls.parquet")).write_bytes(b"half")
    report = verify(compacted, deep=True)
    assert (report.findings, report.counts["unreferenced files"]) == ([], 1)


def test_excluded_rows_that_are_still_stored_are_noted(crawled: Workspace) -> None:
    exclude(crawled, [f"prefix:http://{HOST}/page1"])
    report = verify(crawled, deep=True)
    assert report.ok
    assert {finding.where: finding.what for finding in report.findings}["visits"].endswith(": 1")
    purge(crawled)
    assert verify(crawled, deep=True).findings == []
