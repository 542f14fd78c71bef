"""Detection of texts that were decoded in a wrong encoding (mojibake)."""

from __future__ import annotations

import re

# The bytes 80 to BF in windows-1252: these characters follow the first byte of a character when
# UTF-8 is decoded as windows-1252.
_FOLLOWING = (
    "\u0080-\u00bf\u20ac\u201a\u0192\u201e\u2026\u2020\u2021\u02c6\u2030\u0160\u2039\u0152\u017d\u2018\u2019"
    "\u201c\u201d\u2022\u2013\u2014\u02dc\u2122\u0161\u203a\u0153\u017e\u0178"
)
_DOUBLE = re.compile(
    f"[\u00c3\u00c2](?![\u00ab\u00bb\u2018-\u201e\\s])[{_FOLLOWING}]"  # Latin letters
    "|\u00e2\u20ac[\u2122\u0153\u009d\u02dc\u201c\u201d\u00a6\u00a2]"  # quotes and dashes
    f"|(?:[\u00d0\u00d1][{_FOLLOWING}]){{2}}"  # Cyrillic
    f"|(?:[\u00d8-\u00db][{_FOLLOWING}]){{2}}"  # Arabic
    f"|(?:[\u00e0-\u00ef][{_FOLLOWING}]{{2}}){{2}}"  # Indic, Han, kana, Hangul
)


def damaged_places(text: str) -> int:
    """Return the number of places with U+FFFD or UTF-8 as windows-1252."""
    if text.isascii():
        return 0
    return text.count("\ufffd") + sum(1 for _ in _DOUBLE.finditer(text))
