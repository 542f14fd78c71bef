"""The plan of a synthetic web: a number for each feature, and a seed for everything else."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from tests.servers.synthetic.lexicon import LANGUAGES


class Trap(StrEnum):
    """Kinds of endless URL spaces."""

    CALENDAR = "calendar"  # every month links to the next
    SESSION_PATH = "session_path"  # every link has a new session id as a path segment
    SESSION_QUERY = "session_query"  # every link has a new session id as a parameter
    FACETS = "facets"  # every combination of filters is a page
    LOOP = "loop"  # relative links that repeat path segments
    SOFT_404 = "soft_404"  # unknown paths give 200, with links to more of them
    PERMUTATIONS = "permutations"  # the same parameters in every order
    NEAR_IDENTICAL = "near_identical"  # pages that differ only in a number


TRAPS = tuple(Trap)


@dataclass(slots=True, frozen=True)
class WebPlan:
    """The features of a web. Shares are from 0 to 1, and exact up to rounding for hosts.

    Host 0 is the largest. It has none of the features below (it responds, has no failures and a
    plain robots.txt), and its links lead to all other hosts.
    """

    seed: int = 1
    hosts: int = 60
    # total without translations and without pages that appear later; at least one per host
    pages: int = 2_000
    epoch_ms: int = 1_700_000_000_000  # start of the web's time; pages do not change before it
    size_exponent: float = 1.0  # host number i has about (i + 1)**-exponent of the pages
    languages: tuple[str, ...] = LANGUAGES

    # Shares of hosts
    subdomains: float = 0.3  # hosts that share a registrable domain with others
    refused: float = 0.02  # connections are refused
    unresolved: float = 0.02  # the name does not resolve
    robots_missing: float = 0.12  # 404
    robots_failing: float = 0.04  # 503 in the first and in some other windows
    robots_redirecting: float = 0.04  # redirects to another path of the host
    robots_foreign: float = 0.02  # redirects to another host
    robots_closed: float = 0.03  # Disallow: /
    robots_named: float = 0.15  # has a group for Lycosa and one for all others
    crawl_delay: float = 0.12
    sitemaps: float = 0.5  # evenly distributed over the kinds of sitemaps
    lastmod_lying: float = 0.15  # lastmod is always the current time
    lastmod_absent: float = 0.2
    feeds: float = 0.4  # half RSS, half Atom
    validators_absent: float = 0.25
    validators_restless: float = 0.06  # ETag and Last-Modified change with every request
    validators_frozen: float = 0.03  # ETag and Last-Modified never change, unlike the page
    noisy: float = 0.12  # bytes change with every request, the text does not
    compressed: float = 0.2
    chunked: float = 0.15
    legacy: float = 0.12  # an encoding other than UTF-8
    native_slugs: float = 0.3  # percent-encoded words in paths
    failing: float = 0.05  # 5xx in some windows, as all failures below
    limiting: float = 0.05  # 429 with Retry-After
    resetting: float = 0.03  # connections are reset
    closing: float = 0.02  # connections are closed before the first byte
    cutting: float = 0.02  # bodies are incomplete
    hanging: float = 0.02  # no response
    stalling: float = 0.02  # the rest of the body is never sent
    slow: float = 0.06  # latencies of seconds
    dripping: float = 0.03  # low transfer rates
    rushing: float = 0.1  # higher latency in some hours
    traps: float = 0.25  # evenly distributed over `trap_kinds`
    trap_kinds: tuple[Trap, ...] = TRAPS
    news: float = 0.15  # hosts on which pages appear, if `births_per_day` is greater than 0

    # Shares of pages
    static: float = 0.4  # never change
    orphans: float = 0.0  # only the sitemap of the host lists them
    redirects: float = 0.05
    duplicates: float = 0.04  # half of them have a canonical link
    near_duplicates: float = 0.03
    gone: float = 0.03
    forbidden: float = 0.03
    broken: float = 0.01  # always 500
    assets: float = 0.05  # images, archives, …, without text

    # Topics (`tests.servers.synthetic.topics`); with 0, pages have no topic
    topics: int = 0
    topic_links: float = 0.0  # share of links that are drawn within the topic
    topic_named: float = 0.0  # share of links whose text is the title of the target

    # Rates and times
    # median of the pages that change; front pages and hubs are above it
    changes_per_day: float = 0.05
    change_spread: float = 1.5  # standard deviation of the logarithm
    births_per_day: float = 0.0  # new pages per day on each news host
    deaths_per_day: float = 0.0  # rate at which a page without children is permanently removed
    window_ms: int = 600_000  # length of the windows in which a host fails or not
    fault_window_ms: int = 20_000  # the same for network failures, per page
    failing_share: float = 0.3  # share of windows with failures
    latency_ms: float = 25.0  # median over hosts

    @classmethod
    def calm(cls, **changes: Any) -> WebPlan:
        """Return a plan of plain pages, without all features that are not given."""
        shares = {
            field.name: 0.0
            for field in fields(cls)
            if field.type == "float" and field.name not in _NOT_SHARES
        }
        return cls(**{**shares, **changes})


_NOT_SHARES = {"size_exponent", "changes_per_day", "change_spread", "failing_share", "latency_ms"}
