"""Documents that are archived and not understood yet.

A document goes into a WARC of its own kind the moment it has come, so that kill -9 loses none; that
file belongs to no commit. When it is read, its exchange is copied, record id and all, into the
batch that takes its page, as replay copies what an earlier worker left. So a batch's exchanges stay
exactly those of its WARC, and no commit waits for a slow document.

A file is removed when everything in it is committed elsewhere. Until then it is what a killed
worker leaves: an orphan, which the next owner replays. Its folder's number puts it behind the
batches of its claim, for the page that names a document comes before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lycosa.archive.warc.reader import read_response
from lycosa.archive.warc.writer import WarcWriter
from lycosa.core.records import Exchange, Visit
from lycosa.store.log.claim import Claim, DataFolder


@dataclass(slots=True)
class _File:
    folder: DataFolder
    warc: WarcWriter
    unparsed: set[str] = field(default_factory=set)  # record ids
    last_cut: int = 0  # the batch that the last of the others went into

    def moved(self, record_id: str, cut: int) -> None:
        self.unparsed.discard(record_id)
        self.last_cut = cut


class UnparsedDocuments:
    """The files of one claim. Not for two threads."""

    def __init__(self, claim: Claim, info: Mapping[str, str]) -> None:
        self._claim = claim
        self._info = info
        self._open: _File | None = None
        self._files: list[_File] = []
        self._of: dict[str, tuple[_File, int, int]] = {}  # record id -> file, offset, length

    def __len__(self) -> int:
        return len(self._of)

    def archive(self, exchange: Exchange, visit: Visit) -> None:
        """Append a document; when this returns it survives kill -9. Fills the visit's archive
        fields.

        Raises:
            WorkError: the disk does not take it.
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
        """The body of a document that waits, from its file."""
        file, offset, length = self._of[record_id]
        return read_response(file.warc.path, offset, length).body

    def moved(self, record_id: str, cut: int) -> None:
        """A document was read, and stands in a batch: the one that is cut as number `cut`."""
        file, _, _ = self._of.pop(record_id)
        file.moved(record_id, cut)

    def seal(self) -> None:
        """What comes from now on goes into another file, so that this one can come to its end."""
        if self._open is not None:
            self._open.warc.close(sync=False)
            self._open = None

    def committed(self, cut: int) -> None:
        """The batches up to this number are committed: files that hold nothing else are removed."""
        done = [file for file in self._files if not file.unparsed and file.last_cut <= cut]
        for file in done:
            if file is self._open:
                self.seal()
            self._claim.discard(file.folder)
        self._files = [file for file in self._files if file not in done]

    def abandon(self) -> None:
        """Leave what is not committed for replay."""
        if self._open is not None:
            self._open.warc.close(sync=True)
            self._open = None
