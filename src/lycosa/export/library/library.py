"""The library: pages by language and day, in files for those who work on them.

Two passes over the tables. The first says what each day of each language holds, as a fingerprint;
days that stand already are left. The second goes through the others in the order of the keys, and
writes many days side by side. Memory: some tens of MB of rows and 128 KB a day that is open; the
plan takes about 200 bytes a day.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from hashlib import sha1
from pathlib import Path
from typing import NamedTuple

import polars as pl

from lycosa.core.errors import WorkError
from lycosa.crawl.processing.page_reader import ParseFunction
from lycosa.export.bulk.join import side_by_side
from lycosa.export.library.day_writer import Place as DocumentPlace
from lycosa.export.library.day_writer import Shelf
from lycosa.export.library.documents import LINK_COLUMNS, documents
from lycosa.export.library.editions import (
    IDENTITY,
    PAGE_COLUMNS,
    PLACE,
    RECORD_COLUMNS,
    URL_COLUMNS,
    VISIT_COLUMNS,
    LibrarySelection,
    editions,
)
from lycosa.export.library.formats import DEFAULT_FILE_BYTES, Format
from lycosa.graph.generation import current_duplicates
from lycosa.store.tables.files import ENTRY
from lycosa.store.tables.live import LiveTables, sources
from lycosa.store.tables.ordered import in_key_order
from lycosa.store.tables.precedence import SOURCE, without_superseded
from lycosa.store.tables.schema import TABLES
from lycosa.store.workspace import Workspace

_PAGES_BYTES, _LINKS_BYTES, _VISITS_BYTES, _URLS_BYTES, _PLAN_BYTES = (
    16 * 2**20,
    12 * 2**20,
    6 * 2**20,
    6 * 2**20,
    8 * 2**20,
)
_DAYS_AT_ONCE = 256
_RENDERED_AT_ONCE = 1_000  # documents
_LOCK = ".lock"


class ShelfKey(NamedTuple):
    """A language and a day."""

    language: str
    day: date


@dataclass(slots=True)
class LibraryReport:
    """What an export did. Of the `days` of the selection `kept` stood there already, and
    `kept_files` of the others' files did; `unread` older versions are not in the archive any more.
    """

    target: str = ""
    languages: int = 0
    days: int = 0
    kept: int = 0
    documents: int = 0
    files: int = 0
    kept_files: int = 0
    bytes: int = 0
    unread: int = 0
    written: list[str] = field(default_factory=list)


def export_library(
    workspace: Workspace,
    target: str | Path,
    kind: Format,
    chosen: LibrarySelection,
    understand: ParseFunction,
    languages: Mapping[str, str],
    *,
    file_bytes: int = DEFAULT_FILE_BYTES,
    again: bool = False,
    observer: Callable[[LibraryReport], None] | None = None,
) -> LibraryReport:
    """Bring the library in `target` (there `xml/LANG/DATE/`) up to what the workspace holds now.

    `languages`: collection -> language that its pages are filed under; those of others go by what
    was identified. `again` writes days anew that stand already. Days that the workspace does not
    hold are left as they are.

    Raises:
        WorkError: the target cannot be written, or another export writes there; what is whole there
        stays. ArchiveError: a record is damaged. FileNotFoundError: a table's file went away (a
        merge replaced it long ago): call again.
    """
    folder = Path(target) / kind.name
    report = LibraryReport(str(folder))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WorkError(f"{folder} cannot be created: {error.strerror}") from None
    try:
        with _alone(folder):
            _Export(
                workspace, folder, kind, chosen, understand, languages, file_bytes, report, observer
            ).run(again=again)
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not str(error.filename or "").startswith(
            str(folder)
        ):
            raise
        raise WorkError(
            f"{folder} cannot be written: {error.strerror or error}; complete files are kept, run "
            "the same command again"
        ) from error
    return report


class Held(NamedTuple):
    """What stands on a shelf: documents, and the hosts they are from."""

    documents: int
    hosts: int


def library_days(
    workspace: Workspace, chosen: LibrarySelection, languages: Mapping[str, str]
) -> dict[ShelfKey, Held]:
    """What an export of the library would hold, by language and day; nothing is written. One pass
    over the tables, memory as of an export and 8 bytes a document.

    Raises:
        FileNotFoundError: a table's file went away (a merge replaced it long ago): call again.
    """
    parts = [
        rows.select("library", "day", "host_key") for rows in _listed(workspace, chosen, languages)
    ]
    if not parts:
        return {}
    counted = (
        pl.concat(parts)
        .group_by("library", "day")
        .agg(pl.len(), pl.col("host_key").n_unique().alias("hosts"))
    )
    return {
        ShelfKey(str(language), _date(day)): Held(documents, hosts)
        for language, day, documents, hosts in counted.iter_rows()
    }


def library_documents(
    workspace: Workspace, chosen: LibrarySelection, languages: Mapping[str, str]
) -> pl.DataFrame:
    """The documents of a selection: `library`, `day`, `collection`, `url`, `title`, `headline`,
    `charset`, `at`, `live`, in the order of an export. Raises as `library_days` does.
    """
    columns = ("library", "day", "collection", "url", "title", "headline", "charset", "at", "live")
    parts = [rows.select(columns) for rows in _listed(workspace, chosen, languages)]
    return pl.concat(parts) if parts else pl.DataFrame(schema=dict.fromkeys(columns, pl.String))


def _listed(
    workspace: Workspace, chosen: LibrarySelection, languages: Mapping[str, str]
) -> Iterator[pl.DataFrame]:
    duplicates = current_duplicates(workspace).select(IDENTITY)
    for rows, _ in editions_of(
        LiveTables(workspace),
        duplicates,
        chosen,
        languages,
        VISIT_COLUMNS,
        PAGE_COLUMNS,
        linked=False,
    ):
        yield rows


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise WorkError(
                f"another export is writing to {folder}: wait for it, or choose another folder"
            ) from None
        yield
    finally:
        os.close(lock)


class _Export:
    def __init__(
        self,
        workspace: Workspace,
        folder: Path,
        kind: Format,
        chosen: LibrarySelection,
        understand: ParseFunction,
        languages: Mapping[str, str],
        file_bytes: int,
        report: LibraryReport,
        observer: Callable[[LibraryReport], None] | None,
    ) -> None:
        self._workspace, self._folder, self._kind, self._chosen, self._understand = (
            workspace,
            folder,
            kind,
            chosen,
            understand,
        )
        self._languages, self._file_bytes, self._report, self._observer = (
            languages,
            file_bytes,
            report,
            observer,
        )
        self._tables = LiveTables(workspace)
        self._duplicates = current_duplicates(workspace).select(IDENTITY)

    def run(self, *, again: bool) -> None:
        wanted: dict[ShelfKey, str] = {}
        plan = self._plan()
        report = self._report
        report.days, report.languages = len(plan), len({key.language for key in plan})
        for key, fingerprint in sorted(plan.items()):
            files = None if again else Shelf.stands(self._path(key), fingerprint)
            if files is None:
                wanted[key] = fingerprint
            else:
                report.kept += 1
                report.files += len(files)
                report.documents += sum(file.documents for file in files)
                report.bytes += sum(file.bytes for file in files)
        keys = list(wanted)
        for start in range(0, len(keys), _DAYS_AT_ONCE):
            self._write({key: wanted[key] for key in keys[start : start + _DAYS_AT_ONCE]})

    def _path(self, key: ShelfKey) -> Path:
        return self._folder / key.language / key.day.isoformat()

    def _editions(
        self, visits: Sequence[str], pages: Sequence[str], *, linked: bool
    ) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
        return editions_of(
            self._tables,
            self._duplicates,
            self._chosen,
            self._languages,
            visits,
            pages,
            linked=linked,
        )

    def _plan(self) -> dict[ShelfKey, str]:
        """What each day holds, as a hash of what its documents say."""
        digests: dict[ShelfKey, _Digest] = {}
        for chosen, _ in self._editions(VISIT_COLUMNS, PAGE_COLUMNS, linked=False):
            said = pl.when("live").then(pl.struct(_SAID).struct.json_encode()).otherwise(pl.lit(""))
            lines = chosen.select(
                "library",
                "day",
                pl.concat_str(
                    *(pl.col(name).cast(pl.String).fill_null("") for name in (*PLACE, "url")),
                    pl.col("at").dt.epoch("ms").cast(pl.String),
                    pl.when("live").then(pl.lit("")).otherwise(pl.col("seen_in").fill_null("")),
                    said,
                    separator="\t",
                ).alias("line"),
            )
            for (language, day), part in lines.partition_by(
                ["library", "day"], as_dict=True, maintain_order=True
            ).items():
                key = ShelfKey(str(language), _date(day))
                digests.setdefault(key, _Digest(self._kind, self._file_bytes, self._chosen)).add(
                    part["line"]
                )
        return {key: digest.value() for key, digest in digests.items()}

    def _write(self, wanted: Mapping[ShelfKey, str]) -> None:
        """Write some days."""
        shelves: dict[ShelfKey, Shelf] = {}
        done: dict[ShelfKey, DocumentPlace] = {}
        for key, fingerprint in wanted.items():
            shelf = Shelf(
                self._path(key),
                self._kind,
                key.language,
                key.day.isoformat(),
                fingerprint,
                self._file_bytes,
            )
            last = shelf.begin()
            shelves[key] = shelf
            if last is not None:
                done[key] = last
        keys = pl.DataFrame(
            list(wanted), schema={"library": pl.String(), "day": pl.Date()}, orient="row"
        )
        fields = self._kind.fields
        columns = (*PAGE_COLUMNS, *(name for name in fields if name not in PAGE_COLUMNS))
        linked = self._kind.linked
        for chosen, links in self._editions(
            (*VISIT_COLUMNS, *RECORD_COLUMNS), columns, linked=linked
        ):
            rows = self._ahead(
                chosen.join(keys, on=["library", "day"], how="semi", maintain_order="left"), done
            )
            for part in rows.iter_slices(_RENDERED_AT_ONCE):
                found = documents(
                    part, links, self._understand, self._workspace.path, fields, linked=linked
                )
                self._report.unread += found.unread
                if found.rows.height:
                    self._shelve(found.rows, self._kind.render(found), shelves)
            if self._observer is not None:
                self._observer(self._report)
        report = self._report
        for key, shelf in shelves.items():
            files = shelf.finish()
            report.files += len(files)
            report.kept_files += shelf.kept
            report.documents += sum(file.documents for file in files)
            report.bytes += sum(file.bytes for file in files)
            report.written.extend(str(self._path(key) / file.name) for file in files[shelf.kept :])

    def _ahead(self, rows: pl.DataFrame, done: Mapping[ShelfKey, DocumentPlace]) -> pl.DataFrame:
        """Without the documents that stand in files which are whole."""
        if not done or not rows.height:
            return rows
        places = rows.select("library", "day", *PLACE).iter_rows()
        keep = [
            (last := done.get(ShelfKey(language, day))) is None or tuple(place) > last
            for language, day, *place in places
        ]
        return rows.filter(pl.Series(keep, dtype=pl.Boolean))

    def _shelve(
        self, rows: pl.DataFrame, rendered: pl.Series, shelves: Mapping[ShelfKey, Shelf]
    ) -> None:
        parts = rows.select("library", "day", *PLACE).with_columns(rendered.alias("document"))
        for (language, day), part in parts.partition_by(
            ["library", "day"], as_dict=True, maintain_order=True
        ).items():
            texts = [text.encode() for text in part["document"]]
            shelves[ShelfKey(str(language), _date(day))].add(
                texts, list(part.select(PLACE).iter_rows())
            )


def editions_of(
    tables: LiveTables,
    duplicates: pl.DataFrame,
    chosen: LibrarySelection,
    languages: Mapping[str, str],
    visits: Sequence[str],
    pages: Sequence[str],
    *,
    linked: bool,
) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
    """What is on the days (see `editions`), and the links of those pages, range after range.
    `visits` and `pages`: the columns wanted.
    """
    heavy = len(pages) > len(PAGE_COLUMNS)
    streams = [
        tables.ordered(
            "pages", (*pages, ENTRY), memory_bytes=_PAGES_BYTES if heavy else _PLAN_BYTES
        ),
        tables.ordered("visits", visits, memory_bytes=_VISITS_BYTES),
        tables.ordered("urls", URL_COLUMNS, memory_bytes=_URLS_BYTES),
    ]
    if linked:
        # As they lie: `ordered` would hold the newest parse of every source.
        files = sources(tables.state.files.get("links", []))
        columns = ("partition", *LINK_COLUMNS, "found_at")
        streams.append(in_key_order(tables.storage, TABLES["links"], files, _LINKS_BYTES, columns))
    for page_rows, visit_rows, url_rows, *links in side_by_side(streams):
        if page_rows.height:
            found = editions(page_rows, visit_rows, url_rows, duplicates, chosen, languages)
            if found.height:
                yield found, _newest_links(links[0], page_rows) if links else pl.DataFrame()


def _newest_links(links: pl.DataFrame, pages: pl.DataFrame) -> pl.DataFrame:
    """Of the links in a range of keys those of each source's newest parse, which a page without
    links may be.
    """
    if not links.height:
        return links
    latest = pl.col(ENTRY) == pl.col(ENTRY).max().over(SOURCE)
    parsed = (
        pages.filter(latest)
        .group_by(SOURCE)
        .agg(
            pl.col(ENTRY).first().alias("parsed_in"), pl.col("fetched_at").max().alias("parsed_at")
        )
    )
    newest = without_superseded(TABLES["links"], links, {}).join(
        parsed, on=SOURCE, how="left", maintain_order="left"
    )
    at = (pl.col("found_at") >= pl.col("parsed_at")).fill_null(True)
    return newest.filter(
        (pl.col(ENTRY) > pl.col("parsed_in")).fill_null(True)
        | ((pl.col(ENTRY) == pl.col("parsed_in")) & at)
    )


_SAID = ("text_digest", "title", "headline", "charset", "published_at", "language", "redirect_from")


class _Digest:
    """A hash of lines that does not depend on how they come in portions."""

    def __init__(self, kind: Format, file_bytes: int, chosen: LibrarySelection) -> None:
        self._hash = sha1(
            f"{kind.name}\n{file_bytes}\n{chosen.collection}\n{chosen.full}\n".encode(),
            usedforsecurity=False,
        )

    def add(self, lines: pl.Series) -> None:
        for line in lines:
            self._hash.update(line.encode() + b"\n")

    def value(self) -> str:
        return self._hash.hexdigest()


def _date(value: object) -> date:
    assert isinstance(value, date)
    return value
