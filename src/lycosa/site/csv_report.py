"""A site's report as CSV files, one for each of its lists."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path

from lycosa.core.errors import WorkError
from lycosa.site.broken_links import BrokenLink, MixedContent
from lycosa.site.duplicate_pages import Duplicates, Unanswered
from lycosa.site.redirect_chains import Chain
from lycosa.site.report import DocumentProblem, OrphanPage, PageLine, SiteReport
from lycosa.site.tree import Folder


def write_csv(report: SiteReport, folder: str) -> list[Path]:
    """Write `pages.csv`, `tree.csv`, `broken.csv` and so on, each with a head line, empty lists
    too; lists of URLs are joined by spaces.

    Raises:
        WorkError: the folder cannot be written.
    """
    lists: dict[str, tuple[type, Sequence[object]]] = {
        "pages": (PageLine, report.page_list),
        "tree": (Folder, report.tree),
        "broken": (BrokenLink, report.broken),
        "orphans": (OrphanPage, report.orphans),
        "chains": (Chain, report.chains),
        "duplicates": (Duplicates, report.duplicates),
        "untitled": (PageLine, report.untitled),
        "slow": (PageLine, report.slow),
        "large": (PageLine, report.large),
        "hreflang": (Unanswered, report.hreflang),
        "mixed": (MixedContent, report.mixed),
        "faults": (DocumentProblem, report.faults),
    }
    written = []
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        for name, (kind, rows) in lists.items():
            path = Path(folder) / f"{name}.csv"
            _write(path, [field.name for field in fields(kind)], rows)
            written.append(path)
    except OSError as error:
        raise WorkError(
            f"the report cannot be written to {folder}: {error.strerror or error}"
        ) from error
    return written


def _write(path: Path, columns: Sequence[str], rows: Iterable[object]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_cell(getattr(row, column)) for column in columns] for row in rows)


def _cell(value: object) -> object:
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return "" if value is None else value
