"""What the tables cost: CPU a page to build and write them, peak memory, loading a million URL rows.

    python -m bench.store [--pages 5000] [--urls 1000000]

The pages are made here: 24 KB of varied text in several scripts, 50 links each, as the sites of make_sites.sh have on average.
Prints one JSON document. Times are CPU (all threads of the process), not wall.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable

import polars as pl

from lycosa.core.records import HostRow, Link, Page, UrlId, UrlRow, Visit
from lycosa.store.live import LiveTables
from lycosa.store.tables import Buffers
from lycosa.store.workspace import Workspace
from lycosa.url.keys import host_key, url_key

HOSTS = 20
PAGE_CHARACTERS = 11_000  # text and main_text together are then about 24 KB
LINKS = 50
COMMIT_PAGES = 2_500


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=5_000)
    parser.add_argument("--urls", type=int, default=1_000_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        workspace = Workspace.create(os.path.join(folder, "w"))
        result = {"pages": _write_pages(workspace, arguments.pages), "read": _read(workspace), "urls": _urls(folder, arguments.urls)}
    json.dump(result, sys.stdout, indent=1)
    print()


def _write_pages(workspace: Workspace, count: int) -> dict[str, float]:
    make = _pages(random.Random(7))
    claim = workspace.claim("bench")
    spent = {"build": 0.0, "commit": 0.0}
    base, made = _peak_mib(), 0
    buffers, folder = Buffers(), claim.next_folder()
    for number in range(count):
        visit, page, row, host = make(number)
        start = time.process_time()
        buffers.add_visit(visit)
        buffers.add_page(visit, page)
        buffers.links.add_links(visit, page.links)
        buffers.add_url(row)
        if host:
            buffers.add_host(host)
        spent["build"] += time.process_time() - start
        made += 1
        if made == COMMIT_PAGES or number == count - 1:
            start = time.process_time()
            claim.commit(folder, buffers.mapping())
            buffers, folder, made = Buffers(), claim.next_folder(), 0
            spent["commit"] += time.process_time() - start
    claim.release()
    files = {table: sum(file.bytes for file in found) for table, found in workspace.state().files.items()}
    return {
        "count": count,
        "build_ms_a_page": round(1000 * spent["build"] / count, 4),
        "commit_ms_a_page": round(1000 * spent["commit"] / count, 4),
        "peak_growth_mib": round(_peak_mib() - base, 1),
        **{f"{table}_bytes_a_page": round(size / count, 1) for table, size in files.items()},
    }


def _read(workspace: Workspace) -> dict[str, float]:
    live = LiveTables(workspace)
    queries: dict[str, Callable[[], pl.DataFrame]] = {
        "pages_titles_s": lambda: live.scan("pages").select("url", "title").collect(),
        "links_targets_s": lambda: live.scan("links").select("source", "target").collect(),
        "sql_count_by_language_s": lambda: live.sql("select language, count(*) as n from pages group by language"),
    }
    return {name: round(_timed(query), 3) for name, query in queries.items()}


def _urls(folder: str, count: int) -> dict[str, float]:
    workspace = Workspace.create(os.path.join(folder, "urls"))
    claim = workspace.claim("bench")
    buffers = Buffers()
    host = "www.example.org"
    key = host_key(host)
    start = time.process_time()
    for number in range(count):
        url = f"https://{host}/news/2026/11/{number % 31}/article-{number:07d}.html"
        buffers.add_url(UrlRow(UrlId(url, host, key, url_key(url), 3), "default", 3, first_seen_at=1_700_000_000_000 + number))
    build = time.process_time() - start
    start = time.process_time()
    claim.commit(claim.next_folder(), buffers.mapping())
    commit = time.process_time() - start
    live = LiveTables(workspace)
    columns = ["host_key", "url_key", "state", "depth", "priority", "not_before", "visited_at"]
    load = _timed(lambda: live.scan("urls").select(columns).collect())
    whole = _timed(lambda: live.scan("urls").collect())
    size = workspace.state().files["urls"][0].bytes
    return {
        "count": count,
        "build_us_a_row": round(1e6 * build / count, 3),
        "commit_us_a_row": round(1e6 * commit / count, 3),
        "bytes_a_row": round(size / count, 1),
        "load_columns_s": round(load, 3),
        "load_all_s": round(whole, 3),
    }


def _pages(chance: random.Random) -> Callable[[int], tuple[Visit, Page, UrlRow, HostRow | None]]:
    alphabets = ["abcdefghijklmnopqrstuvwxyz", "абвгдежзийклмнопрстуфхцчшщ", "一二三四五六七八九十人大中国"]
    words = [["".join(chance.choices(letters, k=chance.randint(2, 9))) for _ in range(5_000)] for letters in alphabets]
    hosts = [f"host{number}.example.org" for number in range(HOSTS)]

    def make(number: int) -> tuple[Visit, Page, UrlRow, HostRow | None]:
        host = hosts[number % HOSTS]
        url = f"https://{host}/folder{number % 97}/page-{number}.html"
        source = UrlId(url, host, host_key(host), url_key(url), number % HOSTS)
        vocabulary = words[number % 3 if number % 4 == 0 else 0]
        text = " ".join(chance.choices(vocabulary, k=PAGE_CHARACTERS // 6))
        links = [
            Link(
                f"https://{host}/folder{chance.randrange(97)}/page-{chance.randrange(50_000)}.html",
                chance.choice(vocabulary),
                "",
                "a",
                place,
            )
            for place in range(LINKS)
        ]
        page = Page(title=text[:60], main_text=text[: len(text) * 2 // 3], text=text, language="en", language_score=0.99, links=links)
        page.text_digest, page.simhash, page.headings = chance.getrandbits(64), chance.getrandbits(64), [text[:30], text[30:70]]
        visit = Visit(
            url, host, source.partition, source.host_key, source.url_key, "page", "default", 3, 1_700_000_000_000 + number, 12, "127.0.0.1"
        )
        visit.digest, visit.record_id = f"sha1:{chance.getrandbits(160):040X}"[:37], f"urn:uuid:{chance.getrandbits(128):032x}"
        visit.warc_file, visit.warc_offset, visit.warc_length = "data/00000001-1/archive.warc.gz", number * 6_000, 6_000
        row = UrlRow(source, "default", 3, state="visited", visited_at=visit.fetched_at, digest=visit.digest)
        return visit, page, row, HostRow(host, source.partition, source.host_key, "example.org", 1) if number % 50 == 0 else None

    return make


def _timed(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
