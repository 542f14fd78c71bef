"""Admission: which URLs a collection takes, decided by the URL alone."""

from __future__ import annotations

import re
from collections.abc import Iterable

from lycosa.core.config import Collection
from lycosa.core.errors import Refusal, UrlError
from lycosa.url.domain import Domains
from lycosa.url.normalise import normalise
from lycosa.url.rules import Rules
from lycosa.url.schemes import CRAWLED, OTHERS, WEB, path_start, scheme_of

_MAX_ORIGINS = 16_384  # 2 MB


def url_origin(url: str) -> str:
    """`scheme://host[:port]` of a normalised URL, the port only where it is not the scheme's own.

    Raises:
        UrlError: a URL of another scheme than those that are crawled.
    """
    if not url.startswith(CRAWLED):
        raise UrlError(Refusal.SCHEME, url)
    end = path_start(url)
    return url if end < 0 else url[:end]


def hostname(url: str) -> str:
    """The hostname of a normalised URL, as the standard serialises it: no port, IPv6 in brackets.

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
    """The scope and the patterns of a collection. Hot path (`bench/url.py`): the scope's verdict is cached by origin.

    http and https are taken always, ftp and gopher where a seed is of that scheme, or with `other_schemes`. Scopes hold for http and
    https alike, since sites move from one to the other, and but for `prefix` for all schemes:

    - `host`: hostname and port of a seed; a scheme's own port counts as none, so http://h/ admits https://h/
    - `domain`: the registrable domain of a seed's host, any port
    - `prefix`: hostname and port of a seed, and a path that starts with the seed's path up to its last slash
    - `any`: everything

    Seeds go through the collection's rewriting rules first, as the links do.

    Raises:
        UrlError: a seed is not a usable URL.
    """

    def __init__(self, collection: Collection, seeds: Iterable[str], domains: Domains, *, other_schemes: bool = False) -> None:
        rules = Rules(collection)
        starts = list(dict.fromkeys(rules.apply(normalise(seed)) for seed in seeds))
        self._schemes = (*WEB, *(scheme for scheme in OTHERS if other_schemes or any(start.startswith(scheme) for start in starts)))
        self._scope = collection.scope
        self._max_length = collection.max_url_length
        self._allow = tuple(re.compile(pattern) for pattern in collection.allow)
        self._deny = tuple(re.compile(pattern) for pattern in collection.deny)
        self._patterns = bool(self._allow or self._deny)
        self._domains = domains
        self._hosts = frozenset(map(_host_and_port, starts))
        self._registrable = frozenset(domains.registrable(hostname(start)) for start in starts) if self._scope == "domain" else frozenset()
        self._folders = tuple(folder for pair in dict.fromkeys(map(_folders, starts)) for folder in pair)
        self._origins: dict[str, bool] = {}

    def refuse(self, url: str) -> Refusal | None:
        """Why a normalised URL is not admitted, or None. The first that holds of: scheme, too_long, scope, pattern.

        `pattern`: a deny expression matches somewhere, or there are allow expressions and none does.
        """
        # Nearly all links. Only origins of schemes that are taken are remembered; what is cut so of an ftp or gopher URL is no other's.
        if not self._patterns and len(url) <= self._max_length and self._origins.get(url[: url.find("/", 8)]):
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
        """How many hosts, with their ports, the seeds have."""
        return len(self._hosts)

    def is_named(self, url: str) -> bool:
        """Whether a URL in scope lies where a seed does: on its host (in its domain, if that is the scope), not only linked from there."""
        return self._scope != "any" or _host_and_port(url) in self._hosts

    def explain(self, url: str) -> str:
        """One line for people: what admitted or refused this normalised URL."""
        refusal = self.refuse(url)
        if refusal is Refusal.SCHEME:
            if url.startswith(OTHERS):
                return f"refused (scheme): no seed is {scheme_of(url)}, and fetch.other_schemes is off"
            return "refused (scheme): only http, https, ftp and gopher are crawled"
        if refusal is Refusal.TOO_LONG:
            return f"refused (too_long): {len(url)} characters, max_url_length is {self._max_length}"
        if refusal is Refusal.SCOPE:
            return f"refused (scope): {self._outside(url)}"
        pattern = self._by_pattern(url)[1]
        if refusal is Refusal.PATTERN:
            return f"refused (pattern): {pattern}"
        return f"admitted: {self._inside(url)}" + (f"; {pattern}" if pattern else "")

    def _in_scope(self, url: str) -> bool:
        if self._scope == "any":
            return True
        if self._scope == "prefix":
            return url.startswith(self._folders)
        origin = url[: path_start(url)]
        known = self._origins.get(origin)
        if known is None:
            if self._scope == "host":
                known = _host_and_port(url) in self._hosts
            else:
                known = self._domains.registrable(hostname(url)) in self._registrable
            if len(self._origins) >= _MAX_ORIGINS:
                self._origins.clear()
            self._origins[origin] = known
        return known

    def _by_pattern(self, url: str) -> tuple[bool, str]:
        """Whether the patterns refuse the URL, and which one decided ("" where there are none)."""
        for deny in self._deny:
            if deny.search(url):
                return True, f"deny {deny.pattern!r} matches"
        for allow in self._allow:
            if allow.search(url):
                return False, f"allow {allow.pattern!r} matches"
        return (True, f"no allow expression matches ({_few(allow.pattern for allow in self._allow)})") if self._allow else (False, "")

    def _inside(self, url: str) -> str:
        if self._scope == "any":
            return "scope any"
        if self._scope == "prefix":
            return f"scope prefix, under the seed's folder {next(folder for folder in self._folders if url.startswith(folder))}"
        if self._scope == "host":
            return f"scope host, {_host_and_port(url)} is a seed's host"
        return f"scope domain, {self._domains.registrable(hostname(url))} is a seed's registrable domain"

    def _outside(self, url: str) -> str:
        if self._scope == "prefix":
            return f"not under a seed's folder ({_few(self._folders[::2])})"
        if self._scope == "host":
            return f"{_host_and_port(url)} is not the host and port of a seed ({_few(sorted(self._hosts))})"
        return f"{self._domains.registrable(hostname(url))} is not the registrable domain of a seed ({_few(sorted(self._registrable))})"


def _folders(url: str) -> tuple[str, str]:
    """The folder of a URL under its own scheme and the other one of the web."""
    path = url.partition("?")[0]
    scheme, _, rest = path[: path.rindex("/") + 1].partition("://")
    other = {"http": "https", "https": "http"}.get(scheme, scheme)
    return f"{scheme}://{rest}", f"{other}://{rest}"


def _few(names: Iterable[str], limit: int = 3) -> str:
    """The first few of a list, and how many more there are."""
    listed = list(names)
    more = len(listed) - limit
    return ", ".join(listed[:limit]) + (f" and {more} more" if more > 0 else "") or "there are none"
