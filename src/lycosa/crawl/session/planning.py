"""What the daemon is to do, from lycosa.toml: the collections that can be worked, with their seeds,
and what is wrong with the rest.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lycosa.config.credentials import without_user
from lycosa.config.reading import parse_config
from lycosa.config.settings import Collection, Config, FetchSettings
from lycosa.core.errors import ConfigError, UsageError
from lycosa.crawl.session.seeds import check_seeds, read_seeds
from lycosa.crawl.session.single_fetch import named_pair
from lycosa.crawl.state.task import Job
from lycosa.fetch.connect_to import find_override, parse_connect_to
from lycosa.fetch.guard import is_public
from lycosa.url.contact import CONTACT_NEEDED, is_reachable_contact
from lycosa.url.normalise import normalise, typed_url

_SEEDS_TOLD = 3


@dataclass(slots=True, frozen=True)
class CrawlPlan:
    """Settings and the collections to work. `bad`: collection -> why it is left out."""

    config: Config
    jobs: tuple[Job, ...]
    bad: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        return [job.collection.name for job in self.jobs]


def make_plan(
    text: str,
    source: str,
    *,
    overrides: tuple[str, ...] = (),
    chosen: Sequence[str] = (),
    before: Mapping[str, Any] | None = None,
    monitors: bool = False,
) -> CrawlPlan:
    """Read lycosa.toml for `run`. `chosen`: only these collections; `before`: the settings that the
    log holds, by collection; `monitors`: there is something to watch besides, so that collections
    may be missing.

    Seeds are those of lycosa.toml and the seed file; a collection that names none goes on with what
    earlier calls named.

    Raises:
        UsageError: a chosen collection is not configured. ConfigError: the file is wrong outside
        its collections, no collection is good, or `fetch.contact` is needed.
    """
    bad: dict[str, str] = {}
    config = parse_config(text, source, overrides, bad)
    names = [collection.name for collection in config.collection]
    for name in chosen:
        if name not in names and name not in bad:
            raise UsageError(
                f"{source} has no collection {name!r}; {nearest(name, [*names, *bad])}"
            )
    jobs = []
    for collection in config.collection:
        if chosen and collection.name not in chosen:
            continue
        try:
            jobs.append(
                Job(collection, seeds_for(collection, (before or {}).get(collection.name, {})))
            )
        except UsageError as error:
            bad[collection.name] = str(error)
    if chosen:
        bad = {name: message for name, message in bad.items() if name in chosen}
    if not jobs and (bad or chosen or not (config.monitor or monitors)):
        reasons = "\n".join(f"collection {name}: {message}" for name, message in bad.items())
        raise ConfigError(
            reasons
            or f"{source} has no [[collection]]: add one with a name and "
            "seeds (`lycosa init` writes an example)"
        )
    plan = CrawlPlan(config, tuple(jobs), bad)
    require_contact(config.fetch, plan.jobs)
    return plan


def seeds_for(collection: Collection, before: Mapping[str, Any]) -> tuple[str, ...]:
    """A collection's seeds: the configured ones and those of the seed file, or else those of
    earlier calls.

    Raises:
        UsageError: the seed file cannot be read, a seed or feed cannot be used, or there are no
        seeds though the scope needs them.
    """
    named = [
        *collection.seeds,
        *(map(typed_url, read_seeds(collection.seed_file)) if collection.seed_file else ()),
    ]
    seeds = tuple(dict.fromkeys(map(without_user, named or before.get("seeds", ()))))
    if not seeds and collection.scope != "any":
        raise UsageError("no seeds: set seeds or seed_file")
    check_seeds(seeds, collection)
    return seeds


def require_contact(settings: FetchSettings, jobs: Iterable[Job]) -> None:
    """Refuse to work public hosts for good while their webmasters cannot reach anybody.

    Raises:
        ConfigError: a seed's host is public, and neither `fetch.contact` nor the User-Agent says
        who runs the robot.
    """
    if is_reachable_contact(settings.contact, settings.user_agent):
        return
    overrides = parse_connect_to(settings.connect_to)
    for job in jobs:
        for url in (*job.seeds, *job.collection.feed_urls):
            host, port = named_pair(normalise(url))
            override = find_override(overrides, host, port)
            if _is_public_host(
                override.target_host
                if override is not None and override.target_host
                else host.strip("[]")
            ):
                raise ConfigError(
                    f"{CONTACT_NEEDED}\n(The first public host is {host}, a seed of "
                    f"collection {job.collection.name}.)"
                )


def _is_public_host(host: str) -> bool:
    """Whether a host is a public address, or a name that may lead to one: only localhost cannot."""
    name = host.removesuffix(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return False
    # in a normalised URL a name that ends in a number is an IPv4 address
    is_address = ":" in name or name.rpartition(".")[2].isdigit()
    return is_public(name) if is_address else True


def nearest(word: str, names: list[str]) -> str:
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"available: {', '.join(names) or 'none'}"
