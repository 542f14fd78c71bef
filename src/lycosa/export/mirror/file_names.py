"""From URLs to file names that any file system takes, and that a browser opens as what they are."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

import xxhash

# Windows is the strictest; % # ~ are ours
_UNSAFE = re.compile(r'[\x00-\x1f\x7f<>:"/\\|?*%#~]|[ .]$|^[ ]')
_DEVICES = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$)", re.IGNORECASE)
_LONGEST = 100  # bytes of one name; file systems take 255, whole paths often no more than 260
_INDEX = "index.html"
_EXTENSIONS = {
    "text/html": (".html", ".htm", ".xhtml", ".shtml"),
    "application/xhtml+xml": (".xhtml", ".html", ".htm"),
    "text/css": (".css",),
    "text/javascript": (".js", ".mjs"),
    "application/javascript": (".js", ".mjs"),
    "text/plain": (".txt",),
    "text/xml": (".xml", ".rss", ".atom"),
    "application/xml": (".xml", ".rss", ".atom"),
    "application/pdf": (".pdf",),
    "application/json": (".json",),
    "image/png": (".png",),
    "image/jpeg": (".jpg", ".jpeg", ".jpe", ".jfif"),
    "image/gif": (".gif",),
    "image/webp": (".webp",),
    "image/avif": (".avif",),
    "image/svg+xml": (".svg",),
    "image/x-icon": (".ico",),
    "image/vnd.microsoft.icon": (".ico",),
    "font/woff": (".woff",),
    "font/woff2": (".woff2",),
}
_SPECIFIC = {extension for extensions in _EXTENSIONS.values() for extension in extensions}


class Named(NamedTuple):
    """A URL and the media type that it was served as."""

    url: str
    media_type: str


def file_names(pages: Iterable[Named]) -> dict[str, str]:
    """URL -> relative path, with `/`. Each path is there once, in whatever case it is compared, and
    none is another's folder.

    `http` and `https` share folders: `HOST/…`, with `_PORT` where one is named. The result depends
    on the set alone, not on its order.
    """
    wanted = [(page.url, *_wish(page)) for page in sorted(set(pages))]
    folders = {
        "/".join(folder[:depth]).lower()
        for _, folder, _, _ in wanted
        for depth in range(1, len(folder) + 1)
    }
    taken: set[str] = set()
    names: dict[str, str] = {}
    for url, folder, stem, extension in wanted:
        path = "/".join((*folder, stem + extension))
        if path.lower() in taken or path.lower() in folders:
            path = "/".join((*folder, f"{stem}~{_hash(url)[:12]}{extension}"))
        taken.add(path.lower())
        names[url] = path
    return names


def is_known(media_type: str) -> bool:
    """Whether files of a media type have an extension of their own."""
    return media_type in _EXTENSIONS


def _wish(page: Named) -> tuple[tuple[str, ...], str, str]:
    """Folders, stem and extension of a URL's file."""
    _, _, rest = page.url.partition("://")
    place, _, query = rest.partition("?")
    host, *segments = place.split("/")
    folder = (
        _safe(host.replace(":", "_")),
        *(_safe(_text(segment)) for segment in segments[:-1] if segment),
    )
    name = _text(segments[-1]) if segments else ""
    if query:
        name = f"{name or 'index'}@{_text(query)}"
    elif not name:
        return (
            folder,
            "index",
            ".html"
            if not page.media_type or "html" in page.media_type
            else _first(page.media_type),
        )
    stem, dot, extension = name.rpartition(".")
    if not dot or not re.fullmatch(r"[A-Za-z0-9]{1,8}", extension) or query:
        stem, extension = name, ""
    else:
        extension = f".{extension}"
    expected = _EXTENSIONS.get(page.media_type, ())
    if expected and extension.lower() not in expected:
        # `/a.cgi` that is HTML, `/a.html` that is an image: a browser on a disk goes by the name.
        stem, extension = stem + extension, expected[0]
    elif not expected and extension.lower() in (".html", ".htm", ".xhtml"):
        stem, extension = stem + extension, ".bin"
    return folder, _safe(stem, 12 + len(extension) + 1), extension


def _first(media_type: str) -> str:
    return _EXTENSIONS.get(media_type, (".bin",))[0]


def _text(escaped: str) -> str:
    return unquote_to_bytes(escaped).decode("utf-8", "backslashreplace")


def _safe(name: str, room: int = 0) -> str:
    """One component of a path."""
    safe = _UNSAFE.sub("_", name)
    if _DEVICES.match(safe) or safe in ("", ".", ".."):
        safe = f"_{safe}"
    if safe.encode()[_LONGEST - room :]:
        cut = safe.encode()[: _LONGEST - room - 13].decode("utf-8", "ignore")
        safe = f"{cut}~{_hash(name)[:12]}"
    elif safe != name:
        safe = f"{safe}~{_hash(name)[:6]}" if len(safe.encode()) + 7 + room <= _LONGEST else safe
    return safe


def _hash(text: str) -> str:
    return xxhash.xxh3_64_hexdigest(text.encode("utf-8", "surrogatepass"))
