"""URL patterns: the groups of pages that a URL belongs to, from the narrowest to the widest. Pure.

`/shop/shoes/1234?color=red&size=m` belongs to `/shop/shoes/{n}?color&size`, `/shop/shoes/{n}?`,
`/shop/shoes/{n}`, `/shop/shoes/` and `/shop/`. Numbers and IDs become `{n}` and `{id}`, so that
all pages of a calendar, or of all session IDs, are in one group.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from lycosa.core.patterns import lazy_pattern

MAX_FOLDERS = 3
"""Folders of a path that make a group; deeper URLs form one group (`/a/b/c/**`)."""

_MAX_SEGMENT = 48  # characters of a segment in a group's name
_MIN_ID = 16  # characters
_MAX_NAMES = 12  # parameters in a group's name
_ID = lazy_pattern(
    r"[^/]*?(?:[0-9a-f]{16,}|[0-9A-F]{16,}|(?=[A-Za-z]*\d)(?=\d*[A-Za-z])[0-9A-Za-z]{22,})",
    re.ASCII,
)
_VARIABLE: Final = frozenset(("{n}", "{id}"))
_NUMBER = lazy_pattern(r"\d+(?:[-_]\d+)*", re.ASCII)
_DATE: Final = lazy_pattern(
    r"[/=](?:1\d|20|21)\d\d(?:[/-]\d\d?)(?:[/-]\d\d?)?(?=[/&?T]|$)|[?&](?:month|day|date|week)=",
    re.ASCII,
)


class Shape(NamedTuple):
    """The groups of a URL, narrowest first, and its variable parts."""

    groups: tuple[str, ...]
    numbered: bool  # a segment is a number or an id, or there is a query
    query: bool
    dated: bool  # it contains a month


@lru_cache(maxsize=4_096)
def shape_of(path: str) -> Shape:
    """Return the shape of a path with its query, as in a normalised URL."""
    plain, mark, query = path.partition("?")
    segments = [
        # most segments are themselves
        segment if len(segment) < _MIN_ID and not segment[:1].isdigit() else _pattern(segment)
        for segment in plain[1:].split("/")
    ]
    name = segments.pop()
    groups: list[str] = []
    nearest, above = "/", []
    for folder in segments[:MAX_FOLDERS]:
        nearest = f"{nearest}{folder}/"
        above.append(nearest)
    above.reverse()
    own = nearest + ("**" if len(segments) > MAX_FOLDERS else name if name in _VARIABLE else "*")
    if mark:
        script = own if not name or name in _VARIABLE else nearest + name
        names = sorted(
            {parameter.partition("=")[0][:_MAX_SEGMENT] for parameter in query.split("&")}
        )
        groups += [f"{script}?{'&'.join(names[:_MAX_NAMES])}", f"{script}?"]
        if script != own:
            groups.append(f"{own}?")
    else:
        groups.append(own)
    numbered = bool(mark) or name in _VARIABLE or not _VARIABLE.isdisjoint(segments)
    return Shape(
        tuple(dict.fromkeys((*groups, *above))),
        numbered,
        bool(mark),
        _DATE.search(path) is not None,
    )


def _pattern(segment: str) -> str:
    """Return the form of a segment in a group's name.

    For a long segment, or one that begins with a digit: a number, an id, or itself.
    """
    # 3.10.html is a version, not a number
    stem = segment.removesuffix(".html").removesuffix(".htm").removesuffix(".php")
    if _NUMBER.fullmatch(stem):
        return "{n}"
    if len(stem) >= _MIN_ID and _ID.fullmatch(stem):
        return "{id}"
    return segment[:_MAX_SEGMENT]


NEAR = 3
"""Maximum number of different bits in the simhashes (64 bits) of nearly equal texts."""

_NOT_FOUND: Final = lazy_pattern(
    r"\b(?:error\s*)?404\b|not\s+found|(?:does\s*n[o']t|no longer)\s+(?:exist|available)|cannot "
    r"be found|nicht gefunden|introuvable"
    r"|non\s+trovat[ao]|no\s+(?:se\s+ha\s+)?encontrad[ao]|n[aã]o\s+(?:foi\s+)?encontrad[ao]"
    r"|niet\s+gevonden|nie\s+znaleziono|hittades\s+inte"
    r"|bulunamad|tidak\s+ditemukan|không\s+tìm\s+thấy|не\s+найден|не\s+знайден|табылма|олдсонгүй"
    r"|未找到|找不到|不存在|見つかりません|찾을\s*수\s*없"
    r"|غير\s+موجود|یافت\s+نشد|نہیں\s+ملا|नहीं\s+मिला|फेला\s+परेन|ไม่พบ|ບໍ່ພົບ|မတွေ့",
    re.IGNORECASE,
)


@lru_cache(maxsize=64)
def titled_as_missing(title: str) -> bool:
    """Return whether a title means "not found", in one of 25 languages."""
    return _NOT_FOUND.search(title[:200]) is not None
