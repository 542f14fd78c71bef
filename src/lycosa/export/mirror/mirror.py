"""Export a site as an offline mirror: the newest capture of each URL, with links between files.

File names depend only on URLs and media types, so the same captures give the same files. Memory:
about 500 bytes per URL of the host.
"""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import polars as pl

from lycosa.archive.warc.reader import read_response
from lycosa.config.collection import stored_collection
from lycosa.core.errors import ArchiveError, UsageError
from lycosa.core.records import LinkKind, UrlState, VisitKind
from lycosa.export.mirror.file_names import file_names, is_known
from lycosa.export.mirror.rewrite import rewrite_css, rewrite_html
from lycosa.export.written_files import WrittenFiles
from lycosa.http.decode import decode_body
from lycosa.page.directory_listing import LISTINGS, read_listing
from lycosa.page.media import MediaFormat, format_of
from lycosa.store.storage.files import write_errors
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from lycosa.url.rules import Rules
from lycosa.url.site_name import SiteName, site_name

_MAX_HOPS = 10
_DECODED_LIMIT = 1 << 30
_REQUISITES = [LinkKind.IMAGE.value, LinkKind.REQUISITE.value]


@dataclass(slots=True)
class MirrorReport:
    """Result of an export.

    `start`: the file to open first, the folder without any; `removed`: files of an earlier export
    whose pages are gone; `unreadable`: URLs whose response cannot be read from the archive, or not
    be decoded.
    """

    folder: Path
    start: Path
    redirects: int
    files: int = 0
    pages: int = 0
    bytes: int = 0
    removed: int = 0
    unreadable: list[str] = field(default_factory=list)

    def add(self, size: int, *, page: bool) -> None:
        """Count a written file."""
        self.files += 1
        self.pages += page
        self.bytes += size

    def add_removed(self, files: int) -> None:
        self.removed += files


class _Capture(NamedTuple):
    url: str
    media_type: str
    warc_file: str
    warc_offset: int
    warc_length: int
    charset: str  # "" unless it is a page


def export_mirror(
    workspace: Workspace, site: str, target: str | Path, *, collection: str = ""
) -> MirrorReport:
    """Write the newest captures of `site` (a host, host:port or URL) into `target/HOST/…`.

    Archived images, style sheets and scripts of other hosts that its pages need are included.
    Redirecting URLs have no file: links lead to their targets. Each file appears completely or not
    at all. Files that an earlier call wrote for removed pages are removed, also if none is left;
    others do not change.

    Raises:
        UsageError: `site` is invalid, it has no captures, or it is in several collections and
            `collection` is empty.
        WorkError: the folder cannot be written.
    """
    tables = LiveTables(workspace)
    parsed_site = site_name(site)
    name = _collection(tables, parsed_site, collection)
    captures = list(_captures(tables, parsed_site, name))
    folder = Path(target)
    files = WrittenFiles(folder, os.path.abspath(workspace.root), "mirror", str(parsed_site), name)
    if not captures and not files.is_repeated():
        raise UsageError(f"collection {name!r} has no capture of {parsed_site}")
    names = file_names((each.url, _file_type(each)) for each in captures)
    redirects = dict(_redirects(tables, name))
    rules = Rules(stored_collection(name, tables.state.settings.get(name, {})))
    start = folder / names[_start_url(captures, parsed_site)] if captures else folder
    report = MirrorReport(folder, start, len(redirects))

    def find(url: str) -> str | None:
        """Return the path of a URL's file, following redirects."""
        url = rules.apply(url) if url.startswith(("http://", "https://")) else url
        for _ in range(_MAX_HOPS):
            if url in names:
                return names[url]
            url = redirects.get(url, "")
            if not url:
                return None
        return None

    with write_errors(folder, "run the same command again"):
        for capture in captures:
            path = names[capture.url]
            try:
                body = _body(workspace, capture, path, find)
            except (ArchiveError, FileNotFoundError):
                body = None
            if body is None:
                report.unreadable.append(capture.url)
                files.keep(path)
                continue
            files.write(path, body)
            report.add(len(body), page=bool(capture.charset))
        report.add_removed(files.finish())
    return report


def _start_url(captures: Sequence[_Capture], site: SiteName) -> str:
    """Return the URL of the page to open first."""
    first = min(
        captures,
        key=lambda each: (
            not each.charset,
            not site.contains(each.url),
            each.url.count("/"),
            len(each.url),
            each.url,
        ),
    )
    return first.url


def _collection(tables: LiveTables, site: SiteName, requested: str) -> str:
    if requested:
        return requested
    rows = tables.scan("visits").filter(
        site.rows() & (pl.col("http_status") == 200) & (pl.col("kind") == VisitKind.PAGE.value)
    )
    names = sorted(rows.select(pl.col("collection").unique()).collect()["collection"])
    if len(names) > 1:
        raise UsageError(
            f"{site} is in several collections: specify --collection with one of {', '.join(names)}"
        )
    if not names:
        raise UsageError(
            f"there is no capture of {site}: `lycosa status --by host` lists the hosts"
        )
    return str(names[0])


def _captures(tables: LiveTables, site: SiteName, collection: str) -> Iterator[_Capture]:
    """Yield the newest complete capture of each URL, in the order of the archive."""
    own = pl.col("collection") == collection
    live = (
        (pl.col("operation") == "")
        & pl.col("state").is_in([UrlState.VISITED.value, UrlState.KNOWN.value])  # known: due again
        & (pl.col("record_id") != "")
    )
    urls = tables.scan("urls").filter(own & live).select("record_id")
    visits = tables.scan("visits").filter(own & (pl.col("content_length") > 0))
    whole = (
        visits.filter(pl.col("truncated") != "unspecified")
        .join(urls, on="record_id", how="semi")
        .unique("record_id", keep="last")
    )
    links = tables.scan("links").filter(pl.col("kind").is_in(_REQUISITES))
    sources = visits.filter(site.rows()).select("host_key").unique()
    needed = (
        links.join(sources, on="host_key", how="semi")
        .select(pl.col("target").alias("url"))
        .unique()
    )
    selected = pl.concat(
        [whole.filter(site.rows()), whole.filter(~site.rows()).join(needed, on="url", how="semi")]
    )
    key = ["host_key", "url_key"]
    pages = tables.scan("pages").filter(own).select(*key, "charset")
    rows = selected.join(pages, on=key, how="left").sort("warc_file", "warc_offset")
    places = ("warc_file", "warc_offset", "warc_length")
    columns = rows.select("url", "content_type", *places, pl.col("charset").fill_null(""))
    yield from map(_Capture._make, columns.collect().iter_rows())


def _redirects(tables: LiveTables, collection: str) -> Iterable[tuple[str, str]]:
    """Yield (URL, target) of each redirect of the collection."""
    rows = tables.scan("visits").filter(
        (pl.col("collection") == collection) & (pl.col("redirect_to") != "")
    )
    yield from (
        rows.sort("fetched_at")
        .unique("url", keep="last", maintain_order=True)
        .select("url", "redirect_to")
        .collect()
        .iter_rows()
    )


def _body(
    workspace: Workspace, capture: _Capture, name: str, find: Callable[[str], str | None]
) -> bytes | None:
    """Return the content of a file, None if the body cannot be decoded."""
    stored = read_response(
        workspace.path(capture.warc_file), capture.warc_offset, capture.warc_length
    )
    exchange = stored.exchange(capture.url)
    decoded = decode_body(exchange, _DECODED_LIMIT)
    if decoded.error and not decoded.payload:
        return None
    folder = name.rpartition("/")[0].split("/")
    form = format_of(capture.media_type, b"")
    if form in LISTINGS:
        decoded = decoded._replace(payload=_listing(form, decoded.payload, capture.url))

    def place(url: str) -> str | None:
        path = find(url)
        return None if path is None else _relative(folder, path)

    if form in LISTINGS:
        return rewrite_html(decoded.payload, capture.url, "utf-8", place)
    if capture.charset and ("html" in capture.media_type or not capture.media_type):
        return rewrite_html(decoded.payload, capture.url, capture.charset, place)
    if capture.media_type == "text/css":
        return rewrite_css(decoded.payload, capture.url, place)
    return decoded.payload


def _file_type(capture: _Capture) -> str:
    """Return the media type of a capture's file: browsers cannot show directory listings."""
    if format_of(capture.media_type, b"") in LISTINGS:
        return "text/html"
    return (
        "text/plain"
        if capture.charset and capture.media_type and not is_known(capture.media_type)
        else capture.media_type
    )


def _listing(form: MediaFormat, payload: bytes, url: str) -> bytes:
    """Convert a directory of an FTP server, or a menu of a gopher server, to a page."""
    listing, _ = read_listing(form, payload, url)
    title = html.escape(listing.title)
    items = [
        f'<li><a href="{html.escape(reference)}">{html.escape(text) or html.escape(reference)}</a>'
        for _, reference, _, text in listing.links
    ]
    text = (
        [f"<p>{html.escape(line)}" for line in listing.lines]
        if form is MediaFormat.GOPHER_MENU
        else []
    )
    lines = [
        "<!doctype html>",
        '<meta charset="utf-8">',
        f"<title>{title}</title>",
        f"<h1>{title}</h1>",
        *text,
        "<ul>",
        *items,
        "</ul>",
        "",
    ]
    return "\n".join(lines).encode("utf-8", "replace")


def _relative(folder: list[str], path: str) -> str:
    """Return the URL reference from a file in `folder` to the file at `path`."""
    steps = path.split("/")
    shared = 0
    while shared < len(folder) and shared < len(steps) - 1 and folder[shared] == steps[shared]:
        shared += 1
    names = [quote(step, safe="@!$&'()*+,;=-._~") for step in steps[shared:]]
    return "/".join([".."] * (len(folder) - shared) + names)
