"""The schemes of URLs that are crawled, and where the parts of a normalised URL begin."""

from __future__ import annotations

WEB = ("http://", "https://")
"""How URLs of the web begin."""

OTHERS = ("ftp://", "gopher://")
"""How the others begin: files, directories and menus (`fetch.other_schemes`)."""

CRAWLED = WEB + OTHERS

DEFAULT_PORTS = {"http": 80, "https": 443, "ftp": 21, "gopher": 70}


def path_start(url: str) -> int:
    """Where the path of a normalised URL begins; -1 if it has none, as an origin. Hot path."""
    first = url[:1]
    # behind http:// and a character, ftp://, gopher://
    return url.find("/", 8 if first == "h" else 6 if first == "f" else 9)


def scheme_of(url: str) -> str:
    """`ftp://` of `ftp://h/`: how a normalised URL begins."""
    return url[: url.index("//") + 2]
