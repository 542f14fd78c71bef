"""What it costs to share a crawl out: CPU a page of one process and of several workers, on the same nginx and pages.

    python -m bench.cluster [--runs 3] [--workers 4] [--target all] [--markdown]

The contenders take turns: one process as `lycosa crawl` has always been, and the same with `--engine local --workers N`. CPU is that
of the command and of all processes below it, which it waits for: driver, coordinator, workers, indexer. No delay, so that CPU is the bound.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from tests.servers.nginx import Nginx
from tests.servers.sites import NAMES, lay_sites, serve_sites

from bench.measure import append_results, load_average, machine, measure, median_ratio, table
from bench.rivals.commands import ENVIRONMENT, lycosa, nginx_program

BAR = 1.25


@dataclass(slots=True, frozen=True)
class Run:
    """One crawl."""

    contender: str
    pages: int
    cpu_s: float
    wall_s: float
    tree_rss_mb: float

    @property
    def cpu_ms_a_page(self) -> float:
        return 1_000 * self.cpu_s / self.pages


def run_once(contender: str, options: Sequence[str], seeds: Sequence[str], server: Nginx) -> Run:
    """Crawl once, in a folder that is removed afterwards.

    Raises:
        RuntimeError: it failed, or fetched nothing.
    """
    folder = Path(tempfile.mkdtemp(prefix="lycosa-bench-cluster-"))
    try:
        output, mark = folder / "output", server.mark()
        usage = measure([*lycosa(seeds, folder), *options], output=output, cwd=folder, environment=ENVIRONMENT)
        answered = {line.url for line in server.requests(mark) if line.status == 200 and line.content_type.startswith("text/html")}
        if usage.exit_code or not answered:
            raise RuntimeError(f"{contender} ended with {usage.exit_code}: {output.read_text(errors='replace')[-3_000:]}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Run(contender, len(answered), usage.cpu_s, usage.wall_s, usage.tree_rss_mb)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--target", default="all", choices=("all", *NAMES))
    parser.add_argument("--json", type=Path, help="write every run here")
    parser.add_argument("--markdown", action="store_true", help="append the report to RESULTS.md")
    parser.add_argument("--check", action="store_true", help=f"exit 1 if a page costs more than {BAR} times the single process")
    options = parser.parse_args(arguments)
    alone, shared = "1 process", f"{options.workers} workers"
    contenders = {alone: (), shared: ("--engine", "local", "--workers", str(options.workers))}
    runs: defaultdict[str, list[Run]] = defaultdict(list)
    sites = tuple(site for site in lay_sites() if options.target in ("all", site.name))
    print(f"{machine()}; load {load_average():.1f}", file=sys.stderr)
    with serve_sites(sites, program=nginx_program()) as served:
        for _ in range(options.runs):
            for name, more in contenders.items():
                runs[name].append(run_once(name, more, served.seeds(), served.server))
                print(runs[name][-1], file=sys.stderr, flush=True)
    ratio = median_ratio(*([run.cpu_ms_a_page for run in runs[name]] for name in (shared, alone)))
    report = table(
        ("contender", "runs", "pages", "CPU ms a page", "wall s", "memory of all processes, MB"),
        [(name, len(each), *(f"{median(column):.2f}" for column in zip(*map(_figures, each), strict=True))) for name, each in runs.items()],
    )
    report += f"\n\nCPU a page, {shared} / {alone}, median of pairs: {ratio:.3f} (bar {BAR})"
    print(report)
    if options.json:
        options.json.write_text(json.dumps({name: [asdict(run) for run in each] for name, each in runs.items()}, indent=1))
    if options.markdown:
        command = shlex.join(["python", "-m", "bench.cluster", *arguments])
        append_results(Path(__file__).parent / "RESULTS.md", "Cost of distribution", command, report)
    return 1 if options.check and ratio > BAR else 0


def _figures(run: Run) -> tuple[float, ...]:
    return run.pages, run.cpu_ms_a_page, run.wall_s, run.tree_rss_mb


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
