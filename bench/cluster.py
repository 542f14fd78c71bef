"""What it costs to share a crawl out: CPU a page of one process and of several workers, on the same
nginx and pages.

    python -m bench.cluster [--runs 3] [--workers 4] [--target all] [--markdown] python -m
    bench.cluster --workers 1,2,4 --partitions 16,64,256 --target tuxpaint-doc --copies 8 --runs 1

The contenders take turns: one process as `lycosa crawl` has always been, and the same with
`--engine local --workers N`. CPU is that of the command and of all processes below it, which it
waits for: driver, coordinator, workers, indexer. No delay, so that CPU is the bound. `--copies`:
every site on so many addresses, so that there are hosts to share out. Balance is the pages of the
busiest worker over the mean.

What N workers give is N times the CPU a page of one process over theirs: so many times its pages,
were there a core for each.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from statistics import median

from tests.servers.nginx import Nginx
from tests.servers.sites import NAMES, Site, lay_sites, serve_sites

from bench.measure import append_results, load_average, machine, measure, median_ratio, table
from bench.rivals.commands import ENVIRONMENT, lycosa, nginx_program
from lycosa.store.log.entry import COMMIT
from lycosa.store.workspace import DEFAULT_PARTITIONS, Workspace

BAR = 1.25


@dataclass(slots=True, frozen=True)
class Contender:
    """So many workers on so many partitions; one worker is a process without a coordinator."""

    workers: int
    partitions: int = DEFAULT_PARTITIONS

    def __str__(self) -> str:
        return f"{self.workers} worker{'s' * (self.workers > 1)}, {self.partitions} partitions"

    @property
    def options(self) -> tuple[str, ...]:
        return ("--engine", "local", "--workers", str(self.workers)) if self.workers > 1 else ()


@dataclass(slots=True, frozen=True)
class Run:
    """One crawl."""

    contender: str
    pages: int
    cpu_s: float
    wall_s: float
    tree_rss_mb: float
    balance: float  # the busiest worker's pages over the mean

    @property
    def cpu_ms_a_page(self) -> float:
        return 1_000 * self.cpu_s / self.pages


def run_once(contender: Contender, seeds: Sequence[str], server: Nginx) -> Run:
    """Crawl once, in a folder that is removed afterwards.

    Raises:
        RuntimeError: it failed, or fetched nothing.
    """
    folder = Path(tempfile.mkdtemp(prefix="lycosa-bench-cluster-"))
    try:
        output, mark, workspace = folder / "output", server.mark(), str(folder / "workspace")
        command = lycosa(seeds, folder)
        made = [command[0], "-w", workspace, "init", "--partitions", str(contender.partitions)]
        subprocess.run(made, check=True, stdout=subprocess.DEVNULL)
        usage = measure(
            [*command, *contender.options], output=output, cwd=folder, environment=ENVIRONMENT
        )
        answered = {
            line.url
            for line in server.requests(mark)
            if line.status == 200 and line.content_type.startswith("text/html")
        }
        if usage.exit_code or not answered:
            raise RuntimeError(
                f"{contender} ended with {usage.exit_code}: "
                f"{output.read_text(errors='replace')[-3_000:]}"
            )
        balance = _balance(Workspace.open(workspace), contender.workers)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Run(str(contender), len(answered), usage.cpu_s, usage.wall_s, usage.tree_rss_mb, balance)


def _balance(workspace: Workspace, workers: int) -> float:
    pages: Counter[str] = Counter()
    for entry in workspace.log.entries():
        if entry.kind == COMMIT:
            pages[entry.worker] += entry.counters.get("pages", 0)
    return max(pages.values(), default=0) * workers / max(1, pages.total())


def _copies(sites: Sequence[Site], copies: int) -> tuple[Site, ...]:
    """Each site on so many addresses."""
    made = []
    for site, number in product(sites, range(copies)):
        name = f"{site.name}-{number}" if number else site.name
        made.append(
            replace(
                site, name=name, address=f"127.0.{1 + number}.{site.address.rpartition('.')[2]}"
            )
        )
    return tuple(made)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument(
        "--workers",
        type=_numbers,
        default=[4],
        metavar="N,…",
        help="one process is always measured as well",
    )
    parser.add_argument("--partitions", type=_numbers, default=[DEFAULT_PARTITIONS], metavar="N,…")
    parser.add_argument("--target", default="all", choices=("all", *NAMES))
    parser.add_argument("--copies", type=int, default=1, help="addresses of each site")
    parser.add_argument("--json", type=Path, help="write every run here")
    parser.add_argument("--markdown", action="store_true", help="append the report to RESULTS.md")
    parser.add_argument(
        "--check",
        action="store_true",
        help=f"exit 1 if a page costs more than {BAR} times the single process",
    )
    options = parser.parse_args(arguments)
    contenders = [
        Contender(*pair)
        for pair in product(dict.fromkeys([1, *options.workers]), options.partitions)
    ]
    runs: defaultdict[Contender, list[Run]] = defaultdict(list)
    sites = _copies(
        [site for site in lay_sites() if options.target in ("all", site.name)], options.copies
    )
    print(f"{machine()}; load {load_average():.1f}", file=sys.stderr)
    with serve_sites(sites, program=nginx_program()) as served:
        for _ in range(options.runs):
            for contender in contenders:
                runs[contender].append(run_once(contender, served.seeds(), served.server))
                print(
                    runs[contender][-1], f"load {load_average():.1f}", file=sys.stderr, flush=True
                )
    costs = {contender: [run.cpu_ms_a_page for run in each] for contender, each in runs.items()}
    shared = [contender for contender in runs if contender.workers > 1]
    ratios = {
        contender: median_ratio(costs[contender], costs[Contender(1, contender.partitions)])
        for contender in shared
    }
    report = table(
        (
            "contender",
            "runs",
            "pages",
            "CPU ms a page",
            "pages a CPU second",
            "wall s",
            "memory, MB",
            "balance",
            "times one process",
        ),
        [
            (name, len(each), *_figures(each), f"{name.workers / ratios.get(name, 1.0):.2f}")
            for name, each in runs.items()
        ],
    )
    for contender, ratio in ratios.items():
        report += (
            f"\n\nCPU a page, {contender} / one process, median of pairs: {ratio:.3f} (bar {BAR})"
        )
    print(report)
    if options.json:
        options.json.write_text(
            json.dumps(
                {str(name): [asdict(run) for run in each] for name, each in runs.items()}, indent=1
            )
        )
    if options.markdown:
        command = shlex.join(["python", "-m", "bench.cluster", *arguments])
        append_results(
            Path(__file__).parent / "RESULTS.md", "Cost of distribution", command, report
        )
    return 1 if options.check and max(ratios.values(), default=0.0) > BAR else 0


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def _figures(runs: Sequence[Run]) -> tuple[str, ...]:
    cost = median(run.cpu_ms_a_page for run in runs)
    return (
        f"{median(run.pages for run in runs):.0f}",
        f"{cost:.2f}",
        f"{1_000 / cost:.0f}",
        f"{median(run.wall_s for run in runs):.1f}",
        f"{median(run.tree_rss_mb for run in runs):.0f}",
        f"{median(run.balance for run in runs):.2f}",
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
