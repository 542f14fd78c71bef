"""Depths over links, and names of sites."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.site.checks import folder_tree
from lycosa.site.facts import SiteLinks, depths
from lycosa.url.site_name import site_name


@settings(max_examples=60)
@given(
    st.integers(1, 12).flatmap(
        lambda n: st.tuples(
            st.just(n), st.lists(st.tuples(st.integers(-1, n - 1), st.integers(-1, n - 1)))
        )
    )
)
def test_depths_are_shortest_paths(graph: tuple[int, list[tuple[int, int]]]) -> None:
    count, pairs = graph
    expected = {0: 0}
    for _ in range(count):  # relaxed until nothing falls, as Bellman and Ford have it
        for source, target in pairs:
            if source in expected and target >= 0:
                expected[target] = min(expected.get(target, count), expected[source] + 1)
    links = SiteLinks(*(np.array([pair[place] for pair in pairs], np.int64) for place in (0, 1)))
    assert depths(count, links, np.array([0], np.int64)).tolist() == [
        expected.get(node, -1) for node in range(count)
    ]


@pytest.mark.parametrize(
    ("text", "host", "authority"),
    [
        ("example.org", "example.org", ""),
        ("https://Example.org/a/b?c", "example.org", ""),
        ("example.org:8080", "example.org", "example.org:8080"),
        ("http://[::1]:81/", "[::1]", "[::1]:81"),
    ],
)
def test_sites_are_named_as_people_type(text: str, host: str, authority: str) -> None:
    name = site_name(text)
    assert (name.host, name.authority) == (host, authority)


def test_a_site_holds_its_own_urls_only() -> None:
    urls = pl.DataFrame(
        {"url": ["http://a.b/", "https://a.b:81/x", "http://a.b.c/", "http://axb/", "http://a.b?x"]}
    )
    assert urls.select(site_name("a.b").holds("url"))["url"].to_list() == [
        True,
        True,
        False,
        False,
        True,
    ]
    assert urls.select(site_name("a.b:81").holds("url"))["url"].to_list() == [
        False,
        True,
        False,
        False,
        False,
    ]


def test_folders_hold_what_lies_below_them() -> None:
    nodes = pl.DataFrame(
        {
            "url": [
                "http://a/",
                "http://a/x/y/1",
                "http://a/x/2?z=/q/",
                "http://a/x-1/3",
                "http://a/x/y/gone",
            ],
            "is_page": [True, True, True, True, False],
            "size": [1, 10, 100, 1000, None],
            "verdict": ["", "", "", "", "http_404"],
        }
    )
    folders = [
        (each.path, each.level, each.pages, each.own_pages, each.bytes, each.broken)
        for each in folder_tree(nodes)
    ]
    assert folders == [
        ("/", 0, 4, 1, 1111, 1),
        ("/x/", 1, 2, 1, 110, 1),
        ("/x/y/", 2, 1, 1, 10, 1),
        ("/x-1/", 1, 1, 1, 1000, 0),
    ]
