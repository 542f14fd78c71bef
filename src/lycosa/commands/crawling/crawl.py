"""`crawl` from start to end.

Steps: own the workspace, claim, load, replay, fetch, walk links again from pages with a decreased
depth, index, release.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing
from dataclasses import field

from lycosa.config.credentials import without_user
from lycosa.config.settings import Collection, Config
from lycosa.core.clock import Clock, SystemClock
from lycosa.core.dataclass import dataclass
from lycosa.core.errors import UsageError
from lycosa.crawl.fetch_pipeline import Fetcher
from lycosa.crawl.session.pausing import PauseFollower, require_not_paused
from lycosa.crawl.session.planning import check_seeds, seeds_of
from lycosa.crawl.session.session import CrawlSession, SessionOptions, open_session
from lycosa.crawl.session.walking import (
    OnlySite,
    Walk,
    WalkStart,
    recorded,
    restrict_to_site,
    start_of,
)
from lycosa.crawl.state.progress import Progress
from lycosa.crawl.state.task import Job
from lycosa.crawl.state.waiting import left_for_later
from lycosa.crawl.worker import Limits, Observer
from lycosa.hooks.plugins import CrawlServices, Plugins
from lycosa.maintenance.upkeep import Upkeep
from lycosa.processes.memory import tune_memory
from lycosa.processes.threads import Stoppable
from lycosa.store.storage.storage import open_storage
from lycosa.store.workspace import FILE as WORKSPACE_FILE
from lycosa.store.workspace import Workspace
from lycosa.url.normalise import normalise
from lycosa.url.site_name import SiteScope


def _to_stderr(message: str) -> None:
    print(message, file=sys.stderr)


@dataclass(slots=True)
class CrawlOrder:
    """Options of a call of `crawl`.

    `seeds` are added to those of earlier calls. `start`: a known URL from which known links are
    walked again, up to `start_depth` links, or `walking.UNVISITED`; "": crawl all due URLs. `site`:
    only URLs of this site. `say` receives messages for the user.
    """

    root: str
    config: Config
    collection: Collection
    seeds: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    index: bool = True
    command: str = "crawl"
    start: str = ""
    start_depth: int | None = None
    site: SiteScope | None = None
    plugins: Plugins | None = None
    say: Callable[[str], None] = _to_stderr


def open_for(order: CrawlOrder) -> Workspace:
    """Check the seeds, then open or create the workspace; an invalid call changes nothing.

    Raises:
        UsageError: a seed cannot be used, or there is neither a seed nor a workspace.
        WorkspaceError: a walk needs a workspace, and there is none.
    """
    tune_memory()
    seeds = (*order.collection.seeds, *order.seeds)
    check_seeds(seeds, order.collection)
    if not seeds and not order.start and open_storage(order.root).size(WORKSPACE_FILE) is None:
        raise _without_seeds(order)
    return Workspace.open(order.root) if order.start else Workspace.open_or_create(order.root)


def plan_crawl(
    order: CrawlOrder, workspace: Workspace, clock: Clock
) -> tuple[Job, WalkStart | None]:
    """Return the collection with its seeds, and the start of a walk or None.

    The call fetches no URL again that it has visited, so that it ends.

    Raises:
        UsageError: the collection is paused, has no seeds, or the start is unknown.
    """
    collection, start = order.collection, None
    require_not_paused(workspace.storage, collection.name)
    if collection.paused:
        raise UsageError(
            f"collection {collection.name!r} has paused = true in lycosa.toml: remove this setting"
        )
    if order.start:
        start = start_of(workspace, collection, order.start, order.start_depth)
    before = workspace.state().settings.get(collection.name, {})
    seeds = seeds_of(before, collection, order.seeds)
    if not seeds and not workspace.storage.names("inbox"):
        raise _without_seeds(order)
    if start is not None and start.url:
        collection = recorded(collection, before)
    return Job(collection, seeds, clock.now_ms()), start


def _without_seeds(order: CrawlOrder) -> UsageError:
    """Return the error of a call without seeds; it lists the collections that have some."""
    names = [each.name for each in order.config.collection if each.seeds or each.seed_file]
    configured = f", or a configured collection: --collection {' | '.join(names)}" if names else ""
    return UsageError(
        f"nothing to crawl: the collection {order.collection.name} in {order.root} has no seeds; "
        f"specify a URL, for example `lycosa crawl https://example.org/`{configured}"
    )


def crawl(
    order: CrawlOrder,
    *,
    observer: Observer | None = None,
    started: Callable[[Stoppable], None] | None = None,
    clock: Clock | None = None,
    fetcher: Fetcher | None = None,
) -> Progress:
    """Crawl one collection to the end or to a limit.

    `started` gets an object with a method `stop`, which ends the crawl early.

    Raises:
        UsageError: there is no seed, or a seed, the start or a setting is wrong.
        OwnedError: another process is crawling in this workspace.
        WorkError: the disk is full, the archive or the log is damaged.
    """
    clock = clock or SystemClock()
    workspace = open_for(order)
    with workspace.own(order.command, report=order.say) as owner, ExitStack() as stack:
        job, start = plan_crawl(order, workspace, clock)
        follower = None
        if order.index:
            from lycosa.index.follower import IndexFollower

            follower = stack.enter_context(
                closing(IndexFollower(order.root, order.config.index, clock))
            )
        upkeep = stack.enter_context(closing(Upkeep(workspace, order.config, clock)))
        services = stack.enter_context(
            closing(CrawlServices(workspace.root, order.config, order.say))
        )
        options = SessionOptions(
            limits=order.limits,
            observer=observer,
            committed=follower.committed if follower is not None else None,
            fetcher=fetcher,
            plugins=order.plugins,
        )
        session = open_session(
            workspace, order.config, [job], options, command=order.command, clock=clock
        )
        with closing(session):
            pauses = PauseFollower(
                workspace.storage, job.collection.name, session.worker.dispatcher, order.say, clock
            )
            ticks = owner.touch, upkeep.tick, session.inbox.apply, pauses.tick
            session.worker.ticks.extend(ticks)
            services.start()
            if order.site is not None:
                session.crawl.scheduler.agenda.restrict_to(OnlySite(order.site))
            walk = Walk(session, job.collection.name, start) if start is not None else None
            progress = _work(session, order, walk, started)
            session.claim.release()
            services.finish()
        if follower is not None:
            del session, pauses, walk, ticks  # reference cycles: the index can use their memory
            gc.collect()
            follower.finish()
        return progress


def report_excluded(
    progress: Progress, seeds: Iterable[str], excluded: Callable[[str], bool]
) -> None:
    """Report seeds of this call that the operator excluded; others may be excluded since."""
    for seed in map(normalise, map(without_user, seeds)):
        if excluded(seed):
            progress.fail(seed, "excluded by the operator")


def _work(
    session: CrawlSession,
    order: CrawlOrder,
    walk: Walk | None,
    started: Callable[[Stoppable], None] | None,
) -> Progress:
    worker, crawl = session.worker, session.crawl
    report_excluded(crawl.progress, order.seeds, crawl.excluded)
    session.load()
    if order.site is not None:
        restrict_to_site(crawl, order.site)
    if walk is not None:
        walk.spread()
    if started is not None:
        started(worker.stop_flag)
    progress = worker.run()
    while progress.ended == "finished" and (
        session.walk_depth_decreased() or (walk is not None and walk.spread())
    ):
        progress = worker.run()
    progress.defer(left_for_later(crawl, session.tables, crawl.assignments))
    return progress
