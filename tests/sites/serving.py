"""What nginx answers for a path of a folder of files, without asking it: the rules of
ngx_http_static, index and autoindex.

Holds for `index index.html index.en.html; autoindex on; default_type text/html` and the mime types
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
    """One answer. `file` holds the body, or `listing` is it; a redirect has a `location` (a
    path).
    """

    status: int
    content_type: str = ""
    file: bytes = b""
    listing: bytes = b""
    location: str = ""

    def body(self) -> bytes:
        return Path(os.fsdecode(self.file)).read_bytes() if self.file else self.listing


def answer(root: Path, path: str, query: str | None = None) -> Answer:
    """The answer to GET `path` (percent-encoded, absolute) under a document root."""
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
    """ngx_http_parse_complex_uri: unescaped once, slashes merged, dot segments resolved; None where
    nginx says 400.
    """
    if re.search(r"%(?![0-9A-Fa-f]{2})", path):
        return None
    raw = re.sub(rb"%([0-9A-Fa-f]{2})", lambda match: bytes([int(match[1], 16)]), path.encode())
    if b"\0" in raw:
        return None
    retained: list[bytes] = []
    segments = raw.split(b"/")
    for segment in segments:
        if segment == b"..":
            if not retained:
                return None
            retained.pop()
        elif segment not in (b"", b"."):
            retained.append(segment)
    folder = bool(retained) and segments[-1] in (b"", b".", b"..")
    return b"/" + b"/".join(retained) + (b"/" if folder else b"")


def listing(folder: bytes) -> bytes:
    """A directory listing as ngx_http_autoindex_module writes it, links only: the columns of date
    and size are left out.

    Directories first, then files, each in the order of their bytes; names that start with a dot are
    hidden; names are escaped as URI components.
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
    """By the extension of the last path segment, in lower case."""
    _, dot, extension = name.rpartition(b"/")[2].rpartition(b".")
    return (
        mime_types().get(extension.decode("latin-1").lower(), DEFAULT_TYPE) if dot else DEFAULT_TYPE
    )


@cache
def mime_types() -> dict[str, str]:
    """Extension -> media type, from nginx's own table."""
    block = re.search(r"types\s*\{(.*)\}", MIME_TYPES.read_text(), re.DOTALL)
    assert block is not None, f"{MIME_TYPES} holds no types block"
    types = {}
    for line in block[1].split(";"):
        words = line.split()
        for extension in words[1:]:
            types[extension] = words[0]
    return types
