"""Limits markup before parsing: nesting of thousands of levels is flattened, thousands of
attributes are removed.

The HTML standard's algorithm searches the stack of open elements at most start tags, reopens all
unclosed formatting elements in each new block, and compares each attribute of a tag with all before
it. So its time is tags times depth, its memory tags times unclosed formatting: 200,000 nested `div`
take minutes. Therefore start tags below a depth are dropped if the product is large; browsers have
a limit of 512. The depth is never underestimated by more than a factor: an end tag counts only if
the parser obeys it, whatever is unclosed, misnested, quoted or commented out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from typing import NamedTuple

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
# WHATWG HTML 13.2.5.6 and following: a comment, CDATA, a bogus comment, or a tag
_TOKEN = re.compile(rb"<(?:(!--)|(!\[CDATA\[)|([!?]|/[^a-zA-Z>])|(/?)([a-zA-Z][^\t\n\f\r />]*+))")
_COMMENT = re.compile(rb"-?>|.*?(?:--!?>|\Z)", re.DOTALL)
_REST_OF_TAG = (
    rb"(?:[\t\n\f\r /]*+[^\t\n\f\r />][^\t\n\f\r />=]*+"
    rb"(?:[\t\n\f\r ]*+=[\t\n\f\r ]*+"
    rb"(?:\"[^\"]*+\"|'[^']*+'|[^\t\n\f\r >\"'][^\t\n\f\r >]*+|(?=>)))?+)*+[\t\n\f\r /]*+>"
)
_END_OF_TAG = re.compile(_REST_OF_TAG)
_RAW = {  # elements whose content is no markup, outside of SVG and MathML
    name: re.compile(rb"</%s(?=[\t\n\f\r />])" % name, re.IGNORECASE)
    for name in b"iframe noembed noframes script style textarea title xmp".split()
}
_ENDS_OF_RAW = b"-->" + b"".join(b"</%s>" % name for name in _RAW)
_ANY_TAG = re.compile(rb"<[^<>]*>")
# All tokens at once: the name of each comment ("!--"), bogus comment ("!", "?", "/") or tag ("/p").
# It is empty for a start tag of `_RAW` with its content, and given for one with an uncertain end.
_ALL_TOKENS = re.compile(
    rb"<(?:(?=[instxINSTX][cefimotCEFIMOT])(?i:%s)"
    rb"|(/?+[a-zA-Z][^\t\n\f\r />]*+|!--|!\[CDATA\[|[!?]|/(?![a-zA-Z>]))"
    rb"(?:(?<![-!?/\[])(?:>|(?: [a-zA-Z-]++=\"[^\"]*+\")++>)"  # an ordinary tag: most are
    rb"|(?<=<!--)(?:-?>|.*?(?:--!?>|\Z))|(?<=<!\[CDATA\[)|(?<=<[!?/])[^>]*+(?:>|\Z)"
    rb"|(?<!<!--)(?<!<[!?/])(?:>|(?: [a-zA-Z-]++=\"[^\"]*+\")++>|%s|.*+)))"
    % (
        b"|".join(
            rb"%s(?=[\t\n\f\r />])%s(?:[^<]++|<(?!/%s[\t\n\f\r />]%s))*+(?:(?=</)|\Z)"
            % (name, _REST_OF_TAG, name, b"|script" if name == b"script" else b"")
            for name in _RAW
        ),
        _REST_OF_TAG,
    ),
    re.DOTALL,
)


def _names(text: str) -> frozenset[bytes]:
    return frozenset(text.encode().split())


_UNCOUNTED = _names(
    # have no content
    "area base br col embed frame hr img input link meta param source track wbr "
    # close by themselves, or exist only in tables
    "td th tr tbody thead tfoot colgroup html head body a"
)
_HEADINGS = _names("h1 h2 h3 h4 h5 h6")  # an end tag closes any of them
_FORMATTING = _names("b big code em font i nobr s small strike strong tt u")
_UNUSUAL = _names("frameset math select svg")  # other rules hold in them
# End tags are ignored in certain elements (13.2.4.2 and 13.2.6.4.7): those of blocks ...
_BLOCKS = _HEADINGS | _names(
    "address applet article aside blockquote button center dd details dialog dir div dl dt "
    "fieldset figcaption figure footer form header hgroup li listing main marquee menu nav object "
    "ol p pre search section summary ul"
)
_SCOPES = _names(
    "annotation-xml applet caption desc foreignobject html marquee mi mn mo ms mtext object select "
    "table td template th title"
)
# ... and those of other elements
_SPECIAL = (_SCOPES | _BLOCKS | _UNCOUNTED) - {b"a"} | _names(
    "? basefont bgsound frameset iframe keygen noembed noframes noscript plaintext script style "
    "textarea xmp"
)
_ITEM_BARRIERS = _SPECIAL - _names("address div p")
_CLOSED_BY = {  # start tags that close elements: which, and within which not
    b"p": (_names("p"), _SCOPES | {b"button"}),
    b"li": (_names("li"), _ITEM_BARRIERS),
    b"dt": (_names("dt dd"), _ITEM_BARRIERS),
    b"dd": (_names("dt dd"), _ITEM_BARRIERS),
}
_BARRIERS = (  # for the end tags of these
    dict.fromkeys(_BLOCKS | _FORMATTING, _SCOPES)
    | dict.fromkeys(_names("table template"), _names("template"))
    | {b"li": _SCOPES | {b"ol", b"ul"}, b"p": _SCOPES | {b"button"}}
)
_MARKERS = _names("applet caption marquee object table template")
_OMITTED = _names("dd dt li p")  # their end tags may be omitted
_COMMENTS = {b"!", b"!--", b"?", b"/"}
_ENDS = {b"/" + name for name in (*_UNCOUNTED, *_RAW)}
_ONLY_IN_HTML = _UNCOUNTED | {b""}
_IGNORED = _ONLY_IN_HTML | _COMMENTS | _ENDS
_UNCERTAIN = _names("frameset math plaintext template ![cdata[").union(_RAW)
_OMITTED_IN_SVG_OR_SELECT = _names("circle ellipse line option path polygon polyline rect stop use")
_IN_SVG_OR_SELECT = _OMITTED_IN_SVG_OR_SELECT | _names(
    "defs g lineargradient optgroup radialgradient select svg symbol"
)
_MAX_UNCLOSED = 32  # elements that are looked at for an end tag
_MAX_CLONES = 7  # special elements within formatting that is closed (13.2.6.4.7, outer loop)


def bounded(data: bytes) -> tuple[bytes, tuple[str, ...]]:
    """Return the markup, truncated where parsing would take excessive time, and the resulting
    faults.

    Takes 0.03 ms for a page of 170 KB. With more than 4,500 start tags, 0.4 µs per tag if all are
    well nested, else 2 µs.
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
    ends = int(np.count_nonzero(array[np.flatnonzero(begins[:-1]) + 1] == ord("/")))
    if count * (count - ends) <= MAX_WORK:
        return data, faults
    max_depth = max(MAX_DEPTH, MAX_WORK // count)
    max_formatting = max(1, min(32, _MAX_REOPENED // count))
    if count <= MAX_TAGS and _is_well_nested(data, max_depth, max_formatting):
        return data, faults
    data, more = _flatten(data, _OpenElements(max_depth, max_formatting))
    return data, faults + more


class _TokenEffect(NamedTuple):
    """What a token of `_ALL_TOKENS` does.

    `name`: of the element, empty if none is opened or closed; `is_only_in_html`: the effect is not
    certain inside `svg` and `select`; `is_svg_or_select`: it is one of these elements.
    """

    name: bytes
    is_end: bool
    is_only_in_html: bool
    is_formatting: bool
    is_svg_or_select: bool


class _TokenEffects(dict[bytes, _TokenEffect]):
    """Name of a token -> what it does."""

    def __missing__(self, token: bytes) -> _TokenEffect:
        lower = token.lower()
        name = b"" if lower in _IGNORED else lower.removeprefix(b"/")
        is_end = name != b"" and lower.startswith(b"/")
        self[token] = result = _TokenEffect(
            name,
            is_end,
            lower in _ONLY_IN_HTML or (name != b"" and name not in _IN_SVG_OR_SELECT),
            name in _FORMATTING,
            name in (b"svg", b"select"),
        )
        return result


def _is_well_nested(data: bytes, max_depth: int, max_formatting: int) -> bool:
    """Return whether all elements are certain to be closed in order, and no limit is exceeded.

    Such markup is common, and several times as fast as in `_flatten`.
    """
    stack: list[bytes] = []
    open_svg_or_select = formatting = 0
    for name, is_end, is_only_in_html, is_formatting, is_svg_or_select in map(
        _TokenEffects().__getitem__, _ALL_TOKENS.findall(data)
    ):
        if is_end:
            if not stack:
                return False
            if stack[-1] != name:
                omitted = (
                    _OMITTED_IN_SVG_OR_SELECT
                    if open_svg_or_select
                    else _OMITTED
                    if name in _BLOCKS
                    else ()
                )
                while stack and stack[-1] in omitted and stack[-1] != name:
                    stack.pop()
                if not stack or stack[-1] != name:
                    return False
            stack.pop()
            open_svg_or_select -= is_svg_or_select
            formatting -= is_formatting
        elif open_svg_or_select and is_only_in_html:
            return False
        elif name:
            if name in _UNCERTAIN:
                return False
            open_svg_or_select += is_svg_or_select
            formatting += is_formatting
            stack.append(name)
            if len(stack) > max_depth or formatting > max_formatting:
                return False
    return True


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


class _OpenElements:
    """Contains at least the elements that are open in the parser, without those of `_UNCOUNTED`.

    A tag removes at most one element, and only if the parser removes one of that name or has fewer.
    Elements deeper than `max_depth`, and formatting beyond `max_formatting`, are to be dropped.
    """

    def __init__(self, max_depth: int, max_formatting: int) -> None:
        self._max_depth = max_depth
        self._max_formatting = max_formatting
        self._names: list[bytes] = []
        self._dropped: list[bool] = []
        self._open = Counter[bytes]()
        self._unclosed = Counter[bytes]()  # formatting, also that which is to be opened again
        self._formatting = self._unusual = 0
        self._is_form_lost = False  # an end tag beyond a barrier: no other one closes the form

    @property
    def is_usual(self) -> bool:
        """Whether no element is open in which the content of `_RAW` may be markup."""
        return not (self._unusual or self._open[b"template"])

    def start(self, name: bytes) -> bool:
        """Process a start tag. Return whether to drop it."""
        if not self._unusual:
            if name in _UNCOUNTED:
                return False
            if name in _CLOSED_BY:
                self._remove(self._place(*_CLOSED_BY[name]))
        over = len(self._names) >= self._max_depth
        if name in _FORMATTING:
            over = over or self._formatting >= self._max_formatting
            self._formatting += 1
            self._unclosed[name] += 1
        elif name == b"form":
            self._is_form_lost = False
        self._names.append(name)
        self._open[name] += 1
        self._unusual += name in _UNUSUAL
        self._dropped.append(over)
        return over

    def end(self, name: bytes) -> bool:
        """Process an end tag. Return whether to drop it."""
        closed = _HEADINGS if name in _HEADINGS else (name,)
        place = self._place(closed, _BARRIERS.get(name, _SPECIAL))
        if name == b"form":
            if self._is_form_lost:
                return False
            self._is_form_lost = place is None
        if name not in _FORMATTING:
            return self._remove(place)
        if place is not None:
            if sum(map(_SPECIAL.__contains__, self._names[place:])) > _MAX_CLONES:
                return False
        elif self._open[name] or any(self._open[marker] for marker in _MARKERS):
            return False
        if self._unclosed[name]:
            self._unclosed[name] -= 1
            self._formatting -= 1
        return self._remove(place)

    def _place(self, names: Collection[bytes], barriers: frozenset[bytes]) -> int | None:
        """Return the position of the innermost of these elements that is not beyond a barrier."""
        last = len(self._names) - 1
        for place in range(last, max(-1, last - _MAX_UNCLOSED), -1):
            if self._names[place] in names:
                return place
            if self._names[place] in barriers:
                break
        return None

    def _remove(self, place: int | None) -> bool:
        """Remove an element. Return whether its tags are dropped."""
        if place is None:
            return False
        name = self._names.pop(place)
        self._open[name] -= 1
        self._unusual -= name in _UNUSUAL
        return self._dropped.pop(place)


class _RawText:
    """Finds the ends of elements whose content is no markup."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._ends: dict[bytes, int] = {}

    def end(self, name: bytes, position: int) -> int:
        """Return where the end tag of an element begins whose content begins at `position`."""
        end = self._ends.get(name, -1)
        if end < position:
            match = _RAW[name].search(self._data, position)
            end = self._ends[name] = match.start() if match else len(self._data)
        return end

    def last_end(self, position: int, end: int) -> int:
        """Return where a script ends at the latest: comments in it may contain its end tag."""
        while (comment := self._data.rfind(b"<!--", position, end)) >= 0:
            position = self._data.find(b"-->", comment)
            if position < 0:
                return len(self._data)
            if position < end:
                break
            end = self.end(b"script", position)
        return end


def _flatten(data: bytes, elements: _OpenElements) -> tuple[bytes, tuple[str, ...]]:
    """Drop the start tags that would nest too deep, with their end tags; all text stays.

    Where it is not certain what is a tag, all others are dropped too.
    """
    raw_text = _RawText(data)
    pieces: list[bytes] = []
    position = copied = tags = 0
    certain = 0  # until here, end tags may be text
    cdata_end = -1
    while (token := _TOKEN.search(data, position)) is not None:
        start, position = token.span()
        is_comment, is_cdata, is_bogus, slash, name = token.groups()
        is_certain = start >= certain  # else it may be text, and hide no markup
        if is_cdata:  # a comment in HTML, text in SVG
            if cdata_end < position:
                cdata_end = data.find(b"]]>", position) % (len(data) + 1)
            certain = max(certain, cdata_end)
        elif is_comment and is_certain:
            position = _end(_COMMENT.match(data, position), len(data))
        elif is_bogus and is_certain:
            position = data.find(b">", position - 1) + 1 or len(data)
        if name is None:
            continue
        tags += 1
        if tags > MAX_TAGS:
            pieces.append(data[copied:start])
            faults = (FAULT_FLATTENED, FAULT_TAGS_CUT) if len(pieces) > 1 else (FAULT_TAGS_CUT,)
            return b" ".join(pieces), faults
        if is_certain:
            position = _end(_END_OF_TAG.match(data, position), len(data))
        name = name.lower()
        if slash:
            is_over = is_certain and elements.end(name)
        elif not is_certain:
            certain = len(data) if name in _RAW else certain
            if elements.start(b"?"):
                pieces += (data[copied:start], _ENDS_OF_RAW, _without_tags(data[start:]))
                return b" ".join(pieces), (FAULT_FLATTENED,)
            is_over = False
        elif name == b"plaintext" and elements.is_usual:
            break
        elif name in _RAW:
            end = raw_text.end(name, position)
            certain = raw_text.last_end(position, end) if name == b"script" else end
            is_over = not elements.is_usual and elements.start(name)
            position = end if elements.is_usual else position
        else:
            is_over = elements.start(name)
        if is_over:
            pieces.append(data[copied:start])
            copied = position
    if not pieces:
        return data, ()
    pieces.append(data[copied:])
    return b" ".join(pieces), (FAULT_FLATTENED,)


def _without_tags(data: bytes) -> bytes:
    return _ANY_TAG.sub(b" ", data).replace(b"<", b"&lt;")


def _end(match: re.Match[bytes] | None, default: int) -> int:
    return default if match is None else match.end()
