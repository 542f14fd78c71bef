"""What a synthetic web is to be like: one number for each feature. All else follows from the
seed.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from tests.servers.synthetic.lexicon import LANGUAGES


class Trap(StrEnum):
    """Ways to be endless."""

    CALENDAR = "calendar"  # every month links to the next
    SESSION_PATH = "session_path"  # every link carries a new session id as a path segment
    SESSION_QUERY = "session_query"  # … as a parameter
    FACETS = "facets"  # every combination of filters is a page
    LOOP = "loop"  # relative links that repeat path segments
    # whatever is asked for is answered with 200, and with links to more of it
    SOFT_404 = "soft_404"
    PERMUTATIONS = "permutations"  # the same parameters in every order
    NEAR_IDENTICAL = "near_identical"  # numbered pages that differ in their number


TRAPS = tuple(Trap)


@dataclass(slots=True, frozen=True)
class WebPlan:
    """The features of a web. Shares run from 0 to 1; a share of hosts is met exactly, as far as
    whole hosts allow.

    Host 0 is the largest, has no feature of the shares below (it answers, is whole, has a plain
    robots.txt), and leads to all others.
    """

    seed: int = 1
    hosts: int = 60
    # real ones in all, translations and what is born later not counted; each host has one at least
    pages: int = 2_000
    epoch_ms: int = 1_700_000_000_000  # when its time begins: nothing changes before
    size_exponent: float = 1.0  # host number i has about (i + 1)**-exponent of the pages
    languages: tuple[str, ...] = LANGUAGES

    # Shares of hosts
    subdomains: float = 0.3  # hosts that share a registrable domain with others
    refused: float = 0.02  # nobody listens
    unresolved: float = 0.02  # the name does not resolve
    robots_missing: float = 0.12  # 404
    robots_failing: float = 0.04  # 503 at times, at first for certain
    robots_redirecting: float = 0.04  # to another path of the host
    robots_foreign: float = 0.02  # to another host
    robots_closed: float = 0.03  # Disallow: /
    robots_named: float = 0.15  # a group of our own beside the general one
    crawl_delay: float = 0.12
    sitemaps: float = 0.5  # spread evenly over the kinds of sitemaps
    lastmod_lying: float = 0.15  # their sitemaps call every page new
    lastmod_absent: float = 0.2
    feeds: float = 0.4  # RSS and Atom by turns
    validators_absent: float = 0.25
    validators_restless: float = 0.06  # ETag and Last-Modified change at every request
    validators_frozen: float = 0.03  # they never change, whatever the page does
    noisy: float = 0.12  # bytes that change at every request, the text does not
    compressed: float = 0.2
    chunked: float = 0.15
    legacy: float = 0.12  # an encoding of the time before UTF-8
    native_slugs: float = 0.3  # percent-encoded words in paths
    failing: float = 0.05  # 5xx at times
    limiting: float = 0.05  # 429 with Retry-After at times
    resetting: float = 0.03  # connections reset at times
    closing: float = 0.02  # connections closed before the first byte at times
    cutting: float = 0.02  # bodies that break off at times
    hanging: float = 0.02  # no answer at times
    stalling: float = 0.02  # the body stops coming at times
    slow: float = 0.06  # seconds of latency
    dripping: float = 0.03  # slow writers
    rushing: float = 0.1  # latency rises in some hours
    traps: float = 0.25  # spread evenly over `trap_kinds`
    trap_kinds: tuple[Trap, ...] = TRAPS
    news: float = 0.15  # hosts on which pages are born, if `births_per_day` is above 0

    # Shares of pages
    static: float = 0.4  # never change
    orphans: float = 0.0  # no page links to them, only the sitemap (of hosts that have one) does
    redirects: float = 0.05
    duplicates: float = 0.04  # half of them name their canonical
    near_duplicates: float = 0.03
    gone: float = 0.03
    forbidden: float = 0.03
    broken: float = 0.01  # always 500
    assets: float = 0.05  # images, archives, …: nothing to index

    # Topics (`tests.servers.synthetic.topics`); without any, pages are about nothing in particular
    topics: int = 0
    # share of links that lead to pages of the same topic, beside those that do by chance
    topic_links: float = 0.0
    topic_named: float = 0.0  # share of links whose text is the title of the page that they lead to

    # Rates and times
    # median of the pages that change; front pages and hubs are above it
    changes_per_day: float = 0.05
    change_spread: float = 1.5  # standard deviation of the logarithm
    births_per_day: float = 0.0  # new pages a day on each news host
    # of a page without children: how likely it is removed for good, with whatever pages still link
    # to it
    deaths_per_day: float = 0.0
    window_ms: int = 600_000  # failures of hosts come and go in windows of this length
    fault_window_ms: int = 20_000  # resets and their kin, per page
    failing_share: float = 0.3  # of the windows
    latency_ms: float = 25.0  # median over hosts

    @classmethod
    def calm(cls, **changes: Any) -> WebPlan:
        """Nothing but plain pages: every share 0 but those that are given."""
        calm = {
            field.name: 0.0
            for field in fields(cls)
            if field.type == "float" and field.name not in _NO_SHARES
        }
        return cls(**{**calm, **changes})


_NO_SHARES = {"size_exponent", "changes_per_day", "change_spread", "failing_share", "latency_ms"}
