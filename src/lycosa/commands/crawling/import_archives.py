"""`import` from end to end: own the workspace, claim, load, take in archives file by file, index,
release.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from lycosa.archive.import_formats import ImportedCapture, archives, read_captures
from lycosa.archive.page_folder import folder_captures
from lycosa.config.settings import Collection, Config
from lycosa.core.clock import Clock, SystemClock
from lycosa.core.errors import ArchiveError, UsageError
from lycosa.crawl.recovery.import_archives import Imported, Importer
from lycosa.crawl.session.planning import read_seeds, seeds_of
from lycosa.crawl.session.session import CrawlSession, SessionOptions, open_session
from lycosa.crawl.state.task import Job
from lycosa.index.follower import IndexFollower
from lycosa.processes.memory import tune_memory
from lycosa.store.coordination.leadership import require_no_leader
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from lycosa.url.normalise import typed_url

_HEAD_BYTES = 1 << 20  # what a record may hold beside its body


def import_files(
    root: str,
    config: Config,
    name: str,
    paths: Sequence[str],
    *,
    collection: Collection | None = None,
    base: str = "",
    in_scope: bool = False,
    index: bool = True,
    observer: Callable[[Imported], None] | None = None,
    clock: Clock | None = None,
) -> Imported:
    """Take archives, or folders of archives or pages, into one collection. A damaged file is
    reported, and the others are read.

    `collection` is as configured; None: as the log has it, else with every setting at its default.
    `base`: the URL of a folder of pages. What is there already is passed over, so that a call that
    was interrupted is simply made again.

    Raises:
        UsageError: a path that is not there, a folder that says nothing of its URLs.
        OwnedError: another process is crawling in this workspace.
        WorkError: the disk is full, the archive or the log is damaged.
    """
    clock = clock or SystemClock()
    tune_memory()
    for path in paths:
        if not Path(path).exists():
            raise UsageError(f"{path} does not exist")
    workspace = Workspace.open_or_create(root)
    with workspace.own("import") as owner:
        require_no_leader(workspace.storage)
        before = workspace.state().settings.get(name, {})
        if collection is None:
            collection = Collection.model_validate(
                {"name": name}
                | {key: before[key] for key in Collection.model_fields if key in before}
            )
        follower: IndexFollower | None = None
        session = open_session(
            workspace,
            config,
            [Job(collection, seeds_of(before, collection))],
            SessionOptions(
                committed=lambda entry: follower.committed(entry) if follower else None,
            ),
            command="import",
            clock=clock,
        )
        try:
            follower = IndexFollower(root, config.index, clock) if index else None
            report = _import(
                session,
                name,
                paths,
                base,
                in_scope,
                config.fetch.max_body,
                lambda _: owner.touch(),
                observer,
            )
            session.claim.release()
            if follower is not None:
                follower.finish()
            return report
        finally:
            session.close()
            if follower is not None:
                follower.close()


def import_configured(
    root: str, config: Config, name: str, paths: Sequence[str], **options: Any
) -> Imported:
    """Import into a collection as lycosa.toml configures it; `options` are of `import_files`."""
    collection = next((each for each in config.collection if each.name == name), None)
    if collection is not None and collection.seed_file:
        seeds = map(typed_url, read_seeds(collection.seed_file))
        collection = collection.model_copy(update={"seeds": (*collection.seeds, *seeds)})
    return import_files(root, config, name, paths, collection=collection, **options)


def _import(
    session: CrawlSession,
    name: str,
    paths: Sequence[str],
    base: str,
    in_scope: bool,
    limit: int,
    touch: Callable[[object], None],
    observer: Callable[[Imported], None] | None,
) -> Imported:
    session.take_up()
    workspace, worker = session.workspace, session.worker
    state = workspace.state()

    def tables() -> LiveTables:
        state.refresh()
        return LiveTables(workspace, state)

    def commit_if_due() -> None:
        worker.commit_if_due()
        touch(None)
        if observer is not None:
            observer(importer.report)

    importer = Importer(
        worker.processor, name, tables=tables, locate=workspace.path, commit_if_due=commit_if_due,
        commit_now=worker.commit_now, in_scope=in_scope,
    )  # fmt: skip
    report = importer.report
    for path, captures in _sources(paths, base, limit, report):
        report.files += 1
        try:
            importer.take(captures)
        except ArchiveError as error:
            report.damaged[str(path)] = str(error)
    worker.commit_now()
    return report


def _sources(
    paths: Sequence[str], base: str, limit: int, report: Imported
) -> Iterator[tuple[Path, Iterator[ImportedCapture]]]:
    for path in map(Path, paths):
        files = [] if base and path.is_dir() else archives(path)
        if not files:
            yield path, folder_captures(path, base, limit=limit, others=report.others)
        for each in files:
            yield each, read_captures(each, limit=limit + _HEAD_BYTES, others=report.others)
