"""CPU of fetching, archiving and resolving links, compared with libraries in the same rounds.

    python -m bench.network [fetch|warc|links]... [--pages 600] [--requests 3000] [--runs N]

fetch   Small pages from nginx with keep-alive: our fetcher, and a bare pycurl loop that does not
        examine the responses.
warc    Real pages written and read: ours (response, request and metadata records in one write), and
        fastwarc (response and request, buffered).
links   `a` and `area` links of real pages: ours resolves, checks the scope and computes keys, with
        empty caches in each round; Scrapy's method is `urljoin` and w3lib's `canonicalize_url`.
"""

from __future__ import annotations

import functools
import gzip
import io
import random
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import urljoin

import pycurl
from fastwarc.stream_io import GzipWriter
from fastwarc.warc import ArchiveIterator, WarcRecord, WarcRecordType
from selectolax.lexbor import LexborHTMLParser
from tests.servers.nginx import Server, nginx
from w3lib.url import canonicalize_url

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
AT_MS, DATE = 1_795_256_778_123, "2026-11-21T10:26:18.123Z"

Pages = Sequence[tuple[str, bytes]]
Readings = dict[str, list[float]]


def compare(works: dict[str, Callable[[], object]], count: int, runs: int) -> Readings:
    """Return the CPU microseconds per item in alternating rounds."""

    def measure(work: Callable[[], object]) -> float:
        return cpu_s(work) * 1e6 / count

    return alternate({name: functools.partial(measure, work) for name, work in works.items()}, runs)


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


def compare_fetch(requests: int, runs: int) -> dict[str, Readings]:
    with tempfile.TemporaryDirectory(prefix="lycosa-bench-") as folder:
        Path(folder, "page.html").write_bytes(SMALL_PAGE)
        with nginx([Server("127.0.0.1", Path(folder))]) as server:
            url = f"http://127.0.0.1:{server.port}/page.html"
            works: dict[str, Callable[[], object]] = {
                "Lycosa": lambda: fetch_ours(url, server.port, requests),
                "bare libcurl": lambda: fetch_bare(url, requests),
            }
            return {"fetch, CPU µs per request": compare(works, requests, runs)}


def create_exchange(number: int, body: bytes) -> tuple[Exchange, Visit]:
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


def read_ours(path: Path) -> int:
    return sum(len(stored.exchange.body) for stored in read_exchanges(path))


def read_fastwarc(path: Path) -> int:
    responses = (
        record
        for record in ArchiveIterator(path, parse_http=True)
        if record.headers["WARC-Type"] == "response"
    )
    return sum(len(record.reader.read()) for record in responses)


def compare_warc(pages: Pages, runs: int) -> dict[str, Readings]:
    exchanges = [create_exchange(number, body) for number, (_, body) in enumerate(pages)]
    size = sum(len(body) for _, body in pages)
    with tempfile.TemporaryDirectory(prefix="lycosa-bench-") as temporary:
        folder = Path(temporary)
        ours, other, stored = (folder / f"{name}.warc.gz" for name in ("ours", "other", "stored"))
        write_ours(stored, exchanges)

        def write(writer: Callable[..., None], path: Path) -> None:
            path.unlink(missing_ok=True)
            writer(path, exchanges)

        def read(reader: Callable[[Path], int]) -> None:
            assert reader(stored) == size

        writes: dict[str, Callable[[], object]] = {
            "Lycosa": lambda: write(write_ours, ours),
            "fastwarc": lambda: write(write_fastwarc, other),
        }
        reads: dict[str, Callable[[], object]] = {
            "Lycosa": lambda: read(read_ours),
            "fastwarc": lambda: read(read_fastwarc),
        }
        return {
            "WARC, writing, CPU µs per page": compare(writes, len(pages), runs),
            "WARC, reading, CPU µs per page": compare(reads, len(pages), runs),
        }


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


def compare_links(pages: Pages, runs: int) -> dict[str, Readings]:
    links = [
        (url, [node.attributes["href"] or "" for node in LexborHTMLParser(body).css("a, area[href]")
               if "href" in node.attributes])
        for url, body in pages
    ]  # fmt: skip
    domains = Domains(bundled_suffix_list())
    domains.registrable("site.example")  # reads the list, once per process
    works: dict[str, Callable[[], object]] = {
        "Lycosa": lambda: resolve_ours(links, domains),
        "urljoin, canonicalize_url": lambda: resolve_scrapy(links),
    }
    count = max(1, sum(len(targets) for _, targets in links))
    return {"links, CPU µs per link": compare(works, count, runs)}


def main() -> None:
    parser = arguments(__doc__, runs=5, pages=600, requests=3_000)
    parser.add_argument("areas", nargs="*", help="fetch, warc, links; default: all")
    options = parser.parse_args()
    areas = options.areas or ["fetch", "warc", "links"]
    files = list(html_files(SITES))
    files = random.Random(7).sample(files, min(options.pages, len(files)))
    pages = [(url, _read(path)) for url, path in files]
    results: dict[str, Readings] = {}
    if "fetch" in areas:
        results |= compare_fetch(options.requests, options.runs)
    if "warc" in areas:
        results |= compare_warc(pages, options.runs)
    if "links" in areas:
        results |= compare_links(pages, options.runs)
    tables = [comparison(readings, "Lycosa", unit) for unit, readings in results.items()]
    report(options, "Network", "\n\n".join(tables), results)


def _read(path: Path) -> bytes:
    body = path.read_bytes()
    return gzip.decompress(body) if path.suffix == ".gz" else body


if __name__ == "__main__":
    main()
