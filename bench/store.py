"""What the tables cost: CPU a page to build and write them, peak memory, loading a million URL
rows; what a merge costs, and a log of ten thousand entries.

    python -m bench.store [--pages 3000] [--urls 1000000] [--known 1000000] [--entries 10000]

Real pages of the six sites (`tests/servers/sites.py`), parsed by our own parser before the clock
starts; committed when the text held passes `crawl.commit_text`, as a worker does. Prints one JSON
document. Times are CPU of all threads of the process; `peak_growth_mib` is how far the high-water
mark rose above what parsing the same pages had reached before.
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
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from unittest import mock
from uuid import UUID

import polars as pl
from tests.servers.sites import lay_sites

from lycosa.config.settings import CrawlSettings
from lycosa.core.records import Page, UrlId, UrlRow, Visit
from lycosa.page.parse import parse_page
from lycosa.store.compaction.compact import compact
from lycosa.store.log.claim import Claim
from lycosa.store.log.entry import COMMIT, Entry, new_attempt
from lycosa.store.log.snapshot import snapshot_path
from lycosa.store.log.state import LogState
from lycosa.store.log.transaction import append
from lycosa.store.storage.files import DataFile
from lycosa.store.tables.buffers import Buffers, write_table
from lycosa.store.tables.live import LiveTables
from lycosa.store.tables.schema import TABLES
from lycosa.store.workspace import Workspace
from lycosa.url.keys import host_key, url_key

_WORDS = (
    "time",
    "year",
    "people",
    "way",
    "day",
    "world",
    "school",
    "state",
    "family",
    "group",
    "country",
    "problem",
    "place",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=3_000)
    parser.add_argument("--urls", type=int, default=1_000_000)
    parser.add_argument(
        "--known",
        type=int,
        default=1_000_000,
        help="rows of urls to merge, on a tenth as many hosts",
    )
    parser.add_argument("--entries", type=int, default=10_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        workspace = Workspace.create(os.path.join(folder, "w"))
        result = {
            "pages": _write_pages(workspace, arguments.pages) if arguments.pages else {},
            "read": _read(workspace) if arguments.pages else {},
            "urls": _urls(folder, arguments.urls) if arguments.urls else {},
            "merge": _merge(folder, arguments.known) if arguments.known else {},
            "log": _log(folder, arguments.entries) if arguments.entries else {},
        }
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
        **{
            f"{table}_bytes_a_page": round(sum(file.bytes for file in found) / made, 1)
            for table, found in files.items()
        },
    }


def _read(workspace: Workspace) -> dict[str, float]:
    live = LiveTables(workspace)
    queries: dict[str, Callable[[], pl.DataFrame]] = {
        "pages_titles_s": lambda: live.scan("pages").select("url", "title").collect(),
        "links_targets_s": lambda: live.scan("links").select("source", "target").collect(),
        "sql_count_by_language_s": lambda: live.sql(
            "select language, count(*) as n from pages group by language"
        ),
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
        buffers.add_url(
            UrlRow(
                UrlId(url, host, key, url_key(url), 3),
                "default",
                3,
                first_seen_at=1_700_000_000_000 + number,
            )
        )
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


def _merge(folder: str, count: int) -> dict[str, object]:
    """A base of `count` known URLs, then 32 commits of a further quarter in all, one row in ten
    known before: merged in a process of its own.
    """
    root = os.path.join(folder, "known")
    workspace = Workspace.create(root)
    claim = workspace.claim("bench")
    pattern = _known_urls(min(count, 200_000))
    for part in range(count // pattern.height):
        _commit_frame(claim, _other_hosts(pattern, part))
    first = _in_child(root)
    base = workspace.state().files["urls"]
    result: dict[str, object] = {
        "rows": sum(file.rows for file in base),
        "files": len(base),
        "bytes_a_row": round(sum(file.bytes for file in base) / sum(file.rows for file in base), 2),
        "first": first,
    }
    for number in range(32):
        old = _other_hosts(pattern, 0).sample(count // 1_280, seed=number, with_replacement=True)
        new = _other_hosts(pattern, 1_000 + number).sample(
            count // 142, seed=number, with_replacement=True
        )
        _commit_frame(claim, pl.concat([old, new]))
    result["quarter_more"] = _in_child(root)
    start = time.process_time()
    rows = sum(
        frame.height
        for frame in LiveTables(workspace).ordered(
            "urls", ["host_key", "url_key", "state", "not_before"]
        )
    )
    return result | {
        "live_rows": rows,
        "ordered_us_a_row": round(1e6 * (time.process_time() - start) / rows, 3),
    }


def _known_urls(count: int) -> pl.DataFrame:
    """Rows of `urls` in state known: ten a host on average, of three kinds of site, nine in ten
    referrers on the host.
    """
    chooser = random.Random(7)
    buffers = Buffers()
    while buffers.urls.rows < count:
        host = f"www.{chooser.choice(_WORDS)}{chooser.randrange(10**6)}.{chooser.choice(['com', 'org', 'de', 'fr'])}"
        key, seen, kind = (
            host_key(host),
            1_790_000_000_000 + chooser.randrange(10**10),
            chooser.randrange(3),
        )
        paths: list[str] = []
        for place in range(min(2_000, max(1, int(chooser.paretovariate(1.1) * 2)))):
            slug = "-".join(chooser.choices(_WORDS, k=chooser.randrange(3, 8)))
            page = f"{chooser.choice(_WORDS)}?id={chooser.randrange(10**6)}"
            paths.append(
                f"/{('news/2026/' + slug, f'article/{chooser.randrange(10**7)}.html', page)[kind]}"
            )
            url, referrer = f"https://{host}{paths[-1]}", f"https://{host}{paths[place // 20]}"
            row = UrlRow(
                UrlId(url, host, key, url_key(url), key % 64),
                "default",
                1 + place // 20,
                first_seen_at=seen + place // 20 * 30_000,
            )
            row.state_at, row.referrer = (
                row.first_seen_at,
                referrer if chooser.random() < 0.9 else f"https://{chooser.choice(_WORDS)}.com/",
            )
            buffers.add_url(row)
    return buffers.urls.frame().head(count)


def _other_hosts(rows: pl.DataFrame, number: int) -> pl.DataFrame:
    """The same rows on other hosts, in other places of the order."""
    keys = {name: pl.col(name).hash(seed=number) for name in ("host_key", "url_key")}
    texts = {
        name: pl.col(name).str.replace("www.", f"w{number}.", literal=True)
        for name in ("url", "referrer")
    }
    return rows.with_columns(**keys, **texts).with_columns(
        partition=(pl.col("host_key") % 64).cast(pl.UInt16)
    )


def _commit_frame(claim: Claim, rows: pl.DataFrame) -> None:
    class Frame:
        rows = 0

        def write(self, path: str) -> None:
            write_table(rows, path, TABLES["urls"])

    frame = Frame()
    frame.rows = rows.height
    claim.commit(claim.next_folder(), {"urls": frame})


def _in_child(root: str) -> dict[str, object]:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_merge_here, root).result()


def _merge_here(root: str) -> dict[str, object]:
    workspace = Workspace.open(root)
    # threads and arenas are polars' own
    pl.scan_parquet(workspace.path(workspace.state().files["urls"][0].path)).head(1).collect()
    base, start = _own_peak_mib(), time.process_time()
    report = compact(workspace, whole=True)
    took, read = time.process_time() - start, report.bytes_written / max(1, report.bytes_read)
    rows = workspace.state().rows("urls")
    return {
        "cpu_us_a_row": round(1e6 * took / rows, 2),
        "peak_growth_mib": round(_own_peak_mib() - base, 1),
        "files_before": report.files_before,
        "bytes_out_of_in": round(read, 3),
    }


def _log(folder: str, entries: int) -> dict[str, float]:
    """Claims by the thousand, which are as long as commits without rows, with 200 commits of 5
    files each among them.
    """
    workspace = Workspace.create(os.path.join(folder, "log"))
    with mock.patch("os.fsync"):
        claim = workspace.claim("bench")
        state = claim.state
        for number in range(entries - 1):
            paths = [
                DataFile(f"data/00000001-{number}/{name}.parquet", 5_000, 10**6, f"{number:032x}")
                for name in list(TABLES)[:5]
            ]
            files = (
                {name: (path,) for name, path in zip(TABLES, paths, strict=False)}
                if number % 50 == 0
                else {}
            )
            warc = DataFile(f"data/00000001-{number}/archive.warc.gz", 0, 10**7, f"{number:032x}")
            append(
                state,
                Entry(
                    COMMIT,
                    new_attempt(),
                    "2026-11-21T10:00:00Z",
                    claim=1,
                    files=files,
                    warcs=(warc,),
                ),
            )
    opened = min(_timed(workspace.state) for _ in range(3))
    folded = LogState(workspace.log)

    def fold() -> None:
        for entry in workspace.log.entries():
            folded.apply(entry)

    snapshot = workspace.storage.size(snapshot_path(entries // 100 * 100)) or 0
    return {
        "entries": entries,
        "open_ms": round(1e3 * opened, 1),
        "open_without_snapshot_ms": round(1e3 * _timed(fold), 1),
        "look_for_new_us": round(
            1e6 * _timed(lambda: [state.refresh() for _ in range(1_000)]) / 1_000, 1
        ),
        "snapshot_bytes": snapshot,
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
        visit.digest, visit.record_id = (
            f"sha1:{numbers.getrandbits(160):040X}"[:37],
            f"urn:uuid:{UUID(int=numbers.getrandbits(128))}",
        )
        visit.warc_file, visit.warc_offset, visit.warc_length = (
            "data/00000001-1/archive.warc.gz",
            number * 6_000,
            6_000,
        )
        yield (
            visit,
            page,
            UrlRow(
                source,
                "default",
                3,
                state="visited",
                visited_at=visit.fetched_at,
                digest=visit.digest,
            ),
        )


def _timed(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def _own_peak_mib() -> float:
    """The high-water mark of this program; `ru_maxrss` also tells that of the one that started
    it.
    """
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
