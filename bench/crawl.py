"""Complete crawls compared with Scrapy, wget, Colly and spider in alternating runs.

    python -m bench.crawl --help

Pages are counted the same way for all: responses of status 200 and type text/html in nginx's access
log during the run. `--check` compares with the floors in section [crawl] of `bench/floors.toml`.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import shutil
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.servers.certificates import Certificate, make_certificate
from tests.servers.nginx import Nginx, Request
from tests.servers.sites import NAMES, Site, SitesMissing, create_sites, serve_sites

from bench.harness import (
    MEGABYTE,
    CommandTimeout,
    load_average,
    measure,
    median_ratio,
    read_floors,
    report,
    table,
)
from bench.harness import arguments as harness_arguments
from bench.peers.build import PeerAbsent
from bench.peers.commands import ACCEPTED_EXITS, COMMANDS, ENVIRONMENT, OURS, nginx_program

HERE = Path(__file__).parent
SLACK = 0.15  # tolerated share below a floor of CI: load and other processors
MAX_PAGE_DIFFERENCE = 0.02
"""Tolerated difference between the page counts of two contenders, as a share."""


@dataclass(frozen=True)
class Run:
    """One crawl of a target by a contender."""

    contender: str
    target: str
    round: int
    pages: int  # distinct URLs with status 200 and type text/html
    requests: int  # all lines of the access log
    cpu_s: float
    wall_s: float
    peak_rss_mb: float
    tree_rss_mb: float
    load: float
    robots: int = 0  # requests for /robots.txt
    kept_mb: float = 0.0  # files in its folder after the crawl

    @property
    def pages_per_cpu_second(self) -> float:
        return self.pages / self.cpu_s


def html_pages(requests: Sequence[Request]) -> set[str]:
    """Return the distinct URLs of responses with status 200 and type text/html."""
    return {
        request.url
        for request in requests
        if request.status == 200
        and request.method == "GET"
        and request.content_type.startswith("text/html")
    }


def size_mb(folder: Path) -> float:
    """Return the size of the files in a folder; files may be deleted meanwhile."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                total += os.lstat(os.path.join(place, name)).st_size
    return total / MEGABYTE


def run_once(contender: str, target: str, number: int, seeds: Sequence[str], server: Nginx) -> Run:
    """Crawl once, in a temporary folder.

    Raises:
        RuntimeError: the program failed or fetched no page; the message has the end of its output.
    """
    with tempfile.TemporaryDirectory(
        prefix=f"lycosa-bench-{contender}-", ignore_cleanup_errors=True
    ) as name:
        folder = Path(name)
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
    """Return names of targets with their sites; the choice is `all`, `each` or one site."""
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
    """Crawl a target by every contender once per round."""
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
    """Return medians by target and contender, and the range of the throughput."""
    groups: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in runs:
        groups[run.target, run.contender].append(run)

    def median(group: Sequence[Run], name: str, digits: int | None = None) -> object:
        return round(statistics.median(getattr(run, name) for run in group), digits)

    rows: list[dict[str, object]] = []
    for (target, contender), group in groups.items():
        speeds = [run.pages_per_cpu_second for run in group]
        rows.append(
            {
                "target": target,
                "contender": contender,
                "runs": len(group),
                "pages": median(group, "pages"),
                "requests": median(group, "requests"),
                "pages_per_cpu_second": median(group, "pages_per_cpu_second", 1),
                "slowest": round(min(speeds), 1),
                "fastest": round(max(speeds), 1),
                "cpu_ms_per_page": round(1000 / statistics.median(speeds), 2),
                "wall_s": median(group, "wall_s", 1),
                "peak_rss_mb": round(max(run.peak_rss_mb for run in group)),
                "tree_rss_mb": round(max(run.tree_rss_mb for run in group)),
                "robots": median(group, "robots"),
                "kept_mb": median(group, "kept_mb", 1),
            }
        )
    return rows


def ratios(runs: Sequence[Run]) -> dict[str, float]:
    """Return median ratios of pages per CPU-second by name, such as `lycosa/scrapy on all`."""
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
    """Return messages for targets of which two contenders crawled different pages."""
    complaints = []
    for target in dict.fromkeys(run.target for run in runs):
        counts = {run.contender: run.pages for run in runs if run.target == target}
        if max(counts.values()) - min(counts.values()) > MAX_PAGE_DIFFERENCE * max(counts.values()):
            complaints.append(f"{target}: the contenders crawled different pages: {counts}")
    return complaints


def below_floors(runs: Sequence[Run], floors: dict[str, float]) -> list[str]:
    """Return messages for ratios below their floors or not measured, and for excess memory."""
    names = {
        "lycosa/scrapy on all": "scrapy_all",
        "lycosa/scrapy on python-doc": "scrapy_python_doc",
        "links/scrapy on all": "links_all",
    }
    complaints = fallen(ratios(runs), {ratio: floors[name] for ratio, name in names.items()}, 0)
    memory = max((run.tree_rss_mb for run in runs if run.contender == "lycosa"), default=0.0)
    if memory > floors["memory_mb"]:
        complaints.append(
            f"lycosa: {memory:.0f} MB at the peak, the limit is {floors['memory_mb']} MB"
        )
    return complaints


def fallen(
    measured: Mapping[str, float], floors: Mapping[str, float], slack: float = SLACK
) -> list[str]:
    """Return messages for ratios further below their floor than `slack`, or not measured."""
    complaints = []
    for name, floor in floors.items():
        if name not in measured:
            complaints.append(f"{name}: not measured (floor {floor})")
        elif measured[name] < floor * (1 - slack):
            complaints.append(
                f"{name}: {measured[name]} is more than {slack:.0%} below its floor {floor}"
            )
    return complaints


def those_present(contenders: Sequence[str], tls: bool) -> list[str]:
    """Return the contenders that can run here; print why others cannot. Builds peers.

    Raises:
        PeerAbsent: Lycosa or all contenders are missing.
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


LARGE_PAGES, LARGE_PAGES_ADDRESS = "large-pages", "127.0.1.17"
LARGE_BYTES = 240_000  # before compression: the mean of HTML pages on the web (HTTP Archive)
_BODY = re.compile(rb"<body[^>]*>(.*)</body>", re.DOTALL)


def large_pages_site(site: Site, folder: Path) -> Site:
    """Create a site with large pages from another one in a new folder.

    Each page gets the bodies of the following pages in its folder until it is large enough. So
    markup and links are real, all links lead to existing pages, and the URLs are the same. Other
    files are symbolic links.
    """
    shutil.copytree(site.root, folder, copy_function=os.symlink)
    for place in sorted({path.parent for path in site.root.rglob("*.html")}):
        pages = sorted(place.glob("*.html"))
        bodies = [_body(page.read_bytes()) for page in pages]
        for number, page in enumerate(pages):
            target = folder / page.relative_to(site.root)
            target.unlink()
            others = bodies[number + 1 :] + bodies[:number]
            target.write_bytes(_enlarged(page.read_bytes(), others))
    return Site(LARGE_PAGES, folder, LARGE_PAGES_ADDRESS)


def _body(page: bytes) -> bytes:
    match = _BODY.search(page)
    return match[1] if match else b""


def _enlarged(page: bytes, others: list[bytes]) -> bytes:
    """Append other bodies to a page until it is large enough; they may repeat."""
    end = page.rfind(b"</body>")
    if end < 0 or not any(others):
        return page
    bodies, added = itertools.cycle(others), b""
    while len(page) + len(added) < LARGE_BYTES:
        added += next(bodies)
    return page[:end] + added + page[end:]


@contextmanager
def all_sites(selection: Sequence[str]) -> Iterator[dict[str, Site]]:
    """Yield the six sites by name, and the generated one with large pages if it is selected."""
    sites = {site.name: site for site in create_sites()}
    with tempfile.TemporaryDirectory(prefix="lycosa-bench-") as folder:
        if LARGE_PAGES in selection:
            sites[LARGE_PAGES] = large_pages_site(sites["python-doc"], Path(folder) / LARGE_PAGES)
        yield sites


@contextmanager
def temporary_certificate(sites: Iterable[Site]) -> Iterator[Certificate]:
    """Yield a certificate for the addresses of the sites."""
    with tempfile.TemporaryDirectory(prefix="lycosa-bench-tls-") as folder:
        names = ",".join(f"IP:{site.address}" for site in sites)
        yield make_certificate(Path(folder), "sites", names)


def markdown(runs: Sequence[Run]) -> str:
    """Return the report as Markdown: medians, then ratios."""
    rows = summary_rows(runs)
    parts = [table(list(rows[0]), [list(row.values()) for row in rows])]
    ratio_rows = ratios(runs)
    if ratio_rows:
        parts.append(
            table(("ratio of pages per CPU-second", "median of pairs"), ratio_rows.items())
        )
    return "\n\n".join(parts)


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = harness_arguments(
        __doc__,
        rivals=("links,scrapy,wget", f"comma-separated, of {', '.join(COMMANDS)}"),
        tls=(False, "over TLS: HTTP/2 for contenders that support it"),
        without_lycosa=(False, "only the rivals"),
        check=(False, "exit 1 when a floor of bench/floors.toml is missed"),
    )
    parser.add_argument(
        "--target",
        action="append",
        choices=("all", "each", *NAMES, LARGE_PAGES),
        help=f"sites to crawl; may be repeated (default all and python-doc). {LARGE_PAGES}: "
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
    parsed = parser.parse_args(arguments)
    ours = [] if parsed.without_lycosa else ["lycosa"]
    parsed.contenders = list(dict.fromkeys([*ours, *filter(None, parsed.rivals.split(","))]))
    unknown = [name for name in parsed.contenders if name not in COMMANDS]
    missing = [str(folder) for folder in parsed.folder if not folder.is_dir()]
    if missing:
        parser.error(f"not a folder: {', '.join(missing)}")
    if parsed.folder and parsed.tls:
        parser.error("--folder is served over plain HTTP: remove --tls")
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
            temporary_certificate(sites.values()) if options.tls else nullcontext() as certificate,
        ):
            for number, folder in enumerate(options.folder):
                site = Site(str(folder), folder.resolve(), f"127.0.1.{100 + number}")
                runs += crawl_target(site.name, (site,), contenders, options.runs)
            for choice in options.target or ([] if options.folder else ["all", "python-doc"]):
                for target, names in targets(choice):
                    name = f"{target} over TLS" if options.tls else target
                    group = tuple(sites[site] for site in names)
                    runs += crawl_target(name, group, contenders, options.runs, certificate)
    except (PeerAbsent, SitesMissing, CommandTimeout, RuntimeError) as error:
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
        complaints += below_floors(runs, read_floors("crawl"))
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
