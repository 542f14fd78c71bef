"""Markdown of the pages of `wcxb`, compared with manually marked Markdown.

    python -m bench.markdown_marked [--peer crawl4ai PYTHON] [--peer trafilatura PYTHON]

Blocks are compared as in `bench.markdown`, on the pages of the reported half. PYTHON is the
interpreter of an environment that has the peer. CPU is from bytes to Markdown; pages per CPU-second
are the total, so that large pages count.
"""

from __future__ import annotations

import json
import statistics
import subprocess
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bench.extract import MarkedPage, load_wcxb
from bench.harness import arguments, report, table, timed
from bench.markdown import blocks, f1
from lycosa.page.html.markdown import page_markdown

PEERS = Path(__file__).with_name("markdown_peers.py")
DEFAULT_URL = "https://example.org/"


class Converted(NamedTuple):
    markdown: str
    cpu_ms: float


def convert(page: MarkedPage) -> Converted:
    """Convert a page by Lycosa."""
    markdown, _, cpu_ms = timed(lambda: page_markdown(page.payload, url=page.url or DEFAULT_URL))
    return Converted(markdown, cpu_ms)


def convert_by_peer(name: str, interpreter: str, pages: Sequence[MarkedPage]) -> list[Converted]:
    """Convert the pages by another program."""
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
