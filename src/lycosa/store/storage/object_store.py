"""A workspace in an object store, by obstore: S3 and compatible, Google Cloud Storage, Azure.

Create-if-absent is a conditional PUT (`If-None-Match: *` on S3). Endpoint, region and credentials
come from the environment (AWS_…, GOOGLE_…, AZURE_…) or from the role of the machine. Listings may
be stale, so names that matter are requested one by one. obstore reads an error document with
status 200 as an empty listing; an empty listing is therefore confirmed by another request.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import from_url

from lycosa.core.errors import StorageError, UsageError
from lycosa.store.storage.files import TEMPORARY_SUFFIX, inside
from lycosa.store.storage.remote import IDENTITY, RemoteStorage, without_secrets

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import ClientConfig, ObjectStore, RetryConfig

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")
CLIENT: ClientConfig = {
    "connect_timeout": timedelta(seconds=5),
    "read_timeout": timedelta(seconds=60),
    "timeout": timedelta(hours=6),
}
"""`read_timeout` ends a request without received bytes, while a part is uploaded too."""

RETRIES: RetryConfig = {
    "max_retries": 5,
    "retry_timeout": timedelta(seconds=120),
    "backoff": {"init_backoff": timedelta(milliseconds=100)},
}
_PART_BYTES, _PARTS_IN_FLIGHT = 5 << 20, 2
_CHUNK_BYTES = 1 << 20
_CONFLICT = "ConditionalRequestConflict"
_CONFLICTS, _CONFLICT_WAIT_S = 20, 0.05
_BROKEN, _MAX_LISTINGS = "list response body", 3
_FIRST_NAME = "-"
"""Sorts before all names of files and folders in a workspace."""

MAX_STALE_S = 600
"""An empty listing is an error of the store if workspace.json is older than this."""

_NO_BUCKET = "NoSuchBucket"
_ENDPOINT = re.compile(r"https?://[^\s/]+(/\S*)?")
_ENVIRONMENT = ("AWS_", "GOOGLE_", "AZURE_")
_WHY = {
    "AccessDenied": "access is denied: the credentials in the environment do not allow it",
    "InvalidAccessKeyId": "the credentials in the environment are unknown to the endpoint: check "
    "AWS_ACCESS_KEY_ID and AWS_ENDPOINT_URL",
    "SignatureDoesNotMatch": "the credentials in the environment are wrong: check "
    "AWS_SECRET_ACCESS_KEY",
    "ExpiredToken": "the credentials in the environment have expired: renew AWS_SESSION_TOKEN",
    _NO_BUCKET: "the bucket does not exist: create it first",
    "http://169.254.169.254": "there are no credentials in the environment: set AWS_ACCESS_KEY_ID "
    "and AWS_SECRET_ACCESS_KEY, or for gs:// GOOGLE_SERVICE_ACCOUNT",
    "403 Forbidden": "access is denied: the credentials in the environment do not allow it",
    "error sending request": "the endpoint cannot be reached: check AWS_ENDPOINT_URL and the "
    "network",
}
"""Text in an error of obstore -> its meaning. The first match counts."""


def open_at(scheme: str, rest: str) -> ObjectStorage:
    """Return the storage at `BUCKET/PREFIX`. Raises UsageError without a bucket."""
    bucket, _, prefix = rest.strip("/").partition("/")
    if not bucket:
        raise UsageError(f"{scheme}:// has no bucket: write {scheme}://BUCKET/PREFIX")
    return ObjectStorage(f"{scheme}://{bucket}", prefix)


class ObjectStorage(RemoteStorage):
    """Objects of a bucket below a prefix.

    Raises:
        UsageError: the environment does not describe a usable client.
    """

    def __init__(self, bucket_url: str, prefix: str) -> None:
        super().__init__(f"{bucket_url}/{prefix}" if prefix else bucket_url)
        self._prefix = f"{prefix}/" if prefix else ""
        environment = [item for item in os.environ.items() if item[0].startswith(_ENVIRONMENT)]
        problem = ""
        try:
            self._store = _connect(bucket_url, tuple(sorted(environment)))
        except (BaseError, OSError, ValueError) as error:
            problem = without_secrets(str(error))
        if problem:
            raise UsageError(f"{bucket_url}: the environment is incomplete or invalid: {problem}")

    def create(self, relative: str, content: bytes, *, mode: int = 0o644) -> bool:
        """Send a conditional PUT; repeat it while concurrent ones conflict.

        It may also be refused because of its own object, after a lost response.
        """
        for _ in range(_CONFLICTS):
            try:
                self._call(relative, obstore.put, content, mode="create")
                return True
            except AlreadyExistsError as error:
                if _CONFLICT not in str(error):
                    return False
            time.sleep(_CONFLICT_WAIT_S)
        raise StorageError(f"{self.root}/{relative}: it was not created ({_CONFLICT})")

    def replace(
        self, relative: str, content: bytes, *, mode: int = 0o644, sync: bool = False
    ) -> None:
        self._call(relative, obstore.put, content)

    def size(self, relative: str) -> int | None:
        head = self._head(relative)
        return None if head is None else head["size"]

    def modified_at(self, relative: str) -> int | None:
        head = self._head(relative)
        return None if head is None else round(head["last_modified"].timestamp() * 1000)

    def names(self, relative: str) -> list[str]:
        names = [path.rpartition("/")[2] for path in self._list(relative, _list_folder)]
        return sorted(name for name in names if not name.endswith(TEMPORARY_SUFFIX))

    def files_below(self, relative: str) -> list[str]:
        paths = self._list(relative, _list_paths)
        return sorted(path.removeprefix(self._prefix) for path in paths)

    def make_folder(self, relative: str) -> str:
        """Return the URL: object stores have no folders."""
        return f"{self.root}/{relative}"

    def remove_empty_folders(self, relative: str) -> int:
        return 0

    def read_object(self, relative: str) -> bytes | None:
        try:
            return self._call(relative, _read)
        except FileNotFoundError:
            return None

    def remove_object(self, relative: str) -> None:
        try:
            self._call(relative, _delete)
        except FileNotFoundError:
            return

    def upload(self, source: str, relative: str) -> None:
        self._call(
            relative,
            obstore.put,
            Path(source),
            chunk_size=_PART_BYTES,
            max_concurrency=_PARTS_IN_FLIGHT,
        )

    def download(self, relative: str, target: str) -> None:
        self._call(relative, _save, target)

    def _head(self, relative: str) -> ObjectMeta | None:
        try:
            return self._call(relative, obstore.head)
        except FileNotFoundError:
            return None

    def _list(self, relative: str, listing: Callable[[ObjectStore, str], list[str]]) -> list[str]:
        """Repeat a listing whose response is incomplete or an error document.

        obstore repeats only failed requests.
        """
        problem = f"{self.root}/{relative}: the store returned no valid listing"
        for _ in range(_MAX_LISTINGS):
            try:
                paths = self._call(relative, listing)
            except StorageError as error:
                if _BROKEN not in str(error):
                    raise
                problem = str(error)
                continue
            if paths or self._is_empty(relative):
                return paths
        raise StorageError(problem)

    def _is_empty(self, relative: str) -> bool:
        """Confirm an empty listing by the keys that follow the name of the folder.

        The first is in the folder, or the folder is empty. There is always one in a valid listing:
        workspace.json sorts after all folders.
        """
        folder = self._key(relative)
        following = self._call(".", _list_after, f"{folder}/{_FIRST_NAME}".lstrip("/"))
        if following:
            return not following[0].startswith(f"{folder}/".lstrip("/"))
        created_at = self.modified_at(IDENTITY)
        return created_at is None or time.time() - created_at / 1000 < MAX_STALE_S

    def _key(self, relative: str) -> str:
        path = inside(relative, self.root).removeprefix("./").strip("/")
        return (self._prefix + ("" if path == "." else path)).strip("/")

    def _call(
        self,
        relative: str,
        operation: Callable[Concatenate[ObjectStore, str, _Parameters], _Result],
        *args: _Parameters.args,
        **options: _Parameters.kwargs,
    ) -> _Result:
        """Run an operation on a file or folder of the workspace.

        Raises:
            FileNotFoundError: there is no such object.
            AlreadyExistsError: the name of a conditional PUT is taken.
            StorageError: anything else, without the original error, which may contain secrets.
        """
        key = self._key(relative)
        try:
            return operation(self._store, key, *args, **options)
        except AlreadyExistsError:
            raise
        except (BaseError, OSError, ValueError) as error:
            missing = isinstance(error, FileNotFoundError)
            text = str(error)
        if missing and _NO_BUCKET not in text:
            raise FileNotFoundError(f"{self.root}/{relative}")
        reasons = (reason for code, reason in _WHY.items() if code in text)
        raise StorageError(f"{self.root}/{relative}: {next(reasons, without_secrets(text))}")


def _read(store: ObjectStore, key: str) -> bytes:
    return obstore.get(store, key).bytes().to_bytes()


def _save(store: ObjectStore, key: str, target: str) -> None:
    chunks = obstore.get(store, key).stream(_CHUNK_BYTES)
    with open(target, "wb") as file:
        for chunk in chunks:
            file.write(chunk)


def _delete(store: ObjectStore, key: str) -> None:
    obstore.delete(store, key)


def _list_folder(store: ObjectStore, key: str) -> list[str]:
    listing = obstore.list_with_delimiter(store, key)
    return [*(item["path"] for item in listing["objects"]), *listing["common_prefixes"]]


def _list_paths(store: ObjectStore, key: str) -> list[str]:
    return [item["path"] for item in obstore.list(store, key).collect()]


def _list_after(store: ObjectStore, key: str, after: str) -> list[str]:
    """Return the first paths below `key` that sort after `after`."""
    chunk = next(iter(obstore.list(store, key, offset=after)), [])
    return [item["path"] for item in chunk]


@lru_cache(maxsize=4)
def _connect(bucket_url: str, environment: tuple[tuple[str, str], ...]) -> ObjectStore:
    """Return the client of this process for a bucket and an environment, for all threads."""
    endpoint = dict(environment).get("AWS_ENDPOINT_URL", "")
    if endpoint and not _ENDPOINT.fullmatch(endpoint):  # obstore would panic
        raise ValueError("AWS_ENDPOINT_URL is not an http or https URL")
    client: ClientConfig = {**CLIENT, "allow_http": endpoint.startswith("http://")}
    return from_url(bucket_url, client_options=client, retry_config=RETRIES)
