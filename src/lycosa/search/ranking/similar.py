"""Find pages similar to a page: pages in its language with its terms of the highest tf·idf.

(Salton and Buckley, "Term-weighting approaches in automatic text retrieval", Information Processing
& Management 1988; Lucene's MoreLikeThis.) The page and its copies are not in the results.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable

from lycosa.core.dataclass import dataclass
from lycosa.index.schema import BODY_ROLE, HEADINGS_ROLE, TITLE_ROLE, text_field
from lycosa.search.ranking.expression import AtLeast, Expression, Leaf
from lycosa.search.ranking.statistics import Term, inverse_frequency
from lycosa.text.analyze import Analyzer

MAX_TERMS = 40  # of the query
MIN_SHARE = 0.1  # of the terms, in a similar page
MAX_CHARACTERS = 5_000  # of the main text that are used: a page begins with its subject
TITLE_TIMES = 3  # how often a word of the title counts
MIN_HOLDING = 2  # pages with a term: a term of one page finds no other
TOO_COMMON = 0.3  # share of the pages above which a term is not used
_ROLES = {BODY_ROLE: 1.0, TITLE_ROLE: 3.0, HEADINGS_ROLE: 0.5}


@dataclass(slots=True, frozen=True)
class Likeness:
    """A query for pages similar to one. `page`: its id; `group` as in `IndexedPage`."""

    url: str
    page: str
    group: int
    language: str
    field_set: str
    terms: tuple[tuple[str, float], ...]  # with their weights, at most 1, the heaviest first

    def expression(self) -> Expression | None:
        """Return the expression of pages with enough of the terms; None without terms."""
        parts = tuple(
            AtLeast(
                tuple(
                    Leaf(text_field(role, self.field_set), (term,), weight * factor)
                    for role, factor in _ROLES.items()
                )
            )
            for term, weight in self.terms
        )
        return AtLeast(parts, max(1, round(MIN_SHARE * len(parts)))) if parts else None

    def terms_used(self) -> Iterable[Term]:
        """Return the terms whose frequencies affect the scores."""
        return (
            (text_field(role, self.field_set), term) for term, _ in self.terms for role in _ROLES
        )


def heaviest(
    analyzer: Analyzer, title: str, body: str, documents: int, holding: Callable[[str, str], int]
) -> tuple[tuple[str, float], ...]:
    """Return the heaviest terms of a page, with weights relative to the first one.

    `holding` returns how many of the `documents` have a term in a field.
    """
    counts = Counter(analyzer.terms(body[:MAX_CHARACTERS]))
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
    """Return the query for pages similar to the one at a URL, with escaped quotation marks."""
    return f'similar:"{url.replace(chr(34), "%22")}"'
