"""Small requests per CPU-second against nginx on loopback: our fetcher, a bare pycurl loop, httpx;
and what decoding costs.

    python -m bench.fetch [--requests 6000] [--rounds 3] [--check] [--markdown]

All fetch the same page with keep-alive at the same concurrency. The bare loop is the least that the
library allows: it reuses handles, keeps head and body, and looks at nothing. CPU is that of this
process (nginx is another). The runs alternate; each figure is the median of its rounds, the ratio
that of the pairs.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import brotli
import httpx
import pycurl
from tests.servers.nginx import Server, nginx

from bench.harness import append_results, cpu_ms, load_average, machine, median_ratio, table
from lycosa.config.settings import FetchSettings
from lycosa.core.clock import SystemClock
from lycosa.core.records import Exchange, Request
from lycosa.fetch.client import CurlFetcher
from lycosa.fetch.guard import AddressGuard
from lycosa.http.decode import decode_body

HERE = Path(__file__).parent
AT_ONCE = 32
PAGE = b"<p>A small page, of the size of a short answer.</p>\n" * 20
FLOOR_TO_BARE = 0.55
"""Our requests per CPU-second as a share of the bare loop's: 0.57 to 0.62 measured. It only rises.
"""

HTTPX_SHARE = 10  # httpx is given fewer requests: it takes that much longer


def ours(url: str, port: int, count: int) -> None:
    with CurlFetcher(
        FetchSettings(), AddressGuard([("127.0.0.1", port)]), SystemClock()
    ) as fetcher:
        started = done = 0
        request = Request(url)
        while done < count:
            while started < count and fetcher.active < AT_ONCE:
                fetcher.start(request)
                started += 1
            for exchange in fetcher.wait(1000):
                done += 1
                if exchange.body != PAGE:
                    raise SystemExit(f"{exchange.url}: {exchange.status} {exchange.error_text}")


def bare(url: str, count: int) -> None:
    multi = pycurl.CurlMulti()
    free = [pycurl.Curl() for _ in range(AT_ONCE)]
    started = done = 0
    while done < count:
        while free and started < count:
            curl = free.pop()
            curl.setopt(pycurl.URL, url)
            curl.setopt(pycurl.HEADERFUNCTION, [].append)
            curl.setopt(pycurl.WRITEFUNCTION, [].append)
            multi.add_handle(curl)
            started += 1
        multi.perform()
        left = 1
        while left:
            left, succeeded, failed = multi.info_read()
            if failed:
                raise SystemExit(f"bare loop: {failed[0][2]}")
            for curl in succeeded:
                multi.remove_handle(curl)
                free.append(curl)
                done += 1
        if not free:
            multi.select(1.0)


async def _httpx(url: str, count: int) -> None:
    limits = httpx.Limits(max_connections=AT_ONCE, max_keepalive_connections=AT_ONCE)
    async with httpx.AsyncClient(limits=limits, trust_env=False) as client:

        async def worker(share: int) -> None:
            for _ in range(share):
                answer = await client.get(url)
                if answer.content != PAGE:
                    raise SystemExit(f"httpx: {answer.status_code}")

        await asyncio.gather(*(worker(count // AT_ONCE) for _ in range(AT_ONCE)))


def rate(run: Callable[[], object], count: int) -> float:
    """Requests per CPU-second."""
    start = time.process_time()
    run()
    return count / (time.process_time() - start)


def decoding() -> list[tuple[str, str]]:
    """CPU milliseconds of `decode_body` for a page of 57 KB."""
    page = b"".join(
        b'<p class="x">Line %d of a page with <a href="/page/%d">links</a>.</p>\n' % (n, n * 7919)
        for n in range(800)
    )
    rows = []
    for name, body in (
        ("plain", page),
        ("gzip", gzip.compress(page)),
        ("br", brotli.compress(page)),
    ):
        coding = b"" if name == "plain" else b"Content-Encoding: " + name.encode() + b"\r\n"
        head = (
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nServer: x\r\nDate: now\r\n"
            + coding
            + b"\r\n"
        )
        exchange = Exchange("http://a.test/", "page", 0, 0, response_head=head, body=body)
        if decode_body(exchange, 10**7).payload != page:
            raise SystemExit(f"{name} does not decode")
        milliseconds = (
            cpu_ms(lambda exchange=exchange: [decode_body(exchange, 10**7) for _ in range(100)])  # type: ignore[misc]
            / 100
        )
        rows.append((f"decode {len(page) // 1000} KB, {name}", f"{milliseconds:.3f} ms"))
    return rows


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.fetch",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--requests", type=int, default=6_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--check",
        action="store_true",
        help="exit 1 when the ratio to the bare loop falls below 0.8 of its floor",
    )
    parser.add_argument(
        "--markdown", action="store_true", help="append the report to bench/RESULTS.md"
    )
    options = parser.parse_args(arguments)
    count = options.requests
    rates: dict[str, list[float]] = {"ours": [], "bare": [], "httpx": []}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "page.html").write_bytes(PAGE)
        with nginx([Server("127.0.0.1", Path(folder))]) as server:
            url = f"http://127.0.0.1:{server.port}/page.html"
            few = max(AT_ONCE, count // HTTPX_SHARE // AT_ONCE * AT_ONCE)
            for _ in range(options.rounds):
                rates["ours"].append(rate(lambda: ours(url, server.port, count), count))
                rates["bare"].append(rate(lambda: bare(url, count), count))
                rates["httpx"].append(rate(lambda: asyncio.run(_httpx(url, few)), few))
    to_bare = median_ratio(rates["ours"], rates["bare"])
    to_httpx = median_ratio(rates["ours"], rates["httpx"])
    rows = [
        *(
            (f"{name}, requests per CPU-second", f"{statistics.median(values):,.0f}")
            for name, values in rates.items()
        ),
        ("ours to bare", f"{to_bare:.2f}"),
        ("ours to httpx", f"{to_httpx:.1f}"),
        *decoding(),
    ]
    report = table(("what", "figure"), rows)
    print(f"{machine()}; load {load_average():.1f}\n\n{report}")
    if options.markdown:
        append_results(
            HERE / "RESULTS.md", "Fetch", "python -m bench.fetch " + " ".join(arguments), report
        )
    if options.check and to_bare < 0.8 * FLOOR_TO_BARE:
        print(
            f"ours to bare: {to_bare:.2f} is below 0.8 of the floor {FLOOR_TO_BARE}",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
