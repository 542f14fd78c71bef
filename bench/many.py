"""Search over two workspaces, and over a workspace and another Lycosa, against one index: do the
first ten agree, what does a query cost?

    python -m bench.many [--sites DIR] [--pages N] [--queries N] [--hosts N] [--results FILE]

The pages of the documentation sites are committed once. Two copies of the workspace exclude one
half of the hosts each (each site is spread over `--hosts` of them; 1: whole sites lie on one side
or the other). The same queries go to the one index, to both halves in this process, and to one half
here with the other behind a real server.

Agreement counts queries with ten pages or more: of the ten best of the one index, how many are
among the ten best of the two. What counts as much as the tenth, to three decimals, is equal to it;
so is a copy that is shown for a page, with its title and its score: which of several copies comes
first is chance.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from bench.harness import append_results, quantile, table
from bench.search import HITS, SITES, Sample, fill, html_files, queries
from bench.shards import Agreement, Ask, spread, timed
from lycosa.config.settings import FetchSettings, IndexSettings
from lycosa.index.indexer import Indexer
from lycosa.search.engine.searcher import Searcher
from lycosa.search.federation.backend import LocalBackend
from lycosa.search.federation.federated_search import FederatedSearch
from lycosa.search.federation.peer_backend import PeerBackend
from lycosa.search.presentation.results import SearchRequest
from lycosa.store.exclusion.purge import exclude
from lycosa.store.workspace import Workspace

_PATIENCE_S = 60.0


def prepare(
    folder: str, sites: Path, pages: int, hosts: int
) -> tuple[str, str, str, list[Sample], int]:
    """The whole workspace, its halves, samples for queries, and how many pages there are."""
    whole, first, second = (f"{folder}/{name}" for name in ("whole", "first", "second"))
    moved = spread(hosts) if hosts > 1 else None
    samples: list[Sample] = []
    count = fill(whole, sites, pages, samples, moved)
    names = sorted({urlsplit(moved(url) if moved else url).netloc for url, _ in html_files(sites)})
    for number, half in enumerate((first, second)):
        shutil.copytree(whole, half)
        others = [
            name
            for place, name in enumerate(names)
            if (zlib.crc32(name.encode()) if moved else place) % 2 != number
        ]
        exclude(Workspace.open(half), [f"host:{name}" for name in others])
    for root in (whole, first, second):
        with Indexer(root, IndexSettings()) as indexer:
            indexer.update()
    return whole, first, second, samples, count


@contextmanager
def served(root: str) -> Iterator[tuple[str, psutil.Process]]:
    """The address of a server over a workspace, and its process."""
    command = [sys.executable, "-m", "lycosa.cli.main", "-w", root, "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            address = next(
                word for word in process.stdout.readline().split() if word.startswith("http://")
            )
            yield address, psutil.Process(process.pid)
        finally:
            process.terminate()
            process.wait(timeout=30)


def agreement(one: Ask, many: Ask, asked: list[str]) -> Agreement:
    """As the module's text says."""
    found = Agreement()
    for query in asked:
        whole, ours = one(SearchRequest(query, HITS)), many(SearchRequest(query, HITS))
        found.totals_differ += whole.total != ours.total
        if len(whole.hits) < HITS:
            continue
        edge = round(whole.hits[-1].score, 3)
        best = {hit.url for hit in whole.hits}
        looks = {(hit.title, round(hit.score, 3)) for hit in whole.hits}
        found.same_pages.append(sum(hit.url in best for hit in ours.hits))
        scored = [(hit.url, (hit.title, round(hit.score, 3))) for hit in ours.hits]
        found.agreed.append(
            sum(url in best or look in looks or look[1] == edge for url, look in scored)
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sites", type=Path, default=SITES)
    parser.add_argument("--pages", type=int, default=10_000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--hosts", type=int, default=27, help="hosts that each site is spread over")
    parser.add_argument("--results", type=Path, help="append the figures to this file")
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="lycosa-bench-"))
        whole, first, second, samples, pages = prepare(
            folder, options.sites, options.pages, options.hosts
        )
        asked = queries(samples, options.queries)
        one, here, there = (
            Searcher(whole),
            LocalBackend("first", Searcher(first)),
            LocalBackend("second", Searcher(second)),
        )
        address, server = stack.enter_context(served(second))
        together = stack.enter_context(
            closing(FederatedSearch([here, there], timeout_s=_PATIENCE_S))
        )
        apart = stack.enter_context(
            closing(
                FederatedSearch(
                    [here], [PeerBackend(address, FetchSettings())], timeout_s=_PATIENCE_S
                )
            )
        )
        rows, lines = [], []
        for name, ask, processes in (
            ("one index", one.search, []),
            ("two workspaces, this process", together.search, []),
            ("a workspace and a peer", apart.search, [server]),
        ):
            wall, cpu = timed(ask, asked, processes)
            rows.append(
                (name, f"{quantile(wall, 0.5):.2f}", f"{quantile(wall, 0.95):.2f}", f"{cpu:.2f}")
            )
            if ask != one.search:
                lines.append(f"{name}: {agreement(one.search, ask, asked).line()}")
        body = table(("search", "query p50 ms", "p95 ms", "CPU ms a query"), rows)
        parts = f"{here.searcher.documents} and {there.searcher.documents}"
        body += (
            f"\n\n{pages} pages, {parts} of them on either side, {len(asked)} queries, {HITS} "
            f"snippets each, sites on {options.hosts} "
        )
        body += "hosts each. Agreement with one index: " + ". ".join(lines)
        print(body)
        if options.results:
            append_results(
                options.results, "Search over workspaces and peers", "python -m bench.many", body
            )


if __name__ == "__main__":
    main()
