"""The check of CI: fails if a ratio is more than 15 % below its floor.

    python -m bench.floors [--where-possible]         the same: `make floors`, `pytest -m floors`

Two of the six sites, one with small and one with large pages: rounds of Lycosa's complete pipeline,
its fetching and links alone, and Scrapy. A target is finished with the first round after which its
ratios are at most 5 % below their floors, or after three rounds. A ratio that is too low then gets
three more rounds, which alone count. So a short disturbance costs time but does not fail the check.

The floors are in section [quick] of `floors.toml`: medians that this check measured. They only rise.
Exit code 1: a ratio is too low. 2: nothing was measured, because the sites or a contender are
missing, or a crawl failed. With `--where-possible`, missing sites and contenders are no failure.
"""

from __future__ import annotations

import argparse
import compileall
import sys
from collections.abc import Callable, Mapping, Sequence

from tests.servers.sites import SitesMissing, create_sites

from bench.crawl import (
    HERE,
    SLACK,
    Run,
    crawl_target,
    fallen,
    markdown,
    ratios,
    those_present,
    unequal_pages,
)
from bench.harness import CommandTimeout, load_average, read_floors
from bench.peers.build import PeerAbsent

TARGETS = ("tuxpaint-doc", "python-doc")
CONTENDERS = ("lycosa", "links", "scrapy")
ROUNDS = 3
NEAR = 0.05  # a ratio this near to its floor needs no further round


def quick_floors() -> dict[str, float]:
    """Return the floors by ratio, such as `lycosa/scrapy on python-doc`."""
    return read_floors("quick")


def measure_round(targets: Sequence[str]) -> list[Run]:
    """Run one round on each of these targets.

    Raises:
        PeerAbsent: a contender is missing, so its ratios cannot be checked.
        RuntimeError, SitesMissing, CommandTimeout: as `bench.crawl.crawl_target`.
    """
    if len(those_present(CONTENDERS, tls=False)) < len(CONTENDERS):
        raise PeerAbsent("the check needs all of " + ", ".join(CONTENDERS))
    sites = {site.name: site for site in create_sites()}
    return [
        run for target in targets for run in crawl_target(target, (sites[target],), CONTENDERS, 1)
    ]


def below(runs: Sequence[Run], floors: Mapping[str, float], slack: float) -> dict[str, list[str]]:
    """Return by target messages for low ratios and different pages."""
    complaints = {}
    for target in TARGETS:
        of_target = [run for run in runs if run.target == target]
        names = {name: floor for name, floor in floors.items() if name.endswith(f" on {target}")}
        complaints[target] = [*unequal_pages(of_target), *fallen(ratios(of_target), names, slack)]
    return {target: messages for target, messages in complaints.items() if messages}


def check(
    measure: Callable[[Sequence[str]], list[Run]], floors: Mapping[str, float]
) -> tuple[list[Run], list[str]]:
    """Return all runs, and messages for ratios that are too low.

    Args:
        measure: runs a round on some targets.
    """
    all_runs: list[Run] = []
    targets: Sequence[str] = TARGETS
    complaints: dict[str, list[str]] = {}
    for _ in range(2):  # the second time only targets with low ratios
        runs: list[Run] = []
        unfinished = targets
        for _ in range(ROUNDS):
            runs += measure(unfinished) if unfinished else []
            unfinished = [target for target in targets if target in below(runs, floors, NEAR)]
        all_runs += runs
        low = below(runs, floors, SLACK)
        complaints = {target: low[target] for target in targets if target in low}
        targets = list(complaints)
    return all_runs, [message for messages in complaints.values() for message in messages]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.floors")
    parser.add_argument(
        "--where-possible",
        action="store_true",
        help="exit with 0 where the sites or Scrapy are missing",
    )
    options = parser.parse_args(arguments)
    # else the first crawl of a fresh clone compiles the modules
    compileall.compile_dir(HERE.parent / "src", quiet=2)
    try:
        runs, complaints = check(measure_round, quick_floors())
    except (PeerAbsent, SitesMissing, CommandTimeout, RuntimeError) as error:
        print(f"nothing was compared: {error}", file=sys.stderr)
        return 0 if options.where_possible and isinstance(error, PeerAbsent | SitesMissing) else 2
    print(f"{markdown(runs)}\n\nload {load_average():.1f}")
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
