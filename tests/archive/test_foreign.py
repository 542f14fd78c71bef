"""Archives of other programs: every format yields the same captures, damage an error message."""

from __future__ import annotations

import gzip
import io
import re
import zipfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.archive.import_formats import (
    ImportedCapture,
    made_up_head,
    parse_time,
    read_captures,
    usable,
)
from lycosa.archive.page_folder import folder_captures
from lycosa.core.errors import ArchiveError, UsageError
from tests.archive.foreign_files import ANSWERS, HOST, Answer, arc, warc, write_every_format

LIMIT = 1 << 20
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
KINDS = (
    "plain.warc", "members.warc.gz", "one-member.warc.gz", "frames.warc.zst",
    "dictionary.warc.zst", "v1.arc", "v2.arc", "members.arc.gz", "moths.wacz",
)  # fmt: skip
COMPLETE_FILES = (warc(), warc(gzipped=True), b"".join(arc()))


def read(path: Path, limit: int = LIMIT) -> tuple[list[ImportedCapture], Counter[str]]:
    others: Counter[str] = Counter()
    return list(read_captures(path, limit=limit, others=others)), others


def until_damage(path: Path) -> tuple[list[ImportedCapture], str]:
    actual = []
    try:
        for capture in read_captures(path, limit=LIMIT, others=Counter()):
            actual.append(capture)  # noqa: PERF402  # keep captures from before the error
    except ArchiveError as error:
        return actual, str(error)
    return actual, ""


@pytest.mark.parametrize("kind", KINDS)
def test_every_format_yields_the_same_captures(kind: str, tmp_path: Path) -> None:
    captures, others = read(write_every_format(tmp_path)[kind])
    assert [(each.url, each.body, each.status) for each in captures] == [
        (answer.url, answer.body, int(answer.status[:3])) for answer in ANSWERS
    ]
    assert {each.fetched_at for each in captures} == {parse_time("20261121100000")}
    assert {each.ip for each in captures} == {"192.0.2.7"}
    assert len({each.record_id for each in captures}) == len(ANSWERS)
    assert [each.record_id for each in read(write_every_format(tmp_path)["v1.arc"])[0]] == [
        each.record_id for each in read(write_every_format(tmp_path)["members.arc.gz"])[0]
    ]
    if "arc" in kind and "warc" not in kind:
        assert others == {"response of dns:": 1}
    else:
        assert not others
        assert all(
            each.request_head == b"GET / HTTP/1.1\r\nHost: moths.example\r\n\r\n"
            for each in captures
        )


def test_a_body_is_cut_at_the_limit(tmp_path: Path) -> None:
    captures, _ = read(write_every_format(tmp_path)["plain.warc"], 100)
    assert [each.truncated for each in captures] == ["length", "length", "", "length", ""]
    assert all(len(each.head) + len(each.body) <= 100 for each in captures)


@pytest.mark.parametrize(
    "kind",
    [
        "members.warc.gz",
        "one-member.warc.gz",
        "frames.warc.zst",
        "members.arc.gz",
        "plain.warc",
        "v1.arc",
    ],
)
def test_truncated_file_yields_earlier_captures(kind: str, tmp_path: Path) -> None:
    path = write_every_format(tmp_path)[kind]
    complete = path.read_bytes()
    path.write_bytes(complete[: len(complete) - 60])
    actual, message = until_damage(path)
    assert str(path) in message
    # In a file with one gzip or zstd stream, the last block may hold all records.
    minimum = 0 if kind in ("one-member.warc.gz", "frames.warc.zst") else len(ANSWERS) - 2
    assert minimum <= len(actual) <= len(ANSWERS)
    assert [each.url for each in actual] == [answer.url for answer in ANSWERS][: len(actual)]


def test_changed_byte_is_an_error(tmp_path: Path) -> None:
    path = write_every_format(tmp_path)["members.warc.gz"]
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    actual, message = until_damage(path)
    assert "damaged" in message or "expected a WARC record" in message
    assert len(actual) < len(ANSWERS)


def test_last_capture_before_damage_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "members.warc.gz"
    path.write_bytes(warc(gzipped=True) + b"damage")
    captures, message = until_damage(path)
    assert ([each.url for each in captures], "damaged" in message) == (
        [answer.url for answer in ANSWERS],
        True,
    )


@pytest.mark.parametrize("difference", [-100, 100, 100_000])
@pytest.mark.parametrize("gzipped", [True, False])
def test_a_record_with_a_wrong_length_is_left_out(
    gzipped: bool, difference: int, tmp_path: Path
) -> None:
    parts = [b"WARC/1.1" + part for part in warc().split(b"WARC/1.1")[1:]]
    [second] = (
        number
        for number, part in enumerate(parts)
        if b"WARC-Type: response" in part and f"{ANSWERS[1].url}\r\n".encode() in part
    )
    length = re.search(rb"Content-Length: (\d+)\r\n\r\nHTTP", parts[second])
    assert length is not None
    wrong = b"Content-Length: %d" % (int(length[1]) + difference)
    parts[second] = parts[second].replace(b"Content-Length: " + length[1], wrong, 1)
    path = tmp_path / "wrong.warc"
    path.write_bytes(b"".join(gzip.compress(part) if gzipped else part for part in parts))
    captures, message = until_damage(path)
    urls = [answer.url for answer in ANSWERS]
    assert [each.url for each in captures] == [urls[0], *(urls[2:] if gzipped else [])]
    assert "offset" in message


def test_segments_of_a_record_are_counted_and_not_read_as_captures(tmp_path: Path) -> None:
    first = warc((ANSWERS[0],)).replace(b"WARC-Date", b"WARC-Segment-Number: 1\r\nWARC-Date")
    second = first.replace(b"Number: 1", b"Number: 2").replace(b": response", b": continuation")
    path = tmp_path / "segments.warc"
    path.write_bytes(first + second + warc((ANSWERS[1],)))
    captures, others = read(path)
    assert [each.url for each in captures] == [ANSWERS[1].url]
    assert set(others) == {"segment of a record"}


def test_a_warc_file_whose_last_body_is_a_zip_file_is_a_warc_file(tmp_path: Path) -> None:
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w") as archive:
        archive.writestr("a.txt", "moths")
    path = tmp_path / "plain.warc"
    path.write_bytes(warc((ANSWERS[0], Answer(f"{HOST}/a.zip", body.getvalue()))))
    assert [each.url for each in read(path)[0]] == [ANSWERS[0].url, f"{HOST}/a.zip"]


def test_response_without_content_type_is_http(tmp_path: Path) -> None:
    path = tmp_path / "plain.warc"
    path.write_bytes(warc().replace(b"Content-Type: application/http; msgtype=response\r\n", b""))
    captures, _ = read(path)
    assert [(each.body, each.status) for each in captures] == [
        (answer.body, int(answer.status[:3])) for answer in ANSWERS
    ]


@pytest.mark.proves("isolation-any-input")
@settings(max_examples=200)
@given(st.data())
def test_no_bytes_raise_anything_else(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content = bytearray(data.draw(st.sampled_from(COMPLETE_FILES)))
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at : at + data.draw(st.integers(0, 20))] = data.draw(st.binary(max_size=8))
        if not content:
            break
    path = tmp_path_factory.getbasetemp() / "mutated"
    path.write_bytes(content)
    until_damage(path)


def test_files_of_other_types_are_refused(tmp_path: Path, path: Path) -> None:
    path.write_bytes(b"<html>")
    assert "is not a WARC, WACZ or ARC file" in until_damage(path)[1]
    with pytest.raises(ArchiveError, match="cannot be opened"):
        list(read_captures(tmp_path / "none.warc", limit=LIMIT, others=Counter()))


@pytest.mark.parametrize(
    "method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
)
def test_damage_of_a_zip_file_is_an_error_with_any_method(method: int, tmp_path: Path) -> None:
    path = tmp_path / "one.wacz"
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("archive/one.warc", warc())
    good = path.read_bytes()
    bodies = [each.body for each in read(path)[0]]
    start = good.index(b"one.warc") + len("one.warc")
    directory = good.index(b"PK\x01\x02")
    for at in range(start, directory, max((directory - start) // 40, 1)):
        path.write_bytes(good[:at] + bytes([good[at] ^ 0xFF]) + good[at + 1 :])
        captures, damage = until_damage(path)
        # Some bits do not affect the decoded content.
        assert damage or [each.body for each in captures] == bodies
    encrypted = bytearray(good)
    encrypted[6] |= 1
    encrypted[directory + 8] |= 1
    path.write_bytes(encrypted)
    assert "encrypted" in until_damage(path)[1]
    too_long = b"\xff\xff\x00\x00" * 2
    path.write_bytes(good[: directory + 20] + too_long + good[directory + 28 :])
    # Compressed members mark their own end.
    assert until_damage(path)[1] or method != zipfile.ZIP_STORED


def test_overlong_lengths_are_errors_and_padding_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "v1.arc"
    path.write_bytes(
        b"".join(arc()) + b"http://h/ 192.0.2.7 20261121100000 text/html " + b"9" * 5000 + b"\n"
    )
    captures, damage = until_damage(path)
    assert (len(captures), "expected an ARC record" in damage) == (len(ANSWERS), True)
    path.write_bytes(warc() + bytes(100_000))
    captures, damage = until_damage(path)
    assert (len(captures), bool(damage)) == (len(ANSWERS), True)
    path.write_bytes(warc(gzipped=True) + bytes(100_000))  # padding of a tape
    assert len(read(path)[0]) == len(ANSWERS)
    path.write_bytes(warc(gzipped=True) + bytes(100_000) + warc(gzipped=True))
    assert len(read(path)[0]) == 2 * len(ANSWERS)


@pytest.mark.parametrize(
    ("head", "body", "expected"),
    [
        (b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n", b"x", b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n"),
        (b"HTTP/1.0 200 OK\nA: b\n\n", b"x", b"HTTP/1.0 200 OK\r\nA: b\r\n\r\n"),
        (CHUNKED, b"1\r\nx\r\n0\r\n\r\n", CHUNKED),
        (CHUNKED, b"<p>x", CHUNKED.replace(b"Transfer", b"X-Archive-Orig-Transfer")),
    ],
)  # fmt: skip
def test_usable_head_matches_the_body(head: bytes, body: bytes, expected: bytes) -> None:
    assert usable(head, body) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-21T10:00:00Z", 1795255200000),
        ("2026-11-21T10:00:00.25Z", 1795255200250),
        ("20261121100000", 1795255200000),
        ("2026", 1767225600000),
        ("2026-02", 1769904000000),
        ("2026-02-01T00:00Z", 1769904000000),
        ("", 0),
        ("yesterday", 0),
        ("99999999999999", 0),
    ],
)
def test_parse_time(text: str, expected: int) -> None:
    assert parse_time(text) == expected


def folder(root: Path, base: str = "") -> dict[str, ImportedCapture]:
    return {each.url: each for each in folder_captures(root, base, limit=LIMIT, others=Counter())}


def test_captures_of_a_folder_of_pages(tmp_path: Path) -> None:
    for name in (
        "index.html",
        "a b/index.html",
        "a b/x.css",
        "page.php?id=1&n=2",
        "ü.txt",
        "plain",
    ):
        path = tmp_path / "moths.example" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"<!DOCTYPE html><p>x")
    (tmp_path / "moths.example" / "link").symlink_to("/etc/passwd")
    actual = folder(tmp_path)
    assert sorted(actual) == sorted(
        [
            f"{HOST}/",
            f"{HOST}/a%20b/",
            f"{HOST}/a%20b/x.css",
            f"{HOST}/page.php?id=1&n=2",
            f"{HOST}/%C3%BC.txt",
            f"{HOST}/plain",
        ]
    )
    assert actual[f"{HOST}/plain"].head == made_up_head("text/html", 19)
    assert b"text/css" in actual[f"{HOST}/a%20b/x.css"].head
    assert f"{HOST}/sub/plain" in folder(tmp_path / "moths.example", f"{HOST}/sub")
    with pytest.raises(UsageError, match="--base"):
        folder(tmp_path / "moths.example" / "a b")
