"""Detects the readable format of a payload.

By its declared media type and by its first bytes.

The declared type is used where it names a readable format; the bytes decide where it is missing,
generic, or plainly wrong (WHATWG MIME Sniffing, sections 5 and 7, reduced to the needs of a text
robot).
"""

from __future__ import annotations

import re
from enum import StrEnum

from lycosa.url.file_types import FTP_LISTING, GOPHER_MENU


class MediaFormat(StrEnum):
    """How a payload is read."""

    HTML = "html"
    XHTML = "xhtml"
    XML = "xml"  # feeds and other XML
    JSON_FEED = "json_feed"
    FTP_LISTING = "ftp_listing"
    GOPHER_MENU = "gopher_menu"
    TEXT = "text"
    BINARY = "binary"  # declared as one of the above, but with other bytes
    OTHER = "other"  # not readable


_DECLARED = {
    "text/html": MediaFormat.HTML,
    "application/xhtml+xml": MediaFormat.XHTML,
    "text/plain": MediaFormat.TEXT,
    "text/markdown": MediaFormat.TEXT,
    "text/xml": MediaFormat.XML,
    "application/xml": MediaFormat.XML,
    "application/rss+xml": MediaFormat.XML,
    "application/atom+xml": MediaFormat.XML,
    "application/rdf+xml": MediaFormat.XML,
    "application/x-rss+xml": MediaFormat.XML,
    "application/vnd.wap.xhtml+xml": MediaFormat.XHTML,
    "application/feed+json": MediaFormat.JSON_FEED,
    FTP_LISTING: MediaFormat.FTP_LISTING,
    GOPHER_MENU: MediaFormat.GOPHER_MENU,
}
_UNINFORMATIVE_TYPES = frozenset(
    {
        "",
        "application/octet-stream",
        "binary/octet-stream",
        "application/x-unknown",
        "application/unknown",
        "unknown/unknown",
        "*/*",
        "none",
    }
)

HEADER_LENGTH = 1445  # bytes that decide: "resource header", MIME Sniffing section 5.2
# section 3, "binary data byte"
_BINARY_BYTES = bytes([*range(0x09), 0x0B, *range(0x0E, 0x1B), *range(0x1C, 0x20)])
_BINARY_SHARE = 0.05  # random bytes have 0.1; text with stray control characters stays far below
_MAGIC = (
    b"\x89PNG\r\n\x1a\n",
    b"GIF8",
    b"\xff\xd8\xff",
    b"RIFF",
    b"%PDF-",
    b"PK\x03\x04",
    b"\x1f\x8b\x08",
    b"BZh",
    b"\xfd7zXZ\x00",
    b"7z\xbc\xaf\x27\x1c",
    b"Rar!\x1a\x07",
    b"\x7fELF",
    b"OggS",
    b"ID3",
    b"wOFF",
    b"wOF2",
    b"\x00\x00\x01\x00",
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
    b"\x28\xb5\x2f\xfd",
)
_HTML_START = re.compile(
    rb"(?:\xef\xbb\xbf)?(?:\s|<!--.*?-->|<\?xml[^>]*>)*+<(?:!doctype\s+html|html|head|body|title"
    rb"|script|meta|link|base|div|table|h1|p|a|br|b|style|iframe)[\s/>]",
    re.IGNORECASE | re.DOTALL,
)
_HTML_ANYWHERE = re.compile(rb"<(?:!doctype\s+html|html|head|body)[\s>]", re.IGNORECASE)
_XML_START = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml\s|<rss[\s>]|<feed[\s>]|<rdf:RDF[\s>])")
_HTML_DOCUMENT_START = re.compile(
    rb"(?:\xef\xbb\xbf)?(?:\s|<!--.*?-->)*+<(?:!doctype\s+html|html)[\s>]",
    re.IGNORECASE | re.DOTALL,
)
_XHTML = re.compile(rb"<html[\s>]", re.IGNORECASE)
_BOMS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")


def media_type(content_type: str) -> str:
    """Return the type and subtype of a Content-Type header in lower case, without parameters."""
    return content_type.partition(";")[0].strip().lower()


def format_of(content_type: str, payload: bytes) -> MediaFormat:
    """Return the format to read a payload in. Never raises."""
    declared_type = media_type(content_type)
    head = payload[:HEADER_LENGTH]
    declared = _DECLARED.get(declared_type)
    if (
        declared is None
        and declared_type.endswith("+xml")
        and not declared_type.startswith("image/")
    ):
        declared = MediaFormat.XML
    if declared is None:
        if _HTML_DOCUMENT_START.match(head):  # regardless of the declared type
            return MediaFormat.HTML
        if declared_type not in _UNINFORMATIVE_TYPES and "/" in declared_type:
            return MediaFormat.OTHER
        return _sniff(head)
    if is_binary(head):
        return MediaFormat.BINARY
    if declared in (MediaFormat.FTP_LISTING, MediaFormat.GOPHER_MENU):
        return declared
    is_html_or_text = declared in (MediaFormat.HTML, MediaFormat.TEXT)
    if is_html_or_text and _XML_START.match(head) and not _XHTML.search(head):
        return (
            MediaFormat.XML
            if re.search(rb"<(?:rss|feed|rdf:RDF|urlset|sitemapindex)[\s>]", head)
            else declared
        )
    if declared is not MediaFormat.HTML and _HTML_DOCUMENT_START.match(head):
        return MediaFormat.HTML if declared is not MediaFormat.XHTML else MediaFormat.XHTML
    if (
        declared is MediaFormat.XML
        and _XHTML.search(head)
        and not re.search(rb"<(?:rss|feed|rdf:RDF)[\s>]", head)
    ):
        return MediaFormat.XHTML
    return declared


def _sniff(head: bytes) -> MediaFormat:
    if is_binary(head):
        return MediaFormat.OTHER
    if _XML_START.match(head):
        return MediaFormat.XHTML if _XHTML.search(head) else MediaFormat.XML
    if _HTML_START.match(head):
        return MediaFormat.HTML
    return MediaFormat.TEXT if head.strip() else MediaFormat.HTML


def is_binary(head: bytes) -> bool:
    """Return whether the first bytes are no text in any encoding."""
    if head.startswith(_BOMS):
        return False
    if head.startswith(_MAGIC):
        return True
    control = len(head) - len(head.translate(None, _BINARY_BYTES))
    if control <= len(head) * _BINARY_SHARE:
        return False
    return not (_HTML_ANYWHERE.search(head) or looks_like_utf_16(head))


def looks_like_utf_16(head: bytes) -> str:
    """Return `utf-16le` or `utf-16be` for bytes that begin as markup, or are Latin text, in UTF-16
    without a byte order mark; else "".
    """
    if head[:1] == b"<" and head[1:2] == head[3:4] == b"\0":
        return "utf-16le"
    if head[:1] == head[2:3] == b"\0" and head[1:2] == b"<":
        return "utf-16be"
    pairs = len(head) // 2
    if pairs < 4 or head.count(0) < pairs * 0.6:
        return ""
    low, high = head[1 : 2 * pairs : 2].count(0), head[0 : 2 * pairs : 2].count(0)
    if low > pairs * 0.6 and high < pairs * 0.1:
        return "utf-16le"
    if high > pairs * 0.6 and low < pairs * 0.1:
        return "utf-16be"
    return ""
