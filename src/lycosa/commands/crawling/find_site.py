"""Find texts in a site: fetch its pages, then report the matches."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from lycosa.commands.crawl_models import FindReport
from lycosa.commands.crawling.run_crawl import CrawlCall, CrawlListeners, run_call
from lycosa.crawl.state.progress import Progress
from lycosa.find.find import FindResults, order_in_site
from lycosa.matching.matches import StoredMatch
from lycosa.processes.threads import Stoppable
from lycosa.url.site_name import SiteScope

_POLL_S = 1.0
_COUNT_EVERY = 3  # polls: counting the remaining pages reads a whole column


@dataclass(frozen=True)
class SiteFind:
    """A search for texts in a site.

    `max_age_ms`: pages with an older stored copy are fetched.
    """

    texts: Sequence[str]
    ignore: Sequence[str]
    site: str
    max_age_ms: int


def find_in_site(
    call: CrawlCall,
    find: SiteFind,
    on_match: Callable[[StoredMatch], None] = lambda match: None,
    on_start: Callable[[Stoppable], None] = lambda crawl: None,
    report: Callable[[str], None] = lambda message: None,
) -> FindReport:
    """Fetch the pages of a site and report the matches.

    If a crawl is running, it does this work. Ctrl-C then ends only the wait for it.
    """
    scope = SiteScope.of(find.site)
    order = order_in_site(
        call.root, find.texts, find.ignore, scope, call.collection, find.max_age_ms
    )
    results = FindResults(call.root, order)
    commits = 0

    def report_matches() -> None:
        for match in results.fresh():
            on_match(match)

    def observe(progress: Progress) -> None:
        nonlocal commits
        if progress.commits > commits:
            commits = progress.commits
            report_matches()

    if not order.running:
        seeded = replace(call, seeds=(scope.start,), site=scope)
        crawl = run_call(seeded, CrawlListeners(observe, on_start=on_start))
        report_matches()
        return FindReport(order.order.id, crawl.pages, results.left(), running=False)
    report(
        f"the running crawl executes this request ({order.order.id}); Ctrl-C ends this command, "
        "not the request"
    )
    left: int | None = None
    polls = 0
    try:
        while left != 0:
            time.sleep(_POLL_S)
            polls += 1
            if polls % _COUNT_EVERY == 0:
                left = results.left()
            report_matches()
    except KeyboardInterrupt:
        report(f"the request continues; show matches: `lycosa watch matches {order.order.id}`")
    return FindReport(order.order.id, 0, left, running=True)
