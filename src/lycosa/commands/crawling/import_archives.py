"""`import`: own the workspace, claim, load, import, index, release."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from lycosa.archive.import_formats import ImportedCapture, archives, read_captures
from lycosa.archive.page_folder import folder_captures
from lycosa.config.collection import stored_collection
from lycosa.config.settings import Collection, Config
from lycosa.core.clock import Clock, SystemClock
from lycosa.core.errors import UsageError
from lycosa.crawl.recovery.import_archives import Imported, Importer
from lycosa.crawl.session.planning import read_seeds, seeds_of
from lycosa.crawl.session.session import CrawlSession, SessionOptions, open_session
from lycosa.crawl.state.task import Job
from lycosa.index.follower import IndexFollower
from lycosa.processes.memory import tune_memory
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from lycosa.url.normalise import normalise, typed_url

_HEAD_BYTES = 1 << 20  # maximum size of a record without its body


@dataclass(frozen=True)
class ImportOptions:
    """Options of an import.

    `base`: the URL of a folder of pages; `in_scope`: only pages in the scope of the collection;
    `index`: update the search index.
    """

    base: str = ""
    in_scope: bool = False
    index: bool = True


def import_configured(
    root: str,
    config: Config,
    name: str,
    paths: Sequence[str],
    options: ImportOptions = ImportOptions(),
    observer: Callable[[Imported], None] | None = None,
) -> Imported:
    """Import into a collection of the settings.

    A collection with only a name has the settings of its last crawl. Raises the errors of
    `import_files`.
    """
    collection = next((each for each in config.collection if each.name == name), None)
    if collection is None:
        raise UsageError(f"{name!r} is not the name of a collection")
    if collection.model_fields_set == {"name"}:
        return import_files(root, config, name, paths, options, observer)
    if collection.seed_file:
        seeds = map(typed_url, read_seeds(collection.seed_file))
        collection = collection.model_copy(update={"seeds": (*collection.seeds, *seeds)})
    return import_files(root, config, collection, paths, options, observer)


def import_files(
    root: str,
    config: Config,
    collection: Collection | str,
    paths: Sequence[str],
    options: ImportOptions = ImportOptions(),
    observer: Callable[[Imported], None] | None = None,
    clock: Clock | None = None,
) -> Imported:
    """Import archives, or folders of archives or pages, into one collection.

    A collection given by its name has the settings of its last crawl, else the defaults. Captures
    that are stored are skipped, so an interrupted call can be repeated. A damaged file is reported,
    and the others are read.

    Raises:
        UsageError: there is no path, a path does not exist, the base is not the URL of a folder,
            or the URLs of a folder are unknown.
        OwnedError: another process is crawling in this workspace.
        WorkError: the disk is full, the archive or the log is damaged.
    """
    clock = clock or SystemClock()
    tune_memory()
    if not paths:
        raise UsageError("nothing to import: specify at least one file or directory")
    for path in paths:
        if not Path(path).exists():
            raise UsageError(f"{path} does not exist")
    base = normalise(typed_url(options.base)) if options.base else ""
    if "?" in base:
        raise UsageError(f"--base {options.base}: the URL of a directory has no query")
    workspace = Workspace.open_or_create(root)
    with workspace.own("import") as owner, ExitStack() as stack:
        name = collection if isinstance(collection, str) else collection.name
        before = workspace.state().settings.get(name, {})
        if isinstance(collection, str):
            collection = stored_collection(name, before)
        follower = IndexFollower(root, config.index, clock) if options.index else None
        if follower is not None:
            stack.callback(follower.close)
        session = open_session(
            workspace,
            config,
            [Job(collection, seeds_of(before, collection))],
            SessionOptions(committed=follower.committed if follower is not None else None),
            command="import",
            clock=clock,
        )
        stack.callback(session.close)
        sources = _Sources(paths, base, config.fetch.max_body)

        def read(report: Imported) -> None:
            owner.touch()
            if observer is not None:
                observer(report)

        report = _import(session, name, sources, read, in_scope=options.in_scope)
        session.claim.release()
        if follower is not None:
            follower.finish()
        return report


def _import(
    session: CrawlSession,
    name: str,
    sources: _Sources,
    read: Callable[[Imported], None],
    *,
    in_scope: bool,
) -> Imported:
    session.load()
    workspace, worker = session.workspace, session.worker
    state = workspace.state()

    def tables() -> LiveTables:
        state.refresh()
        return LiveTables(workspace, state)

    def commit_if_due() -> None:
        worker.commits.if_due()
        read(importer.report)

    importer = Importer(
        worker.processor, name, tables=tables, locate=workspace.path, commit_if_due=commit_if_due,
        commit_now=worker.commits.now, in_scope=in_scope,
    )  # fmt: skip
    report = importer.report
    for path, captures in sources.captures(report):
        importer.take(str(path), captures)
    importer.finish()
    worker.commits.now()
    return report


@dataclass(frozen=True)
class _Sources:
    """Files to read. `limit_bytes`: maximum size of a body."""

    paths: Sequence[str]
    base: str
    limit_bytes: int

    def captures(self, report: Imported) -> Iterator[tuple[Path, Iterator[ImportedCapture]]]:
        """Yield the captures of each file; other records are counted in the report."""
        limit, others = self.limit_bytes, report.others
        for path in map(Path, self.paths):
            files = [] if self.base and path.is_dir() else archives(path)
            if not files:
                yield path, folder_captures(path, self.base, limit=limit, others=others)
            for each in files:
                yield each, read_captures(each, limit=limit + _HEAD_BYTES, others=others)
