"""Uncommitted data: the next batch, the one being written, and documents.

The documents are archived but not parsed. A batch is one open WARC and the rows of exactly its
exchanges. If all exchanges are availability checks, the WARC is only a journal: the tables have its
content, and it is deleted once they are committed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from lycosa.archive.cdxj import write_cdxj
from lycosa.archive.warc.metadata import Revisited
from lycosa.archive.warc.reader import read_response
from lycosa.archive.warc.writer import WarcWriter
from lycosa.core.dataclass import dataclass
from lycosa.core.host_row import HostRow
from lycosa.core.records import Exchange, Link, Page, UrlId, UrlRow, Visit
from lycosa.crawl.state.events import CrawlListeners, PatternMatch
from lycosa.store.log.archive_files import CDXJ_NAME, WARC_NAME
from lycosa.store.log.claim import Claim, DataFolder
from lycosa.store.log.transaction import CommitContents
from lycosa.store.tables.buffers import Buffers
from lycosa.store.tables.rows import Row, host_row, match_row, url_row
from lycosa.url.keys import host_key


class Batch:
    """Collects the rows and exchanges of one commit.

    The WARC is opened with the first exchange, so an idle worker leaves no empty files.
    """

    def __init__(self, claim: Claim, info: Mapping[str, str]) -> None:
        self._claim = claim
        self._info = info
        self._folder: DataFolder | None = None
        self._warc: WarcWriter | None = None
        self._buffers = Buffers()
        self._archived: list[Visit] = []
        self._urls: dict[int, dict[tuple[str, str, int], UrlRow]] = {}  # by host
        self.url_rows = 0
        self._hosts: dict[int, HostRow] = {}
        self._domains: dict[str, HostRow] = {}
        self.counters: Counter[str] = Counter()
        self.exchanges = 0
        self._checked: list[Visit] = []  # visits that are availability checks
        self.text_bytes = 0
        self.orphans_used: list[str] = []
        self.inbox: list[str] = []
        # partition -> entry up to which found rows are applied, here or in earlier batches
        self.applied: dict[int, int] = {}
        self.applied_due = False  # whether the read positions alone require a commit

    @property
    def empty(self) -> bool:
        holds = self.exchanges or self._urls or self._hosts or self.orphans_used or self.inbox
        return not (holds or self.applied_due or self.remote_urls)

    @property
    def only_checks(self) -> bool:
        """Whether the batch has only availability checks, which may wait."""
        others = (
            self._urls
            or self._hosts
            or self.orphans_used
            or self.inbox
            or self.applied_due
            or self.remote_urls
        )
        return self._is_journal and not others

    @property
    def checks(self) -> int:
        """Number of availability checks in this batch."""
        return len(self._checked)

    @property
    def _is_journal(self) -> bool:
        return self.exchanges == len(self._checked)

    @property
    def remote_urls(self) -> int:
        """Number of URLs of remote partitions in this batch."""
        return self._buffers.found.rows

    def archive(
        self, exchange: Exchange, visit: Visit, revisit_of: Revisited | None = None
    ) -> None:
        """Append to the open WARC; afterwards the exchange survives kill -9.

        Sets the visit's archive fields. `revisit_of`: the earlier capture with the same payload;
        the body is not written again.
        """
        if self._warc is None:
            folder = self._open_folder()
            self._warc = WarcWriter(
                Path(folder.absolute) / WARC_NAME,
                relative_path=f"{folder.relative}/{WARC_NAME}",
                info=self._info,
            )
        self._warc.append(exchange, visit, revisit_of=revisit_of)
        self._archived.append(visit)
        self.exchanges += 1

    def add_visit(self, visit: Visit) -> None:
        self._buffers.add_visit(visit)
        self.counters["visits"] += 1
        self.counters["bytes"] += visit.content_length

    def add_check(self, exchange: Exchange, visit: Visit) -> None:
        """Add an availability check: only a metadata record is archived."""
        self.archive(exchange, visit)
        self._checked.append(visit)

    def add_page(
        self,
        visit: Visit,
        page: Page,
        redirect_from: str,
        values: Mapping[str, Any],
        *,
        links: bool = True,
    ) -> None:
        """Add a page of one collection, with the values of plug-ins.

        Its links are those of the exchange: pass `links` only for the first of several collections.
        """
        self._buffers.add_page(visit, page, redirect_from, values)
        if links:
            self._buffers.links.add_links(visit, page.links)
        self.text_bytes += len(page.text) + len(page.main_text) + len(page.markdown or "")
        if page.items:
            self.text_bytes += sum(len(item.values) for item in page.items)
        self.counters["pages"] += 1

    def add_match(self, visit: Visit, match: PatternMatch) -> None:
        """Add a match of a watched text in the page of a visit."""
        self._buffers.matches.add(
            match_row(visit, match.watch, match.text, match.positions, match.count, match.context)
        )
        self.counters["matches"] += 1

    def add_links(self, visit: Visit, links: list[Link]) -> None:
        """Add links of a response that has no page: of a redirect, of a style sheet."""
        self._buffers.links.add_links(visit, links)

    def add_remote_url(self, row: Row) -> None:
        """Add a row for a URL of a remote partition, which its worker reads.

        See `lycosa.store.tables.rows.found_row`.
        """
        self._buffers.found.add(row)

    def change_urls(self, host_key: int, rows: Iterable[UrlRow]) -> None:
        """Add rows of one host.

        They are written with their values at the time of `cut`.
        """
        of_host = self._urls.get(host_key)
        if of_host is None:
            of_host = self._urls[host_key] = {}
        before = len(of_host)
        for row in rows:
            of_host[row.collection, row.operation, row.id.url_key] = row
        self.url_rows += len(of_host) - before

    def change_url(self, row: UrlRow) -> None:
        """Add a row. It is written with its values when the batch is cut."""
        self.change_urls(row.id.host_key, (row,))

    def urls_of(self, host_key: int) -> Collection[UrlRow]:
        """Return the rows of one host's URLs in this batch."""
        of_host = self._urls.get(host_key)
        return of_host.values() if of_host else ()

    def url(self, host_key: int, collection: str, operation: str, url_key: int) -> UrlRow | None:
        """Return the row of a URL, if it is in this batch."""
        of_host = self._urls.get(host_key)
        return of_host.get((collection, operation, url_key)) if of_host else None

    def host(self, host_key: int) -> HostRow | None:
        """Return the row of a host, if it is in this batch."""
        return self._hosts.get(host_key)

    def change_host(self, row: HostRow) -> None:
        self._hosts[row.host_key] = row

    def change_domain(self, host: HostRow, not_before: int) -> None:
        """Request nothing from the host's domain before `not_before` (ms since 1970)."""
        domain = host.registrable_domain
        row = HostRow(
            "",
            host.partition,
            host_key(domain),
            domain,
            host.last_visit_at,
            host.last_visit_at,
            not_before=not_before,
        )
        before = self._domains.get(domain)
        if before is None or before.not_before < not_before:
            self._domains[domain] = row

    def require_applied(self) -> None:
        """Request a commit for the read positions."""
        self.applied_due = True

    def cut(self, applied: dict[int, int]) -> None:
        """Fix the current values of rows. Later changes are for the next batch.

        `applied`: read positions in the log, by partition. Rows of hosts in remote partitions are
        omitted: a robots.txt may be redirected to such a host.
        """
        self.applied = applied
        for visit in self._checked:
            if self._is_journal:
                visit.set_location(visit.record_id, "", 0, 0)
            self.add_visit(visit)
        # the thread of `commit` encodes them, which takes longer
        self._buffers.urls.add_unpacked(
            url_row(url) for of_host in self._urls.values() for url in of_host.values()
        )
        self._buffers.hosts.add_unpacked(
            host_row(host)
            for host in (*self._hosts.values(), *self._domains.values())
            if host.partition in self._claim.partitions
        )

    def commit(self) -> int:
        """Write all files, then the log entry, and return its number.

        Call `cut` first. Another thread may fill the next batch meanwhile.

        Raises:
            ClaimLost: another worker holds the partitions.
        """
        folder = self._open_folder()
        warc = cdxj = None
        if self._warc is not None:
            self._warc.close(sync=True)
        if self._warc is not None and not self._is_journal:
            warc = f"{folder.relative}/{WARC_NAME}"
            cdxj = f"{folder.relative}/{CDXJ_NAME}"
            write_cdxj(
                Path(folder.absolute) / CDXJ_NAME,
                self._archived,
                record_types=self._warc.record_types,
            )
        entry = self._claim.commit(
            folder,
            self._buffers.mapping(),
            CommitContents(
                warc=warc,
                cdxj=cdxj,
                orphans_used=tuple(self.orphans_used),
                inbox=tuple(self.inbox),
                applied=self.applied,
                counters=self.counters,
            ),
        )
        if self._warc is not None and warc is None:
            self._claim.drop_journal(folder)
        return entry

    def abandon(self) -> None:
        """Close the open WARC without committing it. It remains for replay."""
        if self._warc is not None:
            self._warc.close(sync=True)

    def _open_folder(self) -> DataFolder:
        if self._folder is None:
            self._folder = self._claim.next_folder()
        return self._folder


class CommitBuffer:
    """Uncommitted rows, which override the rows of the tables.

    `batch`: for the next commit; `cut`: in the commit that is being written.
    """

    def __init__(self, claim: Claim, info: dict[str, str], listeners: CrawlListeners) -> None:
        self._claim = claim
        self._info = info
        self._listeners = listeners
        self.claim_number, self.claimed_partitions = claim.entry, claim.partitions
        self.batch = Batch(claim, info)
        self.cut: Batch | None = None
        self.cuts = 0  # number of cut batches
        self.unparsed = UnparsedDocuments(claim, info)

    def next_batch(self) -> Batch:
        """Cut and return the current batch, and start another.

        Call `committed` when the commit of the cut batch is written.
        """
        for listener in self._listeners:
            listener.before_commit()
        batch = self.batch
        if not batch.empty:
            self.batch = Batch(self._claim, self._info)
            self.cut = batch
            self.cuts += 1
            self.unparsed.seal()
            applied: dict[int, int] = {}
            for listener in self._listeners:
                applied.update(listener.applied_entries())
            batch.cut(applied)
        return batch

    def committed(self) -> None:
        """Record that the last cut batch is committed."""
        self.cut = None
        self.unparsed.committed(self.cuts)
        self._report_log()

    def follow_log(self) -> None:
        """Read new log entries. Call it while no commit is being written.

        An idle worker must apply compactions before the replaced files are deleted.

        Raises:
            ClaimLost: another worker holds the partitions.
        """
        before = self._claim.state.head
        self._claim.check()
        if self._claim.state.head != before:
            self._report_log()

    def _report_log(self) -> None:
        for listener in self._listeners:
            listener.log_advanced(self._claim.state)

    def pending_urls(self, host_key: int) -> Iterator[UrlRow]:
        """Yield the uncommitted rows of a host's URLs.

        Of two versions of a row, the newer one is last.
        """
        if self.cut is not None:
            yield from self.cut.urls_of(host_key)
        yield from self.batch.urls_of(host_key)

    def pending_url(self, identity: UrlId, collection: str, operation: str) -> UrlRow | None:
        """Return the uncommitted row of a URL, if there is one."""
        key = (identity.host_key, collection, operation, identity.url_key)
        row = self.batch.url(*key)
        return row if row is not None or self.cut is None else self.cut.url(*key)

    def pending_host(self, host_key: int) -> HostRow | None:
        """Return the uncommitted row of a host, if there is one."""
        row = self.batch.host(host_key)
        return row if row is not None or self.cut is None else self.cut.host(host_key)


@dataclass(slots=True)
class _File:
    folder: DataFolder
    warc: WarcWriter
    unparsed: set[str] = field(default_factory=set)  # record ids
    last_cut: int = 0  # number of the last batch with one of its parsed documents

    def moved(self, record_id: str, cut: int) -> None:
        self.unparsed.discard(record_id)
        self.last_cut = cut


class UnparsedDocuments:
    """WARC files of documents that are archived and not parsed. Not thread-safe.

    A document is written to such a file on arrival, so that kill -9 loses none; the file belongs to
    no commit. After parsing, its exchange is copied with its record ID into the batch of its page,
    so that no commit waits for a slow document. A file is removed when all its documents are
    committed in batches; until then the next owner replays it. The number of its folder is higher
    than those of the batches of its claim, so that replay reads the page with the link first.
    """

    def __init__(self, claim: Claim, info: Mapping[str, str]) -> None:
        self._claim = claim
        self._info = info
        self._open: _File | None = None
        self._files: list[_File] = []
        self._of: dict[str, tuple[_File, int, int]] = {}  # record id -> file, offset, length

    def __len__(self) -> int:
        return len(self._of)

    def archive(self, exchange: Exchange, visit: Visit) -> None:
        """Append a document; afterwards it survives kill -9.

        Sets the visit's archive fields.

        Raises:
            WorkError: writing to the disk failed.
        """
        file = self._open
        if file is None:
            folder = self._claim.next_folder(unparsed=True)
            warc = WarcWriter(
                Path(folder.absolute) / Path(folder.warc).name,
                relative_path=folder.warc,
                info=self._info,
            )
            file = self._open = _File(folder, warc)
            self._files.append(file)
        file.warc.append(exchange, visit)
        file.unparsed.add(visit.record_id)
        self._of[visit.record_id] = (file, visit.warc_offset, visit.warc_length)

    def body(self, record_id: str) -> bytes:
        """Return the body of a waiting document, from its file."""
        file, offset, length = self._of[record_id]
        return read_response(file.warc.path, offset, length).body

    def moved(self, record_id: str, cut: int) -> None:
        """Record that a document was parsed into the batch number `cut`."""
        file, _, _ = self._of.pop(record_id)
        file.moved(record_id, cut)

    def seal(self) -> None:
        """Close the file.

        It can be removed when all its documents are committed.
        """
        if self._open is not None:
            self._open.warc.close(sync=False)
            self._open = None

    def committed(self, cut: int) -> None:
        """Record that the batches up to this number are committed.

        Removes files with no other documents.
        """
        done = [file for file in self._files if not file.unparsed and file.last_cut <= cut]
        for file in done:
            if file is self._open:
                self.seal()
            self._claim.discard(file.folder)
        self._files = [file for file in self._files if file not in done]

    def abandon(self) -> None:
        """Close the open file. Its documents remain for replay."""
        if self._open is not None:
            self._open.warc.close(sync=True)
            self._open = None
