"""Did you mean: another spelling of a query that finds little, of words that the pages hold much
more often.

A word is looked at if few pages hold it, or none as it is written. What may stand for it are words
at most two slips away (`index.suggest.edit_distance`), two words that it is made of, or one that it
makes with its neighbour; in Chinese and Japanese any run of three characters or more. All of a
query is read in one language, the one in which it makes most sense. A spelling is offered if it
finds more pages than what was typed.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from icu4py.breakers import WordBreaker

from lycosa.index.suggest.file import KnownWord, SuggestFile
from lycosa.index.suggest.normalise import folded
from lycosa.search.query.query import Clause, ParsedQuery, clauses
from lycosa.search.query.syntax import IN_URL
from lycosa.text.fold import pieces

FEW = 3
"""With fewer pages than this that hold all words of a query, or a word of it, another spelling is
looked for.
"""
MOST_WORDS = 8  # of a query that are looked at
TRIED = 3  # spellings that are searched for
SHORTEST = 3  # letters of a word that may be misspelled
TWO_SLIPS = 7  # letters from which it may be so twice
MAX_NEAR = 40  # words near a word that a shard tells

# How a word that was not typed counts: by the logarithm of its pages, less so many bits a slip.
# Chosen on the odd words of bench/suggest.py, whose figures are for the even ones.
SLIP_BITS = 5.0
FIRST_LETTER_BITS = 2.0  # rarely is the first letter wrong
SPLIT_BITS = 6.0
JOIN_BITS = 2.0
TIMES_OFTENER = 20  # than a word that pages hold, for every slip

_CHARACTERS = re.compile("[\u3041-\u30ff\u3400-\u9fff\U00020000-\U0003ffff]{3,}")
_MIN_RUN, _MAX_RUN, _MAX_CHARACTERS = 3, 6, 12


@dataclass(slots=True, frozen=True)
class Wanted:
    """What shards are asked: the words near some words, and whether some words are known at all;
    folded. `language`: "" is any.
    """

    near: tuple[str, ...]
    known: tuple[str, ...]
    language: str = ""


@dataclass(slots=True, frozen=True)
class Heard:
    """What they say, by the word that was asked for."""

    near: Mapping[str, Sequence[KnownWord]] = field(default_factory=dict)
    known: Mapping[str, Sequence[KnownWord]] = field(default_factory=dict)


@dataclass(slots=True, frozen=True)
class Spelling:
    """Another spelling of a query, and how many pages hold all of its words."""

    query: str
    total: int


@dataclass(slots=True, frozen=True)
class _Change:
    """So many characters of the query from `start` on become `text`; the more `bits`, the
    better.
    """

    start: int
    end: int
    text: str
    language: str
    bits: float


@dataclass(slots=True, frozen=True)
class _Typed:
    """A word of the query, and where it stands in it."""

    text: str
    folded: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def hear(files: Sequence[SuggestFile], wanted: Wanted) -> Heard:
    """What some files say together."""
    heard = []
    for file in files:
        languages = [wanted.language] if wanted.language else file.languages
        near = {word: _near(file, word, languages) for word in wanted.near}
        known = {
            word: [found for language in languages if (found := file.known(word, language))]
            for word in (*wanted.near, *wanted.known)
        }
        heard.append(
            Heard(
                {word: sorted(found, key=_first)[:MAX_NEAR] for word, found in near.items()}, known
            )
        )
    return together(heard)


def _near(file: SuggestFile, word: str, languages: Sequence[str]) -> list[KnownWord]:
    """One slip away; if nothing is, two: that costs ten times as much."""
    for most in range(1, slips_of(word) + 1):
        found = [found for language in languages for found in file.near(word, most, language)]
        if found:
            return found
    return []


def together(heard: Sequence[Heard]) -> Heard:
    """What several shards say: pages of a word add up."""
    return (
        heard[0]
        if len(heard) == 1
        else Heard(_added(part.near for part in heard), _added(part.known for part in heard))
    )


def other_spelling(
    text: str,
    parsed: ParsedQuery,
    language: str,
    total: int,
    ask: Callable[[Wanted], Heard],
    matches: Callable[[str], int],
) -> Spelling | None:
    """Another spelling of a query that `total` pages match, if there is one that more match.
    `matches` says how many match a query.
    """
    typed = _typed(text, parsed)
    if not typed:
        return None
    # Letters that are looked up one by one, or in pairs, stand on many pages where the word does
    # not.
    as_phrase = len(typed) == 1 and typed[0].text == text and not text.isascii()
    if total >= FEW and as_phrase:
        total = matches(f'"{text}"')
    if total >= FEW:
        return None
    runs = [run for word in typed for run in _runs(word)]
    singles = [
        word for word in typed if not _CHARACTERS.search(word.text) and len(word.folded) >= SHORTEST
    ]
    parts = {part for word in singles for pair in _splits(word.folded) for part in pair}
    joined = {first.folded + second.folded for first, second in _neighbours(text, typed)}
    wanted = Wanted(
        tuple({word.folded: None for word in (*singles, *runs)}),
        tuple(sorted(parts | joined | {word.folded for word in typed})),
        language,
    )
    heard = ask(wanted)
    hits = {word: total if len(typed) == 1 else matches(word.text) for word in typed}
    rare = {word for word in typed if not heard.known.get(word.folded) or hits[word] < FEW}
    singles = [word for word in singles if word in rare]
    changes = [
        *_slips(singles, heard, hits),
        *_slips(runs, heard, {}),
        *_split(singles, heard),
        *_joined(text, typed, heard),
    ]
    for query in _queries(text, typed, rare, changes, heard)[:TRIED]:
        found = matches(f'"{query}"' if as_phrase else query)
        if found > total:
            return Spelling(query, found)
    return None


def slips_of(word: str) -> int:
    """How many slips a folded word may have."""
    return 2 if len(word) >= TWO_SLIPS else 1


def _typed(text: str, parsed: ParsedQuery) -> list[_Typed]:
    """The words that are looked for, each where it stands first after those before it."""
    found: list[_Typed] = []
    place = 0
    for clause in clauses(parsed.wanted):
        if clause.within == IN_URL or clause.prefix or (start := _place(text, clause, place)) < 0:
            continue
        for word in pieces(clause.text):
            start = text.find(word, start)
            found.append(_Typed(word, folded(word), start))
            start = place = start + len(word)
    return [word for word in found if word.folded and not word.folded.isdigit()][:MOST_WORDS]


def _place(text: str, clause: Clause, place: int) -> int:
    """Where a clause stands in a query, not what a restriction or an unwanted word says; -1:
    nowhere.
    """
    while (place := text.find(clause.text, place)) >= 0:
        before = text[:place].rpartition(" ")[2].lstrip("(")
        if not before.startswith(("-", "−")) and (":" not in before or clause.within):
            return place
        place += 1
    return -1


def _runs(word: _Typed) -> Iterator[_Typed]:
    """Runs of Chinese or Japanese characters that may be a word with a slip: about two characters
    or more that ICU takes for words of one character each.
    """
    for match in _CHARACTERS.finditer(word.text):
        run = match[0][:_MAX_CHARACTERS]
        odd = _single(run)
        for length in range(min(_MAX_RUN, len(run)), _MIN_RUN - 1, -1):
            for place in range(len(run) - length + 1):
                if any(start < place + length and place < end for start, end in odd):
                    part = run[place : place + length]
                    yield _Typed(part, folded(part), word.start + match.start() + place)


def _single(run: str) -> list[tuple[int, int]]:
    """From where to where words of one character follow each other."""
    found: list[tuple[int, int]] = []
    place = 0
    for word in WordBreaker(run, "zh"):
        if len(word) == 1:
            if found and found[-1][1] == place:
                found[-1] = found[-1][0], place + 1
            else:
                found.append((place, place + 1))
        place += len(word)
    return [(start, end) for start, end in found if end - start > 1]


def _splits(word: str) -> Iterator[tuple[str, str]]:
    for place in range(2, len(word) - 1):
        yield word[:place], word[place:]


def _neighbours(text: str, typed: Sequence[_Typed]) -> Iterator[tuple[_Typed, _Typed]]:
    """Words with nothing but a space or hyphen between them."""
    for first, second in itertools.pairwise(typed):
        if text[first.end : second.start] in (" ", "-"):
            yield first, second


def _slips(words: Iterable[_Typed], heard: Heard, hits: Mapping[_Typed, int]) -> Iterator[_Change]:
    """`hits`: how many pages a word finds as it was typed."""
    for word in words:
        held = hits.get(word, 0)
        own = {known.language: known.pages for known in heard.known.get(word.folded, ())}
        for near in heard.near.get(word.folded, ()):
            if near.pages < TIMES_OFTENER * near.slips * max(
                own.get(near.language, 0), held if held < FEW else 0
            ):
                continue
            bits = (
                math.log2(1 + near.pages)
                - SLIP_BITS * near.slips
                - FIRST_LETTER_BITS * (near.folded[0] != word.folded[0])
            )
            if _CHARACTERS.match(word.text):
                if len(near.text) < _MIN_RUN:
                    continue
                bits += len(word.text)  # the more of the run stays as it was
            yield _Change(word.start, word.end, near.text, near.language, bits)


def _split(words: Iterable[_Typed], heard: Heard) -> Iterator[_Change]:
    for word in words:
        if heard.known.get(word.folded):
            continue
        for first, second in _splits(word.folded):
            others = {known.language: known for known in heard.known.get(second, ())}
            for known in heard.known.get(first, ()):
                other = others.get(known.language)
                if other is not None:
                    bits = math.log2(1 + min(known.pages, other.pages)) - SPLIT_BITS
                    yield _Change(
                        word.start, word.end, f"{known.text} {other.text}", known.language, bits
                    )


def _joined(text: str, typed: Sequence[_Typed], heard: Heard) -> Iterator[_Change]:
    for first, second in _neighbours(text, typed):
        for known in heard.known.get(first.folded + second.folded, ()):
            yield _Change(
                first.start,
                second.end,
                known.text,
                known.language,
                math.log2(1 + known.pages) - JOIN_BITS,
            )


def _queries(
    text: str,
    typed: Sequence[_Typed],
    rare: Collection[_Typed],
    changes: Sequence[_Change],
    heard: Heard,
) -> list[str]:
    """The query with the changes that go together, of each language; the best first."""
    ranked: dict[str, float] = {}
    for language in {change.language for change in changes}:
        kept = sum(
            any(known.language == language for known in heard.known.get(word.folded, ()))
            for word in typed
            if word not in rare
        )
        of_language = sorted(
            (change for change in changes if change.language == language),
            key=lambda change: (-change.bits, change.text),
        )
        for first in of_language[:TRIED]:
            chosen = [first]
            for change in of_language:
                if all(change.end <= other.start or other.end <= change.start for other in chosen):
                    chosen.append(change)
            bits = sum(change.bits for change in chosen) / len(chosen) + kept + 4.0 * len(chosen)
            query = _changed(text, chosen)
            ranked[query] = max(ranked.get(query, -math.inf), bits)
    return sorted(ranked, key=lambda query: (-ranked[query], query))


def _changed(text: str, changes: Sequence[_Change]) -> str:
    for change in sorted(changes, key=lambda change: -change.start):
        text = text[: change.start] + change.text + text[change.end :]
    return text


def _added(parts: Iterable[Mapping[str, Sequence[KnownWord]]]) -> dict[str, list[KnownWord]]:
    pages = Counter[tuple[str, str, str]]()
    words: dict[tuple[str, str, str], KnownWord] = {}
    for part in parts:
        for asked, found in part.items():
            for word in found:
                key = asked, word.language, word.folded
                pages[key] += word.pages
                words.setdefault(key, word)
    added: dict[str, list[KnownWord]] = {}
    for key, word in words.items():
        added.setdefault(key[0], []).append(
            KnownWord(word.text, word.folded, word.language, pages[key], word.slips)
        )
    return added


def _first(word: KnownWord) -> tuple[float, str]:
    return SLIP_BITS * word.slips - math.log2(1 + word.pages), word.folded
