"""Search over shards against one index: do the first ten agree, and what does a query cost.

    python -m bench.shards [--sites DIR] [--pages N] [--queries N] [--shards N] [--hosts N]
    [--results FILE]

The pages of the documentation sites are committed once and indexed twice, whole and in shards; the
same queries go to the one index, to the shards opened in this process, and to replicas in child
processes. By default every page keeps its site, so shards differ as much as six sites do (some are
empty); with `--hosts 27` each site is spread over so many hosts, as a crawl of many sites would be.

Agreement counts queries with ten pages or more: of the ten best of the one index, how many are
among the ten best of the shards. A page whose score equals the tenth's to three decimals counts for
it: which of equal pages come first is chance.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from bench.harness import append_results, quantile, table
from bench.search import HITS, SITES, Sample, fill, queries
from lycosa.cluster.engines.local import LocalEngine
from lycosa.config.settings import IndexSettings
from lycosa.index.indexer import Indexer
from lycosa.search.engine.searcher import Searcher
from lycosa.search.federation.replica_supervisor import ReplicaSupervisor
from lycosa.search.federation.sharded_search import ShardedSearch
from lycosa.search.presentation.results import SearchRequest, SearchResults

_EDGE = 30  # hits that are looked through for pages that count as much as the tenth
_READY_S = 120.0

Ask = Callable[[SearchRequest], SearchResults]


@dataclass(slots=True)
class Agreement:
    """How many of the ten best of one index are among the ten best of the shards, by query."""

    agreed: list[int] = field(default_factory=list)  # equal scores counted for each other
    same_pages: list[int] = field(default_factory=list)
    totals_differ: int = 0

    @property
    def mean(self) -> float:
        return sum(self.agreed) / max(1, len(self.agreed))

    def line(self) -> str:
        spread = ", ".join(
            f"{agreed}: {count}"
            for agreed, count in sorted(Counter(self.agreed).items(), reverse=True)
        )
        same = sum(self.same_pages) / max(1, len(self.same_pages))
        return (
            f"{self.mean:.2f} of 10 (the very same pages {same:.2f}) over {len(self.agreed)} "
            f"queries; {spread}"
        )


def spread(number: int) -> Callable[[str], str]:
    """A page's address on one of `number` hosts of its site."""

    def moved(url: str) -> str:
        site = url.split("/")[2]
        return url.replace(
            site, f"{site.removesuffix('.test')}-{zlib.crc32(url.encode()) % number}.test", 1
        )

    return moved


def agreement(one: Ask, many: Ask, asked: list[str]) -> Agreement:
    found = Agreement()
    for query in asked:
        whole, ours = one(SearchRequest(query, _EDGE)), many(SearchRequest(query, HITS))
        found.totals_differ += whole.total != ours.total
        if len(whole.hits) < HITS:
            continue
        edge = round(whole.hits[HITS - 1].score, 3)
        best = {hit.url for hit in whole.hits[:HITS]}
        equal = best | {hit.url for hit in whole.hits if round(hit.score, 3) == edge}
        found.same_pages.append(sum(hit.url in best for hit in ours.hits))
        found.agreed.append(sum(hit.url in equal for hit in ours.hits))
    return found


@contextlib.contextmanager
def replicas(root: str) -> Iterator[tuple[ShardedSearch, list[psutil.Process]]]:
    """A replica of each shard in a child process, and those processes."""
    with contextlib.ExitStack() as stack:
        engine = stack.enter_context(LocalEngine())
        keeper = stack.enter_context(contextlib.closing(ReplicaSupervisor(engine, root, 1)))
        federation = stack.enter_context(
            contextlib.closing(ShardedSearch(keeper.replicas, call_timeout_s=30.0, deadline_s=60.0))
        )
        if not keeper.wait(_READY_S):
            raise TimeoutError("the replicas are not ready")
        processes = [
            psutil.Process(replica.ask("process", timeout_s=30))
            for shard in keeper.replicas()
            for replica in shard
        ]
        yield federation, processes


def timed(ask: Ask, asked: list[str], processes: list[psutil.Process]) -> tuple[list[float], float]:
    """Wall milliseconds of each query, and CPU milliseconds of one, in this process and in
    those.
    """

    def cpu() -> float:
        used = [process.cpu_times() for process in processes]
        return time.process_time() + float(sum(each.user + each.system for each in used))

    for query in asked[:20]:
        ask(SearchRequest(query, HITS))
    wall, before = [], cpu()
    for query in asked:
        start = time.perf_counter()
        ask(SearchRequest(query, HITS))
        wall.append((time.perf_counter() - start) * 1000)
    return wall, (cpu() - before) * 1000 / len(asked)


def prepare(
    folder: str, sites: Path, pages: int, shards: int, hosts: int
) -> tuple[str, str, list[Sample], int]:
    """Both workspaces: (the whole one, the one in shards, samples for queries, pages)."""
    one, many = f"{folder}/one", f"{folder}/many"
    samples: list[Sample] = []
    count = fill(one, sites, pages, samples, spread(hosts) if hosts > 1 else None)
    shutil.copytree(one, many)
    for root, number in ((one, 1), (many, shards)):
        with Indexer(root, IndexSettings(shards=number)) as indexer:
            indexer.update()
    return one, many, samples, count


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sites", type=Path, default=SITES)
    parser.add_argument("--pages", type=int, default=10_000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--hosts", type=int, default=1, help="hosts that each site is spread over")
    parser.add_argument("--results", type=Path, help="append the figures to this file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lycosa-bench-") as folder:
        one, many, samples, pages = prepare(
            folder, options.sites, options.pages, options.shards, options.hosts
        )
        asked = queries(samples, options.queries)
        whole, together = Searcher(one), Searcher(many)
        with replicas(many) as (federation, processes):
            rows = []
            for name, ask, others in (
                ("one index", whole.search, []),
                (f"{options.shards} shards, this process", together.search, []),
                (f"{options.shards} shards, replicas", federation.search, processes),
            ):
                wall, cpu = timed(ask, asked, others)
                rows.append(
                    (
                        name,
                        f"{quantile(wall, 0.5):.2f}",
                        f"{quantile(wall, 0.95):.2f}",
                        f"{cpu:.2f}",
                    )
                )
            lines = [
                f"{name}: {agreement(whole.search, ask, asked).line()}"
                for name, ask in (
                    ("Shards in this process", together.search),
                    ("Replicas", federation.search),
                )
            ]
        body = table(("search", "query p50 ms", "p95 ms", "CPU ms a query"), rows)
        body += (
            f"\n\n{pages} pages, {len(asked)} queries, {HITS} snippets each, sites on "
            f"{options.hosts} hosts each. "
        )
        body += "Agreement with one index: "
        body += ". ".join(lines)
        print(body)
        if options.results:
            append_results(options.results, "Search over shards", "python -m bench.shards", body)


if __name__ == "__main__":
    main()
