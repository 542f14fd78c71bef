"""Writing WARC files: golden bytes, other readers, full disks, kills."""

from __future__ import annotations

import errno
import gzip
import io
import itertools
import os
import signal
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from fastwarc.warc import ArchiveIterator as FastIterator
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from warcio.archiveiterator import ArchiveIterator
from warcio.checker import Checker

from lycosa.archive.warc.members import read_records
from lycosa.archive.warc.metadata import Revisited
from lycosa.archive.warc.reader import read_exchanges, read_response
from lycosa.archive.warc.record import (
    RECORD_LIMIT_BYTES,
    field_value,
    gzip_record,
    warc_date,
)
from lycosa.archive.warc.writer import WarcWriter, crawl_info, payload_digest
from lycosa.core.errors import WorkError
from lycosa.core.records import Exchange, Visit
from tests.archive.exchanges import AT, HEAD, REQUEST, failure, pair
from tests.waiting import ManualClock

ROOT = Path(__file__).parents[2]
RELATIVE = "data/00000001-1/archive.warc.gz"


def ids() -> Callable[[], str]:
    counter = itertools.count()
    return lambda: f"urn:uuid:00000000-0000-4000-8000-{next(counter):012d}"


def new_writer(path: Path) -> WarcWriter:
    return WarcWriter(
        path,
        relative_path=RELATIVE,
        info={"software": "Lycosa/0.1.0", **crawl_info("lycosa/0.1.0")},
        new_id=ids(),
        clock=ManualClock(AT),
    )


def write(path: Path, *pairs: tuple[Exchange, Visit]) -> None:
    writer = new_writer(path)
    for exchange, visit in pairs:
        writer.append(exchange, visit)
    writer.close()


def warcio_check(path: Path) -> tuple[int, str]:
    output = io.StringIO()
    with redirect_stdout(output):
        code = Checker(SimpleNamespace(inputs=[str(path)], verbose=True)).process_all()
    return code, output.getvalue()


def test_golden_records(tmp_path: Path) -> None:
    exchange, visit = pair(
        "https://www.example.org/a",
        head=b"HTTP/2 203 \r\nx: y\r\n\r\n",
        request=b"GET /a HTTP/2\r\nHost: www.example.org\r\n\r\n",
        protocol="h2",
        status=203,
        truncated="length",
    )
    write(tmp_path / "a.warc.gz", (exchange, visit))
    written = gzip.decompress((tmp_path / "a.warc.gz").read_bytes())
    assert written == (Path(__file__).parent / "golden.warc").read_bytes()
    again = tmp_path / "b.warc.gz"
    write(again, (exchange, replace(visit, record_id="")))
    assert again.read_bytes() == (tmp_path / "a.warc.gz").read_bytes()


def test_file_is_a_sequence_of_one_gzip_member_per_record(path: Path) -> None:
    write(
        path,
        pair(),
        failure(),
        pair(
            "https://www.example.org/b",
            head=b"HTTP/2 200 \r\ncontent-encoding: gzip\r\n\r\n",
            body=b"\x1f\x8b" + bytes(70_000),
        ),
    )
    data = path.read_bytes()
    kinds = []
    while data:
        member = zlib.decompressobj(31)
        record = member.decompress(data)
        assert member.eof
        kinds.append(record.split(b"\r\n")[1])
        data = member.unused_data
    triple = [b"WARC-Type: response", b"WARC-Type: request", b"WARC-Type: metadata"]
    assert kinds == [b"WARC-Type: warcinfo", *triple, b"WARC-Type: metadata", *triple]


@pytest.mark.proves("consistency-other-readers")
def test_page_is_read_byte_for_byte_by_lycosa_and_warcio(path: Path) -> None:
    exchange, visit = pair(body=os.urandom(300_000))
    write(path, pair(), (exchange, visit))
    assert path.stat().st_size > visit.warc_offset + visit.warc_length
    stored = read_response(path, visit.warc_offset, visit.warc_length)
    assert (stored.head, stored.body, stored.status, stored.url) == (
        exchange.response_head,
        exchange.body,
        200,
        exchange.url,
    )
    assert stored.headers["warc-record-id"] == f"<{visit.record_id}>"
    with open(path, "rb") as file:
        file.seek(visit.warc_offset)
        record = next(iter(ArchiveIterator(file)))
        assert record.raw_stream.read() == exchange.body
        assert record.rec_headers["WARC-Payload-Digest"] == visit.digest == payload_digest(exchange)


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def fast_digests(path: Path) -> Iterator[tuple[str, bool, bool]]:
    for record in FastIterator(path, parse_http=False):
        yield (
            record.headers["WARC-Type"],
            record.verify_block_digest(),
            "WARC-Payload-Digest" in record.headers,
        )
    assert all(
        record.verify_payload_digest()
        for record in FastIterator(path, parse_http=True)
        if record.headers["WARC-Type"] == "response"
    )


@pytest.mark.proves("consistency-other-readers")
def test_other_readers_agree_with_every_digest(path: Path) -> None:
    first, first_visit = pair()
    packed = gzip.compress(b"hi" * 50)
    writer = new_writer(path)
    for item in (
        (first, first_visit),
        pair("http://www.example.org/c", head=CHUNKED, body=b"5\r\nhello\r\n0\r\n\r\n"),
        pair(
            "http://www.example.org/g",
            head=CHUNKED[:-2] + b"Content-Encoding: gzip\r\n\r\n",
            body=b"%x\r\n%s\r\n0\r\n\r\n" % (len(packed), packed),
        ),
        pair(
            "http://www.example.org/e",
            head=b"HTTP/1.1 301 \r\nLocation: /a\r\n\r\n",
            body=b"",
            status=301,
        ),
        failure(),
        pair("http://www.example.org/i", head=b"ICY 200 OK\r\n\r\n", status=200),
    ):
        writer.append(*item)
    target = Revisited(first.url, first_visit.fetched_at, first_visit.record_id, first_visit.digest)
    writer.append(*pair(at=AT + 1000), revisit_of=target)
    writer.append(
        *pair(head=b"HTTP/1.1 304 Not Modified\r\n\r\n", body=b"", status=304, at=AT + 2000),
        revisit_of=target,
    )
    writer.close()

    code, output = warcio_check(path)
    assert code == 0, output
    assert output.count("digest pass") == 1 + 4 * 3 + 2 + 2 * 2
    assert output.count("not checked (revisit)") == 2
    assert all(block for _, block, _ in fast_digests(path))
    assert sum(payload for _, _, payload in fast_digests(path)) == 6
    # Both decode the page through chunks and gzip.
    with open(path, "rb") as file:
        bodies = {
            record.rec_headers["WARC-Target-URI"]: record.content_stream().read()
            for record in ArchiveIterator(file)
            if record.rec_type == "response"
        }
    assert bodies["http://www.example.org/c"] == b"hello"
    assert bodies["http://www.example.org/g"] == b"hi" * 50


def test_revisit_records_refer_to_the_original(tmp_path: Path, path: Path) -> None:
    exchange, visit = pair()
    writer = new_writer(path)
    writer.append(exchange, visit)
    target = Revisited(exchange.url, visit.fetched_at, visit.record_id, visit.digest)
    same, same_visit = pair(at=AT + 5)
    writer.append(same, same_visit, revisit_of=target)
    old, old_visit = pair(head=b"HTTP/1.1 304 Not Modified\r\n\r\n", body=b"", status=304)
    writer.append(old, old_visit, revisit_of=target)
    with pytest.raises(ValueError, match="does not have the digest"):
        writer.append(*pair(body=b"other"), revisit_of=target)
    with pytest.raises(ValueError, match="must have the same URL"):
        writer.append(*pair("http://www.example.org/b"), revisit_of=target)
    writer.close()
    assert writer.record_types == {same_visit.record_id: "revisit", old_visit.record_id: "revisit"}
    stored = read_response(path, same_visit.warc_offset, same_visit.warc_length)
    assert (stored.body, stored.head) == (b"", same.response_head)
    assert {
        name: stored.headers[name]
        for name in stored.headers
        if name.startswith(("warc-refers", "warc-profile", "warc-payload"))
    } == {
        "warc-profile": "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest",
        "warc-refers-to": f"<{visit.record_id}>",
        "warc-refers-to-target-uri": exchange.url,
        "warc-refers-to-date": "2026-11-21T10:26:18.123Z",
        "warc-payload-digest": visit.digest,
    }
    assert old_visit.digest == visit.digest
    assert (
        read_response(path, old_visit.warc_offset, old_visit.warc_length)
        .headers["warc-profile"]
        .endswith("/server-not-modified")
    )
    # Replay copies a revisit, which has no body, into another file.
    stored_revisit = list(read_exchanges(path))[1]
    copy = WarcWriter(tmp_path / "b.warc.gz", relative_path="b.warc.gz", info={})
    copy.append(stored_revisit.exchange, stored_revisit.visit, revisit_of=stored_revisit.revisit_of)
    copy.close()
    (again,) = read_exchanges(tmp_path / "b.warc.gz")
    assert (again.revisit_of, again.visit.digest, again.visit.record_id) == (
        target,
        visit.digest,
        same_visit.record_id,
    )


def test_a_copied_exchange_keeps_its_record_id(tmp_path: Path) -> None:
    write(tmp_path / "orphan.warc.gz", pair(), failure())
    copy = WarcWriter(tmp_path / "copy.warc.gz", relative_path="copy", info={})
    for stored in read_exchanges(tmp_path / "orphan.warc.gz"):
        copy.append(stored.exchange, stored.visit)
    copy.close()
    before, after = (
        list(read_exchanges(tmp_path / name)) for name in ("orphan.warc.gz", "copy.warc.gz")
    )
    assert (
        [stored.visit.record_id for stored in before],
        [stored.exchange for stored in before],
    ) == ([stored.visit.record_id for stored in after], [stored.exchange for stored in after])
    assert len({record.id() for record in read_records(tmp_path / "copy.warc.gz")}) == 5


head_bytes = st.one_of(
    st.binary(max_size=80),
    st.builds(
        lambda start, lines, end: start + b"\r\n" + b"".join(lines) + end,
        st.sampled_from(
            [
                b"HTTP/1.1 200 OK",
                b"HTTP/1.0 404",
                b"HTTP/1.1 000 ",
                b"HTTP/1.1 999 \xff\x00",
                b"HTTP/2 200",
                b"HTTP/3 204 ",
                b"GET / HTTP/1.1",
                b"GET /x HTTP/2",
            ]
        ),
        st.lists(
            st.one_of(
                st.binary(max_size=20),
                st.sampled_from(
                    [
                        b"a: b\r\n",
                        b" folded\r\n",
                        b"no colon\r\n",
                        b": no name\r\n",
                        b"x:\n",
                        b"\xff: \x80\r\n",
                        b"Transfer-Encoding: chunked\r\n",
                        b"Content-Encoding: gzip\r\n",
                        b"a\x00: b\r\n",
                        b"\x0b\r\n",
                        b"\x85\r\n",
                        b"\x1c\r\n",
                    ]
                ),
            ),
            max_size=4,
        ),
        st.sampled_from([b"\r\n", b"\n", b"", b"\r\n\r\n"]),
    ),
)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(head=head_bytes, request=head_bytes, body=st.binary(max_size=60))
def test_other_readers_can_read_files_with_any_head(
    path: Path, head: bytes, request: bytes, body: bytes
) -> None:
    path.unlink(missing_ok=True)
    written = pair(head=head, request=request, body=body)
    write(path, written, pair("http://www.example.org/after"))
    code, output = warcio_check(path)
    assert code == 0, output
    assert all(block for _, block, _ in fast_digests(path))
    first, after = read_exchanges(path)
    assert (first.exchange, first.visit) == written
    assert after.exchange.url == "http://www.example.org/after"


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 404 Not Found\nX: y\n\n",
        b"HTTP/1.1 404 Not Found\r\nX: y\r\n\n",
        b"HTTP/1.1 404 Not Found\r\n\x0b\r\nX: y\r\n\r\n",
        b"HTTP/1.1\t404\tNot Found\r\nX: y\r\n\r\n",
        b"HTTP/1.1  404  Not Found\r\nX: y\r\n\r\n",
        b"http/1.1 404 Not Found\r\nX: y\r\n\r\n",
        b"\r\nHTTP/1.1 404 Not Found\r\nX: y\r\n\r\n",
    ],
)
def test_lenient_heads_are_responses_for_other_readers(path: Path, head: bytes) -> None:
    written = pair(head=head, status=404)
    write(path, written)
    with open(path, "rb") as file:
        response = next(each for each in ArchiveIterator(file) if each.rec_type == "response")
        assert response.http_headers.get_statuscode() == "404"
        assert response.http_headers.get_header("X") == "y"
    fast = [record for record in FastIterator(path) if record.http_headers]
    assert (fast[0].http_headers.status_code, fast[0].http_headers["X"]) == (404, "y")
    [stored] = read_exchanges(path)
    assert (stored.exchange, stored.visit) == written


@pytest.mark.proves("durability-full-disk")
def test_full_disk_is_an_error_and_leaves_complete_exchanges(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = new_writer(path)
    writer.append(*pair())
    size = writer.size
    free = [100]
    real_write = os.write

    def write_until_full(file: int, data: memoryview) -> int:
        if not free[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        used = min(free[0], len(data))
        free[0] -= used
        return real_write(file, data[:used])

    monkeypatch.setattr("lycosa.archive.warc.writer.os.write", write_until_full)
    with pytest.raises(
        WorkError,
        match=r"No space left on device after \d+ bytes.*all earlier "
        r"records are complete",
    ):
        writer.append(*pair("http://www.example.org/b"))
    assert writer.size == size == path.stat().st_size
    monkeypatch.undo()
    writer.append(*pair("http://www.example.org/c"))
    writer.close()
    assert [stored.exchange.url for stored in read_exchanges(path)] == [
        "http://www.example.org/a",
        "http://www.example.org/c",
    ]


SIZE_LIMITED = """
import os, resource, sys
from pathlib import Path
from lycosa.archive.warc.metadata import Revisited
from lycosa.archive.warc.writer import WarcWriter
from lycosa.core.errors import WorkError
from tests.archive.exchanges import pair

resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
writer = WarcWriter(Path(sys.argv[1]), relative_path="a", info={})
for number in range(100):
    try:
        writer.append(*pair(f"http://a.example/{number}", body=os.urandom(3_000)))
    except WorkError as error:
        print(number, writer.size, error)
        writer.append(*pair("http://a.example/small"))
        break
writer.close()
"""


def test_file_size_limit_is_handled_like_a_full_disk(path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", SIZE_LIMITED, str(path)],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    count, size, message = run.stdout.split(" ", 2)
    assert "File too large" in message
    assert 15_000 < int(size) < path.stat().st_size <= 20_000
    actual = [stored.exchange.url for stored in read_exchanges(path)]
    assert actual == [
        *(f"http://a.example/{number}" for number in range(int(count))),
        "http://a.example/small",
    ]


KILLED = """
import os, sys
from pathlib import Path
from lycosa.archive.warc.metadata import Revisited
from lycosa.archive.warc.writer import WarcWriter
from tests.archive.exchanges import pair

writer = WarcWriter(Path(sys.argv[1]), relative_path="a", info={})
for number in range(10_000_000):
    writer.append(*pair(f"http://a.example/{number}", body=os.urandom(20_000)))
    os.write(1, b"%d\\n" % number)
"""


@pytest.mark.proves("durability-archive-first")
def test_appended_exchanges_survive_a_kill(tmp_path: Path) -> None:
    for kill_after in (1, 23, 57):
        path = tmp_path / f"{kill_after}.warc.gz"
        with subprocess.Popen(
            [sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, cwd=ROOT
        ) as process:
            assert process.stdout is not None
            for _ in range(kill_after):
                process.stdout.readline()
            process.send_signal(signal.SIGKILL)
            reported = kill_after + process.stdout.read().count(b"\n")
        actual = [stored.exchange.url for stored in read_exchanges(path)]
        assert actual == [f"http://a.example/{number}" for number in range(len(actual))]
        assert reported <= len(actual) <= reported + 1


@pytest.mark.proves("durability-torn-archive")
def test_append_is_refused_after_a_torn_tail_that_cannot_be_truncated(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = new_writer(path)
    writer.append(*pair())
    real_write = os.write

    def fail_half_way(file: int, data: memoryview) -> int:
        if len(data) < 500:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real_write(file, data[:500])

    def fail(file: int, length: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr("lycosa.archive.warc.writer.os.write", fail_half_way)
    monkeypatch.setattr("lycosa.archive.warc.writer.os.ftruncate", fail)
    with pytest.raises(WorkError, match="Input/output error"):
        writer.append(*pair("http://www.example.org/b"))
    monkeypatch.undo()
    with pytest.raises(WorkError, match="start a new file"):
        writer.append(*pair("http://www.example.org/c"))
    writer.close()
    with pytest.raises(ValueError, match="is closed"):
        writer.append(*pair("http://www.example.org/d"))
    assert path.stat().st_size > writer.size
    assert [stored.exchange.url for stored in read_exchanges(path)] == ["http://www.example.org/a"]


def test_short_writes_are_continued(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_write = os.write
    monkeypatch.setattr(
        "lycosa.archive.warc.writer.os.write", lambda file, data: real_write(file, data[:97])
    )
    exchange, visit = pair(body=os.urandom(2_000))
    write(path, (exchange, visit))
    monkeypatch.undo()
    assert next(read_exchanges(path)).exchange == exchange


@pytest.mark.proves("consistency-immutable")
def test_existing_file_is_not_overwritten(tmp_path: Path, path: Path) -> None:
    write(path, pair())
    before = path.read_bytes()
    with pytest.raises(WorkError, match="cannot be created: File exists"):
        new_writer(path)
    assert path.read_bytes() == before
    with pytest.raises(WorkError, match="No such file"):
        new_writer(tmp_path / "missing" / "a.warc.gz")


def test_failed_start_of_a_file_closes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(file: int, data: memoryview) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("lycosa.archive.warc.writer.os.write", fail)
    before = os.listdir("/proc/self/fd")
    with pytest.raises(WorkError, match="No space left on device after 0 bytes"):
        new_writer(tmp_path / "a.warc.gz")
    assert len(os.listdir("/proc/self/fd")) == len(before)
    assert (tmp_path / "a.warc.gz").stat().st_size == 0


@pytest.mark.proves("durability-archive-first")
def test_append_writes_before_it_returns(path: Path) -> None:
    writer = new_writer(path)
    exchange, visit = pair()
    writer.append(exchange, visit)
    assert (path.stat().st_size, next(read_exchanges(path)).exchange) == (writer.size, exchange)
    writer.close()
    writer.close()


def test_a_body_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    class Huge(bytes):
        def __len__(self) -> int:
            return RECORD_LIMIT_BYTES

    writer = new_writer(tmp_path / "a.warc.gz")
    size = writer.size
    with pytest.raises(WorkError, match=r"lower fetch\.max_body"):
        writer.append(*pair(body=Huge()))
    assert writer.size == size
    writer.close()


@given(
    head=st.binary(max_size=200),
    body=st.binary(max_size=200),
    blocks=st.integers(0, 3),
    stored=st.booleans(),
)
@settings(max_examples=60)
def test_gzip_record_is_decompressed_to_its_record(
    head: bytes, body: bytes, blocks: int, stored: bool
) -> None:
    body += bytes(65_535 * blocks)
    member = gzip_record("A: b\r\n", head, body, store_body=stored)
    expected = (
        b"WARC/1.1\r\nA: b\r\nContent-Length: %d\r\n\r\n" % (len(head) + len(body))
        + head
        + body
        + b"\r\n\r\n"
    )
    assert gzip.decompress(member) == expected


def test_compressed_bodies_are_not_compressed_again() -> None:
    body = os.urandom(100_000)
    member = gzip_record("", HEAD, body, store_body=True)
    assert body[:65_535] in member
    assert len(member) < len(body) + 200


@pytest.mark.parametrize(
    ("at", "date"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (AT, "2026-11-21T10:26:18.123Z"),
        (951_782_400_007, "2000-02-29T00:00:00.007Z"),
    ],
)
def test_dates_have_milliseconds(at: int, date: str) -> None:
    assert warc_date(at) == date


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("http://a/?q=%41#b", "http://a/?q=%41#b"),
        ("http://a/x\r\nWARC-Type: warcinfo", "http://a/x%0D%0AWARC-Type:%20warcinfo"),
        ("é\udc80", "%C3%A9%ED%B2%80"),
    ],
)
def test_field_values_cannot_inject_fields(text: str, value: str) -> None:
    assert field_value(text) == value


def test_the_request_is_optional(path: Path) -> None:
    exchange, visit = pair(request=b"")
    write(path, (exchange, visit))
    (stored,) = read_exchanges(path)
    assert (stored.exchange, stored.visit) == (exchange, visit)
    assert REQUEST not in gzip.decompress(path.read_bytes())
