"""Rank the chunks of pages as passages for a query: BM25 over chunks, and what surrounds them.

The weight of a term comes from the pages of the whole index, not from the few that were read. The
words of the title and of the headings count a little, as do the passage's neighbours and the score
of its page. The formula is in docs/explanation/ranking.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from lycosa.chunks.split import Chunk, plain_text
from lycosa.index.schema import BODY_ROLE, text_field
from lycosa.search.query.query import parse_query
from lycosa.search.query.reading import read_by
from lycosa.search.ranking.sentence import sentence_terms
from lycosa.search.ranking.statistics import K1, inverse_frequency
from lycosa.text.analyze import Analyzer

B = 0.4
"""Normalisation by length. Chunks differ less in length than pages do."""
CONTEXT_SHARE = 0.3
"""Weight of a word in the title or headings, of one in the text."""
NEIGHBOUR_SHARE = 0.15
PAGE_SHARE = 0.5
"""Weight of the score of a page, relative to the best page, of the best passage's score."""
SHINGLE = 4  # words
NEAR_SHARE = 0.7
"""Share of the shingles of the shorter text from which two passages are near duplicates."""


@dataclass(slots=True, frozen=True)
class IndexTerms:
    """Term statistics of an index: number of pages, and of those with a term in a field."""

    documents: int
    holding: Callable[[str, str], int]


@dataclass(slots=True, frozen=True)
class RankedPage:
    """A page that matches: its chunks in order, and its score in the search of pages."""

    title: str
    language: str
    score: float
    chunks: Sequence[Chunk]


@dataclass(slots=True, frozen=True)
class RankedChunk:
    """A chunk with its score. `page`: number of its page; `copies`: omitted near duplicates."""

    page: int
    chunk: Chunk
    score: float
    copies: int = 0


@dataclass(slots=True, frozen=True)
class _Words:
    """The terms of a chunk: where each occurs, and how many there are."""

    places: Mapping[str, list[int]]
    context: Counter[str]
    length: int


class PassageRanker:
    """Ranks chunks for one query.

    Args:
        analyzer_of: returns the analyzer of a language.
        index: statistics of all pages; None: those of the chunks themselves.
    """

    def __init__(
        self, query: str, analyzer_of: Callable[[str], Analyzer], index: IndexTerms | None = None
    ) -> None:
        self._parsed = parse_query(query)
        self._analyzer_of = analyzer_of
        self._index = index

    def rank(self, pages: Sequence[RankedPage]) -> list[RankedChunk]:
        """Return the chunks with a word of the query, best first."""
        words = [self._words_of(page) for page in pages]
        lengths = [each.length for of_page in words for each in of_page]
        average = max(1.0, sum(lengths) / max(1, len(lengths)))
        terms = {
            language: self._terms(language, words) for language in {page.language for page in pages}
        }
        scores = [
            [terms[page.language].score(each, average) for each in of_page]
            for page, of_page in zip(pages, words, strict=True)
        ]
        best = max((score for of_page in scores for score in of_page), default=0.0)
        best_page = max((page.score for page in pages), default=0.0) or 1.0
        ranked = []
        for number, (page, of_page) in enumerate(zip(pages, scores, strict=True)):
            of_search = PAGE_SHARE * best * max(0.0, page.score) / best_page
            around = [0.0, *of_page, 0.0]
            for place, score in enumerate(of_page):
                if score > 0:
                    near = NEIGHBOUR_SHARE * (around[place] + around[place + 2])
                    chunk = page.chunks[place]
                    ranked.append(RankedChunk(number, chunk, score + near + of_search))
        ranked.sort(key=lambda each: (-each.score, each.page, each.chunk.position))
        return ranked

    def _words_of(self, page: RankedPage) -> list[_Words]:
        analyzer = self._analyzer_of(page.language)
        return [_words(analyzer, page, chunk) for chunk in page.chunks]

    def _terms(self, language: str, words: Sequence[Sequence[_Words]]) -> _QueryTerms:
        analyzer = self._analyzer_of(language)
        weight = self._weights(text_field(BODY_ROLE, analyzer.field_set), words)
        reading = read_by(self._parsed, analyzer)
        # of a long query, the words with the largest weight
        sentence = sentence_terms(reading, lambda word: -round(weight(word.unit.phrase) * 1_000))
        weights = {
            word.unit.phrase: count * weight(word.unit.phrase)
            for word, count in sentence.counts.items()
        }
        for word in reading.words():
            if word.required or word.prefix:
                weights.setdefault(word.unit.phrase, weight(word.unit.phrase))
        return _QueryTerms(weights)

    def _weights(
        self, field: str, words: Sequence[Sequence[_Words]]
    ) -> Callable[[tuple[str, ...]], float]:
        """Return the function from a phrase to its weight."""
        if self._index is None:
            frequencies = Counter(
                term for of_page in words for each in of_page for term in each.places
            )
            index = IndexTerms(sum(map(len, words)), lambda _, term: frequencies[term])
        else:
            index = self._index
        return lambda phrase: sum(
            inverse_frequency(index.documents, index.holding(field, term)) for term in phrase
        )


@dataclass(slots=True, frozen=True)
class _QueryTerms:
    """The words of a query, each a phrase of its terms, with their weights."""

    weights: Mapping[tuple[str, ...], float]

    def score(self, words: _Words, average: float) -> float:
        """Return the BM25 score of a chunk; `average`: the average length of chunks."""
        score = 0.0
        norm = K1 * (1 - B + B * words.length / average)
        for phrase, weight in self.weights.items():
            frequency = _occurrences(words.places, phrase)
            frequency += CONTEXT_SHARE * min(words.context[term] for term in phrase)
            score += weight * frequency * (K1 + 1) / (frequency + norm)
        return score


def _words(analyzer: Analyzer, page: RankedPage, chunk: Chunk) -> _Words:
    places: dict[str, list[int]] = {}
    terms = analyzer.terms(plain_text(chunk.text))
    for place, term in enumerate(terms):
        places.setdefault(term, []).append(place)
    context = Counter(analyzer.terms(" ".join((page.title, *chunk.headings))))
    return _Words(places, context, len(terms))


def _occurrences(places: Mapping[str, list[int]], phrase: tuple[str, ...]) -> float:
    """Return how often a phrase occurs."""
    starts = places.get(phrase[0], [])
    for offset, term in enumerate(phrase[1:], 1):
        there = set(places.get(term, ()))
        starts = [place for place in starts if place + offset in there]
    return len(starts)


def within_budget(ranked: Iterable[RankedChunk], count: int, size: int) -> list[RankedChunk]:
    """Return the first passages that are no near duplicates.

    Args:
        count: maximum number.
        size: maximum sum of their sizes; 0: any. A passage that is too large is passed over.
    """
    chosen: list[RankedChunk] = []
    shingles: list[frozenset[int]] = []
    left = size
    for each in ranked:
        own = _shingles(each.chunk.text)
        same = next((n for n, other in enumerate(shingles) if _are_near(own, other)), None)
        if same is not None:
            first = chosen[same]
            chosen[same] = RankedChunk(first.page, first.chunk, first.score, first.copies + 1)
            continue
        if len(chosen) == count:
            break
        if size and each.chunk.size > left:
            continue
        left -= each.chunk.size
        chosen.append(each)
        shingles.append(own)
    return chosen


def _shingles(text: str) -> frozenset[int]:
    words = plain_text(text).casefold().split()
    if len(words) < SHINGLE:
        # scripts without spaces
        words = list("".join(words))
    last = max(1, len(words) - SHINGLE + 1)
    return frozenset(hash(tuple(words[start : start + SHINGLE])) for start in range(last))


def _are_near(one: frozenset[int], other: frozenset[int]) -> bool:
    smaller = min(len(one), len(other))
    return len(one & other) >= NEAR_SHARE * smaller
