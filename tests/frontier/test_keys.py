"""Known URLs and their depths: sorted file and dict behave as one dict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.core.records import UrlId
from lycosa.frontier import seen as module
from lycosa.frontier.seen import SeenUrls, SortedKeys

TOPS = st.sampled_from([0, 1, 2, 0x7FFF, 0xFFFE, 0xFFFF])
LOWS = st.sampled_from([0, 1, 2, 0xFFFF, 1 << 40, (1 << 48) - 1])
KEYS = st.one_of(
    st.builds(lambda top, low: top << 48 | low, TOPS, LOWS), st.integers(0, (1 << 64) - 1)
)
PAYLOADS = st.integers(0, 0xFFFF)


def array(values: list[int], kind: Any = np.uint64) -> Any:
    return np.array(values, kind)


@given(
    st.lists(st.dictionaries(KEYS, PAYLOADS, max_size=30), max_size=4),
    st.lists(st.tuples(KEYS, PAYLOADS), max_size=60),
    st.integers(1, 20),
    st.lists(KEYS, max_size=20),
    st.booleans(),
    st.integers(1, 20),
)
@settings(max_examples=150)
def test_sorted_keys_behave_like_a_dict(
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[dict[int, int]],
    puts: list[tuple[int, int]],
    merge_at: int,
    others: list[int],
    in_file: bool,
    pack_at: int,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PACK_AT", pack_at)
        check_against_dict(
            str(tmp_path_factory.getbasetemp()) if in_file else None,
            batches,
            puts,
            merge_at,
            others,
        )


def check_against_dict(
    folder: str | None,
    batches: list[dict[int, int]],
    puts: list[tuple[int, int]],
    merge_at: int,
    others: list[int],
) -> None:
    keys = SortedKeys(folder, merge_at)
    model: dict[int, int] = {}
    for batch in batches:
        model = batch | model  # of equal keys the first counts
    keys.load((array(list(batch)), array(list(batch.values()), np.uint16)) for batch in batches)
    assert len(keys) == len(model)
    for key, payload in puts:
        keys.put(key, payload)
        model[key] = payload
    queried = [*model, *others]
    assert len(keys) == len(model)
    assert [keys.get(key) for key in queried] == [model.get(key) for key in queried]
    keys.fold()
    assert [keys.get(key) for key in queried] == [model.get(key) for key in queried]
    keys.close()


def test_long_payloads_are_kept_in_memory() -> None:
    keys = SortedKeys(merge_at=2)
    for key in range(10):
        keys.put(key, key << 20 | 5)
    keys.fold()
    assert [keys.get(key) for key in range(11)] == [*(key << 20 | 5 for key in range(10)), None]
    keys.load([(array([7]), array([9], np.uint16))])
    assert (len(keys), keys.get(7), keys.get(3)) == (1, 9, None)


def test_compaction_keeps_16_bits_of_a_payload(tmp_path: Path) -> None:
    keys = SortedKeys(str(tmp_path))
    keys.put(1, 0xABCD_1234)
    assert keys.get(1) == 0xABCD_1234
    keys.fold()
    assert keys.get(1) == 0x1234
    keys.put(1, 0xABCD_4321)
    assert keys.get(1) == 0x4321


def test_compaction_in_many_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CHUNK", 500)
    random = np.random.default_rng(1)
    numbers = random.integers(0, 1 << 64, 30_000, dtype=np.uint64)
    payloads = random.integers(0, 1 << 16, 30_000, dtype=np.uint16)
    keys = SortedKeys(str(tmp_path))
    keys.load(
        (numbers[start : start + 5_000], payloads[start : start + 5_000])
        for start in range(0, 20_000, 5_000)
    )
    for key, payload in zip(numbers[20_000:].tolist(), payloads[20_000:].tolist(), strict=True):
        keys.put(key, payload)
    assert [keys.get(key) for key in numbers[15_000:25_000].tolist()] == payloads[
        15_000:25_000
    ].tolist()
    keys.fold()
    assert len(keys) == 30_000
    assert [keys.get(key) for key in numbers.tolist()] == payloads.tolist()
    assert {keys.get(key + 1) for key in numbers[:1_000].tolist()} == {None}


def test_files_are_anonymous(tmp_path: Path) -> None:
    keys = SortedKeys(str(tmp_path), merge_at=1)
    keys.put(1, 1)
    keys.load([(array([2]), array([2], np.uint16))])
    keys.put(3, 3)
    assert (list(tmp_path.iterdir()), [keys.get(key) for key in (1, 2, 3)]) == ([], [None, 2, 3])


def test_failed_compaction_is_deferred_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = SortedKeys(str(tmp_path), merge_at=3)
    keys.load([(array([100]), array([1], np.uint16))])
    full = True
    real = module._write

    def write(file: Any, content: bytes) -> None:
        if full:
            raise OSError(28, "No space left on device")
        real(file, content)

    monkeypatch.setattr(module, "_write", write)
    for key in range(5):
        keys.put(key, key)
    with pytest.raises(OSError, match="No space"):
        keys.fold()
    assert [keys.get(key) for key in (*range(5), 100)] == [0, 1, 2, 3, 4, 1]
    full = False
    for key in range(5, 9):
        keys.put(key, key)
    assert [keys.get(key) for key in (*range(9), 100)] == [*range(9), 1]
    assert len(keys._new) < 9


def url(number: int, host: int = 7, text: str = "") -> UrlId:
    return UrlId(text or f"http://h{host}/{number}", f"h{host}", host, number, 0)


def frame(rows: list[tuple[int, int, int]]) -> pl.DataFrame:
    return pl.DataFrame(
        rows, schema={"url_key": pl.UInt64, "host_key": pl.UInt64, "depth": pl.Int64}, orient="row"
    )


@pytest.fixture(params=["memory", "file", "compacted at once"])
def seen_urls(request: pytest.FixtureRequest, tmp_path: Path) -> SeenUrls:
    return {
        "memory": SeenUrls(),
        "file": SeenUrls(str(tmp_path)),
        "compacted at once": SeenUrls(str(tmp_path), 1),
    }[request.param]


def test_depth_is_the_latest_one(seen_urls: SeenUrls) -> None:
    assert seen_urls.depth(url(1)) is None
    seen_urls.put(url(1), 4)
    seen_urls.put(url(2), 0)
    seen_urls.put(url(1), 3)
    assert [seen_urls.depth(url(number)) for number in (1, 2, 3)] == [3, 0, None]
    assert len(seen_urls) == 2


@pytest.mark.parametrize("depth", [253, 254, 255, 256, 70_000])
def test_any_depth_is_stored(seen_urls: SeenUrls, depth: int) -> None:
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


def test_equal_key_of_a_url_of_another_host_is_detected(seen_urls: SeenUrls) -> None:
    seen_urls.put(url(1, host=7), 1)
    seen_urls.load([frame([(2, 7, 1)])])
    seen_urls.put(url(3, host=7), 1)
    for number in (2, 3):
        with pytest.raises(KeyError):
            seen_urls.depth(url(number, host=8))
        assert seen_urls.depth(url(number, host=7)) == 1


def test_equal_key_on_the_same_host_is_detected_before_compaction(tmp_path: Path) -> None:
    for seen_urls in (SeenUrls(), SeenUrls(str(tmp_path))):
        seen_urls.put(url(1), 1)
        with pytest.raises(KeyError):
            seen_urls.depth(url(1, text="http://h7/other"))
