"""Power cuts between disk operations lose no committed data.

The operations are those of commits, index generations, compaction, purges, vacuum and of a crawl.
"""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from lycosa.archive.warc.reader import read_exchanges
from lycosa.commands.crawling.crawl import CrawlOrder, crawl
from lycosa.config.reading import parse_config
from lycosa.config.settings import Collection
from lycosa.core.errors import ArchiveError
from lycosa.index.shards.shards import current_generation
from lycosa.store.compaction.vacuum import vacuum
from lycosa.store.log.claim import Claim
from lycosa.store.log.entry import new_attempt
from lycosa.store.log.snapshot import INTERVAL, read_snapshot, write_header, write_snapshot, wrote
from lycosa.store.tables.live import LiveTables
from lycosa.store.verify.check import verify
from lycosa.store.workspace import Workspace
from tests.crawl.conftest import page
from tests.servers.nginx import Nginx, Server, nginx
from tests.trust.disk import ContentChange, Disk, Recorder, UnsyncedData, write_tree
from tests.trust.scenario import (
    LATER,
    History,
    append_exclusions,
    assert_recovers,
    make_workspace,
    new_history,
    run_scenario,
)

SEED = 20261122
STRIDE = int(os.environ.get("LYCOSA_CUT_STRIDE", "1"))


Recorded = tuple[History, Recorder]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    workspace = make_workspace(str(tmp_path_factory.mktemp("scenario") / "w"))
    history, recorder = new_history(workspace), Recorder(workspace.root)
    run_scenario(workspace, history, recorder)
    assert history.head > INTERVAL
    return history, recorder


def cut_at(
    recorded: Recorded,
    root: Path,
    moments: list[int],
    unsynced: UnsyncedData,
    chance: random.Random,
) -> int:
    """Cut the power at these moments; return the number of disk states."""
    history, recorder = recorded
    disk, done, seen = Disk(), 0, set()
    for moment in moments:
        for change in recorder.changes[done:moment]:
            disk.apply(change)
        done = moment
        left = disk.cut(unsynced, chance)
        durable = recorder.durable(moment)
        key = hash((frozenset(left.items()), frozenset(durable.items())))
        if key in seen:
            continue
        seen.add(key)
        write_tree(left, root / "w")
        assert_recovers(
            history,
            root / "w",
            durable,
            f"power cut before change {moment}; unsynced data: {unsynced.value}",
        )
        shutil.rmtree(root / "w")
    return len(seen)


@pytest.mark.proves("durability-power-cut")
def test_power_cut_loses_no_committed_data(recorded: Recorded, tmp_path: Path) -> None:
    chance = random.Random(SEED)
    _, recorder = recorded
    for unsynced in (UnsyncedData.NOTHING, UnsyncedData.ZEROS, UnsyncedData.RANDOM):
        assert cut_at(
            recorded,
            tmp_path,
            [chance.randrange(recorder.start, len(recorder.changes) + 1)],
            unsynced,
            chance,
        )


def test_header_of_an_old_snapshot_is_synced(tmp_path: Path) -> None:
    storage = Workspace.create(str(tmp_path / "w"), partitions=8).storage
    storage.make_folder("log")
    attempts = [new_attempt() for _ in range(INTERVAL)]
    assert write_snapshot(storage, INTERVAL, attempts, {})
    recorder = Recorder(storage.root)
    with recorder.recording():
        write_header(storage, INTERVAL, attempts)
    write_tree(
        Disk(recorder.changes).cut(UnsyncedData.NOTHING, random.Random(SEED)), tmp_path / "cut"
    )
    left = Workspace.open(str(tmp_path / "cut")).storage
    assert read_snapshot(left, INTERVAL) is None
    assert wrote(left, INTERVAL, 1, attempts[0])


@pytest.mark.proves("durability-power-cut")
@pytest.mark.prove
def test_power_cut_during_deletion_of_old_entries_loses_no_committed_data(tmp_path: Path) -> None:
    """The headers of old snapshots are kept: they record which entries were written."""
    workspace = Workspace.create(str(tmp_path / "w"), partitions=8)
    (tmp_path / "w" / "log").mkdir()
    (tmp_path / "w" / "run").mkdir()
    state = workspace.state()
    append_exclusions(state, 3 * INTERVAL + 5)
    recorder, chance = Recorder(workspace.root), random.Random(SEED)
    with recorder.recording():
        assert (
            vacuum(workspace, keep_replaced_ms=0, keep_entries_ms=0, now_ms=LATER).entries
            == 2 * INTERVAL - 1
        )
    moments = {
        recorder.start,
        *(chance.randrange(recorder.start, len(recorder.changes)) for _ in range(3)),
        len(recorder.changes),
    }
    for moment in sorted(moments):
        disk = Disk(recorder.changes[:moment])
        for unsynced in (UnsyncedData.NOTHING, UnsyncedData.NAMES, UnsyncedData.RANDOM):
            write_tree(disk.cut(unsynced, chance), tmp_path / "cut")
            left = Workspace.open(str(tmp_path / "cut"))
            assert left.state().head == state.head
            report = verify(left)
            assert report.ok, (
                f"power cut before change {moment}; unsynced data: {unsynced.value}: {report.findings}"
            )
            assert left.claim("successor").entry == state.head + 1
            shutil.rmtree(left.root)


@pytest.mark.proves("durability-power-cut")
@pytest.mark.prove
@pytest.mark.parametrize("unsynced", list(UnsyncedData), ids=lambda unsynced: unsynced.name.lower())
def test_power_cut_between_any_two_operations_loses_no_committed_data(
    recorded: Recorded, tmp_path: Path, unsynced: UnsyncedData
) -> None:
    _, recorder = recorded
    done = cut_at(
        recorded,
        tmp_path,
        list(range(recorder.start, len(recorder.changes) + 1, STRIDE)),
        unsynced,
        random.Random(SEED),
    )
    print(
        f"{done} disks of {len(recorder.changes) - recorder.start} changes by {recorder.calls} "
        "calls"
    )
    assert done > 50 // STRIDE


PAGES = 40
CRAWL_SETTINGS = (
    "crawl.commit_pages=8",
    "crawl.commit_interval=150ms",
    "crawl.patience=3s",
    "index.heap=15MiB",
    "index.threads=1",
)


@dataclass
class Web:
    server: Nginx

    @property
    def urls(self) -> set[str]:
        return {
            f"{self.home}{name}" for name in ("", *(f"{number}.html" for number in range(1, PAGES)))
        }

    @property
    def home(self) -> str:
        return f"http://127.0.3.1:{self.server.port}/"


def run_crawl(root: str, web: Web) -> None:
    chosen = Collection.model_validate(
        {"traps": False, "delay": 0, "courtesy_factor": 0.0, "backoff": "100ms"}
    )
    progress = crawl(
        CrawlOrder(
            root, parse_config("", overrides=CRAWL_SETTINGS), chosen, (web.home,), index=True
        )
    )
    assert progress.ended == "finished"


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    root = tmp_path_factory.mktemp("site")
    (root / "index.html").write_text(page("/1.html", "/2.html", text="home"))
    for number in range(1, PAGES):
        links = [
            f"/{other}.html"
            for other in (2 * number + 1, 2 * number + 2, number + 1)
            if other < PAGES
        ]
        (root / f"{number}.html").write_text(page(*links, text=f"text of page {number}"))
    with ExitStack() as stack:
        yield Web(
            stack.enter_context(
                nginx([Server("127.0.3.1", root, index="index.html", autoindex=False)])
            )
        )


@pytest.fixture(scope="module")
def recorder(web: Web, tmp_path_factory: pytest.TempPathFactory) -> Recorder:
    """Record a whole crawl; each commit that returned is marked as durable."""
    root = str(tmp_path_factory.mktemp("crawl") / "w")
    Workspace.create(root, partitions=8)
    recorder = Recorder(root)
    commit: Callable[..., int] = Claim.commit

    def commit_and_mark(claim: Claim, *arguments: object, **options: object) -> int:
        entry = commit(claim, *arguments, **options)
        recorder.mark("entry", entry)
        return entry

    with pytest.MonkeyPatch.context() as patch, recorder.recording():
        patch.setattr(Claim, "commit", commit_and_mark)
        run_crawl(root, web)
    return recorder


def assert_crawl_continues_after_cut(
    recorder: Recorder,
    web: Web,
    root: Path,
    moment: int,
    unsynced: UnsyncedData,
    chance: random.Random,
) -> None:
    why = f"power cut before change {moment}; unsynced data: {unsynced.value}"
    write_tree(Disk(recorder.changes[:moment]).cut(unsynced, chance), root)
    workspace = Workspace.open(str(root))
    assert workspace.state().head >= recorder.durable(moment).get("entry", 0), why
    report = verify(workspace, deep=True)
    assert report.ok, f"{why}: {report.findings}"
    committed = {
        row["url"]
        for row in LiveTables(workspace).scan("visits").collect().to_dicts()
        if row["kind"] == "page"
    }
    mark = web.server.mark()
    run_crawl(str(root), web)
    again = {request.url for request in web.server.requests(mark)} & committed
    assert not again, f"{why}: committed and fetched again: {again}"
    visits = LiveTables(workspace).scan("visits").collect().to_dicts()
    assert Counter(row["url"] for row in visits if row["kind"] == "page") == Counter(web.urls), why
    assert Counter(LiveTables(workspace).scan("pages").collect()["url"]) == Counter(web.urls), why
    report = verify(workspace, deep=True)
    assert report.ok, f"{why}: {report.findings}"
    index = current_generation(str(root))
    assert index is not None
    assert index.documents == PAGES, why
    shutil.rmtree(root)


@pytest.mark.proves("durability-power-cut")
def test_crawl_resumes_after_a_power_cut(recorder: Recorder, web: Web, tmp_path: Path) -> None:
    chance = random.Random(SEED)
    for unsynced in (UnsyncedData.NOTHING, UnsyncedData.RANDOM):
        moment = chance.randrange(recorder.start, len(recorder.changes))
        assert_crawl_continues_after_cut(recorder, web, tmp_path / "w", moment, unsynced, chance)


@pytest.mark.proves("durability-power-cut")
def test_crawl_resumes_after_a_power_cut_that_zeroed_the_open_archive(
    recorder: Recorder, web: Web, tmp_path: Path
) -> None:
    commit = recorder.marks[0][0]
    written = [
        number
        for number, change in enumerate(recorder.changes[:commit])
        if isinstance(change, ContentChange) and is_gzip(change.content)
    ]
    disk = Disk(recorder.changes[: written[-1] + 1])
    write_tree(disk.cut(UnsyncedData.ZEROS, random.Random(SEED)), tmp_path / "cut")
    assert not all(map(is_readable, (tmp_path / "cut").glob("data/*/archive.warc.gz")))
    assert_crawl_continues_after_cut(
        recorder, web, tmp_path / "w", written[-1] + 1, UnsyncedData.ZEROS, random.Random(SEED)
    )


def is_readable(archive: Path) -> bool:
    try:
        list(read_exchanges(archive))
    except ArchiveError:
        return False
    return True


def is_gzip(content: bytes) -> bool:
    return content.startswith(b"\x1f\x8b")


@pytest.mark.proves("durability-power-cut")
@pytest.mark.prove
@pytest.mark.parametrize("unsynced", list(UnsyncedData), ids=lambda unsynced: unsynced.name.lower())
def test_crawl_resumes_after_any_of_many_power_cuts(
    recorder: Recorder, web: Web, tmp_path: Path, unsynced: UnsyncedData
) -> None:
    chance = random.Random(SEED)
    moments = range(recorder.start, len(recorder.changes) + 1)
    for moment in sorted(chance.sample(moments, min(60, len(moments)))):
        assert_crawl_continues_after_cut(recorder, web, tmp_path / "w", moment, unsynced, chance)
