"""The search clusters of a bulk export: OpenSearch (`_bulk`) and Quickwit (ingest API).

Sources of both protocols: docs/decisions/0010-bulk.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote

from lycosa.core.errors import UsageError, WorkError
from lycosa.export.bulk.actions import BulkAction
from lycosa.export.bulk.http import RETRIED, BulkClient, BulkResponse
from lycosa.store.exclusion.exclusions import DOMAIN, PREFIX

NDJSON = "application/x-ndjson"
_RULES_PER_QUERY = 50


class Rejection(NamedTuple):
    """Why the server did not execute an action. `temporary`: it may execute it later."""

    reason: str
    temporary: bool = False


class RequestTooLarge(Exception):
    """The server refuses requests of this size: send fewer actions."""


class IncompleteResponse(Exception):
    """The response does not contain the result of each action: repeat the request."""


class Target(Protocol):
    """The index of a search cluster. All methods raise WorkError if the server cannot be used."""

    max_bytes: int  # of a request; 0: the server refuses larger ones
    deletes: bool  # whether it deletes single documents

    def size(self, action: BulkAction) -> int:
        """Return the bytes of an action in a request."""
        ...

    def prepare(self) -> None:
        """Create the index if possible, or verify that it exists."""
        ...

    def send(self, batch: Sequence[BulkAction], *, last: bool) -> list[Rejection | None]:
        """Execute a batch; return one result per action, None for success.

        With `last`, returns after all earlier documents are durable.

        Raises:
            RequestTooLarge, IncompleteResponse.
        """
        ...

    def exclude(self, rules: Sequence[str]) -> None:
        """Delete the documents that exclusions cover. Quickwit does it later."""
        ...


class OpenSearch:
    """An index of OpenSearch.

    The log entry of a document is its external version, so late, repeated and reordered requests
    change nothing.
    """

    max_bytes = 0
    deletes = True

    def __init__(self, client: BulkClient, index: str) -> None:
        if not re.fullmatch(r"[^A-Z\\/*?\"<>| ,#:_+.-][^A-Z\\/*?\"<>| ,#:]*", index):
            raise UsageError(
                f'{index!r} is not an index name: lower case, without spaces and \\ / * ? " < > | '
                ", # :, not starting with _ - + ."
            )
        self._client = client
        self._path = f"/{quote(index, safe='')}"

    def size(self, action: BulkAction) -> int:
        return len(_lines(action))

    def prepare(self) -> None:
        if self._client.request("HEAD", self._path).status == 200:
            return
        body = json.dumps({"mappings": {"properties": _MAPPINGS}}).encode()
        response = self._client.request("PUT", self._path, body)
        if response.status != 200 and b"resource_already_exists_exception" not in response.content:
            raise _unexpected("the index cannot be created", response)

    def send(self, batch: Sequence[BulkAction], *, last: bool) -> list[Rejection | None]:
        path = f"{self._path}/_bulk?filter_path=errors,items.*.status,items.*.error"
        body = b"".join(map(_lines, batch))
        items = _sent(self._client, path, body).get("items")
        if not isinstance(items, list) or len(items) != len(batch):
            raise IncompleteResponse
        return [_result(action, item) for action, item in zip(batch, items, strict=True)]

    def exclude(self, rules: Sequence[str]) -> None:
        mapping = self._document("the mapping cannot be read", "GET", "_mapping")
        fields = {name: _keyword_field(mapping, name) for name in ("host", "domains", "url")}
        self._document("the index cannot be refreshed", "POST", "_refresh")
        for start in range(0, len(rules), _RULES_PER_QUERY):
            group = rules[start : start + _RULES_PER_QUERY]
            queries = [query for rule in group for query in _queries(rule, fields)]
            query = {"query": {"bool": {"should": queries, "minimum_should_match": 1}}}
            self._delete(json.dumps(query).encode())

    def _delete(self, query: bytes) -> None:
        """Delete the matching documents, repeatedly while others write them."""
        path = "_delete_by_query?conflicts=proceed&refresh=true"
        while True:
            result = self._document("excluded documents cannot be deleted", "POST", path, query)
            if result.get("failures") or result.get("timed_out"):
                excerpt = json.dumps(result)[:300]
                raise WorkError(f"some excluded documents were not deleted: {excerpt}")
            if not result.get("version_conflicts"):
                return
            self._client.backoff.failure(
                "another process is writing documents that have to be deleted"
            )

    def _document(
        self, problem: str, method: str, path: str, body: bytes | None = None
    ) -> dict[str, Any]:
        response = self._client.request(method, f"{self._path}/{path}", body)
        document = response.document()
        if response.status != 200 or document is None:
            raise _unexpected(problem, response)
        return document


def _lines(action: BulkAction) -> bytes:
    operation = "index" if action.document is not None else "delete"
    version = f'"version":{action.version},"version_type":"external_gte"'
    head = f'{{"{operation}":{{"_id":"{action.id}",{version}}}}}\n'.encode()
    return head if action.document is None else head + action.document + b"\n"


def _keyword_field(mapping: Mapping[str, Any], name: str) -> str:
    """Return the field with the whole value of `name`.

    It is `name` itself, or the field that OpenSearch adds to a text field by default.
    """
    for index in mapping.values():
        kind = index.get("mappings", {}).get("properties", {}).get(name, {})
        if kind.get("type") == "keyword":
            return name
        if kind.get("fields", {}).get("keyword", {}).get("type") == "keyword":
            return f"{name}.keyword"
    raise WorkError(
        f"the index does not map `{name}` as a keyword, so excluded pages cannot "
        "be deleted: export into a new index"
    )


def _result(action: BulkAction, item: object) -> Rejection | None:
    """Return the result of an action from its item in a `_bulk` response."""
    result = next(iter(item.values()), None) if isinstance(item, dict) else None
    status = result.get("status") if isinstance(result, dict) else None
    if not isinstance(result, dict) or not isinstance(status, int):
        raise IncompleteResponse
    error = result.get("error")
    absent = status == 404 and action.document is None and error is None
    if status < 300 or status == 409 or absent:  # 409: a newer version is stored
        return None
    if isinstance(error, dict):
        error = f"{error.get('type', '')}: {error.get('reason', '')}"
    return Rejection(f"{status} {error or ''}"[:500], status in RETRIED)


def _queries(rule: str, fields: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return an exclusion as queries of which one must match. `fields`: the keyword fields."""
    kind, _, value = rule.partition(":")
    if kind == PREFIX:
        return [{"prefix": {fields["url"]: f"{scheme}://{value}"}} for scheme in ("http", "https")]
    if kind == DOMAIN:
        return [{"term": {fields["domains"]: value}}]
    return [{"term": {fields["host"]: name}} for name in (value, f"{value}.")]


class Quickwit:
    """An index of Quickwit, which is append-only.

    A changed page is a further document with the same `id` and a higher `log_entry`. A repeated
    request adds further documents too. Exclusions are delete tasks, which Quickwit executes later.
    """

    max_bytes = 10 * 10**6
    deletes = False

    def __init__(self, client: BulkClient, index: str) -> None:
        if not re.fullmatch(r"[a-zA-Z][a-zA-Z0-9_-]{2,254}", index):
            raise UsageError(
                f"{index!r} is not an index ID: a letter, then letters, digits, - "
                "and _, at least 3 characters"
            )
        self._client = client
        self._index = index

    def size(self, action: BulkAction) -> int:
        return len(action.document or b"") + 1

    def prepare(self) -> None:
        response = self._client.request("GET", f"/api/v1/indexes/{self._index}")
        if response.status == 404:
            raise WorkError(
                f"Quickwit has no index {self._index!r}: create it first "
                "(docs/decisions/0010-bulk.md has a mapping)"
            )
        if response.status != 200:
            raise _unexpected("the index cannot be read", response)

    def send(self, batch: Sequence[BulkAction], *, last: bool) -> list[Rejection | None]:
        path = f"/api/v1/{self._index}/ingest?commit={'wait_for' if last else 'auto'}"
        body = b"".join((action.document or b"") + b"\n" for action in batch)
        document = _sent(self._client, path, body)
        if document.get("num_docs_for_processing") != len(batch):
            raise IncompleteResponse
        rejected = document.get("num_rejected_docs") or 0
        rejection = Rejection("rejected: see the server's log")
        return [None] * (len(batch) - rejected) + [rejection] * rejected

    def exclude(self, rules: Sequence[str]) -> None:
        for rule in rules:
            body = json.dumps({"query": _quickwit_query(rule)}).encode()
            response = self._client.request("POST", f"/api/v1/{self._index}/delete-tasks", body)
            if response.status != 200:
                raise _unexpected("excluded documents cannot be deleted", response)


def _quickwit_query(rule: str) -> str:
    """Return an exclusion in Quickwit's query language.

    `host` and `url` are indexed raw; `domains` contains the host and each domain above it.
    """
    kind, _, value = rule.partition(":")
    if kind == PREFIX:
        urls = (_escaped(f"{scheme}://{value}") for scheme in ("http", "https"))
        return " OR ".join(f"url:{url}*" for url in urls)
    if kind == DOMAIN:
        return f"domains:{_escaped(value)}"
    return " OR ".join(f"host:{_escaped(name)}" for name in (value, f"{value}."))


def _escaped(word: str) -> str:
    """Escape the reserved characters of Quickwit."""
    return re.sub(r"""([-+^`:{}"\[\]()~!\\*\s])""", r"\\\1", word)


def _sent(client: BulkClient, path: str, body: bytes) -> dict[str, Any]:
    """Send documents, and return the response. Raises RequestTooLarge or WorkError."""
    response = client.request("POST", path, body, NDJSON)
    if response.status == 413:
        raise RequestTooLarge
    if response.status != 200:
        raise _unexpected("the documents were refused", response)
    return response.document() or {}


def _unexpected(problem: str, response: BulkResponse) -> WorkError:
    return WorkError(f"{problem}: the server returned HTTP {response.status}: {response.excerpt}")


# Lucene's longest term has 32,766 bytes
_KEYWORD: dict[str, Any] = {"type": "keyword", "ignore_above": 8_191}
_TEXT: dict[str, Any] = {"type": "text"}
_MAPPINGS: dict[str, Any] = {
    **dict.fromkeys(
        (
            "id",
            "url",
            "host",
            "domains",
            "collection",
            "language",
            "canonical",
            "text_digest",
            "record_id",
        ),
        _KEYWORD,
    ),
    **dict.fromkeys(("title", "headline", "description", "headings", "main_text", "text"), _TEXT),
    **{name: {"type": "date", "ignore_malformed": True} for name in ("fetched_at", "published_at")},
    **{name: {"type": "long"} for name in ("size", "log_entry")},
    # dates and numbers of pages: a field that does not parse must not refuse the document
    "metadata": {
        "properties": {
            **dict.fromkeys(("headline", "description"), _TEXT),
            **{
                name: {"type": "date", "ignore_malformed": True}
                for name in ("published_at", "modified_at")
            },
            **{
                name: {"type": "double", "ignore_malformed": True}
                for name in ("price", "rating", "best_rating", "rating_count")
            },
        }
    },
}
