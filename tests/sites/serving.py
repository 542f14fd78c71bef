"""Compute the responses of nginx for a folder of files.

Implements the modules static, index and autoindex.

Valid for `index index.html index.en.html; autoindex on; default_type text/html` and the MIME types
of the system.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from urllib.parse import quote

from tests.servers.nginx import MIME_TYPES

INDEX = (b"index.html", b"index.en.html")
DEFAULT_TYPE = "text/html"

_MISSING = {errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG}


@dataclass(frozen=True)
class Answer:
    """A response. Its body is the content of `file`, or `listing`.

    `location` is the path of a redirect.
    """

    status: int
    content_type: str = ""
    file: bytes = b""
    listing: bytes = b""
    location: str = ""

    def body(self) -> bytes:
        return Path(os.fsdecode(self.file)).read_bytes() if self.file else self.listing


def answer(root: Path, path: str, query: str | None = None) -> Answer:
    """Return the response to GET `path` (percent-encoded, absolute)."""
    decoded = _decoded(path)
    if decoded is None:
        return Answer(400)
    name = os.fsencode(root) + decoded
    try:
        mode = os.stat(name.rstrip(b"/") if decoded.endswith(b"/") else name).st_mode
    except OSError as error:
        return Answer(404 if error.errno in _MISSING else 403)
    if not decoded.endswith(b"/"):
        if stat.S_ISDIR(mode):
            arguments = "" if query is None else f"?{query}"
            return Answer(
                301, DEFAULT_TYPE, location=quote(decoded, safe="/!$&'()*+,:;=@~") + "/" + arguments
            )
        return Answer(200, content_type(decoded), file=name) if stat.S_ISREG(mode) else Answer(404)
    if not stat.S_ISDIR(mode):
        return Answer(404)  # ENOTDIR: `page.html/`
    for index in INDEX:
        if os.path.exists(name + index):
            return Answer(200, content_type(index), file=name + index)
    return Answer(200, DEFAULT_TYPE, listing=listing(name))


def _decoded(path: str) -> bytes | None:
    """Normalise a path as ngx_http_parse_complex_uri does. None: status 400.

    Unescapes once, merges slashes and resolves dot segments.
    """
    if re.search(r"%(?![0-9A-Fa-f]{2})", path):
        return None
    raw = re.sub(rb"%([0-9A-Fa-f]{2})", lambda match: bytes([int(match[1], 16)]), path.encode())
    if b"\0" in raw:
        return None
    parts: list[bytes] = []
    segments = raw.split(b"/")
    for segment in segments:
        if segment == b"..":
            if not parts:
                return None
            parts.pop()
        elif segment not in (b"", b"."):
            parts.append(segment)
    folder = bool(parts) and segments[-1] in (b"", b".", b"..")
    return b"/" + b"/".join(parts) + (b"/" if folder else b"")


def listing(folder: bytes) -> bytes:
    """Return a listing of ngx_http_autoindex_module, without dates or sizes.

    Directories come first, then files, both in byte order. Names that start with a dot are hidden.
    Names are escaped as URI components.
    """
    entries = []
    for name in os.listdir(folder):
        if name.startswith(b"."):
            continue
        # a dangling symbolic link is listed too, as a file
        entries.append((not os.path.isdir(folder + name), name))
    lines = ['<a href="../">../</a>']
    for is_file, name in sorted(entries):
        slash = "" if is_file else "/"
        lines.append(
            f'<a href="{quote(name, safe="")}{slash}">{escape(name.decode("utf-8", "replace"), quote=False)}{slash}</a>'
        )
    return "\r\n".join(["<html><body><pre>", *lines, "</pre></body></html>"]).encode()


def content_type(name: bytes) -> str:
    """Return the media type for the extension of a name."""
    _, dot, extension = name.rpartition(b"/")[2].rpartition(b".")
    return (
        mime_types().get(extension.decode("latin-1").lower(), DEFAULT_TYPE) if dot else DEFAULT_TYPE
    )


@cache
def mime_types() -> dict[str, str]:
    """Return extension -> media type, from the configuration of nginx."""
    block = re.search(r"types\s*\{(.*)\}", MIME_TYPES.read_text(), re.DOTALL)
    assert block is not None, f"{MIME_TYPES} has no types block"
    types = {}
    for line in block[1].split(";"):
        words = line.split()
        for extension in words[1:]:
            types[extension] = words[0]
    return types
