"""Endpoints with bad bodies: chunks, content codings, charsets, documents that overload parsers."""

from __future__ import annotations

import gzip
import random
import zlib
from functools import lru_cache

import brotli
import zstandard

from tests.servers.wire import Behaviour, Endpoint, Expected, Wire, answer, head, page, raw

_PAGE = page("A page", "<p>" + " ".join(f"word{number}" for number in range(2000)))
_FINE = Expected(payload=_PAGE)
_CHUNKED = head(b"HTTP/1.1 200 OK", b"Content-Type: text/html", b"Transfer-Encoding: chunked")
_BAD_FRAMING = Expected(error="incomplete", truncated="disconnect", cut=True, payload=_PAGE)
_BOMB_BYTES = 200_000_000
_ZEROS = bytes(1_000_000)


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def _coded(coding: bytes, body: bytes) -> Behaviour:
    return raw(answer(body, b"Content-Encoding: " + coding))


@lru_cache(maxsize=1)
def gzip_bomb() -> bytes:
    """Return 200 KB of gzip that decode to 200 MB: one block, flushed and then repeated."""
    stream = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = stream.compress(_ZEROS) + stream.flush(zlib.Z_FULL_FLUSH)
    return (
        b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff"
        + block * (_BOMB_BYTES // len(_ZEROS))
        + stream.flush()
    )


@lru_cache(maxsize=1)
def brotli_bomb() -> bytes:
    """Return 25 KB of brotli that decode to 100 MB."""
    stream = brotli.Compressor(quality=1)
    return b"".join([*(stream.process(_ZEROS) for _ in range(100)), stream.finish()])


@lru_cache(maxsize=1)
def zstd_bomb() -> bytes:
    """Return zstd frames that decode to 200 MB."""
    return zstandard.compress(_ZEROS) * (_BOMB_BYTES // len(_ZEROS))


def _gzip_bomb(wire: Wire) -> None:
    wire.send(answer(gzip_bomb(), b"Content-Encoding: gzip"))


def _brotli_bomb(wire: Wire) -> None:
    wire.send(answer(brotli_bomb(), b"Content-Encoding: br"))


def _zstd_bomb(wire: Wire) -> None:
    wire.send(answer(zstd_bomb(), b"Content-Encoding: zstd"))


def _long_line(wire: Wire) -> None:
    wire.send(answer(b"<p>" + b"a b " * 2_500_000))


def _damaged(data: bytes) -> bytes:
    middle = len(data) // 2
    return (
        data[:middle] + bytes(255 - byte for byte in data[middle : middle + 8]) + data[middle + 8 :]
    )


_GZIPPED = gzip.compress(_PAGE, mtime=0)
_NOISE = random.Random(7).randbytes(20_000)
_FOUR_TIMES = gzip.compress(gzip.compress(gzip.compress(_GZIPPED, mtime=0), mtime=0), mtime=0)
_START = _PAGE[:100]
_BAD_CODING = Expected(decoding="bad_encoding", cut=True)

CHUNK_ENDPOINTS = (
    Endpoint(
        "chunks",
        "good chunks, for comparison",
        raw(_CHUNKED + _chunk(_PAGE[:99]) + _chunk(_PAGE[99:]) + b"0\r\n\r\n"),
        _FINE,
    ),
    Endpoint(
        "chunk-extensions",
        "chunk extensions and trailers",
        raw(
            _CHUNKED + b'%x;a=b;c="d"\r\n%s\r\n0;x\r\nX-Trailer: yes\r\n\r\n' % (len(_PAGE), _PAGE)
        ),
        _FINE,
    ),
    Endpoint(
        "chunk-no-size",
        "letters instead of a chunk size",
        raw(_CHUNKED + _chunk(_PAGE) + b"zz\r\nrest\r\n0\r\n\r\n"),
        _BAD_FRAMING,
    ),
    Endpoint(
        "chunk-negative",
        "a negative chunk size",
        raw(_CHUNKED + _chunk(_PAGE) + b"-5\r\nrest\r\n0\r\n\r\n"),
        _BAD_FRAMING,
    ),
    Endpoint(
        "chunk-overflow",
        "a chunk size over 64 bits",
        raw(_CHUNKED + _chunk(_PAGE) + b"f" * 20 + b"\r\nrest"),
        _BAD_FRAMING,
    ),
    Endpoint(
        "chunk-huge",
        "a chunk of 2^63 - 1 bytes that ends early",
        raw(_CHUNKED + b"7fffffffffffffff\r\n" + _PAGE),
        _BAD_FRAMING,
    ),
    Endpoint(
        "chunk-short",
        "a chunk longer than its size",
        raw(_CHUNKED + b"5\r\n" + _PAGE + b"\r\n0\r\n\r\n"),
        Expected(error="incomplete", truncated="disconnect", cut=True, payload=_PAGE[:5]),
    ),
    Endpoint(
        "chunk-no-end", "closes without the last chunk", raw(_CHUNKED + _chunk(_PAGE)), _BAD_FRAMING
    ),
    Endpoint(
        "chunk-in-size",
        "closes within a chunk's size",
        raw(_CHUNKED + _chunk(_PAGE) + b"1"),
        _BAD_FRAMING,
    ),
    Endpoint(
        "chunks-then-more",
        "bytes after the last chunk",
        raw(_CHUNKED + _chunk(_PAGE) + b"0\r\n\r\nHTTP/1.1 200 OK\r\n\r\nevil"),
        _FINE,
    ),
    Endpoint(
        "chunks-on-1.0",
        "chunks from an HTTP/1.0 server",
        raw(_CHUNKED.replace(b"1.1", b"1.0") + _chunk(_PAGE) + b"0\r\n\r\n"),
        _FINE,
    ),
    Endpoint(
        "not-chunked",
        "declared as chunked, without chunks",
        raw(_CHUNKED + _PAGE),
        Expected(error="incomplete", truncated="disconnect", cut=True, payload=_START),
    ),
)

CODING_ENDPOINTS = (
    Endpoint("gzip", "good gzip, for comparison", _coded(b"gzip", _GZIPPED), _FINE),
    Endpoint(
        "gzip-bad",
        "gzip with damage in the middle",
        _coded(b"gzip", _damaged(_GZIPPED)),
        Expected(decoding="bad_encoding", cut=True, payload=_START),
    ),
    Endpoint(
        "gzip-truncated",
        "half of a gzip body",
        _coded(b"gzip", _GZIPPED[: len(_GZIPPED) // 2]),
        Expected(decoding="bad_encoding", cut=True, payload=_START),
    ),
    Endpoint("gzip-noise", "noise declared as gzip", _coded(b"gzip", _NOISE), _BAD_CODING),
    Endpoint("gzip-label", "plain text declared as gzip", _coded(b"gzip", _PAGE), _FINE),
    Endpoint(
        "gzip-padded", "zeros after the gzip body", _coded(b"gzip", _GZIPPED + bytes(100)), _FINE
    ),
    Endpoint(
        "gzip-members",
        "two gzip members",
        _coded(b"gzip", gzip.compress(_PAGE[:500]) + gzip.compress(_PAGE[500:])),
        _FINE,
    ),
    Endpoint(
        "gzip-bomb",
        "200 KB that decode to 200 MB",
        _gzip_bomb,
        Expected(cut=True, payload=bytes(100)),
    ),
    Endpoint("br-bomb", "a brotli bomb", _brotli_bomb, Expected(cut=True, payload=bytes(100))),
    Endpoint("zstd-bomb", "a zstd bomb", _zstd_bomb, Expected(cut=True, payload=bytes(100))),
    Endpoint(
        "gzip-twice",
        "gzip in gzip, declared",
        _coded(b"gzip, gzip", gzip.compress(_GZIPPED)),
        _FINE,
    ),
    Endpoint(
        "gzip-four-times",
        "four nested content codings",
        _coded(b"gzip, gzip, gzip, gzip", _FOUR_TIMES),
        _BAD_CODING,
    ),
    Endpoint("gzip-as-br", "gzip declared as br", _coded(b"br", _GZIPPED), _BAD_CODING),
    Endpoint(
        "br-bad",
        "brotli with damage at its start",
        _coded(b"br", b"\xff" * 50 + brotli.compress(_PAGE)),
        _BAD_CODING,
    ),
    Endpoint(
        "br-truncated",
        "half of a brotli body",
        _coded(b"br", brotli.compress(_PAGE)[:1000]),
        Expected(decoding="bad_encoding", cut=True, payload=_START),
    ),
    Endpoint(
        "zstd", "zstd, which the crawler accepts", _coded(b"zstd", zstandard.compress(_PAGE)), _FINE
    ),
    Endpoint(
        "zstd-truncated",
        "half of a zstd body",
        _coded(b"zstd", zstandard.compress(_PAGE)[:1000]),
        _BAD_CODING,
    ),
    Endpoint(
        "deflate-bare",
        "deflate without the zlib wrapper",
        _coded(b"deflate", zlib.compress(_PAGE)[2:-4]),
        _FINE,
    ),
    Endpoint("coding-unknown", "an unregistered coding", _coded(b"secret", _NOISE), _BAD_CODING),
    Endpoint("coding-charset", "a charset instead of a coding", _coded(b"utf-8", _PAGE), _FINE),
    Endpoint("coding-empty", "an empty Content-Encoding", _coded(b"", _PAGE), _FINE),
    Endpoint(
        "gzip-empty", "an empty body declared as gzip", _coded(b"gzip", b""), Expected(payload=b"")
    ),
)


def _html(
    name: str, description: str, body: bytes, content_type: bytes = b"text/html; charset=utf-8"
) -> Endpoint:
    return Endpoint(
        name,
        description,
        raw(answer(body, content_type=content_type)),
        Expected(payload=body[:1000]),
    )


DOCUMENT_ENDPOINTS = (
    _html(
        "wrong-charset",
        "Russian in Windows-1251 declared as UTF-8",
        "<p>Привет, мир. Это страница.".encode("cp1251"),
    ),
    _html(
        "unknown-charset", "a charset that does not exist", _PAGE, b"text/html; charset=martian-7"
    ),
    _html("utf-16-label", "ASCII declared as UTF-16", _PAGE, b"text/html; charset=utf-16"),
    _html(
        "utf-16",
        "UTF-16 with a BOM declared as UTF-8",
        "<p>\u041f\u0440\u0438\u0432\u0435\u0442".encode("utf-16"),
    ),
    _html("binary-as-html", "noise as text/html", _NOISE),
    _html(
        "null-bytes", "null bytes in text and tags", b"<ht\x00ml><p>one\x00two</p>\x00\x00" + _PAGE
    ),
    _html("deep-nesting", "100,000 open elements", b"<div>" * 100_000 + b"deep"),
    _html(
        "many-attributes",
        "an element with 50,000 attributes",
        b"<p " + b" ".join(b"a%d=1" % n for n in range(50_000)) + b">",
    ),
    _html(
        "many-links",
        "a page with 50,000 links",
        b"".join(b"<a href=/links/%d>x</a>" % n for n in range(50_000)),
    ),
    _html(
        "unclosed",
        "unclosed tags and an unclosed comment",
        b'<html><p><a href="/x><!-- <script>' + b"x" * 5000,
    ),
    _html("html-as-pdf", "HTML declared as PDF", _PAGE, b"application/pdf"),
    _html("image", "a picture", b"\x89PNG\r\n\x1a\n" + _NOISE[:500], b"image/png"),
    Endpoint("empty", "200 with an empty body", raw(answer(b"")), Expected(payload=b"")),
    Endpoint("long-line", "one line of 10 MB", _long_line, Expected(payload=b"<p>a b a b")),
)
