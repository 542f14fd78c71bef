"""The kinds of URLs of the synthetic web, and the paths of traps."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple

from tests.servers.synthetic.plan import Trap

ASSET_TYPES = {
    "jpg": "image/jpeg",
    "png": "image/png",
    "zip": "application/zip",
    "css": "text/css",
    "mp4": "video/mp4",
    "exe": "application/octet-stream",
}


class Kind(StrEnum):
    """The kind of a URL."""

    PAGE = "page"
    TRANSLATION = "translation"  # of a page; it is a real page too
    ROBOTS = "robots"  # robots.txt, or the target of its redirect
    SITEMAP = "sitemap"
    FEED = "feed"
    REDIRECT = "redirect"
    REDIRECT_LOOP = "redirect_loop"
    DUPLICATE = "duplicate"
    NEAR_DUPLICATE = "near_duplicate"
    GONE = "gone"  # 404 or 410
    FORBIDDEN = "forbidden"  # by robots.txt
    BROKEN = "broken"  # always 500
    ASSET = "asset"  # without text to index
    TRAP = "trap"
    MISSING = "missing"  # 404, and no page links to it
    UNREACHABLE = "unreachable"  # the host is unknown or unreachable


class Resource(NamedTuple):
    """The meaning of a path on a host. `detail`: a part of the path that its kind requires."""

    kind: Kind
    number: int = 0
    language: str = ""
    detail: str = ""
    trap: Trap | None = None


TRAP_PATHS = {
    Trap.CALENDAR: re.compile(r"/calendar/(\d{4}/\d\d(?:/\d\d)?)"),
    Trap.SESSION_PATH: re.compile(r"/sid-([0-9a-f]{16})(?=/)"),
    Trap.SESSION_QUERY: re.compile(r"[?&]PHPSESSID=([0-9a-f]{32})"),
    Trap.FACETS: re.compile(r"/shop(?:\?(.*))?"),
    Trap.LOOP: re.compile(r"/loop/((?:(?:more|again)/)*)"),
    Trap.PERMUTATIONS: re.compile(r"/list\?(.*)"),
    Trap.NEAR_IDENTICAL: re.compile(r"/item/(\d{1,15})"),
}


def with_session(path: str, session: int) -> str:
    """Append a session id as parameter to a path."""
    return f"{path}{'&' if '?' in path else '?'}PHPSESSID={session:032x}"


def without_session(path: str) -> str:
    """Remove the session ids from path and query."""
    plain = TRAP_PATHS[Trap.SESSION_PATH].sub("", path) if path.startswith("/sid-") else path
    return TRAP_PATHS[Trap.SESSION_QUERY].sub("", plain)
