"""Crawl4AI's breadth-first deep crawl, storing each page's HTML and Markdown as a JSON line.

Run by its own interpreter: `python -m bench.peers.crawl4ai_crawler http|browser FOLDER CONCURRENCY
SEED…`. `browser` is its default, Chromium by Playwright. FOLDER keeps the state that the strategy
reports after each page, so that the same command resumes a crawl.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from crawl4ai import AsyncWebCrawler, BrowserConfig, CacheMode, CrawlerRunConfig
from crawl4ai.async_crawler_strategy import AsyncHTTPCrawlerStrategy
from crawl4ai.deep_crawling import BFSDeepCrawlStrategy

MAX_DEPTH = 1000


async def crawl(mode: str, folder: Path, concurrency: int, seeds: Sequence[str]) -> None:
    http = mode == "http"
    async with AsyncWebCrawler(
        crawler_strategy=AsyncHTTPCrawlerStrategy() if http else None,
        config=BrowserConfig(headless=True, text_mode=True, extra_args=["--no-sandbox"]),
        base_directory=str(folder),
    ) as crawler:
        for number, seed in enumerate(seeds):
            await crawl_site(crawler, folder, number, concurrency, seed)


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
    with (folder / "pages.jsonl").open("a") as pages:
        async for page in await crawler.arun(seed, config=config):
            if page.success:
                record = {"url": page.url, "html": page.html, "markdown": page.markdown}
                pages.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    mode, place, limit, *urls = sys.argv[1:]
    asyncio.run(crawl(mode, Path(place), int(limit), urls))
