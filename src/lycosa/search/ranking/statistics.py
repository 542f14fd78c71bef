"""Term statistics of BM25, with which several indexes score as one.

BM25 depends on the number of documents, the document frequency of a term, and the average length of
a field. In Python, tantivy uses those of the searched index only. Each index therefore multiplies
the score of a term by a correction to the statistics of all indexes.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol

import tantivy
from tantivy import Query

from lycosa.core.dataclass import dataclass
from lycosa.index.schema import ROLES, URL_WORDS, located

K1, B = 1.2, 0.75  # tantivy's parameters of BM25
_USUAL_FREQUENCY = 2.0

Term = tuple[str, str]
"""A field's name and a term in it."""
WRITTEN = "written"
"""Role of the unstemmed words of pages (`index.suggest`), which are in no field."""


class Statistics(Protocol):
    """The statistics of one index, or of several."""

    @property
    def documents(self) -> int:
        """Number of documents."""
        ...

    @property
    def counted(self) -> int:
        """Documents that BM25 counts, including replaced ones until their segment is merged."""
        ...

    def holding(self, name: str, term: str) -> int:
        """Return how many documents have a term in a field."""
        ...

    def length(self, name: str) -> float:
        """Return the tokens of a field in all documents; 0: unknown."""
        ...

    def usual(self, name: str) -> float:
        """Return the average tokens of a field in documents that have it; 0: unknown."""
        ...


@dataclass(slots=True, frozen=True)
class TermStatistics:
    """The statistics of an index for one query."""

    documents: int = 0
    counted: int = 0
    frequencies: Mapping[Term, int] = field(default_factory=dict)
    lengths: Mapping[str, float] = field(default_factory=dict)
    having: Mapping[str, int] = field(default_factory=dict)  # field -> documents that may have it

    def holding(self, name: str, term: str) -> int:
        return self.frequencies.get((name, term), 0)

    def length(self, name: str) -> float:
        return self.lengths.get(name, 0.0)

    def usual(self, name: str) -> float:
        return self.length(name) / having if (having := self.having.get(name, 0)) else 0.0


def together(parts: Iterable[TermStatistics]) -> TermStatistics:
    """Return the statistics of an index with the documents of all parts."""
    documents = counted = 0
    frequencies, having = Counter[Term](), Counter[str]()
    lengths: dict[str, float] = {}
    for part in parts:
        documents += part.documents
        counted += part.counted
        frequencies.update(part.frequencies)
        having.update(part.having)
        for name, tokens in part.lengths.items():
            lengths[name] = lengths.get(name, 0.0) + tokens
    return TermStatistics(documents, counted, dict(frequencies), lengths, dict(having))


def inverse_frequency(documents: int, holding: int) -> float:
    """Return BM25's weight of a term that `holding` of the `documents` contain, as tantivy does."""
    return math.log(1 + (documents - holding + 0.5) / (holding + 0.5))


def saturation(frequency: float, length: float, average: float) -> float:
    """Return BM25's factor for the frequency of a term in a field of `length` tokens."""
    return frequency / (frequency + K1 * (1 - B + B * length / average))


def correction(name: str, terms: Sequence[str], here: Statistics, everywhere: Statistics) -> float:
    """Return the factor that corrects the score of a term or phrase to the statistics of all.

    The document frequency is corrected exactly; the average length as for a page of average length
    with two occurrences.
    """
    holding = [here.holding(name, term) for term in terms]
    if not all(holding):
        return 1.0  # no match here
    mine = sum(inverse_frequency(here.counted, count) for count in holding)
    if mine <= 0:
        return 1.0
    factor = (
        sum(inverse_frequency(everywhere.counted, everywhere.holding(name, term)) for term in terms)
        / mine
    )
    average, all_average = average_length(here, name), average_length(everywhere, name)
    if average > 0 and all_average > 0:
        usual = everywhere.usual(located(name)[0]) or all_average
        factor *= saturation(_USUAL_FREQUENCY, usual, all_average) / saturation(
            _USUAL_FREQUENCY, usual, average
        )
    return factor


def average_length(statistics: Statistics, name: str) -> float:
    """Return tokens of a field per document, as tantivy counts; 0: unknown."""
    return statistics.length(located(name)[0]) / statistics.counted if statistics.counted else 0.0


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
    """tantivy's explanation of a term or phrase in a document. `counted` is 0 for a phrase."""

    frequency: float
    length: float
    average: float
    counted: int = 0


def explained(
    query: tantivy.Query, searcher: tantivy.Searcher, address: tantivy.DocAddress
) -> LeafExplanation | None:
    """Return the parts of a leaf's score; None: the document does not match."""
    try:
        explanation = json.loads(query.explain(searcher, address).to_json())
    except ValueError:  # tantivy raises it if the document does not match
        return None
    values: dict[str, float] = {}
    _gather(explanation, values)
    return LeafExplanation(values["freq"], values["dl"], values["avgdl"], int(values.get("N", 0)))


def matches(query: tantivy.Query, searcher: tantivy.Searcher, address: tantivy.DocAddress) -> bool:
    """Return whether a document matches."""
    try:
        query.explain(searcher, address)
    except ValueError:
        return False
    return True


def _gather(node: Mapping[str, Any], values: dict[str, float]) -> None:
    """Collect values by the symbol before the comma of their description: `dl, length of field`."""
    symbol, comma, _ = node["description"].partition(",")
    if comma:
        values[symbol] = node["value"]
    for child in node.get("details", ()):
        _gather(child, values)
