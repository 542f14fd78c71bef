"""A complete crawl of a synthetic web without network: it follows every allowed link."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field

from lycosa.core.records import FOLLOWED_KINDS
from lycosa.page.parse import parse_page
from tests.servers.synthetic.answer import Answer
from tests.servers.synthetic.kinds import Kind
from tests.servers.synthetic.web import Web

_ATTEMPTS = 40
_WAIT_MS = 601_000


@dataclass
class CrawlResult:
    """The result of a crawl.

    `discovered`: all URLs that links lead to. `answers`: the last response of each requested URL.
    """

    kinds: Counter[str] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    answers: dict[str, Answer] = field(default_factory=dict)
    pages: set[str] = field(default_factory=set)
    discovered: set[str] = field(default_factory=set)


def walk(web: Web, at_ms: int, *, traps: int = 3) -> CrawlResult:
    """Follow links and redirects from the first seed.

    Args:
        traps: maximum number of trap pages to request per host.
    """
    result = CrawlResult()
    queue = deque(web.seeds())
    result.discovered.update(queue)
    trap_pages: Counter[str] = Counter()
    while queue:
        url = queue.popleft()
        kind = web.kind(url)
        result.kinds[kind] += 1
        host = url.split("/")[2]
        if kind is Kind.FORBIDDEN:
            continue
        if kind is Kind.TRAP:
            trap_pages[host] += 1
            if trap_pages[host] > traps:
                continue
        answer = _request(web, url, at_ms, result)
        result.answers[url] = answer
        if answer.status == 200 and kind in (Kind.PAGE, Kind.TRANSLATION):
            result.pages.add(url)
        for target in targets(url, answer):
            if target not in result.discovered:
                result.discovered.add(target)
                queue.append(target)
    return result


def _request(web: Web, url: str, at_ms: int, result: CrawlResult) -> Answer:
    """Request a URL, and repeat it later after a temporary failure."""
    for attempt in range(_ATTEMPTS):
        answer = web.answer(url, {}, at_ms + attempt * _WAIT_MS)
        result.statuses[answer.status] += 1
        result.faults[answer.fault] += 1
        if not answer.fault and answer.status not in (429, 500, 502, 503, 504):
            break
        if web.kind(url) in (Kind.BROKEN, Kind.UNREACHABLE):
            break
    return answer


def targets(url: str, answer: Answer) -> list[str]:
    """Return the targets of a redirect or of the links of a page."""
    if location := answer.header("Location"):
        origin = "/".join(url.split("/")[:3])
        return [location if location.startswith("http") else origin + location]
    if answer.status != 200 or not answer.header("Content-Type").startswith("text/html"):
        return []
    page = parse_page(answer.body, url=url, content_type=answer.header("Content-Type"))
    return [link.target for link in page.links if link.kind in FOLLOWED_KINDS]
