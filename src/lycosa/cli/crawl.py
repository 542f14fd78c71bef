"""`lycosa crawl`: crawl and index to the end, with a progress bar; a second call resumes."""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from lycosa.cli.common import (
    AddressOption,
    EngineOption,
    JsonOption,
    QuietOption,
    SetOption,
    WorkersOption,
    WorkspaceOption,
    counts,
    is_shared,
    load_config,
    note,
    open_engine,
    print_json,
    table,
    with_scheme,
    workspace_root,
)
from lycosa.core.errors import UsageError, WorkError
from lycosa.core.units import format_duration, format_size, number_of, parse_duration_ms
from lycosa.processes.terminal import escape_output, raw

if TYPE_CHECKING:
    from lycosa.commands.crawling.crawl import CrawlOrder, Stoppable
    from lycosa.config.settings import Config
    from lycosa.crawl.session.planning import read_seeds
    from lycosa.crawl.state.progress import Progress


_FAILURES_SHOWN = 10


def command(
    context: typer.Context,
    urls: Annotated[
        list[str] | None,
        typer.Argument(metavar="URL", help="Seed URLs. Without one, the crawl is resumed."),
    ] = None,
    seeds: Annotated[
        str, typer.Option("--seeds", metavar="FILE", help="File with seed URLs, one per line.")
    ] = "",
    max_pages: Annotated[
        int | None,
        typer.Option("--max-pages", metavar="N", min=0, help="Stop after this many new pages."),
    ] = None,
    max_time: Annotated[
        str,
        typer.Option("--max-time", metavar="TIME", help="Stop after this time, for example 10m."),
    ] = "",
    depth: Annotated[
        int | None,
        typer.Option(
            "--depth",
            metavar="N",
            min=0,
            help="Maximum number of links from a seed; 0: only the seeds.",
        ),
    ] = None,
    delay: Annotated[
        str,
        typer.Option(
            "--delay", metavar="TIME", help="Minimum delay between two requests to a host."
        ),
    ] = "",
    strategy: Annotated[
        str,
        typer.Option(
            "--strategy",
            metavar="NAME",
            help="Crawl order: breadth-first, depth-first, server-first or best-first.",
        ),
    ] = "",
    start: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="URL|unvisited",
            help="Fetch only known unvisited URLs: those found through this URL, or all "
            "(`unvisited`).",
        ),
    ] = "",
    scope: Annotated[
        str,
        typer.Option("--scope", metavar="host|domain|prefix|any", help="Which links to follow."),
    ] = "",
    collection: Annotated[
        str, typer.Option("--collection", metavar="NAME", help="Collection to crawl into.")
    ] = "default",
    engine: EngineOption = "local",
    address: AddressOption = "",
    workers: WorkersOption = None,
    no_index: Annotated[
        bool, typer.Option("--no-index", help="Do not update the search index.")
    ] = False,
    workspace: WorkspaceOption = "",
    overrides: SetOption = None,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Crawl sites, archive them and index them.

    Without a URL, an interrupted crawl is resumed.
    """
    from lycosa.commands.crawling.crawl import CrawlOrder, crawl
    from lycosa.crawl.session.workspace_config import called_collection
    from lycosa.crawl.worker import Limits

    root = workspace_root(context, workspace)
    config = load_config(context, root, overrides, collection)
    typed = _seeds(urls or [], seeds)
    if start and typed:
        raise UsageError("--from starts from stored URLs: leave out other URLs and --seeds")
    walks = bool(start) and start != "unvisited"
    seed_file = next(entry for entry in config.collection if entry.name == collection).seed_file
    chosen = called_collection(
        config,
        collection,
        depth=None if walks else depth,
        delay=parse_duration_ms(delay) if delay else None,
        scope=scope,
        strategy=strategy,
        seeds=read_seeds(seed_file) if seed_file else (),
    )
    limits = Limits(max_pages, parse_duration_ms(max_time) if max_time else None)
    order = CrawlOrder(
        root,
        config,
        chosen,
        typed,
        limits,
        index=not no_index,
        start=start,
        start_depth=depth if walks else None,
    )
    show = None if quiet else _progress_bar(json_output)
    try:
        if is_shared(engine, workers):
            progress = _together(order, engine, address, workers, show)
        else:
            progress = crawl(
                order, observer=show.update if show else None, started=_stop_on_signals
            )
    finally:
        if show:
            show.close()
    if json_output:
        print_json(
            {"workspace": root, "collection": chosen.name, **progress.summary(progress.ended_ms)}
        )
    elif not quiet:
        _summary(progress, root)
    _remind(config, progress)
    if progress.has_nothing:
        raise WorkError(f"nothing was fetched: {_failures(progress)}")


def _failures(progress: Progress) -> str:
    shown = list(progress.failures.items())[:_FAILURES_SHOWN]
    more = len(progress.failures) - len(shown)
    return "; ".join(f"{url}: {why}" for url, why in shown) + (f"; and {more} more" if more else "")


class _Failures:
    """Prints each failure of a seed once, when it happens."""

    def __init__(self) -> None:
        self._shown = 0

    def show(self, progress: Progress) -> None:
        for url, why in list(progress.failures.items())[self._shown : _FAILURES_SHOWN]:
            note(f"failed: {url}: {why}")
        self._shown = len(progress.failures)


def _together(
    order: CrawlOrder, name: str, address: str, workers: int | None, show: _Bar | _Lines | None
) -> Progress:
    """The same by many workers."""
    from lycosa.commands.crawling.cluster_crawl import crawl_together

    with open_engine(name, address, order.config) as engine:
        return crawl_together(
            order,
            engine,
            workers,
            say=note,
            observer=show.update if show else None,
            started=_stop_on_signals,
        )


def _seeds(urls: list[str], file: str) -> tuple[str, ...]:
    from lycosa.crawl.session.planning import read_seeds

    typed = [*urls, *(read_seeds(file) if file else ())]
    return tuple(map(with_scheme, typed))


def _stop_on_signals(worker: Stoppable) -> None:
    """Ctrl-C and SIGTERM commit and end; a second Ctrl-C ends at once (nothing that was archived is
    lost).
    """

    def stop(number: int, frame: FrameType | None) -> None:
        note(
            "stopping: committing the fetched pages (press Ctrl-C again to exit immediately; "
            "archived pages are not lost)"
        )
        worker.stop()
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)


class _Lines:
    """Progress for a stream that is no terminal: a line every few seconds."""

    def __init__(self) -> None:
        self._last = 0.0
        self._failures = _Failures()

    def update(self, progress: Progress) -> None:
        import time

        self._failures.show(progress)
        if time.monotonic() - self._last >= 5:
            self._last = time.monotonic()
            note(_line(progress, time.monotonic_ns() // 1_000_000))

    def close(self) -> None:
        pass


class _Bar:
    """Progress on a terminal: one line that is drawn again, with a bar where the end is known."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, SpinnerColumn, TextColumn
        from rich.progress import Progress as Display

        self._display = Display(
            SpinnerColumn(),
            BarColumn(bar_width=24),
            TextColumn("{task.description}"),
            console=Console(file=raw(sys.stderr)),
            transient=True,
        )
        self._task = self._display.add_task("starting", total=None)
        self._failures = _Failures()
        self._display.start()
        escape_output()  # rich has put streams of its own in place of ours, until it stops

    def update(self, progress: Progress) -> None:
        import time

        self._failures.show(progress)
        total = progress.pages + progress.queue + progress.in_flight
        self._display.update(
            self._task,
            total=total or None,
            completed=progress.pages,
            description=_line(progress, time.monotonic_ns() // 1_000_000),
        )

    def close(self) -> None:
        self._display.stop()


def _progress_bar(json_output: bool) -> _Bar | _Lines:
    return _Bar() if sys.stderr.isatty() and not json_output else _Lines()


def _line(progress: Progress, now_ms: int) -> str:
    seconds = max(now_ms - progress.started_ms, 1) / 1000
    return (
        f"{number_of(progress.pages, 'page')}  {progress.pages / seconds:,.1f} pages/s  "
        f"queue {progress.queue:,}  hosts {progress.hosts:,}  "
        f"errors {sum(progress.errors.values()):,}  {format_size(progress.bytes)}"
    )


_ENDS = {
    "finished": "Finished: no URLs are due",
    "max_pages": "Stopped at --max-pages",
    "max_time": "Stopped at --max-time",
    "stopped": "Stopped on request. The same command resumes the crawl",
}


def _summary(progress: Progress, root: str) -> None:
    elapsed = progress.ended_ms - progress.started_ms
    rows = [
        (
            "pages",
            f"{progress.pages:,} in {format_duration(elapsed)} "
            f"({progress.pages * 1000 / max(elapsed, 1):,.1f}/s)",
        ),
        (
            "fetched",
            f"{number_of(progress.visits, 'request')}, {format_size(progress.bytes)}, "
            f"{number_of(progress.hosts, 'host')}",
        ),
        ("URLs", counts(progress.states)),
    ]
    if progress.statuses:
        statuses = {code or "no response": n for code, n in progress.statuses.items()}
        rows.append(("status", counts(statuses)))
    if progress.languages:
        rows.append(("languages", counts(progress.languages)))
    if progress.replayed:
        rows.append(("recovered", f"{progress.replayed:,} archived captures of an interrupted run"))
    if progress.damaged:
        rows.append(
            (
                "damaged",
                f"{counts(progress.damaged)} (unreadable parts of the archive; "
                "their URLs are fetched again)",
            )
        )
    if progress.errors:
        rows.append(("errors", counts(progress.errors)))
    if progress.refused:
        rows.append(("links refused", counts(progress.refused)))
    if progress.later:
        rows.append(("deferred", counts(progress.later)))
    left = progress.ended == "finished" and progress.later
    print(
        "Finished: the remaining URLs are due later (see 'deferred')"
        if left
        else _ENDS.get(progress.ended, progress.ended)
    )
    print(table(rows))
    where = "" if root == "lycosa-data" else f" -w {root}"
    if not progress.has_nothing and (progress.pages or progress.states["visited"]):
        print(f"\nNext: lycosa{where} search WORDS   or   lycosa{where} serve")


def _remind(config: Config, progress: Progress) -> None:
    if progress.public_pages > config.crawl.remind_pages and not config.fetch.contact:
        note(
            "set fetch.contact to a URL or mail address, so that webmasters can reach you: --set "
            "fetch.contact=you@example.org"
        )
