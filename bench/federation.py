"""Search over shards, workspaces and peers, compared with one index: agreement and cost.

    python -m bench.federation [--pages N] [--queries N] [--shards N] [--hosts N]

The pages of the documentation sites are indexed in one index, in shards, and as two halves by host.
The same queries go to the one index, to the shards in this process, to replicas of the shards in
child processes, to both halves, and to one half with the other one behind a server. With `--hosts N`
each site is spread over N hosts, as in a crawl of many sites; with 1, shards differ as much as sites.

Agreement: how many of the ten best of the one index are among the ten best of the other. Pages with
the score of the tenth (to three decimals), and copies with the same title and score, count as equal,
because their order is random. Only queries with ten pages or more count.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from bench.corpora import HITS, SITES, Sample, fill, html_files, index_workspace, queries
from bench.harness import arguments, quantiles, report, table
from bench.search import latencies, serving
from lycosa.cluster.engines.local import LocalEngine
from lycosa.config.settings import FetchSettings
from lycosa.search.engine.searcher import Searcher
from lycosa.search.federation.backend import LocalBackend
from lycosa.search.federation.federated_search import FederatedSearch
from lycosa.search.federation.peer_backend import PeerBackend
from lycosa.search.federation.replica import ReplicaSupervisor
from lycosa.search.federation.sharded_search import ShardedSearch
from lycosa.search.presentation.results import SearchRequest, SearchResults
from lycosa.store.exclusion.purge import exclude
from lycosa.store.workspace import Workspace

_EDGE = 30  # hits examined for scores equal to the tenth
_TIMEOUT_S = 60.0

Search = Callable[[SearchRequest], SearchResults]


@dataclass(slots=True)
class Agreement:
    """The number of the ten best of one index among the ten best of the other, per query."""

    agreed: list[int] = field(default_factory=list)  # equal pages included
    same_pages: list[int] = field(default_factory=list)
    totals_differ: int = 0

    @property
    def mean(self) -> float:
        return sum(self.agreed) / max(1, len(self.agreed))

    def line(self) -> str:
        counts = sorted(Counter(self.agreed).items(), reverse=True)
        same = sum(self.same_pages) / max(1, len(self.same_pages))
        return (
            f"{self.mean:.2f} of 10 (identical pages {same:.2f}) over {len(self.agreed)} queries; "
            + ", ".join(f"{agreed}: {count}" for agreed, count in counts)
        )


def agreement(one: Search, other: Search, requests: list[str], copies: bool = False) -> Agreement:
    """Compare the ten best; `copies`: hits with the title and score of one of them are equal."""
    result = Agreement()
    for query in requests:
        complete, partial = one(SearchRequest(query, _EDGE)), other(SearchRequest(query, HITS))
        result.totals_differ += complete.total != partial.total
        if len(complete.hits) < HITS:
            continue
        edge = round(complete.hits[HITS - 1].score, 3)
        best = {hit.url for hit in complete.hits[:HITS]}
        equal = best | {hit.url for hit in complete.hits if round(hit.score, 3) == edge}
        if copies:
            keys = {(hit.title, round(hit.score, 3)) for hit in complete.hits[:HITS]}
            equal |= {hit.url for hit in partial.hits if (hit.title, round(hit.score, 3)) in keys}
            equal |= {hit.url for hit in partial.hits if round(hit.score, 3) == edge}
        result.same_pages.append(sum(hit.url in best for hit in partial.hits))
        result.agreed.append(sum(hit.url in equal for hit in partial.hits))
    return result


def spread(hosts: int) -> Callable[[str], str]:
    """Return a function that moves a URL to one of several hosts of its site."""

    def move(url: str) -> str:
        site = url.split("/")[2]
        host = f"{site.removesuffix('.test')}-{zlib.crc32(url.encode()) % hosts}.test"
        return url.replace(site, host, 1) if hosts > 1 else url

    return move


def prepare(
    folder: str, sites: Path, pages: int, shards: int, hosts: int
) -> tuple[str, str, list[Sample], int]:
    """Return the complete workspace, the one in shards, samples for queries, and the page count."""
    one, many = f"{folder}/one", f"{folder}/many"
    samples: list[Sample] = []
    count = fill(one, sites, pages, samples, spread(hosts))
    shutil.copytree(one, many)
    index_workspace(one)
    index_workspace(many, shards)
    return one, many, samples, count


def halves(folder: str, complete: str, sites: Path, hosts: int) -> list[str]:
    """Return two copies of the workspace, each without one half of the hosts."""
    names = sorted({urlsplit(spread(hosts)(url)).netloc for url, _ in html_files(sites)})
    roots = [f"{folder}/first", f"{folder}/second"]
    for number, root in enumerate(roots):
        shutil.copytree(complete, root)
        excluded = [
            f"host:{name}"
            for place, name in enumerate(names)
            if (zlib.crc32(name.encode()) if hosts > 1 else place) % 2 != number
        ]
        exclude(Workspace.open(root), excluded)
        index_workspace(root)
    return roots


@contextlib.contextmanager
def replicas(root: str) -> Iterator[tuple[ShardedSearch, list[psutil.Process]]]:
    """Start a replica of each shard in a child process; yield the search and the processes."""
    with contextlib.ExitStack() as stack:
        engine = stack.enter_context(LocalEngine())
        supervisor = stack.enter_context(contextlib.closing(ReplicaSupervisor(engine, root, 1)))
        search = ShardedSearch(supervisor.replicas, call_timeout_s=30.0, deadline_s=_TIMEOUT_S)
        stack.enter_context(contextlib.closing(search))
        if not supervisor.wait(2 * _TIMEOUT_S):
            raise TimeoutError("the replicas are not ready")
        processes = [
            psutil.Process(replica.ask("process", timeout_s=30))
            for shard in supervisor.replicas()
            for replica in shard
        ]
        yield search, processes


def cost(search: Search, requests: list[str], processes: list[psutil.Process]) -> list[str]:
    """Return the median and 95th percentile in wall ms, and the mean CPU ms of all processes."""

    def cpu() -> float:
        times = [process.cpu_times() for process in processes]
        return time.process_time() + float(sum(each.user + each.system for each in times))

    def search_best(query: str) -> SearchResults:
        return search(SearchRequest(query, HITS))

    latencies(search_best, requests[:20])
    before = cpu()
    wall, _ = latencies(search_best, requests)
    return [*quantiles(wall, 0.5, 0.95, digits=2), f"{(cpu() - before) * 1000 / len(requests):.2f}"]


def main() -> None:
    options = arguments(
        __doc__, runs=1, pages=10_000, queries=200, shards=8, hosts=(27, "hosts per site")
    ).parse_args()
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="lycosa-bench-"))
        one, many, samples, pages = prepare(
            folder, SITES, options.pages, options.shards, options.hosts
        )
        first, second = halves(folder, one, SITES, options.hosts)
        requests = queries(samples, options.queries)
        complete = Searcher(one).search
        sharded, replica_processes = stack.enter_context(replicas(many))
        address, server = stack.enter_context(serving(second))
        here = LocalBackend("first", Searcher(first))
        there = LocalBackend("second", Searcher(second))
        peer = PeerBackend(address, FetchSettings())
        local = FederatedSearch([here, there], timeout_s=_TIMEOUT_S)
        remote = FederatedSearch([here], [peer], timeout_s=_TIMEOUT_S)
        for federation in (local, remote):
            stack.enter_context(contextlib.closing(federation))
        contenders: dict[str, tuple[Search, list[psutil.Process], bool]] = {
            "one index": (complete, [], False),
            f"{options.shards} shards, this process": (Searcher(many).search, [], False),
            f"{options.shards} shards, replicas": (sharded.search, replica_processes, False),
            "two workspaces": (local.search, [], True),
            "a workspace and a peer": (remote.search, [server], True),
        }
        rows: list[tuple[str, ...]] = []
        figures = {}
        for name, (search, processes, copies) in contenders.items():
            agreed = agreement(complete, search, requests, copies)
            figures[name] = agreed.mean
            rows += [
                (name, *cost(search, requests, processes), agreed.line())
                for _ in range(options.runs)
            ]
    columns = ("search", "query p50 ms", "p95 ms", "CPU ms", "agreement with one index")
    body = f"{table(columns, rows)}\n\n{pages} pages, {options.hosts} hosts per site"
    report(options, "Search over shards, workspaces and peers", body, figures)


if __name__ == "__main__":
    main()
