"""The version of each peer, what it stores, and the steps of a new user."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import tantivy
from warcio.archiveiterator import ArchiveIterator
from warcio.exceptions import ArchiveLoadFailed

from bench.harness import lycosa
from bench.peers.build import built
from bench.peers.nutch_crawl import environment

INDEX_LIMIT = 1_000_000  # more documents than any site has
NUTCH_HTML = re.compile(rb"^contentType: (text/html|application/xhtml\+xml)$", re.MULTILINE)


@dataclass(frozen=True)
class Peer:
    """One program of the comparison. `pages` reads the URLs of the HTML pages in its folder."""

    version: str
    keeps: str
    steps: tuple[str, ...]
    pages: Callable[[Path], set[str]]


def warc_pages(files: Iterable[Path]) -> set[str]:
    """Return the URLs of HTML responses of status 200, and of text records of pages.

    A truncated file counts up to its end.
    """
    urls = set()
    for path in files:
        with path.open("rb") as stream:
            try:
                for record in ArchiveIterator(stream):
                    http = record.http_headers
                    html = http and (http.get_header("Content-Type") or "").startswith("text/html")
                    if record.rec_type == "conversion" or (
                        record.rec_type == "response" and html and http.get_statuscode() == "200"
                    ):
                        urls.add(unquote(record.rec_headers.get_header("WARC-Target-URI")))
            except (ArchiveLoadFailed, EOFError):
                continue
    return urls


def json_pages(lines: Iterable[str]) -> set[str]:
    """Return the field `url` of each line; truncated lines do not count."""
    urls = set()
    for line in lines:
        try:
            urls.add(unquote(json.loads(line)["url"]))
        except (ValueError, KeyError):
            continue
    return urls


def _lycosa(folder: Path) -> set[str]:
    command = lycosa(folder / "workspace", "export", "text", folder / "texts", "--quiet")
    subprocess.run(command, check=True, capture_output=True)
    return warc_pages((folder / "texts").rglob("*.wet"))


def _assembled(folder: Path) -> set[str]:
    if not (folder / "index" / "meta.json").exists():
        return set()
    searcher = tantivy.Index.open(str(folder / "index")).searcher()
    hits = searcher.search(tantivy.Query.all_query(), limit=INDEX_LIMIT).hits
    indexed = {unquote(searcher.doc(address)["url"][0]) for _, address in hits}
    return indexed & warc_pages(folder.glob("*.warc.gz"))


def nutch_pages(dump: bytes) -> set[str]:
    """Return the URLs of HTML pages that `nutch readseg -dump` lists as fetched."""
    return {
        unquote(record.split(b"\nURL:: ")[1].split(b"\n")[0].decode())
        for record in dump.split(b"\nRecno:: ")[1:]
        if b"(fetch_success)\n" in record and NUTCH_HTML.search(record)
    }


def _nutch(folder: Path) -> set[str]:
    home, dumps = built("nutch").parent, folder / "dumps"
    without = [f"-no{part}" for part in ("generate", "parse", "parsedata", "parsetext")]
    urls: set[str] = set()
    for segment in folder.glob("crawl/segments/*"):
        dump = dumps / segment.name
        command = [f"{home}/bin/nutch", "readseg", "-dump", str(segment), str(dump), *without]
        subprocess.run(command, check=True, capture_output=True, env=environment(home, folder))
        urls |= nutch_pages((dump / "dump").read_bytes())
    return urls


PEERS = {
    "lycosa": Peer(
        "0.1.0",
        "WARC, tables of URLs, pages and links, index of main text",
        ("pip install lycosa", "lycosa crawl URL"),
        _lycosa,
    ),
    "assembled": Peer(
        "Scrapy 2.19.0",
        "WARC of responses, index of URL, title and main text",
        (
            "pip install scrapy trafilatura warcio tantivy",
            "write a spider (bench/peers/assembled_spider.py)",
            "python the spider",
        ),
        _assembled,
    ),
    "heritrix": Peer(
        "3.13.0",
        "WARC of requests and responses, logs",
        (
            "install Java 17",
            "unzip the distribution",
            "edit the job: contact, seeds, pauses, transclusions",
            "java … --run-job",
        ),
        lambda folder: warc_pages(folder.glob("jobs/crawl/*/warcs/*.warc.gz*")),
    ),
    "bubing": Peer(
        "0.9.15",
        "WARC of responses, state of the frontier, logs",
        (
            "install Java 17, Maven",
            "write a pom.xml (bench/peers/bubing/pom.xml)",
            "mvn dependency:copy-dependencies",
            "write the configurations of the agent and of its logs (bench/peers/bubing_agent.py)",
            "java … it.unimi.di.law.bubing.Agent",
            "call its JMX operation stop at the end",
        ),
        lambda folder: warc_pages(folder.glob("crawl-*/store/store.warc.gz")),
    ),
    "nutch": Peer(
        "1.22",
        "segments of responses, text and links, tables of URLs and links",
        (
            "install Java 17",
            "unpack the distribution",
            "edit nutch-site.xml and regex-urlfilter.txt: name, pauses, hosts",
            "write the seeds to a file",
            "bin/crawl -s urls crawl -1",
        ),
        _nutch,
    ),
    "stormcrawler": Peer(
        "2.4",
        "WARC of requests and responses",
        (
            "install Java and Storm",
            "mvn archetype:generate",
            "edit the topology and its filters (bench/peers/stormcrawler)",
            "mvn package",
            "storm local …",
        ),
        lambda folder: warc_pages(folder.glob("warc/*.warc.gz")),
    ),
    "crawlee": Peer(
        "1.11.0",
        "a JSON file per page with its HTML",
        (
            "pip install 'crawlee[parsel]'",
            "write a handler (bench/peers/crawlee_crawler.py)",
            "python the program",
        ),
        lambda folder: json_pages(
            path.read_text() for path in folder.glob("datasets/default/0*.json")
        ),
    ),
    "crawl4ai": Peer(
        "0.9.5",
        "HTML and Markdown in JSON lines",
        (
            "pip install crawl4ai",
            "write a deep crawl (bench/peers/crawl4ai_crawler.py)",
            "python the program",
        ),
        lambda folder: json_pages((folder / "pages.jsonl").read_text().splitlines()),
    ),
    "wget": Peer(
        "1.21",
        "files and a WARC",
        ("install wget", "wget --recursive --warc-file=…"),
        lambda folder: warc_pages(folder.glob("wget*.warc.gz")),
    ),
}
