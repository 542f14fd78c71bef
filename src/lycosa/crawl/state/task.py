"""What a worker is given to do: collections to crawl, and single fetches."""

from __future__ import annotations

from lycosa.config.settings import Collection
from lycosa.core.dataclass import dataclass
from lycosa.core.records import Exchange, UrlId, UrlRow, Visit, VisitKind
from lycosa.http.decode import Headers


@dataclass(slots=True)
class Task:
    """One fetch on its way. `rows` are the URL's rows, one a collection; empty for a robots.txt.
    `origin` is whose robots.txt it is about.
    """

    identity: UrlId
    rows: tuple[UrlRow, ...]
    origin: str
    kind: VisitKind
    attempt: int = 1
    hop: int = 0
    collection: str = ""  # collection of a task without rows (a log-in, a requisite)

    referrer: str = ""  # likewise: the page that it is for

    @property
    def key(self) -> int:
        """The key of its rows, which all are of one operation."""
        return self.rows[0].key if self.rows else 0


@dataclass(slots=True, frozen=True)
class Job:
    """A collection to be worked, with all its seeds, those of earlier calls included."""

    collection: Collection
    seeds: tuple[str, ...]


_HEADER_LIMIT = 1_000
"""Characters kept of a header that goes into a table: a server may send anything."""
_HEADERS = ("content-type", "server", "etag", "last-modified")


def media_type(content_type: str) -> str:
    """`Text/HTML; charset=x` -> `text/html`."""
    return content_type.partition(";")[0].strip().lower()[:_HEADER_LIMIT]


def build_visit(
    exchange: Exchange,
    headers: Headers,
    task: Task,
    collection: str,
    record_id: str = "",
) -> Visit:
    """Build the row of an exchange; archive and parser add to it.

    A robots.txt has its origin as referrer and its redirect hops as depth, for replay. `record_id`:
    of a record that exists already.
    """
    identity, row = task.identity, task.rows[0] if task.rows else None
    content_type, server, etag, last_modified = [
        (headers.get(name) or "")[:_HEADER_LIMIT] for name in _HEADERS
    ]
    return Visit(
        url=identity.url,
        host=identity.host,
        partition=identity.partition,
        host_key=identity.host_key,
        url_key=identity.url_key,
        kind=exchange.kind,
        collection=collection,
        depth=row.depth if row else task.hop,
        fetched_at=exchange.started_at,
        duration_ms=exchange.duration_ms,
        ip=exchange.ip,
        protocol=exchange.protocol,
        http_status=exchange.status,
        error=exchange.error,
        content_type=media_type(content_type),
        content_length=len(exchange.body),
        server=server,
        etag=etag,
        last_modified=last_modified,
        referrer=row.referrer if row else task.origin,
        attempt=task.attempt,
        truncated=exchange.truncated,
        record_id=record_id,
    )
