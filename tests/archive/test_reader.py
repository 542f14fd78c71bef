"""Reading WARC files: equal exchanges for any bytes, torn tails, damage."""

from __future__ import annotations

import gzip
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from warcio.warcwriter import WARCWriter

from lycosa.archive.warc.members import Damage, read_records
from lycosa.archive.warc.reader import read_exchanges, read_response
from lycosa.archive.warc.record import gzip_record
from lycosa.archive.warc.writer import WarcWriter
from lycosa.core.errors import ArchiveError
from lycosa.core.records import Exchange, Visit
from tests.archive.exchanges import AT, HEAD, failure, pair

Pair = tuple[Exchange, Visit]


def write(path: Path, *pairs: Pair) -> list[int]:
    """Write a file. Return its size after warcinfo and after each exchange."""
    path.unlink(missing_ok=True)
    writer = WarcWriter(path, relative_path=path.name, info={})
    sizes = [writer.size]
    for exchange, visit in pairs:
        writer.append(exchange, visit)
        sizes.append(writer.size)
    writer.close(sync=False)
    return sizes


def read(path: Path) -> list[Pair]:
    return [(stored.exchange, stored.visit) for stored in read_exchanges(path)]


text = st.text(max_size=12)
number = st.integers(0, 2**64 - 1)
small = st.integers(0, 10**9)
date = st.integers(0, 4_000_000_000_000)
head = st.one_of(
    st.just(b""),
    st.binary(max_size=60),
    st.binary(max_size=40).map(lambda data: b"HTTP/1.1 200 OK\r\nx: " + data + b"\r\n\r\n"),
    st.binary(max_size=40).map(lambda data: b"HTTP/2 404" + data + b"\r\n\r\n"),
    st.binary(max_size=40).map(lambda data: b"GET /" + data + b" HTTP/2\r\nHost: a\r\n\r\n"),
)
url = st.one_of(st.builds("http://a.example/{}".format, text), text)
exchanges = st.builds(
    Exchange,
    url=url,
    kind=text,
    started_at=date,
    duration_ms=small,
    ip=text,
    protocol=st.sampled_from(["", "http/1.1", "h2", "h3", "spdy"]),
    request_head=head,
    response_head=head,
    body=st.one_of(st.binary(max_size=300), st.just(bytes(200_000))),
    status=st.integers(0, 999),
    error=text,
    error_text=text,
    truncated=st.sampled_from(["", "length", "time", "disconnect", "decoded"]),
    first_byte_ms=small,
)
visits = st.builds(
    Visit,
    url=url,
    host=text,
    partition=small,
    host_key=number,
    url_key=number,
    kind=text,
    collection=text,
    depth=small,
    fetched_at=date,
    duration_ms=small,
    ip=text,
    protocol=text,
    http_status=st.integers(0, 999),
    error=text,
    content_type=text,
    content_length=small,
    server=text,
    redirect_to=text,
    etag=text,
    last_modified=text,
    changed=st.booleans(),
    links_count=small,
    referrer=text,
    attempt=small,
    truncated=text,
)


@settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(pairs=st.lists(st.tuples(exchanges, visits), max_size=3))
def test_exchanges_are_read_as_written(path: Path, pairs: list[Pair]) -> None:
    write(path, *pairs)
    assert read(path) == pairs
    for exchange, visit in pairs:
        assert read_response(path, visit.warc_offset, visit.warc_length).body == exchange.body


def test_different_fields_of_exchange_and_visit_are_kept(tmp_path: Path) -> None:
    exchange, visit = pair()
    pairs = [
        (
            replace(exchange, started_at=AT - 7, truncated="length"),
            replace(visit, error="bad_encoding", truncated="decoded"),
        )
    ]
    write(tmp_path / "a.warc.gz", *pairs)
    assert read(tmp_path / "a.warc.gz") == pairs


@pytest.mark.proves("durability-torn-archive")
@pytest.mark.parametrize("last", ["page", "stored", "failure"])
def test_file_truncated_at_any_byte_yields_exactly_the_earlier_exchanges(
    tmp_path: Path, last: str
) -> None:
    path, torn = tmp_path / "a.warc.gz", tmp_path / "torn.warc.gz"
    tail = {
        "page": pair("http://a.example/last", body=os.urandom(300)),
        "stored": pair(
            "http://a.example/last",
            head=HEAD[:-2] + b"Content-Encoding: gzip\r\n\r\n",
            body=gzip.compress(os.urandom(300)),
        ),
        "failure": failure(),
    }[last]
    pairs = [pair(), failure(), tail]
    *_, before, size = write(path, *pairs)
    data = path.read_bytes()
    assert len(data) == size
    for cut in range(before, size):
        torn.write_bytes(data[:cut])
        actual = [replace(visit, warc_file="a.warc.gz") for _, visit in read(torn)]
        assert actual == [visit for _, visit in pairs[:2]], cut
    assert read(path) == pairs


def test_file_cut_in_its_first_record_has_no_exchange(tmp_path: Path) -> None:
    path, torn = tmp_path / "a.warc.gz", tmp_path / "torn.warc.gz"
    (size,) = write(path)
    for cut in range(size):
        torn.write_bytes(path.read_bytes()[:cut])
        assert read(torn) == []


@pytest.mark.proves("durability-torn-archive")
def test_a_tail_of_zeros_or_noise_is_a_torn_tail(path: Path) -> None:
    pairs = [pair(), pair("http://a.example/b")]
    *_, before, _ = write(path, *pairs)
    data = path.read_bytes()
    for rest in (bytes(5_000), os.urandom(5_000), b"\x1f\x8b\x08" * 3):
        path.write_bytes(data[:before] + rest)
        assert read(path) == pairs[:1]


def hostile_body() -> bytes:
    """Return a body that is itself a WARC file with a complete exchange."""
    fields = (
        "WARC-Type: metadata\r\nWARC-Record-ID: <urn:uuid:1>\r\nWARC-Warcinfo-ID: "
        "<urn:uuid:0>\r\nContent-Type: application/json\r\n"
    )
    visit = (
        b'{"url":"http://evil/","host":"evil","partition":0,"host_key":0,"url_key":0,'
        b'"kind":"page","collection":"c","depth":0,"fetched_at":0,"duration_ms":0}'
    )
    block = b'{"visit":' + visit + b',"exchange":{},"records":1}'
    return gzip_record(fields, block, b"", store_body=False)


@pytest.mark.proves("durability-torn-archive")
def test_records_within_a_body_are_not_read_from_torn_or_damaged_files(
    tmp_path: Path, path: Path
) -> None:
    alone = tmp_path / "alone.warc.gz"
    alone.write_bytes(hostile_body())
    assert len(read(alone)) == 1  # as a file of its own it has an exchange
    head = HEAD[:-2] + b"Content-Encoding: gzip\r\n\r\n"
    pairs = [
        pair(),
        pair("http://a.example/evil", head=head, body=hostile_body() * 3),
        pair("http://a.example/c"),
    ]
    sizes = write(path, *pairs)
    data = path.read_bytes()
    assert hostile_body() in data  # stored uncompressed
    after = data.index(hostile_body()) + 5
    for cut in (after, after + 400, sizes[2] - 10):
        path.write_bytes(data[:cut])
        assert read(path) == pairs[:1]
    path.write_bytes(data[: sizes[1]] + b"\0" + data[sizes[1] + 1 :])
    damages: list[Damage] = []
    actual = [stored.exchange.url for stored in read_exchanges(path, on_damage=damages.append)]
    assert actual == ["http://www.example.org/a", "http://a.example/c"]
    (damage,) = damages
    assert damage.offset == sizes[1]


def read_until_error(
    path: Path, on_damage: Callable[[Damage], None] | None = None
) -> tuple[list[Pair], str]:
    intact: list[Pair] = []
    try:
        intact.extend(
            (stored.exchange, stored.visit) for stored in read_exchanges(path, on_damage=on_damage)
        )
    except ArchiveError as error:
        return intact, str(error)
    return intact, ""


def test_damage_before_the_end_is_an_error_with_its_offset(path: Path) -> None:
    pairs = [pair(f"http://a.example/{number}") for number in range(4)]
    sizes = write(path, *pairs)
    good = path.read_bytes()
    for position in range(sizes[1], sizes[2], 7):
        path.write_bytes(good[:position] + bytes([good[position] ^ 0x55]) + good[position + 1 :])
        intact, message = read_until_error(path)
        if message:
            assert str(path) in message
            assert "is damaged from offset" in message
            assert "lycosa check" in message
            assert intact == pairs[:1]
        else:
            assert intact == pairs  # a byte of the gzip header without effect

        damages: list[Damage] = []
        assert read_until_error(path, damages.append) in ((pairs, ""), ([pairs[0], *pairs[2:]], ""))
        assert all(sizes[1] <= damage.offset < damage.end <= sizes[2] for damage in damages)


def test_torn_tail_is_reported_to_the_damage_callback(path: Path) -> None:
    *_, before, size = write(path, pair(), pair())
    os.truncate(path, size - 3)
    damages: list[Damage] = []
    assert len(list(read_exchanges(path, on_damage=damages.append))) == 1
    assert [damage.end for damage in damages] == [size - 3]
    assert before < damages[0].offset < size - 3


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"<html>hello</html>", "is not a WARC file (offset 0"),
        (b"WARC/1.1\r\nWARC-Type: warcinfo\r\n\r\n", "warcio recompress"),
        (
            gzip.compress(b"a text, not a WARC\r\n\r\n", mtime=0),
            "is not a WARC file (offset 0: a gzip member without a WARC record)",
        ),
        (gzip.compress(bytes(10_000_000), mtime=0), "is not a WARC file"),
        (
            gzip.compress(
                b"WARC/1.1\r\nContent-Length: 99999999999\r\n\r\n" + bytes(5_000_000), mtime=0
            ),
            "at most",
        ),
        (
            gzip.compress(b"WARC/1.1\r\nContent-Length: \xc2\xb2\r\n\r\n", mtime=0),
            "without Content-Length",
        ),
        (
            gzip.compress(b"WARC/1.1\r\nContent-Length: 4\r\n\r\nfourfour\r\n\r\n", mtime=0),
            "a record longer than its Content-Length",
        ),
        (
            gzip.compress(b"WARC/1.1\r\nContent-Length: 4\r\n\r\nfo\r\n\r\n", mtime=0),
            "a record shorter than its Content-Length",
        ),
    ],
)
def test_invalid_files_are_refused_with_a_reason(path: Path, content: bytes, message: str) -> None:
    path.write_bytes(content)
    with pytest.raises(ArchiveError) as caught:
        list(read_exchanges(path))
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_missing_and_empty_files(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="cannot be opened: No such file"):
        list(read_exchanges(tmp_path / "none"))
    (tmp_path / "empty").touch()
    assert list(read_exchanges(tmp_path / "empty")) == []


def test_read_response_refuses_other_positions_lengths_and_types(path: Path) -> None:
    exchange, visit = pair()
    lost, lost_visit = failure()
    write(path, (exchange, visit), (lost, lost_visit))
    with pytest.raises(ArchiveError, match=r"no complete WARC record at offset 7: .*lycosa check"):
        read_response(path, 7, visit.warc_length)
    with pytest.raises(ArchiveError, match=f"has {visit.warc_length} bytes, not 9"):
        read_response(path, visit.warc_offset, 9)
    with pytest.raises(ArchiveError, match="the file ends inside it"):
        read_response(path, path.stat().st_size, 9)
    with pytest.raises(ArchiveError, match="of type 'warcinfo', not a response"):
        read_response(path, 0, visit.warc_offset)
    answer = read_response(path, lost_visit.warc_offset, lost_visit.warc_length)
    assert (answer.status, answer.head, answer.body) == (0, b"", b"")


def test_visit_metadata_of_another_version_is_an_error_and_other_json_is_ignored(
    path: Path,
) -> None:
    fields = (
        "WARC-Type: metadata\r\nWARC-Record-ID: <urn:uuid:1>\r\nContent-Type: application/json\r\n"
    )
    path.write_bytes(
        gzip_record(
            fields, b'{"visit":{"novelty":1},"exchange":{},"records":1}', b"", store_body=False
        )
    )
    with pytest.raises(
        ArchiveError,
        match="offset 0: the metadata record was written by another program or version",
    ):
        list(read_exchanges(path))
    path.write_bytes(gzip_record(fields, b'{"pages":[]}', b"", store_body=False))
    assert list(read_exchanges(path)) == []


def test_records_of_another_writer_are_read(path: Path) -> None:
    with open(path, "wb") as file:
        writer = WARCWriter(file, gzip=True)
        writer.write_record(writer.create_warcinfo_record("x.warc.gz", {"software": "other"}))
        writer.write_record(writer.create_warc_record("http://a.example/", "resource"))
    records = list(read_records(path))
    assert [record.type for record in records] == ["warcinfo", "resource"]
    assert records[0].block.startswith(b"software: other")
    assert records[1].headers["warc-target-uri"] == "http://a.example/"
    assert sum(record.length for record in records) == path.stat().st_size
    assert list(read_exchanges(path)) == []


@pytest.mark.proves("durability-torn-archive")
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    changes=st.lists(
        st.tuples(st.integers(0, 10**6), st.binary(min_size=1, max_size=40)), min_size=1, max_size=4
    ),
    report=st.booleans(),
)
def test_damage_adds_or_changes_no_exchange(
    path: Path, changes: list[tuple[int, bytes]], report: bool
) -> None:
    pairs = [
        pair(),
        failure(),
        pair("http://a.example/b", body=b"\x1f\x8b\x08\0" * 30),
        pair("http://a.example/c"),
    ]
    write(path, *pairs)
    data = bytearray(path.read_bytes())
    for position, noise in changes:
        at = position % len(data)
        data[at : at + len(noise)] = noise
    path.write_bytes(data)
    damages: list[Damage] = []
    read_pairs, message = read_until_error(path, damages.append if report else None)
    intact = [exchange for exchange, _ in read_pairs]
    assert [exchange for exchange, _ in pairs if exchange in intact] == intact
    assert len(intact) == 4 or message or damages or not report


def test_torn_body_full_of_member_headers_is_skipped_quickly(path: Path) -> None:
    head = HEAD[:-2] + b"Content-Encoding: gzip\r\n\r\n"
    for pattern in (b"\x1f\x8b\x08", b"\x1f\x8b\x08\0\0\0\0\0\0\xff\x01\x05\x00\xfa\xffWARC/"):
        write(
            path,
            pair(),
            pair("http://a.example/b", head=head, body=pattern * (2**20 // len(pattern))),
        )
        os.truncate(path, 2**20)
        start = time.process_time()
        assert len(read(path)) == 1
        assert time.process_time() - start < 5
