"""The one form of URLs that name no page of the web: ftp (RFC 1738 section 3.2) and gopher (RFC
4266).

Neither has a query: what stands behind a question mark is a part of the name, so the mark is
written as an escape. Both stand for octets, so escapes are undone and written again, and a URL has
one form whoever wrote it.
"""

from __future__ import annotations

import re
from urllib.parse import quote_from_bytes, unquote_to_bytes

import ada_url

from lycosa.url.schemes import DEFAULT_PORTS, path_start

_KEPT = "!$&'()*+,;=:@-._~"
_GOPHER = re.compile(r"[\x00-\x20]*gopher://(?:[^/?#]*@)?([^/?#]*)([^#]*)", re.IGNORECASE)
_AUTHORITY = re.compile(r"(.+?)(?::(\d{0,5}))?")
_IGNORED = {9: None, 10: None, 13: None}  # as the URL standard does, wherever they stand
_TYPE_CODE = re.compile(r"(?:;type=[aid])+$", re.IGNORECASE)
# would end the line that is sent, and begin a command of its own
_COMMANDS = re.compile(rb"[\0\r\n]")


def finish_ftp(href: str) -> str:
    """From the URL standard's serialisation of an ftp URL to ours: without user name, fragment and
    `;type=`. "" if it cannot be sent.
    """
    href = href.partition("#")[0]
    start = path_start(href)
    authority, path = href[6:start].rpartition("@")[2], _TYPE_CODE.sub("", href[start:])
    segments = []
    # each for itself, since %2F is no slash: it begins at the file system's root
    for segment in path.split("/"):
        octets = _octets(segment, "")
        if octets is None:
            return ""
        segments.append(octets)
    result = f"ftp://{authority}{'/'.join(segments)}"
    # dots that stood behind a `?` or before `;type=` were none to the parser, and are now
    if "/." in result:
        again: str = ada_url.normalize_url(result)
        return result if again == result else finish_ftp(again)
    return result


def finish_gopher(text: str) -> str:
    """An absolute gopher URL in one form: item type and selector as octets, no dots taken out. ""
    if it is none.

    A menu without a selector is the root, whether its type is written or not.
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
    """Escapes undone and written again; None with a line end in it."""
    octets = unquote_to_bytes(text.encode("utf-8", "surrogatepass"))
    return None if _COMMANDS.search(octets) else quote_from_bytes(octets, safe=_KEPT + safe)
