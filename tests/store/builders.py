"""Build small workspaces with visits, pages, links and real WARC files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl

from lycosa.archive.cdxj import write_cdxj
from lycosa.archive.warc.writer import WarcWriter
from lycosa.core.host_row import HostRow
from lycosa.core.records import Exchange, Link, LinkKind, Page, UrlId, UrlRow, UrlState, Visit
from lycosa.store.log.claim import Claim
from lycosa.store.log.transaction import CommitContents
from lycosa.store.tables.buffers import Buffers
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from lycosa.url.keys import Identifier

START_MS = 1_700_000_000_000


def identify(workspace: Workspace, url: str) -> UrlId:
    return Identifier(workspace.domains, workspace.partitions).identify(url)


def make_visit(
    url: UrlId, *, at: int = START_MS, collection: str = "default", kind: str = "page"
) -> Visit:
    return Visit(
        url.url,
        url.host,
        url.partition,
        url.host_key,
        url.url_key,
        kind,
        collection,
        1,
        at,
        12,
        http_status=200,
    )


def make_page(number: int, targets: Iterable[str] = ()) -> Page:
    text = f"Page {number}\nText of page {number}"
    links = [
        Link(target, f"to {target}", "", LinkKind.A, position)
        for position, target in enumerate(targets)
    ]
    return Page(
        title=f"Page {number}",
        text=text,
        main_text=text,
        main_lines=[0, 2],
        language="en",
        language_score=0.9,
        links=links,
    )


def make_exchange(url: str, body: bytes, at: int = START_MS) -> Exchange:
    return Exchange(
        url,
        "page",
        at,
        12,
        ip="127.0.0.1",
        protocol="http/1.1",
        request_head=b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        response_head=b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n",
        body=body,
        status=200,
    )


def url_row(url: UrlId, state: str = UrlState.KNOWN, **fields: object) -> UrlRow:
    row = UrlRow(url, "default", 1, state=state, first_seen_at=START_MS, state_at=START_MS)
    for name, value in fields.items():
        setattr(row, name, value)
    return row


def url_buffers(workspace: Workspace, urls: Iterable[str]) -> Buffers:
    """Return buffers with rows of the table `urls` only."""
    buffers = Buffers()
    for url in urls:
        buffers.add_url(url_row(identify(workspace, url)))
    return buffers


def commit_urls(workspace: Workspace, claim: Claim, urls: Iterable[str], **contents: Any) -> int:
    return claim.commit(
        claim.next_folder(), url_buffers(workspace, urls).mapping(), CommitContents(**contents)
    )


def commit_pages(
    workspace: Workspace,
    claim: Claim,
    numbers: Iterable[int],
    *,
    host: str = "www.example.org",
    at: int = START_MS,
    cdxj: bool = False,
) -> int:
    """Commit pages as a worker does.

    The commit has an archive, visits, pages, links, URL states, a host row and counters; with
    `cdxj` also the index of the archive.
    """
    folder, buffers = claim.next_folder(), Buffers()
    writer = WarcWriter(
        Path(workspace.path(folder.warc)), relative_path=folder.warc, info={"software": "test"}
    )
    first = identify(workspace, f"http://{host}/")
    live = (
        LiveTables(workspace)
        .scan("urls")
        .filter((pl.col("host_key") == first.host_key) & (pl.col("state") == "visited"))
    )
    visited = set(live.collect()["url"])
    visits = []
    count = 0
    for number in numbers:
        url = identify(workspace, f"http://{host}/page{number}")
        visit = make_visit(url, at=at + number)
        writer.append(make_exchange(url.url, f"<p>{number}</p>".encode() * 20, at + number), visit)
        page = make_page(
            number, [f"http://{host}/page{number + 1}", f"http://{host}/page{number + 2}"]
        )
        visits.append(visit)
        buffers.add_visit(visit)
        buffers.add_page(visit, page)
        buffers.links.add_links(visit, page.links)
        buffers.add_url(
            url_row(url, UrlState.VISITED, visited_at=visit.fetched_at, digest=visit.digest)
        )
        visited.add(url.url)
        count += 1
    buffers.add_host(
        HostRow(
            host,
            first.partition,
            first.host_key,
            "example.org",
            START_MS,
            visited=len(visited),
            pages=count,
        )
    )
    writer.close(sync=True)
    if cdxj:
        write_cdxj(workspace.path(folder.cdxj), visits, record_types=writer.record_types)
    counters = {"visits": count, "pages": count}
    return claim.commit(
        folder,
        buffers.mapping(),
        CommitContents(warc=folder.warc, cdxj=folder.cdxj if cdxj else None, counters=counters),
    )
