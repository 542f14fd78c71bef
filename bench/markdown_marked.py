"""Markdown of the pages of `wcxb`, compared with the Markdown that people marked.

    python -m bench.markdown_marked [--peer crawl4ai PYTHON] [--peer trafilatura PYTHON]

Blocks are compared as `bench.markdown` does it, on the pages of the reported half. PYTHON is the
interpreter of an environment that has the peer. CPU is from bytes to Markdown; pages per CPU-second
are the total, so that large pages count.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bench.extract import MarkedPage, load_wcxb
from bench.harness import arguments, report, table
from bench.markdown import blocks, f1
from lycosa.page.html.markdown import page_markdown

PEERS = Path(__file__).with_name("markdown_peers.py")
DEFAULT_URL = "https://example.org/"


class Converted(NamedTuple):
    markdown: str
    cpu_ms: float


def convert(page: MarkedPage) -> Converted:
    """Return the Markdown of Lycosa."""
    start = time.process_time()
    markdown = page_markdown(page.payload, url=page.url or DEFAULT_URL)
    return Converted(markdown, (time.process_time() - start) * 1000)


def convert_by_peer(name: str, interpreter: str, pages: Sequence[MarkedPage]) -> list[Converted]:
    """Return what another converter makes of the pages."""
    requests = "".join(
        json.dumps({"url": page.url or DEFAULT_URL, "path": str(page.path)}) + "\n"
        for page in pages
    )
    output = subprocess.run(
        [interpreter, "-I", PEERS, name], input=requests, check=True, capture_output=True, text=True
    ).stdout
    return [Converted(**json.loads(line)) for line in output.splitlines() if line[:1] == "{"]


def main() -> None:
    parser = arguments(__doc__, runs=1)
    parser.add_argument("--peer", nargs=2, action="append", metavar=("NAME", "PYTHON"), default=[])
    options = parser.parse_args()
    pages = [page for page in load_wcxb() if page.markdown.strip() and not page.is_development]
    true = [blocks(page.markdown, page.url or DEFAULT_URL) for page in pages]
    results = {"lycosa": [convert(page) for page in pages]} | {
        name: convert_by_peer(name, interpreter, pages) for name, interpreter in options.peer
    }
    scores: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for name, result in results.items():
        for page, expected, converted in zip(pages, true, result, strict=True):
            score = f1(expected, blocks(converted.markdown, page.url or DEFAULT_URL))
            for group in ("all", page.type):
                scores[group][name].append(score)
    rows = [
        (group, *(f"{statistics.mean(values):.3f}" for values in by_name.values()))
        for group, by_name in sorted(scores.items())
    ]
    speeds = [
        f"{len(result) * 1000 / sum(each.cpu_ms for each in result):.1f}"
        for result in results.values()
    ]
    rows.append(("pages per CPU-second", *speeds))
    report(options, "Markdown of marked pages", table(("F1", *results), rows), rows)


if __name__ == "__main__":
    main()
