"""Pseudo-relevance feedback: add terms of the first results to a question, and search again.

A relevance model (Lavrenko and Croft, "Relevance-based language models", SIGIR 2001), mixed with
the question as in RM3 (Abdul-Jaleel et al., "UMass at TREC 2004"); terms are also weighted by
inverse document frequency. `auto` does not expand a question if one page has a far better score
than the others, since terms of the other pages would displace it.
"""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from lycosa.core.dataclass import dataclass
from lycosa.index.schema import BODY_ROLE, text_field
from lycosa.search.ranking.expression import Leaf
from lycosa.search.ranking.statistics import Statistics, Term, inverse_frequency
from lycosa.text.analyze import Analyzer
from lycosa.text.function_words import function_words

ON, OFF, AUTO = "on", "off", "auto"
MODES = (AUTO, ON, OFF)

PAGES = 10
TERMS = 25
SHARE = 0.6
"""Weight of the added terms, as a share of the weight of the expanded question."""
TERMS_OF_PAGE = 200
"""The heaviest terms of one page that are used."""
CHARACTERS = 6_000
"""Characters of the main text of a page that are used."""
FULL_BELOW, NONE_ABOVE = 1.45, 1.75
"""Score of the first page, as a multiple of the mean of the next ones: `auto` adds terms with their
full weight below the first value, with none above the second. Chosen on the odd questions of the
collections of bench/relevance.py.
"""
MIN_PAGES = 3
MAX_SINGLE_ANSWER_WORDS = 20
"""A sentence up to this length with a question mark probably has one answer: `auto` adds nothing.
"""
MIN_HELD = 2
"""Pages of the index that contain a term: a term of one page only finds no other."""
LENGTH_SMOOTHING = 500
"""Terms added to the length of each page. Without it a page of one sentence would outweigh nine
articles.
"""

PageTerms = tuple[tuple[str, str, float], ...]
"""The heaviest terms of a page: (language of its fields, term, weight)."""


@dataclass(slots=True, frozen=True)
class Expansion:
    """Terms added to a question: (language of their fields, term, weight). A weight of 1 is that of
    all words of the question together.
    """

    terms: PageTerms

    def leaves(self, field_set: str, occurrences: int) -> list[Leaf]:
        """Return the added terms of one language, for a query with this number of words."""
        name = text_field(BODY_ROLE, field_set)
        return [
            Leaf(name, (term,), weight * occurrences)
            for language, term, weight in self.terms
            if language == field_set
        ]

    def terms_used(self) -> Iterator[Term]:
        """Return the terms whose frequencies affect scores."""
        return ((text_field(BODY_ROLE, language), term) for language, term, _ in self.terms)


@functools.lru_cache(maxsize=64)
def _function_terms(analyzer: Analyzer) -> frozenset[str]:
    return frozenset(analyzer.terms(" ".join(function_words(analyzer.language))))


def terms_of_page(analyzer: Analyzer, title: str, text: str, statistics: Statistics) -> PageTerms:
    """Return the heaviest terms of a page: share of the text times rarity. Function words and terms
    of one page only are left out.
    """
    counts = Counter(analyzer.terms(f"{title}\n{text[:CHARACTERS]}"))
    for term in _function_terms(analyzer):
        counts.pop(term, None)
    length = counts.total()
    documents = max(1, statistics.documents)
    weights: dict[str, float] = {}
    for term, count in counts.items():
        held = statistics.holding(text_field(BODY_ROLE, analyzer.field_set), term)
        if held >= MIN_HELD:
            weights[term] = (
                count
                / (length + LENGTH_SMOOTHING)
                * inverse_frequency(documents, min(held, documents))
            )
    heaviest = sorted(weights, key=lambda term: (-weights[term], term))[:TERMS_OF_PAGE]
    return tuple((analyzer.field_set, term, weights[term]) for term in heaviest)


def strength(scores: Sequence[float]) -> float:
    """Return the weight of feedback for `auto`, 0 to 1, by the distance of the first score from the
    next ones.
    """
    if len(scores) < MIN_PAGES or scores[0] <= 0:
        return 0.0
    rest = scores[1:PAGES]
    ahead = scores[0] * len(rest) / max(sum(rest), 1e-9)
    return min(1.0, max(0.0, (NONE_ABOVE - ahead) / (NONE_ABOVE - FULL_BELOW)))


def expansion(pages: Iterable[tuple[float, PageTerms]], amount: float = 1.0) -> Expansion | None:
    """Return the terms to add, given the score and terms of each page; None: nothing."""
    weights: dict[tuple[str, str], float] = defaultdict(float)
    listed = list(pages)
    total = sum(score for score, _ in listed)
    for score, terms in listed:
        for language, term, weight in terms:
            weights[language, term] += score / total * weight
    heaviest = sorted(weights, key=lambda key: (-weights[key], key))[:TERMS]
    share = amount * SHARE
    scale = share / (1 - share) / sum(weights[key] for key in heaviest) if heaviest else 0.0
    return Expansion(tuple((*key, weights[key] * scale) for key in heaviest)) if scale > 0 else None
