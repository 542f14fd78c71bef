"""Average lengths of an index's fields. tantivy reports them only in the explanation of a score."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import tantivy
from tantivy import Query

from lycosa.index.schema import ROLES, URL_WORDS


@dataclass(slots=True, frozen=True)
class Lengths:
    """`counted`: documents that tantivy counts, including replaced ones until their segment is
    merged. `tokens`: field -> its tokens in all documents; fields without terms are missing.
    """

    counted: int
    tokens: Mapping[str, float]


def measure(schema: tantivy.Schema, searcher: tantivy.Searcher) -> Lengths:
    """Read the average length of each field from the explanation of one term's score."""
    counted = 0
    tokens: dict[str, float] = {}
    for name in (*ROLES, URL_WORDS):
        for term, _ in searcher.terms_with_prefix(name, "", limit=1):
            query = Query.term_query(schema, name, term, "freq")
            for _, address in searcher.search(query, 1, count=False).hits:
                explanation = explained(query, searcher, address)
                if explanation is not None:
                    counted = explanation.counted
                    tokens[name] = explanation.average * explanation.counted
    return Lengths(counted, tokens)


@dataclass(slots=True, frozen=True)
class LeafExplanation:
    """What tantivy says of one term or phrase in one document. `counted` is 0 for a phrase."""

    frequency: float
    length: float
    average: float
    counted: int = 0


def explained(
    query: tantivy.Query, searcher: tantivy.Searcher, address: tantivy.DocAddress
) -> LeafExplanation | None:
    """The parts of a leaf's score; None: the document does not hold it."""
    try:
        explanation = json.loads(query.explain(searcher, address).to_json())
    except ValueError:  # tantivy's answer for a document that does not match
        return None
    values: dict[str, float] = {}
    _gather(explanation, values)
    return LeafExplanation(values["freq"], values["dl"], values["avgdl"], int(values.get("N", 0)))


def matches(query: tantivy.Query, searcher: tantivy.Searcher, address: tantivy.DocAddress) -> bool:
    """Whether a document matches."""
    try:
        query.explain(searcher, address)
    except ValueError:
        return False
    return True


def _gather(node: Mapping[str, Any], values: dict[str, float]) -> None:
    """The values of an explanation by the symbol that its description begins with: `dl, length of
    field`.
    """
    symbol, comma, _ = node["description"].partition(",")
    if comma:
        values[symbol] = node["value"]
    for child in node.get("details", ()):
        _gather(child, values)
