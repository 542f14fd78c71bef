"""Exclusions of hosts, domains and URL prefixes, made by the operator.

A rule is text, as in the log: `host:www.example.org` (that host), `domain:example.org` (with all
subdomains), `prefix:www.example.org:8080/private/` (these URLs over http and https).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import field

from lycosa.core.dataclass import dataclass
from lycosa.core.errors import UsageError
from lycosa.url.domain import is_public_suffix
from lycosa.url.normalise import normalise
from lycosa.url.scope import hostname
from lycosa.url.site_name import site_name

HOST, DOMAIN, PREFIX = "host", "domain", "prefix"
_TLS_PORT = re.compile(r"[^/?#]*:443(?!\d)")


def parse_rule(text: str) -> str:
    """Return a rule in the form of the log. `prefix:` may be followed by a complete URL.

    Without a kind, `example.org` is the host, `example.org:8080` that port of it, and a URL with a
    path is a prefix.

    Raises:
        UsageError: it is not a rule.
    """
    kind, _, value = text.strip().partition(":")
    try:
        if kind not in (HOST, DOMAIN, PREFIX) and text.strip():
            if "*" in text.partition("://")[2].partition("/")[0] or "*" in text.partition("/")[0]:
                raise UsageError(
                    "* is not allowed here; domain:example.org includes all its subdomains"
                )
            site = site_name(text.strip())
            whole = normalise(_with_scheme(text.strip())).partition("://")[2]
            return (
                f"{HOST}:{site.host.removesuffix('.')}"
                if whole == f"{site.host}/"
                else f"{PREFIX}:{whole}"
            )
        if kind == PREFIX and value:
            url = normalise(_with_scheme(value))
            return f"{PREFIX}:{url.partition('://')[2]}"
        if kind in (HOST, DOMAIN) and value and not set(value) & set("/?#@ "):
            name = hostname(normalise(f"http://{value}/")).removesuffix(".")
            if not name or "*" in name or name.startswith("."):
                raise UsageError(
                    "write a name without * and without a point before it; domain:example.org "
                    "includes all its subdomains"
                )
            if ":" in value.rpartition("]")[2]:
                raise UsageError(f"{kind}: applies to all ports; for one, write HOST:PORT")
            if kind == DOMAIN and is_public_suffix(name):
                raise UsageError(
                    f"{name} is a public suffix, and all sites below it would be excluded "
                    f"permanently; write the domain of one site, as in domain:example.{name}"
                )
            return f"{kind}:{name}"
    except UsageError as error:
        raise UsageError(f"{text!r} is not an exclusion: {error}") from None
    raise UsageError(
        f"{text!r} is not an exclusion: write a host, a URL, host:NAME, domain:NAME or prefix:URL"
    )


def _with_scheme(text: str) -> str:
    """Return a URL that may be typed without its scheme."""
    if "://" in text:
        return text
    return f"{'https' if _TLS_PORT.match(text) else 'http'}://{text}"


@dataclass(slots=True)
class Exclusions:
    """The rules in force. `rules` maps each to its log entry. False without rules."""

    rules: dict[str, int] = field(default_factory=dict)
    hosts: set[str] = field(default_factory=set)
    domains: set[str] = field(default_factory=set)
    # authority -> prefixes, authority included
    prefixes: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.rules)

    def add(self, rules: Iterable[str], entry: int) -> None:
        """Add the rules of a log entry; existing rules keep their entries."""
        for rule in rules:
            if rule in self.rules:
                continue
            self.rules[rule] = entry
            kind, _, value = rule.partition(":")
            if kind == HOST:
                self.hosts.add(value)
            elif kind == DOMAIN:
                self.domains.add(value)
            elif kind == PREFIX:
                authority = value.partition("/")[0]
                self.prefixes[authority] = (*self.prefixes.get(authority, ()), value)

    def excluded(self, url: str, host: str) -> bool:
        """Return whether a normalised URL of that hostname is excluded. Hot path: every link."""
        if not self.rules:
            return False
        if self.host_excluded(host):
            return True
        if not self.prefixes:
            return False
        rest = url.partition("://")[2]
        return rest.startswith(self.prefixes.get(rest.partition("/")[0], ()))

    def host_excluded(self, host: str) -> bool:
        """Return whether all URLs of a hostname are excluded."""
        name = host.removesuffix(".")
        if name in self.hosts:
            return True
        while self.domains and name:
            if name in self.domains:
                return True
            name = name.partition(".")[2]
        return False
