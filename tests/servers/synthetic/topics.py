"""What the pages of a web are about, if its plan has topics: pages of a topic link to each other
more often, by a share that is known.

A page is about the topic of the page that it hangs under with the chance `topic_links`, else about
any; of its links across the web the same share leads to pages of its own topic. So of all links
that share, and 1/topics of the rest, stay within a topic. A page says the words of its topic in its
title and often in its text; the words are everyday words, so others say them by chance.
"""

from __future__ import annotations

import random
from functools import lru_cache

from tests.servers.synthetic.draw import draw, unit
from tests.servers.synthetic.hosts import Host
from tests.servers.synthetic.layout import Layout
from tests.servers.synthetic.lexicon import LEXICONS

WORDS = 3
"""Words that name a topic."""

_TRIES = 120  # pages looked at for one of the same topic
_OWN_HOST = 0.5  # of links within a topic: to a page of the same host


class Topics:
    """The topics of a web's pages; pure functions of the plan."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._plan = layout.plan
        self.of = lru_cache(maxsize=65_536)(self._of)

    def words(self, topic: int, language: str = "en") -> list[str]:
        """The words that name a topic: what to ask for who looks for it."""
        return random.Random(draw(self._plan.seed, "topic words", topic, language)).sample(
            LEXICONS[language].content, WORDS
        )

    def partner(self, host: Host, number: int, each: int) -> tuple[Host, int] | None:
        """Where a link across the web leads that stays within the topic; None: this one does not,
        or no such page was met.
        """
        seed = self._plan.seed
        if unit(seed, "stays", host.number, number, each) >= self._plan.topic_links:
            return None
        requested = self.of(host, number)
        for attempt in range(_TRIES):
            other = host
            if unit(seed, "own host", host.number, number, each, attempt) >= _OWN_HOST:
                other = self._layout.hosts.get(
                    int(
                        self._plan.hosts
                        * unit(seed, "partner host", host.number, number, each, attempt) ** 2
                    )
                )
            page = int(other.size * unit(seed, "partner", host.number, number, each, attempt))
            if (
                self.of(other, page) == requested
                and (other, page) != (host, number)
                and self._layout.is_open(other)
            ):
                return other, page
        return None

    def _of(self, host: Host, number: int) -> int:
        """The topic of a page, from 0."""
        seed = self._plan.seed
        if number and unit(seed, "inherits", host.number, number) < self._plan.topic_links:
            return self.of(host, (number - 1) // host.branching)
        return draw(seed, "topic", host.number, number) % self._plan.topics
