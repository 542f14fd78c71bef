"""Every worker gets its share of the pages, in a model of a polite crawl with the real coordinator:
many seeds, few seconds.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lycosa.store.workspace import DEFAULT_PARTITIONS, Workspace
from tests.cluster.sharing import Crawl, apart, sites

BAR = 0.15
SITES = 164


def crawled(
    folder: Path,
    seed: int,
    pages: int,
    *,
    exponent: float = 1.0,
    number: int = SITES,
    all_known: bool = False,
) -> tuple[float, Crawl]:
    """How far from the mean the worst worker is."""
    web = sites(seed, number, pages, DEFAULT_PARTITIONS, exponent)
    crawl = Crawl(
        Workspace.create(str(folder / f"w{seed}"), DEFAULT_PARTITIONS), web, all_known=all_known
    )
    pages_by_worker = crawl.run()
    assert sum(pages_by_worker) == sum(site.size for site in web)
    print(
        f"seed {seed}: {pages_by_worker}, {apart(pages_by_worker):.1%}, {crawl.hand_overs} hand-overs, "
        f"{crawl.second} s; the largest site {web[0].size}"
    )
    return apart(pages_by_worker), crawl


@pytest.mark.parametrize("all_known", [False, True])
def test_pages_a_worker_come_out_even(tmp_path: Path, all_known: bool) -> None:
    worst, crawl = crawled(tmp_path, 1, 4_000, all_known=all_known)
    assert worst <= BAR
    assert crawl.hand_overs <= 40


@pytest.mark.prove
@pytest.mark.parametrize(
    ("exponent", "number", "pages"), [(1.0, SITES, 4_000), (1.2, SITES, 4_000), (0.7, 400, 20_000)]
)
def test_pages_a_worker_come_out_even_whatever_the_web(
    tmp_path: Path, exponent: float, number: int, pages: int
) -> None:
    """Seeds that nothing was chosen by."""
    every = [
        crawled(tmp_path, seed, pages, exponent=exponent, number=number) for seed in range(301, 321)
    ]
    assert max(worst for worst, _ in every) <= BAR
    assert max(crawl.hand_overs for _, crawl in every) <= 60
