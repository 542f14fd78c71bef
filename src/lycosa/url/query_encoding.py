"""Queries in the encoding of the page that contains the link.

WHATWG URL Standard, "query state" and "percent-encode after encoding". Browsers encode `?q=é` of a
windows-1251 or Big5 page in that encoding; servers expect the same from a crawler.
"""

from __future__ import annotations

import codecs
import re

_NOT_ASCII = re.compile("[^\x00-\x7f]+")
_ENCODED = frozenset(b"\"#<>'")  # of the printable ASCII: the special-query percent-encode set

# Python's codec names -> the codec of the standard's encoding of that label (WHATWG
# Encoding Standard).
_CODECS = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "euc_kr": "cp949",
    "shift_jis": "cp932",
} | {
    name: name
    for name in (
        *(f"iso8859-{part}" for part in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)),
        *(f"cp{page}" for page in (866, 874, 932, 949, *range(1250, 1259))),
        *(
            "koi8-r",
            "koi8-u",
            "mac-roman",
            "mac-cyrillic",
            "big5",
            "big5hkscs",
            "gb18030",
            "euc_jp",
            "iso2022_jp",
        ),
    )
}

_WITHOUT_PYTHON_NAME = {
    "windows-874": "cp874",
    "windows-31j": "cp932",
    "iso-8859-8-i": "iso8859-8",
    "x-mac-cyrillic": "mac-cyrillic",
}
# the standard's Shift_JIS encoder, steps 4 to 6
_SHIFT_JIS = str.maketrans("\u2212\u00a5\u203e", "\uff0d\\~")


def codec_for(encoding: str) -> str | None:
    """Return the Python codec to encode queries with; None for UTF-8, which UTF-16 and unknown
    encodings use too.
    """
    if not encoding or encoding == "utf-8" or not encoding.isascii():
        return None
    codec = _WITHOUT_PYTHON_NAME.get(encoding.lower())
    if codec is not None:
        return codec
    try:
        return _CODECS.get(codecs.lookup(encoding).name)
    except (LookupError, ValueError):
        return None


def encode_query(href: str, codec: str) -> str:
    """Percent-encode the non-ASCII characters in the query of an href; characters that the codec
    lacks become an escaped `&#N;`.
    """
    before, cut, fragment = href.partition("#")
    path, mark, query = before.partition("?")
    if query.isascii():
        return href
    return (
        f"{path}{mark}{_NOT_ASCII.sub(lambda run: _percent(run[0], codec), query)}{cut}{fragment}"
    )


def _percent(text: str, codec: str) -> str:
    written: list[str] = []
    if codec == "cp932":
        text = text.translate(_SHIFT_JIS)
    while text:
        try:
            encoded, lacking, text = text.encode(codec), "", ""
        except UnicodeEncodeError as error:
            encoded, lacking, text = (
                text[: error.start].encode(codec),
                text[error.start],
                text[error.start + 1 :],
            )
        written += (
            chr(byte) if 0x20 < byte < 0x7F and byte not in _ENCODED else f"%{byte:02X}"
            for byte in encoded
        )
        if lacking:
            written.append(f"%26%23{ord(lacking)}%3B")
    return "".join(written)
