"""Directory listings of FTP servers and menus of gopher servers, as pages.

The entries are the text of the page, and its links.

There is no standard for the output of LIST (RFC 959 section 4.1.3: "may vary from system to
system"). This module reads the two forms that nearly all servers write, `ls -l` and that of MS-DOS,
and the machine-readable MLSD (RFC 3659 section 7). Gopher menus: RFC 1436 section 3.8; `URL:`
selectors lead elsewhere.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import quote, unquote

from lycosa.core.patterns import lazy_pattern
from lycosa.core.records import LinkKind
from lycosa.page.encoding import DecodedText, decode
from lycosa.page.media import MediaFormat
from lycosa.page.page_parts import ANCHOR_LENGTH, PageParts, fold
from lycosa.url.schemes import path_start

_UNIX = lazy_pattern(
    r"(?P<kind>[-dlbcps])[-rwxsStTlL]{9}\S*\s+\d+\s+(?:\S+\s+){1,2}?\d+\s+"
    r"(?:[A-Za-z]{3}\s+\d{1,2}|\d{1,2}\s+[A-Za-z]{3}|\d{4}-\d{2}-\d{2})\s+(?:\d{4}"
    r"|\d{1,2}:\d{2})\s(?P<name>.+)"
)
_DOS = lazy_pattern(
    r"\d{2}-\d{2}-\d{2,4}\s+\d{2}:\d{2}(?:[AP]M)?\s+(?P<size><DIR>|\d+)\s+(?P<name>.+)"
)
_MLSD = lazy_pattern(r"(?:[A-Za-z][\w.-]*=[^;]*;)+ (?P<name>.+)")
_MAX_LINES = 100_000
_SAFE = "!$&'()*+,;=:@-._~"
_GOPHER_LINKS = frozenset("014569gIhs;dMPp:<")
"""Item types that lead to a document; `i` is text, `3` an error, `7` needs a search query,
`2 8 T` are other services.
"""


class ListingEntry(NamedTuple):
    """One line: its text, and its reference; "" where there is none."""

    text: str
    reference: str


def ftp_listing(data: bytes) -> list[ListingEntry]:
    """Return the entries of a directory without `.` and `..`.

    A folder's reference ends in a slash.

    Other lines are text.
    """
    entries = []
    for line in data.decode("utf-8", "surrogateescape").splitlines()[:_MAX_LINES]:
        name, folder = _named(line)
        if name in (".", ".."):
            continue
        if name:
            escaped = quote(name.encode("utf-8", "surrogateescape"), safe=_SAFE)
            entries.append(
                ListingEntry(_shown(name), f"./{escaped}/" if folder else f"./{escaped}")
            )
        elif line.strip() and not line.startswith("total "):
            entries.append(ListingEntry(_shown(line.strip()), ""))
    return entries


def _named(line: str) -> tuple[str, bool]:
    """Return the name, and whether it is a folder."""
    if match := _UNIX.match(line):
        name = match["name"]
        return (name.partition(" -> ")[0] if match["kind"] == "l" else name), match["kind"] == "d"
    if match := _DOS.match(line):
        return match["name"], match["size"] == "<DIR>"
    if match := _MLSD.match(line):
        facts = line.lower()
        return (
            "." if "type=cdir;" in facts or "type=pdir;" in facts else match["name"]
        ), "type=dir;" in facts
    return "", False


def gopher_menu(data: bytes) -> list[ListingEntry]:
    """Return the items of a menu up to the line with a dot."""
    entries = []
    for raw in data.decode("utf-8", "surrogateescape").splitlines()[:_MAX_LINES]:
        if raw == ".":
            break
        kind, fields = raw[:1], raw[1:].split("\t")
        text = _shown(fields[0].strip())
        reference = _gopher_reference(kind, fields)
        if text or reference:
            entries.append(ListingEntry(text, reference))
    return entries


def _gopher_reference(kind: str, fields: list[str]) -> str:
    if kind not in _GOPHER_LINKS or not kind or len(fields) < 4:
        return ""
    selector, host, port = fields[1], fields[2].strip(), fields[3].strip()
    if selector[:4].upper() == "URL:" or selector[:5].upper() == "/URL:":
        return selector.partition(":")[2]
    if not re.fullmatch(r"[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\]", host) or not (
        port.isascii() and port.isdigit() and len(port) < 6
    ):
        return ""
    authority = host.lower() if int(port) == 70 else f"{host.lower()}:{int(port)}"
    if kind == "1" and not selector:
        return f"gopher://{authority}/"
    path = quote(selector.encode("utf-8", "surrogateescape"), safe=_SAFE + "/")
    return f"gopher://{authority}/{kind}{path}"


def _shown(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace").replace("\0", "")


_READERS = {MediaFormat.FTP_LISTING: ftp_listing, MediaFormat.GOPHER_MENU: gopher_menu}

LISTINGS = frozenset(_READERS)
"""Formats that `read_listing` reads."""

_TITLE_LETTERS = re.compile(r"\w\w")
_TEXT_END = re.compile(rb"(?:\A|\r?\n)\.\r?\n?\Z")


def read_listing(form: MediaFormat, payload: bytes, url: str) -> tuple[PageParts, DecodedText]:
    """Return the text and links of a listing.

    Names are shown in their detected encoding; references contain the original bytes.

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
    """Return a text of a gopher server without the final line with a dot (RFC 1436 section 3.1)."""
    return _TEXT_END.sub(b"", payload)
