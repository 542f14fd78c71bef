"""Whole answers of several backends as one: by their ranks, by scores that compare, or by date."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from operator import itemgetter

from lycosa.index.schema import trusted_date
from lycosa.index.shards.shards import by_count
from lycosa.search.crosslingual.across import RANK_OFFSET
from lycosa.search.crosslingual.translated import TranslatedQuery
from lycosa.search.presentation.results import Hit, SearchResults
from lycosa.search.ranking.ordering import BLOCK


def by_rank(answers: Sequence[SearchResults]) -> list[Hit]:
    """Each page once; its score is 1 / (60 + rank) by the answer in which it stands first.

    Ranks are not added up, as reciprocal rank fusion does with several rankings of the same pages:
    these are answers about different ones, and who was crawled twice is no better for it.
    """
    ranked = sorted(
        (
            (rank, number, hit)
            for number, results in enumerate(answers)
            for rank, hit in enumerate(results.hits, 1)
        ),
        key=itemgetter(0, 1),
    )
    return _once([replace(hit, score=1 / (RANK_OFFSET + rank)) for rank, _, hit in ranked])


def by_score(answers: Sequence[SearchResults]) -> list[Hit]:
    """Each page once, the best first, for scores that compare."""
    return _once(
        sorted((hit for results in answers for hit in results.hits), key=lambda hit: -hit.score)
    )


def by_date(answers: Sequence[SearchResults]) -> list[Hit]:
    """Each page once, the newest first."""
    hits = (hit for results in answers for hit in results.hits)
    return _once(
        sorted(
            hits,
            key=lambda hit: -(trusted_date(hit.published_at, hit.fetched_at) or hit.fetched_at),
        )
    )


def hosts_apart(hits: Sequence[Hit], per_host: int) -> list[Hit]:
    """As `ordering.side_by_side`, in its blocks: of each host the first `per_host`, then the rest.
    0: hosts do not matter.
    """
    if not per_host:
        return list(hits)
    ordered: list[Hit] = []
    for start in range(0, len(hits), BLOCK):
        seen = Counter[str]()
        first, rest = list[Hit](), list[Hit]()
        for hit in hits[start : start + BLOCK]:
            seen[hit.host] += 1
            (first if seen[hit.host] <= per_host else rest).append(hit)
        ordered += first + rest
    return ordered


def facets_together(answers: Sequence[SearchResults]) -> dict[str, dict[str, int]]:
    """The counts of all answers, added up."""
    found: dict[str, Counter[str]] = {}
    for results in answers:
        for name, values in results.facets.items():
            found.setdefault(name, Counter()).update(values)
    return {name: by_count(values) for name, values in found.items()}


def translations_together(answers: Sequence[SearchResults]) -> tuple[TranslatedQuery, ...]:
    """Of each language the first answer's."""
    found: dict[str, TranslatedQuery] = {}
    for results in answers:
        for query in results.translations:
            found.setdefault(query.language, query)
    return tuple(found.values())


def _once(hits: Sequence[Hit]) -> list[Hit]:
    found: dict[str, Hit] = {}
    for hit in hits:
        found.setdefault(hit.url, hit)
    return list(found.values())
