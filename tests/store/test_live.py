"""Live rows compared with a model in dicts; SQL queries; missing files and columns."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.core.errors import UsageError, WorkspaceError
from lycosa.core.host_row import HostRow
from lycosa.core.records import Link, UrlId, UrlRow, Visit
from lycosa.store.exclusion.purge import exclude
from lycosa.store.log.claim import Claim
from lycosa.store.log.transaction import CommitContents
from lycosa.store.tables.buffers import Buffers
from lycosa.store.tables.files import polars_schema
from lycosa.store.tables.live import LiveTables
from lycosa.store.tables.rows import found_row
from lycosa.store.tables.schema import TABLES
from lycosa.store.workspace import Workspace
from tests.store.builders import commit_pages, commit_urls, make_page, make_visit

_key = st.integers(0, 4)
_collection = st.sampled_from(["a", "b"])
_actions = st.one_of(
    st.tuples(st.just("page"), _key, _collection, st.integers(0, 3)),
    st.tuples(st.just("redirect"), _key, _collection, _key),
    st.tuples(st.just("url"), _key, _collection, st.integers(0, 9)),
    st.tuples(st.just("host"), _key, st.just(""), st.integers(0, 9)),
    st.tuples(st.just("found"), _key, _collection, st.integers(0, 9)),
)
commit_lists = st.lists(
    st.tuples(st.lists(_actions, max_size=8), st.dictionaries(_key, st.integers(0, 3), max_size=2)),
    max_size=5,
)


def url_id(key: int) -> UrlId:
    """Return the URL with this key; two consecutive URLs share a host and a partition."""
    return UrlId(f"http://h{key // 2}/{key}", f"h{key // 2}", key // 2, key, key // 2)


@dataclass
class Model:
    """The expected live rows."""

    pages: dict[tuple[str, int], str] = field(default_factory=dict)
    links: dict[int, list[str]] = field(default_factory=dict)
    urls: dict[tuple[str, int], int] = field(default_factory=dict)
    hosts: dict[str, int] = field(default_factory=dict)
    visits: list[int] = field(default_factory=list)
    found: list[tuple[int, int, int]] = field(default_factory=list)  # key, priority, entry
    applied: dict[int, int] = field(default_factory=dict)


def apply_commits(
    workspace: Workspace, commits: list[tuple[list[tuple[str, int, str, int]], dict[int, int]]]
) -> Model:
    """Commit generated rows and return their model.

    Each commit has actions, and per partition by how many entries its applied cursor lags.
    """
    model, claim, clock = Model(), workspace.claim("w"), 1_000
    for actions, lags in commits:
        buffers, entry = Buffers(), claim.state.head + 1
        for kind, key, collection, value in actions:
            clock += 1
            url = url_id(key)
            if kind == "page":
                visit = make_visit(url, at=clock, collection=collection)
                page = make_page(clock, [f"http://t/{clock}/{number}" for number in range(value)])
                buffers.add_visit(visit)
                buffers.add_page(visit, page)
                buffers.links.add_links(visit, page.links)
                model.visits.append(clock)
                model.pages[collection, key] = page.title
                model.links[key] = [link.target for link in page.links]
            elif kind == "redirect":
                visit = make_visit(url, at=clock, collection=collection)
                target = f"http://t/{clock}"
                buffers.add_visit(visit)
                buffers.links.add_links(visit, [Link(target, "", "", "redirect", 0)])
                model.visits.append(clock)
                model.links[key] = [target]
            elif kind == "url":
                buffers.add_url(UrlRow(url, collection, value))
                model.urls[collection, key] = value
            elif kind == "host":
                buffers.add_host(
                    HostRow(url.host, url.partition, url.host_key, "h", 1, known=value)
                )
                model.hosts[url.host] = value
            else:
                buffers.found.add(
                    found_row(
                        UrlRow(url, collection, 1, priority=float(value)),
                        source="http://s/",
                        anchor="",
                        kind="a",
                    )
                )
                model.found.append((key, value, entry))
        applied = {partition: max(0, entry - lag) for partition, lag in lags.items()}
        claim.commit(claim.next_folder(), buffers.mapping(), CommitContents(applied=applied))
        model.applied.update(applied)
    return model


@settings(max_examples=60)
@given(commit_lists)
def test_live_rows_match_the_model(
    commits: list[tuple[list[tuple[str, int, str, int]], dict[int, int]]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        workspace = Workspace.create(folder, partitions=8)
        model = apply_commits(workspace, commits)
        live = LiveTables(workspace)
        pages = live.scan("pages").select("collection", "url_key", "title").collect()
        assert {
            (collection, key): title for collection, key, title in pages.iter_rows()
        } == model.pages
        assert pages.height == len(model.pages)
        links: dict[int, list[str]] = {}
        for key, target in (
            live.scan("links").sort("position").select("url_key", "target").collect().iter_rows()
        ):
            links.setdefault(key, []).append(target)
        assert links == {key: targets for key, targets in model.links.items() if targets}
        urls = live.scan("urls").select("collection", "url_key", "depth").collect()
        assert {
            (collection, key): depth for collection, key, depth in urls.iter_rows()
        } == model.urls
        assert urls.height == len(model.urls)
        deep = (
            live.scan("urls").filter(pl.col("depth") > 4).select("collection", "url_key").collect()
        )
        assert set(deep.iter_rows()) == {key for key, depth in model.urls.items() if depth > 4}
        assert dict(live.scan("hosts").select("host", "known").collect().iter_rows()) == model.hosts
        visits = live.scan("visits").select(pl.col("fetched_at").dt.epoch("ms")).collect()
        assert sorted(visits["fetched_at"]) == model.visits
        results = live.scan("found", entry=True).select("url_key", "priority", "entry").collect()
        unapplied = [
            (key, float(priority), entry)
            for key, priority, entry in model.found
            if entry > model.applied.get(key // 2, 0)
        ]
        assert sorted(results.iter_rows()) == sorted(unapplied)


def test_tables_without_files_are_empty_and_have_their_columns(workspace: Workspace) -> None:
    live = LiveTables(workspace)
    for name, table in TABLES.items():
        frame = live.scan(name).collect()
        assert dict(frame.schema) == polars_schema(table)
        assert frame.height == 0
        assert live.scan(name, entry=True).collect().columns == [*table.names, "entry"]


def test_rows_have_the_entry_that_committed_them(workspace: Workspace, claim: Claim) -> None:
    commit_pages(workspace, claim, [1])
    commit_pages(workspace, claim, [2])
    commit_pages(workspace, claim, [1], at=1_800_000_000_000)
    live = LiveTables(workspace)
    assert sorted(live.scan("pages", entry=True).select("url", "entry").collect().iter_rows()) == [
        ("http://www.example.org/page1", 4),
        ("http://www.example.org/page2", 3),
    ]
    assert live.all_rows("pages").select("entry").collect()["entry"].to_list() == [2, 3, 4]


def test_live_tables_keep_their_log_version_until_refreshed(
    workspace: Workspace, claim: Claim
) -> None:
    commit_pages(workspace, claim, [1])
    live = LiveTables(workspace)
    commit_pages(workspace, claim, [2])
    assert live.scan("pages").collect().height == 1
    live.state.refresh()
    assert live.scan("pages").collect().height == 2


def test_batches_return_the_rows_of_a_scan_one_file_at_a_time(
    workspace: Workspace, claim: Claim
) -> None:
    for at, numbers in enumerate([[1, 2, 3], [2], [4, 5], [1, 5]]):
        commit_pages(workspace, claim, numbers, at=1_700_000_000_000 + 1_000 * at)
    live = LiveTables(workspace)
    for name in TABLES:
        batches = list(live.batches(name))
        together = pl.concat([pl.DataFrame(schema=polars_schema(TABLES[name])), *batches])
        assert together.equals(live.scan(name).collect()), name
    titles = [sorted(batch["title"].to_list()) for batch in live.batches("pages", ["title"])]
    assert titles == [["Page 3"], ["Page 2"], ["Page 4"], ["Page 1", "Page 5"]]


def test_sql_joins_live_tables(workspace: Workspace, claim: Claim) -> None:
    commit_pages(workspace, claim, [1, 2])
    commit_pages(workspace, claim, [1], at=1_800_000_000_000)
    frame = LiveTables(workspace).sql(
        "SELECT p.title, count(*) AS out FROM pages p JOIN links l ON p.url = l.source WHERE "
        "l.kind = 'a' GROUP BY p.title ORDER BY p.title"
    )
    assert frame.rows() == [("Page 1", 2), ("Page 2", 2)]


def test_sql_reads_only_the_tables_that_it_names(workspace: Workspace) -> None:
    commit_pages(workspace, workspace.claim("w"), [1])
    live = LiveTables(workspace)
    os.unlink(workspace.path(live.state.files["pages"][0].path))
    assert live.sql("SELECT count(*) AS n FROM urls").item() == 1
    with pytest.raises(WorkspaceError, match="lycosa check"):
        live.sql("SELECT count(title) AS n FROM pages")


@pytest.mark.parametrize(
    ("query", "names"),
    [
        (
            "SELECT * FROM page",
            "visits, pages, metadata, items, links, urls, hosts, found, matches",
        ),
        (
            "SELECT titel FROM pages",
            "pages has partition, host_key, url_key, url, fetched_at, collection, title",
        ),
        ("SELECT p.titel FROM pages p, urls u", "urls has"),
        ("SELEC 1", "the tables are"),
        ("", "the tables are"),
        ("SELECT nosuch(url) FROM urls", "urls has"),
        ("SELECT url + 1 FROM urls", "urls has"),
    ],
)
def test_failed_sql_query_lists_available_names(
    workspace: Workspace, query: str, names: str
) -> None:
    commit_pages(workspace, workspace.claim("w"), [1])
    with pytest.raises(UsageError, match="SQL query failed") as refusal:
        LiveTables(workspace).sql(query)
    assert names in str(refusal.value)


def test_an_unknown_table_is_refused(workspace: Workspace) -> None:
    with pytest.raises(UsageError, match="unknown table 'page'; the tables are visits"):
        LiveTables(workspace).scan("page")


def test_older_files_without_a_newer_column_are_read_with_nulls(
    workspace: Workspace, tmp_path: Path
) -> None:
    commit_pages(workspace, workspace.claim("w"), [1])
    live = LiveTables(workspace)
    path = workspace.path(live.state.files["pages"][0].path)
    pl.read_parquet(path).drop("faults").with_columns(pl.lit(1).alias("later")).write_parquet(path)
    frame = live.scan("pages").collect()
    assert (frame.columns, frame["faults"].to_list()) == (list(TABLES["pages"].names), [None])


def test_visit_keeps_every_field(workspace: Workspace, claim: Claim) -> None:
    visit = replace(
        make_visit(url_id(3), at=1_700_000_000_123, collection="a"),
        depth=2,
        duration_ms=45,
        ip="127.0.0.1",
        protocol="h2",
        http_status=503,
        error="reset",
        content_type="text/html",
        content_length=12_345,
        server="nginx",
        redirect_to="http://x/",
        etag='"e"',
        last_modified="Mon",
        digest="sha1:X",
        changed=False,
        links_count=7,
        referrer="http://r/",
        attempt=3,
        truncated="length",
        record_id="urn:uuid:1",
        warc_file="data/w",
        warc_offset=10,
        warc_length=20,
    )
    buffers = Buffers()
    buffers.add_visit(visit)
    claim.commit(claim.next_folder(), buffers.mapping())
    [row] = (
        LiveTables(workspace)
        .scan("visits")
        .with_columns(pl.col("fetched_at").dt.epoch("ms"))
        .collect()
        .iter_rows(named=True)
    )
    assert Visit(**row) == visit


@pytest.mark.parametrize("rules", [[], ["host:h1.example.org", "prefix:http://h2.example.org/2"]])
def test_large_files_are_read_in_parts(
    workspace: Workspace, claim: Claim, monkeypatch: pytest.MonkeyPatch, rules: list[str]
) -> None:
    # The smallest parts have 1,000 rows.
    monkeypatch.setattr("lycosa.store.tables.live._BATCH_BYTES", 1)
    for start in (0, 1_500):
        commit_urls(
            workspace,
            claim,
            [
                f"http://h{number % 5}.example.org/{number}"
                for number in range(start, start + 2_500)
            ],
        )
    exclude(workspace, rules)
    live = LiveTables(workspace)
    parts = list(live.batches("urls"))
    assert len(parts) >= 4
    assert max(part.height for part in parts) <= 1_000
    assert pl.concat(parts).equals(live.scan("urls").collect())
    changed = list(live.changes("urls", 2, ["url"]))
    assert len(changed) > 1
    newer = live.all_rows("urls").filter(pl.col("entry") > 2).select("url", "entry").collect()
    assert pl.concat(changed).equals(newer)
    assert (
        sum(part.height for part in live.ordered("urls", ["url"], memory_bytes=1))
        == live.scan("urls").collect().height
    )
