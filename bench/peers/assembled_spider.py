"""Scrapy with a WARC by warcio, main text by trafilatura and an index by tantivy.

Run by the interpreter of its environment: `python -m bench.peers.assembled_spider [--fast] FOLDER
CONCURRENCY PER_HOST SEED…`. Scrapy's defaults for a new project apply: robots.txt is obeyed, links
are followed by the default `LinkExtractor`. FOLDER contains the queue, so the same command resumes a
crawl. `--fast` disables the second and third extractor that trafilatura tries on short texts.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import scrapy
import tantivy
import trafilatura
from scrapy.crawler import CrawlerProcess
from scrapy.http import HtmlResponse, Request, Response
from scrapy.linkextractors import LinkExtractor
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

COMMIT_PAGES = 100  # documents that a crash can lose; tantivy advises to commit rarely


class ArchiveSpider(scrapy.Spider):  # type: ignore[misc]  # scrapy is an optional extra, unseen by mypy
    """Follows every link to the seeds' hosts; archives each response and indexes each page."""

    name = "archive"

    def __init__(self, seeds: Sequence[str], folder: Path, fast: bool) -> None:
        super().__init__()
        self.seeds, self.fast = seeds, fast
        hosts = sorted({urlsplit(seed).netloc for seed in seeds})
        self.extractor = LinkExtractor(allow_domains=hosts, deny_extensions=[])
        number = len(list(folder.glob("*.warc.gz")))
        self.warc = WARCWriter((folder / f"{number}.warc.gz").open("wb"), gzip=True)
        builder = tantivy.SchemaBuilder()
        for field in ("url", "title", "text"):
            builder.add_text_field(field, stored=True)
        index = folder / "index"
        index.mkdir(exist_ok=True)
        self.index = tantivy.Index(builder.build(), path=str(index)).writer()
        self.indexed = 0

    async def start(self) -> AsyncIterator[Request]:
        for seed in self.seeds:
            yield Request(seed, self.parse, dont_filter=True)  # as Scrapy does with start_urls

    def parse(self, response: Response, **_: object) -> Iterator[Request]:
        self.archive(response)
        if isinstance(response, HtmlResponse):
            self.add(response)
            for link in self.extractor.extract_links(response):
                yield Request(link.url, self.parse)

    def archive(self, response: Response) -> None:
        headers = [
            (name.decode("latin-1"), value.decode("latin-1"))
            for name, values in response.headers.items()
            for value in values
        ]
        status = StatusAndHeaders(f"{response.status} OK", headers, protocol="HTTP/1.1")
        body = BytesIO(response.body)
        self.warc.write_record(
            self.warc.create_warc_record(response.url, "response", body, http_headers=status)
        )

    def add(self, response: HtmlResponse) -> None:
        page = trafilatura.bare_extraction(
            response.text, url=response.url, with_metadata=True, fast=self.fast
        )
        if page is None:
            return
        self.index.add_document(
            tantivy.Document(url=response.url, title=page.title or "", text=page.text or "")
        )
        self.indexed += 1
        if self.indexed % COMMIT_PAGES == 0:
            self.index.commit()

    def closed(self, reason: str) -> None:
        self.index.commit()
        self.index.wait_merging_threads()
        self.warc.out.close()


def settings(folder: Path, concurrency: int, per_host: int) -> dict[str, Any]:
    return {
        "CONCURRENT_REQUESTS": concurrency,
        "CONCURRENT_REQUESTS_PER_DOMAIN": per_host,
        "DOWNLOAD_DELAY": 0,
        "JOBDIR": str(folder / "queue"),
        "LOG_LEVEL": "WARNING",
        "ROBOTSTXT_OBEY": True,
        "TELNETCONSOLE_ENABLED": False,
    }


def main(arguments: Sequence[str]) -> None:
    fast = arguments[0] == "--fast"
    place, concurrency, per_host, *seeds = arguments[1:] if fast else arguments
    folder = Path(place)
    process = CrawlerProcess(settings(folder, int(concurrency), int(per_host)))
    process.crawl(ArchiveSpider, seeds=seeds, folder=folder, fast=fast)
    process.start()


if __name__ == "__main__":
    main(sys.argv[1:])
