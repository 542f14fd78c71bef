"""The topics of pages: pages of a topic link to each other with a known probability.

With the probability `topic_links`, a page has the topic of its parent, and a link across the web
leads to a page of the same topic. Otherwise the topic is random. So the share of links within a
topic is `topic_links`, and 1/topics of the rest. The words of a topic are in the titles of its
pages and frequent in their text. Other pages contain them by chance.
"""

from __future__ import annotations

import random
from functools import lru_cache

from tests.servers.synthetic.draw import draw, uniform
from tests.servers.synthetic.hosts import Host
from tests.servers.synthetic.layout import Layout
from tests.servers.synthetic.lexicon import LEXICONS

WORDS = 3
"""Number of words of a topic."""

_MAX_ATTEMPTS = 120  # number of pages to examine for one of the same topic
_OWN_HOST = 0.5  # share of links within a topic that lead to the same host


class Topics:
    """The topics of pages, as pure functions of the plan."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._plan = layout.plan
        self.of = lru_cache(maxsize=65_536)(self._of)

    def words(self, topic: int, language: str = "en") -> list[str]:
        """Return the words of a topic, which are a query for it."""
        return random.Random(draw(self._plan.seed, "topic words", topic, language)).sample(
            LEXICONS[language].content, WORDS
        )

    def partner(self, host: Host, number: int, each: int) -> tuple[Host, int] | None:
        """Return the target of link `each` of a page if it stays within the topic, or None."""
        seed = self._plan.seed
        if uniform(seed, "stays", host.number, number, each) >= self._plan.topic_links:
            return None
        topic = self.of(host, number)
        for attempt in range(_MAX_ATTEMPTS):
            other = host
            if uniform(seed, "own host", host.number, number, each, attempt) >= _OWN_HOST:
                chance = uniform(seed, "partner host", host.number, number, each, attempt)
                other = self._layout.hosts.get(int(self._plan.hosts * chance**2))
            page = int(other.size * uniform(seed, "partner", host.number, number, each, attempt))
            if (
                self.of(other, page) == topic
                and (other, page) != (host, number)
                and self._layout.is_open(other)
            ):
                return other, page
        return None

    def _of(self, host: Host, number: int) -> int:
        """Return the topic of a page, from 0."""
        seed = self._plan.seed
        if number and uniform(seed, "inherits", host.number, number) < self._plan.topic_links:
            return self.of(host, (number - 1) // host.branching)
        return draw(seed, "topic", host.number, number) % self._plan.topics
