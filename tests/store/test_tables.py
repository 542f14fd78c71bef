"""Rows in Parquet files: types, order, row groups, unusual text."""

from __future__ import annotations

import ast
import errno
import subprocess
import sys
from pathlib import Path

import polars as pl
import polars.selectors as cs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.core.host_row import HostRow, RobotsEntry
from lycosa.core.records import Alternate, Link, Metadata, Page, UrlId, UrlRow, UrlState, Visit
from lycosa.store.tables.buffers import Buffers, LinksBuffer, TableBuffer
from lycosa.store.tables.files import (
    PASSING_GROUP_BYTES,
    polars_schema,
    with_main_text,
    write_table,
)
from lycosa.store.tables.rows import (
    found_row,
    host_record,
    host_row,
    match_row,
    metadata_row,
    page_row,
    url_record,
    url_row,
    visit_row,
)
from lycosa.store.tables.schema import METADATA, PAGES, SORT, TABLES, VISITS

ROOT = Path(__file__).parents[2]
_texts = st.text(max_size=8)
_u64 = st.integers(0, 2**64 - 1)
_times = st.integers(0, 2**42)
_counts = st.integers(0, 2**40)
_ids = st.builds(UrlId, _texts, st.just("host"), _u64, _u64, st.integers(0, 4095))
_url_rows = st.builds(
    UrlRow,
    _ids,
    _texts,
    _counts,
    _texts,
    st.sampled_from(list(UrlState)),
    _texts,
    _times,
    st.floats(allow_nan=False),
    *[_times] * 3,
    _texts,
    _counts,
    _texts,
    *[_counts] * 3,
    *[_texts] * 3,
)
_robots = st.lists(
    st.builds(RobotsEntry, _texts, st.integers(0, 999), _times, _times, _texts), max_size=2
)
_host_rows = st.builds(
    HostRow,
    _texts,
    st.integers(0, 4095),
    _u64,
    _texts,
    *[_times] * 2,
    *[_texts] * 2,
    _robots,
    _counts,
    _times,
    st.floats(allow_nan=False),
    *[_counts] * 5,
    st.none() | _counts,
    st.dictionaries(_texts, _counts, max_size=2),
)


def make_visit(url_key: int = 1) -> Visit:
    return Visit(f"http://a/{url_key}", "a", 1, 1, url_key, "page", "default", 0, 1, 1)


def buffer_frame(name: str, rows: list[tuple[object, ...]]) -> pl.DataFrame:
    """Return rows as a reader of the table gets them, with times in milliseconds."""
    buffer = TableBuffer(name)
    buffer.extend(rows)
    return buffer.frame().with_columns(cs.datetime().dt.epoch("ms"))


@given(st.lists(_url_rows, max_size=4))
def test_url_rows_are_read_as_written(rows: list[UrlRow]) -> None:
    frame = buffer_frame("urls", [url_row(row) for row in rows])
    assert [url_record(row, "host") for row in frame.iter_rows()] == rows


@given(st.lists(_host_rows, max_size=4))
def test_host_rows_are_read_as_written(rows: list[HostRow]) -> None:
    frame = buffer_frame("hosts", [host_row(row) for row in rows])
    assert [host_record(row) for row in frame.iter_rows()] == rows


def test_every_table_starts_with_the_keys_and_describes_every_column() -> None:
    for table in TABLES.values():
        assert (table.names[:3], len(set(table.names))) == (SORT, len(table.names))
        assert {*table.key, *table.source} <= set(table.names)
        assert all(len(column.meaning) > 5 for column in table.columns)
        assert all(isinstance(kind, pl.DataType) for kind in polars_schema(table).values())
    assert set(VISITS.names) == set(Visit.__dataclass_fields__)
    derived = {
        "partition",
        "host_key",
        "url_key",
        "url",
        "fetched_at",
        "collection",
        "redirect_from",
        "record_id",
        "plugin_values",
    }
    of_other_tables = {"links", "refused", "metadata", "items"}
    assert set(PAGES.names) - derived == set(Page.__dataclass_fields__) - of_other_tables
    assert set(METADATA.names) - derived == set(Metadata.__dataclass_fields__)


def test_rows_have_one_value_per_column() -> None:
    url = UrlRow(UrlId("http://a/", "a", 1, 2, 3), "default", 0)
    visit = make_visit(2)
    rows = {
        "visits": visit_row(visit),
        "pages": page_row(visit, Page()),
        "metadata": metadata_row(visit, Metadata()),
        "urls": url_row(url),
        "hosts": host_row(HostRow("a", 3, 1, "a", 1)),
        "found": found_row(url, source="http://b/", anchor="x", kind="a"),
        "matches": match_row(visit, "w", "text", [1, 2], 2, "a text"),
    }
    for name, row in rows.items():
        assert buffer_frame(name, [row]).shape == (1, len(TABLES[name].columns))


def test_only_times_of_zero_become_null() -> None:
    [row] = buffer_frame(
        "urls", [url_row(UrlRow(UrlId("http://a/", "a", 0, 0, 0), "default", 0))]
    ).iter_rows(named=True)
    assert {name for name, value in row.items() if value is None} == {
        "state_at",
        "not_before",
        "first_seen_at",
        "visited_at",
        "captured_at",
        "redirect_from",
    }


def test_files_are_sorted_by_key_and_rows_of_one_url_keep_their_order(tmp_path: Path) -> None:
    buffer = TableBuffer("urls")
    for turn in range(3):
        for key in (7, 2**64 - 1, 3, 5):
            buffer.add(
                url_row(
                    UrlRow(UrlId(f"http://{key}/", "", key % 4, key, turn % 2), "default", turn)
                )
            )
    buffer.write(str(tmp_path / "x"))
    order = pl.read_parquet(tmp_path / "x").select(*SORT, "depth").rows()
    assert [row[:3] for row in order] == sorted(row[:3] for row in order)
    by_key: dict[object, list[int]] = {}
    for row in order:
        by_key.setdefault(row[:3], []).append(row[3])
    assert all(depths == sorted(depths) for depths in by_key.values())


def test_links_of_many_pages_keep_page_and_position_together(tmp_path: Path) -> None:
    buffers = Buffers()
    expected: list[tuple[object, ...]] = []
    for number in range(450):  # more than one batch of the buffer
        visit = Visit(
            f"http://a/{number}",
            "a",
            number % 3,
            1,
            number,
            "page",
            "default",
            0,
            1_000 + number,
            1,
        )
        links = [
            Link(
                f"http://b/{number}/{position}",
                f"anchor {position}",
                "nofollow" * (position % 2),
                "a",
                position,
            )
            for position in range(number % 5)
        ]
        buffers.links.add_links(visit, links)
        expected.extend((number % 3, 1, number, visit.url, *link, 1_000 + number) for link in links)
    assert buffers.links.rows == len(expected)
    buffers.links.write(str(tmp_path / "links"))
    frame = pl.read_parquet(tmp_path / "links").with_columns(cs.datetime().dt.epoch("ms"))
    assert frame.rows() == sorted(expected, key=lambda row: str(row[0]) + f"{row[2]:>9}")
    assert dict(pl.read_parquet_schema(tmp_path / "links")) == polars_schema(TABLES["links"])


def test_links_buffer_accepts_single_rows() -> None:
    buffer = LinksBuffer()
    buffer.add((1, 2, 3, "http://a/", "http://b/", "", "", "a", 0, 5))
    buffer.add_links(
        Visit("http://c/", "c", 1, 2, 3, "page", "default", 0, 5, 1),
        [Link("http://d/", "", "", "a", 0)],
    )
    buffer.add_links(Visit("http://e/", "e", 1, 2, 3, "page", "default", 0, 5, 1), [])
    assert (buffer.rows, sorted(buffer.frame()["source"])) == (2, ["http://a/", "http://c/"])
    assert buffer.rows == 2


@pytest.mark.parametrize(
    ("text", "main_text", "main_lines"),
    [
        ("", "", []),
        ("a", "", []),
        ("a", "a", [0, 1]),
        ("menu\nfirst\nsecond\nfoot", "first\nsecond", [1, 3]),
        ("menu\nfirst\naside\nsecond\nfoot", "first\nsecond", [1, 2, 3, 4]),
        ("a\n\nb", "\nb", [1, 3]),
        ("é\nü", "ü", [1, 2]),
        ("a", "something else", []),
    ],
)
def test_main_text_is_stored_as_lines_of_the_text(
    tmp_path: Path, text: str, main_text: str, main_lines: list[int]
) -> None:
    path, buffers = str(tmp_path / "pages"), Buffers()
    visit = make_visit()
    buffers.add_page(visit, Page(text=text, main_text=main_text, main_lines=main_lines))
    buffers.pages.write(path)
    rows = pl.scan_parquet(path)
    assert rows.collect()["main_text"].to_list() == [None if main_lines else main_text]
    assert with_main_text(rows, TABLES["pages"]).collect().equals(buffers.pages.frame())


@pytest.mark.parametrize(
    ("characters", "expected"),
    [(10, 500), (100_000, PASSING_GROUP_BYTES // 200_000), (20_000_000, 1)],
)
def test_row_groups_of_pages_are_small_and_smaller_when_pages_are_large(
    tmp_path: Path, characters: int, expected: int
) -> None:
    count = 1_100 if characters < 100_000 else 90 if characters < 1_000_000 else 2
    buffers = Buffers()
    text = "x" * characters
    for number in range(count):
        page = Page(text=text, main_text=text, alternates=[Alternate("de", "http://a/de")])
        buffers.add_page(make_visit(number), page)
    buffers.pages.write(str(tmp_path / "pages"))
    assert pl.scan_parquet(tmp_path / "pages").select(pl.len()).collect().item() == count
    pyarrow = pytest.importorskip(
        "pyarrow.parquet", reason="pyarrow reads the row groups; it is in the dev extra"
    )
    metadata = pyarrow.ParquetFile(tmp_path / "pages").metadata
    largest = max(metadata.row_group(index).num_rows for index in range(metadata.num_row_groups))
    assert expected * 0.9 <= largest <= expected


def test_a_row_of_the_wrong_length_is_refused() -> None:
    buffer = TableBuffer("urls")
    buffer.add((1, 2, 3))
    with pytest.raises(ValueError, match="a row has 3 values, the table has 31 columns"):
        buffer.frame()


def test_lone_surrogates_are_replaced() -> None:
    visit = Visit("http://a/\udcff", "a", 1, 1, 1, "page", "default", 0, 1, 1)
    buffers = Buffers()
    buffers.add_page(
        visit, Page(title="a\ud800b", headings=["c\udfff", 'quoted "\x00"'], text="fine 🕷")
    )
    [row] = buffers.pages.frame().iter_rows(named=True)
    assert (row["url"], row["title"], row["text"]) == ("http://a/\ufffd", "a\ufffdb", "fine 🕷")
    assert row["headings"] == ["c\ufffd", 'quoted "\x00"']


@given(
    st.lists(
        st.lists(st.text(st.sampled_from('a\x1f"é'), max_size=2), max_size=3),
        min_size=1,
        max_size=4,
    )
)
def test_lists_of_texts_are_read_as_written(headings: list[list[str]]) -> None:
    buffers = Buffers()
    visit = make_visit()
    for each in headings:
        buffers.add_page(visit, Page(headings=each))
    assert buffers.pages.frame()["headings"].to_list() == headings


def test_buffers_report_their_size() -> None:
    buffers = Buffers()
    visit = make_visit()
    for _ in range(200):
        buffers.add_page(visit, Page(text="x" * 10_000))
    assert buffers.pages.rows == 200
    assert 2_000_000 <= buffers.bytes < 2_500_000


def test_write_table_sorts_rows(tmp_path: Path) -> None:
    frame = buffer_frame(
        "urls", [url_row(UrlRow(UrlId(f"http://{n}/", "", n, n, 1), "c", 0)) for n in (3, 1, 2)]
    )
    write_table(frame, str(tmp_path / "x"), TABLES["urls"])
    assert pl.read_parquet(tmp_path / "x")["url"].to_list() == [
        "http://1/",
        "http://2/",
        "http://3/",
    ]


_SIZE_LIMITED = """
import os, resource, sys
import polars as pl
from lycosa.store.tables.files import polars_schema, write_rows, write_table
from lycosa.store.tables.schema import VISITS

rows = pl.DataFrame(schema=polars_schema(VISITS)).clear(3)
rows = rows.with_columns(pl.lit("http://a.example/").alias("url"))
rows = pl.concat([rows, rows])
path = sys.argv[1]
WRITERS = (
    lambda: write_table(rows, path, VISITS),
    lambda: write_rows(path, iter([rows]), VISITS, passing=False),
)
for write in WRITERS:
    write()
    size, seen = os.path.getsize(path), {}
    for limit in range(0, size, 7):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        try:
            write()
            seen["written"] = limit
        except OSError as error:
            seen[error.errno, error.filename] = limit
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print(size, seen)
"""


def test_file_size_limit_is_an_os_error_with_the_path_at_any_size(
    tmp_path: Path,
) -> None:
    run = subprocess.run(
        [sys.executable, "-c", _SIZE_LIMITED, str(tmp_path / "a")],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    lines = run.stdout.splitlines()
    assert len(lines) == 2
    for line in lines:
        assert list(ast.literal_eval(line.split(" ", 1)[1])) == [(errno.EFBIG, str(tmp_path / "a"))]
