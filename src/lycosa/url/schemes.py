"""The URL schemes that are crawled, and the parts of a normalised URL."""

from __future__ import annotations

WEB = ("http://", "https://")
"""Prefixes of web URLs."""

OTHERS = ("ftp://", "gopher://")
"""Prefixes of the others: files, directories and menus (`fetch.other_schemes`)."""

CRAWLED = WEB + OTHERS

DEFAULT_PORTS = {"http": 80, "https": 443, "ftp": 21, "gopher": 70}


def path_start(url: str) -> int:
    """Return the index of the path of a normalised URL; -1 if it has none. Hot path."""
    first = url[:1]
    # after http:// and a character, ftp://, gopher://
    return url.find("/", 8 if first == "h" else 6 if first == "f" else 9)


def scheme_of(url: str) -> str:
    """Return the scheme of a normalised URL with its separator: `ftp://` of `ftp://h/`."""
    return url[: url.index("//") + 2]
