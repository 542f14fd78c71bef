"""A small full-text index of the links that a hunt has seen: which of them speak of some words?

In memory, and only of links that are not followed yet. (Pinkerton's WebCrawler, 1994, chose what to
follow next from such an index.)
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping

_MAX_LOOKED_AT = 2_000  # links of one word that are looked at; a word of more says little


class AnchorIndex:
    """Terms -> links. Not for several threads."""

    def __init__(self) -> None:
        self._links: dict[str, frozenset[str]] = {}
        self._holding: dict[str, dict[str, None]] = {}  # in the order in which they came

    def __len__(self) -> int:
        return len(self._links)

    def terms(self, url: str) -> frozenset[str]:
        """What is known of a link: the terms of its anchors and its URL."""
        return self._links.get(url, frozenset())

    def put(self, url: str, terms: Iterable[str]) -> None:
        """Note what links to a URL say, on top of what others said."""
        before = self._links.get(url, frozenset())
        self._links[url] = now = before.union(terms)
        for term in now - before:
            self._holding.setdefault(term, {})[url] = None

    def remove(self, url: str) -> None:
        """The link was followed, or is given up."""
        for term in self._links.pop(url, ()):
            holding = self._holding[term]
            del holding[url]
            if not holding:
                del self._holding[term]

    def search(self, weights: Mapping[str, float], count: int) -> list[str]:
        """The links that speak most of these terms, each weighed as given and by its rarity; the
        best first.
        """
        scores: dict[str, float] = {}
        for term, weight in weights.items():
            holding = self._holding.get(term)
            if not holding or weight <= 0:
                continue
            value = weight * math.log(1 + len(self._links) / len(holding))
            for _, url in zip(range(_MAX_LOOKED_AT), holding, strict=False):
                scores[url] = scores.get(url, 0.0) + value
        return heapq.nlargest(count, scores, key=scores.__getitem__)
