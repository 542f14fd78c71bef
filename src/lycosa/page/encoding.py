"""From bytes to UTF-8: which encoding a page is in.

The order is that of WHATWG HTML section 13.2.3 (byte order mark, transport, `meta` prescan or XML
declaration); then, where nothing is declared or the bytes contradict the declaration, UTF-8 if they
are valid UTF-8, else the result of `lycosa.page.encoding_detector`. No bytes raise.
"""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

from lycosa.page.encoding_detector import decoded, detect, reads_better
from lycosa.page.encoding_labels import (
    MULTI_BYTE,
    REPLACEMENT,
    USER_DEFINED,
    UTF_8,
    codec_of,
    encoding_of,
    further_of,
)
from lycosa.page.media import HEADER_LENGTH, looks_like_utf_16
from lycosa.page.visual_hebrew import logical_order

PRESCAN_LENGTH = 1024  # bytes, WHATWG HTML section 13.2.3.2
FAULT_LABEL = "charset_wrong"  # the declared encoding is not the one used
FAULT_BYTES = "charset_invalid"  # some bytes are not valid in the encoding used
# multi-byte sequences after which valid UTF-8 is no accident (one in 30 for each, in GBK text)
SURE_SEQUENCES = 6
SUSPECT_SHARE = 0.25  # non-ASCII bytes among letters: more than any language in windows-1252 has
# replaced characters among the non-ASCII ones from which a label is ignored
BROKEN_SHARE = 0.05
# half-width katakana among the non-ASCII characters; in Japanese text they are rare
HALF_WIDTH_SHARE = 0.3

_HALF_WIDTH = re.compile("[\uff61-\uff9f]")
_CHARSET_PARAMETER = re.compile(r"charset\s*=\s*[\"']?\s*([^\s\"';,]+)", re.IGNORECASE)
_XML_DECLARATION = re.compile(
    rb"^\s*<\?xml\s[^>]*?encoding\s*=\s*[\"']\s*([A-Za-z0-9._:-]+)\s*[\"']"
)
_COMMENT = re.compile(rb"<!--.*?(?:-->|$)", re.DOTALL)
_META = re.compile(rb"<meta[\s/]((?:[^>\"']|\"[^\"]*\"|'[^']*')*)", re.IGNORECASE)
_ATTRIBUTE = re.compile(rb"([^\s/=>]+)(?:\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+)))?")
_NON_ASCII = bytes(range(0x80, 0x100))
_LETTERS = bytes([*range(ord("A"), ord("Z") + 1), *range(ord("a"), ord("z") + 1)]) + _NON_ASCII
_USER_DEFINED_TABLE = {byte: 0xF700 + byte for byte in range(0x80, 0x100)}


class DecodedText(NamedTuple):
    """`data`: the payload in UTF-8 without a byte order mark. `charset`: the WHATWG name of its
    original encoding.
    """

    data: bytes
    charset: str
    faults: tuple[str, ...] = ()


def is_assumed_utf_8(payload: bytes, content_type: str = "") -> bool:
    """Return whether a page may be read as UTF-8 until a U+FFFD occurs in its text.

    No declaration contradicts it.

    Checking all bytes takes a tenth of the time of parsing, and nearly all of these pages are
    UTF-8.
    """
    if (
        payload[:2] in (b"\xff\xfe", b"\xfe\xff")
        or payload[:3] == b"\xef\xbb\xbf"
        or b"\0" in payload[:64]
        or b"\x1b" in payload[:HEADER_LENGTH]
        # a single byte is found fifty times as fast as two
        or (payload.isascii() and b"~" in payload and b"~{" in payload)
    ):
        return False
    return (label_in_header(content_type) or prescan(payload) or UTF_8) == UTF_8


def decode(payload: bytes, content_type: str = "") -> DecodedText:
    """Convert a payload to UTF-8.

    Never raises; a UTF-8 payload is returned uncopied.
    """
    if payload.startswith(b"\xef\xbb\xbf"):
        return _as_utf_8(payload[3:])
    # browsers do not support UTF-32
    if payload.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff")) and len(payload) % 4 == 0:
        return _transcoded(payload[4:], "utf-32le" if payload[0] else "utf-32be")
    if payload.startswith(b"\xff\xfe"):
        return _transcoded(payload[2:], "utf-16le")
    if payload.startswith(b"\xfe\xff"):
        return _transcoded(payload[2:], "utf-16be")
    header = label_in_header(content_type)
    if header in ("utf-16le", "utf-16be"):
        return (
            _transcoded(payload, header)
            if looks_like_utf_16(payload[:HEADER_LENGTH]) == header
            else _undeclared(payload, FAULT_LABEL)
        )
    declared = header or prescan(payload)
    if not declared or declared == REPLACEMENT:
        # Browsers refuse the encoding (HZ, ISO-2022-KR): the encoding is detected as if none was
        # declared.
        return _undeclared(payload, *((FAULT_LABEL,) if declared else ()))
    if payload.isascii() and declared != "iso-2022-jp":
        return DecodedText(payload, declared)
    if declared == UTF_8:
        if _is_utf_8(payload):
            return DecodedText(payload, UTF_8)
        return _declared_utf_8(payload, prescan(payload) if header else "")
    return _declared_legacy(payload, declared)


def label_in_header(content_type: str) -> str:
    """Return the encoding that a Content-Type header names, "" if none that is known."""
    match = _CHARSET_PARAMETER.search(content_type)
    return _named(match[1]) if match else ""


def _named(label: str) -> str:
    return encoding_of(label) or further_of(label)


def prescan(payload: bytes) -> str:
    """Return the encoding that the page itself declares in its first 1,024 bytes (WHATWG HTML
    section 13.2.3.2), "" if none.
    """
    head = payload[:PRESCAN_LENGTH]
    if b"<?xml" in head[:64] and (match := _XML_DECLARATION.match(head)):
        name = encoding_of(match[1].decode("ascii", "ignore"))
        if name:
            return UTF_8 if name.startswith("utf-16") else name
    if b"<!--" in head:
        head = _COMMENT.sub(b" ", head)
    for tag in _META.finditer(head):
        name = _declared_by_meta(tag[1])
        if name:
            if name.startswith("utf-16"):
                return UTF_8
            return "windows-1252" if name == USER_DEFINED else name
    return ""


@functools.lru_cache(maxsize=512)
def _declared_by_meta(attributes: bytes) -> str:
    """Return the encoding that a meta element declares, by its attributes, "" if none. Pages repeat
    a few, of at most PRESCAN_LENGTH bytes.
    """
    values: dict[str, str] = {}
    for key, double, single, bare in _ATTRIBUTE.findall(attributes):
        values.setdefault(
            key.decode("latin-1").lower(), (double or single or bare).decode("latin-1")
        )
    if "charset" in values:
        return _named(values["charset"])
    if values.get("http-equiv", "").lower() == "content-type":
        return label_in_header(values.get("content", ""))
    return ""


def _as_utf_8(data: bytes, *faults: str) -> DecodedText:
    if _is_utf_8(data):
        return DecodedText(data, UTF_8, faults)
    return DecodedText(decoded(data, UTF_8).encode(), UTF_8, (*faults, FAULT_BYTES))


def _is_utf_8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _transcoded(payload: bytes, encoding: str, *faults: str) -> DecodedText:
    if encoding == USER_DEFINED:
        return DecodedText(
            payload.decode("latin-1").translate(_USER_DEFINED_TABLE).encode(), encoding, faults
        )
    text = decoded(payload, codec_of(encoding))
    if "\ufffd" in text:
        faults = (*faults, FAULT_BYTES)
    if encoding == "iso-8859-8":
        text = logical_order(text)
    return DecodedText(text.encode("utf-8", "replace"), encoding, faults)


def _undeclared(payload: bytes, *faults: str) -> DecodedText:
    wide = _looks_wide(payload)
    if wide:
        return _transcoded(payload, wide, *faults)
    if payload.isascii() and b"\x1b" not in payload and b"~{" not in payload:
        return DecodedText(payload, UTF_8, faults)
    if not payload.isascii():
        if _is_utf_8(payload):
            return DecodedText(payload, UTF_8, faults)
        if _mostly_utf_8(payload):
            return _as_utf_8(payload, *faults)
    encoding = detect(payload)
    return (
        _transcoded(payload, encoding, *faults)
        if encoding != UTF_8
        else _as_utf_8(payload, *faults)
    )


def _looks_wide(payload: bytes) -> str:
    """Detect UTF-32 or UTF-16 without a byte order mark; "" for other encodings."""
    head = payload[:HEADER_LENGTH]
    if b"\0" not in head:
        return ""
    if len(payload) % 4 == 0 and len(payload) >= 8:
        quads = len(head) // 4
        zeros = [head[place : 4 * quads : 4].count(0) for place in range(4)]
        if zeros[3] == zeros[2] == quads and zeros[0] < quads:
            return "utf-32le"
        if zeros[0] == zeros[1] == quads and zeros[3] < quads:
            return "utf-32be"
    return looks_like_utf_16(head)


def _mostly_utf_8(payload: bytes) -> bool:
    """Return whether a text is UTF-8, perhaps with few broken bytes (a pasted Latin-1 word)."""
    text = decoded(payload, UTF_8)
    return text.count("\ufffd") < BROKEN_SHARE * _count_non_ascii(text)


def _count_non_ascii(text: str) -> int:
    return len(text) - len(text.encode("ascii", "ignore"))


def _declared_utf_8(payload: bytes, also_declared: str) -> DecodedText:
    if _mostly_utf_8(payload):
        return _as_utf_8(payload)
    if also_declared and also_declared != UTF_8:  # the page contradicts a header with UTF-8
        other = _transcoded(payload, also_declared, FAULT_LABEL)
        if FAULT_BYTES not in other.faults:
            return other
    return _undeclared(payload, FAULT_LABEL)


def _declared_legacy(payload: bytes, declared: str) -> DecodedText:
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        pass
    else:
        sequences = _count_non_ascii(text)
        if sequences >= SURE_SEQUENCES or (declared not in MULTI_BYTE and sequences):
            return DecodedText(payload, UTF_8, (FAULT_LABEL,))
    decoded = _transcoded(payload, declared)
    if declared in MULTI_BYTE:
        if FAULT_BYTES not in decoded.faults and declared != "shift_jis":
            return decoded
        text = decoded.data.decode()
        if declared == "shift_jis" and len(
            _HALF_WIDTH.findall(text)
        ) > HALF_WIDTH_SHARE * _count_non_ascii(text):
            # the form of EUC-JP, which is always valid in Shift_JIS too
            return _undeclared(payload, FAULT_LABEL)
        if FAULT_BYTES not in decoded.faults:
            return decoded
        if text.count("\ufffd") < BROKEN_SHARE * _count_non_ascii(text):
            return decoded
        return _undeclared(payload, FAULT_LABEL)
    if declared == "windows-1252" and _count(payload, _NON_ASCII) > SUSPECT_SHARE * _count(
        _without_tags(payload), _LETTERS
    ):
        detected = _undeclared(payload, FAULT_LABEL)
        return decoded if detected.charset == declared else detected
    other = reads_better(payload, declared)
    return _transcoded(payload, other, FAULT_LABEL) if other else decoded


def _count(data: bytes, pattern: bytes) -> int:
    return len(data) - len(data.translate(None, pattern))


def _without_tags(payload: bytes) -> bytes:
    return re.sub(rb"<[^<>]*>", b" ", payload)
