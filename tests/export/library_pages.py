"""Commit pages that are parsed and archived as in a crawl, on chosen days."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from lycosa.archive.warc.metadata import Revisited
from lycosa.archive.warc.writer import WarcWriter
from lycosa.core.records import Exchange, Page, UrlState, Visit, VisitKind
from lycosa.crawl.processing.page_reader import Reader
from lycosa.store.log.claim import Claim
from lycosa.store.log.transaction import CommitContents
from lycosa.store.tables.buffers import Buffers
from lycosa.store.workspace import Workspace
from tests.store.builders import identify, make_exchange, make_visit, url_row

READER = Reader(40 * 2**20, "lycosa")
FIRST_DAY = date(2026, 11, 1)


class Fetched(NamedTuple):
    """One visit. `day` counts from `FIRST_DAY`.

    `html` None: status 304; empty: status 404.
    """

    url: str
    day: int
    html: str | None
    collection: str = "default"
    redirect_from: str = ""
    second: int = 0


def at(day: int, second: int = 0) -> int:
    """Return 06:00 UTC of a day, plus `second`, in ms since 1970."""
    start = datetime(FIRST_DAY.year, FIRST_DAY.month, FIRST_DAY.day, 6, tzinfo=UTC) + timedelta(
        days=day, seconds=second
    )
    return round(start.timestamp() * 1000)


def day_name(day: int) -> str:
    return (FIRST_DAY + timedelta(days=day)).isoformat()


def commit(
    workspace: Workspace,
    claim: Claim,
    fetched: Sequence[Fetched],
    digests: dict[tuple[str, str], int],
) -> None:
    """Write one commit as a worker does.

    `digests` has the last text digest of each page and is updated.
    """
    folder, buffers = claim.next_folder(), Buffers()
    writer = WarcWriter(
        Path(workspace.path(folder.warc)), relative_path=folder.warc, info={"software": "test"}
    )
    for url, day, html, collection, redirect_from, second in fetched:
        identity = identify(workspace, url)
        visit = make_visit(identity, at=at(day, second), collection=collection)
        visit.http_status = 304 if html is None else 200 if html else 404
        exchange = make_exchange(identity.url, (html or "").encode(), visit.fetched_at)
        exchange.status = visit.http_status
        exchange.response_head = f"HTTP/1.1 {visit.http_status} X\r\nContent-Type: text/html; charset=utf-8\r\n\r\n".encode()
        writer.append(
            exchange,
            visit,
            revisit_of=Revisited(identity.url, 1, "<urn:uuid:0>", "sha1:x")
            if html is None
            else None,
        )
        key = (collection, url)
        page = _parse(exchange, visit) if html else None
        visit.changed = page is not None and digests.get(key) != page.text_digest
        buffers.add_visit(visit)
        state = UrlState.GONE if html == "" else UrlState.VISITED
        row = url_row(identity, state, visited_at=visit.fetched_at)
        row.collection = collection
        buffers.add_url(row)
        if page is not None:
            digests[key] = page.text_digest
            buffers.add_page(visit, page, redirect_from)
            buffers.links.add_links(visit, page.links)
    writer.close(sync=True)
    claim.commit(folder, buffers.mapping(), CommitContents(warc=folder.warc))


def _parse(exchange: Exchange, visit: Visit) -> Page:
    assert visit.kind == VisitKind.PAGE
    page = READER(exchange).page
    assert page is not None
    return page
