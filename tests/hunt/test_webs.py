"""What hunts find in synthetic webs whose pages have topics, beside a breadth-first crawl: the
whole product, with simulated time.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from bench.hunt import (
    ASKED_TOPICS,
    BARS,
    FETCHES,
    HELD_OUT,
    SHARES,
    found_by_crawling,
    found_by_hunting,
    plan_of,
)

from lycosa.config.reading import parse_config
from lycosa.hunt.hunt import StrategyName
from lycosa.hunt.session import HuntEnvironment, HuntOrder, HuntRequest, hunt
from tests.crawl.polite import BACKOFF_MS, COURTESY, DELAY_MS, PLACES, promises, without_visit
from tests.servers.synthetic.plan import WebPlan
from tests.servers.synthetic.politeness import violations
from tests.servers.synthetic.request_log import Logged
from tests.servers.synthetic.simulated import SimulatedClock, SimulatedFetcher
from tests.servers.synthetic.web import Web

FEW = 80
"""Fetches of the quick test."""


def test_hunts_find_more_than_breadth_first() -> None:
    web, topic = Web(plan_of(8, 0.5)), 5
    base = found_by_crawling(web, topic, FEW)
    assert base > 0
    assert found_by_hunting(web, topic, "best", FEW) >= BARS["best"] * base
    assert found_by_hunting(web, topic, "fish", FEW) >= BARS["fish"] * base


def test_a_hunt_is_as_polite_as_a_crawl(tmp_path: Path) -> None:
    """A web with all its failures, hosts of common domains, robots.txt of every kind: judged by
    what its servers saw.
    """
    features = {
        "window_ms": 15_000,
        "fault_window_ms": 5_000,
        "size_exponent": 0.5,
        "subdomains": 0.4,
        "failing": 0.1,
        "limiting": 0.1,
    }
    web = Web(
        WebPlan(
            seed=11,
            hosts=60,
            pages=600,
            languages=("en",),
            traps=0.0,
            topics=6,
            topic_links=0.5,
            topic_named=0.5,
            **features,  # type: ignore[arg-type]
        )
    )
    clock = SimulatedClock(web.plan.epoch_ms)
    pace = (
        f'delay = "{DELAY_MS}ms"\ncourtesy_factor = {COURTESY}\nbackoff = '
        f'"{BACKOFF_MS}ms"\ndomain_connections = {PLACES}\n'
    )
    config = parse_config(
        f'[[collection]]\nname = "default"\n{pace}address_connections = 256\n',
        overrides=("fetch.first_byte_timeout=5s",),
    )
    log: list[Logged] = []
    request = HuntRequest(
        " ".join(web.topics.words(3)), tuple(web.seeds()), False, time_ms=40_000, agents=50
    )
    fetcher = SimulatedFetcher(web, clock, config.fetch, record=log.append)
    report = hunt(
        HuntOrder(str(tmp_path / "w"), config, request, index=False),
        HuntEnvironment(clock=clock, fetcher=fetcher),
    )
    assert report.pages > 100
    assert len({each.host for each in log}) > 20
    unseen, repeated = without_visit(tmp_path / "w", log)
    assert repeated == {}
    found = violations(log, promises(web, unseen))
    assert Counter(violation.rule.value for violation in found) == {}, found[:5]


@pytest.mark.prove
@pytest.mark.parametrize("strategy", ["best", "fish", "shark"])
def test_over_five_webs(strategy: StrategyName) -> None:
    webs = [Web(plan_of(seed, share)) for share in SHARES for seed in HELD_OUT]
    base = sum(found_by_crawling(web, topic, FETCHES) for web in webs for topic in ASKED_TOPICS)
    found = sum(
        found_by_hunting(web, topic, strategy, FETCHES) for web in webs for topic in ASKED_TOPICS
    )
    assert found >= BARS.get(strategy, BARS["fish"]) * base
