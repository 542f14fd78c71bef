"""Crawl4AI's breadth-first deep crawl, storing each page's HTML and Markdown as a JSON line.

Run by the interpreter of its environment: `python -m bench.peers.crawl4ai_crawler FOLDER CONCURRENCY
SEED…`, over HTTP without a browser. FOLDER contains the state that the strategy reports after each
page, so the same command resumes a crawl.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from crawl4ai import AsyncWebCrawler, CacheMode, CrawlerRunConfig
from crawl4ai.async_crawler_strategy import AsyncHTTPCrawlerStrategy
from crawl4ai.deep_crawling import BFSDeepCrawlStrategy

MAX_DEPTH = 1000


async def crawl(folder: Path, concurrency: int, seeds: Sequence[str]) -> None:
    async with AsyncWebCrawler(
        crawler_strategy=AsyncHTTPCrawlerStrategy(), base_directory=str(folder)
    ) as crawler:
        await asyncio.gather(
            *(
                crawl_site(crawler, folder, number, concurrency, seed)
                for number, seed in enumerate(seeds)
            )
        )


async def crawl_site(
    crawler: AsyncWebCrawler, folder: Path, number: int, concurrency: int, seed: str
) -> None:
    state = folder / f"state-{number}.json"

    async def save(value: dict[str, Any]) -> None:
        part = state.with_suffix(".part")
        part.write_text(json.dumps(value))
        part.rename(state)

    config = CrawlerRunConfig(
        deep_crawl_strategy=BFSDeepCrawlStrategy(
            max_depth=MAX_DEPTH,
            include_external=False,
            on_state_change=save,
            resume_state=json.loads(state.read_text()) if state.exists() else None,
        ),
        cache_mode=CacheMode.BYPASS,
        check_robots_txt=True,
        mean_delay=0,
        max_range=0,
        semaphore_count=concurrency,
        stream=True,
        verbose=False,
    )
    with (folder / "pages.jsonl").open("a", buffering=1) as pages:
        async for page in await crawler.arun(seed, config=config):
            if page.success:
                record = {"url": page.url, "html": page.html, "markdown": page.markdown}
                pages.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    place, limit, *urls = sys.argv[1:]
    asyncio.run(crawl(Path(place), int(limit), urls))
