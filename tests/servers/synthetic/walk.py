"""A perfect robot without a network: it follows every link that robots.txt allows, enters a trap
only as far as it is told, and counts.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from lycosa.core.records import FOLLOWED_KINDS
from lycosa.page.parse import parse_page
from tests.servers.synthetic.answer import Answer
from tests.servers.synthetic.kinds import Kind
from tests.servers.synthetic.web import Web

_ATTEMPTS = 40
_WAIT_MS = 601_000


@dataclass
class Walked:
    """What was met. `answers` holds the last answer of each URL that was asked for."""

    kinds: Counter[str] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    answers: dict[str, Answer] = field(default_factory=dict)
    pages: set[str] = field(default_factory=set)
    met: set[str] = field(default_factory=set)


def walk(
    web: Web, at_ms: int, *, traps: int = 3, enough: Callable[[Walked], bool] = lambda walked: False
) -> Walked:
    """Everything that links and redirects lead to from the first seed; at most `traps` pages of the
    traps of each host.
    """
    walked = Walked()
    waiting = deque(web.seeds())
    walked.met.update(waiting)
    trapped: Counter[str] = Counter()
    while waiting and not enough(walked):
        url = waiting.popleft()
        kind = web.kind(url)
        walked.kinds[kind] += 1
        host = url.split("/")[2]
        if kind is Kind.FORBIDDEN:
            continue
        if kind is Kind.TRAP:
            trapped[host] += 1
            if trapped[host] > traps:
                continue
        answer = ask(web, url, at_ms, walked)
        walked.answers[url] = answer
        if answer.status == 200 and kind in (Kind.PAGE, Kind.TRANSLATION):
            walked.pages.add(url)
        for target in targets(url, answer):
            if target not in walked.met:
                walked.met.add(target)
                waiting.append(target)
    return walked


def ask(web: Web, url: str, at_ms: int, walked: Walked) -> Answer:
    """Asks again later as long as an answer is one of those that pass."""
    for attempt in range(_ATTEMPTS):
        answer = web.answer(url, {}, at_ms + attempt * _WAIT_MS)
        walked.statuses[answer.status] += 1
        walked.faults[answer.fault] += 1
        if not answer.fault and answer.status not in (429, 500, 502, 503, 504):
            break
        if web.kind(url) in (Kind.BROKEN, Kind.NOWHERE):
            break
    return answer


def targets(url: str, answer: Answer) -> list[str]:
    """The URLs that an answer leads to."""
    if location := answer.header("Location"):
        origin = "/".join(url.split("/")[:3])
        return [location if location.startswith("http") else origin + location]
    if answer.status != 200 or not answer.header("Content-Type").startswith("text/html"):
        return []
    page = parse_page(answer.body, url=url, content_type=answer.header("Content-Type"))
    return [link.target for link in page.links if link.kind in FOLLOWED_KINDS]
