"""Normal form of ftp (RFC 1738 section 3.2) and gopher (RFC 4266) URLs.

Neither has a query: a question mark is part of the name and is escaped. Paths are octets, so
escapes are decoded and encoded again, and equal URLs get equal forms.
"""

from __future__ import annotations

import re
from urllib.parse import quote_from_bytes, unquote_to_bytes

import ada_url

from lycosa.core.patterns import lazy_pattern
from lycosa.url.schemes import DEFAULT_PORTS, path_start

_UNESCAPED = "!$&'()*+,;=:@-._~"
_GOPHER = lazy_pattern(r"[\x00-\x20]*gopher://(?:[^/?#]*@)?([^/?#]*)([^#]*)", re.IGNORECASE)
_AUTHORITY = lazy_pattern(r"(.+?)(?::(\d{0,5}))?")
_IGNORED = {9: None, 10: None, 13: None}  # as the URL standard does
_TYPE_CODE = lazy_pattern(r"(?:;type=[aid])+$", re.IGNORECASE)
# would end the line that is sent, and begin a command of its own
_COMMANDS = lazy_pattern(rb"[\0\r\n]")


def finish_ftp(href: str) -> str:
    """Return the normalised form of an ftp URL that the URL standard has serialised: without user
    name, fragment and `;type=`. "" if it cannot be requested.
    """
    href = href.partition("#")[0]
    start = path_start(href)
    authority, path = href[6:start].rpartition("@")[2], _TYPE_CODE.sub("", href[start:])
    segments = []
    # one by one, since %2F is not a separator: it means the root of the file system
    for segment in path.split("/"):
        octets = _octets(segment, "")
        if octets is None:
            return ""
        segments.append(octets)
    result = f"ftp://{authority}{'/'.join(segments)}"
    # dots behind a `?` or before `;type=` are path segments only now
    if "/." in result:
        again: str = ada_url.normalize_url(result)
        return result if again == result else finish_ftp(again)
    return result


def finish_gopher(text: str) -> str:
    """Return the normal form of an absolute gopher URL: dot segments stay. "" if it is none.

    A menu without a selector is the root, with or without its item type.
    """
    match = _GOPHER.fullmatch(text.translate(_IGNORED).partition("#")[0].rstrip(" "))
    named = _AUTHORITY.fullmatch(match[1]) if match is not None else None
    if match is None or named is None:
        return ""
    try:
        host = ada_url.normalize_url(f"http://{named[1]}/")[7:-1]
    except ValueError:
        return ""
    port = int(named[2] or DEFAULT_PORTS["gopher"])
    path = _octets(match[2].removeprefix("/"), "/")
    if (
        path is None
        or not host
        or not 0 < port < 65_536
        or "/" in host
        or ":" in host.rpartition("]")[2]
    ):
        return ""
    where = host if port == DEFAULT_PORTS["gopher"] else f"{host}:{port}"
    return f"gopher://{where}/{'' if path == '1' else path}"


def _octets(text: str, safe: str) -> str | None:
    """Decode and encode escapes; None if there is a line end or NUL."""
    octets = unquote_to_bytes(text.encode("utf-8", "surrogatepass"))
    return None if _COMMANDS.search(octets) else quote_from_bytes(octets, safe=_UNESCAPED + safe)
