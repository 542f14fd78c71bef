"""`verify` on sound workspaces, and each planted fault found where it is."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from lycosa.core.records import HostRow, UrlId
from lycosa.store.compaction.compact import compact
from lycosa.store.compaction.vacuum import vacuum
from lycosa.store.exclusion.purge import exclude, purge
from lycosa.store.log.entry import entry_path, sealed
from lycosa.store.log.transaction import CommitContents
from lycosa.store.tables.buffers import Buffers, write_table
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
    found = [
        f"{finding.where}: {finding.what}"
        for finding in report.findings
        if finding.severity == "error"
    ]
    assert report.ok == (not found)
    assert all(finding.remedy for finding in report.findings)
    return found


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
    """Change a committed file and make the log agree, so that only what the rows say is wrong."""
    state = workspace.state()
    file = state.files[table][0]
    frame = change(pl.read_parquet(workspace.path(file.path)))
    write_table(frame, workspace.path(file.path), TABLES[table])

    def agree(document: dict[str, Any]) -> None:
        document["files"][table][0] |= {
            "rows": frame.height,
            "bytes": workspace.storage.size(file.path),
            "digest": workspace.storage.files.digest(file.path),
        }
        if table in document["counters"]:
            document["counters"][table] = frame.height

    rewrite_entry(workspace, file.entry, agree)


def commit(workspace: Workspace, buffers: Buffers, **more: Any) -> None:
    claim = workspace.claim("w2")
    claim.commit(claim.next_folder(), buffers.mapping(), CommitContents(**more))


@pytest.mark.parametrize("deep", [False, True])
def test_a_sound_workspace_has_no_faults(crawled: Workspace, deep: bool) -> None:
    report = verify(crawled, deep=deep)
    assert report.findings == []
    assert report.ok
    assert report.counts["log entries"] == 4
    assert report.counts["pages rows"] == 8
    assert report.summary().endswith("no errors")


def test_an_empty_workspace_has_no_faults(workspace: Workspace) -> None:
    assert verify(workspace, deep=True).findings == []


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


def test_a_commit_under_a_claim_that_was_outranked(crawled: Workspace) -> None:
    rewrite_entry(
        crawled, 2, lambda document: document.update(kind="claim", claim=2, partitions=[[0, 7]])
    )
    assert any(
        "log/00000003.json" in error and "claim 1, which does not hold" in error
        for error in errors(crawled)
    )


def test_a_claim_of_a_partition_that_does_not_exist(crawled: Workspace) -> None:
    rewrite_entry(crawled, 1, lambda document: document.update(partitions=[[0, 8]]))
    assert errors(crawled) == ["log/00000001.json: it claims partition 8, which does not exist"]


@pytest.mark.parametrize("table", ["visits", "pages", "links", "urls", "hosts"])
def test_a_deleted_table_file(crawled: Workspace, table: str) -> None:
    path = table_path(crawled, table)
    os.unlink(path)
    assert any(
        path.endswith(error.partition(":")[0]) and "it is missing" in error
        for error in errors(crawled)
    )


@pytest.mark.parametrize("table", ["visits", "pages", "links", "urls", "hosts"])
def test_one_changed_byte_of_a_table_file(crawled: Workspace, table: str) -> None:
    path = Path(table_path(crawled, table))
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)
    assert any(
        str(path).endswith(error.partition(":")[0]) and "its bytes have changed" in error
        for error in errors(crawled)
    )


def test_a_cut_table_file(crawled: Workspace) -> None:
    path = table_path(crawled, "pages")
    os.truncate(path, 100)
    assert any("it has 100 bytes, but " in error for error in errors(crawled))


def test_a_file_with_other_rows_than_the_log_says(crawled: Workspace) -> None:
    rewrite_entry(crawled, 2, lambda document: document["files"]["pages"][0].update(rows=6))
    assert any("it has 5 rows, but 6 according to the log" in error for error in errors(crawled))


def test_rows_out_of_order(crawled: Workspace) -> None:
    file = crawled.state().files["urls"][0]
    path = crawled.path(file.path)
    pl.read_parquet(path).reverse().write_parquet(path)
    change = {"bytes": os.path.getsize(path), "digest": crawled.storage.files.digest(file.path)}
    rewrite_entry(crawled, file.entry, lambda document: document["files"]["urls"][0].update(change))
    assert any("not sorted" in error for error in errors(crawled))


def test_two_entries_that_name_one_file(crawled: Workspace) -> None:
    entry = json.loads(Path(crawled.path(entry_path(2))).read_text())
    rewrite_entry(
        crawled, 3, lambda document: document["files"].update(urls=entry["files"]["urls"])
    )
    assert any("2 log entries refer to it" in error for error in errors(crawled))


@pytest.mark.parametrize("deep", [False, True])
def test_a_missing_and_a_cut_archive(crawled: Workspace, deep: bool) -> None:
    first, second = crawled.state().warcs
    os.unlink(crawled.path(first))
    os.truncate(crawled.path(second), 50)
    found = errors(crawled, deep=deep)
    assert any(error.startswith(f"{first}: it is missing") for error in found)
    assert any(error.startswith(f"{second}: it has 50 bytes") for error in found)


def test_a_changed_byte_of_an_archive_is_found_by_a_deep_check(crawled: Workspace) -> None:
    name = next(iter(crawled.state().warcs))
    path = Path(crawled.path(name))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert errors(crawled) == []
    found = errors(crawled, deep=True)
    assert any(error.startswith(name) and "its bytes have changed" in error for error in found)
    assert any(error.startswith(name) and "not a valid record" in error for error in found)
    assert any(
        error.startswith(name) and "visits with a wrong record position: 1" in error
        for error in found
    )


def test_a_url_with_two_states(crawled: Workspace) -> None:
    def double(frame: pl.DataFrame) -> pl.DataFrame:
        return pl.concat(
            [frame, frame.head(1).with_columns(pl.col("url_key") ^ 1, state=pl.lit("known"))]
        )

    replace_rows(crawled, "urls", double)
    assert any(
        error.startswith("urls: URLs with more than one state: 1, for example")
        for error in errors(crawled)
    )


def test_a_state_that_is_not_in_the_vocabulary(crawled: Workspace) -> None:
    replace_rows(crawled, "urls", lambda frame: frame.with_columns(state=pl.lit("queued")))
    assert "urls.state: 'queued' is not an allowed value" in errors(crawled)


def test_two_urls_with_one_key(crawled: Workspace) -> None:
    buffers, url = Buffers(), identify(crawled, f"http://{HOST}/page1")
    buffers.add_url(
        url_row(UrlId(f"http://{HOST}/other", url.host, url.host_key, url.url_key, url.partition))
    )
    commit(crawled, buffers)
    found = errors(crawled)
    assert any("URLs with the same key: 1" in error for error in found)
    assert any(
        error.startswith("urls: keys or partitions that do not match the URL: 1") for error in found
    )


def test_an_excluded_url_without_a_reason_and_a_visited_one_without_a_visit(
    crawled: Workspace,
) -> None:
    buffers = Buffers()
    buffers.add_url(url_row(identify(crawled, f"http://{HOST}/x"), "excluded"))
    buffers.add_url(url_row(identify(crawled, f"http://{HOST}/y"), "visited"))
    commit(crawled, buffers)
    found = "\n".join(errors(crawled))
    assert f"excluded URLs without a known reason: 1, for example http://{HOST}/x" in found
    assert f"visited URLs without a row in visits: 1, for example http://{HOST}/y" in found
    assert f"visited URLs without a time: 1, for example http://{HOST}/y" in found


def test_an_exchange_that_was_committed_twice(crawled: Workspace) -> None:
    rows = pl.read_parquet(table_path(crawled, "visits"))
    claim = crawled.claim("w2")
    folder = claim.next_folder()

    class Again:
        rows = 1

        def write(self, path: str) -> None:
            rows.head(1).write_parquet(path)

    claim.commit(folder, {"visits": Again()}, CommitContents(counters={"visits": 1}))
    assert any(error.startswith("visits: duplicate exchanges: 1") for error in errors(crawled))


def test_an_exchange_that_became_two_pages(crawled: Workspace) -> None:
    replace_rows(crawled, "pages", lambda frame: pl.concat([frame, frame.head(1)]))
    assert any(
        error.startswith("pages: exchanges with more than one page in one commit: 1")
        for error in errors(crawled)
    )


def test_a_page_without_a_visit_and_links_without_a_page(crawled: Workspace) -> None:
    buffers = Buffers()
    first, second = identify(crawled, f"http://{HOST}/x"), identify(crawled, f"http://{HOST}/y")
    visit = make_visit(first)
    visit.record_id = "urn:uuid:none"
    buffers.add_page(visit, make_page(1))
    buffers.links.add_links(make_visit(second), make_page(2, ["http://z/"]).links)
    commit(crawled, buffers)
    found = errors(crawled)
    assert any(error.startswith("pages: pages without a row in visits: 1") for error in found)
    assert any(error.startswith("links: links whose source is not a page: 1") for error in found)


def test_a_visit_outside_its_archive_and_one_without(crawled: Workspace) -> None:
    replace_rows(
        crawled,
        "visits",
        lambda frame: frame.with_columns(warc_offset=pl.lit(10**9, dtype=pl.Int64)),
    )
    assert any(
        error.startswith("visits: visits whose position is outside their WARC file: 5")
        for error in errors(crawled)
    )
    replace_rows(
        crawled,
        "visits",
        lambda frame: frame.with_columns(
            warc_offset=pl.lit(0, dtype=pl.Int64),
            warc_file=pl.lit("data/00000001-9/archive.warc.gz"),
        ),
    )
    assert any(
        error.startswith("visits: visits in a WARC file that is not committed: 5")
        for error in errors(crawled)
    )


def test_a_visit_that_points_at_another_record_is_found_by_a_deep_check(crawled: Workspace) -> None:
    replace_rows(crawled, "visits", lambda frame: frame.with_columns(pl.col("warc_offset").first()))
    assert errors(crawled) == []
    assert any(
        "visits with a wrong record position: 4" in error for error in errors(crawled, deep=True)
    )


def test_an_archived_exchange_without_a_visit_is_found_by_a_deep_check(crawled: Workspace) -> None:
    record = pl.read_parquet(table_path(crawled, "visits"))["record_id"][0]
    for table in ("visits", "pages"):
        replace_rows(crawled, table, lambda frame: frame.filter(pl.col("record_id") != record))
    assert any(
        "exchanges without a row in visits: 1" in error for error in errors(crawled, deep=True)
    )


def test_counters_that_do_not_add_up(crawled: Workspace) -> None:
    rewrite_entry(crawled, 2, lambda document: document["counters"].update(visits=4))
    assert errors(crawled) == [
        "log/00000002.json: its counter of visits is 4, but its files have 5 rows"
    ]


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
    assert any(
        error.startswith(f"{table}: keys or partitions that do not match the URL: 1")
        for error in errors(crawled)
    )


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
    found = errors(crawled)
    assert any(
        error.startswith("found: keys or partitions that do not match the URL: 1")
        for error in found
    )
    assert any(
        error.startswith("hosts: keys or partitions that do not match the host: 1")
        for error in found
    )


@pytest.mark.parametrize(
    ("column", "by"), [("known", 1), ("visited", 1), ("known", -1), ("visited", -1)]
)
def test_a_host_that_counts_wrong(crawled: Workspace, column: str, by: int) -> None:
    frame = pl.read_parquet(table_path(crawled, "hosts", 1)).with_columns(pl.col(column) + by)
    claim = crawled.claim("w2")

    class Wrong:
        rows = 1

        def write(self, path: str) -> None:
            frame.write_parquet(path)

    claim.commit(claim.next_folder(), {"hosts": Wrong()})
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
    found = [
        finding
        for finding in verify(crawled, key_sample=3).findings
        if finding.where == "urls" and "keys or partitions" in finding.what
    ]
    assert len(found) == 1


@pytest.fixture
def merged(crawled: Workspace) -> Workspace:
    compact(crawled, whole=True)
    return crawled


def test_a_merged_workspace_has_no_faults(merged: Workspace) -> None:
    report = verify(merged, deep=True)
    assert report.findings == []
    assert report.counts["unreferenced files"] == 0
    assert report.counts["table files"] == 5


def change_merged(workspace: Workspace, change: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
    """Change the rows of the merged `pages` file, and make the log agree."""
    file = workspace.state().files["pages"][0]
    path = workspace.path(file.path)
    frame = change(pl.read_parquet(path))
    frame.write_parquet(path)
    number = next(
        entry.number
        for entry in workspace.log.entries()
        if "pages" in entry.files and entry.kind == "merge"
    )
    agree = {
        "rows": frame.height,
        "bytes": os.path.getsize(path),
        "digest": workspace.storage.files.digest(file.path),
    }
    rewrite_entry(workspace, number, lambda document: document["files"]["pages"][0].update(agree))


def test_a_merged_file_whose_rows_do_not_say_when_they_came(merged: Workspace) -> None:
    change_merged(merged, lambda frame: frame.drop("entry"))
    assert any("it was compacted, but has no column entry" in error for error in errors(merged))


def test_a_merged_file_with_rows_that_came_later_than_it_says(merged: Workspace) -> None:
    change_merged(merged, lambda frame: frame.with_columns(pl.col("entry") + 100))
    assert any("rows of entries after 3" in error for error in errors(merged))


def test_a_merge_that_lost_a_row_is_found(merged: Workspace) -> None:
    change_merged(merged, lambda frame: frame.head(0))
    assert any("links whose source is not a page" in error for error in errors(merged))


def test_a_merged_file_that_is_gone(merged: Workspace) -> None:
    path = merged.state().files["urls"][0].path
    os.unlink(merged.path(path))
    assert any(error.startswith(f"{path}: it is missing") for error in errors(merged))


def test_replaced_files_may_be_gone_and_merged_ones_may_be_left(merged: Workspace) -> None:
    vacuum(merged, keep_replaced_ms=0, now_ms=4_000_000_000_000)
    merged.storage.make_folder("delta/00000001-left")
    Path(merged.path("delta/00000001-left/urls.parquet")).write_bytes(b"half")
    report = verify(merged, deep=True)
    assert report.findings == []
    assert report.counts["unreferenced files"] == 1


def test_excluded_rows_that_are_still_stored_are_noted(crawled: Workspace) -> None:
    exclude(crawled, [f"prefix:http://{HOST}/page1"])
    report = verify(crawled, deep=True)
    assert report.ok
    assert {finding.where: finding.what for finding in report.findings}["visits"].endswith(": 1")
    purge(crawled)
    assert verify(crawled, deep=True).findings == []
