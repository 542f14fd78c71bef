"""`import`: archive, parse and commit captures of other archives.

A capture is processed like a replayed exchange (`lycosa.crawl.recovery.replay`), without network
and robots.txt: archive first, then rows, pages and links. It keeps its WARC-Record-ID, so a second
import is recognised. The collection's scope applies to links; to the pages themselves only if the
call requests it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

import polars as pl
from cachetools import FIFOCache

from lycosa.archive.import_formats import ImportedCapture
from lycosa.archive.warc.metadata import Revisited
from lycosa.archive.warc.reader import read_response
from lycosa.core.errors import ArchiveError, Refusal, UrlError
from lycosa.core.records import KINDS_WITHOUT_ROWS, UrlId, UrlRow, Visit, VisitKind
from lycosa.crawl.admission.discovery import KINDS
from lycosa.crawl.admission.remote_links import Provenance
from lycosa.crawl.policy.outcome import REDIRECTS
from lycosa.crawl.processing.response_processor import Replayed, ResponseProcessor
from lycosa.crawl.recovery.replay import committed_ids
from lycosa.crawl.state.task import Task, build_visit
from lycosa.fetch.robots_txt import robots_url
from lycosa.http.decode import parse_head
from lycosa.store.tables.live import LiveTables
from lycosa.url.normalise import LinkResolver, normalise
from lycosa.url.scope import url_origin

_CHUNK_CAPTURES = 500
_CHUNK_BYTES = 16 * 2**20
_RECENT_IDS = 50_000  # record IDs that may not be in the tables yet: more than two batches
_REDIRECTS_KEPT = 10_000
_LATER_KEPT = 20_000  # revisits that wait for the end of a file or of all files


@dataclass(slots=True)
class Imported:
    """Counts of an import.

    Each of the `captures` is also counted in `imported`, in `already_there`, or in `left_out` by
    reason. `truncated`: imported captures whose body is larger than `fetch.max_body`. `others`:
    records that are not captures, by type. `damaged`: file -> problem.
    """

    files: int = 0
    captures: int = 0
    imported: int = 0
    pages: int = 0
    already_there: int = 0
    truncated: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    others: Counter[str] = field(default_factory=Counter)
    damaged: dict[str, str] = field(default_factory=dict)

    def count_captures(self, number: int) -> None:
        self.captures += number

    def count_imported(self, pages: int, *, truncated: bool) -> None:
        self.imported += 1
        self.pages += pages
        self.truncated += truncated

    def count_repeated(self) -> None:
        """Count a capture that was imported before."""
        self.already_there += 1


@dataclass(slots=True)
class _StoredRows:
    """Stored data for one chunk: committed record IDs, and rows of URLs."""

    ids: frozenset[str]
    rows: dict[int, UrlRow]


class _Place(NamedTuple):
    """The location of an original, and its capture."""

    file: str
    offset: int
    length: int
    revisited: Revisited


class Importer:
    """Imports captures into one collection of a crawl with loaded tables.

    `tables` returns the current live tables; `locate` the local path of a workspace's file;
    `commit_if_due` is called after each capture, so that memory is bounded, and `commit_now` before
    committed rows are read. `in_scope`: skip pages outside the collection's scope.
    """

    def __init__(
        self,
        processor: ResponseProcessor,
        collection: str,
        *,
        tables: Callable[[], LiveTables],
        locate: Callable[[str], str],
        commit_if_due: Callable[[], None],
        commit_now: Callable[[], None],
        in_scope: bool = False,
    ) -> None:
        self.report = Imported()
        self._processor = processor
        self._crawl = processor.crawl
        self._collection = collection
        self._gate = self._crawl.assignments[collection].gate
        self._tables, self._locate = tables, locate
        self._commit_if_due, self._commit_now = commit_if_due, commit_now
        self._in_scope = in_scope
        self._recent: FIFOCache[str, bool] = FIFOCache(_RECENT_IDS)
        # targets of redirects outside the scope
        self._redirected: FIFOCache[str, Provenance] = FIFOCache(_REDIRECTS_KEPT)
        self._deferred: list[ImportedCapture] = []
        self._unresolved: list[ImportedCapture] = []  # originals may be in later files

    def take(self, name: str, captures: Iterable[ImportedCapture]) -> None:
        """Import the captures of one file.

        If the file is damaged, the captures that can be read are imported, and the report has the
        error.

        Raises:
            WorkError: the disk is full.
        """
        self.report.files += 1
        chunk: list[ImportedCapture] = []
        size = 0
        try:
            for capture in captures:
                chunk.append(capture)
                size += len(capture.body)
                if len(chunk) >= _CHUNK_CAPTURES or size >= _CHUNK_BYTES:
                    self._chunk(chunk)
                    chunk, size = [], 0
                    if len(self._deferred) >= _LATER_KEPT:
                        self._revisits()
        except ArchiveError as error:
            self.report.damaged[name] = str(error)
        finally:
            self._chunk(chunk)
            self._revisits()

    def finish(self) -> None:
        """Import the revisits whose originals were in later files."""
        self._deferred, self._unresolved = self._unresolved, []
        self._revisits(last=True)

    # -- a chunk
    # ------------------------------------------------------------

    def _chunk(self, chunk: list[ImportedCapture]) -> None:
        if not chunk:
            return
        self.report.count_captures(len(chunk))
        usable = [
            (capture, identity)
            for capture in chunk
            if (identity := self._identify(capture)) is not None
        ]
        stored = self._look_up(usable)
        for capture, identity in usable:
            if capture.record_id in stored.ids or capture.record_id in self._recent:
                self.report.count_repeated()
            elif self._take(capture, identity, stored):
                self._commit_if_due()
        if self._crawl.scheduler.full:
            self._crawl.scheduler.refill()  # parks hosts without due URLs

    def _identify(self, capture: ImportedCapture) -> UrlId | None:
        """Return the capture's URL; None if it is skipped, which is counted."""
        try:
            identity = self._gate.identify(capture.url)
        except UrlError as error:
            self._leave_out(f"url_{error.reason}")
            return None
        if not capture.fetched_at:
            reason = "no_date"
        elif capture.own is None and not capture.is_get:
            reason = "not_get"
        elif self._crawl.excluded(identity.url):
            reason = "excluded"
        elif self._in_scope and not self._gate.takes(identity.url):
            reason = "out_of_scope"
        else:
            return identity
        self._leave_out(reason)
        return None

    def _leave_out(self, reason: str) -> None:
        self.report.left_out[reason] += 1

    def _look_up(self, usable: list[tuple[ImportedCapture, UrlId]]) -> _StoredRows:
        ids = [capture.record_id for capture, _ in usable]
        hosts = sorted({identity.host_key for _, identity in usable})
        # Sorted by host, so that most row groups are skipped.
        visits = (
            self._tables()
            .scan("visits")
            .filter(pl.col("host_key").is_in(hosts) & (pl.col("collection") == self._collection))
        )
        rows = self._crawl.urls.find_all(self._collection, [identity for _, identity in usable])
        return _StoredRows(committed_ids(visits, ids), {row.key: row for row in rows})

    # -- one capture
    # ------------------------------------------------------------

    def _take(self, capture: ImportedCapture, identity: UrlId, stored: _StoredRows) -> bool:
        """Import a capture.

        Returns False if it is skipped, or a deferred revisit, which waits for its original.
        """
        capture.limit_date(self._crawl.clock.now_ms())
        kind = _kind(capture, identity.url)
        revisit_of = None
        if capture.revisit is not None:
            row = self._row(identity, stored) if kind == VisitKind.PAGE else None
            revisit_of = _same_url(capture, row, identity.url)
            if revisit_of is None or not capture.status:
                self._deferred.append(capture)
                return False
        return self._absorb(capture, identity, kind, stored, revisit_of)

    def _absorb(
        self,
        capture: ImportedCapture,
        identity: UrlId,
        kind: str,
        stored: _StoredRows,
        revisit_of: Revisited | None,
    ) -> bool:
        """Archive and process a capture; return whether it is not skipped."""
        exchange = capture.exchange(identity.url, kind)
        visit = self._visit(capture, identity)
        replayed = Replayed(visit, revisit_of)
        origin = url_origin(identity.url)
        row = self._enter(identity, visit, stored) if kind == VisitKind.PAGE else None
        if row is None and kind == VisitKind.PAGE:
            self._leave_out("key_collision")
            return False
        self._recent[capture.record_id] = True
        if row is None:
            # requests other than for pages are only archived: the next crawl sends its own
            row_of_collection = UrlRow(
                identity, self._collection, visit.depth, referrer=visit.referrer
            )
            self._processor.record(
                exchange,
                Task(identity, (row_of_collection,), origin, VisitKind(kind), visit.attempt),
                replayed,
            )
            self.report.count_imported(0, truncated=capture.cut)
            return True
        task = Task(identity, (row,), origin, VisitKind.PAGE, visit.attempt)
        if row.visited_at >= exchange.started_at:
            # older than the last visit: only archived
            self._processor.record(exchange, task, replayed)
            self.report.count_imported(0, truncated=capture.cut)
            return True
        if exchange.status in REDIRECTS:
            self._note_redirect(row, visit.redirect_to)
        queue = self._crawl.hosts.queue(identity)
        self._crawl.frontier.active.remove(self._collection, identity.host_key, row.key)
        latency, latency_ms = queue.latency, queue.row.latency_ms
        pages = self._crawl.progress.pages
        self._processor.replay(exchange, task, replayed)
        if capture.own is None:  # the latency of the capture is unknown
            queue.restore_latency(latency, latency_ms)
        self.report.count_imported(self._crawl.progress.pages - pages, truncated=capture.cut)
        return True

    def _visit(self, capture: ImportedCapture, identity: UrlId) -> Visit:
        """Return the visit of this program, or one reconstructed from the record."""
        visit = capture.visit
        if visit is None:
            exchange = capture.exchange(identity.url, VisitKind.PAGE)
            headers, task = parse_head(capture.head), Task(identity, (), "", VisitKind.PAGE)
            visit = build_visit(exchange, task, self._collection)
            location = headers.get("location") or ""
            if exchange.status in REDIRECTS and location:
                target = LinkResolver(identity.url).resolve(location)
                visit.record_redirect("" if isinstance(target, Refusal) else target)
        visit.record_id, visit.collection = capture.record_id, self._collection
        return visit

    def _enter(self, identity: UrlId, visit: Visit, stored: _StoredRows) -> UrlRow | None:
        provenance = self._redirected.get(identity.url) or Provenance(visit.referrer)
        try:
            self._gate.enter_imported(identity, visit.depth, self._crawl.clock.now_ms(), provenance)
        except KeyError:
            return None
        row = self._row(identity, stored)
        assert row is not None
        stored.rows[row.key] = row
        return row

    def _row(self, identity: UrlId, chunk_rows: _StoredRows) -> UrlRow | None:
        stored = chunk_rows.rows.get(identity.url_key)
        return self._crawl.urls.current(self._collection, identity, stored)

    def _note_redirect(self, row: UrlRow, target: str) -> None:
        """Remember a redirect out of scope.

        If its target is imported, it gets the redirect as referrer.
        """
        if target and not self._gate.takes(target):
            self._redirected[target] = Provenance(
                row.id.url, row.redirects + 1, row.redirect_from or row.id.url
            )

    # -- revisits
    # ------------------------------------------------------------

    def _revisits(self, *, last: bool = False) -> None:
        """Process the deferred revisits: of another URL, of an older capture, or without a head.

        They become complete captures, with the bodies of their originals; those of status 304
        remain revisits.
        """
        later, self._deferred = self._deferred, []
        if not later:
            return
        self._commit_now()
        stored = self._look_up([(capture, self._gate.identify(capture.url)) for capture in later])
        places = self._places([capture.revisit for capture in later if capture.revisit is not None])
        for capture in later:
            assert capture.revisit is not None
            if capture.record_id in stored.ids or capture.record_id in self._recent:
                self.report.count_repeated()
                continue
            identity = self._gate.identify(capture.url)
            kind = _kind(capture, identity.url)
            row = self._row(identity, stored) if kind == VisitKind.PAGE else None
            revisit_of = _same_url(capture, row, identity.url) if capture.status else None
            if revisit_of is None:
                matches = [places[name] for name in _names(capture.revisit) if name in places]
                if not matches and not last and len(self._unresolved) < _LATER_KEPT:
                    self._unresolved.append(capture)
                    continue
                if not matches or not self._resolve(capture, matches[0], row):
                    self._leave_out("revisit_without_original")
                    continue
                revisit_of = matches[0].revisited if capture.revisit is not None else None
            self._absorb(capture, identity, kind, stored, revisit_of)
            self._commit_if_due()

    def _resolve(self, capture: ImportedCapture, place: _Place, row: UrlRow | None) -> bool:
        """Complete a revisit with its original; return whether that is possible.

        One of status 304 stays a revisit: it is an older version of its own URL.
        """
        if capture.status == 304:
            at = capture.fetched_at
            return row is not None and row.id.url == place.revisited.url and row.visited_at >= at
        original = read_response(self._locate(place.file), place.offset, place.length)
        if not original.head or original.headers.get("warc-type") not in ("response", "resource"):
            return False
        capture.complete(original.head, original.body)
        return True

    def _places(self, originals: list[Revisited]) -> dict[str, _Place]:
        """Return the locations of committed originals, by the names of `_names`.

        Of equal payloads, the first: later ones may be revisits.
        """
        tables = self._tables()
        original_names = {name for original in originals for name in _names(original)}
        plain = [name for name in original_names if " " not in name]
        urls = [name.partition(" ")[2] for name in original_names if " " in name]
        rows = (
            tables.scan("visits")
            .filter((pl.col("content_length") > 0) & (pl.col("http_status") > 0))
            .filter(
                pl.col("record_id").is_in(plain)
                | pl.col("digest").is_in(plain)
                | pl.col("url").is_in(urls)
            )
            .sort("fetched_at")
            .select(
                "warc_file",
                "warc_offset",
                "warc_length",
                "url",
                pl.col("fetched_at").dt.epoch("ms"),
                "record_id",
                "digest",
            )
            .collect()
        )
        places: dict[str, _Place] = {}
        for file, offset, length, *original in rows.iter_rows():
            place = _Place(file, offset, length, Revisited(*original))
            url, at, record_id, digest = place.revisited
            for name in (record_id, f"{at // 1000} {url}", digest):
                if name in original_names:
                    places.setdefault(name, place)
        return places


def _names(original: Revisited) -> list[str]:
    """Return the names of a revisit's original, most exact first.

    These are its record ID, its time in seconds with its URL, and the digest of its payload.
    """
    names = [original.record_id]
    if original.url and original.fetched_at:
        with suppress(UrlError):
            names.append(f"{original.fetched_at // 1000} {normalise(original.url)}")
    return [name for name in (*names, original.digest) if name]


def _same_url(capture: ImportedCapture, row: UrlRow | None, url: str) -> Revisited | None:
    """Return the row's capture if a revisit refers to it, else None.

    A server sends status 304 if the newest capture at that time is the current version.
    """
    original = capture.revisit
    if row is None or not row.record_id or original is None:
        return None
    names = {f"{row.captured_at // 1000} {row.id.url}", row.record_id, row.digest}
    unmodified = capture.status == 304 and row.captured_at <= capture.fetched_at
    fits = unmodified or bool(names.intersection(_names(original)))
    return Revisited(url, row.captured_at, row.record_id, row.digest) if fits else None


def _kind(capture: ImportedCapture, url: str) -> str:
    """Return the kind of a visit."""
    if capture.visit is not None:
        is_other = capture.visit.kind in KINDS_WITHOUT_ROWS or capture.visit.kind in KINDS
        return capture.visit.kind if is_other else VisitKind.PAGE
    return VisitKind.ROBOTS if url == robots_url(url_origin(url)) else VisitKind.PAGE
