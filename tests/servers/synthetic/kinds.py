"""What a URL of the synthetic web can be, and how traps are written in paths. Data."""

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
    """What a URL is."""

    PAGE = "page"
    TRANSLATION = "translation"  # of a page, real as well
    ROBOTS = "robots"  # robots.txt, or where it redirects to
    SITEMAP = "sitemap"
    FEED = "feed"
    REDIRECT = "redirect"
    CIRCLE = "circle"  # redirects that lead nowhere
    DUPLICATE = "duplicate"
    NEAR_DUPLICATE = "near_duplicate"
    GONE = "gone"  # 404 or 410
    FORBIDDEN = "forbidden"  # by robots.txt
    BROKEN = "broken"  # 500 for good
    ASSET = "asset"  # nothing to index
    TRAP = "trap"
    MISSING = "missing"  # no such thing; nobody links to it
    NOWHERE = "nowhere"  # no such host, or it cannot be reached


class Place(NamedTuple):
    """What a path means on a host. `detail` is the part of the path that only its own kind
    understands.
    """

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
    """A path with a session id as its last parameter."""
    return f"{path}{'&' if '?' in path else '?'}PHPSESSID={session:032x}"


def without_session(path: str) -> str:
    """The path without session ids in path and query."""
    plain = TRAP_PATHS[Trap.SESSION_PATH].sub("", path) if path.startswith("/sid-") else path
    return TRAP_PATHS[Trap.SESSION_QUERY].sub("", plain)
