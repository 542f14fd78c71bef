"""The hooks that a plug-in may implement.

A plug-in is a module or an object with functions of these names, marked with `lycosa.hooks.hook`.
It may leave out arguments that it does not need.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pluggy

from lycosa.core.clock import Clock
from lycosa.core.records import Exchange, Page, Visit

if TYPE_CHECKING:
    import typer

PROJECT = "lycosa"

_Function = TypeVar("_Function", bound=Callable[..., Any])
hook = cast("Callable[[_Function], _Function]", pluggy.HookimplMarker(PROJECT))
"""Marks the implementation of a hook."""

_spec = cast("Callable[[_Function], _Function]", pluggy.HookspecMarker(PROJECT))


@_spec
def admit_url(url: str, collection: str) -> bool | None:
    """Return False to refuse a URL (reason `plugin`). Called once for each new URL in scope."""


@_spec
def request_headers(url: str, collection: str) -> Mapping[str, str] | None:
    """Return header fields to add to the request for a URL.

    One request may serve several collections; `collection` is the first of them.
    """


@_spec
def response_archived(exchange: Exchange, visit: Visit) -> None:
    """Handle an archived exchange, before it is parsed. Change neither argument."""


@_spec
def page_columns() -> Mapping[str, type] | None:
    """Return the columns that the plug-in adds to `pages` in SQL: str, int, float or bool."""


@_spec
def page_parsed(page: Page, visit: Visit) -> Mapping[str, Any] | None:
    """Return values for the plug-in's columns. Called for each parsed page and collection."""


@_spec
def commit_done(entry: int, location: str) -> None:
    """Handle a committed batch: number of the log entry, location of the workspace."""


@_spec
def index_text(url: str, title: str, text: str) -> str | None:
    """Return further text by which a page can be found. Called when a page is indexed."""


@_spec
def report_rendered(site: str, report: Any) -> Mapping[str, Sequence[str]] | None:
    """Return sections (title: lines) to add to the report of a site."""


@_spec
def add_commands(app: typer.Typer) -> None:
    """Add commands to the command line."""


@_spec
def page_matcher(storage: Any, clock: Clock) -> Any:
    """Return a `lycosa.crawl.state.events.PageMatcher` for a crawl session."""


@_spec
def operation_types(storage: Any) -> Mapping[str, Any] | None:
    """Return the `OperationType` of each operation on URLs that the plug-in performs, by name."""


@_spec
def item_extractor(collections: Sequence[Any]) -> Any:
    """Return a `lycosa.crawl.processing.page_reader.ItemExtractor` of these collections, each a
    `lycosa.config.collection.Collection`; None: they have no items.
    """


@_spec
def sql_tables(tables: Any, query: str) -> Mapping[str, Any] | None:
    """Return further tables for a query in SQL, by name: lazy frames of Polars.

    `tables`: `lycosa.store.tables.live.LiveTables`.
    """


@_spec
def archive_reparsed(root: str, entry: int, report: Callable[[str], None]) -> None:
    """Handle the end of `lycosa reparse`, whose log entries follow `entry`. `report` shows a
    line to the user.
    """


@_spec
def crawl_service(root: str, config: Any, report: Callable[[str], None]) -> Any:
    """Return a `lycosa.hooks.plugins.CrawlService` that runs during a crawl of a workspace.

    `config` is a `lycosa.config.settings.Config`; `report` shows a line to the user.
    """
