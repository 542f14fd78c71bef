"""Print a site's report as text, or write it as CSV files."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import fields
from itertools import groupby
from pathlib import Path

from lycosa.core.units import format_duration, format_size, number_of
from lycosa.site.checks import (
    BrokenLink,
    DuplicateContent,
    Folder,
    MissingReturnLink,
    MixedContent,
    RedirectChain,
)
from lycosa.site.report import DocumentProblem, OrphanPage, PageLine, SiteReport, Thresholds
from lycosa.store.storage.files import write_errors

_SHOWN, _FOLDERS, _HOLDERS = 5, 12, 3
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # OWASP, CSV injection
_BAR = 24  # characters of the longest bar


def site_text(report: SiteReport, thresholds: Thresholds, *, every: bool = False) -> str:
    """Return the report as lines; without `every`, the beginning and length of each list."""
    return "\n".join(_lines(report, thresholds, 10**9 if every else _SHOWN, every=every))


def _summary(report: SiteReport, *, every: bool) -> Iterator[str]:
    yield (
        f"{report.site}: {number_of(report.pages, 'page')}, {format_size(report.bytes)}, "
        f"{number_of(report.urls, 'known URL')}"
    )
    if report.first_fetch is not None and report.last_fetch is not None:
        yield (
            f"fetched {report.first_fetch:%Y-%m-%d %H:%M} to {report.last_fetch:%Y-%m-%d %H:%M} UTC"
        )
    if report.waiting:
        yield (
            f"{number_of(report.waiting, 'URL')} not fetched yet: incoming links of pages may "
            "be undercounted"
        )
    if report.languages:
        shown = list(report.languages.items())
        rest = f" and {len(shown) - 8} more" if len(shown) > 8 and not every else ""
        yield (
            "languages: "
            + ", ".join(
                f"{name or 'unknown'} {count:,}" for name, count in shown[: None if every else 8]
            )
            + rest
        )
    yield ""


def _lines(report: SiteReport, thresholds: Thresholds, most: int, *, every: bool) -> Iterator[str]:
    yield from _summary(report, every=every)
    yield from _depths(report)
    yield from _tree(report.tree, _FOLDERS if not every else most)
    yield from _broken(report, most)
    yield from _list(
        "orphan pages (in the sitemap, not linked)",
        [f"{each.url}  in {each.listed_in}" for each in report.orphans],
        most,
    )
    chains = [f"{' > '.join(each.urls)}  {each.end}" for each in report.chains]
    yield from _list("redirect chains", chains, most)
    same = [
        f"{number_of(len(each.urls), 'page')} {each.title!r}: "
        f"{' '.join(each.urls[: None if every else 4])}"
        for each in report.duplicates
    ]
    yield from _list("duplicate content", same, most)
    yield from _list("pages without a title", [page.url for page in report.untitled], most)
    slow = [f"{format_duration(page.duration_ms or 0)}  {page.url}" for page in report.slow]
    yield from _list(f"slow pages ({format_duration(thresholds.slow_ms)} or more)", slow, most)
    large = [f"{format_size(page.size)}  {page.url}" for page in report.large]
    yield from _list(f"large pages ({format_size(thresholds.large_bytes)} or more)", large, most)
    pairs = [
        f"{each.source}  {each.language} {each.target}  {each.reason}" for each in report.hreflang
    ]
    yield from _list("hreflang without return link", pairs, most)
    mixed = [f"{each.source}  {each.kind} {each.target}" for each in report.mixed]
    yield from _list("mixed content (http resources in https pages)", mixed, most)
    faults = [
        (name, [each.url for each in group])
        for name, group in groupby(report.faults, lambda each: each.fault)
    ]
    yield from _list(
        "document errors",
        [f"{name}: {len(urls):,}, for example {urls[0]}" for name, urls in faults],
        most,
    )
    for title, lines in report.sections.items():
        yield from _list(title, list(lines), most)


def _depths(report: SiteReport) -> Iterator[str]:
    if not report.by_depth:
        return
    home = ", ".join(report.home[:2]) or "no home page"
    yield f"depth (links from {home})"
    largest = max(report.by_depth.values())
    for depth, pages in sorted(report.by_depth.items(), key=lambda item: (item[0] < 0, item[0])):
        bar = "#" * max(1, round(pages * _BAR / largest))
        yield f"  {'unreachable' if depth < 0 else depth!s:>11}  {pages:>7,}  {bar}"
    yield ""


def _tree(folders: Sequence[Folder], most: int) -> Iterator[str]:
    """Yield the largest folders and their parents, in the order of the tree."""
    chosen = {
        folder.path
        for folder in sorted(
            folders, key=lambda folder: (-folder.pages, folder.level, folder.path)
        )[:most]
    }
    shown = [folder for folder in folders if folder.path in chosen]
    yield f"folders: {len(folders):,}" + (
        f", the {len(shown)} largest" if len(shown) < len(folders) else ""
    )
    width = max((2 * folder.level + len(folder.path) for folder in shown), default=0)
    for folder in shown:
        name = "  " * folder.level + folder.path
        broken = f"  {folder.broken:,} broken" if folder.broken else ""
        yield (
            f"  {name.ljust(min(width, 60))}  {folder.pages:>7,}  "
            f"{format_size(folder.bytes):>8}{broken}"
        )
    yield ""


def _broken(report: SiteReport, most: int) -> Iterator[str]:
    if not report.broken:
        yield "broken links: none"
        return
    targets = [
        (target, list(links)) for target, links in groupby(report.broken, lambda link: link.target)
    ]
    targets.sort(key=lambda item: -len(item[1]))
    yield f"broken links: {len(report.broken):,} to {number_of(len(targets), 'target')}"
    for target, links in targets[:most]:
        end = f", redirects to {links[0].end}" if links[0].end else ""
        yield f"  {target}  {links[0].answer}{end}"
        for link in links[: max(_HOLDERS, most if most > _SHOWN else 0)]:
            yield f"    in {link.source}  {link.kind} {link.anchor!r}"
        if most <= _SHOWN and len(links) > _HOLDERS:
            yield f"    and {len(links) - _HOLDERS:,} more"
    if len(targets) > most:
        yield f"  and {len(targets) - most:,} more"


def _list(name: str, lines: Sequence[str], most: int) -> Iterator[str]:
    if not lines:
        yield f"{name}: none"
        return
    yield f"{name}: {len(lines):,}"
    for line in lines[:most]:
        yield f"  {line}"
    if len(lines) > most:
        yield f"  and {len(lines) - most:,} more"


def write_csv(report: SiteReport, folder: str) -> list[Path]:
    """Write `pages.csv`, `tree.csv`, `broken.csv` and so on, also for empty lists.

    The first line contains the column names. Lists of URLs are joined by spaces. Texts that begin
    like a formula get an apostrophe.

    Raises:
        WorkError: the folder cannot be written.
    """
    lists: dict[str, tuple[type, Sequence[object]]] = {
        "pages": (PageLine, report.page_list),
        "tree": (Folder, report.tree),
        "broken": (BrokenLink, report.broken),
        "orphans": (OrphanPage, report.orphans),
        "chains": (RedirectChain, report.chains),
        "duplicates": (DuplicateContent, report.duplicates),
        "untitled": (PageLine, report.untitled),
        "slow": (PageLine, report.slow),
        "large": (PageLine, report.large),
        "hreflang": (MissingReturnLink, report.hreflang),
        "mixed": (MixedContent, report.mixed),
        "faults": (DocumentProblem, report.faults),
    }
    paths = [Path(folder) / f"{name}.csv" for name in lists]
    with write_errors(folder):
        Path(folder).mkdir(parents=True, exist_ok=True)
        for path, (kind, rows) in zip(paths, lists.values(), strict=True):
            columns = [field.name for field in fields(kind)]
            with path.open("w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(columns)
                writer.writerows([_cell(getattr(row, name)) for name in columns] for row in rows)
    return paths


def _cell(value: object) -> object:
    """Return a value; a text that a spreadsheet would compute begins with an apostrophe."""
    if isinstance(value, tuple):
        value = " ".join(map(str, value))
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
