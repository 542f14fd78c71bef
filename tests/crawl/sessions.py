"""Run sessions over several collections in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import polars as pl

from lycosa.config.reading import parse_config
from lycosa.config.settings import Collection
from lycosa.core.clock import Clock, SystemClock
from lycosa.crawl.session.session import CrawlSession, SessionOptions, open_session
from lycosa.crawl.state.task import Job
from lycosa.crawl.worker import Limits
from lycosa.hooks.plugins import Plugins
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from tests.crawl.conftest import QUICK, QUICK_COLLECTION, Crawled


class LaterClock(SystemClock):
    """The system clock, shifted by `ahead_ms`."""

    def __init__(self, ahead_ms: int) -> None:
        self._ahead_ms = ahead_ms

    def now_ms(self) -> int:
        return super().now_ms() + self._ahead_ms


def collection(name: str, **settings: object) -> Collection:
    """Return a collection without delay, media type filter or trap rules."""
    return Collection.model_validate({"name": name, **QUICK_COLLECTION, **settings})


def work(
    root: Path,
    jobs: Iterable[tuple[Collection, Sequence[str]]],
    *,
    settings: tuple[str, ...] = (),
    clock: Clock | None = None,
    limits: Limits | None = None,
    tick: Callable[[CrawlSession], None] | None = None,
    plugins: Plugins | None = None,
) -> Crawled:
    """Run one session over these collections until it ends.

    `tick` is called once per second. `plugins` replace the installed ones.
    """
    workspace = Workspace.open_or_create(str(root))
    with workspace.own("test"):
        session = open_session(
            workspace,
            parse_config("", overrides=(*QUICK, *settings)),
            [Job(chosen, tuple(seeds)) for chosen, seeds in jobs],
            SessionOptions(
                limits=limits or Limits(),
                plugins=plugins,
            ),
            command="test",
            clock=clock or SystemClock(),
        )
        if tick is not None:
            session.worker.ticks.append(lambda: tick(session))
        try:
            session.load()
            progress = session.worker.run()
            while progress.ended == "finished" and session.walk_depth_decreased():
                progress = session.worker.run()
            session.claim.release()
        finally:
            session.close()
    return Crawled(root, progress)


def select(workspace: Path, query: str) -> list[dict[str, object]]:
    """Return the rows of an SQL query, without starting `lycosa sql`."""
    tables = LiveTables(Workspace.open(str(workspace)))
    context = pl.SQLContext(
        frames={name: tables.scan(name) for name in ("visits", "pages", "urls")}
    )
    return context.execute(query).collect().to_dicts()
