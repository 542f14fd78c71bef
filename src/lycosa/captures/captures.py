"""The captures of one URL, newest first, from the tables.

Files of `visits` are sorted by key, so one or two row groups per file are read. Base files of other
partitions are not downloaded. (CDXJ files are never merged: with a million of them, a look-up
would read each.)
"""

from __future__ import annotations

import bisect
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import polars as pl

from lycosa.core.errors import UrlError, UsageError, WorkError
from lycosa.core.messages import Message
from lycosa.core.records import UrlId, UrlState, VisitKind
from lycosa.store.log.state import LogState
from lycosa.store.storage.files import DataFile
from lycosa.store.tables.files import ENTRY, polars_schema, scan_file
from lycosa.store.tables.live import first_partition, retried, sources
from lycosa.store.tables.schema import TABLES
from lycosa.store.tables.visible import is_excluded
from lycosa.store.workspace import Workspace
from lycosa.url.keys import Identifier
from lycosa.url.normalise import normalise, typed_url

_HIDDEN_KINDS = [VisitKind.CHECK.value, VisitKind.LOGIN.value]
_COLUMNS = (
    *("fetched_at", "http_status", "error", "content_type", "content_length", "digest"),
    *("changed", "truncated", "redirect_to"),
)
_PLACE = ("record_id", "warc_file", "warc_offset", "warc_length", "collection", "kind")
_TIME = re.compile(
    r"(\d{4})-?(\d\d)(?:-?(\d\d)(?:[T "
    r"]?(\d\d)(?::?(\d\d)(?::?(\d\d)(?:\.?(\d{3}))?)?)?)?)?(?:\.\d+)?(?:Z|\+00:?00)?",
    re.ASCII,
)


NO_COPY = Message("no_copy", "No copy of this page is archived")


class NoVersion(WorkError):
    """There is no capture to show. `reason` is for users."""

    def __init__(self, url: str, reason: Message) -> None:
        super().__init__(f"{url}: {reason[:1].lower()}{reason[1:]}")
        self.reason = reason


@dataclass(slots=True, frozen=True)
class Capture:
    """One archived exchange. `at` in ms since 1970 UTC; `size` in bytes, as transferred.

    `original`: the time of the earlier capture with the same content (status 304, or the same
    bytes). `changed`: the text differs from that of the previous visit.
    """

    url: str
    at: int
    status: int
    error: str
    content_type: str
    size: int
    digest: str
    changed: bool
    truncated: str
    redirect_to: str
    record_id: str
    warc_file: str
    warc_offset: int
    warc_length: int
    collections: tuple[str, ...]
    kind: str
    original: int | None = None


class CaptureHistory:
    """Looks up captures in the current state of a workspace. Thread-safe."""

    def __init__(self, root: str) -> None:
        self.workspace = Workspace.open(root)
        self._identifier = Identifier(self.workspace.domains, self.workspace.partitions)
        self._state = LogState(self.workspace.log)
        self._lock = threading.Lock()

    def captures(self, url: str) -> list[Capture]:
        """Return the captures of a typed URL, newest first, each record once.

        Raises:
            UsageError: it is not a URL.
            NoVersion: nothing is archived, or the URL is excluded.
            WorkError: table files were deleted repeatedly while they were read.
        """
        identity = self.identify(url)
        return retried(lambda: self._captures(identity))

    def identify(self, url: str) -> UrlId:
        """Return the identity of a typed URL. Raises UsageError."""
        try:
            return self._identifier.identify(normalise(typed_url(url)))
        except UrlError as error:
            raise UsageError(f"{url!r} is not the URL of a page: {error}") from None

    def live_texts(self, capture: Capture) -> tuple[str, str, str, str | None] | None:
        """Return title, main text, text and Markdown (None: not stored) if the capture is the
        newest parse of its page.

        Raises:
            FileNotFoundError: a replaced table file was deleted meanwhile.
        """
        identity = self.identify(capture.url)
        columns = ("title", "main_text", "text", "markdown")
        rows = self._rows("pages", identity, (*columns, "record_id"))
        parses = rows.filter(pl.col("record_id") == capture.record_id)
        texts = parses.tail(1).select(columns).rows()
        return texts[0] if texts else None

    def _captures(self, identity: UrlId) -> list[Capture]:
        if self._refreshed().exclusions.excluded(identity.url, identity.host):
            # without a hint that there is a rule
            raise NoVersion(identity.url, NO_COPY)
        rows = self._rows("visits", identity, (*_COLUMNS, *_PLACE)).filter(
            (pl.col("record_id") != "")
            & ~pl.col("kind").is_in(_HIDDEN_KINDS)
            & (pl.col("http_status") > 0)
        )
        if not rows.height:
            raise NoVersion(identity.url, NO_COPY)
        reason = self._exclusion(identity)
        if reason:
            raise NoVersion(
                identity.url,
                Message(
                    "copies_excluded",
                    "Copies of this page are not shown: it is excluded ({reason})",
                    reason=reason,
                ),
            )
        return _in_order(identity.url, rows)

    def _exclusion(self, identity: UrlId) -> str:
        """Return the newest reason if all collections exclude the URL, else ""."""
        rows = self._rows("urls", identity, ("collection", "operation", "state", "reason"))
        latest = rows.filter(pl.col("operation") == "").unique(
            subset=["collection"], keep="last", maintain_order=True
        )
        if not latest.height or (latest.get_column("state") != UrlState.EXCLUDED.value).any():
            return ""
        return str(latest.item(latest.height - 1, "reason"))

    def _rows(self, name: str, identity: UrlId, columns: Sequence[str]) -> pl.DataFrame:
        """Return the rows of a URL in a table, in the order of their entries."""
        table = TABLES[name]
        with self._lock:  # another thread may refresh the state
            files = files_holding(self._state.files.get(name, []), identity.partition)
            hidden = is_excluded(self._state.exclusions, name)
        self.workspace.storage.files.prefetch(files)
        here = (
            (pl.col("partition") == identity.partition)
            & (pl.col("host_key") == pl.lit(identity.host_key, pl.UInt64))
            & (pl.col("url_key") == pl.lit(identity.url_key, pl.UInt64))
            & (pl.col("url") == identity.url)
        )
        parts = []
        for file in files:
            rows = scan_file(self.workspace.storage, table, file).filter(here)
            parts.append((rows if hidden is None else rows.filter(~hidden)).select(*columns, ENTRY))
        if not parts:
            schema = polars_schema(table) | {ENTRY: pl.Int64()}
            return pl.DataFrame(schema={column: schema[column] for column in (*columns, ENTRY)})
        return pl.concat(pl.collect_all(parts)).sort(ENTRY, maintain_order=True)

    def _refreshed(self) -> LogState:
        with self._lock:
            self._state.catch_up()
            return self._state


def files_holding(files: Sequence[DataFile], partition: int) -> list[DataFile]:
    """Return the live files of a table that may contain rows of a partition.

    The base files of a collection are ordered by their first partitions.
    """
    selected: list[DataFile] = []
    for source in sources(files):
        starts = list(map(first_partition, source.files))
        last = bisect.bisect_right(starts, partition)
        first = bisect.bisect_left(starts, starts[last - 1]) if last else 0
        selected += source.files[first:last]
    return selected


def _in_order(url: str, rows: pl.DataFrame) -> list[Capture]:
    """Return the captures, newest first, with `original` set."""
    by_record: dict[str, Capture] = {}
    for row in rows.with_columns(pl.col("fetched_at").dt.epoch("ms")).iter_rows(named=True):
        other = by_record.get(row["record_id"])
        if other is not None:  # of another collection, for which the text may be new
            by_record[other.record_id] = replace(
                other,
                collections=(*other.collections, row["collection"]),
                changed=other.changed or row["changed"],
            )
            continue
        by_record[row["record_id"]] = Capture(
            url,
            row["fetched_at"],
            row["http_status"],
            row["error"],
            row["content_type"],
            row["content_length"],
            row["digest"],
            row["changed"],
            row["truncated"],
            row["redirect_to"],
            row["record_id"],
            row["warc_file"],
            row["warc_offset"],
            row["warc_length"],
            (row["collection"],),
            row["kind"],
        )
    captures: list[Capture] = []
    first_seen: dict[str, int] = {}  # digest -> time of the first capture
    newest: int | None = None
    for capture in sorted(by_record.values(), key=lambda each: each.at):
        original = (
            first_seen.get(capture.digest) if not capture.changed and is_page(capture) else None
        )
        if capture.status == 304 and original is None:
            original = newest
        if original is None and is_page(capture) and capture.status != 304:
            newest = first_seen[capture.digest] = capture.at
        captures.append(replace(capture, original=original))
    return captures[::-1]


def is_page(capture: Capture) -> bool:
    """Return whether a capture has content, or repeats it (304)."""
    return (200 <= capture.status < 300 and not capture.redirect_to) or capture.status == 304


def capture_at(captures: Sequence[Capture], at_ms: int | None) -> Capture:
    """Return the newest capture up to a time, else the oldest; without a time the newest page.

    `captures` are in order, newest first.
    """
    if at_ms is None:
        return next((capture for capture in captures if is_page(capture)), captures[0])
    return next((capture for capture in captures if capture.at <= at_ms), captures[-1])


def parse_at(text: str) -> int:
    """Return the last millisecond of a time in UTC: `2026-11-21`, `2026-11-21T10:15Z`,
    `20261121101500`. Raises UsageError.
    """
    match = _TIME.fullmatch(text.strip())
    try:
        if match is None:
            raise ValueError
        year, month, day, hour, minute, second, ms = (
            int(part) if part else None for part in match.groups()
        )
        assert year is not None
        assert month is not None
        begin = datetime(
            year, month, day or 1, hour or 0, minute or 0, second or 0, (ms or 0) * 1000, UTC
        )
        if day is None:
            end = datetime(year + month // 12, month % 12 + 1, 1, tzinfo=UTC)
        elif ms is not None:
            end = begin + timedelta(milliseconds=1)
        else:
            parts = {"days": hour, "hours": minute, "minutes": second}
            unit = next((unit for unit, finer in parts.items() if finer is None), "seconds")
            end = begin + timedelta(**{unit: 1})
    except (ValueError, OverflowError):
        raise UsageError(
            f"{text!r} is not a time: write it as in 2026-11-21, 2026-11-21T10:15 or "
            "20261121101500 (UTC)"
        ) from None
    return round(end.timestamp() * 1000) - 1


def iso(at_ms: int) -> str:
    """Return a time as `2026-11-21T10:15:30.123Z`."""
    return (
        datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        + f".{at_ms % 1000:03d}Z"
    )


def written_at(at_ms: int) -> str:
    """Return a time in the form of archives: `20261121101530123`."""
    return (
        datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y%m%d%H%M%S") + f"{at_ms % 1000:03d}"
    )
