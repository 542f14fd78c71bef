"""Exports of a workspace."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any, BinaryIO, TypedDict, Unpack

from lycosa.api.checked_calls import accepts
from lycosa.api.groups import Part
from lycosa.commands.inspection.search import language_filter
from lycosa.commands.maintenance.export import (
    BulkOptions,
    LibraryOptions,
    export_pages,
    load_bulk,
)
from lycosa.core.parameters import calendar_day, moment_ms
from lycosa.core.units import parse_size
from lycosa.crawl.documents.pool import document_limits
from lycosa.export.archives.wacz import WaczReport, export_wacz
from lycosa.export.archives.warc import WarcReport, WarcSelection, export_warc
from lycosa.export.bulk.actions import BulkSelection
from lycosa.export.bulk.bulk import BulkReport, export_jsonl
from lycosa.export.chunks.files import ChunkOptions, ChunkReport, export_chunks
from lycosa.export.library.editions import UNKNOWN, LibrarySelection
from lycosa.export.library.library import LibraryReport
from lycosa.export.markdown.pages import MarkdownReport, export_llms, export_markdown
from lycosa.export.mirror.mirror import MirrorReport, export_mirror
from lycosa.fields.export import ItemReport, ItemSelection, export_items
from lycosa.page.html.markdown import markdown_mode
from lycosa.url.site_name import site_name


class CaptureArguments(TypedDict, total=False):
    """Which captures to export; default: all.

    `since`: a day or time, UTC without a zone, or milliseconds since 1970 UTC.
    """

    language: str
    collection: str
    site: str
    since: date | int


class Exports(Part):
    """Exports of a workspace. Dates are UTC. Unknown collections and languages are UsageErrors."""

    def library(
        self,
        kind: str,
        target: str,
        *,
        language: str = "",
        collection: str = "",
        since: date | None = None,
        until: date | None = None,
        options: LibraryOptions = LibraryOptions(),
    ) -> LibraryReport:
        """Export pages by language and day: "xml", "jsonl", "parquet" or "text" (WET).

        Raises:
            WorkError: a file cannot be written, or table files were replaced meanwhile.
        """
        self._store(collection)
        days = calendar_day(since), calendar_day(until)
        if language != UNKNOWN:
            language = language_filter(language)
        selection = LibrarySelection(language, collection, *days, options.full)
        return export_pages(self._root, self._workspace.config(), kind, target, selection, options)

    @accepts(CaptureArguments)
    def warc(
        self,
        target: str,
        *,
        max_size: str = "1GB",
        responses_only: bool = False,
        **captures: Unpack[CaptureArguments],
    ) -> WarcReport:
        """Export captures as WARC files with a CDXJ index."""
        return export_warc(
            self._store(captures.get("collection", "")),
            target,
            _selection(captures),
            max_file_bytes=parse_size(max_size),
            responses_only=responses_only,
        )

    @accepts(CaptureArguments)
    def wacz(
        self,
        target: str,
        *,
        title: str = "",
        responses_only: bool = False,
        **captures: Unpack[CaptureArguments],
    ) -> WaczReport:
        """Export captures as one WACZ file for web-archive players."""
        return export_wacz(
            self._store(captures.get("collection", "")),
            target,
            _selection(captures),
            title=title,
            responses_only=responses_only,
        )

    def mirror(self, site: str, target: str, *, collection: str = "") -> MirrorReport:
        """Export a site as an offline mirror."""
        return export_mirror(self._store(collection), site, target, collection=collection)

    def markdown(
        self, target: str, *, site: str = "", collection: str = "", mode: str = "main"
    ) -> MarkdownReport:
        """Export each page as a Markdown file with front matter. `mode`: see `Workspace.fetch`."""
        return export_markdown(
            self._store(collection),
            target,
            site=site,
            collection=collection,
            mode=markdown_mode(mode),
            documents=document_limits(self._workspace.config()),
        )

    def llms(self, site: str, target: str, *, collection: str = "") -> MarkdownReport:
        """Write `llms.txt` and `llms-full.txt` of a site into a directory."""
        return export_llms(
            self._store(collection),
            site,
            target,
            collection=collection,
            documents=document_limits(self._workspace.config()),
        )

    def items(
        self, path: str, *, schema: str = "", collection: str = "", invalid: bool = False
    ) -> ItemReport:
        """Write the items of a schema to a .jsonl, .csv or .parquet file.

        `invalid`: also items without a required field.
        """
        selection = ItemSelection(schema, collection, invalid)
        return export_items(self._store(collection), path, selection)

    def chunks(
        self, target: str, options: ChunkOptions = ChunkOptions(), *, again: bool = False
    ) -> ChunkReport:
        """Export pages in chunks for language models.

        Only changes since the last export into this folder are written. `again`: remove the files
        of earlier exports, and export all chunks.

        Raises:
            UsageError: an option is wrong, or the folder was exported with other options.
        """
        return export_chunks(self._store(options.collection), target, options, again=again)

    def jsonl(self, output: BinaryIO, selection: BulkSelection = BulkSelection()) -> int:
        """Write every live page as one line of JSON; return their number."""
        return export_jsonl(self._store(selection.collection), selection, output)

    def bulk(
        self,
        kind: str,
        url: str,
        options: BulkOptions = BulkOptions(),
        report: Callable[[str], None] = lambda message: None,
    ) -> BulkReport:
        """Load pages into "opensearch" or "quickwit". Later calls send only changes."""
        self._store(options.selection.collection)
        return load_bulk(self._root, kind, url, options, report)


def _selection(captures: CaptureArguments) -> WarcSelection:
    values: dict[str, Any] = {**captures}
    site, language = values.pop("site", ""), language_filter(values.pop("language", ""))
    since = moment_ms(values.pop("since", 0))
    where = site_name(site) if site else None
    return WarcSelection(**values, language=language, site=where, since=since)
