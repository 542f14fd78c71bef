"""The hosts of a web: names, sizes and features, computed from the plan and the host's number."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

import numpy as np

from tests.servers.synthetic.draw import draw, lognormal, power_law, uniform
from tests.servers.synthetic.lexicon import LEXICONS, words
from tests.servers.synthetic.plan import Trap, WebPlan

SITEMAP_KINDS = ("urlset", "index", "gzip", "text", "news", "hreflang")
STYLES = ("flat", "sections", "folders", "dated", "query")
"""Styles of page paths (`Layout.path`)."""

_WORDS = words(
    """amber birch cedar delta ember fjord grove heron iris jade kite lotus maple nova otter pearl quartz raven
    spruce tulip umber violet willow yarrow zephyr anchor beacon canyon dune estuary"""
)
_HOST = re.compile(r"[a-z]+-(\d{1,12})\.")
_HOSTS_PER_DOMAIN = 40  # mean, of the domains that have several hosts


class Access(StrEnum):
    """Whether a host can be reached."""

    OPEN = ""
    REFUSED = "refused"
    UNRESOLVED = "unresolved"


@dataclass(slots=True, frozen=True, eq=False)  # hashed by identity, because it is a key of caches
class Host:
    """The properties of a host that do not change with time; see `WebPlan`."""

    number: int
    name: str
    domain: str  # registrable
    size: int  # pages at the epoch, with the front page
    branching: int  # children of a page
    languages: tuple[str, ...]  # the main one, then that of the translations if there are any
    style: str  # one of STYLES
    access: Access
    robots: str  # plain, missing, failing, redirecting, foreign (to another host), closed, named
    crawl_delay_ms: int  # 0: none
    sitemap: str  # one of SITEMAP_KINDS, or ""
    lastmod: str  # honest, lying (always now), absent
    feed: str  # rss, atom, or ""
    validators: str  # right, absent, restless (always new), frozen (never change)
    noisy: bool
    compressed: bool
    chunked: bool
    charset: str
    native_slugs: bool
    failure: str  # failing, limiting, resetting, closing, cutting, hanging, stalling, or ""
    latency_ms: float
    bytes_per_ms: float
    rushing: bool
    traps: tuple[Trap, ...]
    births_per_day: float
    changes_factor: float

    @property
    def language(self) -> str:
        return self.languages[0]


class Hosts:
    """All hosts of a plan, computed on demand."""

    def __init__(self, plan: WebPlan) -> None:
        self._plan = plan
        self._unit_size = _unit_size(plan)
        self._shared_domains = max(1, round(plan.hosts * plan.subdomains / _HOSTS_PER_DOMAIN))
        self._steps: dict[str, int] = {}
        self.get = lru_cache(maxsize=8_192)(self._make)
        self.by_name = lru_cache(maxsize=16_384)(self._find)

    def size(self, number: int) -> int:
        """Return the number of pages at the epoch. Host 0 has the remainder from rounding."""
        if number == 0:
            return self._unit_size[1]
        return max(1, int(self._unit_size[0] * (number + 1) ** -self._plan.size_exponent))

    def access(self, number: int) -> Access:
        """Return whether a host can be reached, without computing its other properties."""
        return Access(
            self._one_of(
                "access",
                number,
                (("refused", self._plan.refused), ("unresolved", self._plan.unresolved)),
            )
        )

    def _find(self, name: str) -> Host | None:
        match = _HOST.match(name)
        if match is None or int(match[1]) >= self._plan.hosts:
            return None
        host = self.get(int(match[1]))
        return host if host.name == name else None

    def _rank(self, feature: str, number: int) -> float:
        """Return the rank of a host for a feature, in (0, 1).

        Ranks are a permutation, so that shares of hosts are exact. Host 0 is last.
        """
        count = self._plan.hosts
        step = self._steps.get(feature)
        if step is None:
            step = self._steps[feature] = _coprime(draw(self._plan.seed, feature), count)
        return ((number * step + count - 1) % count + 0.5) / count

    def _has(self, feature: str, number: int, share: float) -> bool:
        return self._rank(feature, number) < share

    def _one_of(self, feature: str, number: int, shares: tuple[tuple[str, float], ...]) -> str:
        rank = self._rank(feature, number)
        for name, share in shares:
            if rank < share:
                return name
            rank -= share
        return ""

    def _even(self, feature: str, number: int, share: float, kinds: int) -> int | None:
        """Return which of `kinds` evenly distributed kinds a host has; None if it has none."""
        rank = self._rank(feature, number)
        return int(rank / share * kinds) if rank < share else None

    def _make(self, number: int) -> Host:
        plan = self._plan
        seed = plan.seed

        def chance(feature: str) -> float:
            return uniform(seed, "host", number, feature)

        def has(feature: str, share: float) -> bool:
            return self._has(feature, number, share)

        name, domain = self._name(number)
        trap = self._even("traps", number, plan.traps, len(plan.trap_kinds))
        sitemap = self._even("sitemaps", number, plan.sitemaps, len(SITEMAP_KINDS))
        sitemap_kind = "" if sitemap is None else SITEMAP_KINDS[sitemap]
        feed = self._even("feeds", number, plan.feeds, 2)
        main = int(chance("language") * len(plan.languages))
        languages = tuple(dict.fromkeys((plan.languages[main], plan.languages[main - 1])))
        dripping = has("dripping", plan.dripping)
        return Host(
            number=number,
            name=name,
            domain=domain,
            size=self.size(number),
            branching=power_law(4, 40, 1.5, seed, "branching", number),
            languages=languages if sitemap_kind == "hreflang" else languages[:1],
            style=STYLES[draw(seed, "style", number) % len(STYLES)],
            access=self.access(number),
            robots=self._one_of(
                "robots",
                number,
                (
                    ("missing", plan.robots_missing),
                    ("failing", plan.robots_failing),
                    ("redirecting", plan.robots_redirecting),
                    ("foreign", plan.robots_foreign),
                    ("closed", plan.robots_closed),
                    ("named", plan.robots_named),
                ),
            )
            or "plain",
            crawl_delay_ms=int(500 * 2 ** (chance("crawl delay") * 5)) // 500 * 500
            if has("crawl delay", plan.crawl_delay)
            else 0,
            sitemap=sitemap_kind,
            lastmod=self._one_of(
                "lastmod", number, (("lying", plan.lastmod_lying), ("absent", plan.lastmod_absent))
            )
            or "honest",
            feed="" if feed is None else ("rss", "atom")[feed],
            validators=self._one_of(
                "validators",
                number,
                (
                    ("absent", plan.validators_absent),
                    ("restless", plan.validators_restless),
                    ("frozen", plan.validators_frozen),
                ),
            )
            or "right",
            noisy=has("noisy", plan.noisy),
            compressed=has("compressed", plan.compressed),
            chunked=has("chunked", plan.chunked),
            charset=(LEXICONS[languages[0]].legacy if has("legacy", plan.legacy) else "")
            or "utf-8",
            native_slugs=has("slugs", plan.native_slugs),
            failure=self._one_of(
                "failure",
                number,
                tuple(
                    (kind, getattr(plan, kind))
                    for kind in (
                        "failing",
                        "limiting",
                        "resetting",
                        "closing",
                        "cutting",
                        "hanging",
                        "stalling",
                    )
                ),
            ),
            latency_ms=1_500 + 2_500 * chance("slow")
            if has("slow", plan.slow)
            else min(
                lognormal(plan.latency_ms, 0.8, seed, "latency", number), 20 * plan.latency_ms
            ),
            bytes_per_ms=0.4 + 1.6 * chance("drip")
            if dripping
            else lognormal(1_000.0, 0.7, seed, "bandwidth", number),
            rushing=has("rushing", plan.rushing),
            traps=() if trap is None else (plan.trap_kinds[trap],),
            births_per_day=plan.births_per_day if has("news", plan.news) else 0.0,
            changes_factor=lognormal(1.0, plan.change_spread / 2, seed, "changes", number),
        )

    def _name(self, number: int) -> tuple[str, str]:
        """Return the name of a host and its registrable domain. A few domains have many hosts."""
        word = _WORDS[draw(self._plan.seed, "name", number) % len(_WORDS)]
        if not self._has("subdomains", number, self._plan.subdomains):
            name = f"{word}-{number}.test"
            return name, name
        index = int(self._shared_domains * uniform(self._plan.seed, "farm", number) ** 2)
        domain = f"{_WORDS[index % len(_WORDS)]}-farm{index}.test"
        return f"{word}-{number}.{domain}", domain


def _coprime(start: int, count: int) -> int:
    """Return a step, coprime to `count`, with which a cycle visits all numbers below it."""
    step = start % count
    while math.gcd(step, count) != 1:
        step = (step + 1) % count if count > 1 else 1
    return step


def _unit_size(plan: WebPlan) -> tuple[float, int]:
    """Return the factor of the power law of sizes, and the size of host 0.

    The factor is such that all sizes add up to the pages of the plan.
    """
    weights = np.arange(2, plan.hosts + 1, dtype=np.float64) ** -plan.size_exponent
    low, high = 0.0, float(plan.pages)
    for _ in range(60):
        middle = (low + high) / 2
        total = int(np.maximum(1, (middle * weights).astype(np.int64)).sum()) + max(1, int(middle))
        low, high = (middle, high) if total <= plan.pages else (low, middle)
    return low, max(1, plan.pages - int(np.maximum(1, (low * weights).astype(np.int64)).sum()))
