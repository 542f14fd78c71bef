"""What watches cost a crawl, and how fast `find` is: `python -m bench.watch [watch|find|wheels]...
[--texts N] [--pages N] [--folder DIR]`.

watch   The documentation sites are crawled from a real nginx as `lycosa crawl` does, with N texts
watched: phrases of two words that
        are drawn from the sites, a hundredth of them single words, exact or with case, accents and
        width ignored. Printed: CPU-seconds of the crawl and, by the thread's own clock, of looking.
        Shares of one run, so a busy machine weighs on both alike.
find    Pages made of the sites' text as `bench.corpora` makes them; every one is looked
through. Megabytes of text a second. wheels  The automata of ahocorasick_rs and (if it is installed)
pyahocorasick on the sites' pages.
"""

from __future__ import annotations

import argparse
import importlib
import random
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from ahocorasick_rs import AhoCorasick, BytesAhoCorasick, Implementation, MatchKind
from tests.servers.sites import require_sites, serve_sites

from bench.corpora import SITES, fill_made, html_files
from bench.harness import load_average
from lycosa.commands.crawling.crawl import CrawlOrder, crawl
from lycosa.config.settings import Collection, Config
from lycosa.core.records import Visit
from lycosa.crawl.session import session
from lycosa.crawl.state.events import PatternMatch
from lycosa.find.find import find_stored
from lycosa.matching.page_watcher import Watcher
from lycosa.page.parse import parse_page
from lycosa.store.workspace import Workspace
from lycosa.watch.watches import add_watch

TEXTS, PAGES, CRAWLED = 10_000, 50_000, 2_500
_SAMPLE = 300
_IGNORED: tuple[tuple[str, ...], ...] = ((), ("case",), ("case", "accents", "width"))
_NEEDLES = ("configuration", "パッケージ", "compilación", "软件包")


def sample(sites: Path, count: int) -> list[str]:
    """The texts of some pages, the same at every call."""
    files = list(html_files(sites))
    random.Random(3).shuffle(files)
    return [
        parse_page(path.read_bytes(), url=url, content_type="text/html").text
        for url, path in files[:count]
    ]


def phrases(texts: Sequence[str], count: int) -> list[str]:
    """What somebody might watch for: most of it stands nowhere."""
    generator = random.Random(4)
    words = sorted({word for text in texts for word in re.findall(r"\w{4,}", text)})
    singles = generator.sample(words, min(len(words), count // 100))
    found = dict.fromkeys(singles)
    while len(found) < count:
        found[" ".join(generator.sample(words, 2))] = None
    return list(found)


def watch(texts: Sequence[str], ignored: tuple[str, ...], pages: int, *, index: bool) -> None:
    spent = found = looked = 0

    class Timed(Watcher):
        def look(self, visit: Visit, text: str) -> bool:
            nonlocal looked
            looked += len(text)
            return super().look(visit, text)

        def take_matches(self) -> list[tuple[Visit, PatternMatch]]:
            nonlocal spent, found
            start = time.thread_time_ns()
            matches = super().take_matches()
            spent += time.thread_time_ns() - start
            found += len(matches)
            return matches

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
        setattr(session, "Watcher", Timed)  # noqa: B010 - what the session makes
        try:
            start = time.process_time()
            progress = crawl(CrawlOrder(root, Config(), collection, seeds, index=index))
            cpu_s = time.process_time() - start
        finally:
            setattr(session, "Watcher", Watcher)  # noqa: B010
    share = spent / 1e9 / cpu_s
    print(
        f"watch{'' if index else ', no index'}: {len(texts):,} texts, ignored: "
        f"{', '.join(ignored) or 'nothing'}: "
        f"{progress.pages:,} pages in {cpu_s:.1f} CPU-s "
        f"({cpu_s * 1000 / progress.pages:.2f} ms a page, {looked / progress.pages / 1000:.1f} K "
        "characters), looking "
        f"{spent / 1e6 / progress.pages:.3f} ms a page = {share:.1%}; {found:,} matches"
    )


def find(sites: Path, pages: int, folder: str) -> None:
    root = f"{folder}/w"
    if not Path(root).exists():
        fill_made(root, sites, pages)
    for ignored in _IGNORED:
        for needle in _NEEDLES:
            scan = find_stored(root, [needle], ignored)
            start, cpu = time.perf_counter(), time.process_time()
            found = sum(1 for _ in scan.run())
            wall_s, cpu_s = time.perf_counter() - start, time.process_time() - cpu
            print(
                f"find: {needle!r}, ignored: {', '.join(ignored) or 'nothing'}: {scan.pages:,} "
                f"pages, {scan.bytes / 1e6:.0f} MB in "
                f"{wall_s:.2f} s = {scan.bytes / 1e6 / wall_s:.0f} MB/s ({cpu_s:.2f} CPU-s), "
                f"{found:,} pages hold it"
            )


def wheels(texts: Sequence[str], needles: Sequence[str]) -> None:
    encoded = [needle.encode() for needle in needles]
    size = sum(len(text.encode()) for text in texts)
    ways: dict[str, Callable[[str], object]] = {}
    for name in ("NoncontiguousNFA", "ContiguousNFA", "DFA"):
        kind = getattr(Implementation, name)
        letters = AhoCorasick(needles, matchkind=MatchKind.Standard, implementation=kind)
        octets = BytesAhoCorasick(encoded, matchkind=MatchKind.Standard, implementation=kind)
        ways[f"ahocorasick_rs, str, {name}"] = partial(_letters, letters)
        ways[f"ahocorasick_rs, bytes, {name}"] = partial(_octets, octets)
    try:
        other = importlib.import_module("ahocorasick").Automaton()
    except ImportError:
        print("wheels: pyahocorasick is not installed")
    else:
        for number, needle in enumerate(needles):
            other.add_word(needle, number)
        other.make_automaton()
        ways["pyahocorasick"] = lambda text: list(other.iter(text))
    for name, search in ways.items():
        best = min(_time(search, texts) for _ in range(3))
        print(
            f"wheels: {name}: {best * 1000 / len(texts):.3f} ms a page, {size / 1e6 / best:.0f} "
            "MB/s"
        )


def _letters(automaton: AhoCorasick, text: str) -> object:
    return automaton.find_matches_as_indexes(text, overlapping=True)


def _octets(automaton: BytesAhoCorasick, text: str) -> object:
    return automaton.find_matches_as_indexes(text.encode(), overlapping=True)


def _time(search: Callable[[str], object], texts: Sequence[str]) -> float:
    start = time.process_time()
    for text in texts:
        search(text)
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "what", nargs="*", choices=["watch", "find", "wheels", []], help="all by default"
    )
    parser.add_argument("--texts", type=int, default=TEXTS)
    parser.add_argument("--pages", type=int, default=PAGES, help="for find")
    parser.add_argument("--crawled", type=int, default=CRAWLED, help="for watch")
    parser.add_argument(
        "--no-index", action="store_true", help="for watch: crawl without the index"
    )
    parser.add_argument("--sites", type=Path, default=SITES)
    parser.add_argument(
        "--folder",
        default="",
        help="where the pages for find are kept; otherwise they are created again",
    )
    options = parser.parse_args()
    print(f"load {load_average():.1f} of 1 minute")
    texts = sample(options.sites, _SAMPLE)
    needles = phrases(texts, options.texts)
    if not options.what or "wheels" in options.what:
        wheels(texts, needles)
    if not options.what or "watch" in options.what:
        for ignored in _IGNORED:
            watch(needles, ignored, options.crawled, index=not options.no_index)
    if not options.what or "find" in options.what:
        if options.folder:
            find(options.sites, options.pages, options.folder)
        else:
            with tempfile.TemporaryDirectory(prefix="lycosa-bench-") as folder:
                find(options.sites, options.pages, folder)


if __name__ == "__main__":
    main()
