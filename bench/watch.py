"""Cost of watched patterns in a crawl, and speed of `find`.

    python -m bench.watch [watch|find] [--texts N] [--pages N] [--crawled N] [--no-index]

watch   The documentation sites are crawled from nginx with N patterns: phrases of two words, and
        single words, exact or ignoring case, accents and width. Printed: CPU-seconds of the crawl,
        and the share of matching, measured in the same run (goal: at most 5 %).
find    Megabytes of text per second over generated pages (`bench.corpora`; goal: 200 MB/s).
"""

from __future__ import annotations

import random
import re
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

from tests.servers.sites import require_sites, serve_sites

from bench.corpora import SITES, fill_generated, html_files
from bench.harness import arguments, report, timed
from lycosa.commands.crawling.crawl import CrawlOrder, crawl
from lycosa.config.settings import Collection, Config
from lycosa.core.records import Visit
from lycosa.crawl.state.events import PatternMatch
from lycosa.find.find import find_stored
from lycosa.matching import plugin
from lycosa.matching.page_watcher import Watcher
from lycosa.page.parse import parse_page
from lycosa.store.workspace import Workspace
from lycosa.watch.watches import add_watch

_SAMPLE = 300
_IGNORED: tuple[tuple[str, ...], ...] = ((), ("case",), ("case", "accents", "width"))
_NEEDLES = ("configuration", "パッケージ", "compilación", "软件包")


def sample(sites: Path, count: int) -> list[str]:
    """Return the texts of random pages, the same at every call."""
    files = list(html_files(sites))
    random.Random(3).shuffle(files)
    return [
        parse_page(path.read_bytes(), url=url, content_type="text/html").text
        for url, path in files[:count]
    ]


def phrases(texts: Sequence[str], count: int) -> list[str]:
    """Return patterns; most of them match no page."""
    generator = random.Random(4)
    words = sorted({word for text in texts for word in re.findall(r"\w{4,}", text)})
    patterns = dict.fromkeys(generator.sample(words, min(len(words), count // 100)))
    while len(patterns) < count:
        patterns[" ".join(generator.sample(words, 2))] = None
    return list(patterns)


def watch(texts: Sequence[str], ignored: tuple[str, ...], pages: int, *, index: bool) -> str:
    spent = matches = characters = 0

    class Timed(Watcher):
        def match_page(self, visit: Visit, text: str) -> bool:
            nonlocal characters
            characters += len(text)
            return super().match_page(visit, text)

        def take_matches(self) -> list[tuple[Visit, PatternMatch]]:
            nonlocal spent, matches
            start = time.thread_time_ns()
            result = super().take_matches()
            spent += time.thread_time_ns() - start
            matches += len(result)
            return result

    sites = require_sites()
    with (
        tempfile.TemporaryDirectory(prefix="lycosa-bench-") as folder,
        serve_sites(sites) as served,
    ):
        root = Workspace.create(f"{folder}/w").root
        if texts:
            add_watch(root, Config(), texts, ignored)
        collection = Collection.model_validate(
            {"delay": 0, "courtesy_factor": 0.0, "max_pages": pages}
        )
        seeds = tuple(f"{served.origin(site.name)}/" for site in sites)
        order = CrawlOrder(root, Config(), collection, seeds, index=index)
        with mock.patch.object(plugin, "Watcher", Timed):
            progress, _, cpu_ms = timed(lambda: crawl(order))
    per_page_ms = cpu_ms / progress.pages
    return (
        f"watch{'' if index else ', no index'}: {len(texts):,} texts, ignored: "
        f"{', '.join(ignored) or 'nothing'}: {progress.pages:,} pages in {cpu_ms / 1000:.1f} CPU-s "
        f"({per_page_ms:.2f} ms per page, {characters / progress.pages / 1000:.1f} K characters), "
        f"matching {spent / 1e6 / progress.pages:.3f} ms per page = {spent / 1e6 / cpu_ms:.1%}; "
        f"{matches:,} matches"
    )


def find(sites: Path, pages: int, folder: str) -> list[str]:
    root = f"{folder}/w"
    fill_generated(root, sites, pages)
    lines = []
    for ignored in _IGNORED:
        for needle in _NEEDLES:
            scan = find_stored(root, [needle], ignored)
            matches, wall_ms, cpu_ms = timed(lambda: sum(1 for _ in scan.run()))  # noqa: B023
            lines.append(
                f"find: {needle!r}, ignored: {', '.join(ignored) or 'nothing'}: {scan.pages:,} "
                f"pages, {scan.bytes / 1e6:.0f} MB in "
                f"{wall_ms / 1000:.2f} s = {scan.bytes / 1e3 / wall_ms:.0f} MB/s "
                f"({cpu_ms / 1000:.2f} CPU-s), "
                f"{matches:,} pages match"
            )
    return lines


def main() -> None:
    parser = arguments(
        __doc__,
        runs=1,
        texts=10_000,
        pages=(50_000, "for find"),
        crawled=(2_500, "for watch"),
        no_index=(False, "for watch: without the index"),
    )
    parser.add_argument("what", nargs="?", choices=["watch", "find"], help="both by default")
    options = parser.parse_args()
    lines: list[str] = []
    if options.what in (None, "watch"):
        patterns = phrases(sample(SITES, _SAMPLE), options.texts)
        lines += [
            watch(patterns, ignored, options.crawled, index=not options.no_index)
            for ignored in _IGNORED
        ]
    if options.what in (None, "find"):
        with tempfile.TemporaryDirectory(prefix="lycosa-bench-") as folder:
            lines += find(SITES, options.pages, folder)
    report(options, "Watched patterns and find", "\n".join(lines))


if __name__ == "__main__":
    main()
