"""What is handed on to the owners of other partitions, and how often."""

from __future__ import annotations

import pytest

from lycosa.core.records import UrlId
from lycosa.crawl.admission import remote_links as remote_links
from lycosa.crawl.admission.remote_links import INBOX_LINK, RemoteLinks, Way
from lycosa.crawl.admission.url_filter import FilterResult
from lycosa.frontier.rows.row_positions import within
from lycosa.store.tables.rows import Row

URL = UrlId("http://a.test/x", "a.test", 1, 2, 3)
LINK = Way("http://b.test/", kind="a", anchor="x")


def hands_on(rows: list[Row], again_ms: int | None = None) -> RemoteLinks:
    return RemoteLinks(
        "c",
        frozenset({0, 1}),
        put=rows.append,
        screen=lambda url: FilterResult(),
        again_ms=again_ms,
    )


def test_a_menu_is_sent_once_and_a_shorter_way_again() -> None:
    rows: list[Row] = []
    there = hands_on(rows)
    assert there.send(URL, 5, 1_000, LINK)
    assert not there.send(URL, 5, 2_000, LINK)
    assert not there.send(URL, 7, 3_000, LINK)
    assert len(rows) == 1
    assert not there.send(URL, 4, 4_000, LINK)
    assert not there.send(URL, 5, 5_000, LINK)
    assert [row[9] for row in rows] == [5, 4]
    assert there.was_sent(URL)
    assert not there.was_sent(URL, "feed")  # its row as a feed is another one
    assert there.send(URL, 5, 6_000, LINK, "feed")


def test_a_newer_date_of_change_and_a_submission_are_news() -> None:
    rows: list[Row] = []
    there = hands_on(rows)
    there.send(URL, 1, 1_000, LINK._replace(modified_at=500))
    there.send(URL, 1, 2_000, LINK._replace(modified_at=400))
    there.send(URL, 1, 3_000, LINK._replace(modified_at=600))
    assert [row[-1] for row in rows] == [500, 600]
    for at in (4_000, 5_000):
        there.send(URL, 1, at, Way(kind=INBOX_LINK, first_seen_at=77))
    assert [row[-2] for row in rows[2:]] == [77, 77]


def test_where_links_make_pages_due_they_are_told_again_after_a_while() -> None:
    rows: list[Row] = []
    there = hands_on(rows, again_ms=10_000)
    for at in (0, 5_000, 10_000, 15_000, 20_000):
        there.send(URL, 1, at, LINK)
    assert [row[-2] for row in rows] == [0, 10_000, 20_000]


def test_what_it_remembers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_links, "_REMEMBERED", 10)
    rows: list[Row] = []
    there = hands_on(rows)
    for key in range(100):
        there.send(URL._replace(url_key=key), 1, key, LINK)
    assert sum(there.was_sent(URL._replace(url_key=key)) for key in range(100)) <= 20
    assert there.was_sent(URL._replace(url_key=99))


def test_ranges_are_cut_to_the_partitions_that_are_held() -> None:
    shift = 52
    whole = [(0, 5 << shift), (5 << shift, 1 << 64)]
    assert within(whole, {2, 3, 7}) == [(2 << shift, 4 << shift), (7 << shift, 8 << shift)]
    assert within(whole, {4, 5}) == [(4 << shift, 5 << shift), (5 << shift, 6 << shift)]
    assert within(whole, range(4096)) == whole
    assert within(whole, ()) == []
