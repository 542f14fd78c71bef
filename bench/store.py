"""What the tables cost: CPU a page to build and write them, peak memory, loading a million URL rows.

    python -m bench.store [--pages 3000] [--urls 1000000]

Real pages of the six sites (`tests/servers/sites.py`), parsed by our own parser before the clock starts; committed when
the text held passes `crawl.commit_text`, as a worker does. Prints one JSON document. Times are CPU of all threads of the
process; `peak_growth_mib` is how far the high-water mark rose above what parsing the same pages had reached before.
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
from collections.abc import Callable, Iterator
from functools import partial
from uuid import UUID

import polars as pl
from tests.servers.sites import lay_sites

from lycosa.core.config import CrawlSettings
from lycosa.core.records import Page, UrlId, UrlRow, Visit
from lycosa.page.parse import parse_page
from lycosa.store.live import LiveTables
from lycosa.store.tables import Buffers
from lycosa.store.workspace import Workspace
from lycosa.url.keys import host_key, url_key


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=3_000)
    parser.add_argument("--urls", type=int, default=1_000_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        workspace = Workspace.create(os.path.join(folder, "w"))
        result = {"pages": _write_pages(workspace, arguments.pages), "read": _read(workspace), "urls": _urls(folder, arguments.urls)}
    json.dump(result, sys.stdout, indent=1)
    print()


def _write_pages(workspace: Workspace, count: int) -> dict[str, float]:
    claim = workspace.claim("bench")
    limit = CrawlSettings().commit_text
    build = commit = 0.0
    made = links = text = held = 0
    for _ in _pages(count):
        pass  # what the parser needs in memory is not the tables'
    base = _peak_mib()
    buffers = Buffers()
    for visit, page, row in _pages(count):
        start = time.process_time()
        buffers.add_visit(visit)
        buffers.add_page(visit, page)
        buffers.links.add_links(visit, page.links)
        buffers.add_url(row)
        build += time.process_time() - start
        made, links, size = made + 1, links + len(page.links), len(page.text) + len(page.main_text)
        text, held = text + size, held + size
        if held >= limit:
            commit += _timed(partial(claim.commit, claim.next_folder(), buffers.mapping()))
            buffers, held = Buffers(), 0
    commit += _timed(partial(claim.commit, claim.next_folder(), buffers.mapping()))
    claim.release()
    files = workspace.state().files
    return {
        "count": made,
        "commits": len(files["pages"]),
        "links_a_page": round(links / made, 1),
        "characters_a_page": round(text / made),
        "build_ms_a_page": round(1000 * build / made, 4),
        "commit_ms_a_page": round(1000 * commit / made, 4),
        "peak_growth_mib": round(_peak_mib() - base, 1),
        **{f"{table}_bytes_a_page": round(sum(file.bytes for file in found) / made, 1) for table, found in files.items()},
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


def _pages(limit: int) -> Iterator[tuple[Visit, Page, UrlRow]]:
    """Every n-th page of the six sites, as the worker would hand it on."""
    files = [(site, path) for site in lay_sites() for path in sorted(site.root.rglob("*.html"))]
    numbers = random.Random(7)
    for number, (site, path) in enumerate(files[:: max(1, len(files) // limit)][:limit]):
        url = f"http://{site.address}/{path.relative_to(site.root)}"
        page = parse_page(path.read_bytes(), url=url, content_type="text/html")
        source = UrlId(url, site.address, host_key(site.address), url_key(url), number % 64)
        visit = Visit(
            url,
            source.host,
            source.partition,
            source.host_key,
            source.url_key,
            "page",
            "default",
            3,
            1_700_000_000_000 + number,
            12,
            source.host,
        )
        visit.digest, visit.record_id = f"sha1:{numbers.getrandbits(160):040X}"[:37], f"urn:uuid:{UUID(int=numbers.getrandbits(128))}"
        visit.warc_file, visit.warc_offset, visit.warc_length = "data/00000001-1/archive.warc.gz", number * 6_000, 6_000
        yield visit, page, UrlRow(source, "default", 3, state="visited", visited_at=visit.fetched_at, digest=visit.digest)


def _timed(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
