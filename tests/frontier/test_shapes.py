"""Which group of pages an address belongs to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.frontier.traps.shapes import MAX_FOLDERS, shape_of


@pytest.mark.parametrize(
    ("path", "groups"),
    [
        ("/", ("/*",)),
        ("/a.html", ("/*",)),
        ("/17.html", ("/{n}",)),
        ("/whatsnew/3.10.html", ("/whatsnew/*", "/whatsnew/")),
        ("/a/b/c.html", ("/a/b/*", "/a/b/", "/a/")),
        ("/a/b/", ("/a/b/*", "/a/b/", "/a/")),
        ("/a/b/c/d/e/f", ("/a/b/c/**", "/a/b/c/", "/a/b/", "/a/")),
        ("/2024/05/story", ("/{n}/{n}/*", "/{n}/{n}/", "/{n}/")),
        ("/calendar/2024-05-01", ("/calendar/{n}", "/calendar/")),
        ("/s/0a1b2c3d4e5f60718293a4b5/x", ("/s/{id}/*", "/s/{id}/", "/s/")),
        ("/shop?size=m&color=red&size=l", ("/shop?color&size", "/shop?", "/*?")),
        (
            "/shop/shoes/1234?color=red",
            ("/shop/shoes/{n}?color", "/shop/shoes/{n}?", "/shop/shoes/", "/shop/"),
        ),
        ("/a/?x=1", ("/a/*?x", "/a/*?", "/a/")),
    ],
)
def test_groups(path: str, groups: tuple[str, ...]) -> None:
    assert shape_of(path).groups == groups


@pytest.mark.parametrize(
    ("path", "numbered", "query", "dated"),
    [
        ("/a/b", False, False, False),
        ("/a/12", True, False, False),
        ("/a?b=1", True, True, False),
        ("/2024/05/x", True, False, True),
        ("/c?date=2024-05-01", True, True, True),
        ("/c?month=5", True, True, True),
        ("/news/2024/story", True, False, False),
        ("/2024-story", False, False, False),
    ],
)
def test_what_is_variable(path: str, numbered: bool, query: bool, dated: bool) -> None:
    shape = shape_of(path)
    assert (shape.numbered, shape.query, shape.dated) == (numbered, query, dated)


@given(st.text("/ab1?&=%-.", max_size=60))
def test_any_path_has_few_groups(tail: str) -> None:
    groups = shape_of("/" + tail).groups
    assert 1 <= len(groups) <= MAX_FOLDERS + 3
    assert len(set(groups)) == len(groups)
