"""Correct the spelling of a query that matches few pages.

A word is corrected if few pages contain it. Candidates are words within an edit distance of 2
(`index.suggest.edit_distance`), two words that it consists of, and the word that it forms with its
neighbour; in Chinese and Japanese also every run of three or more characters. All words are
corrected in one language, the one with the best candidates. A spelling is offered if it matches
more pages than the query.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from icu4py.breakers import WordBreaker

from lycosa.core.dataclass import dataclass
from lycosa.index.suggest.file import KnownWord, SuggestFile
from lycosa.index.suggest.normalise import folded
from lycosa.search.query.query import Clause, ParsedQuery, clauses
from lycosa.search.query.syntax import IN_URL
from lycosa.text.fold import pieces, with_names

FEW = 3
"""A query, or a word of it, is corrected if fewer pages than this match."""
MAX_WORDS = 8  # of a query that may be corrected
TRIED = 3  # spellings that are searched
MIN_LETTERS = 3  # of a word that may be misspelled
TWO_EDITS_LETTERS = 7  # of a word that may have two errors
MAX_SIMILAR = 40  # words that a shard returns

# A candidate is rated by the logarithm of its pages, less these bits. Chosen on the odd words of
# bench/suggest.py, which reports the even ones.
EDIT_BITS = 5.0
FIRST_LETTER_BITS = 2.0  # the first letter is rarely wrong
SPLIT_BITS = 6.0
JOIN_BITS = 2.0
TIMES_MORE_PAGES = 20  # than the typed word must a candidate have, per edit

_CHARACTERS = re.compile("[\u3041-\u30ff\u3400-\u9fff\U00020000-\U0003ffff]{3,}")
_MIN_RUN, _MAX_RUN, _MAX_CHARACTERS = 3, 6, 12


@dataclass(slots=True, frozen=True)
class SpellingRequest:
    """Folded words to find similar words of, and words to look up exactly.

    `language`: "" is any.
    """

    similar: tuple[str, ...]
    exact: tuple[str, ...]
    language: str = ""


@dataclass(slots=True, frozen=True)
class SpellingCandidates:
    """Similar and known words, by the requested word."""

    similar: Mapping[str, Sequence[KnownWord]] = field(default_factory=dict)
    exact: Mapping[str, Sequence[KnownWord]] = field(default_factory=dict)


@dataclass(slots=True, frozen=True)
class Spelling:
    """Another spelling of a query, and the number of pages that match it."""

    query: str
    total: int


@dataclass(slots=True, frozen=True)
class _Change:
    """A replacement of the characters from `start` to `end`; more `bits` are better."""

    start: int
    end: int
    text: str
    language: str
    bits: float


@dataclass(slots=True, frozen=True)
class _Typed:
    """A word of the query, and its position."""

    text: str
    folded: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def lookup_spellings(files: Sequence[SuggestFile], request: SpellingRequest) -> SpellingCandidates:
    """Look up candidates in files."""
    candidates = []
    for file in files:
        languages = [request.language] if request.language else file.languages
        near = {word: _similar(file, word, languages) for word in request.similar}
        exact = {
            word: [entry for language in languages if (entry := file.find_word(word, language))]
            for word in (*request.similar, *request.exact)
        }
        candidates.append(
            SpellingCandidates(
                {word: sorted(entry, key=_rank)[:MAX_SIMILAR] for word, entry in near.items()},
                exact,
            )
        )
    return merge_candidates(candidates)


def _similar(file: SuggestFile, word: str, languages: Sequence[str]) -> list[KnownWord]:
    """Return the words at distance 1, else those at distance 2, which cost ten times as much."""
    for distance in range(1, max_distance(word) + 1):
        similar = [
            other
            for language in languages
            for other in file.similar_words(word, distance, language)
        ]
        if similar:
            return similar
    return []


def merge_candidates(candidates: Sequence[SpellingCandidates]) -> SpellingCandidates:
    """Merge the candidates of several shards: pages of a word add up."""
    if len(candidates) == 1:
        return candidates[0]
    return SpellingCandidates(
        _added(part.similar for part in candidates), _added(part.exact for part in candidates)
    )


def other_spelling(
    text: str,
    parsed: ParsedQuery,
    language: str,
    total: int,
    ask: Callable[[SpellingRequest], SpellingCandidates],
    matches: Callable[[str, int], int],
) -> Spelling | None:
    """Return a spelling that more than `total` pages match, if there is one.

    `ask` looks up candidates; `matches` returns the number of pages for a query, given the known
    number of pages with it as written, or 0.
    """
    typed = _typed(text, parsed)
    if not typed:
        return None
    # Texts in scripts that are searched by letters or pairs also match pages without the word.
    as_phrase = len(typed) == 1 and typed[0].text == text and not text.isascii()
    if total >= FEW and as_phrase:
        total = matches(f'"{text}"', 0)
    if total >= FEW:
        return None
    runs = [run for word in typed for run in _runs(word)]
    singles = [
        word
        for word in typed
        if not _CHARACTERS.search(word.text) and len(word.folded) >= MIN_LETTERS
    ]
    exact = {first.folded + second.folded for first, second in _neighbours(text, typed)}
    exact.update(word.folded for word in typed)
    typed_words = ask(SpellingRequest((), tuple(sorted(exact)), language))
    hits = {
        word: total
        if len(typed) == 1
        else matches(
            word.text, sum(entry.pages for entry in typed_words.exact.get(word.folded, ()))
        )
        for word in typed
    }
    rare = {word for word in typed if not typed_words.exact.get(word.folded) or hits[word] < FEW}
    singles = [word for word in singles if word in rare]
    candidates = typed_words
    if singles or runs:  # comparing words costs most: only those that may be wrong
        parts = {part for word in singles for pair in _splits(word.folded) for part in pair}
        similar = dict.fromkeys(word.folded for word in (*singles, *runs))
        answer = ask(SpellingRequest(tuple(similar), tuple(sorted(parts)), language))
        candidates = SpellingCandidates(answer.similar, {**typed_words.exact, **answer.exact})
    changes = [
        *_edits(singles, candidates, hits),
        *_edits(runs, candidates, {}),
        *_split(singles, candidates),
        *_joined(text, typed, candidates),
    ]
    for query in _queries(text, typed, rare, changes, candidates)[:TRIED]:
        pages = matches(f'"{query}"' if as_phrase else query, 0)
        if pages > total:
            return Spelling(query, pages)
    return None


def max_distance(word: str) -> int:
    """Return the maximum edit distance of corrections of a folded word."""
    return 2 if len(word) >= TWO_EDITS_LETTERS else 1


def _typed(text: str, parsed: ParsedQuery) -> list[_Typed]:
    """Return the searched words with their positions in the query."""
    words: list[_Typed] = []
    place = 0
    for clause in clauses(parsed.required):
        is_name = with_names(clause.text) != clause.text  # .NET: not a form of another word
        if (
            is_name
            or clause.within == IN_URL
            or clause.prefix
            or (start := _place(text, clause, place)) < 0
        ):
            continue
        for word in pieces(clause.text):
            start = text.find(word, start)
            words.append(_Typed(word, folded(word), start))
            start = place = start + len(word)
    return [word for word in words if word.folded and not word.folded.isdigit()][:MAX_WORDS]


def _place(text: str, clause: Clause, place: int) -> int:
    """Return the position of a clause, outside restrictions and excluded words; -1: none."""
    while (place := text.find(clause.text, place)) >= 0:
        before = text[:place].rpartition(" ")[2].lstrip("(")
        if not before.startswith(("-", "−")) and (":" not in before or clause.within):
            return place
        place += 1
    return -1


def _runs(word: _Typed) -> Iterator[_Typed]:
    """Yield runs of Chinese or Japanese characters that may be a misspelled word.

    They overlap with two or more characters that ICU splits into words of one character.
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
    """Return the ranges of successive words of one character."""
    ranges: list[tuple[int, int]] = []
    place = 0
    for word in WordBreaker(run, "zh"):
        if len(word) == 1:
            if ranges and ranges[-1][1] == place:
                ranges[-1] = ranges[-1][0], place + 1
            else:
                ranges.append((place, place + 1))
        place += len(word)
    return [(start, end) for start, end in ranges if end - start > 1]


def _splits(word: str) -> Iterator[tuple[str, str]]:
    for place in range(2, len(word) - 1):
        yield word[:place], word[place:]


def _neighbours(text: str, typed: Sequence[_Typed]) -> Iterator[tuple[_Typed, _Typed]]:
    """Yield pairs of words that are separated by a space or hyphen only."""
    for first, second in itertools.pairwise(typed):
        if text[first.end : second.start] in (" ", "-"):
            yield first, second


def _edits(
    words: Iterable[_Typed], candidates: SpellingCandidates, hits: Mapping[_Typed, int]
) -> Iterator[_Change]:
    """Yield replacements by similar words. `hits`: number of pages for the typed word."""
    for word in words:
        held = hits.get(word, 0)
        own = {entry.language: entry.pages for entry in candidates.exact.get(word.folded, ())}
        for near in candidates.similar.get(word.folded, ()):
            if near.pages < TIMES_MORE_PAGES * near.distance * max(
                own.get(near.language, 0), held if held < FEW else 0
            ):
                continue
            bits = (
                math.log2(1 + near.pages)
                - EDIT_BITS * near.distance
                - FIRST_LETTER_BITS * (near.folded[0] != word.folded[0])
            )
            if _CHARACTERS.match(word.text):
                if len(near.text) < _MIN_RUN:
                    continue
                bits += len(word.text)  # prefer changes within longer runs
            yield _Change(word.start, word.end, near.text, near.language, bits)


def _split(words: Iterable[_Typed], candidates: SpellingCandidates) -> Iterator[_Change]:
    for word in words:
        if candidates.exact.get(word.folded):
            continue
        for first, second in _splits(word.folded):
            others = {entry.language: entry for entry in candidates.exact.get(second, ())}
            for entry in candidates.exact.get(first, ()):
                other = others.get(entry.language)
                if other is not None:
                    bits = math.log2(1 + min(entry.pages, other.pages)) - SPLIT_BITS
                    yield _Change(
                        word.start, word.end, f"{entry.text} {other.text}", entry.language, bits
                    )


def _joined(
    text: str, typed: Sequence[_Typed], candidates: SpellingCandidates
) -> Iterator[_Change]:
    for first, second in _neighbours(text, typed):
        for entry in candidates.exact.get(first.folded + second.folded, ()):
            yield _Change(
                first.start,
                second.end,
                entry.text,
                entry.language,
                math.log2(1 + entry.pages) - JOIN_BITS,
            )


def _queries(
    text: str,
    typed: Sequence[_Typed],
    rare: Collection[_Typed],
    changes: Sequence[_Change],
    candidates: SpellingCandidates,
) -> list[str]:
    """Return the queries with the compatible changes of each language, best first."""
    ranked: dict[str, float] = {}
    for language in {change.language for change in changes}:
        correct = sum(
            any(entry.language == language for entry in candidates.exact.get(word.folded, ()))
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
            bits = sum(change.bits for change in chosen) / len(chosen) + correct + 4.0 * len(chosen)
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
        for original, similar_words in part.items():
            for word in similar_words:
                key = original, word.language, word.folded
                pages[key] += word.pages
                words.setdefault(key, word)
    added: dict[str, list[KnownWord]] = {}
    for key, word in words.items():
        added.setdefault(key[0], []).append(
            KnownWord(word.text, word.folded, word.language, pages[key], word.distance)
        )
    return added


def _rank(word: KnownWord) -> tuple[float, str]:
    return EDIT_BITS * word.distance - math.log2(1 + word.pages), word.folded
