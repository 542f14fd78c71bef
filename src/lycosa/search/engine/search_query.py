"""A query as every index receives it, and the stages in which it is searched."""

from __future__ import annotations

import functools

from lycosa.core.dataclass import dataclass
from lycosa.search.query.filters import Filters
from lycosa.search.query.query import ParsedQuery
from lycosa.search.query.reading import Reading, read
from lycosa.search.ranking.feedback import Expansion
from lycosa.search.ranking.sentence import is_sentence
from lycosa.search.ranking.similar import Likeness
from lycosa.text.analyze import Analysis

REQUIRE_ALL = -1.0
SENTENCE = -2.0
RELAX_SHARE = 0.6
ANY = 0.0
"""Stages: pages with all words, the pages of a sentence, pages with a share of the words but not
all, with any.
"""


@dataclass(slots=True, frozen=True)
class SearchQuery:
    """A query with its options, as every shard receives it.

    `languages`: those of its analyzers. `now_ms`: the time, rounded so that it can be cached.
    """

    parsed: ParsedQuery
    filters: Filters
    languages: tuple[str, ...]
    by_date: bool = False  # newest first
    per_host: int = 0
    folded: bool = True
    explain: bool = False
    now_ms: int = 0
    like: Likeness | None = None  # only pages similar to this one
    expansion: Expansion | None = None  # terms that feedback adds to a sentence
    snippets: bool = True  # of the hits, and marked titles


_readings = functools.lru_cache(maxsize=256)(read)


def readings_of(query: SearchQuery, analysis: Analysis = Analysis()) -> list[Reading]:
    """Return the readings of a query. Cached, because every step of a search needs them."""
    return _readings(query.parsed, query.languages, analysis)


def holds_words(query: SearchQuery) -> bool:
    """Return whether there is anything to search for: a word, or filters alone."""
    parsed, readings = query.parsed, readings_of(query)
    if query.like is not None or any(
        reading.parts or (reading.excluded and not parsed.required) for reading in readings
    ):
        return True
    return not parsed.required and bool(parsed.restrictions)


def parts_of(query: SearchQuery) -> int:
    """Return the number of words and groups that the query requires."""
    return max((len(reading.parts) for reading in readings_of(query)), default=0)


def stages_of(query: SearchQuery) -> tuple[float, ...]:
    """Return the stages, in order. A sentence has one: few pages contain most of its words."""
    parts = parts_of(query)
    if query.like is None and is_sentence(query.parsed, parts, readings_of(query)):
        return (SENTENCE,)
    if parts < 2 or query.like is not None:
        return (REQUIRE_ALL,)
    return (REQUIRE_ALL, RELAX_SHARE, ANY)
