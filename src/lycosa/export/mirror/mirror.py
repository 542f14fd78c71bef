"""Export a site as files that work from a disk: what was captured last of each URL, links rewritten
from file to file.

The names follow from the URLs and media types alone, so a second export of the same captures writes
the same files. About 500 bytes of memory a URL of the host.
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
from lycosa.config.settings import Collection
from lycosa.core.errors import UsageError, WorkError
from lycosa.core.records import Exchange, LinkKind, UrlState, VisitKind
from lycosa.export.mirror.file_names import Named, file_names, is_known
from lycosa.export.mirror.rewrite import rewrite_css, rewrite_html
from lycosa.http.decode import decode_with, parse_head
from lycosa.page.folder import LISTINGS, read_listing
from lycosa.page.media import MediaFormat, format_of
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from lycosa.url.rules import Rules
from lycosa.url.site_name import SiteName, site_name

_MAX_HOPS = 10
_DECODED_LIMIT = 1 << 30
_REQUISITES = [LinkKind.IMAGE.value, LinkKind.REQUISITE.value]


@dataclass(slots=True)
class MirrorReport:
    """What was written. `start` is the file to open first; `unreadable` URLs have a body that does
    not decode.
    """

    folder: Path
    start: Path | None = None
    files: int = 0
    pages: int = 0
    bytes: int = 0
    redirects: int = 0
    unreadable: list[str] = field(default_factory=list)


class _Capture(NamedTuple):
    url: str
    media_type: str
    warc_file: str
    warc_offset: int
    warc_length: int
    charset: str  # "" where it is no page


def export_mirror(
    workspace: Workspace, site: str, target: str | Path, *, collection: str = ""
) -> MirrorReport:
    """Write the newest captures of `site` (a host, host:port or URL) into `target/HOST/…`.

    Fetched images, style sheets and scripts of other hosts that its pages need are included.

    A URL that redirects has no file: links lead to where it led. Each file appears whole or not at
    all; others in the folder stay.

    Raises:
        UsageError: `site` is none, it has no captures, or it is in several collections and
        `collection` is empty. WorkError: the folder cannot be written. ArchiveError: a record is
        damaged or missing.
    """
    tables = LiveTables(workspace)
    named = site_name(site)
    name = _collection(tables, named, collection)
    captures = list(_captures(tables, named, name))
    if not captures:
        raise UsageError(f"collection {name!r} has no capture of {named}")
    names = file_names(Named(each.url, _written_as(each)) for each in captures)
    redirects = dict(_redirects(tables, name))
    settings = tables.state.settings.get(name, {})
    rules = Rules(
        Collection.model_validate(
            {key: settings[key] for key in Collection.model_fields if key in settings}
        )
    )
    report = MirrorReport(Path(target), redirects=len(redirects))

    def find(url: str) -> str | None:
        """The path of a URL's file, redirects followed."""
        url = rules.apply(url) if url.startswith(("http://", "https://")) else url
        for _ in range(_MAX_HOPS):
            if url in names:
                return names[url]
            url = redirects.get(url, "")
            if not url:
                return None
        return None

    try:
        for capture in captures:
            path = report.folder / names[capture.url]
            body = _body(workspace, capture, names[capture.url], find)
            if body is None:
                report.unreadable.append(capture.url)
                continue
            _write(path, body)
            report.files += 1
            report.pages += bool(capture.charset)
            report.bytes += len(body)
    except OSError as error:
        raise WorkError(
            f"{report.folder} cannot be written: {error.strerror}; run the same command again"
        ) from error
    report.start = report.folder / names[_start(captures, named)]
    return report


def _start(captures: Sequence[_Capture], site: SiteName) -> str:
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


def _collection(tables: LiveTables, site: SiteName, wanted: str) -> str:
    if wanted:
        return wanted
    rows = tables.scan("visits").filter(
        site.rows() & (pl.col("http_status") == 200) & (pl.col("kind") == VisitKind.PAGE.value)
    )
    found = sorted(rows.select(pl.col("collection").unique()).collect()["collection"])
    if len(found) > 1:
        raise UsageError(
            f"{site} is in several collections: specify --collection with one of {', '.join(found)}"
        )
    if not found:
        raise UsageError(
            f"there is no capture of {site}: `lycosa status --by host` lists the hosts"
        )
    return str(found[0])


def _captures(tables: LiveTables, site: SiteName, collection: str) -> Iterator[_Capture]:
    """The newest whole capture of each URL, in the order of the archive."""
    own = pl.col("collection") == collection
    live = (
        (pl.col("operation") == "")
        & (pl.col("state") == UrlState.VISITED.value)
        & (pl.col("record_id") != "")
    )
    urls = tables.scan("urls").filter(own & live).select("record_id")
    visits = tables.scan("visits").filter(own & (pl.col("content_length") > 0))
    columns = (
        "record_id",
        "url",
        "content_type",
        "warc_file",
        "warc_offset",
        "warc_length",
        "host",
        "host_key",
        "url_key",
        "truncated",
    )
    whole = (
        visits.select(columns)
        .filter(pl.col("truncated") != "unspecified")
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
    wanted = pl.concat(
        [whole.filter(site.rows()), whole.filter(~site.rows()).join(needed, on="url", how="semi")]
    )
    key = ["host_key", "url_key"]
    pages = tables.scan("pages").filter(own).select(*key, "charset")
    rows = wanted.join(pages, on=key, how="left").sort("warc_file", "warc_offset")
    found = rows.select(
        "url",
        "content_type",
        "warc_file",
        "warc_offset",
        "warc_length",
        pl.col("charset").fill_null(""),
    ).collect()
    yield from map(_Capture._make, found.iter_rows())


def _redirects(tables: LiveTables, collection: str) -> Iterable[tuple[str, str]]:
    """(URL, where it leads) of every redirect of the collection."""
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
    """What the file is to hold; None: the body does not decode."""
    stored = read_response(
        workspace.path(capture.warc_file), capture.warc_offset, capture.warc_length
    )
    exchange = Exchange(
        capture.url,
        VisitKind.PAGE,
        0,
        0,
        response_head=stored.head,
        body=stored.body,
        status=stored.status,
    )
    decoded = decode_with(exchange, parse_head(stored.head), _DECODED_LIMIT)
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


def _written_as(capture: _Capture) -> str:
    """The media type that a capture's file has: a browser reads pages and text from a disk, and
    knows no directory listings.
    """
    if format_of(capture.media_type, b"") in LISTINGS:
        return "text/html"
    return (
        "text/plain"
        if capture.charset and capture.media_type and not is_known(capture.media_type)
        else capture.media_type
    )


def _listing(form: MediaFormat, payload: bytes, url: str) -> bytes:
    """A directory of an FTP server, or a menu of a gopher server, as a page."""
    found, _ = read_listing(form, payload, url)
    title = html.escape(found.title)
    items = [
        f'<li><a href="{html.escape(reference)}">{html.escape(text) or html.escape(reference)}</a>'
        for _, reference, _, text in found.links
    ]
    said = (
        [f"<p>{html.escape(line)}" for line in found.lines]
        if form is MediaFormat.GOPHER_MENU
        else []
    )
    lines = [
        "<!doctype html>",
        '<meta charset="utf-8">',
        f"<title>{title}</title>",
        f"<h1>{title}</h1>",
        *said,
        "<ul>",
        *items,
        "</ul>",
        "",
    ]
    return "\n".join(lines).encode("utf-8", "replace")


def _relative(folder: list[str], path: str) -> str:
    """From a file in `folder` to the file at `path`, as a URL reference."""
    steps = path.split("/")
    shared = 0
    while shared < len(folder) and shared < len(steps) - 1 and folder[shared] == steps[shared]:
        shared += 1
    ways = [".."] * (len(folder) - shared) + [
        quote(step, safe="@!$&'()*+,;=-._~") for step in steps[shared:]
    ]
    return "/".join(ways)


def _write(path: Path, body: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(".part~")
    aside.write_bytes(body)
    os.replace(aside, path)
