"""Webs with topics: the share of links within a topic is the one that the plan names, and pages
speak of what they are about.
"""

from __future__ import annotations

import pytest

from tests.servers.synthetic.plan import WebPlan
from tests.servers.synthetic.walk import targets, walk
from tests.servers.synthetic.web import Web

PLAN = WebPlan.calm(
    seed=3, hosts=20, pages=800, languages=("en",), topics=10, topic_links=0.4, topic_named=0.5
)


@pytest.fixture(scope="module")
def web() -> Web:
    return Web(PLAN)


def test_links_stay_within_a_topic_as_often_as_the_plan_says(web: Web) -> None:
    walked = walk(web, PLAN.epoch_ms)
    same = total = 0
    for url, answer in walked.answers.items():
        for target in targets(url, answer):
            if web.topic(target) is not None and not target.endswith("/"):
                total += 1
                same += web.topic(target) == web.topic(url)
    expected = PLAN.topic_links + (1 - PLAN.topic_links) / PLAN.topics
    assert total > 2_000
    assert same / total == pytest.approx(expected, abs=0.08)


def test_a_page_says_what_it_is_about(web: Web) -> None:
    pages = sorted(walk(web, PLAN.epoch_ms).pages)[:100]
    for url in pages:
        topic = web.topic(url)
        assert topic is not None
        text = web.answer(url, {}, PLAN.epoch_ms).body.decode("utf-8", "replace")
        assert all(word in text for word in web.topics.words(topic)), url


def test_topics_are_spread_evenly(web: Web) -> None:
    pages = walk(web, PLAN.epoch_ms).pages
    shares = [
        sum(web.topic(url) == topic for url in pages) / len(pages) for topic in range(PLAN.topics)
    ]
    assert max(shares) < 4 / PLAN.topics
