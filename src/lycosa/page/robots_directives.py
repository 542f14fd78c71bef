"""Permissions of a page: `meta name=robots` and X-Robots-Tag.

No RFC defines them: this follows the documentation of the large search engines.
`unavailable_after`, `noarchive`, `nosnippet` and similar ones are ignored: they do not concern
indexing or following now.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

_SEPARATORS = re.compile(r"[,\s;]+")
_NAME = re.compile(r"[^\s\d]\S*")  # `25 Jun 2010 15:00:00 GMT` is a date's rest, no robot
_VALUED = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})


class Permission(NamedTuple):
    """Whether the page may be indexed, and whether its links may be followed."""

    may_index: bool
    may_follow: bool


def permission(
    metas: Iterable[tuple[str, str]], headers: Iterable[str], product_token: str
) -> Permission:
    """Combine all directives for every robot or for this crawler; the strictest wins.

    Args:
        metas: (name in lower case, content) of the page's meta elements; other names are ignored.
        headers: values of X-Robots-Tag, each `[robot:] directive, …`.
        product_token: name of this crawler.
    """
    ours = product_token.lower()
    directives: set[str] = set()
    for name, content in metas:
        if name in ("robots", ours):
            directives.update(_SEPARATORS.split(content.lower()))
    for header in headers:
        directives.update(_addressed(header.lower(), ours))
    nothing = "none" in directives
    return Permission(
        not (nothing or "noindex" in directives), not (nothing or "nofollow" in directives)
    )


def _addressed(header: str, ours: str) -> set[str]:
    """Return the directives of a header value that apply to this crawler. A robot's name applies up
    to the next name (`a: noindex, b: none`).
    """
    directives: set[str] = set()
    concerned = True
    for part in header.split(","):
        name, colon, rest = part.partition(":")
        name = name.strip()
        if colon and name not in _VALUED and _NAME.fullmatch(name):
            concerned = name in (ours, "robots", "*")
            part = rest
        if concerned:
            directives.update(_SEPARATORS.split(part.strip()))
    return directives
