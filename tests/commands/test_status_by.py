"""`status --by` returns the same counts as `sql`."""

from __future__ import annotations

import csv
import functools
import io
import json
from datetime import datetime
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from lycosa.cli.main import app
from lycosa.commands.inspection.hosts import list_hosts
from lycosa.commands.inspection.status_by import Tally, groups_of
from lycosa.config.reading import parse_config
from lycosa.core.host_row import HostRow
from lycosa.store.compaction.compact import compact
from lycosa.store.tables.buffers import Buffers
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from tests.export.library_pages import Fetched, at, commit
from tests.store.builders import identify

ENGLISH = (
    "The dormouse sleeps all winter long under the leaves of the old oak, and wakes when "
    "the first warm days of spring have come."
)
GERMAN = (
    "Die Haselmaus schläft den ganzen Winter unter dem Laub der alten Eiche und wacht auf, "
    "wenn die ersten warmen Tage kommen."
)
CONFIG = (
    '[[collection]]\nname = "de"\nlanguage = "de"\nseeds = '
    '["http://a.example/"]\n[[collection]]\nname = "mixed"\nseeds = ["http://a.example/"]\n'
)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """Workspace with two collections, fetched on several days.

    Some URLs of `mixed` were fetched again: changed, not modified, or without content.
    """
    workspace = Workspace.create(str(tmp_path / "w"), partitions=4)
    claim = workspace.claim("test")
    digests: dict[tuple[str, str], int] = {}
    first = [
        Fetched(
            f"http://h{n % 5}.example:8080/{n}",
            n % 4,
            f"<p>{(ENGLISH, GERMAN)[n % 2]} {n}",
            "mixed",
            second=n,
        )
        for n in range(40)
    ]
    first += [
        Fetched(f"http://d{n % 2}.example/{n}", n % 3, f"<p>{ENGLISH} {n}", "de", second=n)
        for n in range(9)
    ]
    commit(workspace, claim, first, digests)
    later = [
        Fetched(
            f"http://h{n % 5}.example:8080/{n}",
            6,
            None if n % 3 else f"<p>{ENGLISH} again {n}",
            "mixed",
            second=n,
        )
        for n in range(10)
    ]
    commit(workspace, claim, [*later, Fetched("http://h1.example:8080/1", 7, "", "mixed")], digests)
    buffers = Buffers()
    for number in range(5):
        identity = identify(workspace, f"http://h{number}.example:8080/")
        row = HostRow(
            identity.host,
            identity.partition,
            identity.host_key,
            "example",
            at(number // 2),
            pages=number,
            known=3,
            bytes=1000,
        )
        row.server = ("nginx", "apache", "")[number % 3]
        buffers.add_host(row)
    claim.commit(claim.next_folder(), buffers.mapping())
    claim.release()
    return workspace


def test_groups_match_sql_before_and_after_compaction(workspace: Workspace) -> None:
    config = parse_config(CONFIG)
    for _ in range(2):
        sql = LiveTables(workspace).sql
        by_collection = groups_of(workspace, "collection", config, sites=True)
        expected = sql(
            "SELECT collection, COUNT(*) AS n, SUM(size) AS s, COUNT(DISTINCT "
            "host_key) AS h FROM pages GROUP BY collection"
        )
        assert {(row.name, row.pages, row.bytes, row.sites) for row in by_collection.rows} == set(
            expected.iter_rows()
        )
        fetched = (
            "SELECT v.collection, COUNT(*), SUM(v.content_length), MIN(v.fetched_at), "
            "MAX(v.fetched_at) FROM visits v JOIN pages p ON "
            "p.collection = v.collection AND p.url_key = v.url_key WHERE v.http_status = 200 "
            "GROUP BY v.collection"
        )
        assert {
            (row.name, row.fetched, row.fetched_bytes, row.first, row.newest)
            for row in by_collection.rows
        } == set(sql(fetched).iter_rows())
        assert (
            by_collection.total.pages,
            by_collection.total.sites,
            by_collection.total.fetched,
        ) == (49, 7, 53)
        assert [(site.name, site.host, site.pages) for site in by_collection.sites][:2] == [
            ("de", "d0.example", 5),
            ("de", "d1.example", 4),
        ]

        by_language = {row.name: row.pages for row in groups_of(workspace, "language", config).rows}
        rows = sql(
            "SELECT CASE WHEN collection = 'de' THEN 'de' ELSE language END AS name, "
            "COUNT(*) AS n FROM pages GROUP BY name"
        )
        assert by_language == dict(rows.iter_rows())
        by_type = groups_of(workspace, "type", config)
        assert by_type.total.pages == 49
        assert {row.name: row.fetched for row in by_type.rows} == dict(
            sql(
                "SELECT content_type, COUNT(*) FROM visits WHERE http_status = 200 GROUP BY "
                "content_type"
            ).iter_rows()
        )
        compact(workspace, whole=True)


def test_averages_are_per_calendar_day(workspace: Workspace) -> None:
    (mixed,) = (
        row
        for row in groups_of(workspace, "collection", parse_config(CONFIG)).rows
        if row.name == "mixed"
    )
    assert (mixed.first, mixed.newest) == (
        datetime.fromisoformat("2026-11-01T06:00:00Z"),
        datetime.fromisoformat("2026-11-07T06:00:09Z"),
    )
    assert mixed.days == 7
    assert mixed.pages_a_day == round(mixed.fetched / 7, 1) == round(44 / 7, 1)


def test_hosts_are_counted_by_day_and_software(workspace: Workspace) -> None:
    table = list_hosts(workspace.root, count=2)
    assert (
        [host.host for host in table.hosts],
        table.total,
        list(table.new_by_day.values()),
        table.servers,
    ) == (["h4.example", "h3.example"], 5, [2, 2, 1], {"apache": 2, "nginx": 2, "": 1})


def test_status_by_prints_text_json_and_csv(workspace: Workspace) -> None:
    run = functools.partial(_run, "-w", workspace.root, "status", "--by")
    text = run("collection", "--sites")
    assert "total" in text
    assert "h0.example" in text
    assert json.loads(run("language", "--json"))["total"]["pages"] == 49
    lines = list(csv.DictReader(io.StringIO(run("collection", "--csv"))))
    assert {line["collection"]: int(line["pages"]) for line in lines} == {"mixed": 40, "de": 9}
    sites = list(csv.DictReader(io.StringIO(run("collection", "--csv", "--sites"))))
    assert sum(int(line["pages"]) for line in sites) == 49
    assert len(list(csv.DictReader(io.StringIO(run("host", "--csv"))))) == 5
    assert json.loads(run("host", "--json"))["total"] == 5
    assert "hosts discovered per day" in run("host")


def test_empty_workspace_has_empty_tables(tmp_path: Path) -> None:
    workspace = Workspace.create(str(tmp_path / "w"))
    for key in ("language", "collection", "type"):
        table = groups_of(workspace, key, parse_config(""))
        assert (table.rows, table.total.pages, table.total.first) == ([], 0, None)
    assert (
        _run("-w", workspace.root, "status", "--by", "language")
        .splitlines()[-1]
        .startswith("total")
    )
    assert _run("-w", workspace.root, "status", "--by", "host")


def test_tally_aggregates_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:

    monkeypatch.setattr("lycosa.commands.inspection.status_by._MAX_WAITING", 10)
    tally = Tally(["key"], [pl.col("sum").sum(), pl.col("low").min(), pl.col("high").max()])
    for number in range(50):
        tally.add(
            pl.DataFrame(
                {
                    "key": [number % 3, 7],
                    "sum": [number, 1],
                    "low": [number, 5],
                    "high": [number, 5],
                }
            )
        )
    result = tally.result()
    assert result is not None
    assert result.rows() == [
        (key, sum(range(key, 50, 3)), key, 49 - (49 - key) % 3) for key in range(3)
    ] + [(7, 50, 5, 5)]  # fmt: skip


def _run(*words: str) -> str:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == 0, result.output
    return result.output
