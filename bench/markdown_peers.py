"""Markdown of marked pages by other converters, for `bench.markdown_marked --peer NAME PYTHON`.

Runs in the environment of the converter: `PYTHON -I bench/markdown_peers.py NAME`. Reads JSON lines
with `url` and `path` (of a compressed page); writes for each a JSON line with `markdown` and
`cpu_ms`. Crawl4AI: its steps after the browser, with its filter of main content. trafilatura: with
links, formatting, tables and comments.
"""

from __future__ import annotations

import gzip
import json
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path


def crawl4ai() -> Callable[[bytes, str], str]:
    scraper = import_module("crawl4ai.content_scraping_strategy").LXMLWebScrapingStrategy()
    content_filter = import_module("crawl4ai.content_filter_strategy").PruningContentFilterLXML()
    generator = import_module("crawl4ai.markdown_generation_strategy").DefaultMarkdownGenerator(
        content_filter=content_filter
    )

    def convert(payload: bytes, url: str) -> str:
        cleaned = scraper.scrap(url, payload.decode(errors="replace")).cleaned_html
        result = generator.generate_markdown(input_html=cleaned, base_url=url, citations=False)
        return str(result.fit_markdown or "")

    return convert


def trafilatura() -> Callable[[bytes, str], str]:
    extract = import_module("trafilatura").extract
    return lambda payload, url: (
        extract(
            payload, url=url, output_format="markdown", include_links=True, include_formatting=True
        )
        or ""
    )


def main() -> None:
    convert = {"crawl4ai": crawl4ai, "trafilatura": trafilatura}[sys.argv[1]]()
    for line in sys.stdin:
        request = json.loads(line)
        payload = gzip.decompress(Path(request["path"]).read_bytes())
        start = time.process_time()
        markdown = convert(payload, request["url"])
        spent_ms = (time.process_time() - start) * 1000
        print(json.dumps({"markdown": markdown, "cpu_ms": spent_ms}), flush=True)


if __name__ == "__main__":
    main()
