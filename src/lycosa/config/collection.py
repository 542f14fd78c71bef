"""The section `[[collection]]`: seeds, scope, politeness and schedule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from lycosa.config.credentials import BasicAuth, FormLogin, without_user
from lycosa.config.fields import ItemField, ItemSchema
from lycosa.config.section import DurationMs, Expression, SettingsSection
from lycosa.core.errors import UsageError
from lycosa.core.hours import parse_hours


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


class Collection(SettingsSection):
    """A collection: its seeds, scope, politeness and schedule."""

    name: str = Field(
        "default",
        pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$",
        description="Name of the collection: lower-case letters, digits, `-` and `_`, at most 64 "
        "characters.",
    )
    seeds: tuple[_Address, ...] = Field((), description="Seed URLs.")
    seed_file: str = Field(
        "",
        description="File with seed URLs, one URL per line. `#` starts a comment. A relative path "
        "starts at the folder of `lycosa.toml`.",
    )
    language: str = Field(
        "",
        pattern=r"^([a-z]{2,3})?$",
        description="Language under which exports file the pages, as an ISO 639 code. Empty: the "
        "detected language of each page.",
    )
    scope: Scope = Field(
        "host",
        description="Which links are followed: `host` (hosts and ports of the seeds), `domain` "
        "(their registrable domains), "
        "`prefix` (URLs below the folder of a seed) or `any`.",
    )
    depth: int | None = Field(
        None,
        ge=0,
        description="Maximum number of links from a seed. 0: only the seeds. Not set: no limit.",
    )
    allow: tuple[Expression, ...] = Field(
        (),
        description="Regular expressions. If there are any, a URL is only followed if one of "
        "them matches a part of it.",
    )
    deny: tuple[Expression, ...] = Field(
        (),
        description="Regular expressions. A URL is not followed if "
        "one of them matches a part of it.",
    )
    delay: DurationMs = Field(
        1_000, ge=0, description="Minimum delay between two requests to a host."
    )
    courtesy_factor: float = Field(
        10.0,
        ge=0,
        allow_inf_nan=False,
        description="The delay is at least this multiple of the duration of the last transfer.",
    )
    max_delay: DurationMs = Field(
        600_000,
        ge=0,
        description="Maximum delay that results from `courtesy_factor` or from slow responses.",
    )
    backoff: DurationMs = Field(
        60_000,
        ge=0,
        description="Delay after the first failure of a host (no response, 429 or 503). It "
        "doubles with each further failure, up to 1 day.",
    )
    connections: int = Field(
        30, ge=1, description="Maximum number of concurrent connections of the collection."
    )
    connections_per_host: int = Field(
        1, ge=1, le=16, description="Maximum number of concurrent connections to a host."
    )
    max_pages: int | None = Field(
        None, ge=0, description="Maximum number of pages in the collection."
    )
    max_pages_per_host: int | None = Field(
        None, ge=0, description="Maximum number of pages per host in the collection."
    )
    max_pages_per_domain: int | None = Field(
        None, ge=0, description="Maximum number of pages per registrable domain in the collection."
    )
    max_prefix_share: float = Field(
        1.0,
        gt=0,
        le=1,
        description="Maximum share of `max_pages_per_host` for URLs with the "
        "same first path segment.",
    )
    strategy: Strategy = Field(
        "breadth-first",
        description="Order of URLs. `breadth-first`: fewest links from a seed first. "
        "`depth-first`: most links first (set "
        "`depth`). `server-first`: one page of every known host first, then the host whose last "
        "visit is the "
        "oldest. `best-first`: highest priority first.",
    )
    priority: float = Field(
        0.0,
        allow_inf_nan=False,
        description="If two collections share a host, the collection "
        "with the higher priority is served first.",
    )
    media_types: tuple[str, ...] = Field(
        (),
        description="Accepted media types, with `*` as a wildcard: `text/html`, `application/*`. "
        "Other responses are aborted "
        "after their headers. Empty: all types that can be parsed.",
    )
    schedule: Annotated[str, AfterValidator(_hours)] = Field(
        "",
        description="Hours in which `lycosa run` crawls the collection, in UTC: `22:00-06:00`, "
        "several separated by commas. Empty: always.",
    )
    paused: bool = Field(False, description="Stop requests for the collection. All data is kept.")
    recrawl: Recrawl = Field(
        "never",
        description="When pages are fetched again: `never`, `age` (older than `max_age`), `daily` "
        "(at `daily_at`) or `fresh` "
        "(by change rate and importance, within `fetches_per_day`).",
    )
    max_age: DurationMs = Field(
        86_400_000,
        ge=1_000,
        description="With recrawl `age`: pages older than this are fetched again.",
    )
    recrawl_triggers: tuple[Literal["timer", "on_link"], ...] = Field(
        ("timer",),
        description="With recrawl `age`: `timer` fetches a page when it reaches `max_age`, "
        "`on_link` when a link to it is "
        "found after that.",
    )
    daily_at: str = Field(
        "03:00",
        pattern=r"^([01]\d|2[0-3]):[0-5]\d$",
        description="With recrawl `daily`: time of day as HH:MM, in UTC.",
    )
    fetches_per_day: int = Field(
        10_000,
        ge=1,
        description="With recrawl `fresh`: maximum number of fetches of known pages per day.",
    )
    sitemaps: bool = Field(True, description="Read the sitemaps that are listed in robots.txt.")
    feeds: bool = Field(
        True,
        description="Read the RSS and Atom feeds that pages link to, at most 50 of a host.",
    )
    feed_urls: tuple[_Address, ...] = Field(
        (), description="Feeds and sitemaps that are always read."
    )
    traps: bool = Field(
        True,
        description="Skip URLs and site sections that look like crawler traps. `lycosa "
        "explain` shows the counters of the rules.",
    )
    domain_connections: int = Field(
        2,
        ge=1,
        le=64,
        description="Maximum number of concurrent connections to all hosts of a registrable "
        "domain. A connection counts until "
        "the delay after its request is over.",
    )
    address_connections: int = Field(
        4,
        ge=0,
        le=256,
        description="Maximum number of concurrent connections to all hosts with "
        "the same IP address. 0: no limit.",
    )
    burst: int = Field(
        1,
        ge=1,
        le=100,
        description="Number of requests that may follow each other on an open connection without "
        "a delay. The delays are added"
        " up after them.",
    )
    max_url_length: int = Field(
        2_000,
        ge=64,
        le=4_096,
        description="Maximum length of a URL in characters. Longer URLs are skipped.",
    )
    drop_parameters: tuple[str, ...] = Field(
        (),
        description="Query parameters that are removed from URLs, with `*` as a wildcard: "
        "`utm_*`, `fbclid`. This may change "
        "the resource that a URL identifies.",
    )
    drop_session_ids: bool = Field(
        False, description="Remove session IDs such as `jsessionid` and `PHPSESSID` from URLs."
    )
    merge_slashes: bool = Field(False, description="Replace `//` in paths by `/`.")
    drop_trailing_dot: bool = Field(
        False, description="Replace the host `example.org.` by `example.org`."
    )
    markdown: bool = Field(
        False,
        description="Store the main content of each page as Markdown, in the column `markdown` of "
        "the table `pages`. `lycosa reparse` adds it to pages that are already stored.",
    )
    requisites: bool = Field(
        False,
        description="Also fetch page requisites within the scope: images, style sheets and what "
        "they refer to, scripts and "
        "fonts. They are archived but not indexed. `lycosa export mirror` needs them for complete "
        "copies.",
    )
    respect_nofollow: bool = Field(True, description="Do not follow links with `rel=nofollow`.")
    accept_language: str = Field(
        "",
        pattern=r"^[A-Za-z0-9*,;=. -]*$",
        description="Accept-Language header of the collection. Empty: `language` if it is set, "
        "else `fetch.accept_language`.",
    )
    referer: bool = Field(
        False,
        description="Send a Referer header with the URL of the linking page. Other origins "
        "receive only the origin. Nothing is"
        " sent from https to http.",
    )
    cookies: bool = Field(
        False,
        description="Store cookies and send them back. They are kept in the memory of the worker "
        "only.",
    )
    auth: tuple[BasicAuth, ...] = Field(
        (), description="Basic authentication: one `[[collection.auth]]` per URL prefix."
    )
    login: tuple[FormLogin, ...] = Field(
        (), description="Login forms: one `[[collection.login]]` per form."
    )
    render: Literal["never", "auto", "always"] = Field(
        "never",
        description="Render pages in Chromium: `never`, `auto` (if samples of the host show that "
        "rendering adds text or links)"
        " or `always` (every page with scripts).",
    )
    render_hosts: tuple[str, ...] = Field(
        (),
        description="Further hosts, with their subdomains, from which rendered pages may load "
        "scripts and data. The "
        "registrable domain of the page is always allowed.",
    )

    fields: Mapping[str, ItemField] = Field(
        {},
        description="Fields to extract from each page, in `[collection.fields]`: short for one "
        "`[[collection.items]]` with the name of the collection.",
    )
    items: tuple[ItemSchema, ...] = Field(
        (),
        description="Items to extract from pages by selectors: one `[[collection.items]]` per "
        "kind of item.",
    )

    @model_validator(mode="after")
    def _named_schemas(self) -> Self:
        names = [schema.name.replace("-", "_") for schema in self.schemas]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(
                f"two schemas of items are named {twice!r}; names must differ by more than - and "
                "_, also from that of the collection where [collection.fields] is used"
            )
        return self

    @property
    def schemas(self) -> tuple[ItemSchema, ...]:
        """The schemas of `fields` and `items`."""
        if not self.fields:
            return self.items
        return (ItemSchema(name=self.name, fields=self.fields), *self.items)

    @property
    def recrawled_on_link(self) -> bool:
        """Whether a link to an old page makes it due."""
        return self.recrawl == "age" and "on_link" in self.recrawl_triggers


def stored_collection(name: str, settings: Mapping[str, Any]) -> Collection:
    """Return a collection from the settings of its latest claim."""
    fields = {key: value for key, value in settings.items() if key in Collection.model_fields}
    return Collection.model_validate({**fields, "name": name})


ADMISSION_SETTINGS = (
    "seeds",
    "scope",
    "depth",
    "allow",
    "deny",
    "media_types",
    "traps",
    "max_url_length",
    "respect_nofollow",
    "requisites",
    "max_pages",
    "max_pages_per_host",
    "max_pages_per_domain",
    "max_prefix_share",
    "drop_parameters",
    "drop_session_ids",
    "merge_slashes",
    "drop_trailing_dot",
)
"""Settings that may admit more URLs: a change walks stored links again."""

OTHER_SETTINGS = (
    "name",
    "seed_file",
    "language",
    "strategy",
    "priority",
    "schedule",
    "paused",
    "recrawl",
    "max_age",
    "recrawl_triggers",
    "daily_at",
    "fetches_per_day",
    "delay",
    "courtesy_factor",
    "max_delay",
    "backoff",
    "connections",
    "connections_per_host",
    "domain_connections",
    "address_connections",
    "burst",
    "sitemaps",
    "feeds",
    "feed_urls",
    "markdown",
    "accept_language",
    "referer",
    "cookies",
    "auth",
    "login",
    "render",
    "render_hosts",
    "fields",
    "items",
)
"""All other settings. A test requires every setting to be in one of the two lists."""
