"""Export pages as Markdown: a file per page, or the `llms.txt` of a site."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import polars as pl

from lycosa.archive.warc.reader import read_rendered, read_response
from lycosa.core.errors import ArchiveError, UsageError
from lycosa.crawl.documents.pool import document_reader
from lycosa.crawl.documents.wire import DocumentLimits
from lycosa.crawl.processing.page_reader import Reader
from lycosa.export.mirror.file_names import file_names
from lycosa.export.written_files import WrittenFiles
from lycosa.page.html.markdown import MarkdownMode
from lycosa.page.markdown import text_markdown
from lycosa.store.storage.files import write_errors
from lycosa.store.tables.live import LiveTables
from lycosa.store.tables.visible import is_removed
from lycosa.store.workspace import Workspace
from lycosa.url.keys import Identifier
from lycosa.url.site_name import site_name

MEDIA_TYPE = "text/markdown"
_DECLARED = ("authors", "schema_type", "modified_at", "declared_headline")
_COLUMNS = (
    *("url", "title", "description", "language", "page_type", "published_at", "fetched_at"),
    *("text_digest", "markdown"),
    *_DECLARED,
    *("collection", "record_id", "warc_file", "warc_offset", "warc_length"),
)
_TEXTS = ("main_text", "text", "headings")
_IDENTITY = ["collection", "host_key", "url_key"]


@dataclass(slots=True, frozen=True)
class MarkdownReport:
    """Result of an export.

    `unreadable`: URLs with damaged or missing responses in the archive; `removed`: files of an
    earlier export whose pages are gone.
    """

    folder: Path
    pages: int
    bytes: int
    unreadable: list[str] = field(default_factory=list)
    removed: int = 0


class MarkdownPage(NamedTuple):
    """A page and its Markdown. Times are in UTC."""

    url: str
    title: str
    description: str
    language: str
    page_type: str
    published_at: datetime | None
    fetched_at: datetime
    digest: str
    markdown: str
    authors: Sequence[str] = ()
    schema_type: str = ""  # declared, of schema.org
    modified_at: datetime | None = None
    declared_headline: str = ""
    collection: str = ""
    record_id: str = ""  # of the archived response

    def with_front_matter(self) -> str:
        """Return a file: YAML front matter, then the Markdown. Strings are JSON, which is YAML."""
        values = {
            "url": self.url,
            "title": self.declared_headline or self.title,
            "type": self.schema_type or self.page_type,
            "authors": list(self.authors),
            "language": self.language,
            "published": _iso(self.published_at),
            "modified": _iso(self.modified_at),
            "fetched": _iso(self.fetched_at),
            "digest": self.digest,
        }
        lines = [
            f"{name}: {json.dumps(value, ensure_ascii=False)}"
            for name, value in values.items()
            if value
        ]
        return "---\n" + "\n".join(lines) + f"\n---\n\n{self.markdown}"


def _iso(moment: datetime | None) -> str:
    return "" if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def selected_pages(
    workspace: Workspace,
    *,
    site: str = "",
    collection: str = "",
    mode: MarkdownMode = MarkdownMode.MAIN,
    documents: DocumentLimits = DocumentLimits(),
    unreadable: list[str] | None = None,
    condition: Callable[[Mapping[str, Any]], bool] = lambda columns: True,
    required: bool = False,
) -> Iterator[MarkdownPage]:
    """Yield the newest versions of pages with text, by archive position.

    Removed pages and pages with the directive noindex are omitted.

    Args:
        site: a host, host:port or URL; "" all.
        collection: pages of this collection only; "" all, each URL once.
        documents: limits for parsing documents.
        unreadable: gets the URLs of pages without a readable response.
        condition: returns whether to yield a page, by its columns.
        required: raise an error if there are no such pages.

    Raises:
        UsageError: `site` is invalid, or there are no pages although they are `required`.
    """
    chosen = pl.lit(True)
    if collection:
        chosen &= pl.col("collection") == collection
    if site:
        chosen &= site_name(site).rows()
    rows = _rows(workspace, chosen)
    if required and rows.is_empty():
        raise UsageError(
            "there are no such pages: `lycosa status --by host` lists the hosts of the workspace"
        )
    with document_reader(documents) as reader:
        for values in rows.iter_rows(named=True):
            if not condition(values):
                continue
            try:
                page = _page(values, _markdown(workspace, values, reader, mode))
            except (ArchiveError, FileNotFoundError):
                if unreadable is not None:
                    unreadable.append(values["url"])
                continue
            if page.markdown:
                yield page


def pages_at(workspace: Workspace, urls: Iterable[str]) -> Iterator[MarkdownPage]:
    """Yield the newest versions of the pages with these normalised URLs.

    A page without an archived response is generated from its stored text.
    """
    identifier = Identifier(workspace.domains, workspace.partitions)
    identities = [identifier.identify(url) for url in urls]
    chosen = pl.col("host_key").is_in(
        pl.Series([each.host_key for each in identities], dtype=pl.UInt64).implode()
    ) & pl.col("url_key").is_in(
        pl.Series([each.url_key for each in identities], dtype=pl.UInt64).implode()
    )
    with document_reader(DocumentLimits()) as reader:
        for values in _rows(workspace, chosen, chosen).iter_rows(named=True):
            try:
                text = _markdown(workspace, values, reader, MarkdownMode.MAIN)
            except (ArchiveError, FileNotFoundError):
                text = ""
            stored = values["main_text"] or values["text"]
            yield _page(values, text or text_markdown(stored, values["headings"]))


def _page(values: dict[str, Any], markdown: str) -> MarkdownPage:
    facts = {name: values[name] for name in MarkdownPage._fields if name in values}
    digest = f"xxh3:{values['text_digest']:016x}"
    return MarkdownPage(**{**facts, "digest": digest, "markdown": markdown})


def _rows(
    workspace: Workspace, chosen: pl.Expr, chosen_visits: pl.Expr | None = None
) -> pl.DataFrame:
    """Return the columns and record locations of pages that are not removed, by archive position.

    With `chosen_visits`, the stored texts are included, and also removed pages and pages without an
    archived response.
    """
    tables = LiveTables(workspace)
    pages = tables.scan("pages").filter(pl.col("may_index") & chosen)
    places = ("warc_file", "warc_offset", "warc_length")
    visits = tables.scan("visits").filter(pl.col("warc_file") != "")
    if chosen_visits is None:
        removed = tables.scan("urls").filter(is_removed()).select(_IDENTITY)
        pages = pages.join(removed, on=_IDENTITY, how="anti")
    else:
        visits = visits.filter(chosen_visits)
    declared = tables.scan("metadata").select(
        *_IDENTITY,
        pl.col("authors"),
        pl.col("type").alias("schema_type"),
        pl.col("modified_at"),
        pl.col("headline").alias("declared_headline"),
    )
    rows = (
        pages.sort("fetched_at")
        .unique("url", keep="last")
        .join(declared, on=_IDENTITY, how="left")
        .with_columns(
            pl.col("authors").fill_null([]),
            pl.col("schema_type", "declared_headline").fill_null(""),
        )
        .join(
            visits.select("record_id", *places).unique("record_id"),
            on="record_id",
            how="inner" if chosen_visits is None else "left",
        )
        .sort("warc_file", "warc_offset")
        .select(*_COLUMNS, *(() if chosen_visits is None else _TEXTS))
    )
    return rows.collect(engine="streaming")


def _markdown(
    workspace: Workspace, page: dict[str, Any], reader: Reader, mode: MarkdownMode
) -> str:
    """Return the stored Markdown of a page, else generate it from the archive.

    Raises:
        ArchiveError: the record of the page is damaged.
    """
    if mode is MarkdownMode.MAIN and page["markdown"] is not None:
        return str(page["markdown"])
    if not page["warc_file"]:
        return ""
    path = workspace.path(page["warc_file"])
    offset, length = page["warc_offset"], page["warc_length"]
    stored = read_response(path, offset, length)
    try:
        rendered = read_rendered(path, offset + length)
    except (ArchiveError, FileNotFoundError):
        rendered = b""
    exchange = stored.exchange(page["url"], rendered=rendered)
    return reader.markdown(exchange, mode)


def export_markdown(
    workspace: Workspace,
    target: str | Path,
    *,
    site: str = "",
    collection: str = "",
    mode: MarkdownMode = MarkdownMode.MAIN,
    documents: DocumentLimits = DocumentLimits(),
) -> MarkdownReport:
    """Write each page to `target/HOST/PATH.md`, with front matter.

    It has URL, title, type, language, dates, and the digest of the text. Files that would not
    change are not written. Files that an earlier call wrote for removed pages are removed, also if
    no page is left.

    Raises:
        UsageError: `site` is invalid, or there are no such pages.
        WorkError: the folder cannot be written.
    """
    folder = Path(target)
    count = size = 0
    unreadable: list[str] = []
    urls = LiveTables(workspace).scan("pages").select(pl.col("url").unique()).collect()["url"]
    names = file_names((url, MEDIA_TYPE) for url in urls)
    pages = selected_pages(
        workspace,
        site=site,
        collection=collection,
        mode=mode,
        documents=documents,
        unreadable=unreadable,
        required=True,
    )
    files = WrittenFiles(folder, os.path.abspath(workspace.root), "markdown", site, collection)
    with write_errors(folder, "run the same command again"):
        try:
            for page in pages:
                data = page.with_front_matter().encode()
                files.write(names[page.url], data)
                count += 1
                size += len(data)
        except UsageError:
            if not files.is_repeated():
                raise
        for url in unreadable:
            files.keep(names[url])
        removed = files.finish()
    return MarkdownReport(folder, count, size, unreadable, removed)


def export_llms(
    workspace: Workspace,
    site: str,
    target: str | Path,
    *,
    collection: str = "",
    documents: DocumentLimits = DocumentLimits(),
) -> MarkdownReport:
    """Write `llms.txt` and `llms-full.txt` of a site into a folder.

    `llms.txt` is an index of the site's pages (llmstxt.org), `llms-full.txt` has their Markdown.

    Raises:
        UsageError: `site` is invalid, or there are no such pages.
        WorkError: the folder cannot be written.
    """
    folder = Path(target)
    unreadable: list[str] = []
    selection = selected_pages(
        workspace,
        site=site,
        collection=collection,
        documents=documents,
        unreadable=unreadable,
        required=True,
    )
    pages = sorted(selection, key=lambda page: (_depth(page.url), page.url))
    home = pages[0] if pages else None
    title = (home.title if home else "") or site
    sections: dict[str, list[str]] = {}
    for page in pages:
        note = f": {page.description}" if page.description else ""
        label = (page.title or page.url).replace("[", "(").replace("]", ")")
        sections.setdefault(_section(page.url), []).append(f"- [{label}]({page.url}){note}")
    summary = f"\n> {home.description}\n" if home and home.description else ""
    index = f"# {title}\n{summary}" + "".join(
        f"\n## {name}\n\n" + "\n".join(lines) + "\n" for name, lines in sections.items()
    )
    full = "\n".join(
        f"# {page.title or page.url}\n\nSource: {page.url}\n\n{page.markdown}" for page in pages
    )
    with write_errors(folder):
        files = WrittenFiles(folder)
        files.write("llms.txt", index.encode())
        files.write("llms-full.txt", full.encode())
    return MarkdownReport(folder, len(pages), len(index.encode()) + len(full.encode()), unreadable)


def _depth(url: str) -> int:
    return urlsplit(url).path.rstrip("/").count("/")


def _section(url: str) -> str:
    """Return the name of a section: the first folder of the path."""
    first, _, rest = urlsplit(url).path.lstrip("/").partition("/")
    return first.replace("-", " ").replace("_", " ").title() if rest else "Pages"
