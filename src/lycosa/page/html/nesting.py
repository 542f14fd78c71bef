"""Limits markup before parsing: nesting of thousands of levels is flattened, thousands of
attributes are removed.

The HTML standard's algorithm searches the stack of open elements at most start tags, reopens all
unclosed formatting elements in each new block, and compares each attribute of a tag with all before
it. So its time is tags times depth, its memory tags times unclosed formatting: 200,000 nested `div`
take minutes. Like browsers, it stops nesting at a depth of 512, if the product is large.
"""

from __future__ import annotations

import re

import numpy as np

FAULT_FLATTENED = "nesting_cut"
FAULT_TAGS_CUT = "markup_cut"
FAULT_ATTRIBUTES_CUT = "attributes_cut"

MAX_WORK = 20_000_000  # tags times depth that is let through: 0.05 s in lexbor
MAX_DEPTH = 256
MAX_TAGS = 1_000_000  # the rest is dropped; a tag takes 100 to 200 bytes in lexbor
_MAX_REOPENED = 2_000_000  # elements that unclosed formatting may add
MAX_ATTRIBUTES = 1_000  # of a tag; lexbor compares each with all before it
_WINDOW = 3_000  # bytes; a tag of twice the size fills one
_SAFE_TAGS = 4_000  # the product cannot be reached with fewer

# WHATWG HTML 13.2.5.32 to 39: name, then perhaps a value. An end of the tag does not match.
_ATTRIBUTES = re.compile(
    rb"(?:[\s/]*+[^\s/>][^\s/>=]*+(?:\s*+=\s*+(?:\"[^\"]*+\"|'[^']*+'|[^\s>\"'][^\s>]*+"
    rb"|(?=>)))?+){%d}+" % MAX_ATTRIBUTES
)
_TAG = re.compile(rb"<(/?)([a-zA-Z][a-zA-Z0-9]*)[^<>]*>?")
_UNCOUNTED = frozenset(
    # have no content
    b"area base br col embed frame hr img input link meta param source track wbr "
    # close by themselves
    b"p li dt dd td th tr tbody thead tfoot option optgroup colgroup rp rt html head body a".split()
)
_FORMATTING = frozenset(b"b big code em font i nobr s small strike strong tt u".split())


def bounded(data: bytes) -> tuple[bytes, tuple[str, ...]]:
    """Return the markup, truncated where parsing would take excessive time, and the resulting
    faults.

    Takes 0.03 ms for a page of 170 KB, 0.1 ms where there are thousands of tags, a second for a
    million nested ones.
    """
    faults: tuple[str, ...] = ()
    cuts = _cuts(data) if len(data) > _WINDOW else []
    if cuts:
        data = _without(data, cuts)
        faults = (FAULT_ATTRIBUTES_CUT,)
    if len(data) < _SAFE_TAGS * len("<a>"):
        return data, faults
    array = np.frombuffer(data, dtype=np.uint8)
    begins = array == ord("<")
    count = int(np.count_nonzero(begins))  # three times as fast as bytes.count
    if count < _SAFE_TAGS:
        return data, faults
    following = array[np.flatnonzero(begins[:-1]) + 1]
    ends = following == ord("/")
    if count * (count - int(np.count_nonzero(ends))) <= MAX_WORK:
        return data, faults
    if count <= MAX_TAGS and count * _deepest(following, ends) <= MAX_WORK:
        return data, faults
    data, more = _flatten(data, count)
    return data, faults + more


def _cuts(data: bytes) -> list[tuple[int, int]]:
    """Return the ranges to remove from tags that are too long. Looks only into windows without a
    "<".
    """
    cuts = []
    position, size = 0, len(data)
    while position < size:
        after = position + _WINDOW
        if data.find(b"<", position, after) < 0:
            start = data.rfind(b"<", max(0, position - _WINDOW), position)
            after = data.find(b"<", after)
            if after < 0:
                after = size
            if start >= 0 and (cut := _attributes_cut(data, start, after)):
                cuts.append(cut)
        position = after
    return cuts


def _attributes_cut(data: bytes, start: int, end: int) -> tuple[int, int] | None:
    """Return the range after the first MAX_ATTRIBUTES attributes of the tag at `start`, None if it
    has no more.
    """
    match = _ATTRIBUTES.match(data, start + 1, end)
    if match is None:
        return None
    position = match.end()
    if not data[start + 1 : start + 2].isalpha():
        # a comment, or in the middle of a quoted value: ends here at the latest
        return position, position
    close = data.find(b">", position, end)
    return position, close if close >= 0 else end


def _without(data: bytes, cuts: list[tuple[int, int]]) -> bytes:
    pieces: list[bytes] = []
    copied = 0
    for start, end in cuts:
        pieces.append(data[copied:start])
        if data[end : end + 1] != b">":
            pieces.append(b">")
        copied = end
    return b"".join((*pieces, data[copied:]))


def _deepest(
    following: np.ndarray[tuple[int], np.dtype[np.uint8]],
    ends: np.ndarray[tuple[int], np.dtype[np.bool_]],
) -> int:
    """Return an upper bound of the depth: start tags minus end tags; elements without an end tag
    count as open.

    Args:
        following: the byte behind each "<".
        ends: where that is a slash.
    """
    # unsigned: values below "a" wrap to a large number
    letters = (following | 0x20) - ord("a") < 26
    depths = np.cumsum(letters.view(np.int8) - ends.view(np.int8), dtype=np.int32)
    # A surplus of end tags must not hide the depth of elements after it.
    return int((depths - np.minimum(np.minimum.accumulate(depths), 0)).max(initial=0))


def _flatten(data: bytes, count: int) -> tuple[bytes, tuple[str, ...]]:
    """Drop the start tags that would nest deeper than MAX_DEPTH, with as many end tags; all text
    stays.
    """
    reopenable = min(32, _MAX_REOPENED // count)
    pieces: list[bytes] = []
    depth = formatting = tags = copied = dropped = 0
    for match in _TAG.finditer(data):
        tags += 1
        if tags > MAX_TAGS:
            pieces.append(data[copied : match.start()])
            return b"".join(pieces), (FAULT_FLATTENED, FAULT_TAGS_CUT) if dropped else (
                FAULT_TAGS_CUT,
            )
        name = match[2].lower()
        if name in _UNCOUNTED:
            continue
        is_formatting = name in _FORMATTING
        if match[1]:
            over = depth > MAX_DEPTH or (is_formatting and formatting > reopenable)
            depth -= depth > 0
            formatting -= is_formatting and formatting > 0
        else:
            depth += 1
            formatting += is_formatting
            over = depth > MAX_DEPTH or (is_formatting and formatting > reopenable)
        if over:
            dropped += 1
            pieces.append(data[copied : match.start()])
            copied = match.end()
    if not dropped:
        return data, ()
    pieces.append(data[copied:])
    return b" ".join(pieces), (FAULT_FLATTENED,)
