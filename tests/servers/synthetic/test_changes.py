from __future__ import annotations

from collections import Counter
from itertools import pairwise

from lycosa.page.parse import parse_page
from tests.servers.synthetic.answer import Answer
from tests.servers.synthetic.draw import DAY_MS
from tests.servers.synthetic.plan import WebPlan
from tests.servers.synthetic.web import Web

EPOCH = WebPlan().epoch_ms


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
