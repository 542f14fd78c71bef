"""`lycosa find`: where exactly a text stands."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lycosa.cli.common import (
    JsonOption,
    SetOption,
    SiteOption,
    WorkspaceOption,
    load_config,
    note,
    print_json,
    workspace_root,
)
from lycosa.cli.watch import IgnoreOption, match_document, print_match
from lycosa.core.errors import UsageError
from lycosa.core.units import number_of, parse_duration_ms

if TYPE_CHECKING:
    from lycosa.find.find import Ordered
    from lycosa.matching.matches import StoredMatch
    from lycosa.url.site_name import SiteScope

_POLL_S = 1.0
_LEFT_EVERY = 3  # polls


def command(
    context: typer.Context,
    texts: Annotated[
        list[str], typer.Argument(metavar="TEXT", help="Text to find, as it appears in the page.")
    ],
    site: SiteOption = "",
    crawl: Annotated[
        bool,
        typer.Option("--crawl", help="First fetch pages whose stored copy is missing or too old."),
    ] = False,
    ignore: IgnoreOption = None,
    max_age: Annotated[
        str,
        typer.Option(
            "--max-age", metavar="TIME", help="With --crawl: maximum age of a stored copy."
        ),
    ] = "1d",
    delay: Annotated[
        str,
        typer.Option(
            "--delay",
            metavar="TIME",
            help="With --crawl: minimum delay between two requests to a host.",
        ),
    ] = "",
    max_pages: Annotated[
        int | None,
        typer.Option(
            "--max-pages",
            metavar="N",
            min=0,
            help="With --crawl: maximum number of pages to fetch.",
        ),
    ] = None,
    collection: Annotated[
        str,
        typer.Option(
            "--collection",
            metavar="NAME",
            help="Only this collection; with --crawl, store pages in it.",
        ),
    ] = "",
    workspace: WorkspaceOption = "",
    overrides: SetOption = None,
    json_output: JsonOption = False,
) -> None:
    """Find a text in stored pages, or in a site crawled for it."""
    from lycosa.find.find import find_stored

    root = workspace_root(context, workspace)
    out = _Output(json_output)
    if not crawl:
        if delay or max_pages is not None:
            raise UsageError("--delay and --max-pages require --crawl")
        scan = find_stored(root, texts, ignore or (), site=site, collection=collection)
        out.show(scan.run())
        out.end(f"{number_of(scan.pages, 'page')} searched", pages=scan.pages)
        return
    if not site:
        raise UsageError("--crawl requires --site")
    from lycosa.find.find import order_in_site
    from lycosa.url.site_name import SiteScope

    config = load_config(context, root, overrides, collection or "default")
    ordered = order_in_site(
        root,
        texts,
        ignore or (),
        SiteScope.of(site),
        collection or "default",
        parse_duration_ms(max_age),
    )
    if ordered.running:
        _follow(root, ordered, out)
    else:
        _crawl(root, ordered, out, config, SiteScope.of(site), delay, max_pages)


class _Output:
    """Prints what is found as it comes, or keeps it for one JSON document."""

    def __init__(self, json_output: bool) -> None:
        self._json = json_output
        self._documents: list[dict[str, Any]] = []
        self._pages: set[str] = set()
        self._count = 0

    def show(self, found: Iterable[StoredMatch]) -> None:
        for each in found:
            self._count += 1
            self._pages.add(each.url)
            if self._json:
                self._documents.append(match_document(each))
            else:
                print_match(each)

    def end(self, where: str, **facts: object) -> None:
        if self._json:
            print_json({**facts, "matches": self._documents})
        note(
            f"{number_of(self._count, 'match', 'matches')} on "
            f"{number_of(len(self._pages), 'page')}, {where}"
        )
        if not self._count:
            raise typer.Exit(1)


def _crawl(
    root: str,
    ordered: Ordered,
    out: _Output,
    config: Any,
    site: SiteScope,
    delay: str,
    max_pages: int | None,
) -> None:
    """Nobody works in the workspace: fetch what is needed here."""
    from lycosa.cli.crawl import _stop_on_signals
    from lycosa.commands.crawling.crawl import CrawlOrder, crawl
    from lycosa.crawl.session.workspace_config import called_collection
    from lycosa.crawl.state.progress import Progress
    from lycosa.crawl.worker import Limits
    from lycosa.find.find import Results

    results = Results(root, ordered)
    chosen = called_collection(
        config,
        ordered.collection,
        depth=None,
        delay=parse_duration_ms(delay) if delay else None,
        scope="",
        strategy="",
        seeds=(),
    )
    commits = 0

    def look(progress: Progress) -> None:
        nonlocal commits
        if progress.commits > commits:
            commits = progress.commits
            out.show(results.fresh())

    order = CrawlOrder(root, config, chosen, (site.start,), Limits(max_pages), site=site)
    progress = crawl(order, observer=look, started=_stop_on_signals)
    out.show(results.fresh())
    left = results.left()
    rest = f"; {number_of(left, 'page')} left: the next `lycosa crawl` continues" if left else ""
    out.end(
        f"{number_of(progress.pages, 'page')} fetched{rest}; show matches: lycosa watch matches "
        f"{ordered.order.id}",
        id=ordered.order.id,
        fetched=progress.pages,
        left=left,
    )


def _follow(root: str, ordered: Ordered, out: _Output) -> None:
    """A daemon works there: it has the order; show what it finds until it is through."""
    from lycosa.find.find import Results

    note(
        f"the running crawl executes this request ({ordered.order.id}); Ctrl-C ends this "
        "command, not the request"
    )
    results = Results(root, ordered)
    left: int | None = None
    try:
        polls = 0
        while left != 0:
            time.sleep(_POLL_S)
            polls += 1
            if polls % _LEFT_EVERY == 0:
                left = results.left()
            out.show(results.fresh())
    except KeyboardInterrupt:
        note(f"the request continues; show matches: `lycosa watch matches {ordered.order.id}`")
    out.end(
        f"show them again: lycosa watch matches {ordered.order.id}", id=ordered.order.id, left=left
    )
