"""The search orders of a workspace: watches and calls of `find`, a file each in `watches/`.

A file is created once and never changed, and deleted to remove the order. Thus several users and
machines can add and remove orders concurrently, and a worker lists a folder to follow them.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Literal

from pydantic import TypeAdapter

from lycosa.core.clock import SystemClock
from lycosa.core.dataclass import dataclass
from lycosa.core.errors import UsageError, WorkspaceError
from lycosa.matching.normalise import Folding
from lycosa.matching.patterns import normalized_text
from lycosa.store.storage.storage import Storage
from lycosa.store.workspace import Workspace

FOLDER = "watches"
MAX_TEXTS = 100_000
MAX_BYTES = 64 * 2**20
MAX_TEXT_LENGTH = 1_000
_MAX_NAME = 80

Kind = Literal["watch", "find"]


@dataclass(slots=True, frozen=True)
class SearchOrder:
    """Texts to search for.

    A `watch` covers all pages fetched from `created_at` (ms since 1970) on; a `find` covers one
    `site` (see `lycosa.url.site_name`), and copies of pages older than `max_age_ms` do not count.

    `since`: its matches are in later log entries. `notify`: targets (`lycosa.notify.transports`).
    `collections`: only pages of these; (): of all.
    """

    id: str
    kind: Kind
    name: str
    texts: tuple[str, ...]
    folding: Folding
    created_at: int
    since: int
    collections: tuple[str, ...] = ()
    notify: tuple[str, ...] = ()
    site: str = ""
    max_age_ms: int = 0

    def as_json(self) -> bytes:
        return _json().dump_json(self)

    @classmethod
    def from_json(cls, content: bytes) -> SearchOrder:
        """Parse the result of `as_json`. Raises ValueError if it is invalid."""
        return _json().validate_json(content)


@cache
def _json() -> TypeAdapter[SearchOrder]:
    return TypeAdapter(SearchOrder)


@dataclass(slots=True, frozen=True)
class OrderScope:
    """The pages of an order: of these collections ((): all), of a site, not older than an age."""

    collections: Sequence[str] = ()
    site: str = ""
    max_age_ms: int = 0


def new_order(
    workspace: Workspace,
    kind: Kind,
    texts: Sequence[str],
    folding: Folding,
    scope: OrderScope = OrderScope(),
    *,
    name: str = "",
    notify: Sequence[str] = (),
) -> SearchOrder:
    """Return an order with a new ID; `write_order` stores it.

    Raises:
        UsageError: no text, too many, or one that is empty or too long.
    """
    texts = tuple(dict.fromkeys(map(normalized_text, texts)))
    if not texts or "" in texts:
        raise UsageError("nothing to search for: specify a text that is not empty")
    if len(texts) > MAX_TEXTS:
        raise UsageError(
            f"{len(texts):,} texts are too many for one watch (at most "
            f"{MAX_TEXTS:,}): add several watches"
        )
    longest = max(map(len, texts))
    if longest > MAX_TEXT_LENGTH:
        raise UsageError(
            f"a text of {longest:,} characters is too long (at most {MAX_TEXT_LENGTH:,})"
        )
    others = f" and {len(texts) - 1} more" if len(texts) > 1 else ""
    name = normalized_text(name) or f"{texts[0]}{others}"
    now_ms = SystemClock().now_ms()
    return SearchOrder(
        id=f"{kind}-{now_ms // 1000:x}{secrets.token_hex(3)}",
        kind=kind,
        name=name if len(name) <= _MAX_NAME else f"{name[: _MAX_NAME - 1]}…",
        texts=texts,
        folding=folding,
        created_at=now_ms,
        since=workspace.state().head,
        collections=tuple(scope.collections),
        notify=tuple(notify),
        site=scope.site,
        max_age_ms=scope.max_age_ms,
    )


def write_order(storage: Storage, order: SearchOrder) -> None:
    """Store an order. Raises UsageError if it is too large, OSError if storage fails."""
    content = order.as_json()
    if len(content) > MAX_BYTES:
        raise UsageError(
            f"the texts have {len(content):,} bytes in total, too many for one watch (at most "
            f"{MAX_BYTES:,}): add several watches"
        )
    storage.make_folder(FOLDER)
    storage.create(_path(order.id), content, mode=0o600)  # the URL of a webhook may contain a token


def remove_order(storage: Storage, id: str) -> None:
    """Remove an order; its matches remain."""
    storage.remove(_path(id))


def read_order(storage: Storage, id: str) -> SearchOrder | None:
    """Return an order by its ID, or None.

    Raises:
        WorkspaceError: its file is damaged.
    """
    content = storage.read(_path(id))
    if content is None:
        return None
    try:
        return SearchOrder.from_json(content)
    except ValueError:
        raise WorkspaceError(
            f"{storage.root}/{_path(id)} is damaged: delete it and add the watch again"
        ) from None


def read_orders(
    storage: Storage, loaded: Mapping[str, SearchOrder] | None = None
) -> dict[str, SearchOrder]:
    """Return all orders by ID, oldest first; those already `loaded` are not read again.

    Damaged files are skipped: they must not stop a crawl.
    """
    orders: list[SearchOrder] = []
    for file in storage.names(FOLDER):
        id = file.removesuffix(".json")
        if id == file:
            continue
        with suppress(WorkspaceError):
            order = (loaded or {}).get(id) or read_order(storage, id)
            if order is not None:
                orders.append(order)
    orders.sort(key=lambda order: (order.created_at, order.id))
    return {order.id: order for order in orders}


def find_order(storage: Storage, name: str, kind: Kind = "watch") -> SearchOrder:
    """Return the order with an ID or a unique name.

    Raises:
        UsageError: there is none, or several have the name.
    """
    orders = [each for each in read_orders(storage).values() if each.kind == kind]
    matches = [each for each in orders if each.id == name] or [
        each for each in orders if each.name == name
    ]
    if len(matches) > 1:
        raise UsageError(
            f"{len(matches)} have the name {name!r}; specify an ID: "
            f"{', '.join(each.id for each in matches)}"
        )
    if not matches:
        available = "; ".join(f"{each.id} ({each.name})" for each in orders[:5])
        raise UsageError(
            f"there is no {kind} {name!r}" + (f"; available: {available}" if available else "")
        )
    return matches[0]


def _path(id: str) -> str:
    if not id.replace("-", "").isalnum():
        raise UsageError(f"{id!r} is not a watch ID")
    return f"{FOLDER}/{id}.json"
