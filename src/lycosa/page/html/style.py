"""Style sheets: the URLs that they name, by `url()` and `@import` (CSS Syntax Level 3, sections
4.3.4 to 4.3.6), and styles inside HTML.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from lycosa.core.patterns import lazy_pattern

_URL = lazy_pattern(
    r"/\*.*?(?:\*/|\Z)"
    r"|@import\s++(?:\"(?P<import1>[^\"\n]*+)\"|'(?P<import2>[^'\n]*+)')"
    r"|url\(\s*+(?:\"(?P<url1>[^\"\n]*+)\"|'(?P<url2>[^'\n]*+)'|(?P<url3>[^\"'()\n]*+))\s*+\)",
    re.IGNORECASE | re.DOTALL,
)
_ESCAPE = lazy_pattern(r"\\(?:([0-9a-fA-F]{1,6})[ \t\r\n]?|([^\r\n]))")
_STYLE = lazy_pattern(rb"<style\b[^>]{0,2000}>", re.IGNORECASE)
_STYLE_END = lazy_pattern(rb"</style", re.IGNORECASE)
_SRCSET = lazy_pattern(rb"\s(?:image)?srcset\s*=\s*(?:\"([^\"]*)\"|'([^']*)')", re.IGNORECASE)
CANDIDATE = lazy_pattern(r"([^\s,]\S*[^\s,]|[^\s,])(\s+[^,]*)?(?:,|$)")
"""(URL, descriptor) of one image of a `srcset`. It begins with no white space: a search would try a
long run of it from each place.
"""
_ATTRIBUTE = lazy_pattern(rb"\sstyle\s*=\s*(?:\"([^\"]*)\"|'([^']*)')", re.IGNORECASE)


def encoding_of(data: bytes) -> str:
    """Return UTF-8 if the bytes are valid in it, else ISO 8859-1, which preserves every byte."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return "latin-1"
    return "utf-8"


def text_of(data: bytes) -> str:
    """Decode a style sheet, or a part of one."""
    return data.decode(encoding_of(data))


def urls(css: str) -> Iterator[str]:
    """Return the URLs as written, without `data:` and fragments."""
    for match in _URL.finditer(css):
        url = _value(match)
        if url:
            yield url


def rewrite(css: str, replace: Callable[[str], str | None]) -> str:
    """Return the sheet with replaced URLs; None keeps a URL."""

    def put(match: re.Match[str]) -> str:
        url = _value(match)
        instead = replace(url) if url else None
        if instead is None:
            return match[0]
        quoted = instead.replace("\\", "\\\\").replace('"', '\\"')
        return f'@import "{quoted}"' if match[0][0] == "@" else f'url("{quoted}")'

    return _URL.sub(put, css)


def html_urls(html: bytes) -> Iterator[str]:
    """Yield the URLs of style elements and attributes of an HTML document in an encoding that
    contains ASCII.
    """
    position = 0
    while start := _STYLE.search(html, position):
        end = _STYLE_END.search(html, start.end())
        position = end.end() if end else len(html)
        yield from urls(text_of(html[start.end() : position]))
    for attribute in _ATTRIBUTE.finditer(html):
        yield from urls(
            text_of(attribute[1] or attribute[2] or b"")
            .replace("&quot;", '"')
            .replace("&amp;", "&")
        )


def image_sets(html: bytes) -> Iterator[str]:
    """Yield the URLs of `srcset` attributes (WHATWG HTML, section 4.8.4.2.1): they contain no
    spaces, and a comma ends one.
    """
    for attribute in _SRCSET.finditer(html):
        value = text_of(attribute[1] or attribute[2] or b"").replace("&amp;", "&")
        for url, _ in CANDIDATE.findall(value):
            yield url


def _value(match: re.Match[str]) -> str:
    text = next((group for group in match.groups() if group is not None), "")
    text = _ESCAPE.sub(_unescape, text).strip()
    return "" if text.startswith("#") or text[:5].lower() == "data:" else text


def _unescape(match: re.Match[str]) -> str:
    if match[2]:
        return match[2]
    code = int(match[1], 16)
    return chr(code) if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000 else "\ufffd"
