"""`HostRowReader` returns the rows of the live tables from any files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.core.errors import WorkspaceError
from lycosa.core.host_row import HostRow, RobotsEntry
from lycosa.core.records import UrlId, UrlRow, UrlState
from lycosa.frontier.hosts.directory import HostDirectory
from lycosa.frontier.rows import row_reader as module
from lycosa.frontier.rows.row_reader import HostRowReader, RowChoice, summary
from lycosa.frontier.seen import SeenUrls
from lycosa.store.storage.files import DataFile
from lycosa.store.tables.buffers import Buffers
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from tests.frontier.large import FrameBuffer, Plan, build

HOSTS = [number << 40 | number for number in range(1, 7)]
NEAR_HOSTS = [5 << 40, (5 << 40) + 1]  # share a position in the index
ROW = st.tuples(
    st.sampled_from(HOSTS + NEAR_HOSTS),
    st.integers(1, 6),  # url key
    st.sampled_from(["a", "b"]),
    st.sampled_from(["", "check"]),
    st.integers(0, 5),  # depth
    st.sampled_from(list(UrlState)),
    st.sampled_from([0, 50, 100]),  # not before
)


def row(
    host_key: int,
    url_key: int,
    collection: str,
    operation: str,
    depth: int,
    state: str,
    not_before: int,
) -> UrlRow:
    identity = UrlId(
        f"http://h{host_key}/{url_key}", f"h{host_key}", host_key, url_key, host_key % 3
    )
    referrer = f"http://h{host_key}/a-page-with-a-long-name-{depth}"
    return UrlRow(
        identity,
        collection,
        depth,
        operation,
        state,
        not_before=not_before,
        first_seen_at=7,
        referrer=referrer,
    )


def commit(workspace: Workspace, commits: list[list[tuple[Any, ...]]]) -> None:
    claim = workspace.claim("test")
    for rows in commits:
        buffers = Buffers()
        for fields in rows:
            buffers.add_url(row(*fields))
        claim.commit(claim.next_folder(), buffers.mapping())
    claim.release()


def open_reader(workspace: Workspace, table: str = "urls") -> HostRowReader:
    row_reader = HostRowReader(table, workspace.storage.files.local_path)
    row_reader.refresh(workspace.state().files.get(table, []))
    return row_reader


def equal_rows(result: pl.DataFrame, expected: pl.DataFrame) -> bool:
    key = ["partition", "host_key", "url_key", "collection", "operation"]
    return result.select(expected.columns).sort(key).equals(expected.sort(key))


def columns(frame: pl.DataFrame) -> tuple[Any, Any]:
    return frame["partition"].to_numpy(), frame["host_key"].to_numpy()


@given(
    st.lists(st.lists(ROW, max_size=25), max_size=6),
    st.lists(st.sampled_from([*HOSTS, *NEAR_HOSTS, 99 << 40]), unique=True),
    st.integers(1, 12),
    st.sampled_from([(1, 100_000), (4, 0), (1, 0)]),
    st.sampled_from([0, 3, 100]),
)
@settings(max_examples=60)
def test_reader_agrees_with_the_live_tables(
    tmp_path_factory: pytest.TempPathFactory,
    commits: list[list[tuple[Any, ...]]],
    hosts: list[int],
    pass_rows: int,
    indexed: tuple[int, int],
    near: int,
) -> None:
    workspace = Workspace.create(str(tmp_path_factory.mktemp("w") / "w"), partitions=3)
    commit(workspace, commits)
    live = LiveTables(workspace).scan("urls").collect()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "_STEP": indexed[0],
            "_EXACT_ROWS": indexed[1],
            "_NEAR": near,
            "_READ_AHEAD": 5,
            "PASS_ROWS": pass_rows,
        }.items():
            patch.setattr(module, name, value)
        row_reader = open_reader(workspace)
        frames = list(row_reader.live(["depth", "state", "url"], pass_rows))
        keys = [
            "partition",
            "host_key",
            "url_key",
            "collection",
            "operation",
            "depth",
            "state",
            "url",
        ]
        assert equal_rows(
            pl.concat([live.clear().select(keys), *(frame.select(keys) for frame in frames)]),
            live.select(keys),
        )
        in_frames = [set(frame["host_key"].to_list()) for frame in frames]
        assert sum(map(len, in_frames)) == live["host_key"].n_unique()

        keys_of = np.array(hosts, np.uint64)
        partitions = np.array([host % 3 for host in hosts], np.uint16)
        of_hosts = live.filter(pl.col("host_key").is_in(hosts))
        assert equal_rows(row_reader.rows(partitions, keys_of), of_hosts)

        due = (pl.col("state") == "known") & (
            pl.col("not_before").dt.epoch("ms").fill_null(0) <= 50
        )
        order = [pl.col("depth"), pl.col("url_key"), pl.col("collection"), pl.col("operation")]
        first = (
            of_hosts.filter(due)
            .sort("partition", "host_key", *order)
            .group_by("partition", "host_key", maintain_order=True)
            .head(2)
        )
        assert row_reader.rows(partitions, keys_of, due, RowChoice(order, limit=2)).equals(
            first.select(live.columns)
        )

        some_rows = live.gather_every(3)
        result = row_reader.find(*columns(some_rows), some_rows["url_key"].to_numpy())
        pairs = live.join(
            some_rows.select("host_key", "url_key").unique(), on=["host_key", "url_key"], how="semi"
        )
        assert equal_rows(
            result.join(
                some_rows.select("host_key", "url_key").unique(),
                on=["host_key", "url_key"],
                how="semi",
            ),
            pairs,
        )


def test_only_the_latest_row_is_filtered(tmp_path: Path) -> None:
    workspace = Workspace.create(str(tmp_path / "w"), partitions=3)
    commit(
        workspace,
        [[(HOSTS[0], 1, "a", "", 1, "known", 0)], [(HOSTS[0], 1, "a", "", 1, "visited", 0)]],
    )
    partition, host_key = np.array([HOSTS[0] % 3], np.uint16), np.array([HOSTS[0]], np.uint64)
    assert open_reader(workspace).rows(partition, host_key, pl.col("state") == "known").is_empty()
    assert open_reader(workspace).rows(partition, host_key)["state"].to_list() == ["visited"]


def test_refresh_reads_new_commits_and_each_file_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = Workspace.create(str(tmp_path / "w"), partitions=3)
    row_reader = open_reader(workspace)
    assert list(row_reader.live(["depth"])) == []
    assert row_reader.rows(np.array([0], np.uint16), np.array([HOSTS[0]], np.uint64)).height == 0
    opened: list[str] = []
    real = HostRowReader._open

    def record(self: HostRowReader, file: DataFile) -> Any:
        opened.append(file.path)
        return real(self, file)

    monkeypatch.setattr(HostRowReader, "_open", record)
    for depth in (5, 3):
        commit(workspace, [[(HOSTS[0], 1, "a", "", depth, "known", 0)]])
        row_reader.refresh(workspace.state().files["urls"])
        assert [frame["depth"].to_list() for frame in row_reader.live(["depth"])] == [[depth]]
    assert len(opened) == len(set(opened)) == 2
    row_reader.refresh([])
    assert list(row_reader.live(["depth"])) == []


def test_summary_counts_states_and_returns_the_earliest_due_time(tmp_path: Path) -> None:
    workspace = Workspace.create(str(tmp_path / "w"), partitions=3)
    one, two, three = HOSTS[:3]
    rows = [
        (one, 1, "a", "", 1, "known", 100),
        (one, 2, "a", "", 1, "known", 50),
        (one, 1, "b", "", 1, "visited", 0),
        (two, 1, "b", "", 1, "known", 0),
        (three, 1, "a", "", 1, "excluded", 0),
        (three, 2, "a", "", 1, "visited", 0),
    ]
    commit(workspace, [rows])
    due = {
        "a": pl.when(pl.col("state") == "known")
        .then(pl.col("not_before").dt.epoch("ms"))
        .otherwise(None)
    }
    result = pl.concat(
        [summary(frame, due) for frame in open_reader(workspace).live(["state", "not_before"], 1)]
    )
    by_host = {
        host: tuple(values)
        for host, *values in result.select("host_key", "waiting", "visited", "due_at").iter_rows()
    }
    assert by_host == {one: (2, 1, 50), two: (1, 0, None), three: (0, 1, None)}


def test_host_rows_include_robots_txt(tmp_path: Path) -> None:
    workspace = Workspace.create(str(tmp_path / "w"), partitions=3)
    claim = workspace.claim("test")
    for pages in (1, 2):
        buffers = Buffers()
        for key in HOSTS:
            robots = [
                RobotsEntry(
                    f"http://h{key}",
                    200,
                    5,
                    6,
                    "User-agent: *\nDisallow: /private/ and more than twelve bytes",
                )
            ]
            buffers.add_host(
                HostRow(
                    f"h{key}",
                    key % 3,
                    key,
                    f"h{key}",
                    1,
                    pages=pages,
                    robots=robots,
                    traps={"calendar": 2},
                )
            )
        claim.commit(claim.next_folder(), buffers.mapping())
    live = LiveTables(workspace).scan("hosts").collect()
    result = open_reader(workspace, "hosts").rows(*columns(live))
    assert result.sort("host_key").equals(live.sort("host_key"))
    assert result["pages"].to_list() == [2] * len(HOSTS)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return build(
        str(tmp_path_factory.mktemp("large") / "w"),
        Plan(urls=20_000, hosts=2_000, worker_commits=3),
    )


def test_generated_state_matches_the_plan(large: Workspace) -> None:
    tables = LiveTables(large)
    urls, hosts = tables.scan("urls").collect(), tables.scan("hosts").collect()
    assert (urls.height, hosts.height, urls["url"].n_unique()) == (20_000, 2_000, 20_000)
    assert 400 < (urls["state"] == "visited").sum() < 2_000
    counted = urls.group_by("host_key").agg(
        known=(pl.col("state") == "known").sum(), visited=(pl.col("state") == "visited").sum()
    )
    joined = hosts.join(counted, on="host_key", suffix="_counted")
    assert joined.height == 2_000
    assert (joined["known"] == joined["known_counted"]).all()
    assert (joined["visited"] == joined["visited_counted"]).all()


def test_resume_from_a_large_state(large: Workspace, tmp_path: Path) -> None:
    row_reader = open_reader(large)
    seen_urls, hosts = SeenUrls(str(tmp_path)), HostDirectory(str(tmp_path))

    def frames() -> Any:
        for frame in row_reader.live(["state", "depth"], 3_000):
            hosts.extend(summary(frame, {"default": pl.when(pl.col("state") == "known").then(0)}))
            yield frame

    seen_urls.load(frames())
    live = LiveTables(large).scan("urls").collect()
    assert hosts.waiting.sum() == (live["state"] == "known").sum()
    assert hosts.visited.sum() == (live["state"] == "visited").sum()
    for url, host_key, url_key, partition, depth in (
        live.select("url", "host_key", "url_key", "partition", "depth")
        .sample(500, seed=1)
        .iter_rows()
    ):
        assert seen_urls.depth(UrlId(url, "", host_key, url_key, partition)) == depth
    row_count = 0
    while (slots := hosts.pick(1, 0, 300)).size:
        rows = row_reader.rows(
            hosts.partition[slots],
            hosts.host_key[slots],
            pl.col("state") == "known",
            RowChoice([pl.col("depth")]),
        )
        assert set(rows["host_key"]) == set(hosts.host_key[slots].tolist())
        row_count += rows.height
        hosts.activate(slots)
    assert row_count == (live["state"] == "known").sum()


def test_unsorted_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = Workspace.create(str(tmp_path / "w"), partitions=3)
    claim = workspace.claim("test")
    buffers = Buffers()
    for key in reversed(HOSTS):
        buffers.add_url(row(key, 1, "a", "", 1, "known", 0))
    frame = buffers.urls.frame()
    monkeypatch.setattr(
        "tests.frontier.large.write_table", lambda frame, path, table: frame.write_parquet(path)
    )
    claim.commit(claim.next_folder(), {"urls": FrameBuffer("urls", frame)})
    with pytest.raises(WorkspaceError, match=r"not sorted.*lycosa check"):
        open_reader(workspace)
