"""The content of an archived version: its bytes, their type, and the extracted text."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from lycosa.archive.warc.reader import StoredResponse, read_rendered, read_response
from lycosa.archive.warc.record import RENDERED_TYPE
from lycosa.captures.captures import Capture, CaptureHistory, NoVersion, capture_at
from lycosa.config.settings import Config
from lycosa.core.errors import ArchiveError
from lycosa.core.messages import Message
from lycosa.core.records import Exchange
from lycosa.crawl.documents.pool import DocumentPool, document_limits
from lycosa.crawl.processing.page_reader import Reader
from lycosa.fetch.robots_txt import product_token
from lycosa.http.decode import content_type_of, decode_body
from lycosa.page.documents.kinds import kind_of
from lycosa.page.html.markdown import MarkdownMode
from lycosa.page.media import MediaFormat, format_of
from lycosa.text.difference import Difference, difference

MAX_BODY_BYTES = 2**28
"""Maximum size of a body as transferred: a record is read into memory."""

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
    """How a version can be shown safely."""

    PAGE = "page"  # HTML
    TEXT = "text"  # plain text, also SVG and style sheets
    IMAGE = "image"  # bitmaps only: SVG is a document
    FILE = "file"  # can only be saved


@dataclass(slots=True, frozen=True)
class Version:
    """The content of a capture. `source`: the capture with the bytes (of a revisit the original).

    `payload` is decoded and cut at the limit. `content_type` is from the server; `media_type` is
    detected if `show` is IMAGE. `rendered`: `payload` is the document from a browser.
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
    """The extracted texts of a version; empty if it has none. `markdown` is None if it is neither
    stored nor requested.
    """

    title: str
    main_text: str
    text: str
    markdown: str | None = None


@dataclass(slots=True, frozen=True)
class Compared:
    """Two versions of a page.

    `of`: the part that differs: `main text`, `all text` or `title`; "" if none does.
    """

    before: Capture
    after: Capture
    titles: tuple[str, str]
    of: str
    difference: Difference


class Versions:
    """The archived versions of pages of one workspace. Thread-safe; must be closed.

    Raises:
        UsageError: the location is not supported.
        WorkspaceError: there is no workspace.
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
        self._reading = threading.Lock()  # documents are parsed in one child process

    def close(self) -> None:
        """Stop the process that parses documents."""
        self._documents.close()

    def at(self, url: str, at_ms: int | None = None) -> tuple[Version, list[Capture]]:
        """Return the version of a URL at a time (see `capture_at`), and all of its captures.

        Raises:
            UsageError: it is not a URL.
            NoVersion: nothing is archived, or the record of that version is missing.
        """
        captures = self.history.captures(url)
        return self.read(captures, capture_at(captures, at_ms)), captures

    def read(self, captures: Sequence[Capture], capture: Capture) -> Version:
        """Return the content of a capture. `captures`: all of its URL.

        Raises:
            NoVersion: its record, or the original of a revisit, is no longer in the archive.
        """
        source, response = self._response(captures, capture)
        exchange = self._exchange(source, response)
        return _version(capture, source, exchange, self._max_decoded)

    def texts(
        self,
        captures: Sequence[Capture],
        capture: Capture,
        markdown: MarkdownMode | None = None,
    ) -> CaptureTexts:
        """Return the texts of a capture, from the tables if it is the newest parse, else from the
        archive. `markdown`: return Markdown too. Raises NoVersion like `read`.
        """
        originals = (
            other
            for other in captures
            if other.at == capture.original and other.record_id != capture.record_id
        )
        original = next(originals, None)
        stored = self._live(capture)
        if stored is None and original is not None:
            stored = self._live(original)
        if stored is not None and (
            markdown is None or (markdown is MarkdownMode.MAIN and stored.markdown is not None)
        ):
            return stored
        source, response = self._response(captures, capture)
        exchange = self._exchange(source, response)
        is_document = exchange.body and not exchange.rendered and self._documents.wants(exchange)
        with self._reading if is_document else nullcontext():
            page = self._reader(exchange, markdown=markdown).page
        if page is None:
            return CaptureTexts("", "", "", "")
        return CaptureTexts(page.title, page.main_text, page.text, page.markdown)

    def compare(self, captures: Sequence[Capture], before: Capture, after: Capture) -> Compared:
        """Compare the main texts of two versions; if equal, the whole texts.

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
            texts = self.history.live_texts(capture)
        except FileNotFoundError:  # deleted after a compaction: the archive has it too
            return None
        return None if texts is None else CaptureTexts(*texts)

    def _response(
        self, captures: Sequence[Capture], capture: Capture
    ) -> tuple[Capture, StoredResponse]:
        response = self._record(capture)
        if response.headers.get("warc-type") != "revisit":
            return capture, response
        refers = response.headers.get("warc-refers-to", "").strip("<>")
        named = [other for other in captures if other.record_id == refers]
        same_time = [
            other for other in captures if other.at == capture.original and other is not capture
        ]
        for source in (*named, *same_time)[:1]:
            original = self._record(source)
            if original.headers.get("warc-type") != "revisit":
                return source, original
        raise NoVersion(
            capture.url,
            Message(
                "original_gone", "The original capture of this revisit is no longer in the archive"
            ),
        )

    def _record(self, capture: Capture) -> StoredResponse:
        if capture.size > MAX_BODY_BYTES:
            raise NoVersion(
                capture.url,
                Message(
                    "too_large",
                    "Too large to show: {n, plural, one {# byte} other {# bytes}}",
                    n=capture.size,
                ),
            )
        try:
            path = self.history.workspace.path(capture.warc_file) if capture.warc_file else ""
            if not Path(path).is_file():
                raise FileNotFoundError
            return read_response(path, capture.warc_offset, capture.warc_length)
        except (ArchiveError, FileNotFoundError):
            raise NoVersion(
                capture.url, Message("version_gone", "This version is no longer in the archive")
            ) from None

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
        return response.exchange(source.url, truncated=source.truncated, rendered=rendered)


def _version(capture: Capture, source: Capture, exchange: Exchange, max_decoded: int) -> Version:
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
    decoded = decode_body(exchange, max_decoded)
    content_type = content_type_of(exchange)
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
    """Return how a payload can be shown, and the media type of an image.

    The bytes decide, not the claimed type: HTML is never shown as an image or file of another type.
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
