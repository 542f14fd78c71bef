"""Detects the kind of a document by its bytes; media types of PDF and office files are unreliable.

Cheap and without document libraries: the crawl calls it for every response that is not HTML.
"""

from __future__ import annotations

import re
from enum import StrEnum


class Kind(StrEnum):
    """A family of documents that one reader understands."""

    PDF = "pdf"
    DOCX = "docx"
    PPTX = "pptx"
    XLSX = "xlsx"
    XLSB = "xlsb"
    ODF = "odf"  # odt, ods, odp and their templates
    EPUB = "epub"
    DOC = "doc"
    PPT = "ppt"
    XLS = "xls"
    RTF = "rtf"
    IMAGE = "image"
    ENCRYPTED = "encrypted"  # an office file in an encrypted package


# bytes before the header that readers forgive (PDF 32000-1:2008 annex H, implementation note 13)
_PDF_WITHIN = 1_024
_OBJECT_WITHIN = 65_536  # a text about PDF may name its header, but contains no object
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # [MS-CFB] section 2.2
_ZIP = b"PK\x03\x04"
_MIMETYPE = re.compile(rb"mimetype(application/(?:epub\+zip|vnd\.oasis\.opendocument\.[a-z-]+))")
_PARTS = (
    (b"word/", Kind.DOCX),
    (b"ppt/", Kind.PPTX),
    (b"xl/workbook.bin", Kind.XLSB),
    (b"xl/", Kind.XLSX),
)
_STREAMS = (
    ("EncryptedPackage", Kind.ENCRYPTED),
    ("WordDocument", Kind.DOC),
    ("PowerPoint Document", Kind.PPT),
    ("Workbook", Kind.XLS),
    ("Book", Kind.XLS),
)
_OLE_NAMES = tuple((name.encode("utf-16-le") + b"\0\0", kind) for name, kind in _STREAMS)
_IMAGES = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a", b"II*\0", b"MM\0*")
# bytes at either end of a ZIP file in which the names of its parts are searched
_NAMES_LENGTH = 65_536


def may_be_document(start: bytes) -> bool:
    """Return whether `kind_of` may detect a document. `start`: the first 1,024 bytes."""
    return (
        start.startswith((_ZIP, _OLE, b"{\\rtf", b"RIFF", *_IMAGES))
        or b"%PDF-" in start[:_PDF_WITHIN]
    )


def kind_of(payload: bytes) -> Kind | None:
    """Return the kind of a document; None: no kind that is read. Never raises."""
    if payload.startswith(_ZIP):
        return _zipped(payload)
    if payload.startswith(_OLE):
        return next((kind for name, kind in _OLE_NAMES if name in payload), None)
    if payload.startswith(b"{\\rtf"):
        return Kind.RTF
    if payload.startswith(_IMAGES) or (payload.startswith(b"RIFF") and payload[8:12] == b"WEBP"):
        return Kind.IMAGE
    if payload.startswith(b"%PDF-") or (
        b"%PDF-" in payload[:_PDF_WITHIN] and b" obj" in payload[:_OBJECT_WITHIN]
    ):
        return Kind.PDF
    return None


def _zipped(payload: bytes) -> Kind | None:
    declared = _MIMETYPE.search(payload, 0, 200)
    if declared:
        return Kind.EPUB if declared[1].endswith(b"epub+zip") else Kind.ODF
    names = payload[:_NAMES_LENGTH] + payload[-_NAMES_LENGTH:]
    if b"[Content_Types].xml" in names or b"_rels/.rels" in names:
        return next((kind for part, kind in _PARTS if part in names), None)
    if b"META-INF/container.xml" in names:
        return Kind.EPUB
    return Kind.ODF if b"META-INF/manifest.xml" in names and b"content.xml" in names else None
