"""The figures and examples of docs/explanation/webmasters.md agree with the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lycosa.config.settings import Collection, FetchSettings
from lycosa.core.version import VERSION
from lycosa.crawl.policy.robots_cache import MAX_HOPS, UNREACHABLE_TTL_MS
from lycosa.fetch.robots_txt import (
    MAX_CACHE_MS,
    MAX_CRAWL_DELAY_MS,
    MAX_ROBOTS_BYTES,
    MIN_CACHE_MS,
    Robots,
)
from lycosa.frontier.politeness.delay import (
    BACKOFF_CAP_MS,
    DOMAIN_CAP_MS,
    HOST_BACKOFF_MS,
    RETRY_AFTER_CAP_MS,
    DelayRules,
    failures_after,
    pause_ms,
    reasons,
)
from lycosa.frontier.politeness.latency import MAX_SLOW_DOWN, SLOW_FROM
from lycosa.http.fields import ACCEPT_ENCODING, default_fields

PAGE = re.sub(
    r"\s+",
    " ",
    (Path(__file__).parents[2] / "docs" / "explanation" / "webmasters.md").read_text(
        encoding="utf-8"
    ),
)
BLOCKS = re.findall(
    r"(?:^    .*\n)+",
    (Path(__file__).parents[2] / "docs" / "explanation" / "webmasters.md").read_text(
        encoding="utf-8"
    ),
    flags=re.M,
)

SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
SLOW = reasons(DelayRules.of(Collection()), duration_ms=3 * SECOND)
FETCH, COLLECTION = FetchSettings(), Collection()


@pytest.mark.parametrize(
    ("promise", "is_kept"),
    [
        ("| connections per host | 1 | 1 to 16 |", COLLECTION.connections_per_host == 1),
        ("- one second,", COLLECTION.delay == SECOND),
        ("ten times the duration of the last transfer", COLLECTION.courtesy_factor == 10),
        (
            "a response of 3 seconds leads to a pause of 30 seconds",
            pause_ms(SLOW) == 30 * SECOND,
        ),
        (
            "Each further failure doubles the pause, up to one day",
            (HOST_BACKOFF_MS, BACKOFF_CAP_MS) == (MINUTE, 24 * HOUR),
        ),
        ("takes at least twice its usual time", SLOW_FROM == 2),
        ("up to eight times", MAX_SLOW_DOWN == 8),
        ("no response arrives within 20 seconds", FETCH.first_byte_timeout == 20 * SECOND),
        ("each success halves the remaining back-off", failures_after(8, False) == 4),
        ("share two connections", COLLECTION.domain_connections == 2),
        ("pauses the others, for up to ten minutes", DOMAIN_CAP_MS == 10 * MINUTE),
        ("share four connections", COLLECTION.address_connections == 4),
        ("`Crawl-delay` is obeyed up to one hour", MAX_CRAWL_DELAY_MS == HOUR),
        ("`Retry-After` on 429 and 503 up to one week", RETRY_AFTER_CAP_MS == 7 * 24 * HOUR),
        ("This pause is at most ten minutes", COLLECTION.max_delay == 10 * MINUTE),
        ("at most the first 10 MiB", FETCH.max_body == 10 * 2**20),
        ("at most ten hops", FETCH.max_redirects == 10),
        (
            "three retries, then again after one day",
            (FETCH.retries, FETCH.retry_later) == (3, 24 * HOUR),
        ),
        ("then every half hour", UNREACHABLE_TTL_MS == HOUR // 2),
        ("At most five redirects are followed", MAX_HOPS == 5),
        ("The first 512 KiB are read", MAX_ROBOTS_BYTES == 512 * 1024),
        ("The file is cached for at most 24 hours", MAX_CACHE_MS == 24 * HOUR),
        ("to one hour at the least", MIN_CACHE_MS == HOUR),
        ("at most once per hour", MIN_CACHE_MS == HOUR),
        ("gzip, deflate, br and zstd", ACCEPT_ENCODING == "gzip, deflate, br, zstd"),
        (
            '| `rel="nofollow"` on a single link | obeyed | can be ignored |',
            COLLECTION.respect_nofollow,
        ),
    ],
)
def test_every_figure_is_that_of_the_code(promise: str, is_kept: bool) -> None:
    assert promise in PAGE
    assert is_kept


def test_the_examples_behave_as_described() -> None:
    agent, rules, away = (re.sub(r"^    ", "", block, flags=re.M) for block in BLOCKS)
    sent = default_fields(FetchSettings(contact="https://newsroom.example/crawler"))
    assert agent.strip().encode() in [bytes(line) for line in sent]
    robots = Robots(rules, f"lycosa/{VERSION}")
    paths = ("/", "/search/", "/search/x?y", "/search/about", "/a/b.zip", "/a/b.zip?c", "/a/b.ZIP")
    assert [robots.allowed(f"https://site.test{path}") for path in paths] == [
        True,
        False,
        False,
        True,
        False,
        True,
        True,
    ]
    assert robots.crawl_delay_ms() == 5 * SECOND
    assert not Robots(away, f"lycosa/{VERSION}").allowed("https://site.test/")
    assert Robots(away, "other/1").allowed("https://site.test/")
