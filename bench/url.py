"""Links per CPU-second: resolved, identified and admitted by us, against `urljoin` + w3lib's
`canonicalize_url` alone.

    python -m bench.url [--pages 600] [--rounds 5] [--json FILE] FOLDER…

The folders hold HTML pages; without any, the sites under `~/.cache/lycosa-sites` are taken. The
hrefs of `a` and `area` are collected before anything is timed, and keep their order and their
duplicates. Both sides run in alternating rounds in this one process, and ours starts each round
with empty caches. The rival does less: no keys, no registrable domain, no scope. The ratio is the
median of the rounds' ratios.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import quote, urljoin

from selectolax.lexbor import LexborHTMLParser
from w3lib.url import canonicalize_url

from bench.harness import load_average, machine, median_ratio, table
from lycosa.config.settings import Collection
from lycosa.core.errors import Refusal
from lycosa.url import normalise
from lycosa.url.domain import Domains, bundled_suffix_list
from lycosa.url.keys import Identifier
from lycosa.url.normalise import LinkResolver
from lycosa.url.rules import Rules
from lycosa.url.scope import Admission

SITES = Path.home() / ".cache" / "lycosa-sites"
Pages = list[tuple[str, list[str]]]


def collect(folders: Sequence[Path], limit: int) -> Pages:
    """(URL, hrefs) of up to `limit` pages, spread evenly over the folders' files."""
    files = sorted(path for folder in folders for path in folder.rglob("*.htm*") if path.is_file())
    step = max(1, len(files) // limit)
    pages = []
    for path in files[::step][:limit]:
        url = f"http://site.example{quote(str(path))}"
        nodes = LexborHTMLParser(path.read_bytes()).css("a[href], area[href]")
        pages.append((url, [node.attributes["href"] or "" for node in nodes]))
    return pages


def ours(pages: Pages, domains: Domains) -> int:
    """Everything the room does with a link: how many were admitted."""
    normalise._resolved = normalise._ResolvedLinks()
    collection = Collection(name="bench", scope="host")
    rules = Rules(collection)
    admission = Admission(collection, [pages[0][0]], domains)
    identifier = Identifier(domains, 64)
    admitted = 0
    for url, hrefs in pages:
        resolve = LinkResolver(url).resolve
        for href in hrefs:
            target = resolve(href)
            if isinstance(target, Refusal):
                continue
            target = rules.apply(target)
            if admission.refuse(target) is None:
                identifier.identify(target)
                admitted += 1
    return admitted


def resolved(pages: Pages, _: Domains) -> int:
    """The resolving alone."""
    normalise._resolved = normalise._ResolvedLinks()
    done = 0
    for url, hrefs in pages:
        resolve = LinkResolver(url).resolve
        for href in hrefs:
            done += not isinstance(resolve(href), Refusal)
    return done


def theirs(pages: Pages, _: Domains) -> int:
    """What Scrapy does to a link before its duplicate filter, without the fingerprint."""
    done = 0
    for url, hrefs in pages:
        for href in hrefs:
            try:
                canonicalize_url(urljoin(url, href))
            except ValueError:
                continue
            done += 1
    return done


def cpu_seconds(run: Callable[[Pages, Domains], int], pages: Pages, domains: Domains) -> float:
    start = time.process_time()
    run(pages, domains)
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="*", type=Path)
    parser.add_argument("--pages", type=int, default=600)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    pages = collect(arguments.folder or [SITES], arguments.pages)
    links = sum(len(hrefs) for _, hrefs in pages)
    if not links:
        parser.error(f"no links in {arguments.folder or SITES}: name a folder of HTML pages")
    domains = Domains(bundled_suffix_list())
    domains.registrable("site.example")  # reads the list: once in a process, not once a link
    runs = {"ours": ours, "resolve alone": resolved, "urljoin + canonicalize_url": theirs}
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(arguments.rounds):
        for name, run in runs.items():
            seconds[name].append(cpu_seconds(run, pages, domains))
    rates = {name: [links / reading for reading in readings] for name, readings in seconds.items()}
    result = {
        "pages": len(pages),
        "links": links,
        "links_per_cpu_second": {
            name: round(statistics.median(values)) for name, values in rates.items()
        },
        "microseconds_per_link": {
            name: round(1e6 / statistics.median(values), 2) for name, values in rates.items()
        },
        "ratio": round(median_ratio(rates["ours"], rates["urljoin + canonicalize_url"]), 1),
    }
    print(f"{machine()}; load {load_average():.1f}; {len(pages)} pages, {links} links")
    rows = [
        (name, f"{statistics.median(values):,.0f}", f"{1e6 / statistics.median(values):.2f}")
        for name, values in rates.items()
    ]
    print(table(("contender", "links per CPU-second", "µs a link"), rows))
    print(f"ratio {result['ratio']}")
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
