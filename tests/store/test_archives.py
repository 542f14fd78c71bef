"""Archive files in columns: a dict from paths to files in all but size."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.store.log.archive_files import CDXJ_NAME, WARC_NAME, ArchiveFile, ArchiveFiles

PATHS = st.one_of(
    st.builds(
        "data/{:08d}-{}/{}".format,
        st.integers(0, 40),
        st.integers(0, 5),
        st.sampled_from([WARC_NAME, CDXJ_NAME]),
    ),
    st.sampled_from(
        [
            "data/a.warc.gz",
            "data/00000001-01/archive.warc.gz",
            "data/000000001-1/archive.warc.gz",
            "",
            "data/00000001-1/x",
        ]
    ),
)
FILES = st.builds(
    ArchiveFile,
    st.integers(1, 2**40),
    st.integers(0, 2**50),
    st.one_of(st.integers(0, 2**128 - 1).map("{:032x}".format), st.just("")),
)


@given(st.lists(st.tuples(PATHS, st.none() | FILES), max_size=80), st.lists(PATHS, max_size=5))
@settings(max_examples=300)
def test_they_are_a_dict(changes: list[tuple[str, ArchiveFile | None]], others: list[str]) -> None:
    files, expected = ArchiveFiles(WARC_NAME), dict[str, ArchiveFile]()
    for number, (path, file) in enumerate(changes):
        if file is None:
            assert files.pop(path, None) == expected.pop(path, None)
        else:
            files[path] = expected[path] = file
        if number % 7 == 6:
            files._settle()
        if number % 30 == 29:
            files._compact()
    assert list(files.items()) == list(expected.items())
    assert len(files) == len(expected)
    assert files == expected
    assert files.total_bytes == sum(file.bytes for file in expected.values())
    for path in others:
        assert (path in files) == (path in expected)
        assert files.get(path) == expected.get(path)
    assert set(others) & files.keys() == set(others) & expected.keys()
    again = ArchiveFiles.of_document(WARC_NAME, json.loads(json.dumps(files.document())))
    assert list(again.items()) == list(expected.items())
    assert again.document() == files.document()
    for path in [*others, *expected]:
        assert again.get(path) == expected.get(path)


def test_many_take_little_room() -> None:
    files = ArchiveFiles(WARC_NAME)
    for number in range(30_000):
        files[f"data/{number % 40:08d}-{number}/{WARC_NAME}"] = ArchiveFile(
            number + 1, 10**7, f"{number:032x}"
        )
    assert len(files) == 30_000
    assert len(files._recent) < 8_000
    assert files.nbytes <= 44 * 30_000
    for number in range(0, 30_000, 2):
        del files[f"data/{number % 40:08d}-{number}/{WARC_NAME}"]
    assert list(files.values())[:3] == [
        ArchiveFile(number + 1, 10**7, f"{number:032x}") for number in (1, 3, 5)
    ]
    assert len(files) == 15_000


def test_of_many_a_snapshot_holds_columns() -> None:
    files = ArchiveFiles(WARC_NAME)
    for number in range(1_000):
        files[f"data/00000007-{number}/{WARC_NAME}"] = ArchiveFile(
            2 * number + 1, 10_000 + number, f"{number:032x}"
        )
    document = files.document()
    assert document["folders"] == [7 << 24, *[1] * 999]
    assert document["entries"] == [1, *[2] * 999]
    assert len(json.dumps(document, separators=(",", ":"))) < 45 * 1_000
    for broken in ({"bytes": [1]}, {"folders": [-1]}, {"digests": "xx"}, {"odd": [["x"]]}):
        with pytest.raises((KeyError, TypeError, ValueError, OverflowError)):
            ArchiveFiles.of_document(WARC_NAME, document | broken)
