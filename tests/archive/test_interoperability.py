"""CDXJ keys equal to those of the surt package, and `resource` records for other readers."""

from __future__ import annotations

import errno
import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from fastwarc.warc import ArchiveIterator
from hypothesis import given
from hypothesis import strategies as st
from warcio.archiveiterator import ArchiveIterator as WarcioIterator
from warcio.checker import Checker

from lycosa.archive.cdxj import _PLAIN_PATH, _path_key, cdxj_line, surt, write_cdxj
from lycosa.archive.warc.metadata import Revisited
from lycosa.archive.warc.reader import read_exchanges, read_response
from lycosa.archive.warc.writer import WarcWriter
from lycosa.core.errors import WorkError
from lycosa.core.records import Exchange, Visit
from tests.archive.exchanges import AT, failure, pair

SESSION = "0123456789abcdef0123456789ABCDEF"


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("http://example.com/", "com,example)/"),
        ("https://example.com/", "com,example)/"),
        ("http://www.example.com/", "com,example)/"),
        ("http://WWW2.Example.com", "com,example)/"),
        ("http://www3.www.x.org/", "org,x,www)/"),
        ("http://wwww.a.b/", "b,a,wwww)/"),
        ("http://example.com:80/a", "com,example)/a"),
        ("https://example.com:443/a", "com,example)/a"),
        ("https://example.com:80/a", "com,example:80)/a"),
        ("http://example.com:8080/A/B/", "com,example:8080)/a/b"),
        ("http://user:pw@example.com/", "com,example)/"),
        ("http://example.com./", "com,example)/"),
        ("http://127.0.2.1:8600/", "1,2,0,127:8600)/"),
        ("http://[::1]/", "::1)/"),
        ("HTTP://EXAMPLE.com:80/A", "com,example)/a"),
        ("ftp://ftp.example.com/Pub/a.txt", "com,example,ftp)/pub/a.txt"),
        ("gopher://example.com:7070/0/a", "com,example:7070)/0/a"),
        ("http://xn--bcher-kva.de/", "de,xn--bcher-kva)/"),
        ("http://example.com/?", "com,example)/"),
        ("http://example.com/?b=2&a=1&a=0&c", "com,example)/?a=0&a=1&b=2&c"),
        ("http://example.com/?B=X", "com,example)/?b=x"),
        ("http://example.com/a?b=?", "com,example)/a?b=?"),
        ("http://example.com/a#frag", "com,example)/a"),
        ("http://example.com//a//b///", "com,example)/a/b"),
        ("http://example.com/a/./b/../c", "com,example)/a/c"),
        ("http://example.com/../a", "com,example)/../a"),
        ("http://example.com/%C3%A4%20%41", "com,example)/%c3%a4%20a"),
        ("http://example.com/%2541", "com,example)/a"),
        ("http://example.com/%23x", "com,example)/%23x"),
        ("http://example.com/?u=http%3A%2F%2Fx%26y", "com,example)/?u=http://x&y"),
        (f"http://example.com/?a=1&PHPSESSID={SESSION}&b=2", "com,example)/?a=1&b=2"),
        (f"http://example.com/?sid={SESSION}", "com,example)/"),
        (f"http://example.com/?jsessionid={SESSION}&a", "com,example)/?a"),
        ("http://example.com/?cfid=12&cftoken=34&a=1", "com,example)/?a=1"),
        (
            f"http://example.com/a;jsessionid={SESSION}",
            f"com,example)/a;jsessionid={SESSION.lower()}",
        ),
        ("http://example.com/(s(abcdefghijklmnopqrstuvwx))/x.aspx", "com,example)/x.aspx"),
        ("http://example.com/(abcdefghijklmnopqrstuvwx)/x.aspx?a", "com,example)/x.aspx?a"),
    ],
)
def test_surt_keys(url: str, key: str) -> None:
    assert surt(url) == key


@given(
    st.one_of(
        st.text(), st.builds("http://{}/{}?{}".format, st.text(max_size=5), st.text(), st.text())
    )
)
def test_surt_accepts_any_text_and_its_keys_have_no_separator(url: str) -> None:
    key = surt(url)
    assert key.isascii()
    assert " " not in key.partition(")")[2]
    assert "\n" not in key


@given(st.text("/.aZ0-~%(){}@", max_size=12))
def test_fast_path_of_surt_agrees_with_the_general_one(tail: str) -> None:
    path = f"/{tail}"
    if _PLAIN_PATH.fullmatch(path):
        assert surt(f"http://a{path}") == f"a){_path_key(path)}"


def test_cdxj_line_is_json_with_any_content_type() -> None:
    capture = SimpleNamespace(
        url="http://é/",
        fetched_at=0,
        content_type='a"\\\n/b;c',
        http_status=200,
        digest="sha1:A",
    )
    line = cdxj_line(capture, "a.warc.gz", 1, 2)
    assert line.isascii()
    assert json.loads(line.partition("{")[1] + line.partition("{")[2]) == {
        "url": "http://é/",
        "mime": 'a"\\\n/b',
        "status": "200",
        "digest": "sha1:A",
        "length": "2",
        "offset": "1",
        "filename": "a.warc.gz",
    }


def test_index_of_a_warc_file(tmp_path: Path) -> None:
    writer = WarcWriter(
        tmp_path / "archive.warc.gz", relative_path="data/1-1/archive.warc.gz", info={}
    )
    first, visit = pair("http://www.example.org/b?é")
    writer.append(first, visit)
    visits = [visit, replace(visit, collection="another")]
    for item, target in (
        (pair("http://www.example.org/a", at=AT + 60_000), None),
        (pair("http://www.example.org/A.html"), None),
        (failure(), None),
        (pair("http://www.example.org/odd", head=b"ICY 200\r\n\r\n"), None),
        (
            pair(first.url, at=AT + 1_000),
            Revisited(visit.url, visit.fetched_at, visit.record_id, visit.digest),
        ),
    ):
        writer.append(*item, revisit_of=target)
        visits.append(item[1])
    writer.close()
    path = tmp_path / "archive.cdxj"
    assert write_cdxj(path, visits, record_types=writer.record_types) == 4
    lines = path.read_text().splitlines()
    ordered = subprocess.run(
        ["sort"], env={"LC_ALL": "C"}, input=path.read_bytes(), capture_output=True, check=True
    ).stdout
    assert path.read_bytes() == ordered
    assert [line.split(" ", 2)[:2] for line in lines] == [
        ["org,example)/a", "20261121102718"],
        ["org,example)/a.html", "20261121102618"],
        ["org,example)/b?%c3%a9", "20261121102618"],
        ["org,example)/b?%c3%a9", "20261121102619"],
    ]
    fields = [json.loads(line.split(" ", 2)[2]) for line in lines]
    assert fields[2] == {
        "url": first.url,
        "mime": "text/html",
        "status": "200",
        "digest": visit.digest,
        "length": str(visit.warc_length),
        "offset": str(visit.warc_offset),
        "filename": "archive.warc.gz",
    }
    assert [field["mime"] for field in fields] == ["text/html"] * 3 + ["warc/revisit"]
    for field in fields:
        assert read_response(
            tmp_path / field["filename"], int(field["offset"]), int(field["length"])
        ).url in (
            field["url"],
            "http://www.example.org/b?%C3%A9",
        )
    with pytest.raises(WorkError, match="cannot be written: File exists"):
        write_cdxj(path, visits)


def test_failed_write_leaves_no_partial_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(file: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("lycosa.archive.cdxj.os.fsync", fail)
    with pytest.raises(WorkError, match="cannot be written: No space left on device"):
        write_cdxj(tmp_path / "a.cdxj", [])
    monkeypatch.undo()
    assert write_cdxj(tmp_path / "a.cdxj", []) == 0


HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nLast-Modified: Sat, 21 Nov 2026 10:00:00 "
    b"GMT\r\n\r\n"
)


def _pair(
    url: str, head: bytes = HEAD, body: bytes = b"Words in a file.\r\n\r\nMore.", status: int = 200
) -> tuple[Exchange, Visit]:
    """Return an exchange over FTP or Gopher, which has no request head, and its visit."""
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
            body=b"HTTP/1.1 404 Not Found\r\n\r\nlooks like an HTTP response",
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
        writer.append(exchange, visit, revisit_of=Revisited(url, AT, first.record_id, first.digest))
        exchange.body = b""  # a revisit record has no body
        pairs.append((exchange, visit))
    writer.close()
    return path, writer, pairs


@pytest.mark.proves("consistency-other-readers")
def test_resource_records_are_read_as_written(
    written: tuple[Path, WarcWriter, list[tuple[Exchange, Visit]]],
) -> None:
    path, _, pairs = written
    assert [(stored.exchange, stored.visit) for stored in read_exchanges(path)] == pairs
    for exchange, visit in pairs[:3]:
        response = read_response(path, visit.warc_offset, visit.warc_length)
        assert (response.url, response.status, response.body) == (exchange.url, 200, exchange.body)
        assert response.head == b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n"
    assert read_response(path, pairs[3][1].warc_offset, pairs[3][1].warc_length).status == 404


@pytest.mark.proves("consistency-other-readers")
def test_other_readers_accept_resource_records(
    written: tuple[Path, WarcWriter, list[tuple[Exchange, Visit]]], tmp_path: Path
) -> None:
    path, writer, pairs = written
    assert Checker(SimpleNamespace(verbose=False, inputs=[str(path)])).process_all() == 0
    expected = [("resource", each.url, each.body) for each, _ in pairs[:3]] + [
        ("revisit", pairs[0][0].url, b"")
    ] * 2
    actual: list[tuple[str, str, bytes]] = []
    protocols: list[str] = []
    content_types: list[str] = []
    with path.open("rb") as stream:
        for record in WarcioIterator(stream):
            if record.rec_type in ("resource", "revisit"):
                header = record.rec_headers.get_header
                actual.append(
                    (record.rec_type, header("WARC-Target-URI"), record.content_stream().read())
                )
                protocols.append(header("WARC-Protocol"))
                content_types.append(header("Content-Type"))
    assert actual == expected
    assert protocols == ["ftp", "ftp", "gopher", "ftp", "ftp"]
    assert content_types[:3] == ["text/plain"] * 3
    with path.open("rb") as stream:
        for record in ArchiveIterator(stream):
            assert record.verify_block_digest()
    lines = write_cdxj(
        tmp_path / "a.cdxj", [visit for _, visit in pairs], record_types=writer.record_types
    )
    assert lines == 5  # the 404 has no resource record
