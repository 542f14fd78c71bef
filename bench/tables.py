"""CPU of writing and compacting the tables, compared with polars in the same rounds.

    python -m bench.tables [--pages 2000] [--urls 200000] [--runs N]

Pages: rows of real pages are built and committed; polars writes the same columns to one file each.
URLs: 32 commits are compacted; polars reads, sorts and writes the same rows.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from itertools import count

import polars as pl

from bench.corpora import SITES, commit_pages, html_files
from bench.harness import alternate, arguments, comparison, cpu_s, report
from lycosa.core.records import Page, UrlId, UrlRow
from lycosa.page.parse import parse_page
from lycosa.store.compaction.compact import compact
from lycosa.store.tables.buffers import Buffers
from lycosa.store.workspace import Workspace
from lycosa.url.keys import host_key, url_key

COMMITS = 32
TABLES = ("pages", "links")
Readings = dict[str, list[float]]


class Folders:
    """New paths in a temporary folder."""

    def __init__(self, root: str) -> None:
        self._paths = (f"{root}/{number}" for number in count())

    def new(self) -> str:
        return next(self._paths)


def compare_pages(folders: Folders, number: int, runs: int) -> Readings:
    """Return CPU ms per page."""
    pages: list[tuple[str, Page]] = [
        (url, parse_page(path.read_bytes(), url=url, content_type="text/html"))
        for url, path in list(html_files(SITES))[:number]
    ]
    root = folders.new()
    commit_pages(root, pages)
    workspace = Workspace.open(root)
    files = workspace.state().files
    frames = [
        pl.read_parquet([workspace.path(file.path) for file in files[name]]) for name in TABLES
    ]

    def write_polars() -> None:
        for frame in frames:
            frame.write_parquet(folders.new())

    contenders: dict[str, Callable[[], float]] = {
        "Lycosa": lambda: cpu_s(lambda: commit_pages(folders.new(), pages)) * 1e3 / len(pages),
        "polars": lambda: cpu_s(write_polars) * 1e3 / len(pages),
    }
    return alternate(contenders, runs)


def fill_urls(root: str, urls: int) -> Workspace:
    """Commit known URLs, ten per host, in 32 commits."""
    workspace = Workspace.create(root)
    claim = workspace.claim("bench")
    for start in range(0, urls, urls // COMMITS):
        buffers = Buffers()
        for number in range(start, min(start + urls // COMMITS, urls)):
            host = f"www.site{number // 10 * 7919 % urls}.example"
            url = f"https://{host}/news/2026/11/article-{number:07d}.html"
            key = host_key(host)
            identity = UrlId(url, host, key, url_key(url), key % 64)
            buffers.add_url(UrlRow(identity, "default", 3, first_seen_at=1_700_000_000_000))
        claim.commit(claim.next_folder(), buffers.mapping())
    claim.release()
    return workspace


def compare_compaction(folders: Folders, urls: int, runs: int) -> Readings:
    """Return CPU µs per row."""

    def ours() -> float:
        workspace = fill_urls(folders.new(), urls)
        return cpu_s(lambda: compact(workspace, whole=True)) * 1e6 / urls

    source = fill_urls(folders.new(), urls)
    paths = [source.path(file.path) for file in source.state().files["urls"]]

    def sort() -> None:
        pl.read_parquet(paths).sort("partition", "host_key", "url_key").write_parquet(folders.new())

    return alternate({"Lycosa": ours, "polars": lambda: cpu_s(sort) * 1e6 / urls}, runs)


def main() -> None:
    options = arguments(__doc__, pages=2_000, urls=200_000).parse_args()
    with tempfile.TemporaryDirectory(prefix="lycosa-bench-") as root:
        folders = Folders(root)
        figures = {
            "pages and links, CPU ms per page": compare_pages(folders, options.pages, options.runs),
            "compaction, CPU µs per row": compare_compaction(folders, options.urls, options.runs),
        }
    tables = [comparison(readings, "Lycosa", unit) for unit, readings in figures.items()]
    report(options, "Tables", "\n\n".join(tables), figures)


if __name__ == "__main__":
    main()
