"""Convert records to rows and back. A row is a tuple in the order of its table's columns.

Hot path (bench/tables.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from operator import attrgetter
from types import MappingProxyType
from typing import Any

import polars as pl
import polars.selectors as cs

from lycosa.core.host_row import HostRow, RobotsEntry
from lycosa.core.records import Item, Metadata, Page, UrlId, UrlRow, Visit
from lycosa.store.tables.schema import VISITS
from lycosa.url.scope import hostname

Row = tuple[Any, ...]

visit_row: attrgetter[Row] = attrgetter(*VISITS.names)
"""Visit -> row of `visits`."""


NO_VALUES: Mapping[str, Any] = MappingProxyType({})


def encode_values(values: Mapping[str, Any]) -> str:
    """Return the values of plug-ins as they are stored: a JSON object, "" if there are none.

    Raises:
        TypeError, ValueError: a value is not a string, number, Boolean or None.
    """
    return json.dumps(values, ensure_ascii=False, allow_nan=False) if values else ""


def page_row(
    visit: Visit, page: Page, redirect_from: str = "", values: Mapping[str, Any] = NO_VALUES
) -> Row:
    """Return the row of `pages`. `redirect_from`: the URL that redirected to the visit."""
    return (
        visit.partition,
        visit.host_key,
        visit.url_key,
        visit.url,
        visit.fetched_at,
        visit.collection,
        page.title,
        page.headline,
        page.description,
        page.headings,
        page.main_text,
        page.main_lines,
        page.text,
        page.markdown,
        page.language,
        page.language_score,
        page.other_languages,
        page.declared_language,
        page.language_share,
        page.page_type,
        page.charset,
        page.published_at,
        page.canonical,
        page.may_index,
        page.may_follow,
        redirect_from or None,
        page.size,
        page.text_digest,
        page.simhash,
        page.faults,
        [alternate._asdict() for alternate in page.alternates],
        visit.record_id,
        encode_values(values),
    )


def metadata_row(visit: Visit, metadata: Metadata) -> Row:
    """Return the row of `metadata` of a page."""
    return (
        visit.partition,
        visit.host_key,
        visit.url_key,
        visit.url,
        visit.fetched_at,
        visit.collection,
        *_declared(metadata),
        visit.record_id,
    )


def item_rows(visit: Visit, items: Iterable[Item]) -> Iterator[Row]:
    """Yield the rows of `items` of a page in the collection of a visit."""
    for item in items:
        if item.collection == visit.collection:
            yield (
                visit.partition,
                visit.host_key,
                visit.url_key,
                visit.url,
                visit.fetched_at,
                visit.collection,
                item.schema,
                item.position,
                item.valid,
                item.values,
                item.missing,
                [problem._asdict() for problem in item.problems],
                visit.record_id,
            )


_declared: attrgetter[Row] = attrgetter(*(field.name for field in fields(Metadata)))


def url_row(row: UrlRow) -> Row:
    """Convert a UrlRow to a row of `urls`."""
    url, _, host_key, url_key, partition = row.id
    return (
        partition,
        host_key,
        url_key,
        url,
        row.collection,
        row.operation,
        row.depth,
        str(row.state),
        row.reason,
        row.state_at,
        row.priority,
        row.not_before,
        row.first_seen_at,
        row.visited_at,
        row.referrer,
        row.redirects,
        row.redirect_from or None,
        row.fails,
        row.checks,
        row.changes,
        row.etag,
        row.last_modified,
        row.digest,
        row.text_digest,
        row.captured_at,
        row.record_id,
        row.importance,
        row.change_rate,
        row.claim,
        row.silence,
        row.history,
    )


def host_row(row: HostRow) -> Row:
    """Convert a HostRow to a row of `hosts`."""
    return (
        row.partition,
        row.host_key,
        0,
        row.host,
        row.registrable_domain,
        row.first_seen_at,
        row.last_visit_at,
        row.ip,
        row.server,
        [entry._asdict() for entry in row.robots],
        row.delay_ms,
        row.not_before,
        row.latency_ms,
        row.fails,
        row.known,
        row.visited,
        row.pages,
        row.bytes,
        row.budget,
        [{"name": name, "count": count} for name, count in row.traps.items()],
        row.claims_right,
        row.claims_wrong,
        row.claims_missed,
    )


def found_row(row: UrlRow, *, source: str, anchor: str, kind: str, modified_at: int = 0) -> Row:
    """Return the row of `found` for a URL of a remote partition. `modified_at`: its last change
    according to a sitemap or feed.
    """
    url, _, host_key, url_key, partition = row.id
    return (
        partition,
        host_key,
        url_key,
        row.collection,
        row.operation,
        url,
        source,
        anchor,
        kind,
        row.depth,
        row.priority,
        row.redirects,
        row.redirect_from or None,
        row.first_seen_at,
        modified_at,
    )


def match_row(
    visit: Visit, watch: str, text: str, positions: Sequence[int], count: int, context: str
) -> Row:
    """Return the row of `matches` for a watch's text in a visited page."""
    return (
        visit.partition,
        visit.host_key,
        visit.url_key,
        visit.url,
        watch,
        text,
        list(positions),
        visit.fetched_at,
        visit.collection,
        count,
        context,
        visit.record_id,
    )


_DEFAULTS: tuple[Any, ...] = tuple(
    field.default for field in fields(UrlRow)[4:-1]
)  # `state` to `silence`


def url_record(row: Row, host: str) -> UrlRow:
    """Return the UrlRow of a row of `urls` (times as integers or None).

    `host` is the hostname of the URL, which the table does not repeat. From `state` on, the columns
    are the fields of UrlRow.
    """
    partition, host_key, url_key, url, collection, operation, depth = row[:7]
    values: list[Any] = [
        default if value is None else value
        for value, default in zip(row[7:-1], _DEFAULTS, strict=True)
    ]
    values.append(tuple(row[-1] or ()))
    identity = UrlId(url, host, host_key, url_key, partition)
    return UrlRow(identity, collection, depth, operation, *values)


def record_rows(frame: pl.DataFrame) -> Iterator[Row]:
    """Yield whole rows of a table as `url_record` and `host_record` read them."""
    return frame.with_columns(cs.datetime().dt.epoch("ms")).iter_rows()


def url_records(frame: pl.DataFrame) -> Iterator[UrlRow]:
    """Yield the UrlRow of each row of a frame of `urls`."""
    for row in record_rows(frame):
        yield url_record(row, hostname(row[3]))


def host_record(row: Row) -> HostRow:
    """Return the HostRow of a row of `hosts` (times as integers or None)."""
    (
        partition,
        host_key,
        _,
        host,
        domain,
        first_seen_at,
        last_visit_at,
        ip,
        server,
        robots,
        delay_ms,
        not_before,
    ) = row[:12]
    (latency_ms, fails, known, visited, pages, size, budget, traps, right, wrong, missed) = row[12:]
    return HostRow(
        host=host,
        partition=partition,
        host_key=host_key,
        registrable_domain=domain,
        first_seen_at=first_seen_at or 0,
        last_visit_at=last_visit_at or 0,
        ip=ip,
        server=server,
        robots=[RobotsEntry(**entry) for entry in robots],
        delay_ms=delay_ms,
        not_before=not_before or 0,
        latency_ms=latency_ms,
        fails=fails,
        known=known,
        visited=visited,
        pages=pages,
        bytes=size,
        budget=budget,
        traps={trap["name"]: trap["count"] for trap in traps},
        claims_right=right or 0.0,
        claims_wrong=wrong or 0.0,
        claims_missed=missed or 0.0,
    )
