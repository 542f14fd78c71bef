"""All trap rules together on the synthetic web: traps cost little, and every real page is found."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from datetime import UTC, date, datetime

import pytest

from lycosa.core.records import FOLLOWED_KINDS, Page
from lycosa.frontier.traps.detector import HostGroups, ObservedPage
from lycosa.page.parse import parse_page
from lycosa.url.file_types import unindexable
from lycosa.url.traps import TrapRule, query_signature, trap
from tests.servers.synthetic.answer import Answer
from tests.servers.synthetic.kinds import Kind
from tests.servers.synthetic.plan import TRAPS, Trap, WebPlan
from tests.servers.synthetic.web import Web

MAX_TRAPPED = 0.05


class Crawl:
    """Breadth-first, without robots.txt, politeness or failures: nothing but the order of links and
    the rules.
    """

    def __init__(self, web: Web) -> None:
        self._web = web
        self._now = web.plan.epoch_ms + 1_000
        self._today: date = datetime.fromtimestamp(self._now // 1_000, UTC).date()
        self._waiting = deque(web.seeds())
        self._met = set(self._waiting)
        self._signatures: set[int] = set()
        self._books: defaultdict[str, HostGroups] = defaultdict(HostGroups)
        self.fetched: list[str] = []
        self.refused: Counter[str] = Counter()

    def run(self, limit: int) -> None:
        while self._waiting and len(self.fetched) < limit:
            url = self._waiting.popleft()
            if self._web.kind(url) is Kind.FORBIDDEN or unindexable(url):
                continue
            host, path = _split(url)
            rule = self._rule(url, path, self._books[host])
            if rule:
                self.refused[rule] += 1
                continue
            for target in self._visit(url, path, self._books[host]):
                if target not in self._met:
                    self._met.add(target)
                    self._waiting.append(target)

    def _rule(self, url: str, path: str, book: HostGroups) -> str:
        rule = trap(url, self._today)
        if rule:
            return rule
        signature = query_signature(url)
        if signature in self._signatures:
            return TrapRule.QUERY_PERMUTATION
        if signature:
            self._signatures.add(signature)
        allowance = book.allowance(path)
        if allowance.admit:
            return ""
        book.count(allowance.rule)
        return allowance.rule

    def _visit(self, url: str, path: str, book: HostGroups) -> Iterator[str]:
        answer = self._ask(url)
        if location := answer.header("Location"):
            yield location if location.startswith("http") else url.removesuffix(path) + location
        page = _page(url, answer)
        if page is not None:
            observed = {
                "simhash": page.simhash,
                "text_digest": page.text_digest,
                "text_length": len(page.text),
            }
            summary = "\n".join((page.description, *page.headings))
            book.observe(
                path, ObservedPage(**observed, title=page.title, summary=summary, text=page.text)
            )
            yield from (link.target for link in page.links if link.kind in FOLLOWED_KINDS)

    def _ask(self, url: str) -> Answer:
        self.fetched.append(url)
        return self._web.answer(url, {}, self._now)


def _split(url: str) -> tuple[str, str]:
    host = url.split("/")[2]
    return host, url[len(f"http://{host}") :]


def _page(url: str, answer: Answer) -> Page | None:
    content_type = answer.header("Content-Type")
    if answer.status != 200 or not content_type.startswith("text/html"):
        return None
    return parse_page(answer.body, url=url, content_type=content_type)


def crawl(seed: int, hosts: int, pages: int, traps: float) -> tuple[Web, Crawl]:
    shares = {
        "duplicates": 0.04,
        "near_duplicates": 0.03,
        "gone": 0.03,
        "forbidden": 0.03,
        "redirects": 0.05,
        "assets": 0.05,
    }
    web = Web(
        WebPlan.calm(
            seed=seed,
            hosts=hosts,
            pages=pages,
            traps=traps,
            native_slugs=0.3,
            trap_kinds=TRAPS,
            **shares,
        )
    )
    robot = Crawl(web)
    robot.run(limit=2 * pages)
    return web, robot


def test_traps_cost_little_and_no_real_page_is_lost() -> None:
    web, robot = crawl(seed=1, hosts=24, pages=700, traps=0.34)
    trapped = Counter(web.trap(url) for url in robot.fetched)
    del trapped[None]
    assert set(trapped) | {Trap.SESSION_PATH, Trap.SESSION_QUERY} == set(TRAPS), (
        "every kind was met"
    )
    assert trapped.total() <= MAX_TRAPPED * len(robot.fetched) + 20
    assert set(web.real_pages()) <= set(robot.fetched)
    assert {TrapRule.SESSION_ID, TrapRule.QUERY_PERMUTATION, TrapRule.REPEATED_SEGMENTS} <= set(
        robot.refused
    )


@pytest.mark.prove
@pytest.mark.parametrize("seed", range(1, 6))
def test_the_bar_for_traps(seed: int) -> None:
    web, robot = crawl(seed=seed, hosts=60, pages=4_000, traps=0.4)
    trapped = sum(web.is_trap(url) for url in robot.fetched)
    assert 0 < trapped <= MAX_TRAPPED * len(robot.fetched)
    assert set(web.real_pages()) <= set(robot.fetched)
