"""Style sheets: the URLs that they name, by `url()` and `@import` (CSS Syntax Level 3, sections 4.3.4 to 4.3.6), and styles inside HTML.

Bytes are read as ISO 8859-1, which keeps each of them: what CSS needs to know of itself is ASCII.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

_URL = re.compile(
    r"/\*.*?(?:\*/|\Z)"
    r"|@import\s+(?P<quote>[\"'])(?P<imported>[^\"'\n]*)(?P=quote)"
    r"|url\(\s*(?P<mark>[\"']?)(?P<url>[^\"'()\n]*?)(?P=mark)\s*\)",
    re.IGNORECASE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:([0-9a-fA-F]{1,6})[ \t\r\n]?|([^\r\n]))")
_BLOCK = re.compile(rb"<style\b[^>]*>(.*?)</style", re.IGNORECASE | re.DOTALL)
_ATTRIBUTE = re.compile(rb"\sstyle\s*=\s*(?:\"([^\"]*)\"|'([^']*)')", re.IGNORECASE)


def urls(css: str) -> Iterator[str]:
    """The URLs as they stand there, `data:` and fragments left out."""
    for match in _URL.finditer(css):
        found = _value(match)
        if found:
            yield found


def rewrite(css: str, replace: Callable[[str], str | None]) -> str:
    """The sheet with other URLs; None leaves one as it is."""

    def put(match: re.Match[str]) -> str:
        found = _value(match)
        instead = replace(found) if found else None
        if instead is None:
            return match[0]
        quoted = instead.replace("\\", "\\\\").replace('"', '\\"')
        return f'@import "{quoted}"' if match["imported"] is not None else f'url("{quoted}")'

    return _URL.sub(put, css)


def html_urls(html: bytes) -> Iterator[str]:
    """The same of style elements and attributes of an HTML document in an encoding that keeps ASCII."""
    for block in _BLOCK.finditer(html):
        yield from urls(block[1].decode("latin-1"))
    for attribute in _ATTRIBUTE.finditer(html):
        yield from urls((attribute[1] or attribute[2] or b"").decode("latin-1").replace("&quot;", '"').replace("&amp;", "&"))


def _value(match: re.Match[str]) -> str:
    text = match["imported"] if match["imported"] is not None else match["url"] or ""
    text = _ESCAPE.sub(_unescape, text).strip()
    return "" if text.startswith("#") or text[:5].lower() == "data:" else text


def _unescape(match: re.Match[str]) -> str:
    if match[2]:
        return match[2]
    code = int(match[1], 16)
    return chr(code) if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000 else "\ufffd"
