"""The commands of everything that `bench.crawl` runs against each other."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.peers.build import PeerAbsent, built

CONCURRENCY = 32
"""Connections at once, over all hosts. wget has one."""

PER_HOST = 8
"""Scrapy's connections to one host. It is bound by CPU; with 1 or 32 instead of 8 it was 2 to 8 %
slower on tuxpaint-doc.
"""

WGET_DEPTH = "inf"


def nginx_program() -> str:
    """The server's path.

    Raises:
        PeerAbsent: it is not installed.
    """
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/local/sbin:/usr/sbin:/sbin")
    if program is None:
        raise PeerAbsent("nginx is not installed")
    return program


def over_tls(seeds: Sequence[str]) -> bool:
    """Whether the sites are served over TLS. Nobody verifies the certificate then: Scrapy does not,
    unless told.
    """
    return seeds[0].startswith("https:")


def lycosa(seeds: Sequence[str], folder: Path) -> list[str]:
    """Our whole pipeline: fetch, archive, parse, links, text, language, tables, index. Documents
    stay unread, as with the others.
    """
    program = Path(sys.executable).parent / "lycosa"
    if not program.exists():
        raise PeerAbsent(
            f"{program} does not exist: install the project into this virtual environment"
        )
    workspace = str(folder / "workspace")
    return [
        *(str(program), "-w", workspace, "crawl", *seeds),
        *(
            "--delay",
            "0",
            "--quiet",
            "--json",
            "--set",
            f"fetch.connections={CONCURRENCY}",
            "--set",
            "collection.media_types=*",
        ),
        *(
            "--set",
            "crawl.documents=0",
            "--set",
            f"fetch.verify_tls={'false' if over_tls(seeds) else 'true'}",
        ),
    ]


def links(seeds: Sequence[str], folder: Path) -> list[str]:
    """Our fetch + links alone."""
    return [sys.executable, "-m", "bench.links", str(CONCURRENCY), *seeds]


def scrapy(seeds: Sequence[str], folder: Path) -> list[str]:
    """Scrapy, fetch + LinkExtractor only."""
    return [
        sys.executable,
        "-m",
        "bench.peers.scrapy_spider",
        str(CONCURRENCY),
        str(PER_HOST),
        *seeds,
    ]


def scrapy_http2(seeds: Sequence[str], folder: Path) -> list[str]:
    """The same over HTTP/2, one connection a host."""
    if not over_tls(seeds):
        raise PeerAbsent("Scrapy speaks HTTP/2 over TLS alone: --tls")
    return [
        sys.executable,
        "-m",
        "bench.peers.scrapy_spider",
        "--http2",
        str(CONCURRENCY),
        str(PER_HOST),
        *seeds,
    ]


def colly(seeds: Sequence[str], folder: Path) -> list[str]:
    """Colly, fetch + links only, with Go's usual two threads on two cores."""
    return [str(built("colly")), str(CONCURRENCY), *seeds]


def spider(seeds: Sequence[str], folder: Path) -> list[str]:
    """Spider, fetch + links only, with tokio's usual two threads on two cores."""
    return [str(built("spider")), str(CONCURRENCY), *seeds]


def wget(seeds: Sequence[str], folder: Path) -> list[str]:
    """wget -r with a WARC. Images, style sheets and scripts are left out, as everywhere here."""
    program = shutil.which("wget")
    if program is None:
        raise PeerAbsent("wget is not installed")
    return [
        *(
            program,
            "--no-config",
            "--recursive",
            f"--level={WGET_DEPTH}",
            "--no-parent",
            "--execute",
            "robots=off",
        ),
        *(
            "--no-verbose",
            "--tries=1",
            "--no-check-certificate",
            "--ignore-tags=img,link,script,embed,object,input,source,video,audio",
        ),
        *(
            f"--directory-prefix={folder / 'files'}",
            f"--warc-file={folder / 'wget'}",
            f"--warc-tempdir={folder}",
        ),
        *seeds,
    ]


def _module(name: str, *words: object) -> list[str]:
    """A program of this package, run by the interpreter of its peer's own environment."""
    return [
        str(built(name.partition("_")[0])),
        *("-m", f"bench.peers.{name}"),
        *(str(word) for word in words),
    ]


def assembled(seeds: Sequence[str], folder: Path) -> list[str]:
    """Scrapy with warcio, trafilatura and tantivy."""
    return _module("assembled_spider", folder, CONCURRENCY, PER_HOST, *seeds)


def assembled_fast(seeds: Sequence[str], folder: Path) -> list[str]:
    """The same with trafilatura's first extractor alone."""
    return _module("assembled_spider", "--fast", folder, CONCURRENCY, PER_HOST, *seeds)


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


COMMANDS = {
    "lycosa": lycosa,
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
}
OURS = ("lycosa", "links")

ENVIRONMENT = {
    "PYTHONPATH": os.pathsep.join([str(Path(__file__).resolve().parents[2])]),
    "PYTHONDONTWRITEBYTECODE": "",
}
"""`bench` is not installed: the programs started with -m find it through the path. Where bytecode
is not to be written, an editable installation compiles its 170 modules at every start (.13 s), and
what pip installed does not: that would not be a like comparison.
"""

# wget leaves with 8 when the server answered an error (404) to any of the requests, which the sites
# do.
ACCEPTED_EXITS = {"wget": (0, 8)}
