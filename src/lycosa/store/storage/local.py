"""A workspace in a folder of a file system, local or mounted.

Create-if-absent is a hard link (or a rename without replacing), which fails if the name is taken.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from lycosa.core.errors import WorkspaceError
from lycosa.processes.disk import sync_file, sync_folder
from lycosa.processes.platform import rename_exclusive
from lycosa.store.storage.files import (
    TEMPORARY_SUFFIX,
    DataFile,
    DataFiles,
    PublishedFolders,
    file_digest,
    inside,
)

_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS)


class LocalStorage:
    """A folder of a file system; see `Storage`."""

    on_disk = True

    def __init__(self, root: str) -> None:
        self.root = root
        self.files: DataFiles = LocalDataFiles(self)
        self.folders: PublishedFolders = LocalFolders(self)

    def path(self, relative: str) -> str:
        """Return the absolute path of a file. Raises WorkspaceError outside the workspace."""
        return os.path.join(self.root, inside(relative, self.root))

    def create(self, relative: str, content: bytes, *, mode: int = 0o644) -> bool:
        self.refuse_links(os.path.dirname(relative))
        target = self.path(relative)
        temporary = _temporary_path(target)
        try:
            _write(temporary, target, content, mode, sync=True)
            try:
                _link(temporary, target)
            except FileExistsError:
                return False
        finally:
            Path(temporary).unlink(missing_ok=True)
        sync_folder(os.path.dirname(target))
        return True

    def replace(
        self, relative: str, content: bytes, *, mode: int = 0o644, sync: bool = False
    ) -> None:
        self.refuse_links(os.path.dirname(relative))
        target = self.path(relative)
        temporary = _temporary_path(target)
        try:
            _write(temporary, target, content, mode, sync=sync)
            os.replace(temporary, target)
        finally:
            Path(temporary).unlink(missing_ok=True)
        if sync:
            sync_folder(os.path.dirname(target))

    def read(self, relative: str) -> bytes | None:
        """Return the content of a file, None if there is none; empty for pipes and devices, which
        may never end.
        """
        try:
            descriptor = os.open(self.path(relative), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except (FileNotFoundError, NotADirectoryError):
            return None
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISREG(mode):
            with open(descriptor, "rb", buffering=0) as file:
                return file.read()
        os.close(descriptor)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), self.path(relative))
        return b""

    def size(self, relative: str) -> int | None:
        status = self._status(relative)
        return None if status is None else status.st_size

    def modified_at(self, relative: str) -> int | None:
        status = self._status(relative)
        return None if status is None else status.st_mtime_ns // 1_000_000

    def names(self, relative: str) -> list[str]:
        try:
            return sorted(
                name
                for name in os.listdir(self.path(relative))
                if not name.endswith(TEMPORARY_SUFFIX)
            )
        except FileNotFoundError:
            return []

    def files_below(self, relative: str) -> list[str]:
        root = self.path(relative)
        paths = [os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names]
        return sorted(os.path.join(relative, os.path.relpath(path, root)) for path in paths)

    def make_folder(self, relative: str, *, fresh: bool = False) -> str:
        """Create a folder and its parents durably. With `fresh`, raises FileExistsError."""
        self.refuse_links(relative)
        target = os.path.normpath(self.path(relative))
        missing = []
        parent = os.path.dirname(target)
        while not os.path.isdir(parent):
            missing.append(parent)
            parent = os.path.dirname(parent)
        for folder in (*reversed(missing), target):
            try:
                os.mkdir(folder)
            except FileExistsError:
                if not os.path.isdir(folder) or (fresh and folder == target):
                    raise
            else:
                sync_folder(os.path.dirname(folder))
        return target

    def remove(self, relative: str) -> None:
        self.refuse_links(os.path.dirname(relative))
        Path(self.path(relative)).unlink(missing_ok=True)

    def remove_empty_folders(self, relative: str) -> int:
        self.refuse_links(relative)
        walk = os.walk(self.path(relative), topdown=False)
        return sum(map(_remove_empty, (folder for folder, _, _ in walk)))

    def refuse_links(self, folder: str) -> None:
        """Raise WorkspaceError if a folder in which something changes is behind a symbolic link.

        In the workspace of another person, the link may lead to any folder of this machine.
        """
        path = self.root
        for name in Path(folder).parts:
            path = os.path.join(path, name)
            if os.path.islink(path):
                raise WorkspaceError(
                    f"{path} is a symbolic link to {os.path.realpath(path)}: nothing is written or "
                    "deleted there; if the folder belongs to this workspace, move it to the place "
                    "of the link"
                )

    def sync(self, relative: str) -> None:
        """Make the bytes of a file durable."""
        sync_file(self.path(relative))

    def sync_folder(self, relative: str) -> None:
        sync_folder(self.path(relative))

    def verify_conditional_put(self) -> None:
        """Do nothing: links are atomic."""

    def scratch_dir(self) -> str:
        return self.make_folder("run")

    def lock_path(self, relative: str) -> str:
        """Return the path in the workspace; the caller creates its folder."""
        return self.path(relative)

    def _status(self, relative: str) -> os.stat_result | None:
        try:
            return os.stat(self.path(relative))
        except (FileNotFoundError, NotADirectoryError):
            return None


class LocalDataFiles(DataFiles):
    """Data files in a folder: drafts are the files themselves, and there are no copies."""

    def __init__(self, storage: LocalStorage) -> None:
        self._storage = storage

    def new_folder(self, relative: str) -> str:
        return self._storage.make_folder(relative, fresh=True)

    def draft_path(self, relative: str) -> str:
        self._storage.make_folder(os.path.dirname(relative))
        return self._storage.path(relative)

    def publish(self, rows: Mapping[str, int], *, as_of: int = 0) -> list[DataFile]:
        files = []
        for relative, count in rows.items():
            path = self._storage.path(relative)
            self._storage.sync(relative)
            size = os.stat(path).st_size
            files.append(
                DataFile(relative, count, size, file_digest(path), as_of, merged=as_of > 0)
            )
        for folder in sorted({os.path.dirname(path) for path in rows}):
            self._storage.sync_folder(folder)
        return files

    def draft_names(self, folder: str) -> list[str]:
        return self._storage.names(folder)

    def draft_size(self, relative: str) -> int | None:
        return self._storage.size(relative)

    def local_path(self, relative: str, size: int = 0, digest: str = "") -> str:
        return self._storage.path(relative)

    def digest(self, relative: str) -> str:
        return file_digest(self._storage.path(relative))


class LocalFolders:
    """Published folders in a folder: a rename publishes or removes them."""

    def __init__(self, storage: LocalStorage) -> None:
        self._storage = storage

    def staging_dir(self, relative: str) -> str:
        return self._storage.make_folder(relative)

    def publish(self, source: str, relative: str) -> bool:
        for name in os.listdir(source):
            sync_file(os.path.join(source, name))
        sync_folder(source)
        target = self._storage.path(relative)
        try:
            os.rename(source, target)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                return False
            raise
        sync_folder(os.path.dirname(target))
        return True

    def local_path(self, relative: str) -> str | None:
        path = self._storage.path(relative)
        return path if os.path.isdir(path) else None

    def remove(self, relative: str) -> None:
        self._storage.refuse_links(relative)
        path = self._storage.path(relative)
        temporary = _temporary_path(path)
        try:
            os.rename(path, temporary)
        except FileNotFoundError:
            return
        with suppress(FileNotFoundError):  # `build_folder` removes such folders too
            shutil.rmtree(temporary)


def _temporary_path(target: str) -> str:
    return os.path.join(os.path.dirname(target), f".{uuid.uuid4().hex}{TEMPORARY_SUFFIX}")


def _remove_empty(folder: str) -> bool:
    try:
        os.rmdir(folder)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            return False
        raise
    return True


def _write(path: str, final: str, content: bytes, mode: int, *, sync: bool) -> None:
    """Write a new file. An OSError names the `final` path that the file would have had."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with open(descriptor, "wb", buffering=0) as file:
            view = memoryview(content)
            while view:
                view = view[file.write(view) :]
            if sync:
                os.fsync(file.fileno())
    except OSError as error:
        error.filename = final
        raise


def _link(temporary: str, target: str) -> None:
    """Give a file its name if that is free.

    File systems without hard links (exFAT, some network and FUSE file systems) rename without
    replacing instead.

    Raises:
        FileExistsError: the name is taken.
        OSError: the file system supports neither.
    """
    try:
        os.link(temporary, target)
        return
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
    rename_exclusive(temporary, target)
