"""A workspace on S3 or a compatible store, by s3fs. Create-if-absent: `If-None-Match: *`.

Endpoint, region and credentials come from the environment, as boto reads it (AWS_ENDPOINT_URL,
AWS_REGION, AWS_ACCESS_KEY_ID, …). Listings may be stale, so names that matter are requested one by
one. s3fs repeats unanswered requests, so a PUT may be refused because of its own object; `create`
then returns False, as its contract allows.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, TypeVar, cast

import aiohttp
import s3fs
from botocore.exceptions import BotoCoreError
from s3fs.core import S3_RETRYABLE_ERRORS

from lycosa.core.errors import StorageError, UsageError
from lycosa.store.storage.files import ASIDE_SUFFIX, inside
from lycosa.store.storage.redaction import without_secrets
from lycosa.store.storage.remote import RemoteStorage

_Result = TypeVar("_Result")
_Failure = (OSError, BotoCoreError, aiohttp.ClientError, TimeoutError)
_CLIENT = {
    "connect_timeout": 5,
    "read_timeout": 30,
    "retries": {"total_max_attempts": 1, "mode": "standard"},
}
"""Without retries: s3fs makes `_S3FS_ATTEMPTS`, `_retry` repeats transient failures."""

_S3FS_ATTEMPTS = 2
"""Attempts without an answer. s3fs squares them for small files: with the defaults, an unresponsive
store gets fifty requests in 25 minutes.
"""

PAGE = 1_000
"""Keys per answer to a listing; the maximum of S3."""
_CONFLICTS, _CONFLICT_WAIT_S = 20, 0.05
_ATTEMPTS, _FIRST_WAIT_S = 6, 0.1
_UNANSWERED = 3
_TRANSIENT = frozenset(
    {
        "500",
        "502",
        "503",
        "504",
        "InternalError",
        "ServiceUnavailable",
        "SlowDown",
        "RequestTimeout",
        "OperationAborted",
    }
)
_LISTING_FIELDS = frozenset({"IsTruncated", "KeyCount", "Contents", "CommonPrefixes"})
_MISSING = frozenset({"404", "NoSuchKey"})
_WHY = {
    "AccessDenied": "access is denied: the credentials in the environment do not allow it",
    "403": "access is denied: the credentials in the environment do not allow it",
    "InvalidAccessKeyId": "the credentials in the environment are unknown to the endpoint: check "
    "AWS_ACCESS_KEY_ID and AWS_ENDPOINT_URL",
    "SignatureDoesNotMatch": "the credentials in the environment are wrong: check "
    "AWS_SECRET_ACCESS_KEY",
    "ExpiredToken": "the credentials in the environment have expired: renew AWS_SESSION_TOKEN",
    "NoSuchBucket": "the bucket does not exist: create it first",
    "NoCredentialsError": "there are no credentials in the environment: set AWS_ACCESS_KEY_ID and "
    "AWS_SECRET_ACCESS_KEY",
    "EndpointConnectionError": "the endpoint cannot be reached: check AWS_ENDPOINT_URL and the "
    "network",
}


def open_at(scheme: str, rest: str) -> S3Storage:
    """Return the storage at `BUCKET/PREFIX`. Raises UsageError without a bucket."""
    bucket, _, prefix = rest.strip("/").partition("/")
    if not bucket:
        raise UsageError("s3:// has no bucket: write s3://BUCKET/PREFIX")
    return S3Storage(bucket, inside(prefix.strip("/"), f"s3://{bucket}"))


class S3Storage(RemoteStorage):
    """Objects of a bucket below a prefix."""

    def __init__(self, bucket: str, prefix: str) -> None:
        super().__init__(f"s3://{bucket}/{prefix}" if prefix else f"s3://{bucket}")
        self._bucket = bucket
        self._prefix = f"{prefix}/" if prefix else ""
        self._client = _connect(
            tuple(
                sorted(
                    (name, value) for name, value in os.environ.items() if name.startswith("AWS_")
                )
            )
        )

    def create(self, relative: str, content: bytes, *, mode: int = 0o644) -> bool:
        """Send a conditional PUT. Concurrent ones are refused, or repeated after a conflict."""
        for _ in range(_CONFLICTS):
            refusal = self._try(
                relative, "put_object", Key=self._key(relative), Body=content, IfNoneMatch="*"
            )
            if isinstance(refusal, dict):
                return True
            if refusal in ("PreconditionFailed", "412"):
                return False
            if refusal != "ConditionalRequestConflict":
                break
            time.sleep(_CONFLICT_WAIT_S)
        raise StorageError(
            f"{self.root}/{relative}: {_WHY.get(str(refusal), f'it was not created ({refusal})')}"
        )

    def replace(
        self, relative: str, content: bytes, *, mode: int = 0o644, sync: bool = False
    ) -> None:
        self._do(relative, "put_object", Key=self._key(relative), Body=content)

    def size(self, relative: str) -> int | None:
        head = self._head(relative)
        return None if head is None else int(head["ContentLength"])

    def modified_at(self, relative: str) -> int | None:
        head = self._head(relative)
        return None if head is None else round(head["LastModified"].timestamp() * 1000)

    def names(self, relative: str) -> list[str]:
        prefix = self._key(relative, folder=True)
        names: set[str] = set()
        for page in self._pages(relative, Prefix=prefix, Delimiter="/"):
            names.update(item["Key"][len(prefix) :] for item in page.get("Contents", ()))
            names.update(
                item["Prefix"][len(prefix) : -1] for item in page.get("CommonPrefixes", ())
            )
        return sorted(name for name in names if name and not name.endswith(ASIDE_SUFFIX))

    def files_below(self, relative: str) -> list[str]:
        prefix = self._key(relative, folder=True)
        pages = self._pages(relative, Prefix=prefix)
        return sorted(
            item["Key"][len(self._prefix) :]
            for page in pages
            for item in page.get("Contents", ())
            if not item["Key"].endswith("/")
        )

    def make_folder(self, relative: str) -> str:
        """Return the URL: S3 has no folders."""
        return f"{self.root}/{relative}"

    def remove_empty_folders(self, relative: str) -> int:
        return 0

    def read_object(self, relative: str) -> bytes | None:
        try:
            content: bytes = self._guarded(
                relative, lambda: self._client.cat_file(self._at(relative), max_concurrency=1)
            )
        except FileNotFoundError:
            return None
        return content

    def remove_object(self, relative: str) -> None:
        self._do(relative, "delete_object", Key=self._key(relative))

    def upload(self, source: str, relative: str) -> None:
        self._guarded(relative, lambda: self._client.put_file(source, self._at(relative)))

    def download(self, relative: str, target: str) -> None:
        self._guarded(relative, lambda: self._client.get_file(self._at(relative), target))

    def _key(self, relative: str, *, folder: bool = False) -> str:
        path = inside(relative, self.root).removeprefix("./").strip("/")
        path = "" if path == "." else path
        return f"{self._prefix}{path}/" if folder and path else f"{self._prefix}{path}"

    def _at(self, relative: str) -> str:
        return f"{self._bucket}/{self._key(relative)}"

    def _head(self, relative: str) -> Mapping[str, Any] | None:
        answer = self._try(relative, "head_object", Key=self._key(relative))
        if isinstance(answer, dict):
            return answer
        if answer in _MISSING:
            return None
        raise StorageError(f"{self.root}/{relative}: {_WHY.get(answer, answer)}")

    def _pages(self, relative: str, **request: str) -> Iterator[dict[str, Any]]:
        token: dict[str, str] = {}
        while True:
            page = self._do(relative, "list_objects_v2", MaxKeys=PAGE, **request, **token)
            if not page.keys() & _LISTING_FIELDS:
                raise StorageError(f"{self.root}/{relative}: the store returned an invalid listing")
            yield page
            if not page.get("IsTruncated"):
                return
            token = {"ContinuationToken": page["NextContinuationToken"]}

    def _do(self, relative: str, method: str, **request: Any) -> dict[str, Any]:
        """Send one request. Raises StorageError."""
        answer: dict[str, Any] = self._guarded(
            relative, lambda: self._client.call_s3(method, Bucket=self._bucket, **request)
        )
        return answer

    def _try(self, relative: str, method: str, **request: Any) -> dict[str, Any] | str:
        """Send one request; return its answer or S3's error code. Raises StorageError."""
        answer, failure = _retry(
            lambda: self._client.call_s3(method, Bucket=self._bucket, **request)
        )
        if failure is None:
            return dict(answer or {})
        code = _code(failure)
        if code:
            return code
        raise self._problem(relative, failure)

    def _guarded(self, relative: str, act: Callable[[], _Result]) -> _Result:
        """Return the result of `act`.

        Raises:
            FileNotFoundError: there is no such object.
            StorageError: anything else, without the original error, which may contain secrets.
        """
        result, failure = _retry(act)
        if failure is None:
            return cast(_Result, result)
        code = _code(failure)
        if code in _MISSING or (isinstance(failure, FileNotFoundError) and code != "NoSuchBucket"):
            raise FileNotFoundError(f"{self.root}/{relative}")
        raise self._problem(relative, failure)

    def _problem(self, relative: str, error: BaseException) -> StorageError:
        code = _code(error) or type(error).__name__
        return StorageError(
            f"{self.root}/{relative}: {_WHY.get(code) or f'{code}: {without_secrets(str(error))}'}"
        )


def _retry(act: Callable[[], _Result]) -> tuple[_Result | None, BaseException | None]:
    """Return the result of `act`, or its last failure. All requests can be repeated: `create` is
    conditional, the others are idempotent.
    """
    wait = _FIRST_WAIT_S
    for attempt in range(_ATTEMPTS):
        try:
            return act(), None
        except _Failure as error:
            failure: BaseException = error
        most = (
            _ATTEMPTS
            if _code(failure) in _TRANSIENT
            else _UNANSWERED
            if isinstance(failure, S3_RETRYABLE_ERRORS)
            else 1
        )
        if attempt + 1 >= most:
            break
        time.sleep(wait)
        wait *= 2
    return None, failure


@lru_cache(maxsize=4)
def _connect(environment: tuple[tuple[str, str], ...]) -> s3fs.S3FileSystem:
    """Return the client of this process for an environment, for all threads. Creating one takes
    half a second.
    """
    client = s3fs.S3FileSystem(
        config_kwargs=_CLIENT, use_listings_cache=False, skip_instance_cache=True
    )
    client.retries = _S3FS_ATTEMPTS
    return client


def _code(error: BaseException) -> str:
    """Return the code of S3's answer behind an error of s3fs, "" without one."""
    response = getattr(error, "response", None) or getattr(error.__cause__, "response", None)
    return (
        str(response["Error"].get("Code", ""))
        if isinstance(response, dict) and "Error" in response
        else ""
    )
