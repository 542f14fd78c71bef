"""Parsing of response heads, chunked framing and content codings."""

from __future__ import annotations

import gzip
import resource
import time
import tracemalloc
import zlib

import brotli
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.core.records import Exchange
from lycosa.http.chunked import dechunk
from lycosa.http.codings import CODINGS, looks_like_text
from lycosa.http.decode import decode_body, parse_head
from tests.servers.hostile_body import brotli_bomb, gzip_bomb, zstd_bomb

LIMIT = 1_000_000
TEXT = b"".join(
    b"<p>line %d of a page that is long enough</p>\n" % number for number in range(3_000)
)
ENCODERS = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstandard.compress,
}


def exchange(body: bytes, *fields: str, truncated: str = "") -> Exchange:
    head = "".join(f"{line}\r\n" for line in ("HTTP/1.1 200 OK", *fields, "")).encode("latin-1")
    return Exchange(
        "http://a.test/", "page", 0, 0, response_head=head, body=body, truncated=truncated
    )


def chunked(data: bytes, size: int) -> bytes:
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


# -- heads
# ------------------------------------------------------------


@pytest.mark.parametrize(
    ("head", "status", "fields"),
    [
        (b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n", 200, [("a", "b")]),
        (b"HTTP/2 204 \r\na: b\r\n\r\n", 204, [("a", "b")]),
        (b"http/1.0 404 not found\nA:b\n\n", 404, [("a", "b")]),
        (
            b"HTTP/1.1 200\r\nA: 1\r\na: 2\r\nB: 3\r\n\r\n",
            200,
            [("a", "1"), ("a", "2"), ("b", "3")],
        ),
        (b"HTTP/1.1 200 OK\r\nA: one\r\n two\r\n\tthree\r\n\r\n", 200, [("a", "one two three")]),
        (b"HTTP/1.1 200 OK\r\n folded\r\nA: b\r\n\r\n", 200, [("a", "b")]),
        (
            b"HTTP/1.1 200 OK\r\nno colon\r\n goes on\r\nA : b\r\n: c\r\n\r\n",
            200,
            [("a", "b"), ("", "c")],
        ),
        (b"HTTP/1.1 200 OK\r\nA: x\ry\r\n\r\n", 200, [("a", "x y")]),
        ("HTTP/1.1 200 OK\r\nLocation: /é\r\n\r\n".encode(), 200, [("location", "/é")]),
        (b"HTTP/1.1 200 OK\r\nLocation: /\xe9?a b\r\n\r\n", 200, [("location", "/%E9?a b")]),
        (
            "HTTP/1.1 200 OK\r\nA: é\r\n".encode() + b"B: \xe9\r\n\r\n",
            200,
            [("a", "é"), ("b", "é")],
        ),
        (b"HTTP/1.1 2000 Long\r\nA: b\r\n\r\n", 0, [("a", "b")]),
        (b"HTTP/1.1 20 Short\r\n\r\n", 0, []),
        (b"A: b\r\n\r\n", 0, [("a", "b")]),
        (b"", 0, []),
    ],
)
def test_parse_head(head: bytes, status: int, fields: list[tuple[str, str]]) -> None:
    headers = parse_head(head)
    assert (headers.status, list(headers.items())) == (status, fields)


def test_header_lookup() -> None:
    headers = parse_head(
        b"HTTP/1.1 200 Fine\r\nLink: <a>\r\nLINK: <b>\r\nVary: Accept, ,COOKIE\r\n\r\n"
    )
    assert (headers.reason, headers.get("LiNk")) == ("Fine", "<a>")
    assert headers.get_all("link") == ["<a>", "<b>"]
    assert (headers.get("none"), headers.get_all("none"), headers.tokens("none")) == (None, [], [])
    assert headers.tokens("vary") == ["accept", "cookie"]


@pytest.mark.parametrize(
    ("lines", "content_type"),
    [
        (["text/html; charset=utf-8"], "text/html; charset=utf-8"),
        (["Text/HTML;CHARSET=UTF-8"], "Text/HTML;CHARSET=UTF-8"),
        (["text/html charset=utf-8"], "text/html; charset=utf-8"),
        (["text/html, text/html; charset=utf-8"], "text/html; charset=utf-8"),
        (["text/html; charset=gbk", "text/html"], "text/html; charset=gbk"),
        (["text/html; charset=gbk", "text/html; x=1"], "text/html; x=1"),
        (["text/plain; charset=gbk", "text/html"], "text/html"),
        (["text/html", "cannot-parse", "*/*", ""], "text/html"),
        (['text/html;x="a,b/c";charset=gbk'], 'text/html; x="a,b/c";charset=gbk'),
        (["text/html; charset=utf-8, gbk"], "text/html; charset=utf-8"),
        (['"text/html"'], "text/html"),
        (["text/html ; charset=utf-8"], "text/html; charset=utf-8"),
        (["text/html;"], "text/html;"),
        (["html"], "html"),
        ([""], ""),
    ],
)
def test_several_or_malformed_content_types_give_the_one_of_browsers(
    lines: list[str], content_type: str
) -> None:
    head = "".join(f"Content-Type: {line}\r\n" for line in lines)
    headers = parse_head(f"HTTP/1.1 200 OK\r\n{head}\r\n".encode())
    assert headers.get_all("content-type") == [content_type]


@given(st.binary(max_size=300))
def test_parse_head_never_raises(data: bytes) -> None:
    headers = parse_head(b"HTTP/1.1 200 OK\r\n" + data)
    assert headers.status == 200
    assert all(value == value.strip() and name == name.lower() for name, value in headers.items())
    parse_head(data)


# -- chunks
# ------------------------------------------------------------


@given(st.binary(max_size=300), st.integers(1, 50), st.binary(max_size=20))
def test_dechunk_returns_data_and_end(data: bytes, size: int, more: bytes) -> None:
    body = chunked(data, size)
    assert dechunk(body + more) == (data, len(body), True, False)


@given(st.binary(min_size=1, max_size=200), st.integers(1, 50), st.data())
def test_dechunk_of_a_truncated_body(data: bytes, size: int, draw: st.DataObject) -> None:
    body = chunked(data, size)
    actual = dechunk(body[: draw.draw(st.integers(0, len(body) - 1))])
    assert data.startswith(actual.data)
    assert not actual.complete
    assert not actual.broken


@given(st.binary(max_size=300))
def test_dechunk_never_raises(data: bytes) -> None:
    actual = dechunk(data)
    assert len(actual.data) <= len(data)
    assert actual.end <= len(data)
    assert not (actual.complete and actual.broken)


@pytest.mark.parametrize(
    ("body", "data", "complete", "broken"),
    [
        (b"5\nhello\n0\n\n", b"hello", True, False),
        (b'5;x="y"\r\nhello\r\n0\r\nT: v\r\n\r\n', b"hello", True, False),
        (b"005 \r\nhello\r\n0\r\n\r\n", b"hello", True, False),
        (b"5\r\nhelloX\r\n0\r\n\r\n", b"hello", False, True),
        (b"-5\r\nhello", b"", False, True),
        (b"0x5\r\nhello", b"", False, True),
        (b"\r\nhello", b"", False, True),
        (b"5\r\nhello\r\n0\r\nT: v\r\n", b"hello", False, False),
        (b"ffffffffffffffff\r\nhello", b"hello", False, False),
        (b"fffffffffffffffff\r\nhello", b"", False, True),
        (b"<html>\n", b"", False, True),
        (b"", b"", False, False),
    ],
)
def test_dechunk(body: bytes, data: bytes, complete: bool, broken: bool) -> None:
    actual = dechunk(body)
    assert (actual.data, actual.complete, actual.broken) == (data, complete, broken)


# -- codings
# ------------------------------------------------------------


@pytest.mark.parametrize("coding", ENCODERS)
def test_content_coding(coding: str) -> None:
    body = ENCODERS[coding](TEXT)
    field = f"Content-Encoding: {coding}"
    assert decode_body(exchange(body, field), LIMIT) == (TEXT, "", False)
    assert decode_body(
        exchange(chunked(body, 999), field, "Transfer-Encoding: chunked"), LIMIT
    ) == (TEXT, "", False)
    assert decode_body(exchange(body, field.upper()), LIMIT) == (TEXT, "", False)
    assert decode_body(exchange(body, field), len(TEXT)) == (TEXT, "", False)
    assert decode_body(exchange(body, field), len(TEXT) - 1) == (TEXT[:-1], "", True)
    assert decode_body(exchange(body, field), 0) == (b"", "", True)
    assert decode_body(exchange(TEXT, field), LIMIT) == (TEXT, "", False)  # labelled, not encoded
    assert decode_body(exchange(b"", field), LIMIT) == (b"", "", False)


@pytest.mark.parametrize("coding", ENCODERS)
def test_data_before_an_error_is_kept(coding: str) -> None:
    body = ENCODERS[coding](TEXT)
    half = body[: len(body) // 2]
    field = f"Content-Encoding: {coding}"
    payload, error, truncated = decode_body(exchange(half, field), LIMIT)
    assert (error, truncated) == ("bad_encoding", True)
    assert TEXT.startswith(payload)
    # truncated by the client: not an error of the server
    assert decode_body(exchange(half, field, truncated="length"), LIMIT) == (payload, "", True)
    if coding != "zstd":  # its blocks are up to 128 KiB, so half of this page is less than a block
        assert len(payload) > len(TEXT) // 5


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_damaged_body_is_decoded_up_to_the_damage(coding: str) -> None:
    body = bytearray(ENCODERS[coding](TEXT))
    middle = len(body) // 2
    body[middle : middle + 64] = b"\xff" * 64
    payload, error, truncated = decode_body(
        exchange(bytes(body), f"Content-Encoding: {coding}"), LIMIT
    )
    assert (error, truncated) == ("bad_encoding", True)
    assert payload[: len(TEXT) // 5] == TEXT[: len(TEXT) // 5]


@pytest.mark.parametrize(
    ("field", "body", "payload", "error"),
    [
        ("gzip, br", brotli.compress(gzip.compress(TEXT)), TEXT, ""),
        ("identity", TEXT, TEXT, ""),
        ("identity, gzip, identity", gzip.compress(TEXT), TEXT, ""),
        ("gzip", gzip.compress(TEXT[:99]) + gzip.compress(TEXT[99:]), TEXT, ""),
        ("gzip", gzip.compress(TEXT) + b"\x00\x00trailing", TEXT, ""),
        ("deflate", zlib.compress(TEXT)[2:-4], TEXT, ""),
        ("zstd", zstandard.compress(TEXT[:99]) + zstandard.compress(TEXT[99:]), TEXT, ""),
        ("gzip,gzip,gzip,gzip", b"x", b"", "bad_encoding"),
        ("compress", bytes(range(256)), b"", "bad_encoding"),
        ("none", TEXT, TEXT, ""),
        ("gzip", bytes(range(256)), b"", "bad_encoding"),
        ("br", bytes(range(256)), b"", "bad_encoding"),
    ],
)
def test_lists_of_codings_and_deviations(
    field: str, body: bytes, payload: bytes, error: str
) -> None:
    actual = decode_body(exchange(body, f"Content-Encoding: {field}"), LIMIT)
    assert (actual.payload, actual.error) == (payload, error)


def test_transfer_codings_are_decoded() -> None:
    body = chunked(gzip.compress(TEXT), 500)
    assert decode_body(exchange(body, "Transfer-Encoding: gzip, chunked"), LIMIT) == (
        TEXT,
        "",
        False,
    )


def test_broken_chunks_give_the_data_before_them() -> None:
    field = "Transfer-Encoding: chunked"
    assert decode_body(exchange(b"5\r\nhello\r\nzz", field), LIMIT) == (
        b"hello",
        "incomplete",
        True,
    )
    assert decode_body(exchange(b"5\r\nhello\r\n", field, truncated="time"), LIMIT) == (
        b"hello",
        "",
        True,
    )
    # not chunked, in spite of the field
    assert decode_body(exchange(TEXT, field, truncated="disconnect"), LIMIT).payload == TEXT


def test_memory_for_chunks_of_one_byte_is_bounded() -> None:
    body = b"1\r\na\r\n" * 12_000
    tracemalloc.start()
    try:
        assert dechunk(body).data == b"a" * 12_000
        assert tracemalloc.get_traced_memory()[1] < 600_000  # one view per chunk takes 2.5 MB
    finally:
        tracemalloc.stop()


@pytest.mark.proves("limits-decompression")
@pytest.mark.parametrize(
    ("coding", "bomb"), [("gzip", gzip_bomb), ("br", brotli_bomb), ("zstd", zstd_bomb)]
)
def test_memory_for_a_compression_bomb_is_bounded(coding: str, bomb: object) -> None:
    assert callable(bomb)
    body = bomb()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    actual = decode_body(exchange(body, f"Content-Encoding: {coding}"), 4 * 2**20)
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert (len(actual.payload), actual.error, actual.truncated) == (4 * 2**20, "", True)
    assert grown_kib < 64 * 1024  # the bombs expand to 100 to 200 MB


@pytest.mark.parametrize(
    ("coding", "empty"),
    [
        ("gzip", gzip.compress(b"", mtime=0)),
        ("zstd", zstandard.compress(b"")),
        ("zstd", b"\x50\x2a\x4d\x18" + bytes(4)),
    ],
    ids=["gzip", "zstd", "zstd-skipped"],
)
def test_decoding_time_is_linear_in_the_number_of_members(coding: str, empty: bytes) -> None:
    def cpu_s(members: int) -> float:
        body = empty * members
        began = time.process_time()
        assert CODINGS[coding](body, LIMIT) == (b"", False, False, False)
        return time.process_time() - began

    few = min(cpu_s(4_000) for _ in range(3))
    # linear: 30 times; copying the rest of the body for each member takes 70 to 300 times as long
    assert min(cpu_s(120_000) for _ in range(3)) < 50 * few


@given(
    st.binary(max_size=300),
    st.integers(1, 4),
    st.booleans(),
    st.integers(0, 2000),
    st.binary(max_size=9),
)
@settings(max_examples=80)
def test_zstd_completeness_equals_that_of_its_own_decoder(
    data: bytes, frames: int, checksum: bool, cut: int, after: bytes
) -> None:
    one = zstandard.ZstdCompressor(write_checksum=checksum).compress(data * 40)
    body = (one * frames + b"\x5f\x2a\x4d\x18\x03\0\0\0abc" + one)[: cut or None] + after
    rest, whole = body, True
    while rest and whole:
        frame = zstandard.ZstdDecompressor().decompressobj()
        try:
            frame.decompress(rest)
        except zstandard.ZstdError:
            whole = False
        else:
            whole, rest = frame.eof, frame.unused_data
    actual = CODINGS["zstd"](body, LIMIT)
    assert (not actual.short and not actual.broken) == whole


@pytest.mark.proves("limits-decompression", "isolation-any-input")
@given(st.sampled_from(sorted(CODINGS)), st.binary(max_size=400), st.integers(0, 100))
@settings(max_examples=300)
def test_any_body_is_decoded_within_its_limit(coding: str, noise: bytes, limit: int) -> None:
    assert len(CODINGS[coding](noise, limit).data) <= limit
    actual = decode_body(
        exchange(noise, f"Content-Encoding: {coding}", "Transfer-Encoding: chunked"), limit
    )
    assert len(actual.payload) <= limit


@given(
    st.sampled_from(sorted(ENCODERS)),
    st.binary(max_size=2000),
    st.integers(0, 3000),
    st.integers(0, 2000),
    st.integers(0, 255),
)
@settings(max_examples=300)
def test_damaged_bodies_never_raise(
    coding: str, data: bytes, limit: int, position: int, value: int
) -> None:
    body = bytearray(ENCODERS[coding](data))
    body[position % len(body)] = value
    assert (
        len(decode_body(exchange(bytes(body), f"Content-Encoding: {coding}"), limit).payload)
        <= limit
    )


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (TEXT, True),
        ("кириллица".encode("cp1251"), True),
        (b"\x1b$B", True),
        (b"\x1f\x8b\x08", False),
        (b"", True),
    ],
)
def test_text_is_distinguished_from_compressed_data(data: bytes, text: bool) -> None:
    assert looks_like_text(data) is text
