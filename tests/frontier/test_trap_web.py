"""All trap rules on the synthetic web, URL groups, and soft 404 titles."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.core.records import FOLLOWED_KINDS, Page
from lycosa.frontier.traps.detector import HostTrapDetector, ObservedPage
from lycosa.frontier.traps.shapes import MAX_FOLDERS, shape_of, titled_as_missing
from lycosa.page.parse import parse_page
from lycosa.url.file_types import unindexable
from lycosa.url.traps import TrapRule, query_signature, trap
from tests.servers.synthetic.answer import Answer
from tests.servers.synthetic.kinds import Kind
from tests.servers.synthetic.plan import TRAPS, Trap, WebPlan
from tests.servers.synthetic.web import Web

MAX_TRAP_SHARE = 0.05


class Crawl:
    """A breadth-first crawl with the trap rules.

    It ignores robots.txt and politeness.
    """

    def __init__(self, web: Web) -> None:
        self._web = web
        self._now = web.plan.epoch_ms + 1_000
        self._today: date = datetime.fromtimestamp(self._now // 1_000, UTC).date()
        self._waiting = deque(web.seeds())
        self._seen = set(self._waiting)
        self._signatures: set[int] = set()
        self._groups: defaultdict[str, HostTrapDetector] = defaultdict(HostTrapDetector)
        self.fetched: list[str] = []
        self.refused: Counter[str] = Counter()

    def run(self, limit: int) -> None:
        while self._waiting and len(self.fetched) < limit:
            url = self._waiting.popleft()
            if self._web.kind(url) is Kind.FORBIDDEN or unindexable(url):
                continue
            host, path = _split(url)
            rule = self._rule(url, path, self._groups[host])
            if rule:
                self.refused[rule] += 1
                continue
            for target in self._visit(url, path, self._groups[host]):
                if target not in self._seen:
                    self._seen.add(target)
                    self._waiting.append(target)

    def _rule(self, url: str, path: str, groups: HostTrapDetector) -> str:
        rule = trap(url, self._today)
        if rule:
            return rule
        signature = query_signature(url)
        if signature in self._signatures:
            return TrapRule.QUERY_PERMUTATION
        if signature:
            self._signatures.add(signature)
        refusal = groups.refuses(path)
        if refusal:
            groups.count(refusal)
        return refusal

    def _visit(self, url: str, path: str, groups: HostTrapDetector) -> Iterator[str]:
        answer = self._fetch(url)
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
            groups.observe(
                path, ObservedPage(**observed, title=page.title, summary=summary, text=page.text)
            )
            yield from (link.target for link in page.links if link.kind in FOLLOWED_KINDS)

    def _fetch(self, url: str) -> Answer:
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
    crawler = Crawl(web)
    crawler.run(limit=2 * pages)
    return web, crawler


def test_few_trap_pages_and_all_real_pages_are_fetched() -> None:
    web, crawler = crawl(seed=1, hosts=24, pages=700, traps=0.34)
    trapped = Counter(web.trap(url) for url in crawler.fetched)
    del trapped[None]
    assert set(trapped) | {Trap.SESSION_PATH, Trap.SESSION_QUERY} == set(TRAPS), (
        "not every kind of trap was visited"
    )
    assert trapped.total() <= MAX_TRAP_SHARE * len(crawler.fetched) + 20
    assert set(web.real_pages()) <= set(crawler.fetched)
    assert {TrapRule.SESSION_ID, TrapRule.QUERY_PERMUTATION, TrapRule.REPEATED_SEGMENTS} <= set(
        crawler.refused
    )


@pytest.mark.prove
@pytest.mark.parametrize("seed", range(1, 6))
def test_share_of_trap_pages_is_below_its_limit(seed: int) -> None:
    web, crawler = crawl(seed=seed, hosts=60, pages=4_000, traps=0.4)
    assert (
        0
        < sum(web.is_trap(url) for url in crawler.fetched)
        <= MAX_TRAP_SHARE * len(crawler.fetched)
    )
    assert set(web.real_pages()) <= set(crawler.fetched)


@pytest.mark.parametrize(
    ("path", "groups"),
    [
        ("/", ("/*",)),
        ("/a.html", ("/*",)),
        ("/17.html", ("/{n}",)),
        ("/whatsnew/3.10.html", ("/whatsnew/*", "/whatsnew/")),
        ("/a/b/c.html", ("/a/b/*", "/a/b/", "/a/")),
        ("/a/b/", ("/a/b/*", "/a/b/", "/a/")),
        ("/a/b/c/d/e/f", ("/a/b/c/**", "/a/b/c/", "/a/b/", "/a/")),
        ("/2024/05/story", ("/{n}/{n}/*", "/{n}/{n}/", "/{n}/")),
        ("/calendar/2024-05-01", ("/calendar/{n}", "/calendar/")),
        ("/s/0a1b2c3d4e5f60718293a4b5/x", ("/s/{id}/*", "/s/{id}/", "/s/")),
        ("/shop?size=m&color=red&size=l", ("/shop?color&size", "/shop?", "/*?")),
        (
            "/shop/shoes/1234?color=red",
            ("/shop/shoes/{n}?color", "/shop/shoes/{n}?", "/shop/shoes/", "/shop/"),
        ),
        ("/a/?x=1", ("/a/*?x", "/a/*?", "/a/")),
    ],
)
def test_groups(path: str, groups: tuple[str, ...]) -> None:
    assert shape_of(path).groups == groups


@pytest.mark.parametrize(
    ("path", "numbered", "query", "dated"),
    [
        ("/a/b", False, False, False),
        ("/a/12", True, False, False),
        ("/a?b=1", True, True, False),
        ("/2024/05/x", True, False, True),
        ("/c?date=2024-05-01", True, True, True),
        ("/c?month=5", True, True, True),
        ("/news/2024/story", True, False, False),
        ("/2024-story", False, False, False),
    ],
)
def test_variable_parts_of_a_path(path: str, numbered: bool, query: bool, dated: bool) -> None:
    shape = shape_of(path)
    assert (shape.numbered, shape.query, shape.dated) == (numbered, query, dated)


@given(st.text("/ab1?&=%-.", max_size=60))
def test_number_of_groups_of_any_path_is_bounded(tail: str) -> None:
    groups = shape_of("/" + tail).groups
    assert 1 <= len(groups) <= MAX_FOLDERS + 3
    assert len(set(groups)) == len(groups)


@pytest.mark.parametrize(
    "title",
    [
        "404",
        "Error 404 - Example",
        "Page Not Found",
        "Seite nicht gefunden",
        "Page introuvable",
        "Página no encontrada",
        "Страница не найдена",
        "页面未找到",
        "ページが見つかりません",
        "페이지를 찾을 수 없습니다",
        "الصفحة غير موجودة",
    ],
)
def test_titles_of_missing_pages(title: str) -> None:
    assert titled_as_missing(title)


@pytest.mark.parametrize(
    "title",
    [
        "",
        "Room 4040",
        "The founding of Rome",
        "Lost and found",
        "Peugeot 4047",
        "Neue Gefundene Werke",
    ],
)
def test_other_titles(title: str) -> None:
    assert not titled_as_missing(title)
