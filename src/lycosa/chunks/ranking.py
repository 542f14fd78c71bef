"""Rank chunks of pages for a query: BM25 over chunks and their context.

Rankings by words and by vectors are merged by reciprocal rank fusion. The weight of a term is
computed over the whole index, not over the few pages that were read. The words of the title and of
the headings count a little, as do the passage's neighbours and the score of its page. The formula
is in docs/explanation/ranking.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import chain

from lycosa.chunks.split import Chunk, plain_text
from lycosa.index.schema import BODY_ROLE, text_field
from lycosa.search.query.query import ParsedQuery
from lycosa.search.query.reading import read_by, words_in
from lycosa.search.ranking.ordering import reciprocal_ranks
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


class ChunkTerms:
    """The terms of the chunks of a page, and those of the title and the headings of each chunk.

    Hot path: bench/passages.py.
    """

    def __init__(self, analyzer: Analyzer, title: str, chunks: Sequence[Chunk]) -> None:
        self.terms = [analyzer.terms(plain_text(chunk.text)) for chunk in chunks]
        of_text = cache(analyzer.terms)
        self.context = [
            Counter(chain.from_iterable(map(of_text, (title, *chunk.headings)))) for chunk in chunks
        ]


@dataclass(slots=True, frozen=True)
class RankedPage:
    """A page that matches: its chunks in order, and its score in the search of pages.

    `terms`: of its chunks, if they are known.
    """

    title: str
    language: str
    score: float
    chunks: Sequence[Chunk]
    terms: ChunkTerms | None = None


@dataclass(slots=True, frozen=True)
class RankedChunk:
    """A chunk with its score. `page`: number of its page; `copies`: omitted near duplicates."""

    page: int
    chunk: Chunk
    score: float
    copies: int = 0


class PassageRanker:
    """Ranks chunks for one query.

    Args:
        analyzer_of: returns the analyzer of a language.
        index: statistics of all pages; None: those of the chunks themselves.
    """

    def __init__(
        self,
        query: ParsedQuery,
        analyzer_of: Callable[[str], Analyzer],
        index: IndexTerms | None = None,
    ) -> None:
        self._parsed = query
        self._analyzer_of = analyzer_of
        self._index = index

    def rank(self, pages: Sequence[RankedPage]) -> list[RankedChunk]:
        """Return the chunks with a word of the query, best first."""
        words = [self._words_of(page) for page in pages]
        lengths = [len(terms) for of_page in words for terms in of_page.terms]
        average = max(1.0, sum(lengths) / max(1, len(lengths)))
        queries = {
            language: self._terms(language, words) for language in {page.language for page in pages}
        }
        scores = [
            queries[page.language].scores(of_page, average)
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

    def _words_of(self, page: RankedPage) -> ChunkTerms:
        analyzer = self._analyzer_of(page.language)
        return page.terms or ChunkTerms(analyzer, page.title, page.chunks)

    def _terms(self, language: str, words: Sequence[ChunkTerms]) -> _QueryTerms:
        analyzer = self._analyzer_of(language)
        weight = self._weights(text_field(BODY_ROLE, analyzer.field_set), words)
        reading = read_by(self._parsed, analyzer)
        # of a long query, the words with the largest weight
        sentence = sentence_terms(reading, lambda word: -round(weight(word.unit.phrase) * 1_000))
        weights = {
            word.unit.phrase: count * weight(word.unit.phrase)
            for word, count in sentence.counts.items()
        }
        for word in words_in(sentence.others):
            weights.setdefault(word.unit.phrase, weight(word.unit.phrase))
        return _QueryTerms(weights)

    def _weights(
        self, field: str, words: Sequence[ChunkTerms]
    ) -> Callable[[tuple[str, ...]], float]:
        """Return the function from a phrase to its weight."""
        if self._index is None:
            chunks = [set(terms) for of_page in words for terms in of_page.terms]
            frequencies = Counter(term for terms in chunks for term in terms)
            index = IndexTerms(len(chunks), lambda _, term: frequencies[term])
        else:
            index = self._index
        return lambda phrase: sum(
            inverse_frequency(index.documents, index.holding(field, term)) for term in phrase
        )


@dataclass(slots=True, frozen=True)
class _QueryTerms:
    """The words of a query, each a phrase of its terms, with their weights."""

    weights: Mapping[tuple[str, ...], float]

    def scores(self, page: ChunkTerms, average: float) -> list[float]:
        """Return the BM25 score of each chunk; `average`: the average length of chunks."""
        searched = {term for phrase in self.weights for term in phrase}
        scores = []
        for terms, context in zip(page.terms, page.context, strict=True):
            present = searched.intersection(terms)
            has_any = present or not searched.isdisjoint(context)
            scores.append(
                self._score(terms, present, context, len(terms) / average) if has_any else 0.0
            )
        return scores

    def _score(
        self, terms: list[str], present: set[str], context: Counter[str], length: float
    ) -> float:
        """Return the score of a chunk; `present`: those of its terms that are searched for."""
        score = 0.0
        norm = K1 * (1 - B + B * length)
        for phrase, weight in self.weights.items():
            frequency = CONTEXT_SHARE * min([context.get(term, 0) for term in phrase])
            if present.issuperset(phrase):
                frequency += _occurrences(terms, phrase)
            if frequency:
                score += weight * frequency * (K1 + 1) / (frequency + norm)
        return score


def _occurrences(terms: list[str], phrase: tuple[str, ...]) -> int:
    """Return how often a phrase occurs."""
    if len(phrase) == 1:
        return terms.count(phrase[0])
    return sum(
        tuple(terms[place : place + len(phrase)]) == phrase
        for place, term in enumerate(terms)
        if term == phrase[0]
    )


def fused(*rankings: Sequence[RankedChunk]) -> list[RankedChunk]:
    """Merge rankings by reciprocal rank fusion."""
    scores = reciprocal_ranks(*([each.chunk.id for each in ranking] for ranking in rankings))
    first = {each.chunk.id: each for ranking in reversed(rankings) for each in ranking}
    merged = [replace(each, score=scores[name]) for name, each in first.items()]
    return sorted(merged, key=lambda each: (-each.score, each.page, each.chunk.position))


def parts_of(text: str, chunks: Iterable[Chunk]) -> list[Chunk]:
    """Return the chunks that consist of parts of a text, or contain most of it."""
    own = _shingles(text)
    return [each for each in chunks if _are_near(own, _shingles(each.text))]


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


@lru_cache(maxsize=1_024)
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
