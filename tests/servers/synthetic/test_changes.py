from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from itertools import pairwise

import pytest

from lycosa.page.parse import parse_page
from tests.servers.synthetic.answer import Answer
from tests.servers.synthetic.draw import DAY_MS, HORIZON_MS, event_time, events, span
from tests.servers.synthetic.kinds import Kind
from tests.servers.synthetic.plan import WebPlan
from tests.servers.synthetic.web import Web

EPOCH = WebPlan().epoch_ms


@pytest.mark.parametrize("per_day", [0.001, 0.3, 50.0])
def test_times_of_events_are_those_that_are_counted(per_day: float) -> None:
    times = [event_time(7, per_day, number) for number in range(1, 200)]
    assert times == sorted(times)
    for number, at in enumerate(times, 1):
        if at < HORIZON_MS:
            assert events(7, per_day, at) >= number
            assert events(7, per_day, at - 1) < number
            version, since, until = span(7, per_day, at)
            assert since == at
            assert until == event_time(7, per_day, version + 1) > at
    assert events(7, per_day, -5) == 0


def text_of(url: str, answer: Answer) -> str:
    return parse_page(answer.body, url=url, content_type=answer.header("Content-Type")).text


def test_text_changes_when_the_version_does_and_never_else() -> None:
    web = Web(WebPlan.calm(hosts=10, pages=200, noisy=0.5, changes_per_day=1.0))
    urls = list(web.real_pages())[::7]
    changed = 0
    for url in urls:
        states = [
            (
                web.version(url, EPOCH + day * DAY_MS),
                text_of(url, web.answer(url, {}, EPOCH + day * DAY_MS)),
            )
            for day in range(6)
        ]
        for (version, text), (later_version, later_text) in pairwise(states):
            assert later_version >= version
            assert (text != later_text) == (version != later_version)
            changed += version != later_version
    assert changed > len(urls)


def conditional(answer: Answer) -> dict[str, str]:
    return {
        "if-none-match": answer.header("ETag"),
        "if-modified-since": answer.header("Last-Modified"),
    }


def test_conditional_requests_are_answered_as_the_host_keeps_its_validators() -> None:
    web = Web(
        WebPlan.calm(
            hosts=40,
            pages=600,
            validators_absent=0.2,
            validators_restless=0.2,
            validators_frozen=0.2,
            changes_per_day=1.0,
        )
    )
    outcomes: Counter[tuple[str, bool, int]] = Counter()
    at, later = EPOCH + 3 * DAY_MS, EPOCH + 5 * DAY_MS
    for host in web.open_hosts():
        for number in range(min(host.size, 20)):
            url = f"http://{host.name}{web.layout.path(host, number)}"
            first = web.answer(url, {}, at)
            assert bool(first.header("ETag")) == (host.validators != "absent")
            second = web.answer(url, conditional(first) if first.header("ETag") else {}, later)
            outcomes[
                host.validators, web.version(url, at) != web.version(url, later), second.status
            ] += 1
            if second.status == 304:
                assert not second.body
                assert second.header("ETag") == first.header("ETag")
    assert {key for key, number in outcomes.items() if number} == {
        ("right", False, 304),
        ("right", True, 200),
        ("absent", False, 200),
        ("absent", True, 200),
        ("restless", False, 200),
        ("restless", True, 200),
        ("frozen", False, 304),
        ("frozen", True, 304),
    }


def test_last_modified_alone_is_enough_where_it_is_right() -> None:
    web = Web(WebPlan.calm(hosts=1, pages=30, static=1.0, changes_per_day=0.0))
    [url] = web.seeds()
    answer = web.answer(url, {}, EPOCH)
    assert parsedate_to_datetime(answer.header("Last-Modified")) < datetime.fromtimestamp(
        EPOCH / 1000, UTC
    )
    assert (
        web.answer(url, {"if-modified-since": answer.header("Last-Modified")}, EPOCH).status == 304
    )
    assert web.answer(url, {"if-modified-since": "nonsense"}, EPOCH).status == 200
    assert (
        web.answer(
            url,
            {"if-none-match": '"other"', "if-modified-since": answer.header("Last-Modified")},
            EPOCH,
        ).status
        == 200
    )


def test_pages_are_born_where_news_are_made() -> None:
    web = Web(WebPlan.calm(hosts=20, pages=400, news=0.5, births_per_day=4.0, feeds=1.0))
    before, after = set(web.real_pages(EPOCH)), set(web.real_pages(EPOCH + 10 * DAY_MS))
    born = after - before
    assert before < after
    hosts = Counter(url.split("/")[2] for url in born)
    assert len(hosts) == 10
    assert sum(hosts.values()) == pytest.approx(400, abs=100)
    url = sorted(born)[0]
    front = "/".join(url.split("/")[:3]) + "/"
    assert web.kind(url, EPOCH) is Kind.MISSING
    assert web.answer(url, {}, EPOCH).status == 404
    assert web.answer(url, {}, EPOCH + 10 * DAY_MS).status == 200
    assert web.version(front, EPOCH + 10 * DAY_MS) >= hosts[front.split("/")[2]]
    assert web.change_rate(front) > 4.0
    newest = [
        f"http://{host.name}{web.layout.path(host, web.layout.size(host, 10 * DAY_MS) - 1)}"
        for host in web.open_hosts()
    ]
    assert all(
        url.split("/", 3)[3].replace("&", "&amp;")
        in web.answer("/".join(url.split("/")[:3]) + "/", {}, EPOCH + 10 * DAY_MS).body.decode()
        for url in newest
        if url in born
    )
