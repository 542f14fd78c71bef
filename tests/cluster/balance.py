"""How evenly a crawl's pages were shared, and how evenly they could have been, since a site's pages
cannot be shared out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from lycosa.cluster.placement import deal
from lycosa.store.log.entry import COMMIT
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace


@dataclass(slots=True, frozen=True)
class Balance:
    """`apart`: by how much of the mean the worker that is furthest from it differs; `best` the same
    for the best sharing that we know.
    """

    pages: tuple[int, ...]  # a worker, most first
    apart: float
    best: float
    largest_site: float  # its share of the mean

    def __str__(self) -> str:
        return (
            f"pages a worker {self.pages}: {self.apart:.1%} from the mean at most; best possible "
            f"{self.best:.1%}; "
            f"the largest site has {self.largest_site:.0%} of the mean"
        )


def balance(root: Path, workers: int) -> Balance:
    """Of a crawl that is over, with workers that lived throughout."""
    workspace = Workspace.open(str(root))
    by_worker: Counter[str] = Counter()
    for entry in workspace.log.entries():
        if entry.kind == COMMIT:
            by_worker[entry.worker] += sum(file.rows for file in entry.files.get("pages", ()))
    assert len(by_worker) <= workers, by_worker
    pages = [*by_worker.values(), *[0] * (workers - len(by_worker))]
    frame = LiveTables(workspace).scan("pages").select("partition", "host_key").collect()
    sites = frame["host_key"].value_counts()["count"].to_list()
    partitions = {
        int(partition): float(count)
        for partition, count in frame["partition"].value_counts().iter_rows()
    }
    dealt = deal(partitions, partitions, {str(number): 0.0 for number in range(workers)})
    shares = [sum(partitions[partition] for partition in held) for held in dealt.values()]
    return Balance(
        tuple(sorted(pages, reverse=True)),
        _apart(pages),
        _apart(shares),
        max(sites) * workers / frame.height,
    )


def _apart(pages: Iterable[float]) -> float:
    numbers = list(pages)
    mean = sum(numbers) / len(numbers)
    return max(abs(number - mean) for number in numbers) / mean
