"""Queries that are sentences: any of their words, scored by BM25 over one field of title and text.

Function words have no weight. A word counts as often as the sentence contains it. Neighbouring
words add to the score of pages that have them close together. The formula is in
docs/explanation/ranking.md.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence

from lycosa.core.dataclass import dataclass
from lycosa.index.schema import BODY_ROLE, text_field
from lycosa.search.query.query import Clause, ParsedQuery
from lycosa.search.query.reading import QueryPart, QueryWord, Reading
from lycosa.search.ranking.expression import AtLeast, Expression, Leaf, WithOptional, every
from lycosa.text.function_words import (
    SENTENCE_MARKS,
    SPACELESS,
    function_words,
    has_question_word,
    is_question,
    plain_word,
)

MIN_PARTS = 6
"""Words and groups of words from which a query is a sentence."""
MIN_QUESTION_PARTS, MIN_MARKED_PARTS = 3, 2
"""The same for a query that begins or ends with a question word, and for one that ends like a
sentence.
"""
MAX_PARTS_WITH_REQUIRED = 12
"""Up to this number of parts, quoted phrases, prefixes and words with an operator must match.
Longer sentences are prose that quotes.
"""
MAX_TERMS = 128
"""Different content words that are scored. Of a longer sentence, the rarest."""
MAX_PAIR_WEIGHT, PAIR_DECAY = 0.4, 10.0
"""The weight of each of n pairs of neighbouring words is PAIR_DECAY / n², at most MAX_PAIR_WEIGHT.
"""
PAIR_SLOP = 2
"""Positions between the two words of a pair."""
MAX_WORDS_ALL_PAIRS, MAX_WORDS_PAIRS = 8, 100
"""Up to the first number of words, function words have pairs too; beyond the second, there are
none.
"""

Make = Callable[[QueryPart, float], Expression | None]
"""Return the expression of a part of the query, its score multiplied; None: no page matches it."""
Holding = Callable[[QueryWord], int]
"""Return how many pages contain a word."""


def is_sentence(parsed: ParsedQuery, parts: int, readings: Sequence[Reading] = ()) -> bool:
    """Return whether a query of `parts` words and groups is a sentence: long, or a question, or
    with a mark at its end. Question words of languages without spaces are found in the readings.
    """
    if parts >= MIN_PARTS:
        return True
    if parts < MIN_MARKED_PARTS or any(
        not isinstance(part, Clause) or part.within or part.phrase for part in parsed.required
    ):
        return False
    texts = [part.text for part in parsed.required if isinstance(part, Clause)]
    return texts[-1].endswith(SENTENCE_MARKS) or (
        parts >= MIN_QUESTION_PARTS
        and (
            is_question([plain_word(text) for text in texts])
            or any(map(_is_spaceless_question, readings))
        )
    )


def _is_spaceless_question(reading: Reading) -> bool:
    if reading.language not in SPACELESS or len(reading.units) < MIN_QUESTION_PARTS:
        return False
    return has_question_word([plain_word(unit.surface) for unit in reading.units], reading.language)


@dataclass(slots=True, frozen=True)
class SentenceTerms:
    """The words of a sentence that are scored with how often it has them, in order and each once;
    `left_out`: rarer ones were preferred.
    """

    counts: Mapping[QueryWord, int]
    pairs: Sequence[tuple[QueryWord, QueryWord]]
    others: Sequence[QueryPart]  # phrases, groups, prefixes, words with an operator
    left_out: int = 0

    @property
    def total(self) -> int:
        """All occurrences of the scored words."""
        return sum(self.counts.values())


def sentence_terms(reading: Reading, holding: Holding) -> SentenceTerms:
    """Return the words of a reading that are scored. Function words count only if it has no other
    words.
    """
    function = function_words(reading.analyzer.language)
    plain = [
        part
        for part in reading.parts
        if isinstance(part, QueryWord) and not (part.required or part.prefix)
    ]
    others = [
        part
        for part in reading.parts
        if not isinstance(part, QueryWord) or part.required or part.prefix
    ]
    content = [word for word in plain if plain_word(word.unit.surface) not in function]
    if not content and not others:
        content = plain
    first: dict[tuple[tuple[str, ...], str], QueryWord] = {}
    counts: dict[QueryWord, int] = {}
    for word in content:
        same = first.setdefault((word.unit.phrase, word.unit.word), word)
        counts[same] = counts.get(same, 0) + 1
    left_out = len(counts) - MAX_TERMS
    if left_out > 0:
        held = {word: holding(word) for word in counts}
        rarest = sorted(counts, key=lambda word: (not held[word], held[word]))[:MAX_TERMS]
        counts = {word: counts[word] for word in rarest}
    neighbours = (
        plain
        if len(plain) <= MAX_WORDS_ALL_PAIRS
        else content
        if len(plain) <= MAX_WORDS_PAIRS
        else []
    )
    return SentenceTerms(
        counts, tuple(dict.fromkeys(itertools.pairwise(neighbours))), others, max(0, left_out)
    )


def sentence_expression(
    reading: Reading,
    terms: SentenceTerms,
    factors: Mapping[QueryWord, float],
    make: Make,
    *,
    added: Sequence[Expression] = (),
    extra: Sequence[Expression] = (),
) -> Expression | None:
    """Return the expression of a sentence, None if no page can match.

    Args:
        added: terms of feedback, which match as the words do.
        extra: expressions that only add to the score of pages that match.
    """
    required, optional = list[Expression](), list[Expression]()
    must_match = len(reading.parts) <= MAX_PARTS_WITH_REQUIRED
    for part in terms.others:
        expression = make(part, 1.0)
        if expression is not None:
            (required if must_match else optional).append(expression)
        elif must_match:
            return None
    for word, count in terms.counts.items():
        expression = make(word, factors.get(word, 1.0) * count)
        if expression is not None:
            optional.append(expression)
    body = text_field(BODY_ROLE, reading.analyzer.field_set)
    weight = min(MAX_PAIR_WEIGHT, PAIR_DECAY / max(1, len(terms.pairs)) ** 2)
    close = [
        Leaf(
            body,
            (*one.unit.phrase, *two.unit.phrase),
            weight * min(factors.get(one, 1.0), factors.get(two, 1.0)),
            PAIR_SLOP,
        )
        for one, two in terms.pairs
    ]
    if required:
        return WithOptional(every(required), (*optional, *added, *close, *extra))
    return WithOptional(AtLeast((*optional, *added)), (*close, *extra)) if optional else None
