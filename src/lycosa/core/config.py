"""The configuration: one closed, typed schema with its defaults, bounds and texts.

`lycosa.toml`, `--set section.key=value` and `docs/settings.md` all come from the models below: the description of a field
is its documentation. An unknown key is an error that names its line and the nearest known key.
"""

from __future__ import annotations

import difflib
import re
import reprlib
import tomllib
from collections import Counter
from collections.abc import Container, Iterable, MutableMapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError

from lycosa.core.credentials import BasicAuth, FormLogin, without_user
from lycosa.core.errors import ConfigError, UsageError
from lycosa.core.hours import parse_hours
from lycosa.core.monitor import Monitor
from lycosa.core.notices import NotifySettings
from lycosa.core.peering import SearchSettings
from lycosa.core.section import DurationMs, Section, SizeBytes
from lycosa.core.serving import ServeSettings
from lycosa.core.toml_lines import line_of
from lycosa.core.version import VERSION


def _hours(value: str) -> str:
    try:
        parse_hours(value)
    except UsageError as error:
        raise ValueError(str(error)) from None
    return value


_Address = Annotated[str, AfterValidator(without_user)]
Scope = Literal["host", "domain", "prefix", "any"]
Strategy = Literal["breadth-first", "depth-first", "server-first", "best-first"]
Recrawl = Literal["never", "age", "daily", "fresh"]


class FetchSettings(Section):
    """How pages are fetched: who we say we are, how long we wait, how much we take."""

    user_agent: str = Field(
        f"lycosa/{VERSION}",
        min_length=1,
        description="The User-Agent header. Its first word, up to a slash, is the product token that robots.txt files name.",
    )
    contact: str = Field("", description="A URL or mail address where a webmaster reaches you; added to the User-Agent and the archive.")
    connections: int = Field(100, ge=1, le=10_000, description="Connections at once, over all hosts.")
    connect_timeout: DurationMs = Field(10_000, ge=1, description="Longest wait for a connection, name look-up included.")
    first_byte_timeout: DurationMs = Field(20_000, ge=1, description="Longest wait from the request to the first byte of an answer.")
    total_timeout: DurationMs = Field(120_000, ge=1, description="Longest time for one exchange.")
    slow_time: DurationMs = Field(20_000, ge=1000, description="How long a transfer may stay below slow_speed.")
    slow_speed: SizeBytes = Field(64, ge=0, description="Bytes a second below which a transfer is slow; it is then stopped as too_slow.")
    max_header: SizeBytes = Field(64 * 1024, ge=1024, description="Largest response header that is read.")
    max_body: SizeBytes = Field(
        10 * 2**20, ge=1024, description="Largest body that is kept, as transferred; a longer one is cut and marked truncated."
    )
    max_decoded: SizeBytes = Field(40 * 2**20, ge=1024, description="Largest body after decompression; a longer one is cut and marked.")
    retries: int = Field(3, ge=0, le=20, description="Further attempts after a failure that may pass; each one is recorded.")
    retry_wait: DurationMs = Field(5_000, ge=0, description="Wait before the first further attempt; doubled for each one after it.")
    retry_later: DurationMs = Field(
        86_400_000,
        ge=0,
        description="When the attempts are used up, the URL is due again after this time; doubled with each such failure, up to a week.",
    )
    other_schemes: bool = Field(
        False,
        description="Follow links to ftp:// and gopher:// within the scope: files, directory listings, menus. "
        "Where a seed of the collection is of such a scheme, links of that scheme are followed in any case.",
    )
    max_redirects: int = Field(10, ge=0, le=50, description="Redirect hops that are followed; the next one is excluded.")
    http2: bool = Field(True, description="Offer HTTP/2 over TLS.")
    verify_tls: bool = Field(True, description="Refuse certificates that do not verify.")
    ca_file: str = Field("", description="A file of certificate authorities to trust instead of the system's.")
    accept_language: str = Field("", description="The Accept-Language header; empty sends none.")
    connect_to: tuple[str, ...] = Field(
        (), description="curl's HOST:PORT:HOST:PORT, empty parts match all: dial another address for a host (test webs)."
    )


class CrawlSettings(Section):
    """How a worker runs: when it commits, when a crawl counts as finished."""

    patience: DurationMs = Field(120_000, ge=0, description="`crawl` ends when nothing is due or in flight now or within this time.")
    commit_pages: int = Field(5_000, ge=1, description="Commit after this many exchanges.")
    commit_interval: DurationMs = Field(30_000, ge=100, description="Commit at least this often while there is something to commit.")
    commit_text: SizeBytes = Field(12 * 2**20, ge=2**20, description="Commit when the text held for the tables passes this size.")
    commit_urls: int = Field(20_000, ge=100, description="Commit when this many rows of `urls` are held for the tables.")
    active_hosts: int = Field(20_000, ge=1, le=1_000_000, description="Hosts that a worker keeps at hand; the others rest in the tables.")
    waiting_urls: int = Field(
        20_000, ge=100, le=1_000_000, description="URLs that wait in memory, over all hosts; the others rest in the tables."
    )
    documents: int = Field(
        2,
        ge=0,
        le=64,
        description="Processes beside a worker that read PDF, office files and other documents; they start with the first one. "
        "0: documents are neither fetched nor read.",
    )
    document_timeout: DurationMs = Field(
        20_000,
        ge=100,
        description="CPU time that reading one document may take, and five times that by the clock; it is then left without text.",
    )
    document_memory: SizeBytes = Field(
        2**30, ge=400 * 2**20, description="Address space of a process that reads documents; what wants more is left without text."
    )
    browser: str = Field("", description="The Chromium that renders pages; empty: `chromium` and its kin on the PATH.")
    render_pages: int = Field(2, ge=1, le=32, description="Pages that are rendered at once.")
    render_timeout: DurationMs = Field(
        10_000,
        ge=500,
        description="How long a page may take in the browser; what it waits for the network is not counted, up to ten times that.",
    )
    render_requests: int = Field(40, ge=0, le=1_000, description="Requests that one page being rendered may cause.")
    render_bytes: SizeBytes = Field(16 * 2**20, ge=2**16, description="Bytes that one page being rendered may load, or grow to.")
    render_memory: SizeBytes = Field(
        2**31, ge=2**28, description="Memory of the browser with all its processes; when it takes more it is ended, and begun anew."
    )
    exclusions: str = Field(
        "",
        description="A file of what must never be fetched: `host NAME`, `domain NAME` or `prefix URL`, one a line; "
        "read again when it changes.",
    )
    remind_pages: int = Field(
        500, ge=0, description="`crawl` reminds of fetch.contact when it fetches more than this many pages from public hosts."
    )


class IndexSettings(Section):
    """How the search index is built."""

    heap: SizeBytes = Field(
        40 * 2**20, ge=15 * 2**20, description="Memory for tantivy's writer; at least 15 MB, at most 4 GB for each thread."
    )
    threads: int = Field(1, ge=1, le=16, description="Threads that build the index.")
    interval: DurationMs = Field(10_000, ge=0, description="While crawling, publish the index at most this often.")
    shards: int = Field(
        1,
        ge=1,
        le=1_024,
        description="Parts of the index, each for a group of partitions, built and searched on several machines. A change builds all anew.",
    )
    korean: Literal["bigrams", "kiwi"] = Field(
        "bigrams",
        description="Korean by pairs of syllables, or by morphemes with kiwipiepy (`pip install 'lycosa[ko]'`). A change builds all anew.",
    )
    encoder: str = Field(
        "", description="`module:object` of an encoder of your own, asked too by searches across languages; see docs/translation.md."
    )


class StoreSettings(Section):
    """How the workspace is kept small."""

    merge_commits: int = Field(32, ge=2, le=1_000, description="Fold small commits together when this many have gathered.")
    keep_replaced: DurationMs = Field(
        86_400_000, ge=0, description="How long files that a merge replaced stay for readers that still have them open."
    )
    keep_entries: DurationMs = Field(7 * 86_400_000, ge=0, description="How long log entries before a snapshot stay.")
    cache: SizeBytes = Field(
        10 * 2**30,
        ge=2**20,
        description="With a workspace on S3 or HDFS: how much of a machine's disk copies of its files may take. "
        "Those in use stay, whatever it says.",
    )


class RunSettings(Section):
    """`lycosa run`: the daemon that works the configured collections for good."""

    restarts: int = Field(
        5, ge=0, description="A worker that dies is started again, at most this many times in `window`; then the daemon stops and says why."
    )
    window: DurationMs = Field(600_000, ge=1_000, description="The time over which restarts are counted.")
    stop_timeout: DurationMs = Field(10_000, ge=1_000, description="How long a worker may take to commit and end when it is asked to.")
    merge_interval: DurationMs = Field(
        60_000, ge=1_000, description="How often the daemon looks whether commits are to be folded together."
    )
    rank_interval: DurationMs = Field(
        86_400_000, ge=60_000, description="How often importance and the recrawl schedule are computed anew from the tables."
    )
    disk_reserve: SizeBytes = Field(256 * 2**20, ge=0, description="The crawl pauses while the workspace's disk has less than this free.")


class ClusterSettings(Section):
    """Several workers: how they keep in touch, and when one that is not heard of loses its partitions."""

    ping_interval: DurationMs = Field(3_000, ge=100, description="How often a worker asks its coordinator what it is to hold.")
    hold: DurationMs = Field(15_000, ge=500, description="A worker starts no fetch later than this after sending its last answered ping.")
    reassign: DurationMs = Field(
        30_000,
        ge=1_000,
        description="A worker's partitions are given to others this long after its last answered ping; at least twice `hold`.",
    )
    install: Literal["auto", "always", "never"] = Field(
        "auto",
        description="On a Ray cluster: whether the packages that Lycosa needs are installed on a node: `auto` where one is missing, "
        "`always`, `never`. Lycosa's own code travels in any case.",
    )


class Collection(Section):
    """A named task: what to crawl, how far, how politely."""

    name: str = Field("default", pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$", description="The collection's name: lower case, digits, - and _.")
    seeds: tuple[_Address, ...] = Field((), description="URLs to start from.")
    seed_file: str = Field("", description="A file of seeds, one URL a line; # starts a comment.")
    language: str = Field(
        "",
        pattern=r"^([a-z]{2,3})?$",
        description="The language that exports file its pages under, an ISO 639 code. Empty: the collection's name if it is one of the 27 "
        "codes, else the language identified in each page.",
    )
    scope: Scope = Field(
        "host",
        description="Which links are followed: `host` the seeds' hosts and ports, `domain` their registrable domains, "
        "`prefix` URLs that start with a seed's folder, `any` all.",
    )
    depth: int | None = Field(None, ge=0, description="How many links from a seed; 0 = the seeds alone. Without it: no limit.")
    allow: tuple[str, ...] = Field((), description="Regular expressions; if given, one must match a URL somewhere for it to be followed.")
    deny: tuple[str, ...] = Field((), description="Regular expressions; a URL that one of them matches somewhere is not followed.")
    delay: DurationMs = Field(1_000, ge=0, description="Least pause between two fetches from a host.")
    courtesy_factor: float = Field(
        10.0,
        ge=0,
        allow_inf_nan=False,
        description="The pause is at least this many times the duration of the last transfer (Scooter's rule).",
    )
    max_delay: DurationMs = Field(600_000, ge=0, description="Longest pause that delay and courtesy_factor may lead to.")
    backoff: DurationMs = Field(
        60_000, ge=0, description="Pause after a host's first failure (no answer, 429, 503); doubled with each further one, up to a day."
    )
    connections: int = Field(30, ge=1, description="Connections at once for this collection.")
    connections_per_host: int = Field(1, ge=1, le=16, description="Connections at once to one host.")
    max_pages: int | None = Field(None, ge=0, description="Pages this collection may ever hold.")
    max_pages_per_host: int | None = Field(None, ge=0, description="Pages of one host that this collection may ever hold.")
    max_pages_per_domain: int | None = Field(None, ge=0, description="Pages of one registrable domain that this collection may ever hold.")
    max_prefix_share: float = Field(
        1.0, gt=0, le=1, description="Largest share of a host's page budget that one first path segment may take (with max_pages_per_host)."
    )
    strategy: Strategy = Field(
        "breadth-first",
        description="Which URL next: `breadth-first` fewest links from a seed, `depth-first` most (set `depth`), `server-first` one page "
        "of every known host before a second of any, then the host that was visited longest ago, `best-first` highest priority.",
    )
    priority: float = Field(0.0, allow_inf_nan=False, description="Of two collections that want the same host, the higher is served first.")
    media_types: tuple[str, ...] = Field(
        (),
        description="Media types to keep, `*` as wildcard: `text/html`, `application/*`. Others are dropped after their headers. "
        "Empty: what can be read.",
    )
    schedule: Annotated[str, AfterValidator(_hours)] = Field(
        "", description="When it may be crawled by `run`, UTC: `22:00-06:00`, several with commas. Empty: always."
    )
    paused: bool = Field(False, description="Do not fetch for this collection now; what is known stays.")
    recrawl: Recrawl = Field(
        "never",
        description="When a page is fetched again: `never`, `age` when it is older than max_age, `daily` at daily_at, `fresh` by how "
        "often it changes and how much it matters, under fetches_per_day.",
    )
    max_age: DurationMs = Field(86_400_000, ge=1_000, description="With recrawl `age`: pages older than this are fetched again.")
    recrawl_triggers: tuple[Literal["timer", "on_link"], ...] = Field(
        ("timer",),
        description="With recrawl `age`: `timer` when the age is reached, `on_link` when a link to the page is found after that.",
    )
    daily_at: str = Field("03:00", pattern=r"^([01]\d|2[0-3]):[0-5]\d$", description="With recrawl `daily`: the time of day, UTC.")
    fetches_per_day: int = Field(10_000, ge=1, description="With recrawl `fresh`: how many fetches of known pages a day may take.")
    sitemaps: bool = Field(True, description="Read the sitemaps that robots.txt files name.")
    feeds: bool = Field(True, description="Read the RSS and Atom feeds that pages name.")
    feed_urls: tuple[_Address, ...] = Field((), description="Feeds and sitemaps to read in any case.")
    traps: bool = Field(
        True, description="Stop at URLs and parts of sites that look like traps; each rule is counted and shown by `explain`."
    )
    domain_connections: int = Field(2, ge=1, le=64, description="Connections at once to all hosts of one registrable domain.")
    address_connections: int = Field(4, ge=0, le=256, description="Connections at once to all hosts behind one IP address; 0: no limit.")
    burst: int = Field(
        1,
        ge=1,
        le=100,
        description="Fetches that may follow one another on a warm connection; the pause after them is as many times longer.",
    )
    max_url_length: int = Field(2_000, ge=64, le=65_536, description="Longer URLs are refused.")
    drop_parameters: tuple[str, ...] = Field(
        (), description="Query parameters to remove from URLs, `*` as wildcard: `utm_*`, `fbclid`. May change what a URL means."
    )
    drop_session_ids: bool = Field(False, description="Remove jsessionid, PHPSESSID and their kin from URLs.")
    merge_slashes: bool = Field(False, description="Treat // in a path as /.")
    drop_trailing_dot: bool = Field(False, description="Treat the host `example.org.` as `example.org`.")
    requisites: bool = Field(
        False,
        description="Fetch what pages need to be shown too, within the scope: images, styles and what these name, scripts, fonts. "
        "They are archived, not indexed; `lycosa export mirror` then writes copies that are whole.",
    )
    respect_nofollow: bool = Field(True, description="Do not follow links marked rel=nofollow.")
    accept_language: str = Field(
        "",
        pattern=r"^[A-Za-z0-9*,;=. -]*$",
        description="The Accept-Language header of this collection. Empty: its `language` if it has one, else `fetch.accept_language`.",
    )
    referer: bool = Field(
        False,
        description="Send a Referer: the page that led to this one; to another origin the origin alone, from https to http nothing.",
    )
    cookies: bool = Field(
        False,
        description="Keep the cookies that servers set and send them back, as a browser does. They are held in the worker's memory only.",
    )
    auth: tuple[BasicAuth, ...] = Field((), description="Basic authentication: one [[collection.auth]] each, see below.")
    login: tuple[FormLogin, ...] = Field((), description="Forms to log in with: one [[collection.login]] each, see below.")
    render: Literal["never", "auto", "always"] = Field(
        "never",
        description="Whether pages are rendered in Chromium before they are read: `auto` where that adds text or links, which is learned "
        "for each host from samples; `always` every page that has scripts.",
    )
    render_hosts: tuple[str, ...] = Field(
        (),
        description="Hosts, with all below them, that a page being rendered may load scripts and data from, besides those of its own "
        "registrable domain.",
    )


class Config(Section):
    """All of lycosa.toml."""

    fetch: FetchSettings = Field(default_factory=lambda: FetchSettings())
    crawl: CrawlSettings = Field(default_factory=lambda: CrawlSettings())
    index: IndexSettings = Field(default_factory=lambda: IndexSettings())
    store: StoreSettings = Field(default_factory=lambda: StoreSettings())
    run: RunSettings = Field(default_factory=lambda: RunSettings())
    cluster: ClusterSettings = Field(default_factory=lambda: ClusterSettings())
    serve: ServeSettings = Field(default_factory=lambda: ServeSettings())
    search: SearchSettings = Field(default_factory=lambda: SearchSettings())
    notify: NotifySettings = Field(default_factory=lambda: NotifySettings())
    collection: tuple[Collection, ...] = Field((), description="The collections, one [[collection]] each.")
    monitor: tuple[Monitor, ...] = Field((), description="What `lycosa uptime` watches, one [[monitor]] each.")


_MOST_PLACED = 20  # faults whose line is told: to find one takes as long as the file has lines, squared
_MOST_SHOWN = 200  # characters of a key or value in a message
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxlong = _SHORT.maxother = _MOST_SHOWN


def parse_config(
    text: str, source: str = "lycosa.toml", overrides: tuple[str, ...] = (), bad: MutableMapping[str, str] | None = None
) -> Config:
    """Read a configuration and apply `section.key=value` overrides (values are TOML, bare words are strings).

    `collection.key=value` holds for every collection, and makes the collection `default` where none is configured. With `bad`
    a collection that is wrong is left out instead: `bad` gets its name and what is wrong with it, and the others count.

    Raises:
        ConfigError: not TOML, an unknown key (with its line and the nearest known one), or a value out of bounds.
    """
    try:
        data = tomllib.loads(text.removeprefix("\ufeff"))  # some editors write a byte order mark
    except (ValueError, RecursionError) as error:  # a number of thousands of digits is a ValueError that is no TOMLDecodeError
        raise ConfigError(f"{source}: {error}") from None
    for override in overrides:
        _apply_override(data, override, source)
    _require_no_nul(data, source)
    try:
        config = Config.model_validate(data)
    except ValidationError as error:
        problems = [
            (problem["loc"], _explain(problem, text if number < _MOST_PLACED else "", source, overrides))
            for number, problem in enumerate(error.errors())
        ]
        if bad is None or not all(len(location) > 1 and location[0] == "collection" for location, _ in problems):
            told = [message for _, message in problems[:_MOST_PLACED]]
            further = [f"{source}: {len(problems) - len(told)} further faults"] if len(problems) > len(told) else []
            raise ConfigError("\n".join([*told, *further])) from None
        tables = data["collection"]
        for location, message in problems:
            label = _label(tables, int(location[1]))
            bad[label] = f"{bad[label]}\n{message}" if label in bad else message
        wrong = {location[1] for location, _ in problems}
        data["collection"] = [table for number, table in enumerate(tables) if number not in wrong]
        config = Config.model_validate(data)
    good: dict[str, Collection] = {}
    for number, collection in enumerate(config.collection, 1):
        problem = _problem_of(collection, good, source)
        if not problem:
            good[collection.name] = collection
        elif bad is None:
            raise ConfigError(problem)
        else:
            bad[f"{collection.name} (number {number})" if collection.name in good else collection.name] = problem
    twice = [url for url, number in Counter(each.url for each in config.monitor).items() if number > 1]
    if twice:
        raise ConfigError(f"{source}: two monitors have the URL {twice[0]}; one is enough")
    return config.model_copy(update={"collection": tuple(good.values())})


def _label(tables: Sequence[Any], number: int) -> str:
    name = tables[number].get("name") if isinstance(tables[number], dict) else None
    return name if isinstance(name, str) else f"number {number + 1}"


def _problem_of(collection: Collection, before: Container[str], source: str) -> str:
    """What the schema cannot say of a collection that it takes; "" if all is well."""
    if collection.name in before:
        return f"{source}: two collections are named {collection.name!r}; names must differ"
    for pattern in (*collection.allow, *collection.deny):
        try:
            re.compile(pattern)
        except (re.error, OverflowError, RecursionError) as error:
            return f"{source}: collection {collection.name!r}: {_shown(pattern)} is not a regular expression: {error}"
    return ""


def _require_no_nul(data: dict[str, Any], source: str) -> None:
    """No name of a file or host and no header holds a NUL: the system and libcurl would refuse it later, and not in words."""
    waiting: list[Any] = [data]
    while waiting:  # tables can be nested deeper than functions
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += [*value, *value.values()]
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, str) and "\0" in value:
            raise ConfigError(f"{source}: {_shown(value)} holds the character NUL, which stands in no setting")


def _apply_override(data: dict[str, Any], override: str, source: str) -> None:
    path, equals, value = override.partition("=")
    parts = path.strip().split(".")
    if not equals or len(parts) != 2 or not all(parts):
        raise ConfigError(f"--set {override}: write section.key=value, as in fetch.max_body=5MiB")
    section, key = parts
    model = _sections().get(section)
    if model is None:
        raise ConfigError(f"--set {override}: there is no section {section!r}; {_nearest(section, list(_sections()))}")
    if key not in model.model_fields:
        raise ConfigError(f"--set {override}: [{section}] has no setting {key!r}; {_nearest(key, list(model.model_fields))}")
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except (ValueError, RecursionError):
        parsed = value.strip()
    annotation = str(model.model_fields[key].annotation)
    if annotation.startswith("tuple") and not isinstance(parsed, list):
        parsed = [parsed]
    several = section in ("collection", "monitor")
    if section == "monitor" and section not in data:
        return  # there is none that it could hold for
    tables = data.setdefault(section, [{}] if several else {})
    for table in tables if several and isinstance(tables, list) else [tables]:
        if not isinstance(table, dict) or (several and table is tables):
            brackets = f"[[{section}]]" if several else f"[{section}]"
            raise ConfigError(f"{source}: {section} is a table: write {brackets} and its settings below")
        table[key] = parsed


def _sections() -> dict[str, type[Section]]:
    return {
        "fetch": FetchSettings,
        "crawl": CrawlSettings,
        "index": IndexSettings,
        "store": StoreSettings,
        "run": RunSettings,
        "cluster": ClusterSettings,
        "serve": ServeSettings,
        "search": SearchSettings,
        "notify": NotifySettings,
        "collection": Collection,
        "monitor": Monitor,
    }


def _nearest(word: str, known: list[str]) -> str:
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"


def _explain(problem: Any, text: str, source: str, overrides: tuple[str, ...]) -> str:
    location = problem["loc"]
    names = [part for part in location if isinstance(part, str)]
    setting = ".".join(names[:2])
    override = next((given for given in reversed(overrides) if given.partition("=")[0].strip() == setting), None)
    where = f"{source}{line_of(text, location)}" if override is None else f"--set {override}"
    where = f"{where}: {'.'.join(str(part)[:_MOST_SHOWN] for part in location)}"
    if problem["type"] == "extra_forbidden":
        known = list(_fields_at(names[:-1]))
        return f"{where}: unknown setting {_shown(names[-1])}; {_nearest(names[-1], known)}"
    message = problem["msg"].removeprefix("Value error, ")
    if len(message) > 2 * _MOST_SHOWN:
        message = f"{message[:_MOST_SHOWN]} ... {message[-_MOST_SHOWN:]}"
    return f"{where}: {message} (given: {_shown(problem.get('input'))})"


def _shown(value: object) -> str:
    """As TOML's reader has it, in few characters."""
    try:
        return _SHORT.repr(value)
    except ValueError:  # a hexadecimal number may have more digits than Python writes
        return "a number of very many digits"


def _fields_at(names: Sequence[str]) -> Iterable[str]:
    """The settings of the table that these names lead to."""
    if not names:
        return Config.model_fields
    tables: dict[tuple[str, ...], type[Section]] = {("collection", "auth"): BasicAuth, ("collection", "login"): FormLogin}
    section = tables.get(tuple(names)) or _sections().get(names[0])
    return section.model_fields if section else Config.model_fields
