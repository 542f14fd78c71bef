"""What came over ftp or gopher: `resource` records that other readers take, and that give back the
exchange exactly.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from fastwarc.warc import ArchiveIterator
from warcio.archiveiterator import ArchiveIterator as WarcioIterator
from warcio.checker import Checker

from lycosa.archive.cdxj import write_cdxj
from lycosa.archive.warc.reader import read_exchanges, read_response
from lycosa.archive.warc.writer import RevisitTarget, WarcWriter
from lycosa.core.records import Exchange, Visit
from tests.archive.exchanges import AT, pair

HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nLast-Modified: Sat, 21 Nov 2026 10:00:00 "
    b"GMT\r\n\r\n"
)


def _pair(
    url: str, head: bytes = HEAD, body: bytes = b"Words in a file.\r\n\r\nMore.", status: int = 200
) -> tuple[Exchange, Visit]:
    exchange, visit = pair(
        url, head=head, body=body, request=b"", protocol=url.partition(":")[0], status=status
    )
    return exchange, replace(visit, content_type="text/plain")


@pytest.fixture
def written(tmp_path: Path) -> tuple[Path, WarcWriter, list[tuple[Exchange, Visit]]]:
    path = tmp_path / "a.warc.gz"
    writer = WarcWriter(path, relative_path="a.warc.gz", info={})
    pairs = [
        _pair("ftp://h.example/a.txt"),
        _pair("ftp://h.example/empty/", body=b""),
        _pair(
            "gopher://h.example/0/a",
            body=b"HTTP/1.1 404 Not Found\r\n\r\nlooks like an answer of the web",
        ),
        _pair("ftp://h.example/none", head=b"HTTP/1.1 404 Not Found\r\n\r\n", body=b"", status=404),
    ]
    for exchange, visit in pairs:
        writer.append(exchange, visit)
    for url, status, head in (
        ("ftp://h.example/a.txt", 304, b"HTTP/1.1 304 Not Modified\r\n\r\n"),
        ("ftp://h.example/a.txt", 200, HEAD),
    ):
        exchange, visit = _pair(url, head, b"" if status == 304 else pairs[0][0].body, status)
        first = pairs[0][1]
        writer.append(
            exchange, visit, revisit_of=RevisitTarget(url, AT, first.record_id, first.digest)
        )
        exchange.body = b""  # left out, since the first capture has it
        pairs.append((exchange, visit))
    writer.close()
    return path, writer, pairs


def test_they_come_back_as_they_were(
    written: tuple[Path, WarcWriter, list[tuple[Exchange, Visit]]],
) -> None:
    path, _, pairs = written
    assert [(stored.exchange, stored.visit) for stored in read_exchanges(path)] == pairs
    for exchange, visit in pairs[:3]:
        response = read_response(path, visit.warc_offset, visit.warc_length)
        assert (response.url, response.status, response.body) == (exchange.url, 200, exchange.body)
        assert response.head == b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n"
    assert read_response(path, pairs[3][1].warc_offset, pairs[3][1].warc_length).status == 404


def test_other_readers_take_them(
    written: tuple[Path, WarcWriter, list[tuple[Exchange, Visit]]], tmp_path: Path
) -> None:
    path, writer, pairs = written
    checker = Checker(
        type(
            "Options",
            (),
            {"verbose": False, "inputs": [str(path)], "exit_code": 0, "exit_value": 0},
        )()
    )
    checker.process_all()
    assert checker.exit_value == 0
    expected = [("resource", each.url, each.body) for each, _ in pairs[:3]] + [
        ("revisit", pairs[0][0].url, b"")
    ] * 2
    with path.open("rb") as stream:
        ours = [
            record
            for record in WarcioIterator(stream)
            if record.rec_type in ("resource", "revisit")
        ]
        stream.seek(0)
        actual = [
            (
                record.rec_type,
                record.rec_headers.get_header("WARC-Target-URI"),
                record.content_stream().read(),
            )
            for record in WarcioIterator(stream)
            if record.rec_type in ("resource", "revisit")
        ]
    assert actual == expected
    assert [record.rec_headers.get_header("WARC-Protocol") for record in ours] == [
        "ftp",
        "ftp",
        "gopher",
        "ftp",
        "ftp",
    ]
    assert [record.rec_headers.get_header("Content-Type") for record in ours[:3]] == [
        "text/plain"
    ] * 3
    with path.open("rb") as stream:
        for record in ArchiveIterator(stream):
            assert record.verify_block_digest()
    lines = write_cdxj(
        tmp_path / "a.cdxj", [visit for _, visit in pairs], record_types=writer.record_types
    )
    assert lines == 5  # not the one that has no record of its own
