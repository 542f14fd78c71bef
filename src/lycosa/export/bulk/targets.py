"""What the search clusters want to be told, and what they answer: OpenSearch's `_bulk`, Quickwit's
ingest API.

A target is asked with a list of actions and says of each whether it is settled. Both protocols are
as their makers document them (docs/decisions/0010-bulk.md has the sources).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol
from urllib.parse import quote

from lycosa.core.errors import UsageError, WorkError
from lycosa.export.bulk.actions import Action
from lycosa.export.bulk.http import RETRIED, BulkClient, BulkResponse
from lycosa.store.exclusion.exclusions import DOMAIN, PREFIX

NDJSON = "application/x-ndjson"
_RULES_AT_ONCE = 50


class ActionStatus(Enum):
    """What became of an action."""

    DONE = "done"
    AGAIN = "again"  # refused for the moment
    FAILED = "failed"  # refused for good


@dataclass(slots=True, frozen=True)
class Outcome:
    verdict: ActionStatus
    reason: str = ""


class TooLarge(Exception):
    """The request is larger than the server takes: send less at once."""


class BrokenAnswer(Exception):
    """The answer does not say what became of the actions: ask again."""


class Target(Protocol):
    """A search cluster's index. All methods raise WorkError if the server cannot be used."""

    most_bytes: int  # of a request; 0: the server says so when it is asked
    deletes: bool  # single documents can be deleted

    def size(self, action: Action) -> int:
        """Bytes that an action takes in a request."""
        ...

    def prepare(self) -> None:
        """Have an index that takes the documents."""
        ...

    def send(self, batch: Sequence[Action], *, last: bool) -> list[Outcome]:
        """Have a batch carried out; one outcome for each action. With `last`, return only when all
        that was sent before is safe.

        Raises:
            TooLarge, BrokenAnswer.
        """
        ...

    def exclude(self, rules: Sequence[str]) -> None:
        """Delete every document that exclusions name. Returns when that is done, or, where the
        server only promises it, promised.
        """
        ...


class OpenSearch:
    """An index of OpenSearch. Every document carries the log entry it comes with as its external
    version, so that what arrives late, twice or out of order changes nothing.
    """

    most_bytes = 0
    deletes = True

    def __init__(self, client: BulkClient, index: str) -> None:
        if not re.fullmatch(r"[^A-Z\\/*?\"<>| ,#:_+.-][^A-Z\\/*?\"<>| ,#:]*", index):
            raise UsageError(
                f'{index!r} is not an index name: lower case, without spaces and \\ / * ? " < > | '
                ", # :, not starting with _ - + ."
            )
        self._client = client
        self._path = f"/{quote(index, safe='')}"

    def size(self, action: Action) -> int:
        return len(self._lines(action))

    def prepare(self) -> None:
        answer = self._client.ask("HEAD", self._path)
        if answer.status == 200:
            return
        body = json.dumps({"mappings": {"properties": _MAPPINGS}}).encode()
        answer = self._client.ask("PUT", self._path, body)
        if answer.status != 200 and b"resource_already_exists_exception" not in answer.content:
            raise _unexpected("the index cannot be created", answer)

    def send(self, batch: Sequence[Action], *, last: bool) -> list[Outcome]:
        body = b"".join(map(self._lines, batch))
        answer = self._client.ask(
            "POST",
            f"{self._path}/_bulk?filter_path=errors,items.*.status,items.*.error",
            body,
            NDJSON,
        )
        if answer.status == 413:
            raise TooLarge
        document = answer.document()
        if answer.status != 200:
            raise _unexpected("the documents were refused", answer)
        items = document.get("items") if document is not None else None
        if not isinstance(items, list) or len(items) != len(batch):
            raise BrokenAnswer
        return [_judge(action, item) for action, item in zip(batch, items, strict=True)]

    def exclude(self, rules: Sequence[str]) -> None:
        fields = {name: self._field(name) for name in ("host", "domains", "url")}
        self._accept(
            "the index cannot be refreshed", self._client.ask("POST", f"{self._path}/_refresh")
        )
        for start in range(0, len(rules), _RULES_AT_ONCE):
            tests = [
                test
                for rule in rules[start : start + _RULES_AT_ONCE]
                for test in _tests(rule, fields)
            ]
            body = json.dumps(
                {"query": {"bool": {"should": tests, "minimum_should_match": 1}}}
            ).encode()
            while True:
                answer = self._client.ask(
                    "POST", f"{self._path}/_delete_by_query?conflicts=proceed&refresh=true", body
                )
                found = self._accept("excluded documents cannot be deleted", answer)
                if found.get("failures") or found.get("timed_out"):
                    raise _unexpected("some excluded documents were not deleted", answer)
                if not found.get("version_conflicts"):
                    break
                self._client.waiting.failed(
                    "another process is writing documents that have to be deleted"
                )

    def _lines(self, action: Action) -> bytes:
        what = "index" if action.document is not None else "delete"
        version = f'"version":{action.version},"version_type":"external_gte"'
        head = f'{{"{what}":{{"_id":"{action.id}",{version}}}}}\n'.encode()
        return head if action.document is None else head + action.document + b"\n"

    def _field(self, name: str) -> str:
        """The field by which `name` can be looked up whole: itself, or what OpenSearch makes beside
        it when nobody told it.
        """
        found = self._accept(
            "the mapping cannot be read", self._client.ask("GET", f"{self._path}/_mapping")
        )
        for index in found.values():
            properties = index.get("mappings", {}).get("properties", {})
            kind = properties.get(name, {})
            if kind.get("type") == "keyword":
                return name
            if kind.get("fields", {}).get("keyword", {}).get("type") == "keyword":
                return f"{name}.keyword"
        raise WorkError(
            f"the index does not map `{name}` as a keyword, so excluded pages cannot "
            "be deleted: export into a new index"
        )

    def _accept(self, trouble: str, answer: BulkResponse) -> dict[str, Any]:
        document = answer.document()
        if answer.status != 200 or document is None:
            raise _unexpected(trouble, answer)
        return document


def _judge(action: Action, item: object) -> Outcome:
    """What an item of a `_bulk` answer says."""
    said = next(iter(item.values()), None) if isinstance(item, dict) else None
    status = said.get("status") if isinstance(said, dict) else None
    if not isinstance(said, dict) or not isinstance(status, int):
        raise BrokenAnswer
    if (
        status < 300
        or status == 409
        or (status == 404 and action.document is None and "error" not in said)
    ):
        return Outcome(ActionStatus.DONE)  # 409: something later is there
    error = said.get("error")
    reason = (
        f"{error.get('type', '')}: {error.get('reason', '')}"
        if isinstance(error, dict)
        else str(error or "")
    )
    return Outcome(
        ActionStatus.AGAIN if status in RETRIED else ActionStatus.FAILED, f"{status} {reason}"[:500]
    )


def _tests(rule: str, fields: Mapping[str, str]) -> list[dict[str, Any]]:
    """An exclusion as queries of which one must match. `fields`: where `host`, `domains` and `url`
    stand whole.
    """
    kind, _, value = rule.partition(":")
    if kind == PREFIX:
        return [{"prefix": {fields["url"]: f"{scheme}://{value}"}} for scheme in ("http", "https")]
    if kind == DOMAIN:
        return [{"term": {fields["domains"]: value}}]
    return [{"term": {fields["host"]: name}} for name in (value, f"{value}.")]


class Quickwit:
    """An index of Quickwit. It only ever adds: a page that changed is one more document with the
    same `id` and a higher `log_entry`, and so is one whose answer was lost. Exclusions are delete
    tasks, which Quickwit carries out later.
    """

    most_bytes = 10 * 10**6
    deletes = False

    def __init__(self, client: BulkClient, index: str) -> None:
        if not re.fullmatch(r"[a-zA-Z][a-zA-Z0-9_-]{2,254}", index):
            raise UsageError(
                f"{index!r} is not an index ID: a letter, then letters, digits, - "
                "and _, at least 3 characters"
            )
        self._client = client
        self._index = index

    def size(self, action: Action) -> int:
        return len(action.document or b"") + 1

    def prepare(self) -> None:
        answer = self._client.ask("GET", f"/api/v1/indexes/{self._index}")
        if answer.status == 404:
            raise WorkError(
                f"Quickwit has no index {self._index!r}: create it first "
                "(docs/decisions/0010-bulk.md has a mapping)"
            )
        if answer.status != 200:
            raise _unexpected("the index cannot be read", answer)

    def send(self, batch: Sequence[Action], *, last: bool) -> list[Outcome]:
        body = b"".join((action.document or b"") + b"\n" for action in batch)
        answer = self._client.ask(
            "POST",
            f"/api/v1/{self._index}/ingest?commit={'wait_for' if last else 'auto'}",
            body,
            NDJSON,
        )
        if answer.status == 413:
            raise TooLarge
        if answer.status != 200:
            raise _unexpected("the documents were refused", answer)
        document = answer.document()
        taken = document.get("num_docs_for_processing") if document is not None else None
        if document is None or taken != len(batch):
            raise BrokenAnswer
        rejected = document.get("num_rejected_docs") or 0
        return [Outcome(ActionStatus.DONE)] * (len(batch) - rejected) + [
            Outcome(ActionStatus.FAILED, "rejected: see the server's log")
        ] * rejected

    def exclude(self, rules: Sequence[str]) -> None:
        for rule in rules:
            body = json.dumps({"query": _query(rule)}).encode()
            answer = self._client.ask("POST", f"/api/v1/{self._index}/delete-tasks", body)
            if answer.status != 200:
                raise _unexpected("excluded documents cannot be deleted", answer)


def _query(rule: str) -> str:
    """An exclusion in Quickwit's query language; `host` and `url` are indexed raw, `domains` holds
    every name above the host.
    """
    kind, _, value = rule.partition(":")
    if kind == PREFIX:
        return " OR ".join(
            f"url:{_escaped(f'{scheme}://{value}')}*" for scheme in ("http", "https")
        )
    if kind == DOMAIN:
        return f"domains:{_escaped(value)}"
    return " OR ".join(f"host:{_escaped(name)}" for name in (value, f"{value}."))


def _escaped(word: str) -> str:
    """Quickwit's reserved characters escaped."""
    return re.sub(r"""([-+^`:{}"\[\]()~!\\*\s])""", r"\\\1", word)


def _unexpected(trouble: str, answer: BulkResponse) -> WorkError:
    return WorkError(f"{trouble}: the server returned HTTP {answer.status}: {answer.excerpt}")


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
}
