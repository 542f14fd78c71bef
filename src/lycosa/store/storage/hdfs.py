"""A workspace on HDFS, by fsspec's WebHDFS. Create-if-absent: write aside, then RENAME.

The user is HADOOP_USER_NAME, or HADOOP_DELEGATION_TOKEN contains a token. The NameNode redirects
readers and writers to a DataNode, for a while also to a dead one: then the request is repeated
without the addresses that have failed. A file is durable when HDFS has closed it: all of its
replicas are in memory, or on disk with `dfs.datanode.synconclose`.
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
from lycosa.store.storage.files import TEMPORARY_SUFFIX, inside
from lycosa.store.storage.remote import RemoteStorage, without_secrets

_Result = TypeVar("_Result")
_Failure = (OSError, RuntimeError, ValueError, requests.RequestException)
_TIMEOUT_S = (5.0, 60.0)  # connect, read
_ATTEMPTS, _FIRST_WAIT_S, _MAX_WAIT_S = 10, 0.1, 5.0
"""About 25 s in total: the NameNode treats a DataNode as stale after 30 s by default."""
_CHUNK = 1 << 20


def open_at(scheme: str, rest: str) -> HdfsStorage:
    """Return the storage at `HOST:PORT/PATH`. Raises UsageError without port or path."""
    address, _, path = rest.partition("/")
    host, _, port = address.rpartition(":")
    path = path.strip("/")
    if not host or not port.isdigit() or not path:
        raise UsageError(
            f"{scheme}:// is incomplete: write {scheme}://HOST:PORT/PATH with the "
            "HTTP port of the NameNode"
        )
    return HdfsStorage(scheme, host, int(port), path)


class HdfsStorage(RemoteStorage):
    """A folder of HDFS."""

    def __init__(self, scheme: str, host: str, port: int, path: str) -> None:
        super().__init__(f"{scheme}://{host}:{port}/{path}")
        token = os.environ.get("HADOOP_DELEGATION_TOKEN")
        user = (
            {"token": token}
            if token
            else {"user": os.environ.get("HADOOP_USER_NAME") or getpass.getuser()}
        )
        self._arguments: dict[str, Any] = {
            "host": host,
            "port": port,
            "use_https": scheme == "swebhdfs",
            **user,
        }
        self._path = f"/{path}"
        self._per_thread = threading.local()  # sessions of `requests` are not thread-safe

    def create(self, relative: str, content: bytes, *, mode: int = 0o644) -> bool:
        """Write aside and rename; False if the name exists.

        If the response to the rename is lost, the file aside is deleted: that fails exactly if it
        was renamed.
        """
        temporary = self._temporary_path(relative)
        self._write(temporary, content)
        try:
            done = self._guarded(
                relative,
                lambda: self._client._call(
                    "RENAME", "put", temporary, destination=self._at(relative)
                ).json()["boolean"],
            )
        except StorageError:
            if self._delete(temporary):
                raise
            return True
        if not done:
            self._delete(temporary)
        return bool(done)

    def replace(
        self, relative: str, content: bytes, *, mode: int = 0o644, sync: bool = False
    ) -> None:
        temporary = self._temporary_path(relative)
        self._write(temporary, content)
        target = self._at(relative)
        self._guarded(
            relative,
            lambda: self._client._call(
                "RENAME", "put", temporary, destination=target, renameoptions="OVERWRITE"
            ),
        )

    def size(self, relative: str) -> int | None:
        """Return the bytes of a file; None for a folder."""
        status = self._status(relative)
        return int(status["length"]) if status and status["type"] == "FILE" else None

    def modified_at(self, relative: str) -> int | None:
        status = self._status(relative)
        return int(status["modificationTime"]) if status else None

    def names(self, relative: str) -> list[str]:
        names = (str(status["pathSuffix"]) for status in self._list(relative))
        return sorted(name for name in names if name and not name.endswith(TEMPORARY_SUFFIX))

    def files_below(self, relative: str) -> list[str]:
        paths: list[str] = []
        for status in self._list(relative):
            path = f"{relative}/{status['pathSuffix']}".removeprefix("./")
            if not status["pathSuffix"]:
                continue
            paths.extend([path] if status["type"] == "FILE" else self.files_below(path))
        return sorted(paths)

    def make_folder(self, relative: str) -> str:
        self._guarded(relative, lambda: self._client._call("MKDIRS", "put", self._at(relative)))
        return f"{self.root}/{relative}"

    def remove_empty_folders(self, relative: str) -> int:
        below = [status for status in self._list(relative) if status["type"] != "FILE"]
        removed = sum(
            self.remove_empty_folders(f"{relative}/{status['pathSuffix']}") for status in below
        )
        return removed + self._remove_empty(relative)

    def _remove_empty(self, relative: str) -> bool:
        status = self._status(relative)
        if status is None or status["type"] == "FILE" or self._list(relative):
            return False
        try:
            return self._delete(self._at(relative))
        except StorageError:
            return False  # another process created a file in it

    def read_object(self, relative: str) -> bytes | None:
        try:
            return bytes(
                self._with_bytes(relative, "OPEN", lambda session, url: session.get(url)).content
            )
        except FileNotFoundError:
            return None

    def remove_object(self, relative: str) -> None:
        self._delete(self._at(relative))

    def upload(self, source: str, relative: str) -> None:
        def put(session: requests.Session, url: str) -> requests.Response:
            with open(source, "rb") as file:
                return session.put(url, data=file, headers=_BYTES)

        self._with_bytes(relative, "CREATE", put, overwrite="true")

    def download(self, relative: str, target: str) -> None:
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
            lambda: self._client._call("DELETE", "delete", path, recursive="false").json()[
                "boolean"
            ],
        )
        return answer

    def _status(self, relative: str) -> dict[str, Any] | None:
        try:
            status: dict[str, Any] = self._retry(
                relative,
                lambda: self._client._call("GETFILESTATUS", path=self._at(relative)).json()[
                    "FileStatus"
                ],
            )
        except FileNotFoundError:
            return None
        return status

    def _list(self, relative: str) -> list[dict[str, Any]]:
        try:
            statuses: list[dict[str, Any]] = self._retry(
                relative,
                lambda: self._client._call("LISTSTATUS", path=self._at(relative)).json()[
                    "FileStatuses"
                ]["FileStatus"],
            )
        except FileNotFoundError:
            return []
        return statuses

    def _at(self, relative: str) -> str:
        if relative.startswith(f"{self._path}/"):
            return relative  # a file aside
        path = inside(relative, self.root).strip("/")
        return self._path if path in ("", ".") else f"{self._path}/{path}"

    def _temporary_path(self, relative: str) -> str:
        return f"{os.path.dirname(self._at(relative))}/.{uuid.uuid4().hex}{TEMPORARY_SUFFIX}"

    @property
    def _client(self) -> WebHDFS:
        files: WebHDFS | None = getattr(self._per_thread, "files", None)
        if files is None:
            files = WebHDFS(**self._arguments, skip_instance_cache=True, use_listings_cache=False)
            files.session.request = functools.partial(files.session.request, timeout=_TIMEOUT_S)
            self._per_thread.files = files
        return files

    def _with_bytes(
        self,
        relative: str,
        operation: str,
        act: Callable[[requests.Session, str], requests.Response],
        **query: str,
    ) -> requests.Response:
        """Get a DataNode from the NameNode and run `act` there, on another one after a failure.

        Raises:
            FileNotFoundError: there is no such file.
            StorageError: no DataNode succeeded.
        """
        failed_nodes: list[str] = []
        method = "put" if operation == "CREATE" else "get"

        def once() -> requests.Response:
            excluded = {"excludedatanodes": ",".join(failed_nodes)} if failed_nodes else {}
            try:
                redirect_answer: requests.Response = self._client._call(
                    operation, method, self._at(relative), redirect=False, **query, **excluded
                )
            except RuntimeError:
                if not failed_nodes:
                    raise
                failed_nodes.clear()  # no other one is left: they may work again
                return once()
            location = redirect_answer.headers.get("Location")
            if location is None:
                return redirect_answer  # an empty file has no DataNode
            try:
                answer = act(self._client.session, location)
                answer.raise_for_status()
            except requests.RequestException:
                failed_nodes.append(_address(location))
                raise
            return answer

        return self._retry(relative, once)

    def _retry(self, relative: str, act: Callable[[], _Result]) -> _Result:
        """Return the result of `act`, repeated after failures. Raises as `_guarded` does."""
        wait = _FIRST_WAIT_S
        for _ in range(_ATTEMPTS - 1):
            try:
                return self._guarded(relative, act)
            except StorageError as error:
                if not isinstance(error, _TransientError):
                    raise
            time.sleep(wait)
            wait = min(2 * wait, _MAX_WAIT_S)
        return self._guarded(relative, act)

    def _guarded(self, relative: str, act: Callable[[], _Result]) -> _Result:
        """Return the result of `act`.

        Raises:
            FileNotFoundError: there is no such file.
            StorageError: anything else, without the original error, which may contain secrets.
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
        if isinstance(failure, requests.ConnectionError) and failure.request is not None:
            address = urlsplit(str(failure.request.url)).netloc
            message = f"{place}: {address} cannot be reached: check host, port and network"
        raise (
            _TransientError(message)
            if isinstance(failure, requests.RequestException)
            else StorageError(message)
        )


class _TransientError(StorageError):
    """No response, or a temporary failure: another attempt may succeed."""


_BYTES = {"Content-Type": "application/octet-stream"}


def _address(url: str) -> str:
    """Return the address of a DataNode, by which the NameNode can exclude it."""
    host = urlsplit(url).hostname or ""
    try:
        return socket.gethostbyname(host)
    except OSError:
        return host
