"""A workspace on HDFS, by fsspec's WebHDFS: create-if-absent is write aside, then RENAME, whose
boolean says who was first.

The user is HADOOP_USER_NAME, or HADOOP_DELEGATION_TOKEN holds a token. The NameNode sends every
reader and writer of bytes to a DataNode, and for a while also to one that is dead: then it is asked
again, with that one's address left out. A file counts as safe when HDFS has closed it: as many
DataNodes as its replication have it in memory, or on disk with `dfs.datanode.synconclose`.
"""

from __future__ import annotations

import functools
import getpass
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import urlsplit

import requests
from fsspec.implementations.webhdfs import WebHDFS

from lycosa.core.errors import StorageError, UsageError
from lycosa.store.storage.local import ASIDE_SUFFIX, inside
from lycosa.store.storage.redaction import without_secrets
from lycosa.store.storage.remote import RemoteStorage

_Result = TypeVar("_Result")
_Failure = (OSError, RuntimeError, ValueError, requests.RequestException)
_TIMEOUT_S = (5.0, 60.0)  # to connect; without a byte
_ATTEMPTS, _FIRST_WAIT_S, _MAX_WAIT_S = 10, 0.1, 5.0
"""About 25 s in all: the NameNode gives a DataNode up, or leaves it out as stale, after 30 s or as
it is configured.
"""
_CHUNK = 1 << 20


def open_at(scheme: str, rest: str) -> HdfsStorage:
    """The storage at `HOST:PORT/PATH`. Raises UsageError if there is no port or no path."""
    address, _, path = rest.partition("/")
    host, _, port = address.rpartition(":")
    path = path.strip("/")
    if not host or not port.isdigit() or not path:
        raise UsageError(
            f"{scheme}:// is incomplete: write {scheme}://HOST:PORT/PATH with the "
            "HTTP port of the NameNode"
        )
    return HdfsStorage(scheme, host, int(port), inside(path, f"{scheme}://{address}"))


class HdfsStorage(RemoteStorage):
    """A folder of HDFS."""

    def __init__(self, scheme: str, host: str, port: int, path: str) -> None:
        super().__init__(f"{scheme}://{host}:{port}/{path}")
        token = os.environ.get("HADOOP_DELEGATION_TOKEN")
        who = (
            {"token": token}
            if token
            else {"user": os.environ.get("HADOOP_USER_NAME") or getpass.getuser()}
        )
        self._arguments: dict[str, Any] = {
            "host": host,
            "port": port,
            "use_https": scheme == "swebhdfs",
            **who,
        }
        self._path = f"/{path}"
        self._own = threading.local()  # a session of `requests` is not for several threads

    def create(self, relative: str, content: bytes, *, mode: int = 0o644) -> bool:
        """Write aside and rename: false if there is one already.

        Where the rename's answer is lost, removing the file aside tells: it is gone exactly if it
        was renamed, and what is removed can not be renamed any more.
        """
        aside = self._aside(relative)
        self._write(aside, content)
        try:
            done = self._guarded(
                relative,
                lambda: self._files._call(
                    "RENAME", "put", aside, destination=self._at(relative)
                ).json()["boolean"],
            )
        except StorageError:
            if self._delete(aside):
                raise
            return True
        if not done:
            self._delete(aside)
        return bool(done)

    def replace(
        self, relative: str, content: bytes, *, mode: int = 0o644, sync: bool = False
    ) -> None:
        """Write aside and rename over the old one."""
        aside = self._aside(relative)
        self._write(aside, content)
        target = self._at(relative)
        self._guarded(
            relative,
            lambda: self._files._call(
                "RENAME", "put", aside, destination=target, renameoptions="OVERWRITE"
            ),
        )

    def size(self, relative: str) -> int | None:
        """Bytes of a file; None for a folder too."""
        status = self._status(relative)
        return int(status["length"]) if status and status["type"] == "FILE" else None

    def modified_at(self, relative: str) -> int | None:
        """A file's time."""
        status = self._status(relative)
        return int(status["modificationTime"]) if status else None

    def names(self, relative: str) -> list[str]:
        """One listing."""
        found = (str(status["pathSuffix"]) for status in self._list(relative))
        return sorted(name for name in found if name and not name.endswith(ASIDE_SUFFIX))

    def files_below(self, relative: str) -> list[str]:
        """A listing a folder."""
        found: list[str] = []
        for status in self._list(relative):
            path = f"{relative}/{status['pathSuffix']}".removeprefix("./")
            if not status["pathSuffix"]:
                continue
            found.extend([path] if status["type"] == "FILE" else self.files_below(path))
        return sorted(found)

    def make_folder(self, relative: str) -> str:
        """MKDIRS."""
        self._guarded(relative, lambda: self._files._call("MKDIRS", "put", self._at(relative)))
        return f"{self.root}/{relative}"

    def remove_folder(self, relative: str) -> bool:
        """DELETE that is not recursive."""
        status = self._status(relative)
        if status is None or status["type"] == "FILE" or self._list(relative):
            return False
        try:
            return self._delete(self._at(relative))
        except StorageError:
            return False  # somebody put a file into it meanwhile

    def remove_empty_below(self, relative: str) -> int:
        """Bottom up."""
        below = [status for status in self._list(relative) if status["type"] != "FILE"]
        removed = sum(
            self.remove_empty_below(f"{relative}/{status['pathSuffix']}") for status in below
        )
        return removed + self.remove_folder(relative)

    def remove_tree(self, relative: str) -> None:
        """What counts first, then all of it."""
        super().remove_tree(relative)
        self._guarded(
            relative,
            lambda: self._files._call("DELETE", "delete", self._at(relative), recursive="true"),
        )

    def _read(self, relative: str) -> bytes | None:
        try:
            return bytes(
                self._with_bytes(relative, "OPEN", lambda session, url: session.get(url)).content
            )
        except FileNotFoundError:
            return None

    def _remove(self, relative: str) -> None:
        self._delete(self._at(relative))

    def _send(self, source: str, relative: str) -> None:
        def put(session: requests.Session, url: str) -> requests.Response:
            with open(source, "rb") as file:
                return session.put(url, data=file, headers=_BYTES)

        self._with_bytes(relative, "CREATE", put, overwrite="true")

    def _fetch(self, relative: str, target: str) -> None:
        def get(session: requests.Session, url: str) -> requests.Response:
            with session.get(url, stream=True) as answer, open(target, "wb") as file:
                if answer.ok:
                    for chunk in answer.iter_content(_CHUNK):
                        file.write(chunk)
            return answer

        self._with_bytes(relative, "OPEN", get)

    def _write(self, path: str, content: bytes) -> None:
        def put(session: requests.Session, url: str) -> requests.Response:
            return session.put(url, data=content, headers=_BYTES)

        self._with_bytes(path, "CREATE", put, overwrite="true")

    def _delete(self, path: str) -> bool:
        answer: bool = self._guarded(
            path,
            lambda: self._files._call("DELETE", "delete", path, recursive="false").json()[
                "boolean"
            ],
        )
        return answer

    def _status(self, relative: str) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = self._again(
                relative,
                lambda: self._files._call("GETFILESTATUS", path=self._at(relative)).json()[
                    "FileStatus"
                ],
            )
        except FileNotFoundError:
            return None
        return found

    def _list(self, relative: str) -> list[dict[str, Any]]:
        try:
            found: list[dict[str, Any]] = self._again(
                relative,
                lambda: self._files._call("LISTSTATUS", path=self._at(relative)).json()[
                    "FileStatuses"
                ]["FileStatus"],
            )
        except FileNotFoundError:
            return []
        return found

    def _at(self, relative: str) -> str:
        if relative.startswith(f"{self._path}/"):
            return relative  # it is a file aside
        path = inside(relative, self.root).strip("/")
        return self._path if path in ("", ".") else f"{self._path}/{path}"

    def _aside(self, relative: str) -> str:
        return f"{os.path.dirname(self._at(relative))}/.{uuid.uuid4().hex}{ASIDE_SUFFIX}"

    @property
    def _files(self) -> WebHDFS:
        files: WebHDFS | None = getattr(self._own, "files", None)
        if files is None:
            files = WebHDFS(**self._arguments, skip_instance_cache=True, use_listings_cache=False)
            files.session.request = functools.partial(files.session.request, timeout=_TIMEOUT_S)
            self._own.files = files
        return files

    def _with_bytes(
        self,
        relative: str,
        operation: str,
        act: Callable[[requests.Session, str], requests.Response],
        **query: str,
    ) -> requests.Response:
        """Ask the NameNode where to go, and go there; somewhere else if nobody answers there. `act`
        may be done several times.

        Raises:
            FileNotFoundError: there is no such file.
            StorageError: no DataNode did it.
        """
        away: list[str] = []
        method = "put" if operation == "CREATE" else "get"

        def once() -> requests.Response:
            asked: requests.Response = self._files._call(
                operation,
                method,
                self._at(relative),
                redirect=False,
                **query,
                **({"excludedatanodes": ",".join(away)} if away else {}),
            )
            where = asked.headers.get("Location")
            if where is None:
                return asked  # an empty file has no DataNode
            try:
                answer = act(self._files.session, where)
                answer.raise_for_status()
            except requests.RequestException:
                away[:] = [_address(where)]
                raise
            return answer

        return self._again(relative, once)

    def _again(self, relative: str, act: Callable[[], _Result]) -> _Result:
        """What `act` gives, at the latest at its last attempt. Raises as `_guarded` does."""
        wait = _FIRST_WAIT_S
        for _ in range(_ATTEMPTS - 1):
            try:
                return self._guarded(relative, act)
            except StorageError as error:
                if not isinstance(error, _Passing):
                    raise
            time.sleep(wait)
            wait = min(2 * wait, _MAX_WAIT_S)
        return self._guarded(relative, act)

    def _guarded(self, relative: str, act: Callable[[], _Result]) -> _Result:
        """What `act` gives.

        Raises:
            FileNotFoundError: there is no such file. StorageError: anything else; with no other
            error behind it, whose text might tell a secret.
        """
        try:
            return act()
        except _Failure as error:
            failure = error
        status = getattr(getattr(failure, "response", None), "status_code", 0)
        place = f"{self.root}/{relative.removeprefix(self._path).lstrip('/')}"
        if isinstance(failure, FileNotFoundError) or status == 404:
            raise FileNotFoundError(place)
        if isinstance(failure, PermissionError) or status in (401, 403):
            raise StorageError(
                f"{place}: access denied: check HADOOP_USER_NAME or "
                "HADOOP_DELEGATION_TOKEN, and the owner of the folder"
            )
        message = f"{place}: {type(failure).__name__}: {without_secrets(str(failure))}"
        raise (
            _Passing(message)
            if isinstance(failure, requests.RequestException)
            else StorageError(message)
        )


class _Passing(StorageError):
    """Nobody answered, or said that it cannot now: another attempt may help."""


_BYTES = {"Content-Type": "application/octet-stream"}


def _address(url: str) -> str:
    """The address of a DataNode, as the NameNode knows it."""
    host = urlsplit(url).hostname or ""
    try:
        return socket.gethostbyname(host)
    except OSError:
        return host
