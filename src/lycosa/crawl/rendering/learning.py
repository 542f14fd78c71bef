"""Learns for each host how often the rendered document has more content than the response.

Pure functions. Pages with almost no text before rendering (shells) are counted separately: a host
may have an application and articles. The first pages of both kinds are rendered; later ones all or
sometimes, by the gain so far. The gain of a page is its additional main text and links.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from cachetools import LRUCache

from lycosa.core.records import Page

FIRST_SAMPLES = 3
PAYS = 0.3
"""Share of samples with a gain from which all pages are rendered.

Recent samples have more weight.
"""

_WEIGHT = 0.3  # of the latest sample
_CHECK_PAYING = 10  # if all pages are rendered, every tenth is compared
_CHECK_PLAIN = 20  # if not, every twentieth is rendered and compared; fewer without gain
_MAX_SPARING = 16
_MAX_HOSTS = 10_000

SHELL_CHARACTERS = 200
"""Main text below which a page is a shell."""

TEXT_SHARE, TEXT_CHARACTERS = 1.2, 100
LINKS_SHARE, LINKS = 1.2, 3
"""Minimum of a gain: a multiple of the former number, plus a constant."""


class RenderPlan(Enum):
    """The treatment of a page."""

    PLAIN = "plain"
    RENDER = "render"
    COMPARE = "compare"  # render, and pass both to `observe`


@dataclass(slots=True)
class _Host:
    samples: int = 0
    share: float = 0.0
    since: int = 0  # pages since the last sample
    sparing: int = 1

    def count_page(self) -> None:
        self.since += 1

    def add_sample(self, gained: bool) -> None:
        self.samples += 1
        weight = max(_WEIGHT, 1 / self.samples)  # the first samples have equal weights
        self.share += weight * (gained - self.share)
        self.since = 0
        rarer = not gained and self.samples > FIRST_SAMPLES
        self.sparing = min(2 * self.sparing, _MAX_SPARING) if rarer else 1


def is_shell(plain: Page | None) -> bool:
    """Return whether a page is almost empty without rendering."""
    return plain is None or len(plain.main_text) < SHELL_CHARACTERS


def gains(plain: Page | None, rendered: Page) -> bool:
    """Return whether a rendered page has more content than the response."""
    if plain is None:
        return bool(rendered.main_text or rendered.links)
    if len(rendered.main_text) >= TEXT_SHARE * len(plain.main_text) + TEXT_CHARACTERS:
        return True
    before = {link.target for link in plain.links}
    new = {link.target for link in rendered.links} - before
    return len(new) >= (LINKS_SHARE - 1) * len(before) + LINKS


class RenderLearner:
    """Statistics of rendering by host, for the most recently used hosts."""

    def __init__(self) -> None:
        self._hosts: LRUCache[tuple[str, bool], _Host] = LRUCache(_MAX_HOSTS)

    def plan(self, host: str, *, shell: bool) -> RenderPlan:
        """Return how to treat the next page with scripts of a host."""
        stats = self._hosts.setdefault((host, shell), _Host())
        stats.count_page()
        if stats.samples < FIRST_SAMPLES:
            return RenderPlan.COMPARE
        every = _CHECK_PAYING if stats.share >= PAYS else _CHECK_PLAIN * stats.sparing
        if stats.since >= every:
            return RenderPlan.COMPARE
        return RenderPlan.RENDER if stats.share >= PAYS else RenderPlan.PLAIN

    def observe(self, host: str, *, shell: bool, gained: bool) -> None:
        """Record a comparison. A page that cannot be rendered has no gain."""
        stats = self._hosts.get((host, shell))
        if stats is None:
            return
        stats.add_sample(gained)

    def pays(self, host: str) -> bool:
        """Return whether all pages of a host are rendered, or all its shells."""
        host_stats = (self._hosts.get((host, shell)) for shell in (False, True))
        return any(
            stats is not None and stats.samples >= FIRST_SAMPLES and stats.share >= PAYS
            for stats in host_stats
        )
