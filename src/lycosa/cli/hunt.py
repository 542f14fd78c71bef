"""`lycosa hunt`: focused crawl. Prints results as they are found, and a ranking at the end."""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lycosa.cli.common import (
    JsonOption,
    QuietOption,
    SetOption,
    WorkspaceOption,
    counts,
    load_config,
    note,
    print_json,
    workspace_root,
)
from lycosa.cli.output import json_text
from lycosa.core.errors import UsageError
from lycosa.core.units import format_duration, format_size, number_of, parse_duration_ms
from lycosa.processes.terminal import raw, styled

if TYPE_CHECKING:
    from lycosa.config.settings import Config
    from lycosa.crawl.worker import Worker
    from lycosa.hunt.requests import HuntHandle
    from lycosa.hunt.session import HuntRequest

_FAILURES_SHOWN = 5
_ENDS = {
    "enough": "Found enough relevant pages",
    "max_time": "Time limit reached",
    "max_pages": "Stopped at --pages",
    "finished": "No links left to follow",
    "stopped": "Stopped on request. Results are kept",
}


def command(
    context: typer.Context,
    question: Annotated[
        list[str],
        typer.Argument(
            metavar="QUESTION", help="Question or words, in the query language of `search`."
        ),
    ],
    seeds: Annotated[
        list[str] | None,
        typer.Option("--seed", metavar="URL", help="Page to start from; repeatable."),
    ] = None,
    time: Annotated[
        str,
        typer.Option(
            "--time", metavar="TIME", help="Stop after this time, for example 2m; 0: no limit."
        ),
    ] = "30s",
    pages: Annotated[
        int | None, typer.Option("--pages", metavar="N", min=1, help="Stop after this many pages.")
    ] = None,
    enough: Annotated[
        int | None,
        typer.Option("--enough", metavar="N", min=1, help="Stop after this many relevant pages."),
    ] = None,
    strategy: Annotated[
        str,
        typer.Option(
            "--strategy",
            metavar="best|fish|shark",
            help="How to select links; `best` learns during the hunt.",
        ),
    ] = "best",
    with_index: Annotated[
        bool | None,
        typer.Option(
            "--index/--no-index",
            help="Start from matching pages of the index (default: if there is no --seed).",
        ),
    ] = None,
    agents: Annotated[
        int,
        typer.Option(
            "--agents", metavar="N", min=1, max=200, help="Number of concurrent requests."
        ),
    ] = 15,
    width: Annotated[
        int,
        typer.Option(
            "--width",
            metavar="N",
            min=1,
            help="fish, shark: mean number of links followed per page.",
        ),
    ] = 10,
    depth: Annotated[
        int,
        typer.Option(
            "--depth",
            metavar="N",
            min=0,
            help="fish, shark: maximum number of steps without a relevant page.",
        ),
    ] = 3,
    scope: Annotated[
        str,
        typer.Option("--scope", metavar="host|domain|prefix|any", help="Which links to follow."),
    ] = "any",
    delay: Annotated[
        str,
        typer.Option(
            "--delay", metavar="TIME", help="Minimum delay between two requests to a host."
        ),
    ] = "",
    collection: Annotated[
        str, typer.Option("--collection", metavar="NAME", help="Collection to store the pages in.")
    ] = "default",
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
    workspace: WorkspaceOption = "",
    overrides: SetOption = None,
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
    from lycosa.hunt.hunt import STRATEGIES
    from lycosa.hunt.session import HuntRequest
    from lycosa.url.normalise import typed_url

    root = workspace_root(context, workspace)
    if strategy not in STRATEGIES:
        raise UsageError(f"--strategy {strategy!r}: choose best, fish or shark")
    if scope not in ("host", "domain", "prefix", "any"):
        raise UsageError(f"--scope {scope!r}: choose host, domain, prefix or any")
    request = HuntRequest(
        " ".join(question),
        tuple(map(typed_url, seeds or ())),
        with_index,
        strategy,
        parse_duration_ms(time) or None,
        pages,
        enough,
        agents,
        collection,
        scope,  # type: ignore[arg-type]  # looked at above
        delay,
        width,
        depth,
    )
    printer = _Printer(json_output, json_lines, quiet, count)
    _run(root, load_config(context, root, overrides, collection), request, printer)
    printer.close(root)
    if not printer.found:
        raise typer.Exit(1)


def _run(root: str, config: Config, request: HuntRequest, printer: _Printer) -> None:
    """Run a hunt by the daemon of the workspace, or else in this process."""
    from lycosa.hunt.requests import ask_daemon
    from lycosa.hunt.session import HuntOptions, HuntOrder, hunt

    handle = ask_daemon(root, request)
    if handle is None:
        options = HuntOptions(printer.add, on_worker=_stop_on_signals)
        hunt(HuntOrder(root, config, request), options)
        return
    note("a daemon is running in this workspace: it pauses its crawl and runs the hunt")
    _stop_on_signals(handle)
    for event in handle.events():
        printer.add(event)


_STOPPING = (
    "stopping: results are kept (press Ctrl-C again to exit immediately; archived pages "
    "are not lost)"
)


def _stop_on_signals(hunt: Worker | HuntHandle) -> None:
    def stop(number: int, frame: FrameType | None) -> None:
        note(_STOPPING)
        hunt.stop()
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)


class _Printer:
    """Prints events as text, as one JSON document at the end, or as one line of JSON each."""

    def __init__(self, as_document: bool, as_lines: bool, quiet: bool, count: int) -> None:
        self.found = 0
        self._document = as_document
        self._lines = as_lines
        self._quiet = quiet
        self._count = count
        self._events: list[dict[str, Any]] = []
        self._ended: dict[str, Any] = {}
        self._shown = sys.stderr.isatty() and not (as_document or as_lines or quiet)

    def add(self, event: dict[str, Any]) -> None:
        kind = event["event"]
        self.found += kind == "found"
        if kind == "ended":
            self._ended = event
        if self._lines:
            print(json_text(event), flush=True)
        elif self._document:
            if kind in ("started", "found"):
                self._events.append(event)
        elif not self._quiet:
            self._show(kind, event)

    def close(self, root: str) -> None:
        """After the last event."""
        if self._document:
            started = next((event for event in self._events if event["event"] == "started"), {})
            shown = {name: value for name, value in self._ended.items() if name != "event"}
            found = [event for event in self._events if event["event"] == "found"]
            document = {"workspace": root, **started, **shown, "found": found}
            del document["event"]
            print_json(document)
        elif not self._lines and not self._quiet and self._ended:
            self._sum_up(root)

    def _show(self, kind: str, event: dict[str, Any]) -> None:
        if kind == "started":
            note(_from(event))
        elif kind == "found":
            self._clear()
            _print_found(
                event,
                f"{self.found:>3}. {event['score']:.2f} ",
                f"page {event['number']}, {event['seconds']:.1f} s",
            )
        elif kind == "progress" and self._shown:
            line = (
                f"{number_of(event['pages'], 'page')}, {self.found:,} relevant, "
                f"{format_size(event['bytes'])}, {event['seconds']:.0f} s"
            )
            print(f"\r\x1b[K{line}", end="", file=raw(sys.stderr), flush=True)

    def _clear(self) -> None:
        if self._shown:
            print("\r\x1b[K", end="", file=raw(sys.stderr), flush=True)

    def _sum_up(self, root: str) -> None:
        self._clear()
        ended = self._ended
        results = ended["results"][: self._count]
        if len(results) > 1:
            print("Final ranking:")
            for number, each in enumerate(results, 1):
                print(f"{number:>3}. {each['score']:.2f}  {each['title']}\n          {each['url']}")
            print()
        print(
            f"{_ENDS.get(ended['ended'], ended['ended'])}: {ended['relevant']:,} relevant of "
            f"{number_of(ended['pages'], 'page')} "
            f"in {format_duration(ended['seconds'] * 1000)}; {number_of(ended['listed'], 'link')} "
            "not followed"
        )
        for url, why in list(ended.get("failures", {}).items())[:_FAILURES_SHOWN]:
            print(f"  failed: {url}: {why}")
        if ended["failed"]:
            print(f"  no page: {counts(ended['failed'])}")
        where = "" if root == "lycosa-data" else f" -w {root}"
        if ended["pages"]:
            print(f"All pages are archived and indexed: lycosa{where} search WORDS")


def _from(event: dict[str, Any]) -> str:
    parts = []
    if event["named"]:
        parts.append(f"{event['named']:,} seed {'page' if event['named'] == 1 else 'pages'}")
    if event["hits"]:
        parts.append(f"{number_of(event['hits'], 'matching page')} of the index")
    if event["well_linked"]:
        parts.append(
            f"{number_of(event['well_linked'], 'well-linked page')} (no page of the index matches)"
        )
    return f"starting from {' and '.join(parts) or 'nothing'}: {number_of(event['listed'], 'link')}"


def _print_found(event: dict[str, Any], lead: str, when: str) -> None:

    snippet = "".join(
        styled("match", each["text"]) if each["match"] else each["text"]
        for each in event["fragments"]
    )
    print(f"{lead} {styled('bold', event['title'] or event['url'])}")
    print(f"          {styled('link', event['url'])}  {event['language'] or '?'}  {when}")
    print(f"          {snippet}", flush=True)
