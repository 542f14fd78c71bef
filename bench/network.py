"""CPU of fetching, archiving and resolving links, each compared with libraries in the same rounds.

    python -m bench.network [fetch|warc|links]... [--pages 600] [--requests 3000] [--runs N]

fetch   Small pages from nginx with keep-alive: our fetcher, a bare pycurl loop, httpx. The bare
        loop looks at nothing.
warc    Real pages written and read: ours (response, request and metadata records in one write),
        warcio and fastwarc (response and request, buffered).
links   `a` and `area` links of real pages: ours resolves, checks the scope and makes keys, and
        starts each round with empty caches; Scrapy's way is `urljoin` and w3lib's
        `canonicalize_url`, and nothing more.
"""

from __future__ import annotations

import asyncio
import functools
import gzip
import io
import random
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import urljoin

import httpx
import pycurl
from fastwarc.stream_io import GzipWriter
from fastwarc.warc import ArchiveIterator as FastIterator
from fastwarc.warc import WarcRecord, WarcRecordType
from selectolax.lexbor import LexborHTMLParser
from tests.servers.nginx import Server, nginx
from w3lib.url import canonicalize_url
from warcio.archiveiterator import ArchiveIterator
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from bench.corpora import SITES, html_files
from bench.harness import alternate, arguments, comparison, cpu_s, report
from lycosa.archive.warc.reader import read_exchanges
from lycosa.archive.warc.record import sha1_digest
from lycosa.archive.warc.writer import WarcWriter, crawl_info
from lycosa.config.settings import Collection, FetchSettings
from lycosa.core.clock import SystemClock
from lycosa.core.errors import Refusal
from lycosa.core.records import Exchange, Request, Visit
from lycosa.fetch.client import CurlFetcher
from lycosa.fetch.guard import AddressGuard
from lycosa.url import normalise
from lycosa.url.domain import Domains, bundled_suffix_list
from lycosa.url.keys import Identifier
from lycosa.url.normalise import LinkResolver
from lycosa.url.rules import Rules
from lycosa.url.scope import Admission

CONNECTIONS = 32
SMALL_PAGE = b"<p>A small page, of the size of a short answer.</p>\n" * 20
HTTPX_SHARE = 10  # httpx gets fewer requests because it is so much slower
AT_MS, DATE = 1_795_256_778_123, "2026-11-21T10:26:18.123Z"

Pages = Sequence[tuple[str, bytes]]
Contenders = dict[str, Callable[[], float]]


def microseconds(work: Callable[[], object], count: int) -> float:
    """Return the CPU microseconds per item."""
    return cpu_s(work) * 1e6 / count


def fetch_ours(url: str, port: int, count: int) -> None:
    guard = AddressGuard([("127.0.0.1", port)])
    with CurlFetcher(FetchSettings(), guard, SystemClock()) as fetcher:
        started = done = 0
        while done < count:
            while started < count and fetcher.active < CONNECTIONS:
                fetcher.start(Request(url))
                started += 1
            for exchange in fetcher.wait(1000):
                done += 1
                assert exchange.body == SMALL_PAGE, exchange.error_text


def fetch_bare(url: str, count: int) -> None:
    multi = pycurl.CurlMulti()
    idle = [pycurl.Curl() for _ in range(CONNECTIONS)]
    started = done = 0
    while done < count:
        while idle and started < count:
            curl = idle.pop()
            curl.setopt(pycurl.URL, url)
            curl.setopt(pycurl.HEADERFUNCTION, [].append)
            curl.setopt(pycurl.WRITEFUNCTION, [].append)
            multi.add_handle(curl)
            started += 1
        multi.perform()
        left = 1
        while left:
            left, succeeded, failed = multi.info_read()
            assert not failed, failed
            for curl in succeeded:
                multi.remove_handle(curl)
                idle.append(curl)
                done += 1
        if not idle:
            multi.select(1.0)


async def fetch_httpx(url: str, count: int) -> None:
    limits = httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS)
    async with httpx.AsyncClient(limits=limits, trust_env=False) as client:

        async def worker() -> None:
            for _ in range(count // CONNECTIONS):
                assert (await client.get(url)).content == SMALL_PAGE

        await asyncio.gather(*(worker() for _ in range(CONNECTIONS)))


def compare_fetch(requests: int, runs: int) -> tuple[str, dict[str, list[float]]]:
    few = max(CONNECTIONS, requests // HTTPX_SHARE // CONNECTIONS * CONNECTIONS)
    with tempfile.TemporaryDirectory(prefix="lycosa-bench-") as folder:
        Path(folder, "page.html").write_bytes(SMALL_PAGE)
        with nginx([Server("127.0.0.1", Path(folder))]) as server:
            url = f"http://127.0.0.1:{server.port}/page.html"
            contenders: Contenders = {
                "Lycosa": lambda: microseconds(
                    lambda: fetch_ours(url, server.port, requests), requests
                ),
                "bare libcurl": lambda: microseconds(lambda: fetch_bare(url, requests), requests),
                "httpx": lambda: microseconds(lambda: asyncio.run(fetch_httpx(url, few)), few),
            }
            readings = alternate(contenders, runs)
    return comparison(readings, "Lycosa", "fetch, CPU µs per request"), readings


def make_exchange(number: int, body: bytes) -> tuple[Exchange, Visit]:
    """Return a page as a server sends it, and its visit."""
    path = f"/docs/chapter-{number % 40}/page-{number}.html"
    url = f"http://www.example.org{path}"
    request = (
        f"GET {path} HTTP/1.1\r\nHost: www.example.org\r\nUser-Agent: lycosa/0.1.0\r\n"
        "Accept: text/html,*/*;q=0.8\r\nAccept-Encoding: gzip, br\r\n\r\n"
    )
    response = (
        "HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\nDate: Sat, 21 Nov 2026 10:26:18 GMT\r\n"
        f"Content-Type: text/html; charset=utf-8\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    exchange = Exchange(
        url,
        "page",
        AT_MS + number,
        12,
        ip="192.0.2.7",
        protocol="http/1.1",
        request_head=request.encode(),
        response_head=response.encode(),
        body=body,
        status=200,
        first_byte_ms=4,
    )
    key = number * 0x9E37_79B9_7F4A_7C15 % 2**64
    visit = Visit(url, "www.example.org", 17, 1, key, "page", "default", 3, AT_MS + number, 12)
    visit.http_status, visit.content_type = 200, "text/html; charset=utf-8"
    return exchange, visit


def write_ours(path: Path, pages: Sequence[tuple[Exchange, Visit]]) -> None:
    writer = WarcWriter(path, relative_path=path.name, info=crawl_info("lycosa/0.1.0"))
    for exchange, visit in pages:
        writer.append(exchange, visit)
    writer.close(sync=False)


def write_fastwarc(path: Path, pages: Sequence[tuple[Exchange, Visit]]) -> None:
    with path.open("wb") as file:
        for exchange, _ in pages:
            for kind, block in (
                (WarcRecordType.response, exchange.response_head + exchange.body),
                (WarcRecordType.request, exchange.request_head),
            ):
                record = WarcRecord()
                record.init_headers(kind)
                record.headers["WARC-Target-URI"] = exchange.url
                record.headers["WARC-Date"] = DATE
                record.headers["WARC-Block-Digest"] = sha1_digest(block)
                if kind == WarcRecordType.response:
                    record.headers["WARC-Payload-Digest"] = sha1_digest(exchange.body)
                record.set_bytes_content(block)
                buffer = io.BytesIO()
                stream = GzipWriter(buffer, compression_level=6)  # a new one starts a new member
                record.write(stream)
                stream.close()
                file.write(buffer.getvalue())


def write_warcio(path: Path, pages: Sequence[tuple[Exchange, Visit]]) -> None:
    with path.open("wb") as file:
        writer = WARCWriter(file, gzip=True, warc_version="1.1")
        for exchange, _ in pages:
            records = [
                writer.create_warc_record(
                    exchange.url,
                    kind,
                    payload=io.BytesIO(payload),
                    http_headers=_http_headers(head, kind),
                    warc_headers_dict={"WARC-Date": DATE},
                )
                for kind, head, payload in (
                    ("request", exchange.request_head, b""),
                    ("response", exchange.response_head, exchange.body),
                )
            ]
            writer.write_request_response_pair(*records)


def _http_headers(head: bytes, kind: str) -> StatusAndHeaders:
    first, *lines = head.decode("latin-1").split("\r\n")[:-2]
    fields = [(name, value) for name, _, value in (line.partition(": ") for line in lines)]
    if kind == "request":
        return StatusAndHeaders(first, fields)
    return StatusAndHeaders(first.removeprefix("HTTP/1.1 "), fields, protocol="HTTP/1.1")


def read_ours(path: Path) -> int:
    return sum(len(stored.exchange.body) for stored in read_exchanges(path))


def read_fastwarc(path: Path) -> int:
    responses = (
        record
        for record in FastIterator(path, parse_http=True)
        if record.headers["WARC-Type"] == "response"
    )
    return sum(len(record.reader.read()) for record in responses)


def read_warcio(path: Path) -> int:
    with path.open("rb") as file:
        responses = (record for record in ArchiveIterator(file) if record.rec_type == "response")
        return sum(len(record.raw_stream.read()) for record in responses)


def compare_warc(pages: Pages, runs: int) -> tuple[str, dict[str, list[float]]]:
    exchanges = [make_exchange(number, body) for number, (_, body) in enumerate(pages)]
    size, count = sum(len(body) for _, body in pages), len(pages)
    with tempfile.TemporaryDirectory(prefix="lycosa-bench-") as temporary:
        folder = Path(temporary)

        def write(name: str, writer: Callable[..., None]) -> float:
            (folder / name).unlink(missing_ok=True)
            return microseconds(lambda: writer(folder / name, exchanges), count)

        def read(reader: Callable[[Path], int]) -> float:
            def check() -> None:
                assert reader(folder / "Lycosa.warc.gz") == size

            return microseconds(check, count)

        write_ours(folder / "Lycosa.warc.gz", exchanges)
        writers = {"Lycosa": write_ours, "fastwarc": write_fastwarc, "warcio": write_warcio}
        readers = {"Lycosa": read_ours, "fastwarc": read_fastwarc, "warcio": read_warcio}
        writes = alternate(
            {
                name: functools.partial(write, f"{name}.warc.gz", each)
                for name, each in writers.items()
            },
            runs,
        )
        reads = alternate(
            {name: functools.partial(read, each) for name, each in readers.items()}, runs
        )
    tables = [
        comparison(writes, "Lycosa", "WARC, writing, CPU µs per page"),
        comparison(reads, "Lycosa", "WARC, reading, CPU µs per page"),
    ]
    figures = {f"write, {name}": values for name, values in writes.items()}
    return "\n\n".join(tables), figures | {f"read, {name}": each for name, each in reads.items()}


def resolve_ours(pages: Sequence[tuple[str, list[str]]], domains: Domains) -> int:
    """Resolve, admit and identify links as a crawl does; return the number admitted."""
    normalise._resolved = normalise._ResolvedLinks()  # empty caches
    collection = Collection(name="bench", scope="host")
    rules, identifier = Rules(collection), Identifier(domains, 64)
    admission = Admission(collection, [pages[0][0]], domains)
    admitted = 0
    for url, links in pages:
        resolve = LinkResolver(url).resolve
        for link in links:
            target = resolve(link)
            if isinstance(target, Refusal):
                continue
            target = rules.apply(target)
            if admission.refuse(target) is None:
                identifier.identify(target)
                admitted += 1
    return admitted


def resolve_scrapy(pages: Sequence[tuple[str, list[str]]]) -> int:
    """Resolve links as Scrapy does before its duplicate filter."""
    count = 0
    for url, links in pages:
        for link in links:
            try:
                canonicalize_url(urljoin(url, link))
                count += 1
            except ValueError:
                continue
    return count


def compare_links(pages: Pages, runs: int) -> tuple[str, dict[str, list[float]]]:
    links = [
        (url, [node.attributes["href"] or "" for node in LexborHTMLParser(body).css("a, area[href]")
               if "href" in node.attributes])
        for url, body in pages
    ]  # fmt: skip
    count = max(1, sum(len(targets) for _, targets in links))
    domains = Domains(bundled_suffix_list())
    domains.registrable("site.example")  # reads the list, once per process
    contenders: Contenders = {
        "Lycosa": lambda: microseconds(lambda: resolve_ours(links, domains), count),
        "urljoin, canonicalize_url": lambda: microseconds(lambda: resolve_scrapy(links), count),
    }
    readings = alternate(contenders, runs)
    return comparison(readings, "Lycosa", "links, CPU µs per link"), readings


def main() -> None:
    parser = arguments(__doc__, runs=5, pages=600, requests=3_000)
    parser.add_argument("areas", nargs="*", help="fetch, warc, links; default: all")
    options = parser.parse_args()
    areas = options.areas or ["fetch", "warc", "links"]
    files = list(html_files(SITES))
    files = random.Random(7).sample(files, min(options.pages, len(files)))
    pages = [(url, _read(path)) for url, path in files]
    results = {}
    if "fetch" in areas:
        results["fetch"] = compare_fetch(options.requests, options.runs)
    if "warc" in areas:
        results["warc"] = compare_warc(pages, options.runs)
    if "links" in areas:
        results["links"] = compare_links(pages, options.runs)
    body = "\n\n".join(text for text, _ in results.values())
    report(options, "Network", body, {name: each for name, (_, each) in results.items()})


def _read(path: Path) -> bytes:
    body = path.read_bytes()
    return gzip.decompress(body) if path.suffix == ".gz" else body


if __name__ == "__main__":
    main()
