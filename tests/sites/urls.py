"""Resolve URLs for the independent walk.

By RFC 3986 with the WHATWG rules that real pages need.

Independent of the library that the crawler uses. `urllib.parse.urljoin` is not sufficient: it drops
empty path segments (`a//b`), which the WHATWG standard keeps, and ignores `%2e`.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import quote, unquote_to_bytes

DEFAULT_PORTS = {"http": "80", "https": "443"}

# RFC 3986 appendix B
_REFERENCE = re.compile(
    r"(?:([A-Za-z][A-Za-z0-9+.-]*):)?(?://([^/?]*))?([^?]*)(?:\?(.*))?", re.DOTALL
)
_UNRESERVED = re.compile(r"[A-Za-z0-9._~-]")
_PATH_SAFE = "!$%&'()*+,-./:;=@[\\]_|~"  # not in the WHATWG path percent-encode set
_QUERY_SAFE = "!$%&()*+,-./:;=?@[\\]^_`{|}~"  # not in the special-query percent-encode set
_DOTS = {".": ".", "%2e": ".", "..": "..", ".%2e": "..", "%2e.": "..", "%2e%2e": ".."}
_EDGES = "".join(map(chr, range(0x21)))


class Split(NamedTuple):
    """Parts of a normalised URL. `query` None: no question mark."""

    scheme: str
    authority: str
    path: str
    query: str | None

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.authority}"

    @property
    def url(self) -> str:
        return f"{self.origin}{self.path}" + ("" if self.query is None else f"?{self.query}")


def join(base: Split | None, reference: str) -> Split | None:
    """Resolve a reference without its fragment. None: neither http nor https."""
    text = reference.strip(_EDGES).translate({9: None, 10: None, 13: None}).partition("#")[0]
    before, mark, after = text.partition("?")
    match = _REFERENCE.fullmatch(before.replace("\\", "/") + mark + after)
    if match is None:
        return None
    scheme, authority, path, query = (match[1] or "").lower(), match[2], match[3], match[4]
    if scheme and scheme not in DEFAULT_PORTS:
        return None
    if scheme and authority is None and (base is None or scheme != base.scheme):
        # `https:host/path`: special schemes need no slashes
        authority, _, rest = path.lstrip("/").partition("/")
        path = f"/{rest}"
    if authority is not None:
        scheme = scheme or (base.scheme if base else "")
        return _normal(scheme, authority, path, query) if scheme and authority else None
    if base is None:
        return None
    if not path:
        return _normal(
            base.scheme, base.authority, base.path, base.query if query is None else query
        )
    if not path.startswith("/"):
        path = base.path.rpartition("/")[0] + "/" + path
    return _normal(base.scheme, base.authority, path, query)


def split(url: str) -> Split:
    """Split an absolute URL into its parts.

    Raises:
        ValueError: it is not an absolute http or https URL.
    """
    parts = join(None, url)
    if parts is None:
        raise ValueError(f"{url!r} is not an absolute http or https URL")
    return parts


def _normal(scheme: str, authority: str, path: str, query: str | None) -> Split:
    host = authority.rpartition("@")[2].lower()
    name, _, port = host.rpartition(":")
    if name and port in ("", DEFAULT_PORTS[scheme]):
        host = name
    return Split(
        scheme,
        host,
        _percent(_without_dots(path or "/"), _PATH_SAFE),
        None if query is None else _percent(query, _QUERY_SAFE),
    )


def _without_dots(path: str) -> str:
    """RFC 3986 section 5.2.4 on an absolute path, empty segments kept."""
    kept_segments: list[str] = []
    segments = path.split("/")[1:]
    for number, segment in enumerate(segments):
        dots = _DOTS.get(segment.lower())
        last = number == len(segments) - 1
        if dots is None:
            kept_segments.append(segment)
            continue
        if dots == ".." and kept_segments:
            kept_segments.pop()
        if last:
            kept_segments.append("")
    return "/" + "/".join(kept_segments)


def _percent(text: str, safe: str) -> str:
    """Normalise percent-escapes.

    Upper case; none for unreserved characters; UTF-8 for others.
    """
    return re.sub(r"%[0-9A-Fa-f]{2}", _escape, quote(text, safe=safe))


def _escape(match: re.Match[str]) -> str:
    character = unquote_to_bytes(match[0]).decode("latin-1")
    return character if _UNRESERVED.fullmatch(character) else match[0].upper()
