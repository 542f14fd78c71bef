"""The commands of the contenders of `bench.crawl` and `bench.peers`."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.peers.build import PeerAbsent, built

CONCURRENCY = 32  # connections over all hosts; wget has one
PER_HOST = 8  # Scrapy's connections to one host; with 1 or 32 it was 2 to 8 % slower


def nginx_program() -> str:
    """Return the path of nginx.

    Raises:
        PeerAbsent: nginx is not installed.
    """
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/local/sbin:/usr/sbin:/sbin")
    if program is None:
        raise PeerAbsent("nginx is not installed")
    return program


def over_tls(seeds: Sequence[str]) -> bool:
    """Return whether the sites are served over TLS; no contender verifies the certificate."""
    return seeds[0].startswith("https:")


def lycosa(seeds: Sequence[str], folder: Path) -> list[str]:
    """Lycosa's complete pipeline: fetch, archive, parse, links, text, language, tables, index.

    Documents other than HTML are not parsed, as with the other contenders.
    """
    program = Path(sys.executable).parent / "lycosa"
    if not program.exists():
        raise PeerAbsent(
            f"{program} does not exist: install the project into this virtual environment"
        )
    settings = (
        f"fetch.connections={CONCURRENCY}",
        "collection.media_types=*",
        "crawl.documents=0",
        f"fetch.verify_tls={'false' if over_tls(seeds) else 'true'}",
    )
    words = ["-w", str(folder / "workspace"), "crawl", *seeds, "--delay", "0", "--quiet", "--json"]
    return [str(program), *words, *(word for value in settings for word in ("--set", value))]


def lycosa_workers(seeds: Sequence[str], folder: Path) -> list[str]:
    """The same with two worker processes."""
    return [*lycosa(seeds, folder), "--workers", "2"]


def links(seeds: Sequence[str], folder: Path) -> list[str]:
    """Lycosa's fetching and links alone."""
    return [sys.executable, "-m", "bench.links", str(CONCURRENCY), *seeds]


def scrapy(seeds: Sequence[str], folder: Path, *flags: str) -> list[str]:
    """Scrapy, fetching and LinkExtractor only."""
    program = [sys.executable, "-m", "bench.peers.scrapy_spider", *flags]
    return [*program, str(CONCURRENCY), str(PER_HOST), *seeds]


def scrapy_http2(seeds: Sequence[str], folder: Path) -> list[str]:
    """The same over HTTP/2, one connection per host."""
    if not over_tls(seeds):
        raise PeerAbsent("Scrapy speaks HTTP/2 over TLS alone: --tls")
    return scrapy(seeds, folder, "--http2")


def colly(seeds: Sequence[str], folder: Path) -> list[str]:
    """Colly, fetch + links only, with Go's usual two threads on two cores."""
    return [str(built("colly")), str(CONCURRENCY), *seeds]


def spider(seeds: Sequence[str], folder: Path) -> list[str]:
    """Spider, fetch + links only, with tokio's usual two threads on two cores."""
    return [str(built("spider")), str(CONCURRENCY), *seeds]


def wget(seeds: Sequence[str], folder: Path) -> list[str]:
    """wget -r with a WARC, without images, style sheets and scripts, like all contenders."""
    program = shutil.which("wget")
    if program is None:
        raise PeerAbsent("wget is not installed")
    ignored = "img,link,script,embed,object,input,source,video,audio"
    return [
        *(program, "--no-config", "--recursive", "--level=inf", "--no-parent"),
        *("--execute", "robots=off", "--no-verbose", "--tries=1", "--no-check-certificate"),
        *(f"--ignore-tags={ignored}", f"--directory-prefix={folder / 'files'}"),
        *(f"--warc-file={folder / 'wget'}", f"--warc-tempdir={folder}", *seeds),
    ]


def _module(name: str, *words: object) -> list[str]:
    """Return the command of a program of this package in the environment of its peer."""
    return [str(built(name.partition("_")[0])), "-m", f"bench.peers.{name}", *map(str, words)]


def assembled(seeds: Sequence[str], folder: Path, *flags: str) -> list[str]:
    """Scrapy with warcio, trafilatura and tantivy."""
    return _module("assembled_spider", *flags, folder, CONCURRENCY, PER_HOST, *seeds)


def assembled_fast(seeds: Sequence[str], folder: Path) -> list[str]:
    """The same with trafilatura's first extractor alone."""
    return assembled(seeds, folder, "--fast")


def crawlee(seeds: Sequence[str], folder: Path) -> list[str]:
    """Crawlee with its ParselCrawler, on HTTP without a browser."""
    return _module("crawlee_crawler", folder, CONCURRENCY, *seeds)


def crawl4ai(seeds: Sequence[str], folder: Path) -> list[str]:
    """Crawl4AI with its HTTP strategy, without a browser."""
    return _module("crawl4ai_crawler", folder, CONCURRENCY, *seeds)


def heritrix(seeds: Sequence[str], folder: Path) -> list[str]:
    """Heritrix with the default profile of its distribution, without pauses."""
    program = [sys.executable, "-m", "bench.peers.heritrix_job"]
    return [*program, str(built("heritrix")), str(folder), *seeds]


def bubing(seeds: Sequence[str], folder: Path) -> list[str]:
    """BUbiNG with the example configuration of its manual, without delays."""
    program = [sys.executable, "-m", "bench.peers.bubing_agent"]
    return [*program, str(built("bubing")), str(folder), str(CONCURRENCY), *seeds]


def nutch(seeds: Sequence[str], folder: Path) -> list[str]:
    """Nutch in local mode by its script `crawl`, without pauses and without an index."""
    program = [sys.executable, "-m", "bench.peers.nutch_crawl"]
    return [*program, str(built("nutch").parent), str(folder), *seeds]


def stormcrawler(seeds: Sequence[str], folder: Path) -> list[str]:
    """StormCrawler with the topology of its archetype and a WARC, in Storm's local mode."""
    program = [sys.executable, "-m", "bench.peers.stormcrawler_topology"]
    limits = [str(CONCURRENCY), str(PER_HOST)]
    return [*program, str(built("stormcrawler")), str(folder), *limits, *seeds]


COMMANDS: dict[str, Callable[[Sequence[str], Path], list[str]]] = {
    "lycosa": lycosa,
    "lycosa-workers": lycosa_workers,
    "links": links,
    "scrapy": scrapy,
    "scrapy-http2": scrapy_http2,
    "wget": wget,
    "colly": colly,
    "spider": spider,
    "assembled": assembled,
    "assembled-fast": assembled_fast,
    "crawlee": crawlee,
    "crawl4ai": crawl4ai,
    "heritrix": heritrix,
    "bubing": bubing,
    "nutch": nutch,
    "stormcrawler": stormcrawler,
}
OURS = ("lycosa", "links")

ENVIRONMENT = {
    "PYTHONPATH": os.pathsep.join([str(Path(__file__).resolve().parents[2])]),
    "PYTHONDONTWRITEBYTECODE": "",
}
"""`bench` is not installed, so `-m` finds it by the path.

Bytecode must be written: an editable installation would otherwise be compiled at every start, in
contrast to the installed peers.
"""

# wget exits with 8 if a response was an error such as 404, which the sites have.
ACCEPTED_EXITS = {"wget": (0, 8)}
