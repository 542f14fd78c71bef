"""Which URLs are known and how deep they lie, in memory and in a file alike."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from lycosa.core.records import UrlId
from lycosa.frontier.seen.seen_urls import SeenUrls


def url(number: int, host: int = 7, text: str = "") -> UrlId:
    return UrlId(text or f"http://h{host}/{number}", f"h{host}", host, number, 0)


def frame(rows: list[tuple[int, int, int]]) -> pl.DataFrame:
    return pl.DataFrame(
        rows, schema={"url_key": pl.UInt64, "host_key": pl.UInt64, "depth": pl.Int64}, orient="row"
    )


@pytest.fixture(params=["memory", "file", "folded at once"])
def seen_urls(request: pytest.FixtureRequest, tmp_path: Path) -> SeenUrls:
    return {
        "memory": SeenUrls(),
        "file": SeenUrls(str(tmp_path)),
        "folded at once": SeenUrls(str(tmp_path), 1),
    }[request.param]


def test_a_url_is_known_at_its_latest_depth(seen_urls: SeenUrls) -> None:
    assert seen_urls.depth(url(1)) is None
    seen_urls.put(url(1), 4)
    seen_urls.put(url(2), 0)
    seen_urls.put(url(1), 3)
    assert (
        seen_urls.depth(url(1)),
        seen_urls.depth(url(2)),
        seen_urls.depth(url(3)),
        len(seen_urls),
    ) == (
        3,
        0,
        None,
        2,
    )


@pytest.mark.parametrize("depth", [253, 254, 255, 256, 70_000])
def test_any_depth_is_kept(seen_urls: SeenUrls, depth: int) -> None:
    seen_urls.put(url(1), depth)
    assert seen_urls.depth(url(1)) == depth
    seen_urls.load([frame([(2, 7, depth)])])
    assert seen_urls.depth(url(2)) == depth
    seen_urls.put(url(2), 2)
    assert seen_urls.depth(url(2)) == 2


def test_loaded_urls_replace_all_others(seen_urls: SeenUrls) -> None:
    seen_urls.put(url(1), 1)
    seen_urls.load([frame([(10, 7, 1), (20, 7, 300)]), frame([]), frame([(1 << 63, 0xFFF7, 2)])])
    assert len(seen_urls) == 3
    assert [seen_urls.depth(url(number)) for number in (1, 10, 20)] == [None, 1, 300]
    assert seen_urls.depth(url(1 << 63, 0xFFF7)) == 2
    seen_urls.put(url(11), 5)
    assert (seen_urls.depth(url(11)), len(seen_urls)) == (5, 4)


def test_an_equal_key_of_another_hosts_url_is_told(seen_urls: SeenUrls) -> None:
    seen_urls.put(url(1, host=7), 1)
    seen_urls.load([frame([(2, 7, 1)])])
    seen_urls.put(url(3, host=7), 1)
    for number in (2, 3):
        with pytest.raises(KeyError):
            seen_urls.depth(url(number, host=8))
        assert seen_urls.depth(url(number, host=7)) == 1


def test_an_equal_key_on_the_same_host_is_told_until_a_fold(tmp_path: Path) -> None:
    for seen_urls in (SeenUrls(), SeenUrls(str(tmp_path))):
        seen_urls.put(url(1), 1)
        with pytest.raises(KeyError):
            seen_urls.depth(url(1, text="http://h7/other"))
