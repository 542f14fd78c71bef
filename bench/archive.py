"""What archiving costs: CPU a page to write and to read WARC, ours against warcio and fastwarc, and
the size.

    python -m bench.archive [FOLDER] [--pages 600] [--rounds 5]

FOLDER holds HTML pages (`*.html`, `*.html.gz` and what nginx serves like them); by default the
sites that the crawl benchmark lays out. Each page is archived twice: plain, and as a server sends
it with Content-Encoding: gzip. Ours writes three records an exchange (response, request, metadata
with the visits row) in one write to the kernel; the others write the first two, digests included,
buffered. Rounds alternate; the median counts. Prints one JSON document. Times are CPU, in
milliseconds a page.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from fastwarc.stream_io import GzipWriter
from fastwarc.warc import ArchiveIterator as FastIterator
from fastwarc.warc import WarcRecord, WarcRecordType
from warcio.archiveiterator import ArchiveIterator
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from lycosa.archive.warc.members import read_records
from lycosa.archive.warc.reader import read_exchanges, read_response
from lycosa.archive.warc.record import sha1_digest
from lycosa.archive.warc.writer import WarcWriter, crawl_info
from lycosa.core.records import Exchange, Visit

SITES = Path.home() / ".cache" / "lycosa-sites"
AT = 1_795_256_778_123
DATE = "2026-11-21T10:26:18.123Z"
SERVER = [
    ("Server", "nginx/1.22.1"),
    ("Date", "Sat, 21 Nov 2026 10:26:18 GMT"),
    ("Content-Type", "text/html; charset=utf-8"),
]
VALIDATORS = [
    ("Connection", "keep-alive"),
    ("Last-Modified", "Sat, 21 Nov 2026 08:00:00 GMT"),
    ("ETag", '"69200f80-1a2b"'),
]
ASKED = [
    ("Host", "www.example.org"),
    ("User-Agent", "lycosa/0.1.0 (+https://www.example.org/robot)"),
    ("Accept", "text/html,application/xhtml+xml,*/*;q=0.8"),
    ("Accept-Encoding", "gzip, deflate, br, zstd"),
]

Pages = Sequence[tuple[Exchange, Visit]]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path, default=SITES)
    parser.add_argument("--pages", type=int, default=600)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    bodies = _bodies(arguments.folder, arguments.pages)
    if not bodies:
        parser.error(
            f"{arguments.folder} holds no HTML pages; lay out the sites first, or name "
            "another folder"
        )
    result: dict[str, object] = {
        "pages": len(bodies),
        "mean_body_bytes": round(statistics.mean(map(len, bodies))),
    }
    with tempfile.TemporaryDirectory() as folder:
        for encoding in ("", "gzip"):
            pages = [_exchange(number, body, encoding) for number, body in enumerate(bodies)]
            result[encoding or "plain"] = _compare(Path(folder), pages, arguments.rounds)
    json.dump(result, sys.stdout, indent=1)
    print()


def _bodies(folder: Path, count: int) -> list[bytes]:
    files = sorted(path for pattern in ("*.html", "*.html.gz") for path in folder.rglob(pattern))
    chosen = random.Random(7).sample(files, min(count, len(files)))
    return [
        gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        for path in chosen
    ]


def _exchange(number: int, body: bytes, encoding: str) -> tuple[Exchange, Visit]:
    path = f"/docs/chapter-{number % 40}/page-{number}.html"
    url = f"http://www.example.org{path}"
    if encoding:
        body = gzip.compress(body, 6)
    headers = [
        *SERVER,
        ("Content-Length", str(len(body))),
        *VALIDATORS,
        *([("Content-Encoding", encoding)] if encoding else []),
    ]
    exchange = Exchange(
        url=url,
        kind="page",
        started_at=AT + number,
        duration_ms=12,
        ip="192.0.2.7",
        protocol="http/1.1",
        request_head=f"GET {path} HTTP/1.1\r\n{_lines(ASKED)}\r\n".encode(),
        response_head=f"HTTP/1.1 200 OK\r\n{_lines(headers)}\r\n".encode(),
        body=body,
        status=200,
        first_byte_ms=4,
    )
    visit = Visit(
        url=url,
        host="www.example.org",
        partition=17,
        host_key=0x9A3F_11C2_77D0_5B21,
        url_key=(number * 0x9E37_79B9_7F4A_7C15) % 2**64,
        kind="page",
        collection="default",
        depth=3,
        fetched_at=AT + number,
        duration_ms=12,
        ip="192.0.2.7",
        protocol="http/1.1",
        http_status=200,
        content_type="text/html; charset=utf-8",
        content_length=len(body),
        server="nginx/1.22.1",
        etag='"69200f80-1a2b"',
        last_modified="Sat, 21 Nov 2026 08:00:00 GMT",
        referrer="http://www.example.org/docs/index.html",
    )
    return exchange, visit


def _lines(headers: Sequence[tuple[str, str]]) -> str:
    return "".join(f"{name}: {value}\r\n" for name, value in headers)


def _compare(folder: Path, pages: Pages, rounds: int) -> dict[str, dict[str, float]]:
    writers: dict[str, Callable[[Path, Pages], None]] = {
        "lycosa": _lycosa,
        "fastwarc": _fastwarc,
        "warcio": _warcio,
    }
    readers: dict[str, Callable[[Path, Pages], None]] = {
        "lycosa": _read_lycosa,
        "fastwarc": _read_fastwarc,
        "warcio": _read_warcio,
    }
    paths = {name: folder / f"{name}.warc.gz" for name in writers}
    write: dict[str, list[float]] = {name: [] for name in writers}
    read: dict[str, list[float]] = {name: [] for name in readers}
    by_offset: list[float] = []
    for _ in range(rounds):
        for name, writer in writers.items():
            paths[name].unlink(missing_ok=True)
            write[name].append(_cpu_ms(writer, paths[name], pages))
        for name, reader in readers.items():
            read[name].append(_cpu_ms(reader, paths["lycosa"], pages))
        by_offset.append(_cpu_ms(_read_by_offset, paths["lycosa"], pages))
    table = {
        name: {
            "write_ms": round(statistics.median(write[name]), 4),
            "read_ms": round(statistics.median(read[name]), 4),
            "bytes_a_page": round(paths[name].stat().st_size / len(pages)),
        }
        for name in writers
    }
    parts = [
        record for record in read_records(paths["lycosa"]) if record.type in ("request", "metadata")
    ]
    table["lycosa"]["read_by_offset_ms"] = round(statistics.median(by_offset), 4)
    table["lycosa"]["bytes_beside_the_response"] = round(
        sum(record.length for record in parts) / len(pages)
    )
    for name in ("fastwarc", "warcio"):
        table[name]["write_ratio"] = round(table[name]["write_ms"] / table["lycosa"]["write_ms"], 2)
        table[name]["read_ratio"] = round(table[name]["read_ms"] / table["lycosa"]["read_ms"], 2)
    return table


def _cpu_ms(function: Callable[[Path, Pages], None], path: Path, pages: Pages) -> float:
    start = time.process_time()
    function(path, pages)
    return (time.process_time() - start) * 1000 / len(pages)


def _lycosa(path: Path, pages: Pages) -> None:
    writer = WarcWriter(path, relative_path=path.name, info=crawl_info("lycosa/0.1.0"))
    for exchange, visit in pages:
        writer.append(exchange, visit)
    writer.close(sync=False)


def _fastwarc(path: Path, pages: Pages) -> None:
    with open(path, "wb") as file:
        for exchange, _ in pages:
            response_id = ""
            for kind, block in (
                (WarcRecordType.response, exchange.response_head + exchange.body),
                (WarcRecordType.request, exchange.request_head),
            ):
                record = WarcRecord()
                record.init_headers(kind)
                record.headers["WARC-Target-URI"] = exchange.url
                record.headers["WARC-Date"] = DATE
                record.headers["WARC-IP-Address"] = exchange.ip
                if kind == WarcRecordType.response:
                    response_id = record.record_id or ""
                    record.headers["WARC-Payload-Digest"] = sha1_digest(exchange.body)
                else:
                    record.headers["WARC-Concurrent-To"] = response_id
                record.headers["WARC-Block-Digest"] = sha1_digest(block)
                record.headers["Content-Type"] = "application/http"
                record.set_bytes_content(block)
                buffer = io.BytesIO()
                # one writer a record: else all share one member
                stream = GzipWriter(buffer, compression_level=6)
                record.write(stream)
                stream.close()
                file.write(buffer.getvalue())


def _warcio(path: Path, pages: Pages) -> None:
    with open(path, "wb") as file:
        writer = WARCWriter(file, gzip=True, warc_version="1.1")
        for exchange, _ in pages:
            response = writer.create_warc_record(
                exchange.url,
                "response",
                payload=io.BytesIO(exchange.body),
                http_headers=_http_headers(exchange.response_head, "HTTP/1.1"),
                warc_headers_dict={"WARC-IP-Address": exchange.ip, "WARC-Date": DATE},
            )
            request = writer.create_warc_record(
                exchange.url,
                "request",
                http_headers=_http_headers(exchange.request_head, ""),
                warc_headers_dict={"WARC-IP-Address": exchange.ip, "WARC-Date": DATE},
            )
            writer.write_request_response_pair(request, response)


def _http_headers(head: bytes, protocol: str) -> StatusAndHeaders:
    first, *rest = head.decode("latin-1").split("\r\n")[:-2]
    fields = [(name, value) for name, _, value in (line.partition(": ") for line in rest)]
    return StatusAndHeaders(
        first.removeprefix("HTTP/1.1 ") if protocol else first, fields, protocol=protocol
    )


def _read_lycosa(path: Path, pages: Pages) -> None:
    found = sum(len(stored.exchange.body) for stored in read_exchanges(path))
    _expect(found, pages)


def _read_fastwarc(path: Path, pages: Pages) -> None:
    found = sum(
        len(record.reader.read())
        for record in FastIterator(path, parse_http=True)
        if record.headers["WARC-Type"] == "response"
    )
    _expect(found, pages)


def _read_warcio(path: Path, pages: Pages) -> None:
    with open(path, "rb") as file:
        found = sum(
            len(record.raw_stream.read())
            for record in ArchiveIterator(file)
            if record.rec_type == "response"
        )
    _expect(found, pages)


def _read_by_offset(path: Path, pages: Pages) -> None:
    _expect(
        sum(
            len(read_response(path, visit.warc_offset, visit.warc_length).body)
            for _, visit in pages
        ),
        pages,
    )


def _expect(found: int, pages: Pages) -> None:
    wanted = sum(len(exchange.body) for exchange, _ in pages)
    if found != wanted:
        raise SystemExit(f"a reader found {found} bytes of bodies, not {wanted}")


if __name__ == "__main__":
    main()
