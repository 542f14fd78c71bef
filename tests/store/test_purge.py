"""Exclusion hides rows at once; purge deletes them and changes nothing else."""

from __future__ import annotations

import json
import os
from contextlib import nullcontext
from pathlib import Path

import polars as pl
import pytest

from lycosa.archive.cdxj import write_cdxj
from lycosa.archive.warc.reader import read_exchanges, read_response
from lycosa.archive.warc.writer import WarcWriter
from lycosa.core.errors import WorkspaceError
from lycosa.core.host_row import HostRow
from lycosa.core.records import UrlState
from lycosa.store.compaction.compact import compact
from lycosa.store.compaction.plan import CompactionSettings
from lycosa.store.compaction.vacuum import vacuum
from lycosa.store.exclusion import purge as purging
from lycosa.store.exclusion.purge import exclude, purge
from lycosa.store.log.claim import Claim
from lycosa.store.log.state import LogState
from lycosa.store.log.transaction import CommitContents
from lycosa.store.tables.buffers import Buffers
from lycosa.store.tables.files import write_rows
from lycosa.store.tables.live import LiveTables
from lycosa.store.verify.check import verify
from lycosa.store.workspace import Workspace
from tests.store.builders import identify, make_exchange, make_page, make_visit, url_row
from tests.store.facts import facts, readers_agree, same

BAD, GOOD = "bad.example.com", "good.example.org"
SECRET = b"THE-SECRET-OF-BAD"


def commit_both(
    workspace: Workspace, claim: Claim, numbers: range, at: int = 1_700_000_000_000
) -> int:
    """Commit pages of both hosts alternately, with an archive and its index."""
    folder, buffers, visits = claim.next_folder(), Buffers(), []
    writer = WarcWriter(
        Path(workspace.path(folder.warc)), relative_path=folder.warc, info={"software": "test"}
    )
    for number in numbers:
        for host in (BAD, GOOD):
            url = identify(workspace, f"http://{host}/p{number % 3}/{number}")
            visit = make_visit(url, at=at + number)
            body = os.urandom(200) + (SECRET if host == BAD else b"")
            writer.append(make_exchange(url.url, body, at + number), visit)
            page = make_page(number, [f"http://{host}/x{number}", f"http://{BAD}/"])
            buffers.add_visit(visit)
            buffers.add_page(visit, page)
            buffers.links.add_links(visit, page.links)
            buffers.add_url(
                url_row(url, UrlState.VISITED, visited_at=visit.fetched_at, digest=visit.digest)
            )
            visits.append(visit)
    seen = LiveTables(workspace).scan("urls").collect()
    for host in (BAD, GOOD):
        first = identify(workspace, f"http://{host}/")
        expected = set(seen.filter(pl.col("host_key") == first.host_key)["url"]) | {
            visit.url for visit in visits if visit.host == host
        }
        domain = host.partition(".")[2]
        buffers.add_host(
            HostRow(
                host,
                first.partition,
                first.host_key,
                domain,
                at,
                visited=len(expected),
                pages=len(expected),
            )
        )
    writer.close(sync=True)
    write_cdxj(workspace.path(folder.cdxj), visits, record_types=writer.record_types)
    count = len(visits)
    return claim.commit(
        folder,
        buffers.mapping(),
        CommitContents(
            warc=folder.warc,
            cdxj=folder.cdxj,
            counters={"visits": count, "pages": count, "urls": count},
        ),
    )


def secrets(workspace: Workspace) -> list[str]:
    """Return the paths of files that contain any data of the bad host."""
    results = []
    for path in sorted(Path(workspace.root).rglob("*")):
        if path.name.endswith(".warc.gz"):
            exchanges = list(read_exchanges(path))
            bad = any(
                SECRET in stored.exchange.body or BAD in stored.exchange.url for stored in exchanges
            )
        elif path.suffix == ".parquet":
            frame = pl.read_parquet(path)
            bad = any(
                f"//{BAD}" in str(value)
                for column in ("url", "source")
                if column in frame
                for value in frame[column]
            )
        elif path.suffix == ".cdxj":
            bad = BAD in path.read_text().replace("example,bad", BAD)
        else:
            bad = False
        if bad:
            results.append(str(path.relative_to(workspace.root)))
    return results


def good_rows(workspace: Workspace) -> dict[str, pl.DataFrame]:
    """Return the live rows of the good host, without positions in archives."""
    frames = {}
    for name, frame in facts(workspace).items():
        column = next(column for column in ("host", "url", "source") if column in frame.columns)
        good = frame.filter(pl.col(column).str.contains(GOOD, literal=True))
        frames[name] = good.drop("warc_file", "warc_offset") if name == "visits" else good
    return frames


def assert_archive_matches(workspace: Workspace) -> None:
    """Assert that every visit and every index line refers to its own record."""
    visits = LiveTables(workspace).scan("visits").collect()
    for row in visits.iter_rows(named=True):
        stored = read_response(
            workspace.path(row["warc_file"]), row["warc_offset"], row["warc_length"]
        )
        assert stored.url == row["url"]
        assert stored.headers["warc-record-id"] == f"<{row['record_id']}>"
    indexed = 0
    for path in workspace.state().indexes:
        for line in Path(workspace.path(path)).read_text().splitlines():
            fields = json.loads(line.split(" ", 2)[2])
            warc = os.path.join(os.path.dirname(workspace.path(path)), fields["filename"])
            assert (
                read_response(warc, int(fields["offset"]), int(fields["length"])).url
                == fields["url"]
            )
            indexed += 1
    assert indexed == visits.height


@pytest.fixture
def claim(workspace: Workspace) -> Claim:
    """A claim with two commits of pages of both hosts."""
    claim = workspace.claim("w")
    commit_both(workspace, claim, range(4))
    commit_both(workspace, claim, range(2, 7), at=1_700_000_100_000)
    return claim


@pytest.mark.proves("consistency-exclusion")
def test_exclusion_hides_rows_from_every_reader_immediately(
    workspace: Workspace, claim: Claim
) -> None:
    follower, before = LogState(workspace.log), good_rows(workspace)
    follower.refresh()
    entry = exclude(workspace, [f"host:{BAD}"])
    assert exclude(workspace, [f"host:{BAD}"]) == entry
    [seen] = follower.refresh()
    assert (seen.kind, seen.exclusions) == ("exclude", (f"host:{BAD}",))
    assert follower.excluded(f"http://{BAD}/x", BAD)
    assert not follower.excluded(f"http://{GOOD}/x", GOOD)
    shown = facts(workspace)
    assert all(
        BAD not in set(shown[name]["url"].str.split("/").list.get(2))
        for name in ("visits", "pages", "urls")
    )
    assert set(shown["hosts"]["host"]) == {GOOD}
    assert same(before, good_rows(workspace))
    assert readers_agree(workspace)
    assert LiveTables(workspace).sql("SELECT count(*) AS n FROM visits").item() == 9
    assert sum(part.height for part in LiveTables(workspace).changes("pages", 0)) == 9
    report = verify(workspace, deep=True)
    assert report.ok
    assert {finding.where for finding in report.findings} == {
        "visits",
        "pages",
        "metadata",
        "links",
        "urls",
        "hosts",
    }
    assert secrets(workspace)
    commit_both(workspace, claim, range(1))  # by a worker that has not read the exclusion yet
    assert LiveTables(workspace).sql("SELECT count(*) AS n FROM visits").item() == 10


@pytest.mark.proves("consistency-purge")
@pytest.mark.parametrize("compaction", ["none", "due", "full"])
@pytest.mark.parametrize("rule", [f"host:{BAD}", "domain:example.com", f"prefix:http://{BAD}/"])
def test_purge_removes_all_bytes_of_excluded_pages_and_no_others(
    workspace: Workspace, claim: Claim, rule: str, compaction: str
) -> None:
    if compaction != "none":
        compact(workspace, CompactionSettings(gather=2), whole=compaction == "full")
    before = good_rows(workspace)
    retained = {
        stored.visit.record_id: stored
        for path in workspace.state().warcs
        for stored in read_exchanges(workspace.path(path))
    }
    report = purge(workspace, [rule])
    assert report.complete
    assert (report.records, (report.archives, report.rows["visits"])) == (9 * 3, (2, 9))
    assert secrets(workspace) == []
    assert same(before, good_rows(workspace))
    assert_archive_matches(workspace)
    remaining = {
        stored.visit.record_id: stored
        for path in workspace.state().warcs
        for stored in read_exchanges(workspace.path(path))
    }
    assert {record: stored.exchange for record, stored in remaining.items()} == {
        record: stored.exchange
        for record, stored in retained.items()
        if GOOD in stored.exchange.url
    }
    checked = verify(workspace, deep=True)
    assert checked.ok
    assert [finding for finding in checked.findings if finding.where != "hosts"] == []
    head = workspace.state().head
    again = purge(workspace, [rule])
    assert (again.entry, again.records, again.complete) == (0, 0, True)
    assert workspace.state().head == head
    commit_both(workspace, claim, range(7, 8))
    assert secrets(workspace) != []
    purge(workspace)
    assert secrets(workspace) == []
    compact(workspace, whole=True)
    assert_archive_matches(workspace)
    assert verify(workspace, deep=True).ok


def test_prefix_rule_purges_part_of_a_host(workspace: Workspace, claim: Claim) -> None:
    report = purge(workspace, [f"prefix:https://{GOOD}/p1/"])
    assert report.rows["visits"] == report.rows["pages"] == 2
    urls = LiveTables(workspace).scan("urls").select("url").collect()["url"]
    assert not any("/p1/" in url for url in urls if GOOD in url)
    assert any("/p1/" in url for url in urls if BAD in url)
    assert_archive_matches(workspace)
    assert verify(workspace, deep=True).ok


def test_archive_with_only_excluded_records_is_deleted(workspace: Workspace, claim: Claim) -> None:
    purge(workspace, [f"host:{BAD}", f"host:{GOOD}"])
    state = workspace.state()
    assert (dict(state.warcs), dict(state.indexes)) == ({}, {})
    assert {name for name, files in state.files.items() if files} == set()
    assert [
        path for path in workspace.storage.files_below("data") if not path.startswith("log")
    ] == []
    assert verify(workspace, deep=True).ok
    assert workspace.claim("successor").orphans() == []


@pytest.mark.proves("access-links")
@pytest.mark.parametrize("linked", ["data", "data/00000001-1"])
def test_files_behind_a_link_to_a_folder_are_not_changed(
    workspace: Workspace, claim: Claim, tmp_path: Path, linked: str
) -> None:
    """An untrusted log may refer to any file behind the link: files there are only read."""
    claim.release()
    outside, folder = tmp_path / "outside", Path(workspace.path(linked))
    folder.rename(outside)
    folder.symlink_to(outside)
    before = {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()}
    rows = facts(workspace)
    assert len(before) >= 8
    with pytest.raises(WorkspaceError, match=f"{linked} is a symbolic link to {outside}"):
        purge(workspace, [f"host:{BAD}"])
    head = workspace.state().head
    compact(workspace, whole=True)
    assert workspace.state().head > head
    # Links inside a folder are not listed, so vacuum ignores the files behind them.
    refusal = pytest.raises(WorkspaceError, match="is a symbolic link")
    with refusal if linked == "data" else nullcontext():
        vacuum(workspace, keep_replaced_ms=0, now_ms=2**42)
    assert {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()} == before
    assert rows["visits"].height > facts(workspace)["visits"].height > 0


@pytest.mark.proves("consistency-purge")
def test_orphans_of_dead_workers_are_purged_and_those_of_live_workers_are_pending(
    workspace: Workspace, claim: Claim
) -> None:
    folder = claim.next_folder()
    writer = WarcWriter(
        Path(workspace.path(folder.warc)), relative_path=folder.warc, info={"software": "test"}
    )
    for host in (BAD, GOOD):
        visit = make_visit(identify(workspace, f"http://{host}/open"))
        writer.append(make_exchange(visit.url, SECRET if host == BAD else b"good"), visit)
    writer.close()
    with open(workspace.path(folder.warc), "ab") as file:
        file.write(b"\x1f\x8b\x08torn")
    report = purge(workspace, [f"host:{BAD}"])
    assert [path for path, _ in report.pending] == [folder.warc]
    assert secrets(workspace) == [folder.warc]
    assert [orphan.path for orphan in workspace.claim("successor").orphans()] == [folder.warc]
    report = purge(workspace)
    assert report.complete
    assert (report.records, secrets(workspace)) == (3, [])
    assert [stored.exchange.body for stored in read_exchanges(workspace.path(folder.warc))] == [
        b"good"
    ]


def test_archives_left_by_a_killed_purge_are_not_orphans_and_are_vacuumed(
    workspace: Workspace, claim: Claim, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove = workspace.storage.remove

    class Killed(BaseException):
        pass

    def kill(relative: str) -> None:
        raise Killed

    old = list(workspace.state().warcs)
    monkeypatch.setattr(workspace.storage, "remove", kill)
    with pytest.raises(Killed):
        purge(workspace, [f"host:{BAD}"])
    monkeypatch.setattr(workspace.storage, "remove", remove)
    assert workspace.state().retired == set(old)
    assert all(workspace.storage.size(path) for path in old)
    assert workspace.claim("successor").orphans() == []
    report = verify(workspace)
    assert report.ok
    assert {finding.where for finding in report.findings} == set(old)
    vacuum(workspace)
    assert secrets(workspace) == []
    assert_archive_matches(workspace)


def test_purge_restarts_after_a_concurrent_compaction(
    workspace: Workspace, claim: Claim, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = write_rows

    def merge_first(*arguments: object, **more: object) -> int:
        monkeypatch.setattr(purging, "write_rows", write)
        with monkeypatch.context() as patch:
            patch.setattr("lycosa.store.coordination.owner.MAINTENANCE_LOCK", "run/other.lock")
            assert compact(workspace, whole=True).entries
        return write(*arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(purging, "write_rows", merge_first)
    assert purge(workspace, [f"host:{BAD}"]).complete
    assert secrets(workspace) == []
    assert_archive_matches(workspace)
    assert verify(workspace, deep=True).ok
