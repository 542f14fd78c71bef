"""Submissions of URLs and of finds, and URLs proposed by the public.

Each proposal is a small file in `run/moderation/` until a user with a token accepts or rejects it.
Its URL is not fetched before. An accepted URL is submitted like any other: scope and exclusions
apply. The address guard refuses private addresses when the connection is made.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from lycosa.commands.crawl_models import AddedUrls, FindSubmission
from lycosa.config.settings import Config
from lycosa.core.clock import Clock, SystemClock
from lycosa.core.errors import UrlError, UsageError
from lycosa.core.units import format_time
from lycosa.crawl.session.submission import Submitted, submit
from lycosa.fetch.guard import is_public
from lycosa.find.find import submit_find
from lycosa.store.storage.storage import Storage, json_documents, open_storage
from lycosa.url.normalise import normalise, typed_url
from lycosa.url.scope import hostname

FOLDER = "run/moderation"
MAX_WAITING = 1_000
MAX_NOTE = 500

_ID = re.compile(r"\d{13}-[0-9a-f]{32}")


@dataclass(slots=True, frozen=True)
class Proposal:
    """A proposed URL. `note`: text from the visitor who proposed it."""

    id: str
    url: str
    note: str
    at: str


def propose(storage: Storage, url: str, note: str = "", clock: Clock | None = None) -> Proposal:
    """Store a proposal for moderation.

    Repeated proposals of a URL are stored once.

    Raises:
        UsageError: the URL may not be proposed, or too many proposals wait.
    """
    try:
        plain = normalise(url.strip())
    except UrlError as error:
        raise UsageError(str(error)) from None
    if not plain.startswith(("http://", "https://")):
        raise UsageError("the URL must begin with http:// or https://")
    host = hostname(plain)
    if (
        "." not in host.strip(".")
        or host.endswith((".localhost", ".local", ".internal"))
        or (_is_literal(host) and not is_public(host))
    ):
        raise UsageError(f"{host} is not a public host")
    waiting = proposals(storage)
    duplicate = next((each for each in waiting if each.url == plain), None)
    if duplicate is not None:
        return duplicate
    if len(waiting) >= MAX_WAITING:
        raise UsageError("too many proposals are waiting for review: try again in a few days")
    now_ms = (clock or SystemClock()).now_ms()
    proposal = Proposal(
        f"{now_ms:013d}-{uuid.uuid4().hex}",
        plain,
        " ".join(note.split())[:MAX_NOTE],
        format_time(now_ms),
    )
    document = {"url": proposal.url, "note": proposal.note, "at": proposal.at}
    storage.make_folder(FOLDER)
    storage.create(
        _path(proposal.id),
        (json.dumps(document, ensure_ascii=False) + "\n").encode("utf-8", "replace"),
    )
    return proposal


def proposals(storage: Storage) -> list[Proposal]:
    """Return the waiting proposals, oldest first."""
    return [
        Proposal(name, str(document["url"]), str(document["note"]), str(document["at"]))
        for name, document in json_documents(storage, FOLDER)
        if _ID.fullmatch(name) and document.keys() >= {"url", "note", "at"}
    ]


def take(root: str, config: Config, identity: str, collection: str = "") -> Submitted:
    """Accept a proposal: submit its URL, and remove the proposal.

    Raises:
        UsageError: there is no such proposal, or the collection refuses it; then it is not removed.
        WorkspaceError: there is no workspace, or it is damaged.
    """
    storage = open_storage(root)
    proposal = next((each for each in proposals(storage) if each.id == identity), None)
    if proposal is None:
        raise UsageError("this proposal is no longer waiting for review")
    submitted = submit(root, config, [proposal.url], collection)
    storage.remove(_path(identity))
    return submitted


def drop(storage: Storage, identity: str) -> None:
    """Reject a proposal: remove it."""
    if _ID.fullmatch(identity):
        storage.remove(_path(identity))


def _path(identity: str) -> str:
    return f"{FOLDER}/{identity}.json"


def _is_literal(host: str) -> bool:
    return ":" in host or host.rpartition(".")[2].isdigit()


def submit_urls(root: str, config: Config, urls: Sequence[str], collection: str) -> AddedUrls:
    """Submit URLs.

    Raises the errors of `lycosa.crawl.session.submission.submit`.
    """
    submitted = submit(root, config, [typed_url(url) for url in urls], collection)
    owner = submitted.owner
    return AddedUrls(
        root,
        submitted.collection,
        submitted.urls,
        submitted.file,
        owner is not None,
        owner.pid if owner is not None else 0,
    )


def submit_texts(
    root: str,
    config: Config,
    urls: Sequence[str],
    texts: Sequence[str],
    ignore: Sequence[str],
    collection: str,
    max_age_ms: int,
) -> FindSubmission:
    """Submit URLs: their pages and all reachable ones are searched for texts."""
    request = submit_find(
        root, config, [typed_url(url) for url in urls], texts, ignore, collection, max_age_ms
    )
    return FindSubmission(root, request.collection, request.order.id, request.running)
