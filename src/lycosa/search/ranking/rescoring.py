"""Compute the exact score of a page under the statistics of several indexes.

The explanations of tantivy have the frequency of a term and the length of the field; the rest is
the formula of BM25. It takes about 0.2 ms per page, so only the first pages are rescored.
"""

from __future__ import annotations

from collections.abc import Callable

import tantivy

from lycosa.index.schema import URL_WORDS, stored
from lycosa.search.presentation.results import ScorePart
from lycosa.search.ranking.expression import (
    Expression,
    Leaf,
    Prefix,
    counted,
    prefix,
    score,
    sequence,
)
from lycosa.search.ranking.statistics import (
    K1,
    LeafExplanation,
    Statistics,
    average_length,
    explained,
    inverse_frequency,
    matches,
    saturation,
)
from lycosa.text.analyze import analyzer_for

_Key = tuple[str, tuple[str, ...], int]


class Rescorer:
    """Scores pages of one index for one query."""

    def __init__(
        self, schema: tantivy.Schema, searcher: tantivy.Searcher, everywhere: Statistics
    ) -> None:
        self._schema = schema
        self._searcher = searcher
        self._everywhere = everywhere
        self._queries: dict[_Key, tantivy.Query] = {}
        self._rarity: dict[tuple[str, tuple[str, ...]], float] = {}

    def score(self, expression: Expression, address: tantivy.DocAddress) -> float:
        """Return the score of a page; 0 if it does not match."""
        return score(expression, self._values(address)) or 0.0

    def parts(self, expression: Expression, address: tantivy.DocAddress) -> tuple[ScorePart, ...]:
        """Return the parts of a page's score; of several readings of the query, the best one."""
        return tuple(
            ScorePart(
                leaf.field,
                (f"{leaf.start}*",) if isinstance(leaf, Prefix) else leaf.terms,
                value,
            )
            for leaf, value in counted(expression, self._values(address))
        )

    def _values(self, address: tantivy.DocAddress) -> Callable[[Leaf | Prefix], float | None]:
        ending = f"_{analyzer_for(stored(self._searcher.doc(address)).language).field_set}"
        seen: dict[_Key, LeafExplanation | None] = {}

        def value(leaf: Leaf | Prefix) -> float | None:
            if leaf.field != URL_WORDS and not leaf.field.endswith(ending):
                return None  # a page has only terms of its own language
            if isinstance(leaf, Prefix):
                return (
                    leaf.weight
                    if matches(prefix(self._schema, leaf), self._searcher, address)
                    else None
                )
            key = leaf.field, leaf.terms, leaf.slop
            if key not in seen:
                seen[key] = explained(self._query(key, leaf), self._searcher, address)
            leaf_score = seen[key]
            if leaf_score is None:
                return None
            average = average_length(self._everywhere, leaf.field) or leaf_score.average
            return (
                leaf.weight
                * (K1 + 1)
                * self._rare(leaf)
                * saturation(leaf_score.frequency, leaf_score.length, average)
            )

        return value

    def _query(self, key: _Key, leaf: Leaf) -> tantivy.Query:
        query = self._queries.get(key)
        if query is None:
            query = self._queries[key] = sequence(self._schema, leaf)
        return query

    def _rare(self, leaf: Leaf) -> float:
        key = leaf.field, leaf.terms
        rarity = self._rarity.get(key)
        if rarity is None:
            counted = self._everywhere.counted
            holding = (self._everywhere.holding(leaf.field, term) for term in leaf.terms)
            rarity = self._rarity[key] = sum(
                inverse_frequency(counted, min(counted, count)) for count in holding
            )
        return rarity
