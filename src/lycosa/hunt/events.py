"""What a hunt tells as it goes, as JSON objects: for `lycosa hunt --jsonl`, the API's stream, and
the file between a daemon and who asked.

{"event": "started", "question", "named", "hits", "well_linked", "listed"} {"event": "found", "url",
"title", "score", "rank", "snippet", "fragments": [{"text", "match"}], "language", "number", "via",
"seconds"} {"event": "progress", "pages", "in_flight", "bytes", "seconds"} {"event": "ended",
"ended", "pages", "relevant", "listed", "failed": {reason: number}, "failures": {url: why},
"visits", "bytes", "seconds",
 "results": [as found, best first]}
{"event": "failed", "message", "exit_code"}
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lycosa.core.clock import Clock, SystemClock
from lycosa.core.errors import LycosaError
from lycosa.crawl.state.progress import Progress
from lycosa.crawl.worker import Worker
from lycosa.fetch.fetcher import Fetcher
from lycosa.hunt.hunt import Found
from lycosa.hunt.session import Ears, Hit, HuntOrder, HuntReport, hunt
from lycosa.hunt.starts import Started

Event = dict[str, Any]
"""One JSON object, as above."""

Tell = Callable[[Event], None]

MAX_RESULTS = 100
"""Results that the last event lists."""

_PROGRESS_EVERY_MS = 1_000


def hunt_telling(
    order: HuntOrder,
    tell: Tell,
    *,
    worker: Callable[[Worker], None] = lambda worker: None,
    tick: Callable[[], None] = lambda: None,
    clock: Clock | None = None,
    fetcher: Fetcher | None = None,
    owned: bool = False,
) -> HuntReport:
    """Hunt, and tell of it in events; the last one is `ended`. Raises what `hunt` raises, and tells
    nothing of that.
    """
    told_at = 0
    chosen = clock or SystemClock()

    def progress(now: Progress) -> None:
        nonlocal told_at
        at = chosen.monotonic_ms()
        if at - told_at >= _PROGRESS_EVERY_MS:
            told_at = at
            tell(
                {
                    "event": "progress",
                    "pages": now.pages,
                    "in_flight": now.in_flight,
                    "bytes": now.bytes,
                    "seconds": round((at - now.started_ms) / 1000, 3),
                }
            )

    ears = Ears(
        started=lambda started: tell(started_event(order.request.question, started)),
        hit=lambda hit: tell(found_event(hit)),
        progress=progress,
        worker=worker,
        tick=tick,
    )
    report = hunt(order, ears, clock=chosen, fetcher=fetcher, owned=owned)
    tell(ended_event(report))
    return report


def started_event(question: str, started: Started) -> Event:
    return {
        "event": "started",
        "question": question,
        "named": started.named,
        "hits": started.hits,
        "well_linked": started.well_linked,
        "listed": started.listed,
    }


def found_event(hit: Hit) -> Event:
    """A page as it is found. `rank` among those found until then."""
    return {
        "event": "found",
        **result(hit.found, hit.found.score),
        "rank": hit.rank,
        "seconds": round(hit.after_ms / 1000, 3),
    }


def ended_event(report: HuntReport) -> Event:
    progress = report.progress
    return {
        "event": "ended",
        "ended": report.ended,
        "pages": report.pages,
        "relevant": report.relevant,
        "listed": report.listed,
        "failed": dict(report.failed),
        "failures": dict(progress.failures),
        "visits": progress.visits,
        "bytes": progress.bytes,
        "seconds": round(max(progress.ended_ms - progress.started_ms, 1) / 1000, 3),
        "results": [result(found, score) for found, score in report.ranked[:MAX_RESULTS]],
    }


def failed_event(error: LycosaError) -> Event:
    return {"event": "failed", "message": str(error), "exit_code": error.exit_code}


def result(found: Found, score: float) -> Event:
    """One page that answers the question. `number`: the how many-th page of the hunt it was."""
    return {
        "url": found.url,
        "title": found.title,
        "score": round(score, 4),
        "snippet": "".join(text for text, _ in found.snippet),
        "fragments": [{"text": text, "match": match} for text, match in found.snippet],
        "language": found.language,
        "number": found.number,
        "via": found.via,
    }
