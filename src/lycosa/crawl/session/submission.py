"""Submit URLs to a crawl, running or not: a file in the inbox."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lycosa.config.collection import stored_collection
from lycosa.config.credentials import without_user
from lycosa.config.settings import Collection, Config
from lycosa.core.clock import SystemClock
from lycosa.core.errors import Refusal, UrlError, UsageError
from lycosa.core.units import format_time
from lycosa.crawl.admission.inbox import MAX_FILE_BYTES, submission
from lycosa.crawl.session.planning import nearest, seeds_for
from lycosa.store.coordination.owner import OwnerNote
from lycosa.store.log.claim import INBOX
from lycosa.store.workspace import Workspace
from lycosa.url.exclusions import ExclusionRules, read_exclusions
from lycosa.url.normalise import normalise
from lycosa.url.rules import Rules
from lycosa.url.scope import Admission, hostname


@dataclass(slots=True, frozen=True)
class Submitted:
    """A submission.

    `urls`: as they will be stored; `file`: its name in the inbox; `owner`: the process that is
    crawling in the workspace, if any.
    """

    collection: str
    urls: tuple[str, ...]
    file: str
    owner: OwnerNote | None


def submit(
    root: str,
    config: Config,
    urls: Sequence[str],
    collection: str = "",
    operation: str = "",
) -> Submitted:
    """Add URLs to the inbox of a workspace: all of them, or none.

    A known URL is fetched again. `collection` may be empty if there is only one. `operation`: the
    operation for the pages and all pages reachable from them (`lycosa.crawl.policy.operations`).

    Raises:
        UsageError: the collection is ambiguous, there is no URL, or one cannot be used, is outside
        its scope, or is excluded.
        WorkspaceError: there is no workspace, or it is damaged.
    """
    if not urls:
        raise UsageError("nothing was submitted: specify at least one URL")
    clock = SystemClock()
    workspace = Workspace.open_or_create(root) if config.collection else Workspace.open(root)
    state = workspace.state()
    chosen, seeds = _collection(collection, config, state.settings)
    rules = Rules(chosen)
    schemes = config.fetch.other_schemes
    admission = Admission(chosen, seeds, workspace.domains, other_schemes=schemes)
    exclusions = exclusion_list(config)
    usable: list[str] = []
    wrong: list[str] = []
    for each in urls:
        try:
            url = rules.apply(normalise(each))
        except UrlError as error:
            wrong.append(str(error))
            continue
        # patterns are for links: an operator may name a hub outside them
        if admission.refuse(url) not in (None, Refusal.PATTERN):
            wrong.append(
                f"{without_user(each)} is not accepted by collection {chosen.name!r}: "
                f"{admission.explain(url)}"
            )
            continue
        host = hostname(url)
        domain = workspace.domains.registrable(host)
        if state.excluded(url, host) or exclusions.excluded(url, host, domain):
            wrong.append(f"{without_user(each)} is excluded by the operator")
        else:
            usable.append(url)
    if wrong:
        raise UsageError("nothing was submitted:\n" + "\n".join(wrong))
    content = submission(chosen.name, usable, format_time(clock.now_ms()), operation)
    if len(content) > MAX_FILE_BYTES:
        raise UsageError(
            f"{len(usable):,} URLs are too many for one submission: split them, or "
            "list them in a seed_file"
        )
    workspace.storage.make_folder(INBOX)
    name = f"{clock.now_ms():013d}-{uuid.uuid4().hex}.json"
    workspace.storage.create(f"{INBOX}/{name}", content)
    return Submitted(chosen.name, tuple(usable), name, workspace.owner())


def _collection(
    name: str, config: Config, before: Mapping[str, Any]
) -> tuple[Collection, tuple[str, ...]]:
    """Return the named or the only collection, and all its seeds.

    It is read from lycosa.toml, or else from the log.
    """
    configured = {each.name: each for each in config.collection}
    names = sorted({*configured, *before})
    if not names:
        raise UsageError(
            "there is no collection yet: add one to lycosa.toml (`lycosa init`) or "
            "run `lycosa crawl URL`"
        )
    if not name:
        if len(names) > 1:
            raise UsageError(
                f"there are several collections: specify one (available: {', '.join(names)})"
            )
        name = names[0]
    settings: Mapping[str, Any] = before.get(name, {})
    if name in configured:
        collection = configured[name]
        return collection, tuple(
            dict.fromkeys((*seeds_for(collection, settings), *settings.get("seeds", ())))
        )
    if name not in before:
        raise UsageError(f"unknown collection {name!r}; {nearest(name, names)}")
    return stored_collection(name, settings), tuple(settings.get("seeds", ()))


def exclusion_list(config: Config) -> ExclusionRules:
    """Return the rules of `crawl.exclusions`. Raises ConfigError if the file cannot be read."""
    path = config.crawl.exclusions
    return read_exclusions(Path(path)) if path else ExclusionRules()
