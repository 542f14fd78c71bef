"""The tasks of a worker: collections to crawl, and single fetches."""

from __future__ import annotations

from lycosa.config.settings import Collection
from lycosa.core.dataclass import dataclass
from lycosa.core.records import Exchange, UrlId, UrlRow, Visit, VisitKind
from lycosa.http.decode import parse_head


@dataclass(slots=True)
class Task:
    """One fetch that is queued or in flight.

    `rows`: the URL's rows, one per collection; empty for a robots.txt, a login or a requisite.
    `origin`: the origin with the robots.txt that applies, or that is requested.
    """

    identity: UrlId
    rows: tuple[UrlRow, ...]
    origin: str
    kind: VisitKind
    attempt: int = 1
    hop: int = 0
    collection: str = ""  # collection of a task without rows (a login, a requisite)

    referrer: str = ""  # of a requisite: the URL of its page

    @property
    def key(self) -> int:
        """The key of its rows, which have the same operation; 0 without rows."""
        return self.rows[0].key if self.rows else 0


@dataclass(slots=True, frozen=True)
class Job:
    """A collection to be crawled, with its seeds of this and earlier calls.

    `once_since_ms`: URLs that were visited since this time are not fetched again; None: they are.
    """

    collection: Collection
    seeds: tuple[str, ...]
    once_since_ms: int | None = None


_HEADER_LIMIT = 1_000
"""Maximum length of a header value in a table."""
_HEADERS = ("content-type", "server", "etag", "last-modified")


def media_type(content_type: str) -> str:
    """Return the media type of a Content-Type.

    `Text/HTML; charset=x` -> `text/html`.
    """
    return content_type.partition(";")[0].strip().lower()[:_HEADER_LIMIT]


def build_visit(
    exchange: Exchange,
    task: Task,
    collection: str,
    record_id: str = "",
) -> Visit:
    """Build the visit of an exchange without fields of archive and parser.

    A robots.txt has its origin as referrer and its number of redirects as depth, for replay.
    `record_id`: the ID of the record if one exists already.
    """
    identity, row = task.identity, task.rows[0] if task.rows else None
    headers = parse_head(exchange.response_head)
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
