from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from hashlib import sha256

import pytest

from lycosa.url.domain import Domains, bundled_suffix_list
from lycosa.url.normalise import normalise
from tests.servers.synthetic.answer import Fault
from tests.servers.synthetic.kinds import Kind
from tests.servers.synthetic.plan import TRAPS, Trap, WebPlan
from tests.servers.synthetic.walk import Walked, walk
from tests.servers.synthetic.web import Web

PLAN = WebPlan(seed=4, hosts=200, pages=1_500, failing_share=0.5)
AT = PLAN.epoch_ms + 3 * 86_400_000


@pytest.fixture(scope="module")
def web() -> Web:
    return Web(PLAN)


@pytest.fixture(scope="module")
def walked(web: Web) -> Walked:
    return walk(web, AT)


def fingerprint() -> str:
    """Everything that a small web answers, in one number."""
    web = Web(WebPlan(seed=9, hosts=20, pages=150, births_per_day=3.0))
    digest = sha256()
    for at in (AT, AT + 9 * 86_400_000):
        for url in sorted(walk(web, at).met):
            digest.update(repr((url, web.answer(url, {}, at))).encode())
    return digest.hexdigest()


def test_the_same_in_every_process() -> None:
    command = [
        sys.executable,
        "-c",
        "from tests.servers.synthetic.test_web import fingerprint; print(fingerprint())",
    ]
    others = [
        subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
        ).stdout.strip()
        for hash_seed in ("1", "2")
    ]
    assert others == [fingerprint()] * 2


def test_a_robot_that_follows_links_finds_every_real_page_and_nothing_else(
    web: Web, walked: Walked
) -> None:
    assert walked.pages == set(web.real_pages(AT))
    assert len([url for url in walked.pages if web.kind(url) is Kind.PAGE]) == sum(
        host.size for host in web.open_hosts()
    )


def test_every_kind_of_url_is_met(walked: Walked) -> None:
    met = {Kind(kind): number for kind, number in walked.kinds.items()}
    assert set(met) == set(Kind) - {Kind.ROBOTS, Kind.SITEMAP, Kind.FEED, Kind.MISSING}
    for kind, share in (
        (Kind.REDIRECT, 0.04),
        (Kind.DUPLICATE, 0.04),
        (Kind.GONE, 0.025),
        (Kind.ASSET, 0.04),
    ):
        assert 0.5 * share < met[kind] / PLAN.pages < 2 * share, kind


def test_every_trap_and_every_fault_is_met(web: Web, walked: Walked) -> None:
    assert {web.trap(url) for url in walked.met} == {*TRAPS, None}
    assert set(walked.faults) == set(Fault)
    assert {200, 301, 302, 303, 307, 308, 404, 410, 429, 500, 503} <= set(walked.statuses)


def test_names_and_urls_are_what_the_product_takes_them_for(web: Web) -> None:
    domains = Domains(bundled_suffix_list())
    names = [web.layout.hosts.get(number).name for number in range(PLAN.hosts)]
    assert len(set(names)) == PLAN.hosts
    assert all(web.registrable(name) == domains.registrable(name) for name in names)
    assert (
        Counter(map(web.registrable, names)).most_common(1)[0][1] > PLAN.hosts * PLAN.subdomains / 4
    )
    urls = list(web.real_pages())
    assert all(normalise(url) == url for url in urls)
    assert any("%" in url for url in urls)
    assert any("?" in url for url in urls)


def test_what_is_not_there_is_missing(web: Web) -> None:
    [front] = web.seeds()
    for path in (
        "nothing",
        "a-99999.html",
        "go/0x",
        "calendar/2024/01",
        "item/3",
        "-1.html",
        "article.php?id=1",
        "robots-of/77.txt",
    ):
        assert web.kind(front + path) in (Kind.MISSING, Kind.REDIRECT), path
        assert web.answer(front + "nothing", {}, AT).status == 404
    assert web.kind("http://elsewhere.test/") is Kind.NOWHERE
    assert web.kind("ftp://x/") is Kind.NOWHERE
    wrong = front.replace("-0.", "-1.")
    assert web.answer(wrong, {}, AT).fault is Fault.UNRESOLVED


@pytest.mark.parametrize("trap", TRAPS)
def test_traps_have_no_end_and_no_page(trap: Trap) -> None:
    web = Web(WebPlan.calm(hosts=2, pages=60, traps=0.5, trap_kinds=(trap,)))
    walked = walk(web, AT, traps=400)
    trapped = {url for url in walked.met if web.is_trap(url)}
    assert walked.kinds[Kind.TRAP] > 400
    assert len(trapped) > 400
    assert walked.pages == set(web.real_pages())
    assert all(walked.answers[url].status == 200 for url in trapped if url in walked.answers)
