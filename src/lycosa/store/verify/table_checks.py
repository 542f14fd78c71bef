"""Check the consistency of the tables: states, exchanges, keys. Only queries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl
import polars.selectors as cs

from lycosa.core.errors import Exclusion, FetchError, UrlError
from lycosa.core.records import KINDS_WITHOUT_ROWS, LinkKind, UrlState, VisitKind
from lycosa.store.tables.files import ENTRY
from lycosa.store.tables.live import LiveTables
from lycosa.store.tables.visible import URL_COLUMN
from lycosa.store.verify.findings import ERROR, Finding
from lycosa.store.workspace import Workspace
from lycosa.url.keys import Identifier, host_key
from lycosa.url.scope import hostname

_REPORT = "report this as a defect of Lycosa"
_VOCABULARIES: tuple[tuple[str, str, frozenset[str]], ...] = (
    ("urls", "state", frozenset(UrlState)),
    ("visits", "kind", frozenset(VisitKind)),
    ("visits", "error", frozenset(FetchError) | {""}),
    ("links", "kind", frozenset(LinkKind)),
)
_EXCHANGE = ("record_id", "collection")


def check_tables(
    live: LiveTables, workspace: Workspace, key_sample: int | None
) -> Iterator[Finding]:
    """Yield one finding per kind of error, with the number of rows and an example."""
    yield from _vocabularies(live)
    for query in (*_states(live), *_host_counts(live), *_exchanges(live)):
        yield from query.findings()
    yield from _warc_places(live)
    identifier = Identifier(workspace.domains, workspace.partitions)
    for table, column in URL_COLUMN.items():
        yield from _keys(live, table, column, identifier, key_sample)
    yield from _host_keys(live, identifier)


@dataclass(slots=True, frozen=True)
class _InvalidRows:
    """A query for rows that must not exist. `example`: the column to report."""

    table: str
    what: str
    rows: pl.LazyFrame
    example: str

    def findings(self) -> Iterator[Finding]:
        bad = self.rows.select(self.example).collect()
        if bad.height:
            yield Finding(
                ERROR,
                self.table,
                f"{self.what}: {bad.height:,}, for example {bad.item(0, 0)}",
                _REPORT,
            )


def _vocabularies(live: LiveTables) -> Iterator[Finding]:
    for table, column, allowed in _VOCABULARIES:
        invalid = (
            live.all_rows(table)
            .select(pl.col(column).cast(pl.String))
            .filter(~pl.col(column).is_in(sorted(allowed)))
            .unique()
            .collect()
        )
        for value in invalid[column]:
            yield Finding(ERROR, f"{table}.{column}", f"{value!r} is not an allowed value", _REPORT)


def _states(live: LiveTables) -> Iterator[_InvalidRows]:
    urls = live.scan("urls")
    identity = ("collection", "operation", "url")
    twice = urls.group_by(*identity).agg(pl.len().alias("n")).filter(pl.col("n") > 1)
    yield _InvalidRows("urls", "URLs with more than one state", twice, "url")
    collided = (
        live.all_rows("urls")
        .group_by("collection", "operation", "host_key", "url_key")
        .agg(pl.col("url").n_unique().alias("n"), pl.col("url").first())
    ).filter(pl.col("n") > 1)
    yield _InvalidRows("urls", "URLs with the same key", collided, "url")
    excluded = (pl.col("state") == UrlState.EXCLUDED.value) & ~pl.col("reason").is_in(
        [reason.value for reason in Exclusion]
    )
    yield _InvalidRows("urls", "excluded URLs without a known reason", urls.filter(excluded), "url")
    never = (pl.col("state") == UrlState.VISITED.value) & pl.col("visited_at").is_null()
    yield _InvalidRows("urls", "visited URLs without a time", urls.filter(never), "url")
    keys = ("collection", "host_key", "url_key")
    visits = live.all_rows("visits").filter(~pl.col("kind").is_in(list(KINDS_WITHOUT_ROWS)))
    unseen = urls.filter(pl.col("state") == UrlState.VISITED.value).join(
        visits, on=keys, how="anti"
    )
    yield _InvalidRows("urls", "visited URLs without a row in visits", unseen, "url")
    # imported ones have no row: the next crawl reads sitemaps and feeds again
    operations = pl.col("kind").is_in([VisitKind.SITEMAP.value, VisitKind.FEED.value])
    yield _InvalidRows(
        "visits",
        "visits of URLs that are not in urls",
        visits.filter(~operations).join(live.all_rows("urls"), on=keys, how="anti"),
        "url",
    )


def _host_counts(live: LiveTables) -> Iterator[_InvalidRows]:
    """Check that `hosts.known` and `hosts.visited` count the rows of `urls` in these states.

    A new URL of an inactive host does not update its row, so known URLs with newer rows may be
    missing.
    """
    known, visited = (
        pl.col("state") == state.value for state in (UrlState.KNOWN, UrlState.VISITED)
    )
    written = live.scan("hosts", entry=True).filter(pl.col("host") != "").rename({ENTRY: "written"})
    counted = (
        live.scan("urls", entry=True)
        .select("host_key", "state", ENTRY)
        .join(written.select("host_key", "written"), on="host_key")
        .group_by("host_key")
        .agg(
            most_known=known.sum().cast(pl.Int64),
            least_known=(known & (pl.col(ENTRY) <= pl.col("written"))).sum().cast(pl.Int64),
            most_visited=visited.sum().cast(pl.Int64),
        )
    )
    # With an excluded prefix, the counts include hidden URLs.
    partly = sorted(
        {hostname(f"http://{authority}/") for authority in live.state.exclusions.prefixes}
    )
    hosts = (
        written.filter(~pl.col("host").is_in(partly))
        .join(counted, on="host_key", how="left")
        .with_columns(cs.matches("^(most|least)_").fill_null(0))
    )
    correct = {
        UrlState.KNOWN: pl.col("known").is_between("least_known", "most_known"),
        UrlState.VISITED: pl.col("visited") == pl.col("most_visited"),
    }
    for state, condition in correct.items():
        yield _InvalidRows(
            "hosts",
            f"hosts with a wrong number of {state.value} URLs",
            hosts.filter(~condition),
            "host",
        )


def _exchanges(live: LiveTables) -> Iterator[_InvalidRows]:
    visits, pages, links = live.all_rows("visits"), live.all_rows("pages"), live.all_rows("links")
    items = live.all_rows("items")
    duplicates = (
        visits.group_by(*_EXCHANGE)
        .agg(pl.len().alias("n"), pl.col("url").first())
        .filter(pl.col("n") > 1)
    )
    yield _InvalidRows("visits", "duplicate exchanges", duplicates, "url")
    duplicates = (
        pages.group_by(*_EXCHANGE, ENTRY)
        .agg(pl.len().alias("n"), pl.col("url").first())
        .filter(pl.col("n") > 1)
    )
    yield _InvalidRows(
        "pages", "exchanges with more than one page in one commit", duplicates, "url"
    )
    yield _InvalidRows(
        "pages",
        "pages without a row in visits",
        pages.join(visits, on=_EXCHANGE, how="anti"),
        "url",
    )
    yield _InvalidRows(
        "items",
        "items without a row in visits",
        items.join(visits, on=_EXCHANGE, how="anti"),
        "url",
    )
    source = ("host_key", "url_key")
    redirected = pl.col("kind") == LinkKind.REDIRECT.value
    yield _InvalidRows(
        "links",
        "links whose source is not a page",
        links.filter(~redirected).join(pages, on=source, how="anti"),
        "source",
    )
    yield _InvalidRows(
        "links",
        "redirects from a URL that was not visited",
        links.filter(redirected).join(visits, on=source, how="anti"),
        "source",
    )


def _warc_places(live: LiveTables) -> Iterator[Finding]:
    """Check that every visit has a record in a committed WARC file.

    Availability checks may have none, and a copy of a collection omits damaged records.
    """
    visits = live.all_rows("visits").filter(pl.col("warc_file") != "")
    committed = pl.LazyFrame(
        {
            "warc_file": list(live.state.warcs),
            # by the log: a file that is cut or missing is reported once
            "size": [file.bytes for file in live.state.warcs.values()],
        },
        schema={"warc_file": pl.String, "size": pl.Int64},
    )
    placed = visits.join(committed, on="warc_file", how="left")
    yield from _InvalidRows(
        "visits",
        "visits in a WARC file that is not committed",
        placed.filter(pl.col("size").is_null()),
        "warc_file",
    ).findings()
    outside = (
        (pl.col("warc_offset") < 0)
        | (pl.col("warc_length") <= 0)
        | (pl.col("warc_offset") + pl.col("warc_length") > pl.col("size"))
    )
    yield from _InvalidRows(
        "visits",
        "visits whose position is outside their WARC file",
        placed.filter(outside),
        "record_id",
    ).findings()


def _keys(
    live: LiveTables, table: str, column: str, identifier: Identifier, sample: int | None
) -> Iterator[Finding]:
    rows = live.all_rows(table).select("partition", "host_key", "url_key", column).unique()
    frame = rows.collect()
    if sample is not None and frame.height > sample:
        frame = frame.gather_every(-(-frame.height // sample))
    wrong, example = 0, ""
    for partition, host, key, url in frame.iter_rows():
        if not _identified(identifier, url, (partition, host, key)):
            wrong, example = wrong + 1, url
    if wrong:
        yield Finding(
            ERROR,
            table,
            f"keys or partitions that do not match the URL: {wrong:,}, for example {example}",
            _REPORT,
        )


def _identified(identifier: Identifier, url: str, keys: tuple[int, int, int]) -> bool:
    try:
        identity = identifier.identify(url)
    except UrlError:
        return False
    return (identity.partition, identity.host_key, identity.url_key) == keys


def _host_keys(live: LiveTables, identifier: Identifier) -> Iterator[Finding]:
    frame = (
        live.scan("hosts").select("partition", "host_key", "host", "registrable_domain").collect()
    )
    wrong = [
        host or domain
        for partition, key, host, domain in frame.iter_rows()
        if (partition, key) != (identifier.partition(host or domain), host_key(host or domain))
    ]
    if wrong:
        yield Finding(
            ERROR,
            "hosts",
            "keys or partitions that do not match the host: "
            f"{len(wrong):,}, for example {wrong[0]}",
            _REPORT,
        )
