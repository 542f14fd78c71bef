"""Two published ways to hunt: Fish search and its better child, Shark search.

Fish search: P. De Bra, R. Post, "Information Retrieval in the World-Wide Web: Making Client-based
Searching Feasible", Computer Networks and ISDN Systems 27, 1994. Shark search: M. Hersovici et al.,
"The Shark-Search Algorithm. An Application: Tailored Web Site Mapping", WWW7, 1998, whose figures 1
and 2 state both. A school of fish follows links; where a page is relevant there is food, and many
young with full strength; where none is, fewer, and after `depth` steps without food they die.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from lycosa.hunt.leads import Lead
from lycosa.hunt.relevance import Question

WIDTH, DEPTH = 10, 3
"""Links taken of a page (mean), and steps allowed without a relevant page."""

_RELEVANT_WIDTH = 1.5  # alpha: of a relevant page so many times more links are taken
_DECAY = 0.5  # delta: of a score that a page hands on
_ANCHOR = 0.8  # beta: the anchor's share in what is near a link; the rest is its context's
_INHERITED = 0.5  # gamma: the inherited share in a link's score

# The list's three zones: links of relevant pages, of others, and those beyond the width. Within the
# first whoever comes last is first ("to the front of the list"), within the others whoever comes
# first; a step is a page, a small step a link of it.
_FRONT, _BEHIND, _END = 2.0, 1.0, 0.0
_STEP, _SMALL_STEP = 1e-6, 1e-10

Scored = tuple[Lead, float]


@dataclass(slots=True)
class _Fish:
    """A URL that is listed, or was. `inherited`: what its own links inherit of, where it says
    nothing itself (shark).
    """

    depth: int
    inherited: float
    score: float


class FishSearch:
    """The scorer of Fish search. `started`, `links` and `fetched` give URLs with their new
    scores.
    """

    def __init__(self, question: Question, *, width: int = WIDTH, depth: int = DEPTH) -> None:
        self._question = question
        self._width = width
        self._depth = depth
        self._fish: dict[str, _Fish] = {}
        self._serial = 0

    def started(self, leads: Sequence[Lead], relevance: float, language: str) -> list[Scored]:
        """URLs to start from; `relevance`: of the page that they are linked from, 1 if they were
        named.
        """
        self._serial += 1
        found = []
        for place, lead in enumerate(leads):
            score = _FRONT + relevance * _STEP - place * _SMALL_STEP
            self._fish[lead.url] = _Fish(self._depth, relevance, score)
            found.append((lead, score))
        return found

    def links(
        self, url: str, relevance: float, relevant: bool, leads: Sequence[Lead], language: str
    ) -> list[Scored]:
        """The links of a page that was fetched and judged."""
        parent = self._fish.get(url) or _Fish(self._depth, 0.0, 0.0)
        depth = self._depth if relevant else parent.depth - 1
        if not relevant and parent.depth <= 0:
            return []
        self._serial += 1
        inherited = _DECAY * relevance if relevance > 0 else _DECAY * parent.inherited
        found = []
        # links to other sites first
        for place, lead in enumerate(sorted(leads, key=lambda lead: not lead.foreign)):
            score = self._score(place, lead, relevant, inherited, language)
            known = self._fish.get(lead.url)
            if known is None:
                known = self._fish[lead.url] = _Fish(depth, inherited, score)
            known.depth, known.inherited, known.score = (
                max(known.depth, depth),
                max(known.inherited, inherited),
                max(known.score, score),
            )
            found.append((lead, known.score))
        return found

    def fetched(self, url: str, relevance: float) -> list[Scored]:
        """What a fetch says of other URLs: nothing, the published scores are fixed."""
        return []

    def top(self, urls: Collection[str]) -> list[Scored]:
        """The first results are these now; that changes nothing either."""
        return []

    def dropped(self, url: str) -> None:
        """A URL left the list without being fetched."""
        self._fish.pop(url, None)

    def _score(
        self, place: int, lead: Lead, relevant: bool, inherited: float, language: str
    ) -> float:
        taken = self._width * (_RELEVANT_WIDTH if relevant else 1.0)
        if place >= taken:
            return _END - self._serial * _STEP - place * _SMALL_STEP
        if relevant:
            return _FRONT + self._serial * _STEP - place * _SMALL_STEP
        return _BEHIND - self._serial * _STEP - place * _SMALL_STEP


class SharkSearch(FishSearch):
    """The scorer of Shark search: every link has a score of its own."""

    def started(self, leads: Sequence[Lead], relevance: float, language: str) -> list[Scored]:
        super().started(leads, relevance, language)
        for lead in leads:
            self._fish[lead.url].score = relevance
        return [(lead, relevance) for lead in leads]

    def _score(
        self, place: int, lead: Lead, relevant: bool, inherited: float, language: str
    ) -> float:
        anchor = self._question.likeness(lead.anchor, language)
        context = 1.0 if anchor > 0 else self._question.likeness(lead.context, language)
        near = _ANCHOR * anchor + (1 - _ANCHOR) * context
        return _INHERITED * inherited + (1 - _INHERITED) * near
