"""How evenly the pages of a crawl were distributed, compared with the best known distribution.

All pages of a site are fetched by one worker, so a perfect balance may be impossible.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lycosa.cluster.placement import distribute
from lycosa.store.log.entry import COMMIT
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace


@dataclass(slots=True, frozen=True)
class Balance:
    """Pages per worker and the largest deviation from their mean, as a share of the mean."""

    pages: tuple[int, ...]  # per worker, descending
    deviation: float
    best_deviation: float  # of the best known distribution
    largest_site: float  # pages of the largest site, as a share of the mean

    def __str__(self) -> str:
        return (
            f"pages per worker {self.pages}: at most {self.deviation:.1%} from the mean; best "
            f"known {self.best_deviation:.1%}; "
            f"the largest site has {self.largest_site:.0%} of the mean"
        )


def balance(root: Path, workers: int) -> Balance:
    """Return the balance of a finished crawl whose workers ran from start to end."""
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
    assignments = distribute(
        partitions, partitions, {str(number): 0.0 for number in range(workers)}
    )
    shares = [sum(partitions[partition] for partition in held) for held in assignments.values()]
    return Balance(
        tuple(sorted(pages, reverse=True)),
        max_deviation(pages),
        max_deviation(shares),
        max(sites) * workers / frame.height,
    )


def max_deviation(pages: Sequence[float]) -> float:
    """Return the largest deviation from the mean, as a share of the mean."""
    mean = sum(pages) / len(pages)
    return max(abs(number - mean) for number in pages) / mean
