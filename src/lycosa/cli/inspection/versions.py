"""`lycosa versions`: archived versions of a page, the text of one, the changes between two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lycosa.cli.options import InWorkspace
from lycosa.cli.output import Output, note
from lycosa.core.dataclass import dataclass
from lycosa.core.errors import UsageError
from lycosa.core.units import number_of

if TYPE_CHECKING:
    from lycosa.commands.feature_models import VersionComparison
    from lycosa.commands.page_models import VersionInfo, VersionList


@dataclass(frozen=True)
class VersionChoice:
    """Which versions to show, and how."""

    count: Annotated[
        int, typer.Option("-n", "--count", metavar="N", min=1, help="Number of versions to list.")
    ] = 20
    every: Annotated[bool, typer.Option("--all", help="List all versions.")] = False
    changed: Annotated[
        bool, typer.Option("--changed", help="List only versions with a changed text.")
    ] = False
    diff: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--diff",
            metavar="A B",
            help="Compare two versions: numbers in the list, or times such as 2026-11-21T10:15.",
        ),
    ] = None
    text: Annotated[
        bool, typer.Option("--text", help="Print the text of the newest version, or of --at.")
    ] = False
    at: Annotated[
        str,
        typer.Option(
            "--at",
            metavar="TIME",
            help="With --text: newest version up to this time (UTC), or a number.",
        ),
    ] = ""


def command(
    where: InWorkspace,
    choice: VersionChoice,
    url: Annotated[str, typer.Argument(metavar="URL", help="URL of the page.")],
) -> Output:
    """List archived versions of a page, or compare two of them."""
    if choice.at and not choice.text:
        raise UsageError("--at requires --text")
    workspace = where.open()
    if choice.diff is not None:
        comparison = workspace.archive.compare(url, *choice.diff)
        return Output(comparison, lambda: _print_comparison(comparison))
    if choice.text:
        version = workspace.archive.text(url, choice.at)
        text = f"{version.title}\n\n{version.text}" if version.title else version.text
        fetched_at = _minute(version.version.fetched_at)
        return Output(version, text, f"{version.url} as of {fetched_at} UTC")
    count = None if choice.every else choice.count
    versions = workspace.archive.versions(url, count=count, changed=choice.changed)
    return Output(versions, lambda: _print_list(versions))


def _print_list(versions: VersionList) -> None:
    for each in versions.versions:
        size = f"{each.size:,}"
        print(
            f"{each.number:>5}  {_minute(each.fetched_at)}  {each.status}  {size:>11}  "
            f"{each.content_type or '-':<24}  {_remark(each)}"
        )
    shown = len(versions.versions)
    more = f", {shown:,} shown; --all lists all" if shown < versions.total else ""
    note(f"{number_of(versions.total, 'archived version')}, newest first; times are UTC{more}")


def _remark(version: VersionInfo) -> str:
    if version.original is not None:
        return f"same as {_minute(version.original)}"
    if version.redirect_to:
        return f"redirects to {version.redirect_to}"
    parts = [
        version.digest,
        "new text" if version.changed else "",
        f"cut: {version.truncated}" if version.truncated else "",
    ]
    return "  ".join(part for part in parts if part)


def _print_comparison(comparison: VersionComparison) -> None:
    difference = comparison.difference
    print(f"--- {_minute(comparison.before.fetched_at)}")
    print(f"+++ {_minute(comparison.after.fetched_at)}")
    if comparison.titles[0] != comparison.titles[1]:
        print(f"-title: {comparison.titles[0]}")
        print(f"+title: {comparison.titles[1]}")
    for line in difference.lines():
        print(line)
    if difference.cut:
        note("the output is truncated")
    removed = number_of(difference.gone, "block")
    note(
        f"{comparison.of}: {removed} removed, {difference.came:,} added"
        if comparison.of
        else "no difference"
    )


def _minute(time: str) -> str:
    return time[:19].replace("T", " ")
