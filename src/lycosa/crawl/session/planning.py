"""Collections and seeds of a call or of the daemon, checked before anything is written."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

from lycosa.config.credentials import without_user
from lycosa.config.reading import parse_config
from lycosa.config.settings import Collection, Config, FetchSettings
from lycosa.core.dataclass import dataclass
from lycosa.core.errors import ConfigError, Refusal, UrlError, UsageError
from lycosa.core.patterns import lazy_pattern
from lycosa.crawl.session.workspace_config import read_file
from lycosa.crawl.state.task import Job
from lycosa.fetch.connect_to import find_override, parse_connect_to
from lycosa.fetch.guard import is_public, named_pair
from lycosa.store.workspace import Workspace
from lycosa.url.exclusions import COMMENT
from lycosa.url.normalise import normalise, typed_url
from lycosa.url.rules import Rules
from lycosa.url.scope import url_origin

_SHOWN = 3


def read_seeds(path: str) -> list[str]:
    """Return the seeds in a file: one per line, as typed; `#` starts a comment.

    Raises:
        UsageError: the file cannot be read, or a line is not a URL.
    """
    try:
        content = read_file(path)
    except OSError as error:
        raise UsageError(f"seed file {path} cannot be read: {error.strerror or error}") from None
    return parse_seeds(content, path)


def parse_seeds(content: bytes, path: str) -> list[str]:
    """Return the seeds in the content of a file, as `read_seeds`. Raises UsageError."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"seed file {path} cannot be read: it is not valid UTF-8 ({error.reason} "
            f"at byte {error.start})"
        ) from None
    seeds = []
    for number, line in enumerate(text.splitlines(), 1):
        seed = COMMENT.split(line, maxsplit=1)[0].strip()
        if not seed:
            continue
        try:
            normalise(typed_url(seed))
        except UrlError as error:
            raise UsageError(f"{path}, line {number}: {error}") from None
        seeds.append(seed)
    return seeds


def seed_problem(url: str, collection: Collection) -> str:
    """Return why a collection cannot use a seed or feed; "" if it can."""
    try:
        usable = Rules(collection).apply(normalise(url))
        url_origin(usable)
        if len(usable) > collection.max_url_length:
            raise UrlError(Refusal.TOO_LONG, url)
    except UrlError as error:
        return str(error)
    return ""


def check_seeds(seeds: Iterable[str], collection: Collection) -> None:
    """Check seeds, and the collection's feeds, before anything is written.

    Raises:
        UsageError: some cannot be used; the first three are named, each with its reason.
    """
    wrong = [
        problem
        for url in (*seeds, *collection.feed_urls)
        if (problem := seed_problem(url, collection))
    ]
    if wrong:
        more = len(wrong) - _SHOWN
        raise UsageError("; ".join(wrong[:_SHOWN]) + (f"; and {more} more" if more > 0 else ""))


def seeds_of(
    before: Mapping[str, Any], collection: Collection, new: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return all seeds of a collection, each once.

    They have no user names and passwords. The order is: seeds of earlier calls, of the
    configuration, new ones. Seeds of earlier calls that the current settings refuse are omitted.

    Raises:
        UsageError: a configured or new seed cannot be used.
    """
    own = [without_user(seed) for seed in (*collection.seeds, *new)]
    check_seeds(own, collection)
    earlier = [
        seed
        for seed in map(without_user, before.get("seeds", ()))
        if not seed_problem(seed, collection)
    ]
    return tuple(dict.fromkeys((*earlier, *own)))


@dataclass(slots=True, frozen=True)
class CrawlPlan:
    """Settings and collections to crawl. `bad`: invalid collection -> problem."""

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
    """Read lycosa.toml for `run`.

    `chosen`: only these collections; `before`: the settings in the log, by collection; `monitors`:
    there are monitors, so collections are optional. Seeds are those of lycosa.toml and the seed
    file, or else those of earlier calls.

    Raises:
        UsageError: a chosen collection is not configured.
        ConfigError: the file is invalid outside its collections, no collection is valid, or
        `fetch.contact` is required.
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
            or f"no [[collection]] is configured in {source}: add one with a name and "
            "seeds (`lycosa init` writes an example)"
        )
    plan = CrawlPlan(config, tuple(jobs), bad)
    require_contact(config.fetch, plan.jobs)
    return plan


def seeds_for(collection: Collection, before: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a collection's seeds, configured or in its seed file.

    Without any, they are those of earlier calls.

    Raises:
        UsageError: the seed file cannot be read, a seed or feed cannot be used, or the scope
        requires seeds and there are none.
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
    """Refuse to crawl public hosts continuously without a contact.

    Raises:
        ConfigError: the host of a seed is public, and there is no contact in `fetch.contact` or
            User-Agent.
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
    """Return whether a host is or may resolve to a public address.

    All names may, except localhost.
    """
    name = host.removesuffix(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return False
    # in a normalised URL a name that ends in a number is an IPv4 address
    is_address = ":" in name or name.rpartition(".")[2].isdigit()
    return is_public(name) if is_address else True


def require_collection(workspace: Workspace, config: Config, name: str) -> None:
    """Raise UsageError if neither a crawl nor the configuration has a collection of this name."""
    names = sorted({*workspace.state().settings, *(each.name for each in config.collection)})
    if name not in names:
        raise UsageError(f"unknown collection {name!r}; {nearest(name, names)}")


def nearest(word: str, names: list[str]) -> str:
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"available: {', '.join(names) or 'none'}"


CONTACT_NEEDED = (
    "fetch.contact is not set: `lycosa run` fetches from public hosts only if their webmasters "
    "can reach you. Set it "
    "in lycosa.toml to a mail address that you read, or to the URL of a page with contact "
    "details:\n"
    '    [fetch]\n    contact = "https://www.your-site.net/robot"\n'
    "It is sent with every request and stored in the archive. (`lycosa crawl` runs small crawls "
    "without it.)"
)
"""Error of `lycosa run` without a contact."""

_LABEL = r"[^\W_](?:[\w-]{0,61}[^\W_])?"
# a top-level domain has two characters or more, and is not a number
_NAME = rf"(?:{_LABEL}\.)+[^\W\d_](?:[\w-]{{0,61}}[^\W_])"
_WEB = lazy_pattern(rf"https?://({_NAME})\.?(?::\d{{1,5}})?(?=[/?#\s)>;,\"']|$)", re.IGNORECASE)
_MAIL = lazy_pattern(
    rf"(?<![^\s(<:+;,\"'])[^\W_][\w.!#$%&'*/=?^`{{|}}~+-]{{0,63}}@({_NAME})(?![\w@-])",
    re.IGNORECASE,
)
_RESERVED = lazy_pattern(
    r"(?:.*\.)?(?:example\.(?:com|net|org)|example|test|invalid|localhost|local|internal)",
    re.IGNORECASE,
)
"""Reserved names (RFC 2606, RFC 6761, RFC 6762, ICANN's .internal).

A contact with such a name was probably copied from documentation.
"""


def is_reachable_contact(contact: str, user_agent: str) -> bool:
    """Return whether `fetch.contact` or the User-Agent has a public contact.

    A contact is an http(s) URL or a mail address.
    """
    return any(
        not _RESERVED.fullmatch(name)
        for text in (contact, user_agent)
        for name in (*_WEB.findall(text), *_MAIL.findall(text))
    )
