"""The two-minute check: whether a ratio fell more than 15 % below its floor. `python -m bench.floors`, or `pytest -m floors`.

Two of the six sites, one with small pages and one with large ones, three alternating rounds of Lycosa's whole pipeline, its fetch + links
alone, and Scrapy. The floors are in section [quick] of `floors.toml`; they are medians that this very check measured, and only rise.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping, Sequence

from tests.servers.sites import lay_sites

from bench.crawl import HERE, Run, crawl_target, markdown, ratios, those_present, unequal_pages
from bench.measure import load_average
from bench.rivals.build import RivalAbsent

TARGETS = ("tuxpaint-doc", "python-doc")
CONTENDERS = ("lycosa", "links", "scrapy")
ROUNDS = 3
SLACK = 0.15
"""Share of a floor by which a ratio may fall: what a busy neighbour or another processor was seen to take."""


def quick_floors() -> dict[str, float]:
    """`lycosa/scrapy on python-doc` -> its floor."""
    floors: dict[str, float] = tomllib.loads((HERE / "floors.toml").read_text())["quick"]
    return floors


def measure() -> list[Run]:
    """The runs of the check.

    Raises:
        RivalAbsent: a contender cannot be had here: a check that leaves one out would not look at its ratios.
        RuntimeError, SitesAbsent, CommandTimeout: as `bench.crawl.crawl_target`.
    """
    if len(those_present(CONTENDERS, tls=False)) < len(CONTENDERS):
        raise RivalAbsent("the check needs all of " + ", ".join(CONTENDERS))
    sites = {site.name: site for site in lay_sites()}
    return [run for target in TARGETS for run in crawl_target(target, (sites[target],), CONTENDERS, ROUNDS)]


def fallen(measured: Mapping[str, float], floors: Mapping[str, float]) -> list[str]:
    """What fell too far below its floor, or was not measured at all."""
    complaints = []
    for name, floor in floors.items():
        if name not in measured:
            complaints.append(f"{name}: not measured (floor {floor})")
        elif measured[name] < floor * (1 - SLACK):
            complaints.append(f"{name}: {measured[name]} is more than {SLACK:.0%} below its floor {floor}")
    return complaints


def complaints(runs: Sequence[Run]) -> list[str]:
    """What is wrong with the runs: ratios that fell, pages that the contenders did not share."""
    return [*unequal_pages(runs), *fallen(ratios(runs), quick_floors())]


def main() -> int:
    runs = measure()
    print(f"{markdown(runs)}\n\nload {load_average():.1f}")
    found = complaints(runs)
    for complaint in found:
        print(complaint, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
