"""Map URLs to file names that are valid on any file system and open as the right type."""

from __future__ import annotations

import re
from collections.abc import Iterable
from unicodedata import normalize
from urllib.parse import unquote_to_bytes

import xxhash

# Windows has the strictest rules; % # ~ are used here
_UNSAFE = re.compile(r'[\x00-\x1f\x7f<>:"/\\|?*%#~]|[ .]$|^[ ]')
_DEVICES = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$)", re.IGNORECASE)
_MAX_NAME_BYTES = 100  # file systems allow 255, complete paths often only 260
_EXTENSIONS = {
    "text/html": (".html", ".htm", ".xhtml", ".shtml"),
    "application/xhtml+xml": (".xhtml", ".html", ".htm"),
    "text/css": (".css",),
    "text/javascript": (".js", ".mjs"),
    "application/javascript": (".js", ".mjs"),
    "text/markdown": (".md",),
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


def file_names(pages: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return URL -> relative path with `/`, for (URL, media type) in any order.

    Paths are unique even if case and composition of accents are ignored, and no path is a folder of
    another. `http` and `https` share folders: `HOST/…`, or `HOST_PORT/…`.
    """
    preferred = [(url, *_preferred_name(url, kind)) for url, kind in sorted(set(pages))]
    folders = {
        _folded("/".join(folder[:depth]))
        for _, folder, _, _ in preferred
        for depth in range(1, len(folder) + 1)
    }
    used: set[str] = set()
    names: dict[str, str] = {}
    for url, folder, stem, extension in preferred:
        path = "/".join((*folder, stem + extension))
        if _folded(path) in used or _folded(path) in folders:
            path = "/".join((*folder, f"{stem}~{_hash(url)[:12]}{extension}"))
        used.add(_folded(path))
        names[url] = path
    return names


def _folded(path: str) -> str:
    """Return what Windows and macOS compare of a path."""
    return normalize("NFC", path.casefold())


def is_known(media_type: str) -> bool:
    """Return whether files of a media type have a specific extension."""
    return media_type in _EXTENSIONS


def _preferred_name(url: str, media_type: str) -> tuple[tuple[str, ...], str, str]:
    """Return folders, stem and extension of a URL's file."""
    _, _, rest = url.partition("://")
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
        if not media_type or "html" in media_type:
            return folder, "index", ".html"
        return folder, "index", _EXTENSIONS.get(media_type, (".bin",))[0]
    stem, dot, extension = name.rpartition(".")
    if not dot or not re.fullmatch(r"[A-Za-z0-9]{1,8}", extension) or query:
        stem, extension = name, ""
    else:
        extension = f".{extension}"
    expected = _EXTENSIONS.get(media_type, ())
    if expected and extension.lower() not in expected:
        # `/a.cgi` that is HTML, `/a.html` that is an image: offline the name determines the type
        stem, extension = stem + extension, expected[0]
    elif not expected and extension.lower() in (".html", ".htm", ".xhtml"):
        stem, extension = stem + extension, ".bin"
    return folder, _safe(stem, 12 + len(extension) + 1), extension


def _text(escaped: str) -> str:
    return unquote_to_bytes(escaped).decode("utf-8", "backslashreplace")


def _safe(name: str, reserved: int = 0) -> str:
    """Return a valid component of a path; `reserved` bytes follow it."""
    safe = _UNSAFE.sub("_", name)
    if _DEVICES.match(safe) or safe in ("", ".", ".."):
        safe = f"_{safe}"
    if safe.encode()[_MAX_NAME_BYTES - reserved :]:
        cut = safe.encode()[: _MAX_NAME_BYTES - reserved - 13].decode("utf-8", "ignore")
        safe = f"{cut}~{_hash(name)[:12]}"
    elif safe != name:
        safe = (
            f"{safe}~{_hash(name)[:6]}"
            if len(safe.encode()) + 7 + reserved <= _MAX_NAME_BYTES
            else safe
        )
    return safe


def _hash(text: str) -> str:
    return xxhash.xxh3_64_hexdigest(text.encode("utf-8", "surrogatepass"))
