"""Crawlee's ParselCrawler on a few sites, storing each page's HTML in its dataset.

Run by the interpreter of its environment: `python -m bench.peers.crawlee_crawler FOLDER CONCURRENCY
SEED…`. FOLDER contains the request queue, so the same command resumes a crawl.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from datetime import timedelta

from crawlee import ConcurrencySettings
from crawlee.configuration import Configuration
from crawlee.crawlers import ParselCrawler, ParselCrawlingContext
from crawlee.storage_clients import FileSystemStorageClient


async def handle(context: ParselCrawlingContext) -> None:
    body = await context.http_response.read()
    await context.push_data(
        {
            "url": context.request.loaded_url,
            "title": context.selector.css("title::text").get(),
            "html": body.decode("utf-8", "replace"),
        }
    )
    await context.enqueue_links(strategy="same-origin")


async def crawl(folder: str, concurrency: int, seeds: Sequence[str]) -> None:
    crawler = ParselCrawler(
        configuration=Configuration(storage_dir=folder, purge_on_start=False),
        storage_client=FileSystemStorageClient(),
        concurrency_settings=ConcurrencySettings(  # by default it starts fewer on a busy machine
            min_concurrency=concurrency,
            desired_concurrency=concurrency,
            max_concurrency=concurrency,
        ),
        respect_robots_txt_file=True,
        request_handler=handle,
        request_handler_timeout=timedelta(seconds=60),
    )
    await crawler.run(list(seeds))


if __name__ == "__main__":
    place, limit, *urls = sys.argv[1:]
    asyncio.run(crawl(place, int(limit), urls))
