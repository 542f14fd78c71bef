"""A directory or a menu as a page: its entries are its text, and its links."""

from __future__ import annotations

import re
from urllib.parse import unquote

from lycosa.core.records import LinkKind
from lycosa.page.directory_listing import ftp_listing, gopher_menu
from lycosa.page.encoding import DecodedText, decode
from lycosa.page.media import MediaFormat
from lycosa.page.page_parts import ANCHOR_LENGTH, PageParts, fold
from lycosa.url.schemes import path_start

_READERS = {MediaFormat.FTP_LISTING: ftp_listing, MediaFormat.GOPHER_MENU: gopher_menu}

LISTINGS = frozenset(_READERS)
"""Formats that `read_listing` reads."""

_TITLE_LETTERS = re.compile(r"\w\w")
_TEXT_END = re.compile(rb"(?:\A|\r?\n)\.\r?\n?\Z")


def read_listing(form: MediaFormat, payload: bytes, url: str) -> tuple[PageParts, DecodedText]:
    """Return the text and links of a listing.

    Names are shown in their detected encoding; references keep their bytes.

    A folder is titled by its path, a menu by its first line with words.
    """
    entries = _READERS[form](payload)
    decoded = decode(payload, "")
    shown = _READERS[form](decoded.data)
    texts = [fold(entry.text) for entry in (shown if len(shown) == len(entries) else entries)]
    parts = PageParts(lines=[text for text in texts if text])
    for text, entry in zip(texts, entries, strict=True):
        if entry.reference:
            parts.links.append((LinkKind.A.value, entry.reference, "", text[:ANCHOR_LENGTH]))
    start = path_start(url)
    path = unquote(url[start:]) if start >= 0 else "/"
    words = (
        next((line for line in parts.lines if _TITLE_LETTERS.search(line)), "")
        if form is MediaFormat.GOPHER_MENU
        else ""
    )
    parts.set_title(words or f"Index of {path}")
    return parts, decoded


def without_end(payload: bytes) -> bytes:
    """A text of a gopher server without the line with a dot that ends it (RFC 1436 section 3.1)."""
    return _TEXT_END.sub(b"", payload)
