"""Archive files in columns: a dict from paths to files in all but size."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.store.log.archive_files import CDXJ_NAME, WARC_NAME, ArchiveFiles, folder_numbers
from lycosa.store.storage.files import DataFile

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
    lambda entry, size, digest: DataFile("", 0, size, digest, entry),
    st.integers(1, 2**40),
    st.integers(0, 2**50),
    st.one_of(st.integers(0, 2**128 - 1).map("{:032x}".format), st.just("")),
)


def in_order(files: dict[str, DataFile]) -> list[tuple[str, DataFile]]:
    """By claim and folder; other forms, and files without a digest, by path at the end."""

    def place(item: tuple[str, DataFile]) -> tuple[bool, tuple[int, int], str]:
        path, file = item
        numbers = folder_numbers(path.split("/")[1]) if path.endswith(f"/{WARC_NAME}") else None
        plain = numbers and path == f"data/{numbers[0]:08d}-{numbers[1]}/{WARC_NAME}"
        return (False, numbers, "") if numbers and plain and file.digest else (True, (0, 0), path)

    return sorted(files.items(), key=place)


@given(st.lists(st.tuples(PATHS, st.none() | FILES), max_size=80), st.lists(PATHS, max_size=5))
@settings(max_examples=300)
def test_they_are_a_dict(changes: list[tuple[str, DataFile | None]], others: list[str]) -> None:
    files, expected = ArchiveFiles(WARC_NAME), dict[str, DataFile]()
    for number, (path, file) in enumerate(changes):
        if file is None:
            assert files.pop(path, None) == expected.pop(path, None)
        else:
            files[path] = expected[path] = file._replace(path=path)
        if number % 7 == 6:
            files._merged()
    for path in others:
        assert files.get(path) == expected.get(path)
    assert list(files.items()) == in_order(expected)
    assert len(files) == len(expected)
    assert files == expected
    assert files.total_bytes == sum(file.bytes for file in expected.values())
    for path in others:
        assert (path in files) == (path in expected)
        assert files.get(path) == expected.get(path)
    assert set(others) & files.keys() == set(others) & expected.keys()
    again = ArchiveFiles.from_document(WARC_NAME, json.loads(json.dumps(files.document())))
    assert list(again.items()) == in_order(expected)
    assert again.document() == files.document()
    for path in [*others, *expected]:
        assert again.get(path) == expected.get(path)


def test_many_take_little_room() -> None:
    files = ArchiveFiles(WARC_NAME)
    for number in range(30_000):
        files[f"data/{number % 40:08d}-{number}/{WARC_NAME}"] = DataFile(
            "", 0, 10**7, f"{number:032x}", number + 1
        )
    assert len(files) == 30_000
    assert len(files._changes) < 8_000
    assert files._merged().nbytes <= 44 * 30_000
    for number in range(0, 30_000, 2):
        del files[f"data/{number % 40:08d}-{number}/{WARC_NAME}"]
    assert list(files.values())[:3] == [
        DataFile(f"data/00000001-{number}/{WARC_NAME}", 0, 10**7, f"{number:032x}", number + 1)
        for number in (1, 41, 81)
    ]
    assert len(files) == 15_000


def test_of_many_a_snapshot_holds_columns() -> None:
    files = ArchiveFiles(WARC_NAME)
    for number in range(1_000):
        files[f"data/00000007-{number}/{WARC_NAME}"] = DataFile(
            "", 0, 10_000 + number, f"{number:032x}", 2 * number + 1
        )
    document = files.document()
    assert document["folders"] == [7 << 24, *[1] * 999]
    assert document["entries"] == [1, *[2] * 999]
    assert len(json.dumps(document, separators=(",", ":"))) < 45 * 1_000
    for broken in ({"bytes": [1]}, {"folders": [-1]}, {"digests": "xx"}, {"others": [["x"]]}):
        with pytest.raises((KeyError, TypeError, ValueError, OverflowError)):
            ArchiveFiles.from_document(WARC_NAME, document | broken)
