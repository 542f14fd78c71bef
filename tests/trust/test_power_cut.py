"""The power goes between any two operations of a commit, an index generation, a merge, a purge, a
sweep, and in a real crawl: what was committed stays, the rest is fetched again.
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
from tests.trust.disk import Disk, Leaves, Recorder, Wrote, lay
from tests.trust.scenario import LATER, Life, append_exclusions, begin, live, new_life, survives

SEED = 20261122
STRIDE = int(os.environ.get("LYCOSA_CUT_STRIDE", "1"))


Recorded = tuple[Life, Recorder]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    workspace = begin(str(tmp_path_factory.mktemp("life") / "w"))
    life, recorder = new_life(workspace), Recorder(workspace.root)
    live(workspace, life, recorder)
    assert life.head > INTERVAL
    return life, recorder


def cut_at(
    recorded: Recorded, root: Path, moments: list[int], leaves: Leaves, chance: random.Random
) -> int:
    """Cut the power at these moments; how many different disks that left."""
    life, recorder = recorded
    disk, done, seen = Disk(), 0, set()
    for moment in moments:
        for change in recorder.changes[done:moment]:
            disk.apply(change)
        done = moment
        left = disk.cut(leaves, chance)
        promised = recorder.promised(moment)
        key = hash((frozenset(left.items()), frozenset(promised.items())))
        if key in seen:
            continue
        seen.add(key)
        lay(left, root / "w")
        survives(
            life,
            root / "w",
            promised,
            f"power cut before change {moment}, which leaves {leaves.value}",
        )
        shutil.rmtree(root / "w")
    return len(seen)


@pytest.mark.proves("durability-power-cut")
def test_a_power_cut_loses_nothing_that_was_promised(recorded: Recorded, tmp_path: Path) -> None:
    chance = random.Random(SEED)
    _, recorder = recorded
    for leaves in (Leaves.NOTHING, Leaves.ZEROS, Leaves.CHANCE):
        assert cut_at(
            recorded,
            tmp_path,
            [chance.randrange(recorder.start, len(recorder.changes) + 1)],
            leaves,
            chance,
        )


def test_the_first_line_of_an_old_snapshot_is_on_the_disk(tmp_path: Path) -> None:
    storage = Workspace.create(str(tmp_path / "w"), partitions=8).storage
    storage.make_folder("log")
    attempts = [new_attempt() for _ in range(INTERVAL)]
    assert write_snapshot(storage, INTERVAL, attempts, {})
    recorder = Recorder(storage.root)
    with recorder.recording():
        write_header(storage, INTERVAL, attempts)
    lay(Disk(recorder.changes).cut(Leaves.NOTHING, random.Random(SEED)), tmp_path / "cut")
    left = Workspace.open(str(tmp_path / "cut")).storage
    assert read_snapshot(left, INTERVAL) is None
    assert wrote(left, INTERVAL, 1, attempts[0])


@pytest.mark.proves("durability-power-cut")
@pytest.mark.prove
def test_a_power_cut_while_old_entries_are_deleted(tmp_path: Path) -> None:
    """Of old snapshots the first lines stay: they say that their entries were written."""
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
        for leaves in (Leaves.NOTHING, Leaves.NAMES, Leaves.CHANCE):
            lay(disk.cut(leaves, chance), tmp_path / "cut")
            left = Workspace.open(str(tmp_path / "cut"))
            assert left.state().head == state.head
            report = verify(left)
            assert report.ok, (
                f"power cut before change {moment}, which leaves {leaves.value}: {report.findings}"
            )
            assert left.claim("heir").entry == state.head + 1
            shutil.rmtree(left.root)


@pytest.mark.proves("durability-power-cut")
@pytest.mark.prove
@pytest.mark.parametrize("leaves", list(Leaves), ids=lambda leaves: leaves.name.lower())
def test_a_power_cut_between_any_two_operations(
    recorded: Recorded, tmp_path: Path, leaves: Leaves
) -> None:
    _, recorder = recorded
    done = cut_at(
        recorded,
        tmp_path,
        list(range(recorder.start, len(recorder.changes) + 1, STRIDE)),
        leaves,
        random.Random(SEED),
    )
    print(
        f"{done} disks of {len(recorder.changes) - recorder.start} changes by {recorder.calls} "
        "calls"
    )
    assert done > 50 // STRIDE


PAGES = 40
SMALL = (
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


def crawl_it(root: str, web: Web) -> None:
    chosen = Collection.model_validate(
        {"traps": False, "delay": 0, "courtesy_factor": 0.0, "backoff": "100ms"}
    )
    progress = crawl(
        CrawlOrder(root, parse_config("", overrides=SMALL), chosen, (web.home,), index=True)
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
    """A whole crawl, recorded; each commit that returned is a promise."""
    root = str(tmp_path_factory.mktemp("crawl") / "w")
    Workspace.create(root, partitions=8)
    recorder = Recorder(root)
    commit: Callable[..., int] = Claim.commit

    def promise(claim: Claim, *arguments: object, **options: object) -> int:
        entry = commit(claim, *arguments, **options)
        recorder.mark("entry", entry)
        return entry

    with pytest.MonkeyPatch.context() as patch, recorder.recording():
        patch.setattr(Claim, "commit", promise)
        crawl_it(root, web)
    return recorder


def assert_a_cut_loses_nothing(
    recorder: Recorder, web: Web, root: Path, moment: int, leaves: Leaves, chance: random.Random
) -> None:
    why = f"power cut before change {moment}, which leaves {leaves.value}"
    lay(Disk(recorder.changes[:moment]).cut(leaves, chance), root)
    workspace = Workspace.open(str(root))
    assert workspace.state().head >= recorder.promised(moment).get("entry", 0), why
    report = verify(workspace, deep=True)
    assert report.ok, f"{why}: {report.findings}"
    committed = {
        row["url"]
        for row in LiveTables(workspace).scan("visits").collect().to_dicts()
        if row["kind"] == "page"
    }
    mark = web.server.mark()
    crawl_it(str(root), web)
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
def test_a_crawl_goes_on_after_a_power_cut(recorder: Recorder, web: Web, tmp_path: Path) -> None:
    chance = random.Random(SEED)
    for leaves in (Leaves.NOTHING, Leaves.CHANCE):
        moment = chance.randrange(recorder.start, len(recorder.changes))
        assert_a_cut_loses_nothing(recorder, web, tmp_path / "w", moment, leaves, chance)


@pytest.mark.proves("durability-power-cut")
def test_a_crawl_goes_on_after_a_power_cut_that_left_zeros_for_the_open_archive(
    recorder: Recorder, web: Web, tmp_path: Path
) -> None:
    commit = recorder.marks[0][0]
    written = [
        number
        for number, change in enumerate(recorder.changes[:commit])
        if isinstance(change, Wrote) and is_gzip(change.content)
    ]
    disk = Disk(recorder.changes[: written[-1] + 1])
    lay(disk.cut(Leaves.ZEROS, random.Random(SEED)), tmp_path / "look")
    assert not all(map(is_readable, (tmp_path / "look").glob("data/*/archive.warc.gz")))
    assert_a_cut_loses_nothing(
        recorder, web, tmp_path / "w", written[-1] + 1, Leaves.ZEROS, random.Random(SEED)
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
@pytest.mark.parametrize("leaves", list(Leaves), ids=lambda leaves: leaves.name.lower())
def test_a_crawl_goes_on_after_any_of_many_power_cuts(
    recorder: Recorder, web: Web, tmp_path: Path, leaves: Leaves
) -> None:
    chance = random.Random(SEED)
    moments = range(recorder.start, len(recorder.changes) + 1)
    for moment in sorted(chance.sample(moments, min(60, len(moments)))):
        assert_a_cut_loses_nothing(recorder, web, tmp_path / "w", moment, leaves, chance)
