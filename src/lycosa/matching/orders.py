"""What is looked for: the watches and calls of `find` of a workspace, one small file each in its
folder `watches`.

A file is created once and never changed; who removes a watch removes its file. So several people
and machines may add and remove at once, and a worker learns of it by listing a folder.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from lycosa.core.clock import SystemClock
from lycosa.core.errors import UsageError, WorkspaceError
from lycosa.core.units import format_time
from lycosa.matching.normalise import NAMES, Folding
from lycosa.matching.patterns import as_looked_for
from lycosa.store.storage.storage import Storage
from lycosa.store.workspace import Workspace

FOLDER = "watches"
MAX_TEXTS = 100_000
MOST_BYTES = 64 * 2**20
LONGEST_TEXT = 1_000
_MAX_NAME = 80

Kind = Literal["watch", "find"]


@dataclass(slots=True, frozen=True)
class SearchOrder:
    """What somebody looks for. A `watch` looks at all pages that are fetched from `created_at` (ms
    since 1970) on, until it is removed; a `find` at one `site` (see `lycosa.url.site_name`),
    where no copy of a page older than `max_age_ms` will do.

    `since`: the log entry after which its matches come. `notify`: targets, as
    `lycosa.notify.transports` has them. `collections`: only pages of these; none: of all.
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

    def as_json(self) -> str:
        return json.dumps(
            {
                "id": self.id,
                "kind": self.kind,
                "name": self.name,
                "texts": self.texts,
                "ignore": self.folding.names,
                "created": format_time(self.created_at),  # for people
                "created_at": self.created_at,
                "since": self.since,
                "collections": self.collections,
                "notify": self.notify,
                "site": self.site,
                "max_age_ms": self.max_age_ms,
            },
            ensure_ascii=False,
        )

    @classmethod
    def from_json(cls, content: bytes) -> SearchOrder:
        """Raises ValueError, KeyError or TypeError if it is something else."""
        found = json.loads(content)
        return cls(
            str(found["id"]),
            found["kind"],
            str(found["name"]),
            tuple(map(str, found["texts"])),
            Folding(**{name: name in found["ignore"] for name in NAMES}),
            int(found["created_at"]),
            int(found["since"]),
            tuple(map(str, found["collections"])),
            tuple(map(str, found["notify"])),
            str(found.get("site", "")),
            int(found.get("max_age_ms", 0)),
        )


@dataclass(slots=True, frozen=True)
class OrderScope:
    """The pages of an order: of collections (none: all), of a site, not older than an age."""

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
    """Make an order with an ID of its own; `write_order` stores it.

    Raises:
        UsageError: no text, too many, or one that is empty or too long.
    """
    wanted = tuple(dict.fromkeys(map(as_looked_for, texts)))
    if not wanted or "" in wanted:
        raise UsageError("nothing to search for: specify a text that is not empty")
    if len(wanted) > MAX_TEXTS:
        raise UsageError(
            f"{len(wanted):,} texts are too many for one watch (at most "
            f"{MAX_TEXTS:,}): add several watches"
        )
    longest = max(wanted, key=len)
    if len(longest) > LONGEST_TEXT:
        raise UsageError(
            f"a text of {len(longest):,} characters is too long (at most {LONGEST_TEXT:,})"
        )
    name = as_looked_for(name) or (
        wanted[0] if len(wanted) == 1 else f"{wanted[0]} and {len(wanted) - 1} more"
    )
    name = name if len(name) <= _MAX_NAME else name[: _MAX_NAME - 1] + "…"
    now_ms = SystemClock().now_ms()
    id = f"{kind}-{now_ms // 1000:x}{secrets.token_hex(3)}"
    head = workspace.state().head
    return SearchOrder(
        id,
        kind,
        name,
        wanted,
        folding,
        now_ms,
        head,
        tuple(scope.collections),
        tuple(notify),
        scope.site,
        scope.max_age_ms,
    )


def write_order(storage: Storage, order: SearchOrder) -> None:
    """Make an order known. Raises UsageError if it is too large, OSError if storage fails."""
    content = order.as_json().encode()
    if len(content) > MOST_BYTES:
        raise UsageError(
            f"the texts have {len(content):,} bytes in total, too many for one watch (at most "
            f"{MOST_BYTES:,}): add several watches"
        )
    storage.make_folder(FOLDER)
    storage.create(_path(order.id), content, mode=0o600)  # a webhook's address may hold a token


def remove_order(storage: Storage, id: str) -> None:
    """Look for it no more. What was found stays in `matches`."""
    storage.remove(_path(id))


def read_order(storage: Storage, id: str) -> SearchOrder | None:
    """An order by its id; None if there is none.

    Raises:
        WorkspaceError: its file is damaged.
    """
    content = storage.read(_path(id))
    if content is None:
        return None
    try:
        return SearchOrder.from_json(content)
    except (ValueError, KeyError, TypeError, UsageError):
        raise WorkspaceError(
            f"{storage.root}/{_path(id)} is damaged: delete it and add the watch again"
        ) from None


def read_orders(
    storage: Storage, known: Mapping[str, SearchOrder] | None = None
) -> dict[str, SearchOrder]:
    """All orders by id, oldest first; those that are `known` are not read again. A damaged file is
    left out: it must not stop a crawl.
    """
    known = known or {}
    orders: dict[str, SearchOrder] = {}
    for file in storage.names(FOLDER):
        id = file.removesuffix(".json")
        if id == file:
            continue
        try:
            order = known.get(id) or read_order(storage, id)
        except WorkspaceError:
            continue
        if order is not None:
            orders[id] = order
    return dict(sorted(orders.items(), key=lambda item: (item[1].created_at, item[0])))


def find_order(storage: Storage, name: str, kind: Kind = "watch") -> SearchOrder:
    """The order of an id, or of a name that only one has.

    Raises:
        UsageError: there is none, or several have the name.
    """
    orders = [each for each in read_orders(storage).values() if each.kind == kind]
    found = [each for each in orders if each.id == name] or [
        each for each in orders if each.name == name
    ]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(
            f"{len(found)} have the name {name!r}; specify an ID: "
            f"{', '.join(each.id for each in found)}"
        )
    known = "; ".join(f"{each.id} ({each.name})" for each in orders[:5])
    raise UsageError(f"there is no {kind} {name!r}" + (f"; available: {known}" if known else ""))


def _path(id: str) -> str:
    if not id.replace("-", "").isalnum():
        raise UsageError(f"{id!r} is not a watch ID")
    return f"{FOLDER}/{id}.json"
