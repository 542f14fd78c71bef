"""`verify` on valid workspaces, and with one planted problem each."""

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
    """Each expected text is in an error."""
    results = errors(workspace, deep=deep)
    for text in expected:
        assert any(text in error for error in results), (text, results)


def table_path(workspace: Workspace, table: str, place: int = 0) -> str:
    return workspace.path(workspace.state().files[table][place].path)


def rewrite_entry(workspace: Workspace, number: int, change: Callable[[Any], None]) -> None:
    path = Path(workspace.path(entry_path(number)))
    document = json.loads(path.read_text())
    del document["digest"]
    change(document)
    path.write_bytes(sealed(json.dumps(document).encode()))


def replace_rows(
    workspace: Workspace, table: str, change: Callable[[pl.DataFrame], pl.DataFrame]
) -> None:
    """Change a live file and make the log agree, so that only what the rows say is wrong."""
    file = workspace.state().files[table][0]
    frame = change(pl.read_parquet(workspace.path(file.path)))
    if file.merged:
        frame.write_parquet(workspace.path(file.path))
    else:
        write_table(frame, workspace.path(file.path), TABLES[table])

    def agree(document: dict[str, Any]) -> None:
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
        agree,
    )


def commit(workspace: Workspace, buffers: Buffers, **more: Any) -> None:
    claim = workspace.claim("w2")
    claim.commit(claim.next_folder(), buffers.mapping(), CommitContents(**more))


@pytest.mark.parametrize("deep", [False, True])
def test_a_sound_workspace_has_no_faults(crawled: Workspace, deep: bool) -> None:
    report = verify(crawled, deep=deep)
    assert report.findings == []
    assert report.ok
    assert (report.counts["log entries"], report.counts["pages rows"]) == (4, 8)
    assert report.summary().endswith("no errors")


def test_an_empty_workspace_has_no_faults(workspace: Workspace) -> None:
    assert verify(workspace, deep=True).findings == []


@pytest.mark.proves("consistency-check")
def test_checking_changes_nothing(crawled: Workspace) -> None:
    def everything() -> dict[str, bytes]:
        return {
            str(path): path.read_bytes() for path in Path(crawled.root).rglob("*") if path.is_file()
        }

    before = everything()
    verify(crawled, deep=True)
    assert everything() == before


def test_a_gap_in_the_log(crawled: Workspace) -> None:
    os.unlink(crawled.path(entry_path(2)))
    [missing] = errors(crawled)
    assert missing == "log/00000002.json: it is missing, but entry 3 exists"


def test_a_torn_log_entry(crawled: Workspace) -> None:
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
def test_an_entry_that_contradicts_the_log(
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
def test_a_damaged_table_file(
    crawled: Workspace, table: str, damage: Callable[[str], None], expected: str
) -> None:
    path = crawled.state().files[table][0].path
    damage(crawled.path(path))
    assert_errors(crawled, f"{path}: {expected}")


def test_rows_out_of_order(crawled: Workspace) -> None:
    file = crawled.state().files["urls"][0]
    path = crawled.path(file.path)
    pl.read_parquet(path).reverse().write_parquet(path)
    change = {"bytes": os.path.getsize(path), "digest": crawled.storage.files.digest(file.path)}
    rewrite_entry(crawled, file.entry, lambda document: document["files"]["urls"][0].update(change))
    assert_errors(crawled, "not sorted")


@pytest.mark.proves("consistency-check")
@pytest.mark.parametrize("deep", [False, True])
def test_a_missing_and_a_cut_archive(crawled: Workspace, deep: bool) -> None:
    first, second = crawled.state().warcs
    os.unlink(crawled.path(first))
    os.truncate(crawled.path(second), 50)
    assert_errors(crawled, f"{first}: it is missing", f"{second}: it has 50 bytes", deep=deep)


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
def test_rows_that_must_not_exist(
    crawled: Workspace, table: str, change: Callable[[pl.DataFrame], pl.DataFrame], expected: str
) -> None:
    replace_rows(crawled, table, change)
    assert_errors(crawled, expected)


def test_two_urls_with_one_key(crawled: Workspace) -> None:
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


def test_an_excluded_url_without_a_reason_and_a_visited_one_without_a_visit(
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


class Rows:
    """A frame as the buffer of a commit."""

    rows = 1

    def __init__(self, frame: pl.DataFrame) -> None:
        self._frame = frame

    def write(self, path: str) -> None:
        self._frame.write_parquet(path)


def test_an_exchange_that_was_committed_twice(crawled: Workspace) -> None:
    rows = pl.read_parquet(table_path(crawled, "visits")).head(1)
    claim = crawled.claim("w2")
    contents = CommitContents(counters={"visits": 1})
    claim.commit(claim.next_folder(), {"visits": Rows(rows)}, contents)
    assert_errors(crawled, "visits: duplicate exchanges: 1")


def test_a_page_without_a_visit_and_links_without_a_page(crawled: Workspace) -> None:
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


def test_a_visit_that_points_at_another_record_is_found_by_a_deep_check(crawled: Workspace) -> None:
    replace_rows(crawled, "visits", lambda frame: frame.with_columns(pl.col("warc_offset").first()))
    assert errors(crawled) == []
    assert_errors(crawled, "visits with a wrong record position: 4", deep=True)


def test_an_archived_exchange_without_a_visit_is_found_by_a_deep_check(crawled: Workspace) -> None:
    record = pl.read_parquet(table_path(crawled, "visits"))["record_id"][0]
    for table in ("visits", "pages"):
        replace_rows(crawled, table, lambda frame: frame.filter(pl.col("record_id") != record))
    assert_errors(crawled, "exchanges without a row in visits: 1", deep=True)


@pytest.mark.parametrize("column", ["partition", "host_key", "url_key"])
@pytest.mark.parametrize("table", ["visits", "pages", "links", "urls"])
def test_keys_that_the_url_does_not_give(crawled: Workspace, table: str, column: str) -> None:
    first = pl.int_range(pl.len()) == 0
    replace_rows(
        crawled,
        table,
        lambda frame: frame.with_columns(
            pl.when(first).then(pl.col(column) ^ 1).otherwise(pl.col(column)).alias(column)
        ),
    )
    assert_errors(crawled, f"{table}: keys or partitions that do not match the URL: 1")


def test_found_rows_and_hosts_with_wrong_keys(crawled: Workspace) -> None:
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
def test_a_host_that_counts_wrong(crawled: Workspace, column: str, by: int) -> None:
    frame = pl.read_parquet(table_path(crawled, "hosts", 1)).with_columns(pl.col(column) + by)
    claim = crawled.claim("w2")
    claim.commit(claim.next_folder(), {"hosts": Rows(frame)})
    assert errors(crawled) == [
        f"hosts: hosts with a wrong number of {column} URLs: 1, for example {HOST}"
    ]


def notes(report: CheckReport) -> list[tuple[str, str]]:
    return [(finding.severity, finding.where) for finding in report.findings]


def test_leftovers_are_noted_and_are_no_faults(crawled: Workspace) -> None:
    folder = crawled.claim("w2").next_folder()
    Path(crawled.path(folder.warc)).write_bytes(b"exchanges")
    shutil.copytree(folder.absolute, crawled.path("data/00000099-1"))
    Path(crawled.path("log/notes.txt")).write_text("mine")
    report = verify(crawled)
    assert report.ok
    assert sorted(notes(report)) == [
        ("note", folder.warc),
        ("note", "log/notes.txt"),
        ("warning", "data/00000099-1"),
    ]
    heir = crawled.claim("w3")
    heir.commit(
        heir.next_folder(),
        {},
        CommitContents(orphans_used=[orphan.path for orphan in heir.orphans()]),
    )
    report = verify(crawled)
    assert ("note", folder.warc) not in notes(report)
    assert report.counts["replayed archives"] == 1


def test_a_sample_of_keys_is_spread_over_the_table(crawled: Workspace) -> None:
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
def merged(crawled: Workspace) -> Workspace:
    compact(crawled, whole=True)
    return crawled


def test_a_merged_workspace_has_no_faults(merged: Workspace) -> None:
    report = verify(merged, deep=True)
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
def test_a_merged_file_with_wrong_rows(
    merged: Workspace, change: Callable[[pl.DataFrame], pl.DataFrame], expected: str
) -> None:
    replace_rows(merged, "pages", change)
    assert_errors(merged, expected)


def test_a_merged_file_that_is_gone(merged: Workspace) -> None:
    path = merged.state().files["urls"][0].path
    os.unlink(merged.path(path))
    assert_errors(merged, f"{path}: it is missing")


def test_replaced_files_may_be_gone_and_merged_ones_may_be_left(merged: Workspace) -> None:
    vacuum(merged, keep_replaced_ms=0, now_ms=4_000_000_000_000)
    merged.storage.make_folder("delta/00000001-left")
    Path(merged.path("delta/00000001-left/urls.parquet")).write_bytes(b"half")
    report = verify(merged, deep=True)
    assert (report.findings, report.counts["unreferenced files"]) == ([], 1)


def test_excluded_rows_that_are_still_stored_are_noted(crawled: Workspace) -> None:
    exclude(crawled, [f"prefix:http://{HOST}/page1"])
    report = verify(crawled, deep=True)
    assert report.ok
    assert {finding.where: finding.what for finding in report.findings}["visits"].endswith(": 1")
    purge(crawled)
    assert verify(crawled, deep=True).findings == []
