"""`lycosa versions`: what is archived of a page, the text of a version, and what changed between
two.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from lycosa.cli.common import (
    JsonOption,
    SetOption,
    WorkspaceOption,
    load_config,
    note,
    print_json,
    workspace_root,
)
from lycosa.core.units import number_of

if TYPE_CHECKING:
    from lycosa.captures.captures import Capture
    from lycosa.captures.content import Compared, Versions


def command(
    context: typer.Context,
    url: Annotated[str, typer.Argument(metavar="URL", help="URL of the page.")],
    count: Annotated[
        int, typer.Option("-n", "--count", metavar="N", min=1, help="Number of versions to list.")
    ] = 20,
    every: Annotated[bool, typer.Option("--all", help="List all versions.")] = False,
    changed: Annotated[
        bool, typer.Option("--changed", help="List only versions with a changed text.")
    ] = False,
    diff: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--diff",
            metavar="A B",
            help="Compare two versions: numbers in the list, or times such as 2026-11-21T10:15.",
        ),
    ] = None,
    text: Annotated[
        bool, typer.Option("--text", help="Print the text of the newest version, or of --at.")
    ] = False,
    at: Annotated[
        str,
        typer.Option(
            "--at",
            metavar="TIME",
            help="With --text: newest version up to this time (UTC), or a number.",
        ),
    ] = "",
    workspace: WorkspaceOption = "",
    overrides: SetOption = None,
    json_output: JsonOption = False,
) -> None:
    """List archived versions of a page, or compare two of them."""
    from lycosa.captures.content import Versions

    root = workspace_root(context, workspace)
    with closing(Versions(root, load_config(context, root, overrides))) as versions:
        captures = versions.history.captures(url)
        if diff is not None:
            chosen = sorted((_named(captures, each) for each in diff), key=lambda each: each.at)
            compared = versions.compare(captures, chosen[0], chosen[1])
            _print_difference(compared, json_output=json_output)
        elif text:
            _print_text(versions, captures, _named(captures, at), json_output=json_output)
        else:
            _print_list(
                captures, None if every else count, changed=changed, json_output=json_output
            )


def _named(captures: list[Capture], name: str) -> Capture:
    """A version by its number in the list (1: the newest), or by a time. Raises UsageError."""
    from lycosa.captures.captures import capture_at, parse_at
    from lycosa.core.errors import UsageError

    if not name:
        return capture_at(captures, None)
    if name.isdecimal() and len(name) < 6:
        if not 1 <= int(name) <= len(captures):
            raise UsageError(
                f"there is no version {name}: there are {len(captures):,}; `lycosa "
                "versions URL --all` lists them"
            )
        return captures[int(name) - 1]
    return capture_at(captures, parse_at(name))


def _document(capture: Capture) -> dict[str, object]:
    from lycosa.captures.captures import iso, written_at

    return {
        "at": written_at(capture.at),
        "fetched_at": iso(capture.at),
        "status": capture.status,
        "content_type": capture.content_type,
        "size": capture.size,
        "digest": capture.digest,
        "changed": capture.changed,
        "original": None if capture.original is None else iso(capture.original),
        "redirect_to": capture.redirect_to,
        "truncated": capture.truncated,
        "error": capture.error,
        "collections": list(capture.collections),
        "record_id": capture.record_id,
        "warc_file": capture.warc_file,
        "warc_offset": capture.warc_offset,
        "warc_length": capture.warc_length,
    }


def _print_list(
    captures: list[Capture], count: int | None, *, changed: bool, json_output: bool
) -> None:
    numbered = [
        (number, each) for number, each in enumerate(captures, 1) if each.changed or not changed
    ]
    shown = numbered[:count]
    if json_output:
        versions = [{"number": number, **_document(each)} for number, each in shown]
        print_json({"url": captures[0].url, "total": len(captures), "versions": versions})
        return
    for number, each in shown:
        size = f"{each.size:,}"
        print(
            f"{number:>5}  {_minute(each.at)}  {each.status}  {size:>11}  "
            f"{each.content_type or '-':<24}  {_said(each)}"
        )
    rest = f", {len(numbered) - len(shown):,} more: --all" if len(shown) < len(numbered) else ""
    note(f"{number_of(len(captures), 'archived version')}, newest first; times are UTC{rest}")


def _said(capture: Capture) -> str:
    if capture.original is not None:
        return f"same as {_minute(capture.original)}"
    if capture.redirect_to:
        return f"redirects to {capture.redirect_to}"
    parts = [
        capture.digest,
        "new text" if capture.changed else "",
        f"cut: {capture.truncated}" if capture.truncated else "",
    ]
    return "  ".join(part for part in parts if part)


def _print_text(
    versions: Versions, captures: list[Capture], capture: Capture, *, json_output: bool
) -> None:
    texts = versions.texts(captures, capture)
    if json_output:
        print_json({"url": capture.url, "version": _document(capture), **asdict(texts)})
        return
    if texts.title:
        print(f"{texts.title}\n")
    for line in texts.text.split("\n"):
        print(line)
    note(f"{capture.url} as of {_minute(capture.at)} UTC")


def _print_difference(compared: Compared, *, json_output: bool) -> None:
    found = compared.difference
    if json_output:
        print_json(
            {
                "url": compared.before.url,
                "before": _document(compared.before),
                "after": _document(compared.after),
                "titles": list(compared.titles),
                "of": compared.of,
                "gone": found.gone,
                "came": found.came,
                "cut": found.cut,
                "stretches": [[asdict(piece) for piece in stretch] for stretch in found.stretches],
            }
        )
        return
    print(f"--- {_minute(compared.before.at)}")
    print(f"+++ {_minute(compared.after.at)}")
    if compared.titles[0] != compared.titles[1]:
        print(f"-title: {compared.titles[0]}")
        print(f"+title: {compared.titles[1]}")
    for line in found.lines():
        print(line)
    if found.cut:
        note("the output is truncated")
    note(
        f"{compared.of}: {number_of(found.gone, 'block')} removed, {found.came:,} added"
        if compared.of
        else "no difference"
    )


def _minute(at_ms: int) -> str:
    from lycosa.core.units import format_time

    return format_time(at_ms)[:19].replace("T", " ")
