"""The choice of files, played through for years: how often a byte is written again, and how many
files there are.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.store.compaction.plan import (
    CompactionSettings,
    base_path,
    base_place,
    delta_path,
    effective_levels,
    plan,
)
from lycosa.store.storage.files import DataFile

KIB = 2**10


def loose(number: int, size: int, path: str = "") -> DataFile:
    return DataFile(path or f"data/00000001-{number}/urls.parquet", 1, size, "", number)


def simulate(
    sizes: list[int], *, keeps: float, settings: CompactionSettings, table: str = "urls"
) -> tuple[float, int]:
    """Commits of these sizes; `keeps` of what is folded outlives it. Returns bytes rewritten for
    one that came, most files.
    """
    files: list[DataFile] = []
    written = most = 0
    for number, size in enumerate(sizes, 1):
        files.append(loose(number, size))
        while (due := plan(files, settings, table)) is not None:
            folded = max(1, int(sum(file.bytes for file in due.files) * keeps))
            written += folded
            path = (
                base_path("c", 0, due.as_of, "a" * 32, "urls")
                if due.into_base
                else delta_path(due.as_of, "a" * 32, "urls")
            )
            rest = [file for file in files if file not in due.files]
            files = sorted(
                [*rest, DataFile(path, 1, folded, "", due.as_of)], key=lambda file: file.entry
            )
        most = max(most, len(files))
    return written / sum(sizes), most


@pytest.mark.parametrize("size", [4 * KIB, 500 * KIB, 5_000 * KIB])
@pytest.mark.parametrize("keeps", [1.0, 0.5])
@pytest.mark.parametrize(("table", "bound"), [("urls", 9), ("pages", 8)])
def test_what_came_is_written_again_a_bounded_number_of_times(
    size: int, keeps: float, table: str, bound: int
) -> None:
    """Half a year of commits: 20,000 at this size are 10 to 100 GB of pages."""
    chooser = random.Random(1)
    sizes = [int(size * chooser.uniform(0.1, 3)) for _ in range(20_000)]
    rewritten, most = simulate(sizes, keeps=keeps, settings=CompactionSettings(), table=table)
    assert rewritten < bound
    assert most <= 3 * 32


def test_without_levels_files_would_be_written_again_far_more_often() -> None:
    """The bound above means something: folding two by two into the base breaks it."""
    rewritten, _ = simulate(
        [500 * KIB] * 2_000, keeps=1.0, settings=CompactionSettings(gather=2, base_share=10**6)
    )
    assert rewritten > 100


@given(st.lists(st.integers(0, 2**36), max_size=60), st.integers(2, 40))
def test_levels_never_rise_towards_newer_files(sizes: list[int], ratio: int) -> None:
    levels = effective_levels(sizes, ratio)
    assert levels == sorted(levels, reverse=True)
    assert all(
        size < 64 * KIB * ratio ** (level + 1) for size, level in zip(sizes, levels, strict=True)
    )


@given(st.lists(st.integers(1, 2**30), max_size=80), st.integers(0, 5), st.booleans())
def test_what_is_folded_are_neighbours_up_to_the_newest(
    sizes: list[int], based: int, whole: bool
) -> None:
    files = [
        loose(number, size, base_path("c", number, 1, "a" * 32, "urls") if number < based else "")
        for number, size in enumerate(sizes)
    ]
    due = plan(files, CompactionSettings(gather=4), "urls", whole=whole)
    if due is None:
        assert not whole or len(sizes) <= based
        return
    assert list(due.files) == files[len(files) - len(due.files) :]
    assert due.into_base == (len(due.files) == len(files)) or based == 0
    assert due.as_of == files[-1].entry


def test_places_in_the_base_are_read_from_paths() -> None:
    assert base_place(base_path("news", 3, 812, "0123456789abcdef", "urls")) == ("news", 3)
    assert (
        base_path("news", 3, 812, "0123456789abcdef", "urls")
        == "base/news/p03/00000812-0123456789ab/urls.parquet"
    )
    assert base_place(base_path("_", 4_095, 1, "a" * 32, "links")) == ("_", 4_095)
    assert base_place(delta_path(812, "0123456789abcdef", "urls")) is None
    assert base_place("data/00000001-1/urls.parquet") is None
