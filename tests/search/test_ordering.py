"""The order of results, on made rankings: nothing twice, nothing lost, the same however it is cut
into pages.
"""

from __future__ import annotations

import itertools
import random
from operator import attrgetter

import pytest

from lycosa.search.ranking.ordering import (
    BLOCK,
    MAX_WINDOWS,
    WINDOW,
    Ranked,
    freshness,
    hosts_apart,
    in_windows,
    listing,
)


def ranking(count: int, seed: int, *, hosts: int = 7, groups: int = 10_000) -> list[Ranked[int]]:
    generator = random.Random(seed)
    scores = sorted((generator.random() for _ in range(count)), reverse=True)
    pages = [
        Ranked(score, place, generator.randrange(hosts), generator.randrange(groups))
        for place, score in enumerate(scores)
    ]
    return in_windows(
        [
            Ranked(page.score * generator.choice((1.0, 1.5)), page.place, page.host, page.group)
            for page in pages
        ]
    )


@pytest.mark.parametrize("count", [0, 1, 39, 41, WINDOW - 1, WINDOW, 3 * WINDOW + 5])
@pytest.mark.parametrize("groups", [10_000, 100])
def test_pages_come_from_one_order(count: int, groups: int) -> None:
    ranked = ranking(count, count, groups=groups)
    requests: list[int] = []

    def fetch(limit: int) -> tuple[int, list[Ranked[int]]]:
        requests.append(limit)
        return len(ranked), ranked[:limit]

    whole = listing(fetch, 0, 1_000, per_host=2, folded=True)
    assert whole.total == len({page.group or -page.place - 1 for page in ranked})
    assert len({page.place for page in whole.pages}) == len(whole.pages) == min(1_000, whole.total)
    assert sum(page.copies for page in whole.pages) == len(ranked) - whole.total
    for size in (10, 7):
        cut = [
            page.place
            for start in range(0, len(whole.pages), size)
            for page in listing(fetch, start, size, per_host=2, folded=True).pages
        ]
        assert cut == [page.place for page in whole.pages]
    assert listing(fetch, whole.total, 10, per_host=2, folded=True).pages == []


@pytest.mark.parametrize(("count", "expected"), [(WINDOW, WINDOW - 1), (WINDOW + 1, WINDOW + 1)])
def test_the_total_does_not_depend_on_the_order(count: int, expected: int) -> None:
    """Shards order the last pages of a window otherwise than one index."""

    def total(groups: list[int]) -> int:
        ranked = [Ranked(1.0, place, 1, group) for place, group in enumerate(groups)]
        return listing(lambda limit: (count, ranked[:limit]), 0, 10, per_host=2, folded=True).total

    others = [0] * (count - 2)
    assert {total([7, 7, *others]), total([7, *others, 7]), total([*others, 7, 7])} == {expected}


def test_a_page_is_never_moved_out_of_its_block() -> None:
    ranked = ranking(3 * BLOCK, 5)
    shown = listing(
        lambda limit: (len(ranked), ranked[:limit]), 0, len(ranked), per_host=1, folded=False
    ).pages
    for start in range(0, len(ranked), BLOCK):
        assert {page.place for page in shown[start : start + BLOCK]} == {
            page.place for page in ranked[start : start + BLOCK]
        }


def test_of_each_host_the_first_ones_come_first() -> None:
    block = [
        Ranked(1.0 - place / 100, place, host, 0)
        for place, host in enumerate([1, 1, 1, 2, 1, 3, 2, 2])
    ]
    assert [page.place for page in hosts_apart(block, attrgetter("host"), 2)] == [
        0,
        1,
        3,
        5,
        6,
        2,
        4,
        7,
    ]
    assert [page.place for page in hosts_apart(block, attrgetter("host"), 1)] == [
        0,
        3,
        5,
        1,
        2,
        4,
        6,
        7,
    ]


def test_scores_never_rise_from_window_to_window() -> None:
    ranked = ranking(4 * WINDOW, 9)
    assert all(one.score >= two.score for one, two in itertools.pairwise(ranked))


def test_equal_scores_come_in_one_order_however_they_were_indexed() -> None:
    hosts = list(range(30))
    for seed in range(3):
        random.Random(seed).shuffle(hosts)
        assert [
            page.host
            for page in in_windows(
                [Ranked(1.0, place, host, 7) for place, host in enumerate(hosts)]
            )
        ] == list(range(30))


def test_behind_very_many_copies_the_search_ends() -> None:
    limits: list[int] = []

    def fetch(limit: int) -> tuple[int, list[Ranked[int]]]:
        limits.append(limit)
        return 10**6, [Ranked(1.0, place, 1, 5) for place in range(limit)]

    matches = listing(fetch, 0, 10, per_host=2, folded=True)
    assert [(page.place, page.copies) for page in matches.pages] == [(0, MAX_WINDOWS * WINDOW - 1)]
    assert limits[-1] == MAX_WINDOWS * WINDOW
    assert len(limits) == 5


def test_freshness_falls_by_half_each_week() -> None:
    week = 7 * 86_400_000
    assert [freshness(at, 3 * week) for at in (None, 4 * week, 3 * week, 2 * week, week)] == [
        1.0,
        1.5,
        1.5,
        1.25,
        1.125,
    ]
