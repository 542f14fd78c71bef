"""The check of CI: whether a ratio fell more than 15 % below its floor. `make floors`, `python -m
bench.floors`, or `pytest -m floors`.

Two of the six sites, one with small pages and one with large ones: rounds of Lycosa's whole
pipeline, its fetch + links alone, and Scrapy, in turn. A target is done with the first round after
which its ratios are at most 5 % below their floors, or after three; one that is too low then has
three more, which alone count. So where nothing is wrong it takes half a minute, a busy moment costs
time and not the verdict, and what fails was seen to fall twice.

The floors are in section [quick] of `floors.toml`; they are medians that this very check measured,
and only rise. It exits with 1 when something fell, with 2 when it could not measure: the sites or a
contender are missing, or a crawl failed. With `--where-possible` what is missing is said and no
failure, as tests skip that need the sites.
"""

from __future__ import annotations

import argparse
import compileall
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence

from tests.servers.sites import SitesAbsent, lay_sites

from bench.crawl import HERE, Run, crawl_target, markdown, ratios, those_present, unequal_pages
from bench.harness import CommandTimeout, load_average
from bench.peers.build import PeerAbsent

TARGETS = ("tuxpaint-doc", "python-doc")
CONTENDERS = ("lycosa", "links", "scrapy")
ROUNDS = 3
SLACK = 0.15
"""Share of a floor by which a ratio may fall: what a busy neighbour or another processor was seen
to take.
"""

NEAR = 0.05
"""So near to its floor a ratio needs no further round."""


def quick_floors() -> dict[str, float]:
    """`lycosa/scrapy on python-doc` -> its floor."""
    floors: dict[str, float] = tomllib.loads((HERE / "floors.toml").read_text())["quick"]
    return floors


def measure_round(targets: Sequence[str]) -> list[Run]:
    """One round on each of these targets.

    Raises:
        PeerAbsent: a contender cannot be had here: a check that leaves one out would not look at
        its ratios. RuntimeError, SitesAbsent, CommandTimeout: as `bench.crawl.crawl_target`.
    """
    if len(those_present(CONTENDERS, tls=False)) < len(CONTENDERS):
        raise PeerAbsent("the check needs all of " + ", ".join(CONTENDERS))
    sites = {site.name: site for site in lay_sites()}
    return [
        run for target in targets for run in crawl_target(target, (sites[target],), CONTENDERS, 1)
    ]


def fallen(
    measured: Mapping[str, float], floors: Mapping[str, float], slack: float = SLACK
) -> list[str]:
    """What fell too far below its floor, or was not measured at all."""
    complaints = []
    for name, floor in floors.items():
        if name not in measured:
            complaints.append(f"{name}: not measured (floor {floor})")
        elif measured[name] < floor * (1 - slack):
            complaints.append(
                f"{name}: {measured[name]} is more than {slack:.0%} below its floor {floor}"
            )
    return complaints


def below(runs: Sequence[Run], floors: Mapping[str, float], slack: float) -> dict[str, list[str]]:
    """By target, what is wrong with its runs: ratios that fell further than `slack`, pages that the
    contenders did not share.
    """
    complaints_by_target = {}
    for target in TARGETS:
        own = [run for run in runs if run.target == target]
        of_target = {
            name: floor for name, floor in floors.items() if name.endswith(f" on {target}")
        }
        complaints = [*unequal_pages(own), *fallen(ratios(own), of_target, slack)]
        if complaints:
            complaints_by_target[target] = complaints
    return complaints_by_target


def check(
    measured: Callable[[Sequence[str]], list[Run]], floors: Mapping[str, float]
) -> tuple[list[Run], list[str]]:
    """All runs that were made, and what fell. `measured` makes a round on some targets."""
    every: list[Run] = []
    left: Sequence[str] = TARGETS
    complaints: dict[str, list[str]] = {}
    for _ in range(2):  # the second time only what fell in the first
        runs: list[Run] = []
        open_targets = left
        for _ in range(ROUNDS):
            runs += measured(open_targets)
            open_targets = [target for target in left if target in below(runs, floors, NEAR)]
            if not open_targets:
                break
        every += runs
        complaints = {
            target: messages
            for target, messages in below(runs, floors, SLACK).items()
            if target in left
        }
        left = list(complaints)
        if not left:
            break
    return every, [complaint for messages in complaints.values() for complaint in messages]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.floors")
    parser.add_argument(
        "--where-possible",
        action="store_true",
        help="exit with 0 where the sites or Scrapy are missing",
    )
    options = parser.parse_args(arguments)
    # or the first crawl of a fresh clone would do it
    compileall.compile_dir(HERE.parent / "src", quiet=2)
    try:
        runs, complaints = check(measure_round, quick_floors())
    except (PeerAbsent, SitesAbsent, CommandTimeout, RuntimeError) as error:
        print(f"nothing was compared: {error}", file=sys.stderr)
        return 0 if options.where_possible and isinstance(error, PeerAbsent | SitesAbsent) else 2
    print(f"{markdown(runs)}\n\nload {load_average():.1f}")
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
