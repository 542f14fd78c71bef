"""A directory or a menu as a page: its entries are its text, and its links."""

from __future__ import annotations

import re
from urllib.parse import unquote

from lycosa.core.records import LinkKind
from lycosa.page.encoding import Decoded, decode
from lycosa.page.found import ANCHOR_LENGTH, Found, fold
from lycosa.page.listing import ftp_listing, gopher_menu
from lycosa.page.media import Format
from lycosa.url.schemes import path_start

_READERS = {Format.FTP_LISTING: ftp_listing, Format.GOPHER_MENU: gopher_menu}

LISTINGS = frozenset(_READERS)
"""Formats that `read_listing` reads."""

_TITLE_LETTERS = re.compile(r"\w\w")
_TEXT_END = re.compile(rb"(?:\A|\r?\n)\.\r?\n?\Z")


def read_listing(form: Format, payload: bytes, url: str) -> tuple[Found, Decoded]:
    """Everything that a listing says. Names are shown in the encoding that they seem to be in; references keep their bytes.

    A folder is titled by its path, a menu by its first line with words.
    """
    entries = _READERS[form](payload)
    decoded = decode(payload, "")
    shown = _READERS[form](decoded.data)
    texts = [fold(entry.text) for entry in (shown if len(shown) == len(entries) else entries)]
    found = Found(lines=[text for text in texts if text])
    for text, entry in zip(texts, entries, strict=True):
        if entry.reference:
            found.links.append((LinkKind.A.value, entry.reference, "", text[:ANCHOR_LENGTH]))
    start = path_start(url)
    path = unquote(url[start:]) if start >= 0 else "/"
    words = next((line for line in found.lines if _TITLE_LETTERS.search(line)), "") if form is Format.GOPHER_MENU else ""
    found.title = words or f"Index of {path}"
    return found, decoded


def without_end(payload: bytes) -> bytes:
    """A text of a gopher server without the line with a dot that ends it (RFC 1436 section 3.1)."""
    return _TEXT_END.sub(b"", payload)
