"""A workspace: the folder, or the place on S3 or HDFS, that contains one crawl.

`workspace.json` is written once. It contains the constants: the format, the number of
partitions, the hash, the version of the URL normalisation, and the public suffix list. Everything
else is in the log.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from functools import cached_property
from typing import Any

import xxhash

from lycosa.core.clock import Clock, SystemClock
from lycosa.core.dataclass import dataclass
from lycosa.core.errors import NewerError, StorageError, UsageError, WorkspaceError
from lycosa.core.units import format_time
from lycosa.store.coordination.leadership import require_no_leader
from lycosa.store.coordination.owner import Owner, OwnerNote, own, owner_of
from lycosa.store.log.claim import Claim, acquire
from lycosa.store.log.entry import FOLDER
from lycosa.store.log.log import Log
from lycosa.store.log.state import LogState
from lycosa.store.storage.storage import Storage, open_storage
from lycosa.url.domain import Domains, bundled_suffix_list
from lycosa.url.normalise import NORMALISER_VERSION

FORMAT = 1
"""The format that this program reads and writes: kinds of log entry, hash, meaning of columns."""
HASH = "xxh3_64"
DEFAULT_PARTITIONS, MAX_PARTITIONS = 64, 4096
FILE = "workspace.json"
CONFIGURATION = "lycosa.toml"


@dataclass(frozen=True)
class Workspace:
    """An open workspace. Only workspace.json has been read; `state()` reads the log."""

    storage: Storage
    partitions: int
    created_at: str
    normaliser: int
    suffix_list: str = field(repr=False)

    @classmethod
    def create(cls, root: str, partitions: int = DEFAULT_PARTITIONS) -> Workspace:
        """Create a workspace in a folder that is new, empty, or has only a lycosa.toml.

        Raises:
            UsageError: `partitions` is out of bounds, or the storage is not supported.
            WorkspaceError: the folder is a workspace already, or not empty.
        """
        if not 1 <= partitions <= MAX_PARTITIONS:
            raise UsageError(f"a workspace has 1 to {MAX_PARTITIONS} partitions, not {partitions}")
        storage = open_storage(root)
        if storage.size(FILE) is not None:
            raise WorkspaceError(
                f"{storage.root} is already a workspace: use it, or specify "
                "another folder with -w DIR"
            )
        _require_free(storage)
        document = {
            "format": FORMAT,
            "created_at": format_time(SystemClock().now_ms()),
            "partitions": partitions,
            "hash": HASH,
            "normaliser": NORMALISER_VERSION,
            "suffix_list": bundled_suffix_list(),
        }
        try:
            storage.make_folder(".")
            storage.verify_conditional_put()
            created = storage.create(
                FILE, sealed(json.dumps(document, ensure_ascii=False, indent=1).encode())
            )
        except StorageError:
            raise
        except OSError as error:
            raise WorkspaceError(
                f"{storage.root} cannot be initialized as a workspace: {error.strerror}; specify "
                "another folder with -w DIR"
            ) from None
        if not created:
            raise WorkspaceError(
                f"{storage.root} was just initialized as a workspace by another "
                "process: run the command again to use it"
            )
        return cls.open(root)

    @classmethod
    def open(cls, root: str) -> Workspace:
        """Open an existing workspace.

        Raises:
            UsageError: the storage is not supported.
            WorkspaceError: there is no workspace, it is damaged, or its format is unknown.
        """
        storage = open_storage(root)
        try:
            content = storage.read(FILE)
        except (IsADirectoryError, PermissionError) as error:
            raise WorkspaceError(
                f"{storage.root} cannot be read as a workspace: {error.strerror}"
            ) from None
        if content is None:
            raise WorkspaceError(
                f"{storage.root} is not a workspace: it has no {FILE}; specify the right folder "
                "with -w DIR, "
                f"or create one with `lycosa init` or `lycosa crawl URL`"
            )
        return _decode(storage, content)

    @classmethod
    def open_or_create(cls, root: str, partitions: int = DEFAULT_PARTITIONS) -> Workspace:
        """Open a workspace, or create it. Raises the same errors as both."""
        storage = open_storage(root)
        if storage.size(FILE) is None:
            try:
                return cls.create(root, partitions)
            except WorkspaceError:
                if storage.size(FILE) is None:
                    raise
        return cls.open(root)

    @property
    def root(self) -> str:
        """The absolute path of the workspace's folder, or its URL."""
        return self.storage.root

    @cached_property
    def log(self) -> Log:
        return Log(self.storage)

    @cached_property
    def domains(self) -> Domains:
        """Registrable domains according to the workspace's public suffix list."""
        return Domains(self.suffix_list)

    def path(self, relative: str) -> str:
        """Return `DataFiles.local_path` of a data file."""
        return self.storage.files.local_path(relative)

    def state(self) -> LogState:
        """Return the current state of the log. Raises WorkspaceError: it is damaged or too new."""
        state = LogState(self.log)
        state.refresh()
        return state

    def claim(
        self,
        worker: str,
        partitions: Iterable[int] | None = None,
        settings: Mapping[str, Any] | None = None,
        clock: Clock | None = None,
    ) -> Claim:
        """Claim partitions (default: all) for a worker, durably, before replay and any fetch.

        `settings` are the current settings by collection as JSON values, for `explain`.

        Raises:
            UsageError: a partition does not exist.
            WorkspaceError: the log is damaged, or the URL normalisation has changed.
        """
        if self.normaliser != NORMALISER_VERSION:
            raise WorkspaceError(
                f"{self.root} was created with URL normalisation {self.normaliser}, but this "
                f"version has {NORMALISER_VERSION}: it can "
                "be read and searched, but not crawled; crawl it with the version that created "
                "it, or import its WARC files "
                "into a new workspace"
            )
        claimed = range(self.partitions) if partitions is None else sorted(set(partitions))
        if not claimed or claimed[0] < 0 or claimed[-1] >= self.partitions:
            raise UsageError(
                f"partitions are 0 to {self.partitions - 1} in {self.root}, not {list(claimed)}"
            )
        ticks = clock or SystemClock()
        return acquire(
            self.storage,
            self.log,
            worker,
            claimed,
            settings or {},
            lambda: format_time(ticks.now_ms()),
        )

    def own(
        self,
        command: str,
        clock: Clock | None = None,
        report: Callable[[str], None] | None = None,
    ) -> Owner:
        """Become the only process of this machine that crawls here.

        See `require_no_leader`: waits for `reassign` (30 s) after a cluster of several machines was
        killed.

        Raises:
            OwnedError: another process or a cluster crawls here.
        """
        owner = own(self.storage, command, clock)
        try:
            require_no_leader(self.storage, clock, report)
        except BaseException:
            owner.release()
            raise
        return owner

    def owner(self) -> OwnerNote | None:
        """Return the note of the process of this machine that crawls here, or None."""
        return owner_of(self.storage)


_SEAL = b',\n "digest": "'


def sealed(document: bytes) -> bytes:
    """Append the xxh3_128 of a JSON document to it as its last member."""
    return b"".join((document[:-2], _SEAL, xxhash.xxh3_128_hexdigest(document).encode(), b'"\n}\n'))


def _require_free(storage: Storage) -> None:
    try:
        names = storage.names(".")
    except NotADirectoryError:
        raise WorkspaceError(f"{storage.root} is a file: specify a folder with -w DIR") from None
    if FOLDER in names and storage.names(FOLDER):
        raise WorkspaceError(
            f"{storage.root} has a log but no {FILE}: the workspace is damaged; "
            f"restore {FILE} from a backup"
        )
    if names and CONFIGURATION not in names:  # with it, the folder is meant to be a workspace
        raise WorkspaceError(
            f"{storage.root} is not empty and not a workspace (it contains {names[0]!r}): "
            "specify a new folder with "
            "-w DIR, or empty this folder"
        )


def _decode(storage: Storage, content: bytes) -> Workspace:
    where = os.path.join(storage.root, FILE)
    try:
        document = json.loads(content)
        version = document["format"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise WorkspaceError(
            f"{where} is damaged: restore it from a backup (it is written once and never changes)"
        ) from None
    if version != FORMAT:
        newer = isinstance(version, int) and version > FORMAT
        remedy = (
            "upgrade with `pip install -U lycosa`"
            if newer
            else "it was not written by any released Lycosa"
        )
        kind = NewerError if newer else WorkspaceError
        raise kind(
            f"{where} has format {version!r}, but this version needs format {FORMAT}: {remedy}"
        )
    if document.get("hash") != HASH:
        raise WorkspaceError(
            f"{where} has the hash function {document.get('hash')!r}, but format {FORMAT} uses "
            f"{HASH}: restore it from a backup"
        )
    partitions, normaliser, suffixes = (
        document.get("partitions"),
        document.get("normaliser"),
        document.get("suffix_list"),
    )
    if (
        not isinstance(partitions, int)
        or not 1 <= partitions <= MAX_PARTITIONS
        or not isinstance(normaliser, int)
        or not isinstance(suffixes, str)
    ):
        raise WorkspaceError(
            f"{where} is damaged: partitions, normaliser or suffix_list is "
            "missing; restore it from a backup"
        )
    if content != sealed(content[: content.rfind(_SEAL)] + b"\n}"):
        raise WorkspaceError(
            f"{where} is damaged: its bytes have changed since it was written; "
            "restore it from a backup"
        )
    return Workspace(storage, partitions, str(document.get("created_at", "")), normaliser, suffixes)
