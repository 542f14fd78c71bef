"""Split the Markdown of a page into chunks: at headings, then paragraphs, lines, sentences, words.

Cuts are local. A section starts at its headings. A section above the budget is cut in two at one
of the boundaries in its middle, until each piece fits. The chosen boundary is the one followed by
the text with the largest hash. Then cuts are undone, the smallest hash first, where both sides fit
together. A change therefore moves cuts in its neighbourhood only, unlike cuts at a running total.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate, pairwise

import xxhash
from icu4py.breakers import SentenceBreaker, WordBreaker

from lycosa.chunks.tokens import ChunkBudget
from lycosa.core.errors import UsageError
from lycosa.text.segmented import clean

MAX_PAGE_CHARACTERS = 100_000
"""Of the Markdown of a page that passages are made from: bounds the time of a query."""
MAX_CHARACTERS_PER_TOKEN = 64
"""Texts above so many characters a unit of the budget are cut without being counted."""
MARGIN = 0.25
"""Share of a piece at either end without cuts, so that no small remainders result."""
_KEY_CHARACTERS = 16  # after a boundary that are hashed
_ID_BYTES = 16
_NEWLINE = "\n"
_HEADING = re.compile(r"(#{1,6})\s+(.*)")
_FENCE = re.compile(r"\s*(`{3,})[^`]*$|\s*(~{3,})")
_TABLE_RULE = re.compile(r"\|[\s:|-]+")
_TIBETAN = frozenset({"bo", "dz"})
_SHAD = re.compile(r"[།༎]\s+")
_SPACE = re.compile(r"\s+")
# bounded: hostile text would take quadratic time
_LINK = re.compile(r"!?(?<!\\)\[((?:[^\[\]\\]|\\.){0,300})\]\([^()\s]{0,2000}\)")
_ANY_SIGN = "\\*_~`"  # that `_SIGNS` can begin with
_SIGNS = re.compile(r"\\([\\`*_\[\]<#+.)>|~=-])|\*\*|~~|(?<!\w)[*_]|[*_](?!\w)|`+")


@dataclass(slots=True, frozen=True)
class Chunk:
    """A part of a page, in Markdown.

    `id`: depends on URL and text only. `position`: from 1. `headings`: titles of the sections that
    contain it, outermost first. `size`: in the units of the budget. `previous`, `next`: ids of the
    neighbours, or "".
    """

    id: str
    url: str
    position: int
    headings: tuple[str, ...]
    text: str
    size: int
    previous: str = ""
    next: str = ""


@dataclass(slots=True, frozen=True)
class _Piece:
    """A text between two cuts. `before`, `after`: lines that are repeated around its parts."""

    text: str
    before: str = ""
    after: str = ""

    @property
    def whole(self) -> str:
        return f"{self.before}{self.text.strip(_NEWLINE)}{self.after}"


@dataclass(slots=True)
class _Section:
    headings: tuple[str, ...]
    blocks: list[str]
    has_body: bool = False


def split_page(url: str, markdown: str, budget: ChunkBudget, language: str = "") -> list[Chunk]:
    """Return the chunks of a page in order.

    Args:
        language: ISO 639 code, for the sentences; "" unknown.

    Raises:
        UsageError: the counting function puts a single character above the budget.
    """
    budget = replace(budget, count=cache(budget.count))  # the same texts are counted repeatedly
    parts = [
        (section.headings, text)
        for section in _sections(clean(markdown))
        for text in _cut_section(section, budget, language)
    ]
    occurrences: dict[str, int] = {}
    ids = []
    for _, text in parts:
        occurrence = occurrences[text] = occurrences.get(text, -1) + 1
        ids.append(_chunk_id(url, text, occurrence))
    around = ["", *ids, ""]
    return [
        Chunk(
            ids[place],
            url,
            place + 1,
            headings,
            text,
            budget.count(text),
            around[place],
            around[place + 2],
        )
        for place, (headings, text) in enumerate(parts)
    ]


def plain_text(markdown: str) -> str:
    """Return the text of Markdown without the markup of lines and the targets of links."""
    if "](" in markdown:
        markdown = _LINK.sub(r"\1", markdown)
    if any(sign in markdown for sign in _ANY_SIGN):
        markdown = _SIGNS.sub(r"\1", markdown)
    return markdown


def _chunk_id(url: str, text: str, occurrence: int) -> str:
    """Return an id. Equal texts of a page are counted, so that no two chunks have the same.

    The hash is cryptographic: no page can be crafted to have the chunk of another one.
    """
    content = f"{url}\n{occurrence}\n{text}".encode("utf-8", "replace")
    return hashlib.blake2b(content, digest_size=_ID_BYTES).hexdigest()


def blocks_of(markdown: str) -> Iterator[str]:
    """Yield headings, fenced listings, and other text between blank lines."""
    lines: list[str] = []
    fence = ""
    for line in markdown.split("\n"):
        is_heading = not fence and _HEADING.match(line) is not None
        if lines and not fence and (is_heading or not line.strip()):
            yield "\n".join(lines)
            lines = []
        if is_heading:
            yield line
        elif fence or line.strip():
            lines.append(line)
            fence = _fence_after(fence, line)
    if lines:
        yield "\n".join(lines)


def _fence_after(fence: str, line: str) -> str:
    """Return the fence of the listing that is open after a line, or ""."""
    if not fence:
        opening = _FENCE.match(line)
        return "" if opening is None else opening[1] or opening[2]
    text = line.strip()
    return "" if text.startswith(fence) and not text.strip(fence[0]) else fence


def _sections(markdown: str) -> list[_Section]:
    """Return the sections. Headings without text between them begin one section together."""
    path: list[tuple[int, str]] = []
    sections = [_Section((), [])]
    for block in blocks_of(markdown):
        heading = _HEADING.fullmatch(block)
        if heading is None:
            sections[-1].blocks.append(block)
            sections[-1].has_body = True
            continue
        level = len(heading[1])
        path = [(above, title) for above, title in path if above < level]
        path.append((level, " ".join(plain_text(heading[2]).split())))
        if sections[-1].has_body:
            sections.append(_Section((), []))
        sections[-1].headings = tuple(title for _, title in path if title)
        sections[-1].blocks.append(block)
    return [section for section in sections if section.blocks]


def _cut_section(section: _Section, budget: ChunkBudget, language: str) -> Iterator[str]:
    text = "\n\n".join(section.blocks)
    if _fits(text, budget):
        yield text
        return
    starts = _offsets(f"{block}\n\n" for block in section.blocks)
    levels = (
        _line_starts,
        lambda text: _outside_links(text, _sentence_starts(text, language)),
        lambda text: _outside_links(text, _word_starts(text, language)),
        lambda text: _offsets(WordBreaker(text, language or "und")),
        lambda text: range(1, len(text)),
    )
    for piece, fits in _parts(_Piece(text), starts, budget):
        if fits:
            yield piece.whole
        else:  # a single block
            yield from _cut_block(_frame(piece.whole, budget), budget, levels)


def _cut_block(
    piece: _Piece, budget: ChunkBudget, levels: Sequence[Callable[[str], Sequence[int]]]
) -> Iterator[str]:
    """Yield the parts of a piece that is too large, cut at the first level, then at the others."""
    if not levels:
        raise UsageError(
            f"the function that counts tokens returns {budget.count(piece.whole)} for "
            f"{piece.whole!r}, which is above the budget of {budget.limit}"
        )
    for part, fits in _parts(piece, levels[0](piece.text), budget):
        if not fits:
            yield from _cut_block(part, budget, levels[1:])
        elif part.text.strip():
            yield part.whole.rstrip()


def _frame(block: str, budget: ChunkBudget) -> _Piece:
    """Return a block with the lines that each part of it needs: a fence, or the head of a table."""
    lines = block.split("\n")
    framed = _Piece(block)
    if len(lines) > 2 and _FENCE.match(lines[0]) and not lines[-1].strip("`~ "):
        framed = _Piece("\n".join(lines[1:-1]), f"{lines[0]}\n", f"\n{lines[-1]}")
    elif len(lines) > 2 and lines[0].startswith("|") and _TABLE_RULE.fullmatch(lines[1]):
        framed = _Piece("\n".join(lines[2:]), f"{lines[0]}\n{lines[1]}\n")
    if 2 * budget.count(framed.before + framed.after) > budget.limit:
        return _Piece(block)
    return framed


def _parts(
    piece: _Piece, starts: Sequence[int], budget: ChunkBudget
) -> Iterator[tuple[_Piece, bool]]:
    """Yield a piece cut at some of these places, as far as needed, and whether each part fits."""
    text = piece.text
    keys = [
        xxhash.xxh3_64_intdigest(text[start : start + _KEY_CHARACTERS].encode("utf-8", "replace"))
        for start in starts
    ]
    ends = [0, *starts, len(text)]  # unit n is from ends[n] to ends[n + 1]
    frame = budget.count(piece.before + piece.after)
    # of the units before each boundary; a text has hardly more tokens than its units together
    sizes = [0, *accumulate(budget.count(text[start:end]) for start, end in pairwise(ends))]

    def part(first: int, last: int) -> tuple[_Piece, bool]:
        between = _Piece(text[ends[first] : ends[last]], piece.before, piece.after)
        is_small = frame + sizes[last] - sizes[first] <= budget.limit
        return between, is_small and _fits(between.whole, budget)

    cuts = [0, len(ends) - 1]
    open_ranges = [(0, len(ends) - 1)]
    while open_ranges:
        first, last = open_ranges.pop()
        if last - first > 1 and not part(first, last)[1]:
            cut = _strongest(ends, keys, first, last)
            cuts.append(cut)
            open_ranges += [(cut, last), (first, cut)]
    ordered = sorted(cuts)
    for cut in sorted(cuts[2:], key=lambda cut: keys[cut - 1]):  # small neighbours fit together
        place = bisect_left(ordered, cut)
        if part(ordered[place - 1], ordered[place + 1])[1]:
            del ordered[place]
    for first, last in pairwise(ordered):
        yield part(first, last)


def _fits(text: str, budget: ChunkBudget) -> bool:
    return len(text) <= MAX_CHARACTERS_PER_TOKEN * budget.limit and budget.fits(text)


def _strongest(ends: Sequence[int], keys: Sequence[int], first: int, last: int) -> int:
    """Return the boundary between two others where to cut."""
    margin = MARGIN * (ends[last] - ends[first])
    middle = (ends[first] + ends[last]) / 2
    inner = range(first + 1, last)
    central = [
        place for place in inner if ends[first] + margin <= ends[place] <= ends[last] - margin
    ]
    if not central:
        return min(inner, key=lambda place: abs(ends[place] - middle))
    return max(central, key=lambda place: (keys[place - 1], -abs(ends[place] - middle)))


def _offsets(parts: Iterable[str]) -> list[int]:
    """Return where each part but the first starts in the joined text."""
    starts = []
    place = 0
    for part in parts:
        place += len(part)
        starts.append(place)
    return starts[:-1]


def _line_starts(text: str) -> list[int]:
    return [match.end() for match in re.finditer("\n", text) if match.end() < len(text)]


def _sentence_starts(text: str, language: str) -> list[int]:
    if language in _TIBETAN:  # ICU finds no sentences there
        return [match.end() for match in _SHAD.finditer(text) if match.end() < len(text)]
    return _offsets(SentenceBreaker(text, language or "und"))


def _outside_links(text: str, starts: Sequence[int]) -> Sequence[int]:
    """Return the places that are not within links of Markdown."""
    if "](" not in text:
        return starts
    inside = {
        place for link in _LINK.finditer(text) for place in range(link.start() + 1, link.end())
    }
    return [start for start in starts if start not in inside]


def _word_starts(text: str, language: str) -> list[int]:
    """Return where words start: after spaces, or by ICU where there are none."""
    spaces = [match.end() for match in _SPACE.finditer(text) if 0 < match.end() < len(text)]
    ends = [0, *spaces, len(text)]
    longest = max(end - start for start, end in pairwise(ends))
    if longest <= MAX_CHARACTERS_PER_TOKEN:
        return spaces
    return _offsets(WordBreaker(text, language or "und"))
