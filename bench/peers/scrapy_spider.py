"""Scrapy with the minimum of a crawler: fetch, extract links, follow those to the seeds' hosts.

Run as a program: `python -m bench.peers.scrapy_spider [--http2] CONCURRENCY PER_HOST SEED…`.
Settings are chosen for speed: no logging, no robots, no cookies, no retries, no throttle, no
further statistics. Every response is parsed by the default `LinkExtractor`, which reads `a` and
`area`.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

import scrapy
from scrapy.crawler import CrawlerProcess
from scrapy.http import HtmlResponse, Request, Response
from scrapy.linkextractors import LinkExtractor


def settings(concurrency: int, per_host: int, http2: bool) -> dict[str, Any]:
    handlers = {"https": "scrapy.core.downloader.handlers.http2.H2DownloadHandler"} if http2 else {}
    return {
        "DOWNLOAD_HANDLERS": handlers,
        "AUTOTHROTTLE_ENABLED": False,
        "CONCURRENT_REQUESTS": concurrency,
        "CONCURRENT_REQUESTS_PER_DOMAIN": per_host,
        "COOKIES_ENABLED": False,
        "COMPRESSION_ENABLED": False,  # nginx sends these sites uncompressed
        "DEPTH_LIMIT": 0,
        "DNSCACHE_ENABLED": True,
        "DOWNLOAD_DELAY": 0,
        "DUPEFILTER_CLASS": "scrapy.dupefilters.RFPDupeFilter",
        "HTTPCACHE_ENABLED": False,
        "LOG_ENABLED": False,
        "MEMUSAGE_ENABLED": False,
        # otherwise a page with a refresh would not reach the spider and its links would be lost
        "METAREFRESH_ENABLED": False,
        "RANDOMIZE_DOWNLOAD_DELAY": False,
        "REDIRECT_ENABLED": True,
        "REFERER_ENABLED": False,
        "RETRY_ENABLED": False,
        "ROBOTSTXT_OBEY": False,
        "TELNETCONSOLE_ENABLED": False,
        "EXTENSIONS": {"scrapy.extensions.logstats.LogStats": None},
    }


class LinksSpider(scrapy.Spider):  # type: ignore[misc]  # scrapy is an optional extra, unseen by mypy
    """Follows every link to the seeds' hosts and keeps nothing."""

    name = "links"

    def __init__(self, seeds: Sequence[str]) -> None:
        super().__init__()
        self.seeds = seeds
        # Scrapy compares the netloc, with the port
        hosts = sorted({urlsplit(seed).netloc for seed in seeds})
        self.extractor = LinkExtractor(allow_domains=hosts, deny_extensions=[])

    async def start(self) -> AsyncIterator[Request]:
        for seed in self.seeds:
            yield Request(seed, self.parse)

    def parse(self, response: Response, **_: object) -> Iterator[Request]:
        if isinstance(response, HtmlResponse):
            for link in self.extractor.extract_links(response):
                yield Request(link.url, self.parse)


def main(arguments: Sequence[str]) -> None:
    http2 = arguments[0] == "--http2"
    concurrency, per_host, *seeds = arguments[1:] if http2 else arguments
    process = CrawlerProcess(settings(int(concurrency), int(per_host), http2))
    process.crawl(LinksSpider, seeds=seeds)
    process.start()


if __name__ == "__main__":
    main(sys.argv[1:])
