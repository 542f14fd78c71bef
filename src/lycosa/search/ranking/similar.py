"""Pages like a page: those that hold the words by which it differs from others, its heaviest by
tf·idf of its main text and title.

(Salton and Buckley, "Term-weighting approaches in automatic text retrieval", Information Processing
& Management 1988; Lucene's MoreLikeThis asks in the same way.) They are in its language; it and its
own copies are left out.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lycosa.index.schema import BODY_ROLE, HEADINGS_ROLE, TITLE_ROLE, text_field
from lycosa.search.ranking.expression import AtLeast, Expression, Leaf, leaves
from lycosa.search.ranking.statistics import Term, inverse_frequency
from lycosa.text.analyze import Analyzer

MAX_TERMS = 30  # by which others are found
MIN_SHARE = 0.2  # of them that a page must hold
LOOKED_AT = 20_000  # characters of the main text
TITLE_TIMES = 3  # how often a word of the title counts
MIN_HOLDING = 2  # pages that hold a term: what only the page itself has finds none
TOO_COMMON = 0.3  # of the pages of its fields: a term that more hold says nothing


@dataclass(slots=True, frozen=True)
class Likeness:
    """What pages like a page are found by: picklable. `page` is its id in the index, `group` as of
    `IndexedPage`.
    """

    url: str
    page: str
    group: int
    language: str
    field_set: str
    terms: tuple[tuple[str, float], ...]  # with their weights, at most 1, the heaviest first

    def expression(self) -> Expression | None:
        """The pages that hold enough of the terms; None without terms."""
        roles = ((BODY_ROLE, 1.0), (TITLE_ROLE, 1.5), (HEADINGS_ROLE, 0.5))
        parts = tuple(
            AtLeast(
                tuple(
                    Leaf(text_field(role, self.field_set), (term,), weight * factor)
                    for role, factor in roles
                )
            )
            for term, weight in self.terms
        )
        return AtLeast(parts, max(1, round(MIN_SHARE * len(parts)))) if parts else None

    def terms_used(self) -> Iterable[Term]:
        """The terms whose frequencies its scores depend on."""
        expression = self.expression()
        return (
            ()
            if expression is None
            else ((leaf.field, term) for leaf in leaves(expression) for term in leaf.terms)
        )


def heaviest(
    analyzer: Analyzer, title: str, body: str, documents: int, holding: Callable[[str, str], int]
) -> tuple[tuple[str, float], ...]:
    """The terms of a page that weigh most, and what they weigh against the heaviest. `holding`: how
    many of `documents` have a term in a field.
    """
    counts = Counter(analyzer.terms(body[:LOOKED_AT]))
    for term in analyzer.terms(title):
        counts[term] += TITLE_TIMES
    name = text_field(BODY_ROLE, analyzer.field_set)
    weights: dict[str, float] = {}
    for term, count in counts.items():
        held = holding(name, term)
        if MIN_HOLDING <= held <= max(MIN_HOLDING, TOO_COMMON * documents) and (
            len(term) > 1 or not term.isascii()
        ):
            weights[term] = (1 + math.log(count)) * inverse_frequency(
                documents, min(held, documents)
            )
    chosen = sorted(weights, key=lambda term: (-weights[term], term))[:MAX_TERMS]
    return tuple((term, weights[term] / weights[chosen[0]]) for term in chosen)


def similar_query(url: str) -> str:
    """The query for pages like the one at a URL; a quotation mark would end it."""
    return f'similar:"{url.replace(chr(34), "%22")}"'
