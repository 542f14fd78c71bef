"""Admission: which URLs a collection accepts, decided by the URL alone."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import assert_never

from lycosa.config.settings import Collection
from lycosa.core.errors import Refusal, UrlError
from lycosa.core.messages import Message, listed
from lycosa.url.domain import Domains
from lycosa.url.normalise import normalise
from lycosa.url.rules import Rules
from lycosa.url.schemes import CRAWLED, OTHERS, WEB, path_start, scheme_of

_MAX_ORIGINS = 16_384  # 2 MB
_MAX_NAMES = 3  # in a message


@lru_cache(maxsize=256)
def url_origin(url: str) -> str:
    """Return `scheme://host[:port]` of a normalised URL, without the default port of the scheme.

    Raises:
        UrlError: a URL of another scheme than those that are crawled.
    """
    if not url.startswith(CRAWLED):
        raise UrlError(Refusal.SCHEME, url)
    end = path_start(url)
    return url if end < 0 else url[:end]


def hostname(url: str) -> str:
    """Return the hostname of a normalised URL: no port, IPv6 in brackets.

    Raises:
        UrlError: as `url_origin`.
    """
    return _without_port(_host_and_port(url))


def _host_and_port(url: str) -> str:
    return url_origin(url).partition("://")[2]


def _without_port(host: str) -> str:
    colon = host.rfind(":")
    return host if colon < 0 or host.endswith("]") else host[:colon]


class Admission:
    """The scope and the patterns of a collection. Hot path of `bench/network.py`.

    http and https are always accepted, ftp and gopher if a seed has that scheme, or with
    `other_schemes`. Scopes treat http and https alike, and all schemes but for `prefix`:

    - `host`: hostname and port of a seed; a scheme's own port counts as none, so http://h/ admits
      https://h/
    - `domain`: the registrable domain of a seed's host, any port
    - `prefix`: hostname and port of a seed, and a path that starts with the seed's path up to its
      last slash
    - `any`: everything

    Seeds are rewritten by the rules of the collection first, as links are.

    Raises:
        UrlError: a seed is not a usable URL.
    """

    def __init__(
        self,
        collection: Collection,
        seeds: Iterable[str],
        domains: Domains,
        *,
        other_schemes: bool = False,
    ) -> None:
        rules = Rules(collection)
        starts = list(dict.fromkeys(rules.apply(normalise(seed)) for seed in seeds))
        self._schemes = (
            *WEB,
            *(
                scheme
                for scheme in OTHERS
                if other_schemes or any(start.startswith(scheme) for start in starts)
            ),
        )
        self._scope = collection.scope
        self._max_length = collection.max_url_length
        self._allow = tuple(re.compile(pattern) for pattern in collection.allow)
        self._deny = tuple(re.compile(pattern) for pattern in collection.deny)
        self._patterns = bool(self._allow or self._deny)
        self._domains = domains
        self._hosts = frozenset(map(_host_and_port, starts))
        self._registrable = (
            frozenset(domains.registrable(hostname(start)) for start in starts)
            if self._scope == "domain"
            else frozenset()
        )
        self._folders = tuple(
            folder for pair in dict.fromkeys(map(_folders, starts)) for folder in pair
        )
        self._origins: dict[str, bool] = {}

    def refuse(self, url: str) -> Refusal | None:
        """Return why a normalised URL is not admitted, or None.

        The first that applies of: scheme, too_long, scope, pattern.

        `pattern`: a deny expression matches somewhere, or there are allow expressions and none
        does.
        """
        # nearly all links; only origins of accepted schemes are cached
        if (
            not self._patterns
            and len(url) <= self._max_length
            and self._origins.get(url[: url.find("/", 8)])
        ):
            return None
        if not url.startswith(self._schemes):
            return Refusal.SCHEME
        if len(url) > self._max_length:
            return Refusal.TOO_LONG
        if not self._in_scope(url):
            return Refusal.SCOPE
        if self._patterns and self._by_pattern(url)[0]:
            return Refusal.PATTERN
        return None

    @property
    def named_hosts(self) -> int:
        """Return the number of hosts (with ports) of the seeds."""
        return len(self._hosts)

    def is_named(self, url: str) -> bool:
        """Return whether a URL in scope is on the host of a seed, or in its domain."""
        return self._scope != "any" or _host_and_port(url) in self._hosts

    def explain(self, url: str) -> str:
        """Return one line for people: why a normalised URL is admitted or refused."""
        refusal = self.refuse(url)
        if refusal is Refusal.SCHEME:
            if url.startswith(OTHERS):
                return Message(
                    "refused_other_scheme",
                    "refused (scheme): no seed uses {scheme}, and fetch.other_schemes is off",
                    scheme=scheme_of(url),
                )
            return Message(
                "refused_scheme", "refused (scheme): only http, https, ftp and gopher are crawled"
            )
        if refusal is Refusal.TOO_LONG:
            return Message(
                "refused_too_long",
                "refused (too_long): {n} characters, max_url_length is {most}",
                n=len(url),
                most=self._max_length,
            )
        if refusal is Refusal.SCOPE:
            return Message("refused_scope", "refused (scope): {why}", why=self._outside(url))
        pattern = self._by_pattern(url)[1]
        if refusal is Refusal.PATTERN:
            return Message("refused_pattern", "refused (pattern): {why}", why=pattern)
        return Message(
            "admitted",
            "admitted: {why}",
            why=listed([part for part in (self._inside(url), pattern) if part]),
        )

    def _in_scope(self, url: str) -> bool:
        if self._scope == "prefix":
            return url.startswith(self._folders)
        origin = url[: path_start(url)]
        cached = self._origins.get(origin)
        if cached is None:
            match self._scope:
                case "any":
                    cached = True
                case "host":
                    cached = _host_and_port(url) in self._hosts
                case "domain":
                    cached = self._domains.registrable(hostname(url)) in self._registrable
                case _:
                    assert_never(self._scope)
            if len(self._origins) >= _MAX_ORIGINS:
                self._origins.clear()
            self._origins[origin] = cached
        return cached

    def _by_pattern(self, url: str) -> tuple[bool, str]:
        """Return whether the patterns refuse the URL, and the one that decided ("" without any)."""
        for deny in self._deny:
            if deny.search(url):
                return True, Message(
                    "deny_matches", "deny {pattern} matches", pattern=repr(deny.pattern)
                )
        for allow in self._allow:
            if allow.search(url):
                return False, Message(
                    "allow_matches", "allow {pattern} matches", pattern=repr(allow.pattern)
                )
        if not self._allow:
            return False, ""
        patterns = _few(allow.pattern for allow in self._allow)
        return True, Message(
            "no_allow_matches", "no allow expression matches ({patterns})", patterns=patterns
        )

    def _inside(self, url: str) -> str:
        match self._scope:
            case "any":
                return Message("scope_any", "scope = any")
            case "prefix":
                return Message(
                    "scope_prefix",
                    "scope = prefix: below {folder}, the folder of a seed",
                    folder=next(each for each in self._folders if url.startswith(each)),
                )
            case "host":
                return Message(
                    "scope_host",
                    "scope = host: {host} is the host of a seed",
                    host=_host_and_port(url),
                )
            case "domain":
                return Message(
                    "scope_domain",
                    "scope = domain: {domain} is the registrable domain of a seed",
                    domain=self._domains.registrable(hostname(url)),
                )
            case _:
                assert_never(self._scope)

    def _outside(self, url: str) -> str:
        match self._scope:
            case "prefix":
                return Message(
                    "outside_prefix",
                    "not below the folder of a seed ({seeds})",
                    seeds=_few(self._folders[::2]),
                )
            case "host":
                return Message(
                    "outside_host",
                    "{host} is not the host and port of a seed ({seeds})",
                    host=_host_and_port(url),
                    seeds=_few(sorted(self._hosts)),
                )
            case "domain":
                return Message(
                    "outside_domain",
                    "{domain} is not the registrable domain of a seed ({seeds})",
                    domain=self._domains.registrable(hostname(url)),
                    seeds=_few(sorted(self._registrable)),
                )
            case "any":
                raise AssertionError("nothing is outside scope = any")
            case _:
                assert_never(self._scope)


def _folders(url: str) -> tuple[str, str]:
    """Return the folder of a URL, under http and https."""
    path = url.partition("?")[0]
    scheme, _, rest = path[: path.rindex("/") + 1].partition("://")
    other = {"http": "https", "https": "http"}.get(scheme, scheme)
    return f"{scheme}://{rest}", f"{other}://{rest}"


def _few(names: Iterable[str]) -> str:
    """Return the first few names, and how many more there are."""
    all_names = list(names)
    more = len(all_names) - _MAX_NAMES
    first = ", ".join(all_names[:_MAX_NAMES])
    if more > 0:
        return Message("few_and_more", "{names} and {n} more", names=first, n=more)
    return first or Message("few_none", "no seeds")
