"""What an archived version holds: its bytes, what they are, and the text that we read in them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from lycosa.archive.warc.reader import StoredResponse, read_rendered, read_response
from lycosa.archive.warc.record import RENDERED_TYPE
from lycosa.captures.captures import Capture, CaptureHistory, NoVersion, capture_at
from lycosa.config.settings import Config
from lycosa.core.errors import ArchiveError
from lycosa.core.records import Exchange, VisitKind
from lycosa.crawl.documents.pool import DocumentPool, document_limits
from lycosa.crawl.processing.page_reader import Reader
from lycosa.fetch.robots_txt import product_token
from lycosa.http.decode import decode_with, parse_head
from lycosa.page.documents.kinds import kind_of
from lycosa.page.media import MediaFormat, format_of
from lycosa.text.difference import Difference, difference

MAX_BODY_BYTES = 2**28
"""Of a body as transferred that is read: a record is held in memory as a whole."""

_IMAGES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"\x00\x00\x01\x00", "image/x-icon"),
    (b"BM", "image/bmp"),
)
_READABLE = {MediaFormat.HTML, MediaFormat.XHTML}
_TEXTS = {
    MediaFormat.TEXT,
    MediaFormat.XML,
    MediaFormat.JSON_FEED,
    MediaFormat.FTP_LISTING,
    MediaFormat.GOPHER_MENU,
}
_TEXT_TYPES = (
    "text/",
    "application/json",
    "application/javascript",
    "application/x-javascript",
    "image/svg+xml",
)


class Show(StrEnum):
    """In which way a version can be shown without harm."""

    PAGE = "page"  # HTML
    TEXT = "text"  # anything that people read as it is, SVG and style sheets too
    IMAGE = "image"  # of a kind that is no document: no SVG
    FILE = "file"  # nothing that is shown: it can be saved


@dataclass(slots=True, frozen=True)
class Version:
    """What a capture holds. `source`: the capture whose bytes these are (of a repetition the
    original). `payload`: decoded, cut at the limit.

    `content_type` is what the server said; `media_type` what the bytes are, where `show` is IMAGE.
    `rendered`: `payload` is the document as it stood in a browser.
    """

    capture: Capture
    source: Capture
    payload: bytes
    content_type: str
    show: Show
    media_type: str
    cut: bool
    rendered: bool


@dataclass(slots=True, frozen=True)
class CaptureTexts:
    """What was read in a version. All empty: it holds no text, or none that we read."""

    title: str
    main_text: str
    text: str


@dataclass(slots=True, frozen=True)
class Compared:
    """Two versions of a page. `of`: which of their texts differ, `main text`, `all text`, or
    `title`; "" if none does.
    """

    before: Capture
    after: Capture
    titles: tuple[str, str]
    of: str
    difference: Difference


class Versions:
    """The archived versions of pages of one workspace. Threads may share it. Close it.

    Raises:
        UsageError: no workspace can lie there.
        WorkspaceError: there is none.
    """

    def __init__(self, root: str, config: Config) -> None:
        self.history = CaptureHistory(root)
        self._max_decoded = config.fetch.max_decoded
        self._documents = DocumentPool(
            replace(document_limits(config), processes=min(1, config.crawl.documents))
        )
        self._reader = Reader(
            config.fetch.max_decoded, product_token(config.fetch.user_agent), self._documents
        )
        self._reading = threading.Lock()  # one document at a time: each takes a process

    def close(self) -> None:
        """End the process that reads documents."""
        self._documents.close()

    def at(self, url: str, at_ms: int | None = None) -> tuple[Version, list[Capture]]:
        """The version of a URL at a time (see `capture_at`), and all captures of that URL.

        Raises:
            UsageError: it is no URL.
            NoVersion: nothing is kept of it, or not what that version needs.
        """
        captures = self.history.captures(url)
        return self.read(captures, capture_at(captures, at_ms)), captures

    def read(self, captures: Sequence[Capture], capture: Capture) -> Version:
        """What a capture holds. `captures`: all of its URL's.

        Raises:
            NoVersion: its bytes, or those that it repeats, are not in the archive any more.
        """
        source, response = self._response(captures, capture)
        exchange = self._exchange(source, response)
        return _version(capture, source, exchange, self._max_decoded)

    def texts(self, captures: Sequence[Capture], capture: Capture) -> CaptureTexts:
        """What was read in a capture: from the tables if it is the newest parse, else from the
        archive.

        Raises:
            NoVersion: as `read`.
        """
        known = self._live(capture) or next(
            (
                self._live(other)
                for other in captures
                if other.at == capture.original and other.record_id != capture.record_id
            ),
            None,
        )
        if known is not None:
            return known
        source, response = self._response(captures, capture)
        exchange = self._exchange(source, response)
        headers = parse_head(exchange.response_head)
        if exchange.body and not exchange.rendered and self._documents.wants(exchange):
            with self._reading:
                page = self._reader(exchange, headers).page
        else:
            page = self._reader(exchange, headers).page
        return (
            CaptureTexts("", "", "")
            if page is None
            else CaptureTexts(page.title, page.main_text, page.text)
        )

    def compare(self, captures: Sequence[Capture], before: Capture, after: Capture) -> Compared:
        """What the later one says that the earlier one did not, and the reverse: of their main
        texts; if these are the same, of all text.

        Raises:
            NoVersion: as `read`.
        """
        old, new = self.texts(captures, before), self.texts(captures, after)
        titles = (old.title, new.title)
        for name, one, other in (
            ("main text", old.main_text, new.main_text),
            ("all text", old.text, new.text),
        ):
            if one != other and (name == "all text" or (one and other)):
                return Compared(before, after, titles, name, difference(one, other))
        return Compared(
            before, after, titles, "title" if old.title != new.title else "", difference("", "")
        )

    def _live(self, capture: Capture) -> CaptureTexts | None:
        try:
            known = self.history.live_texts(capture)
        except FileNotFoundError:  # a merge took the file away: the archive has it too
            return None
        return None if known is None else CaptureTexts(*known)

    def _response(
        self, captures: Sequence[Capture], capture: Capture
    ) -> tuple[Capture, StoredResponse]:
        response = self._record(capture)
        if response.headers.get("warc-type") != "revisit":
            return capture, response
        refers = response.headers.get("warc-refers-to", "").strip("<>")
        source = next((other for other in captures if other.record_id == refers), None)
        if source is None:
            source = next(
                (
                    other
                    for other in captures
                    if other.at == capture.original and other is not capture
                ),
                None,
            )
        if source is None:
            raise NoVersion(
                capture.url, "the original capture of this revisit is no longer in the archive"
            )
        original = self._record(source)
        if original.headers.get("warc-type") == "revisit":
            raise NoVersion(
                capture.url, "the original capture of this revisit is no longer in the archive"
            )
        return source, original

    def _record(self, capture: Capture) -> StoredResponse:
        if capture.size > MAX_BODY_BYTES:
            raise NoVersion(capture.url, f"too large to show: {capture.size:,} bytes")
        try:
            if not capture.warc_file:
                raise FileNotFoundError
            path = self.history.workspace.path(capture.warc_file)
            if not Path(path).exists():
                raise FileNotFoundError
            return read_response(path, capture.warc_offset, capture.warc_length)
        except (ArchiveError, FileNotFoundError):
            raise NoVersion(capture.url, "this version is no longer in the archive") from None

    def _exchange(self, source: Capture, response: StoredResponse) -> Exchange:
        try:
            path = self.history.workspace.path(source.warc_file)
            rendered = (
                read_rendered(path, source.warc_offset + source.warc_length)
                if response.head
                else b""
            )
        except (ArchiveError, FileNotFoundError):
            rendered = b""
        return Exchange(
            source.url,
            VisitKind.PAGE,
            0,
            0,
            response_head=response.head,
            body=response.body,
            status=response.status,
            truncated="" if source.truncated == "decoded" else source.truncated,
            rendered=rendered,
        )


def _version(capture: Capture, source: Capture, exchange: Exchange, max_decoded: int) -> Version:
    headers = parse_head(exchange.response_head)
    if exchange.rendered:
        return Version(
            capture,
            source,
            exchange.rendered,
            RENDERED_TYPE,
            Show.PAGE,
            "text/html",
            cut=False,
            rendered=True,
        )
    decoded = decode_with(exchange, headers, max_decoded)
    content_type = headers.get("content-type") or ""
    show, media_type = shown_as(content_type, decoded.payload)
    return Version(
        capture,
        source,
        decoded.payload,
        content_type,
        show,
        media_type,
        cut=decoded.truncated,
        rendered=False,
    )


def shown_as(content_type: str, payload: bytes) -> tuple[Show, str]:
    """How a payload can be shown, and its media type by its bytes where it is an image.

    What the server claims decides little: an image must look like one, and HTML under any name is
    shown as a page or as text alone.
    """
    image = next((name for start, name in _IMAGES if payload.startswith(start)), "")
    if not image and payload.startswith(b"RIFF") and payload[8:12] == b"WEBP":
        image = "image/webp"
    if not image and payload[4:12] in (b"ftypavif", b"ftypavis"):
        image = "image/avif"
    if image:
        return Show.IMAGE, image
    if kind_of(payload) is not None:
        return Show.FILE, ""
    form = format_of(content_type, payload)
    if form in _READABLE:
        return Show.PAGE, "text/html"
    claimed = content_type.partition(";")[0].strip().lower()
    if form in _TEXTS or (claimed.startswith(_TEXT_TYPES) and b"\0" not in payload[:4096]):
        return Show.TEXT, "text/plain"
    return Show.FILE, ""
