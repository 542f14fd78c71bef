"""The replicas of our own index's shards as one of several indexes that are searched together: by
whole answers, joined by their ranks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lycosa.search.engine.open_index import Address, Found, Question
from lycosa.search.federation.shards import Federation
from lycosa.search.federation.side import Described, Differs, Step
from lycosa.search.presentation.results import Hit, SearchRequest, SearchResults
from lycosa.search.ranking.ordering import Ranked
from lycosa.search.ranking.statistics import ToldStatistics


class ShardsSide:
    """A `Side` that gives whole answers alone: a federation is asked by its own protocol, within
    its own time.
    """

    def __init__(self, name: str, federation: Federation) -> None:
        self._name = name
        self._federation = federation

    @property
    def name(self) -> str:
        return self._name

    def describe(self, timeout_s: float) -> Described:
        """Raises Differs."""
        raise self._differs()

    def statistics(
        self, text: str, question: Question, timeout_s: float
    ) -> tuple[Described, ToldStatistics]:
        raise self._differs()

    def find(self, step: Step, limit: int, timeout_s: float) -> Found:
        raise self._differs()

    def weigh(self, step: Step, addresses: Sequence[Address], timeout_s: float) -> list[float]:
        raise self._differs()

    def facets(
        self, step: Step, names: tuple[str, ...], timeout_s: float
    ) -> Mapping[str, Mapping[str, int]]:
        raise self._differs()

    def hits(self, step: Step, found: Sequence[Ranked[Address]], timeout_s: float) -> list[Hit]:
        raise self._differs()

    def urls(self, generation: int, addresses: Sequence[Address], timeout_s: float) -> list[int]:
        raise self._differs()

    def search(self, request: SearchRequest, hops: int, timeout_s: float) -> SearchResults:
        return self._federation.search(request)

    def _differs(self) -> Differs:
        return Differs(
            f"{self._name or 'this index'} stores its shards on other machines "
            "and can only return complete results"
        )
