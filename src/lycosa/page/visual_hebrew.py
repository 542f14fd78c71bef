"""Hebrew text in visual order: each line as it is shown from left to right, so that words are
reversed.

Browsers show ISO-8859-8 so (WHATWG Encoding Standard, section 9.1), but many pages with that label
are in logical order.
"""

from __future__ import annotations

import re

_MARKUP = re.compile(
    r"<!--.*?(?:-->|\Z)|<(script|style)\b.*?(?:</\1[^<>]*>?|\Z)|<[^<>]*>|[\r\n]+",
    re.IGNORECASE | re.DOTALL,
)
_WORD = re.compile("[א-ת]{2,}")
_FINAL_LETTERS = frozenset("ךםןףץ")
_HEBREW_LETTER = re.compile("[א-ת]")
_LATIN_LETTER = re.compile("[A-Za-z]")
_REFERENCE = re.compile(r"&#?\w+;")
# What keeps its order in a line that is reversed: a reference, a Latin text, a number.
_TOKEN = re.compile(
    r"&#?\w+;|[A-Za-z](?:(?:[^א-ת&]|&#?\w+;)*[A-Za-z0-9])?"
    r"|\d+(?:[.,:/-]\d+)*%?|.",
    re.DOTALL,
)
_HEBREW_RUN = re.compile("[א-ת](?:[^A-Za-z0-9&]*[א-ת])?")
_MIRRORED = str.maketrans("()[]{}<>«»", ")(][}{><»«")


def is_visual(text: str) -> bool:
    """Return whether final letters begin words rather than end them."""
    words = _WORD.findall(text)
    begin = sum(word[0] in _FINAL_LETTERS for word in words)
    return begin > sum(word[-1] in _FINAL_LETTERS for word in words)


def logical_order(html: str) -> str:
    """Return HTML or plain text with its visual lines in logical order. Lines that are in logical
    order, such as titles, and attributes remain as they are. The parts of a line with inline
    elements remain in their places.
    """
    if not is_visual(_MARKUP.sub("\n", html)):
        return html
    pieces: list[str] = []
    end = 0
    for match in _MARKUP.finditer(html):
        pieces += (_logical_line(html[end : match.start()]), match[0])
        end = match.end()
    return "".join((*pieces, _logical_line(html[end:])))


def _logical_line(line: str) -> str:
    hebrew = len(_HEBREW_LETTER.findall(line))
    if not hebrew or is_visual(line[::-1]):
        return line
    if hebrew < len(_LATIN_LETTER.findall(_REFERENCE.sub("", line))):
        return _HEBREW_RUN.sub(lambda run: _reversed(run[0]), line)
    text = line.strip()
    start = line.index(text)
    return line[:start] + _reversed(text) + line[start + len(text) :]


def _reversed(text: str) -> str:
    return "".join(
        token.translate(_MIRRORED) if len(token) == 1 else token
        for token in reversed(_TOKEN.findall(text))
    )
