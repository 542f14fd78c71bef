"""`lycosa hunt`: focused crawl. Prints results as they are fetched, and a ranking at the end."""

from __future__ import annotations

import sys
from shlex import quote
from typing import Annotated, Any

import typer

from lycosa.cli.crawling.progress import stop_on_signals
from lycosa.cli.options import (
    DEFAULT_WORKSPACE,
    DelayOption,
    IntoOption,
    InWorkspace,
    JsonOption,
    QuietOption,
    values_of,
)
from lycosa.cli.output import counts, json_text, note, print_json
from lycosa.core.dataclass import dataclass
from lycosa.core.units import format_duration, format_size, number_of, parse_duration_ms
from lycosa.processes.terminal import raw, styled

_MAX_FAILURES = 5
_ENDS = {
    "enough": "Found enough relevant pages",
    "max_time": "Time limit reached",
    "max_pages": "Stopped at --pages",
    "finished": "No links left to follow",
    "stopped": "Stopped on request. Results are kept",
}


@dataclass(frozen=True)
class HuntFlags:
    """The options of a hunt, named as the parameters of `Workspace.hunt`."""

    seeds: Annotated[
        list[str] | None,
        typer.Option("--seed", metavar="URL", help="Page to start from; repeatable."),
    ] = None
    time: Annotated[
        str,
        typer.Option(
            "--time", metavar="TIME", help="Stop after this time, for example 2m; 0: no limit."
        ),
    ] = "30s"
    pages: Annotated[
        int | None, typer.Option("--pages", metavar="N", min=1, help="Stop after this many pages.")
    ] = None
    enough: Annotated[
        int | None,
        typer.Option("--enough", metavar="N", min=1, help="Stop after this many relevant pages."),
    ] = None
    strategy: Annotated[
        str,
        typer.Option(
            "--strategy",
            metavar="best|fish|shark",
            help="How to select links; `best` learns during the hunt.",
        ),
    ] = "best"
    from_index: Annotated[
        bool | None,
        typer.Option(
            "--index/--no-index",
            help="Start from matching pages of the index (default: if there is no --seed).",
        ),
    ] = None
    agents: Annotated[
        int,
        typer.Option(
            "--agents", metavar="N", min=1, max=200, help="Number of concurrent requests."
        ),
    ] = 15
    width: Annotated[
        int,
        typer.Option(
            "--width",
            metavar="N",
            min=1,
            help="fish, shark: mean number of links followed per page.",
        ),
    ] = 10
    depth: Annotated[
        int,
        typer.Option(
            "--depth",
            metavar="N",
            min=0,
            help="fish, shark: maximum number of steps without a relevant page.",
        ),
    ] = 3
    scope: Annotated[
        str,
        typer.Option("--scope", metavar="host|domain|prefix|any", help="Which links to follow."),
    ] = "any"
    delay: DelayOption = ""
    collection: IntoOption = "default"


def command(
    where: InWorkspace,
    parameters: HuntFlags,
    question: Annotated[
        list[str],
        typer.Argument(
            metavar="QUESTION", help="Question or words, in the query language of `search`."
        ),
    ],
    count: Annotated[
        int,
        typer.Option(
            "-n",
            "--count",
            metavar="N",
            min=0,
            max=100,
            help="Number of results in the final list.",
        ),
    ] = 10,
    json_output: JsonOption = False,
    json_lines: Annotated[
        bool,
        typer.Option("--jsonl", help="Print each event immediately, one JSON object per line."),
    ] = False,
    quiet: QuietOption = False,
) -> None:
    """Focused crawl: follow the most relevant links and stream results.

    Every fetched page is archived and indexed.
    """
    from lycosa.commands.crawling.hunt import hunt_request, run_hunt

    values = {**values_of(parameters), "seeds": tuple(parameters.seeds or ())}
    time_ms = parse_duration_ms(values.pop("time")) or None
    request = hunt_request(question=" ".join(question), time_ms=time_ms, **values)
    printer = _Printer(json_output, json_lines, quiet, count)
    config = where.open().config(parameters.collection)
    run_hunt(where.root, config, request, printer.add, stop_on_signals)
    printer.close(where.root)
    if not printer.relevant:
        raise typer.Exit(1)


class _Printer:
    """Prints events as text, as one JSON document at the end, or as one line of JSON each."""

    def __init__(self, as_document: bool, as_lines: bool, quiet: bool, count: int) -> None:
        self.relevant = 0
        self._document = as_document
        self._lines = as_lines
        self._quiet = quiet
        self._count = count
        self._events: list[dict[str, Any]] = []
        self._last: dict[str, Any] = {}
        self._has_line = sys.stderr.isatty() and not (as_document or as_lines or quiet)

    def add(self, event: dict[str, Any]) -> None:
        """Print an event, or collect it for the JSON document."""
        kind = event["event"]
        if kind == "delegated":
            note("a daemon is running in this workspace: it pauses its crawl and runs the hunt")
            return
        self.relevant += kind == "found"
        if kind == "ended":
            self._last = event
        if self._lines:
            print(json_text(event), flush=True)
        elif self._document:
            self._events.append(event)
        elif not self._quiet:
            self._show(kind, event)

    def close(self, root: str) -> None:
        """Print the JSON document or the final summary."""
        if self._document:
            started = next((event for event in self._events if event["event"] == "started"), {})
            results = [event for event in self._events if event["event"] == "found"]
            document = {"workspace": root, **started, **self._last, "found": results}
            document.pop("event", None)
            print_json(document)
        elif not self._lines and not self._quiet and self._last:
            self._sum_up(root)

    def _show(self, kind: str, event: dict[str, Any]) -> None:
        if kind == "started":
            note(_start_text(event))
        elif kind == "found":
            self._clear()
            _print_result(self.relevant, event)
        elif kind == "progress" and self._has_line:
            line = (
                f"{number_of(event['pages'], 'page')}, {self.relevant:,} relevant, "
                f"{format_size(event['bytes'])}, {event['seconds']:.0f} s"
            )
            print(f"\r\x1b[K{line}", end="", file=raw(sys.stderr), flush=True)

    def _clear(self) -> None:
        if self._has_line:
            print("\r\x1b[K", end="", file=raw(sys.stderr), flush=True)

    def _sum_up(self, root: str) -> None:
        self._clear()
        last = self._last
        results = last["results"][: self._count]
        if len(results) > 1:
            print("Final ranking:")
            for number, each in enumerate(results, 1):
                print(f"{number:>3}. {each['score']:.2f}  {each['title']}\n          {each['url']}")
            print()
        print(
            f"{_ENDS.get(last['ended'], last['ended'])}: {last['relevant']:,} relevant of "
            f"{number_of(last['pages'], 'page')} in {format_duration(last['seconds'] * 1000)}; "
            f"{number_of(last['listed'], 'link')} not followed"
        )
        for url, why in list(last.get("failures", {}).items())[:_MAX_FAILURES]:
            print(f"  failed: {url}: {why}")
        if last["failed"]:
            print(f"  no page: {counts(last['failed'])}")
        where = "" if root == DEFAULT_WORKSPACE else f" -w {quote(root)}"
        if last["pages"]:
            print(f"All pages are archived and indexed: lycosa{where} search WORDS")


def _start_text(event: dict[str, Any]) -> str:
    parts = {
        number_of(event["named"], "seed page"): event["named"],
        f"{number_of(event['hits'], 'matching page')} of the index": event["hits"],
        f"{number_of(event['well_linked'], 'well-linked page')} (no page of the index matches)": (
            event["well_linked"]
        ),
    }
    shown = " and ".join(part for part, number in parts.items() if number) or "nothing"
    return f"starting from {shown}: {number_of(event['listed'], 'link')}"


def _print_result(number: int, event: dict[str, Any]) -> None:
    snippet = "".join(
        styled("match", each["text"]) if each["match"] else each["text"]
        for each in event["fragments"]
    )
    title = styled("bold", event["title"] or event["url"])
    print(f"{number:>3}. {event['score']:.2f}  {title}")
    print(
        f"          {styled('link', event['url'])}  {event['language'] or '?'}  "
        f"page {event['number']}, {event['seconds']:.1f} s"
    )
    print(f"          {snippet}", flush=True)
