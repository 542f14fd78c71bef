"""docs/webmasters.md promises what the code does: its examples are run, its figures are the code's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lycosa.core.config import Collection, FetchSettings
from lycosa.core.version import VERSION
from lycosa.crawl.robots import MAX_HOPS, UNREACHABLE_TTL_MS
from lycosa.fetch.fields import ACCEPT_ENCODING, default_fields
from lycosa.fetch.robots import MAX_CACHE_MS, MAX_CRAWL_DELAY_MS, MAX_ROBOTS_BYTES, MIN_CACHE_MS, Robots
from lycosa.frontier.latency import MAX_SLOW_DOWN, SLOW_FROM
from lycosa.frontier.politeness import (
    BACKOFF_CAP_MS,
    DOMAIN_CAP_MS,
    HOST_BACKOFF_MS,
    RETRY_AFTER_CAP_MS,
    Pace,
    failures_after,
    pause_ms,
    reasons,
)

PAGE = re.sub(r"\s+", " ", (Path(__file__).parents[2] / "docs" / "webmasters.md").read_text(encoding="utf-8"))
BLOCKS = re.findall(r"(?:^    .*\n)+", (Path(__file__).parents[2] / "docs" / "webmasters.md").read_text(encoding="utf-8"), flags=re.M)

SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
SLOW = reasons(Pace.of(Collection()), duration_ms=3 * SECOND)
FETCH, COLLECTION = FetchSettings(), Collection()


@pytest.mark.parametrize(
    ("promise", "kept"),
    [
        ("By default it keeps one connection to a host", COLLECTION.connections_per_host == 1),
        ("- one second,", COLLECTION.delay == SECOND),
        ("ten times as long as your server took", COLLECTION.courtesy_factor == 10),
        (
            "needs 3 seconds is asked twice a minute",
            25 * SECOND < pause_ms(SLOW) <= 30 * SECOND,
        ),
        ("one minute, doubled with each further failure, up to a day", (HOST_BACKOFF_MS, BACKOFF_CAP_MS) == (MINUTE, 24 * HOUR)),
        ("takes twice as long as usual", SLOW_FROM == 2),
        ("up to eightfold", MAX_SLOW_DOWN == 8),
        ("when nothing is answered for 20 seconds", FETCH.first_byte_timeout == 20 * SECOND),
        ("each answer that succeeds halves", failures_after(8, False) == 4),
        ("as if they were two hosts at most", COLLECTION.domain_connections == 2),
        ("the others rest too, for up to ten minutes", DOMAIN_CAP_MS == 10 * MINUTE),
        ("share four connections", COLLECTION.address_connections == 4),
        ("a `Crawl-delay` counts up to an hour", MAX_CRAWL_DELAY_MS == HOUR),
        ("a `Retry-After` (seconds, or a date) up to a week", RETRY_AFTER_CAP_MS == 7 * 24 * HOUR),
        ("is ten minutes at most", COLLECTION.max_delay == 10 * MINUTE),
        ("of more than 10 MiB it reads the first 10", FETCH.max_body == 10 * 2**20),
        ("up to ten hops", FETCH.max_redirects == 10),
        ("at most three times in a row, then not before the next day", (FETCH.retries, FETCH.retry_later) == (3, 24 * HOUR)),
        ("then every half hour", UNREACHABLE_TTL_MS == HOUR // 2),
        ("Up to five redirects are followed", MAX_HOPS == 5),
        ("The first 512 KiB are read", MAX_ROBOTS_BYTES == 512 * 1024),
        ("The file is kept for 24 hours at most", MAX_CACHE_MS == 24 * HOUR),
        ("as short as may be: one hour", MIN_CACHE_MS == HOUR),
        ("at most once an hour", MIN_CACHE_MS == HOUR),
        ("gzip, deflate, br and zstd", ACCEPT_ENCODING == "gzip, deflate, br, zstd"),
        ("unless the operator has switched this off", COLLECTION.respect_nofollow),
    ],
)
def test_every_figure_is_the_codes(promise: str, kept: bool) -> None:
    assert promise in PAGE
    assert kept


def test_the_examples_say_what_the_page_says_of_them() -> None:
    agent, rules, away = (re.sub(r"^    ", "", block, flags=re.M) for block in BLOCKS)
    sent = default_fields(FetchSettings(contact="https://newsroom.example/robot"))
    assert agent.strip().encode() in [bytes(line) for line in sent]
    robots = Robots(rules, f"lycosa/{VERSION}")
    paths = ("/", "/search/", "/search/x?y", "/search/about", "/a/b.zip", "/a/b.zip?c", "/a/b.ZIP")
    assert [robots.allowed(f"https://site.test{path}") for path in paths] == [True, False, False, True, False, True, True]
    assert robots.crawl_delay_ms() == 5 * SECOND
    assert not Robots(away, f"lycosa/{VERSION}").allowed("https://site.test/")
    assert Robots(away, "other/1").allowed("https://site.test/")
