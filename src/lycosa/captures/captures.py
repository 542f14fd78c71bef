"""The captures of one URL: what the tables say of it, newest first.

The rows of a URL lie together in every file of `visits`, which are sorted by its keys: of each file
a row group or two is read. A base file that cannot hold the URL's partition is not even brought to
this machine. (The CDXJ files beside the archive are never merged: a large crawl has a million of
them, and a look-up would have to ask each.)
"""

from __future__ import annotations

import bisect
import re
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import polars as pl

from lycosa.core.errors import UrlError, UsageError, WorkError
from lycosa.core.records import UrlId, UrlState, VisitKind
from lycosa.store.compaction.plan import base_place
from lycosa.store.log.log import EntriesGone
from lycosa.store.log.state import LogState
from lycosa.store.storage.files import DataFile
from lycosa.store.tables.buffers import polars_schema
from lycosa.store.tables.files import ENTRY, scan_file
from lycosa.store.tables.schema import TABLES
from lycosa.store.tables.visible import is_excluded
from lycosa.store.workspace import Workspace
from lycosa.url.keys import Identifier
from lycosa.url.normalise import normalise, typed_url

_HIDDEN_KINDS = [VisitKind.CHECK.value, VisitKind.LOGIN.value]
_COLUMNS = (
    "fetched_at",
    "http_status",
    "error",
    "content_type",
    "content_length",
    "digest",
    "changed",
    "truncated",
    "redirect_to",
)
_PLACE = ("record_id", "warc_file", "warc_offset", "warc_length", "collection", "kind")
_ATTEMPTS = 3
_TIME = re.compile(
    r"(\d{4})-?(\d\d)(?:-?(\d\d)(?:[T "
    r"]?(\d\d)(?::?(\d\d)(?::?(\d\d)(?:\.?(\d{3}))?)?)?)?)?(?:\.\d+)?(?:Z|\+00:?00)?",
    re.ASCII,
)


class NoVersion(WorkError):
    """There is no capture to show. `reason` says why, in words for people."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"{url}: {reason}")
        self.reason = reason


@dataclass(slots=True, frozen=True)
class Capture:
    """One exchange that was archived. `at` in ms since 1970 UTC; `size` in bytes, as transferred.

    `original`: for one that said again what an earlier capture holds (status 304, or the same
    bytes), when that was; its bytes are there. `changed`: its text was another than at the visit
    before.
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
    """Looks up captures in one workspace, as of the newest entry of its log. Threads may share
    it.
    """

    def __init__(self, root: str) -> None:
        self.workspace = Workspace.open(root)
        self._identifier = Identifier(self.workspace.domains, self.workspace.partitions)
        self._state = LogState(self.workspace.log)
        self._lock = threading.Lock()

    def captures(self, url: str) -> list[Capture]:
        """All captures of a URL as people type it, newest first. Each record once, whatever
        collections wanted it.

        Raises:
            UsageError: it is no URL.
            NoVersion: nothing of it was archived, or it is excluded.
            WorkError: table files were deleted repeatedly while they were read.
        """
        identity = self.identify(url)
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return self._captures(identity)
            except FileNotFoundError as error:  # a merge took a file away: read the log again
                if attempt == _ATTEMPTS:
                    raise WorkError(
                        f"table files were deleted three times by compactions ({error}): try again "
                        "when no compaction is running"
                    ) from None
        raise AssertionError

    def identify(self, url: str) -> UrlId:
        """The identity of a URL as people type it. Raises UsageError."""
        try:
            return self._identifier.identify(normalise(typed_url(url)))
        except UrlError as error:
            raise UsageError(f"{url!r} is not the URL of a page: {error}") from None

    def live_texts(self, capture: Capture) -> tuple[str, str, str] | None:
        """Title, main text and all text of a capture that is the newest parse of its page; None: it
        is not, or has none.

        Raises:
            FileNotFoundError: a table's file went away meanwhile.
        """
        identity = self.identify(capture.url)
        rows = self._rows("pages", identity, ("title", "main_text", "text", "record_id"))
        found = rows.filter(pl.col("record_id") == capture.record_id).tail(1)
        return (
            None
            if not found.height
            else (found.item(0, "title"), found.item(0, "main_text"), found.item(0, "text"))
        )

    def _captures(self, identity: UrlId) -> list[Capture]:
        if self._refreshed().exclusions.excluded(identity.url, identity.host):
            # nor said that there is a rule
            raise NoVersion(identity.url, "no copy of this page is archived")
        rows = self._rows("visits", identity, (*_COLUMNS, *_PLACE)).filter(
            (pl.col("record_id") != "")
            & ~pl.col("kind").is_in(_HIDDEN_KINDS)
            & (pl.col("http_status") > 0)
        )
        if not rows.height:
            raise NoVersion(identity.url, "no copy of this page is archived")
        stopped = self._stopped(identity)
        if stopped:
            raise NoVersion(
                identity.url, f"copies of this page are not shown: it is excluded ({stopped})"
            )
        return _in_order(identity.url, rows)

    def _stopped(self, identity: UrlId) -> str:
        """Why no collection keeps the URL: the reason of the newest row; "": one does."""
        rows = self._rows("urls", identity, ("collection", "operation", "state", "reason"))
        latest = rows.filter(pl.col("operation") == "").unique(
            subset=["collection"], keep="last", maintain_order=True
        )
        if not latest.height or (latest.get_column("state") != UrlState.EXCLUDED.value).any():
            return ""
        return str(latest.item(latest.height - 1, "reason"))

    def _rows(self, name: str, identity: UrlId, columns: Sequence[str]) -> pl.DataFrame:
        """A URL's rows of a table, in the order of their entries."""
        table = TABLES[name]
        with self._lock:  # another thread may read the log on meanwhile
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
            try:
                self._state.refresh()
            except EntriesGone:
                self._state = self.workspace.state()
            return self._state


def files_holding(files: Iterable[DataFile], partition: int) -> list[DataFile]:
    """Those of a table's live files that may hold rows of a partition: of a collection's base,
    which lies in the order of its partitions, those that begin at or before it and are not followed
    by one that does so too.
    """
    found: list[DataFile] = []
    base: dict[tuple[str, int], list[tuple[int, DataFile]]] = {}
    for file in files:
        place = base_place(file.path)
        if place is None:
            found.append(file)
        else:
            base.setdefault((place[0], file.entry), []).append((place[1], file))
    for parts in base.values():
        parts.sort(key=lambda part: part[0])
        starts = [start for start, _ in parts]
        last = bisect.bisect_right(starts, partition)
        first = bisect.bisect_left(starts, starts[last - 1]) if last else 0
        found += [file for _, file in parts[first:last]]
    return sorted(found, key=lambda file: file.entry)


def _in_order(url: str, rows: pl.DataFrame) -> list[Capture]:
    """The captures, newest first; each repetition with the time of what it repeats."""
    by_record: dict[str, Capture] = {}
    for row in rows.with_columns(pl.col("fetched_at").dt.epoch("ms")).iter_rows(named=True):
        known = by_record.get(row["record_id"])
        if known is not None:  # of another collection; its text may have been new to that one
            by_record[known.record_id] = replace(
                known,
                collections=(*known.collections, row["collection"]),
                changed=known.changed or row["changed"],
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
    found: list[Capture] = []
    whole: dict[str, int] = {}  # digest -> when its bytes were archived first
    newest: int | None = None
    for capture in sorted(by_record.values(), key=lambda each: each.at):
        original = whole.get(capture.digest) if not capture.changed and is_page(capture) else None
        if capture.status == 304 and original is None:
            original = newest
        if original is None and is_page(capture) and capture.status != 304:
            newest = whole[capture.digest] = capture.at
        found.append(replace(capture, original=original))
    return found[::-1]


def is_page(capture: Capture) -> bool:
    """Whether it is, or repeats, an answer with a content of its own."""
    return (200 <= capture.status < 300 and not capture.redirect_to) or capture.status == 304


def capture_at(captures: Sequence[Capture], at_ms: int | None) -> Capture:
    """Of captures, newest first, the newest up to a time, else the oldest; without a time the
    newest that is a page, if there is one.
    """
    if at_ms is None:
        return next((capture for capture in captures if is_page(capture)), captures[0])
    return next((capture for capture in captures if capture.at <= at_ms), captures[-1])


def parse_at(text: str) -> int:
    """The last millisecond of a time as people or archives write it: `2026-11-21`,
    `2026-11-21T10:15Z`, `20261121101500`; in UTC.

    Raises:
        UsageError: it is none.
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
    """`2026-11-21T10:15:30.123Z`"""
    return (
        datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        + f".{at_ms % 1000:03d}Z"
    )


def written_at(at_ms: int) -> str:
    """A time to the millisecond as `parse_at` reads it back: `20261121101530123`."""
    return (
        datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y%m%d%H%M%S") + f"{at_ms % 1000:03d}"
    )
