"""Report values that do not fit, and selectors that no longer select.

It reads committed rows of `items`, so it works with one or several workers, and for `reparse`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from math import ceil, log
from typing import Any, NamedTuple

import polars as pl
from cachetools import LRUCache

from lycosa.core.errors import LycosaError
from lycosa.core.units import number_of
from lycosa.fields.views import stored_schemas
from lycosa.processes.threads import PollingThread
from lycosa.store.tables.files import ENTRY
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from lycosa.url.scope import hostname

MAX_REPORTED = 20  # problems shown one by one
MIN_PAGES = 10
"""Minimum number of consecutive pages without a selection for a report."""

_CHANCE = 1e-6  # maximum probability of so many pages without a value by chance
_MAX_SHARE = 0.9  # so that a few exceptional pages do not count as a change
_NEVER = 100  # pages after which a selector that never selected anything is reported
_MAX_HOSTS = 10_000  # schemas and hosts with counts at a time
_LOCAL_POLL_S, _REMOTE_POLL_S = 2.0, 15.0
_COLUMNS = (
    *("collection", "schema", "host_key", "url_key"),
    *("url", "position", "missing", "problems"),
)
_PAGE_SELECTOR = ""  # instead of the name of a field: the selector of the items


class _Source(NamedTuple):
    collection: str
    schema: str
    host_key: int


@dataclass(slots=True)
class _Selections:
    """Number of pages without a value of a field: all, and the last run."""

    empty: int = 0
    run: int = 0
    next_check: int = MIN_PAGES  # doubled, since a check reads the tables; 0: reported


@dataclass(slots=True)
class _Counts:
    pages: int = 0
    fields: dict[str, _Selections] = field(default_factory=dict)


class ItemHealth:
    """Checks the items that are committed after a log entry. Not thread-safe."""

    def __init__(self, workspace: Workspace, entry: int, report: Callable[[str], None]) -> None:
        self._workspace = workspace
        self._state = workspace.state()
        self._start = self._read_to = entry
        self._report = report
        self._counts: LRUCache[_Source, _Counts] = LRUCache(_MAX_HOSTS)
        self._problems = 0

    def refresh(self) -> None:
        """Read the items that were committed since the last call.

        Raises:
            WorkspaceError: the log is damaged.
            FileNotFoundError: a file was compacted meanwhile; call it again.
        """
        self._state.catch_up()
        if self._state.head == self._read_to:
            return
        tables = LiveTables(self._workspace, self._state)
        for frame in tables.changes("items", self._read_to, _COLUMNS):
            for source, url, rows in _pages(frame):
                self._report_problems(source, url, rows)
                if source.schema:
                    self._count(tables, source, url, rows)
        self._read_to = self._state.head

    def summarize(self) -> None:
        """Report the number of values that did not fit."""
        if self._problems > MAX_REPORTED:
            self._report(
                f"items: {self._problems:,} values do not fit their fields, of which "
                f'{MAX_REPORTED} are shown above; all: lycosa sql "SELECT url, problems FROM items '
                'WHERE ARRAY_LENGTH(problems) > 0"'
            )

    def _report_problems(self, source: _Source, url: str, rows: list[Mapping[str, Any]]) -> None:
        for row in rows:
            for problem in row["problems"]:
                self._problems += 1
                if self._problems <= MAX_REPORTED:
                    selector = f" ({problem['selector']})" if problem["selector"] else ""
                    value = f": {problem['value']!r}" if problem["value"] else ""
                    self._report(
                        f"items: {url}: {source.schema}.{problem['field']}{selector}: "
                        f"{problem['problem']}{value}"
                    )

    def _count(
        self, tables: LiveTables, source: _Source, url: str, rows: list[Mapping[str, Any]]
    ) -> None:
        counts = self._counts.get(source)
        if counts is None:
            counts = self._counts[source] = _Counts()
        counts.pages += 1
        missing = _missing(rows)
        for name, selections in counts.fields.items():
            # a page without items has no information about their fields
            if name not in missing and (name == _PAGE_SELECTOR or _PAGE_SELECTOR not in missing):
                selections.run, selections.next_check = 0, MIN_PAGES
        for name in missing:
            selections = counts.fields.setdefault(name, _Selections())
            selections.empty += 1
            selections.run += 1
            if selections.run == selections.next_check:
                selections.next_check *= 2
                self._check(tables, source, url, name, counts)

    def _check(
        self, tables: LiveTables, source: _Source, url: str, name: str, counts: _Counts
    ) -> None:
        selections = counts.fields[name]
        pages, selected = _earlier(tables, source, name, self._start)
        pages += counts.pages - selections.run
        selected += counts.pages - selections.empty
        if not selected and pages + selections.run < _NEVER:
            return
        if selected and selections.run < _required_run(selected / pages):
            return
        selections.next_check = 0
        what, selector = self._described(source, name)
        before = (
            f"it selected something on {selected:,} of {number_of(pages, 'page')} before; the site "
            "may have changed"
            if selected
            else "and never did; check the selector"
        )
        self._report(
            f"warning: items: {what} of {source.collection} ({selector}) selects nothing on the "
            f"last {number_of(selections.run, 'page')} of {hostname(url)}, {before}; for example "
            f"{url}: try `lycosa parse {url} --fields`"
        )

    def _described(self, source: _Source, name: str) -> tuple[str, str]:
        """Return the name of a field with its schema, and its selector."""
        schemas = stored_schemas(self._state).get(source.collection, ())
        schema = next((each for each in schemas if each.name == source.schema), None)
        if name == _PAGE_SELECTOR:
            return source.schema, schema.selector if schema is not None else ""
        fields = {} if schema is None else {path: each for path, each, _ in schema.walk()}
        return f"{source.schema}.{name}", fields[name].selector if name in fields else ""


def _pages(frame: pl.DataFrame) -> Iterator[tuple[_Source, str, list[Mapping[str, Any]]]]:
    """Yield (source, URL, rows) of each page and schema."""
    rows = frame.iter_rows(named=True)
    keys = ("collection", "schema", "host_key", "url_key", ENTRY)
    for _, group in groupby(rows, key=lambda row: tuple(row[name] for name in keys)):
        of_page: list[Mapping[str, Any]] = list(group)
        first = of_page[0]
        source = _Source(first["collection"], first["schema"], first["host_key"])
        yield source, first["url"], of_page


def _missing(rows: list[Mapping[str, Any]]) -> set[str]:
    """Return the fields that no item of a page has."""
    if rows[0]["position"] is None:
        return {_PAGE_SELECTOR}
    return set.intersection(*(set(row["missing"]) for row in rows))


def _required_run(share: float) -> int:
    """Return how many consecutive pages without a value indicate a change.

    `share`: the share of earlier pages with a value.
    """
    return max(MIN_PAGES, ceil(log(_CHANCE) / log(1 - min(share, _MAX_SHARE))))


def _earlier(tables: LiveTables, source: _Source, name: str, entry: int) -> tuple[int, int]:
    """Return the number of pages of a source, and of those with a selection.

    Only pages up to a log entry are counted.
    """
    rows = tables.all_rows("items").filter(
        (pl.col("collection") == source.collection)
        & (pl.col("schema") == source.schema)
        & (pl.col("host_key") == source.host_key)
        & (pl.col(ENTRY) <= entry)
    )
    if name == _PAGE_SELECTOR:
        selected = pl.col("position").is_not_null()
    else:
        rows = rows.filter(pl.col("position").is_not_null())
        selected = ~pl.col("missing").list.contains(name)
    pages = rows.group_by("url_key").agg(selected.any().alias("selected"))
    total = pages.select(pl.len().alias("pages"), pl.col("selected").sum()).collect()
    return int(total.item(0, "pages")), int(total.item(0, "selected"))


class FieldReports:
    """Reports on the items of a running crawl.

    A `lycosa.hooks.plugins.CrawlService`.
    """

    def __init__(self, root: str, report: Callable[[str], None]) -> None:
        self._workspace = Workspace.open(root)
        self._report = report
        self._health: ItemHealth | None = None
        poll_s = _LOCAL_POLL_S if self._workspace.storage.on_disk else _REMOTE_POLL_S
        self._polling = PollingThread(self._poll, poll_s, report, name="items")

    def start(self) -> None:
        self._health = ItemHealth(self._workspace, self._workspace.state().head, self._report)
        self._polling.start()

    def finish(self) -> None:
        """Report on all committed items, and end."""
        self.close()
        if self._health is not None:
            self._polling.poll()
            self._health.summarize()

    def close(self) -> None:
        self._polling.end()

    def _poll(self) -> str:
        try:
            if self._health is not None:
                self._health.refresh()
        except FileNotFoundError:
            pass  # compacted meanwhile
        except (LycosaError, OSError) as error:
            return f"items: {error}"
        return ""
