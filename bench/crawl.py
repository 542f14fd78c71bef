"""Complete crawls compared with Scrapy, wget, Colly and spider in alternating runs.

    python -m bench.crawl --help

Pages are counted the same way for all: answers of status 200 and type text/html in nginx's access
log during the run. Floors are in `bench/floors.toml`, section [crawl]; `--check` compares with
them.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.servers.certificates import Certificate, make_certificate
from tests.servers.nginx import Nginx, Request
from tests.servers.sites import NAMES, Site, SitesAbsent, lay_sites, serve_sites

from bench import large_pages
from bench.harness import (
    MEGABYTE,
    CommandTimeout,
    load_average,
    measure,
    median_ratio,
    report,
    table,
)
from bench.harness import arguments as harness_arguments
from bench.peers.build import PeerAbsent
from bench.peers.commands import ACCEPTED_EXITS, COMMANDS, ENVIRONMENT, OURS, nginx_program

HERE = Path(__file__).parent
PAGES_MAY_DIFFER = 0.02
"""Share by which two contenders' counts of pages may differ and still be called the same pages."""


@dataclass(frozen=True)
class Run:
    """One contender crawling one target once."""

    contender: str
    target: str
    round: int
    pages: int  # distinct URLs answered 200 as text/html
    requests: int  # all lines of the access log
    cpu_s: float
    wall_s: float
    peak_rss_mb: float
    tree_rss_mb: float
    load: float
    robots: int = 0  # requests for /robots.txt
    kept_mb: float = 0.0  # files left in its folder

    @property
    def pages_per_cpu_second(self) -> float:
        return self.pages / self.cpu_s


def html_pages(requests: Sequence[Request]) -> set[str]:
    """Return the distinct URLs that were answered 200 as text/html."""
    return {
        request.url
        for request in requests
        if request.status == 200
        and request.method == "GET"
        and request.content_type.startswith("text/html")
    }


def size_mb(folder: Path) -> float:
    """Return the size of the files under a folder; they may vanish meanwhile."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                total += os.lstat(os.path.join(place, name)).st_size
    return total / MEGABYTE


def run_once(contender: str, target: str, number: int, seeds: Sequence[str], server: Nginx) -> Run:
    """Crawl once, in an empty folder of its own that is removed afterwards.

    Raises:
        RuntimeError: the program failed or fetched nothing; the message holds the end of its
        output.
    """
    folder = Path(tempfile.mkdtemp(prefix=f"lycosa-bench-{contender}-"))
    try:
        output = folder / "output"
        mark = server.mark()
        usage = measure(
            COMMANDS[contender](seeds, folder), output=output, cwd=folder, environment=ENVIRONMENT
        )
        server.settle()
        log_lines = server.requests(mark)
        pages = html_pages(log_lines)
        kept_mb = size_mb(folder)
        if usage.exit_code not in ACCEPTED_EXITS.get(contender, (0,)) or not pages:
            ending = output.read_text(errors="replace")[-3000:]
            raise RuntimeError(
                f"{contender} on {target} ended with {usage.exit_code} after "
                f"{len(pages)} pages:\n{ending}"
            )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Run(
        contender,
        target,
        number,
        len(pages),
        len(log_lines),
        usage.cpu_s,
        usage.wall_s,
        usage.peak_rss_mb,
        usage.tree_rss_mb,
        load_average(),
        sum(line.uri == "/robots.txt" for line in log_lines),
        kept_mb,
    )


def targets(choice: str) -> list[tuple[str, tuple[str, ...]]]:
    """`all` and `each` -> names of targets with the sites in them; a site's name is a target of
    one.
    """
    if choice == "all":
        return [("all", NAMES)]
    if choice == "each":
        return [(name, (name,)) for name in NAMES]
    return [(choice, (choice,))]


def crawl_target(
    target: str,
    sites: tuple[Site, ...],
    contenders: Sequence[str],
    rounds: int,
    certificate: Certificate | None = None,
) -> list[Run]:
    """Alternate: every contender once in each round."""
    runs = []
    with serve_sites(sites, program=nginx_program(), certificate=certificate) as served:
        for number in range(rounds):
            for contender in contenders:
                run = run_once(contender, target, number, served.seeds(), served.server)
                runs.append(run)
                print(
                    f"{target} round {number} {contender}: {run.pages} pages, "
                    f"{run.pages_per_cpu_second:.1f} pages/CPU-s, "
                    f"{run.wall_s:.1f} s, {run.peak_rss_mb:.0f} MB",
                    file=sys.stderr,
                )
    return runs


def summary_rows(runs: Sequence[Run]) -> list[dict[str, object]]:
    """Medians of every target and contender, and how much the throughput varied."""
    groups: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in runs:
        groups[run.target, run.contender].append(run)
    rows: list[dict[str, object]] = []
    for (target, contender), group in groups.items():
        speeds = [run.pages_per_cpu_second for run in group]
        rows.append(
            {
                "target": target,
                "contender": contender,
                "runs": len(group),
                "pages": round(statistics.median(run.pages for run in group)),
                "requests": round(statistics.median(run.requests for run in group)),
                "pages_per_cpu_second": round(statistics.median(speeds), 1),
                "slowest": round(min(speeds), 1),
                "fastest": round(max(speeds), 1),
                "cpu_ms_per_page": round(1000 / statistics.median(speeds), 2),
                "wall_s": round(statistics.median(run.wall_s for run in group), 1),
                "peak_rss_mb": round(max(run.peak_rss_mb for run in group)),
                "tree_rss_mb": round(max(run.tree_rss_mb for run in group)),
                "robots": round(statistics.median(run.robots for run in group)),
                "kept_mb": round(statistics.median(run.kept_mb for run in group), 1),
            }
        )
    return rows


def ratios(runs: Sequence[Run]) -> dict[str, float]:
    """`lycosa/scrapy on all` -> median over the rounds of the ratio of pages per CPU-second."""
    speeds: dict[tuple[str, str], list[float]] = defaultdict(list)
    for run in runs:
        speeds[run.target, run.contender].append(run.pages_per_cpu_second)
    return {
        f"{ours}/{rival} on {target}": round(
            median_ratio(speeds[target, ours], speeds[target, rival]), 2
        )
        for target in dict.fromkeys(run.target for run in runs)
        for ours in OURS
        for rival in COMMANDS
        if rival not in OURS
        if (target, ours) in speeds and (target, rival) in speeds
    }


def unequal_pages(runs: Sequence[Run]) -> list[str]:
    """Complaints where two contenders did not crawl the same pages."""
    complaints = []
    for target in dict.fromkeys(run.target for run in runs):
        counts = {run.contender: run.pages for run in runs if run.target == target}
        if max(counts.values()) - min(counts.values()) > PAGES_MAY_DIFFER * max(counts.values()):
            complaints.append(f"{target}: the contenders crawled different pages: {counts}")
    return complaints


def below_floors(runs: Sequence[Run], floors: dict[str, float]) -> list[str]:
    """What misses its floor. A floor whose runs were not made is a complaint too: a check that did
    not look must not pass.
    """
    measured = ratios(runs)
    complaints = []
    for floor, ratio in (
        ("scrapy_all", "lycosa/scrapy on all"),
        ("scrapy_python_doc", "lycosa/scrapy on python-doc"),
        ("links_all", "links/scrapy on all"),
    ):
        if ratio not in measured:
            complaints.append(f"{ratio}: not measured (floor {floors[floor]})")
        elif measured[ratio] < floors[floor]:
            complaints.append(f"{ratio}: {measured[ratio]} is below its floor {floors[floor]}")
    memory = max((run.tree_rss_mb for run in runs if run.contender == "lycosa"), default=0.0)
    if memory > floors["memory_mb"]:
        complaints.append(
            f"lycosa: {memory:.0f} MB at the peak, the limit is {floors['memory_mb']} MB"
        )
    return complaints


def those_present(contenders: Sequence[str], tls: bool) -> list[str]:
    """The contenders without the rivals that cannot be had here; says on standard error why not.
    Builds what must be built.

    Raises:
        PeerAbsent: we ourselves, or everybody else, are missing.
    """
    present = []
    for name in contenders:
        try:
            COMMANDS[name](["https://127.0.0.1/" if tls else "http://127.0.0.1/"], HERE)
        except PeerAbsent as absent:
            if name in OURS:
                raise
            print(f"{name} is left out: {absent}", file=sys.stderr)
        else:
            present.append(name)
    if not present:
        raise PeerAbsent("nothing is left to run")
    return present


@contextmanager
def all_sites(selection: Sequence[str]) -> Iterator[dict[str, Site]]:
    """The six sites by name, and the one with large pages if it is wanted, which is made for the
    run.
    """
    sites = {site.name: site for site in lay_sites()}
    with tempfile.TemporaryDirectory(prefix="lycosa-bench-") as folder:
        if large_pages.NAME in selection:
            sites[large_pages.NAME] = large_pages.lay(
                sites["python-doc"], Path(folder) / large_pages.NAME
            )
        yield sites


@contextmanager
def certificate_for(sites: Sequence[Site], tls: bool) -> Iterator[Certificate | None]:
    """A certificate for the sites' addresses, made for the run; None without TLS."""
    if not tls:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="lycosa-bench-tls-") as folder:
        yield make_certificate(
            Path(folder), "sites", ",".join(f"IP:{site.address}" for site in sites)
        )


def markdown(runs: Sequence[Run]) -> str:
    """The report as Markdown: medians, then ratios."""
    rows = summary_rows(runs)
    parts = [table(list(rows[0]), [list(row.values()) for row in rows])]
    ratio_rows = ratios(runs)
    if ratio_rows:
        parts.append(
            table(("ratio of pages per CPU-second", "median of pairs"), list(ratio_rows.items()))
        )
    return "\n\n".join(parts)


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = harness_arguments(__doc__)
    parser.add_argument(
        "--target",
        action="append",
        choices=("all", "each", *NAMES, large_pages.NAME),
        help=f"sites to crawl; may be repeated (default all and python-doc). {large_pages.NAME}: "
        "python-doc with pages of 240 KB",
    )
    parser.add_argument(
        "--folder",
        action="append",
        type=Path,
        default=[],
        metavar="DIR",
        help="a folder with HTML files to serve and crawl as one site, instead of the bundled "
        "targets; may be repeated",
    )
    parser.add_argument(
        "--rivals",
        default="links,scrapy,wget",
        help=f"comma-separated, of {', '.join(COMMANDS)} (default links,scrapy,wget)",
    )
    parser.add_argument(
        "--tls", action="store_true", help="over TLS: HTTP/2 for those who speak it"
    )
    parser.add_argument("--without-lycosa", action="store_true", help="only the rivals")
    parser.add_argument(
        "--check", action="store_true", help="exit 1 when a floor of bench/floors.toml is missed"
    )
    parsed = parser.parse_args(arguments)
    ours = [] if parsed.without_lycosa else ["lycosa"]
    parsed.contenders = list(dict.fromkeys([*ours, *filter(None, parsed.rivals.split(","))]))
    unknown = [name for name in parsed.contenders if name not in COMMANDS]
    missing = [str(folder) for folder in parsed.folder if not folder.is_dir()]
    if missing:
        parser.error(f"not a folder: {', '.join(missing)}")
    if parsed.folder and parsed.tls:
        parser.error("--folder is served over plain HTTP: leave out --tls")
    if unknown or not parsed.contenders or parsed.runs < 1:
        parser.error(f"unknown rivals: {', '.join(unknown)}" if unknown else "nothing to run")
    return parsed


def main(arguments: Sequence[str]) -> int:
    options = parse_arguments(arguments)
    runs: list[Run] = []
    try:
        contenders = those_present(options.contenders, options.tls)
        with (
            all_sites(options.target or ()) as sites,
            certificate_for(list(sites.values()), options.tls) as certificate,
        ):
            for number, folder in enumerate(options.folder):
                site = Site(str(folder), folder.resolve(), f"127.0.1.{100 + number}")
                runs += crawl_target(site.name, (site,), contenders, options.runs)
            for choice in options.target or ([] if options.folder else ["all", "python-doc"]):
                for target, names in targets(choice):
                    name = f"{target} over TLS" if options.tls else target
                    runs += crawl_target(
                        name,
                        tuple(sites[site] for site in names),
                        contenders,
                        options.runs,
                        certificate,
                    )
    except (PeerAbsent, SitesAbsent, CommandTimeout, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 1
    figures = {
        "runs": [asdict(run) for run in runs],
        "medians": summary_rows(runs),
        "ratios": ratios(runs),
    }
    report(options, "Crawl", markdown(runs), figures)
    complaints = unequal_pages(runs)
    if options.check:
        complaints += below_floors(runs, tomllib.loads((HERE / "floors.toml").read_text())["crawl"])
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
