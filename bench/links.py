"""Our fetching and links alone, for comparison with Scrapy.

    python -m bench.links CONCURRENCY SEED…

libcurl, one lexbor parse, every `a` and `area` resolved and de-duplicated, those on the seeds'
origins followed. No archive, no text, no tables, no politeness. Prints the counts as JSON.
"""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import Iterator, Sequence

from selectolax.lexbor import LexborHTMLParser

from lycosa.config.settings import FetchSettings
from lycosa.core.clock import SystemClock
from lycosa.core.errors import Refusal
from lycosa.core.records import Exchange, Request
from lycosa.fetch.client import CurlFetcher
from lycosa.fetch.guard import AddressGuard
from lycosa.http.decode import decode_body, parse_head
from lycosa.url.normalise import LinkResolver, normalise
from lycosa.url.scope import hostname, url_origin

WAIT_MS = 1000


def crawl(seeds: Sequence[str], concurrency: int) -> tuple[int, int]:
    """Fetch all pages that can be reached on the seeds' origins; return exchanges and links."""
    # over TLS the certificate was created for the run
    settings = FetchSettings(connections=concurrency, verify_tls=False)
    origins = tuple(f"{url_origin(seed)}/" for seed in seeds)
    seen = {normalise(seed) for seed in seeds}
    waiting = deque(seen)
    guard = AddressGuard({(hostname(seed), _port(seed)) for seed in seeds})
    fetcher = CurlFetcher(settings, guard, SystemClock())
    exchanges = links = 0
    while waiting or fetcher.active:
        while waiting and fetcher.active < concurrency:
            fetcher.start(Request(waiting.popleft()))
        for exchange in fetcher.wait(WAIT_MS):
            exchanges += 1
            for target in followed(exchange, settings.max_decoded):
                links += 1
                if target not in seen and target.startswith(origins):
                    seen.add(target)
                    waiting.append(target)
    fetcher.close()
    return exchanges, links


def _port(url: str) -> int:
    port = url_origin(url).rpartition(":")[2]
    return int(port) if port.isdigit() else 443 if url.startswith("https:") else 80


def followed(exchange: Exchange, max_decoded: int) -> Iterator[str]:
    """Yield the absolute URLs of the links of a page or of a redirect."""
    if exchange.error:
        return
    headers = parse_head(exchange.response_head)
    resolver = LinkResolver(exchange.url)
    hrefs: set[str] = set()
    if exchange.status in (301, 302, 303, 307, 308):
        hrefs.add(headers.get("location") or "")
    elif exchange.status == 200 and (headers.get("content-type") or "").startswith("text/html"):
        tree = LexborHTMLParser(decode_body(exchange, max_decoded).payload)
        for node in tree.css("a[href], area[href]"):
            href = node.attributes["href"]
            if href:
                hrefs.add(href)
    for href in hrefs:
        target = resolver.resolve(href)
        if not isinstance(target, Refusal):
            yield target


def main(arguments: Sequence[str]) -> None:
    concurrency, *seeds = arguments
    exchanges, links = crawl(seeds, int(concurrency))
    print(json.dumps({"exchanges": exchanges, "links": links}))


if __name__ == "__main__":
    main(sys.argv[1:])
