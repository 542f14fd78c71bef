"""Registrable domains (eTLD+1) by the public suffix list."""

from __future__ import annotations

import re
from functools import cached_property, lru_cache
from pathlib import Path

import publicsuffixlist

_MAX_HOSTS = 16_384  # 4 MB
_IPV4 = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}")


def bundled_suffix_list() -> str:
    """Return the rules of the installed public suffix list, without comments, one per line.

    A workspace stores them, to keep its partitions.
    """
    lines = Path(publicsuffixlist.PSLFILE).read_text(encoding="utf-8").splitlines()
    return "\n".join([line for line in lines if line and not line.startswith("//")])


@lru_cache(maxsize=2)
def _read(suffix_list_text: str) -> publicsuffixlist.PublicSuffixList:
    """Parse a list; cached since the server opens its workspace for each change."""
    return publicsuffixlist.PublicSuffixList(suffix_list_text)


@lru_cache(maxsize=1)
def _registries() -> publicsuffixlist.PublicSuffixList:
    return publicsuffixlist.PublicSuffixList(accept_unknown=False, only_icann=True)


def is_public_suffix(name: str) -> bool:
    """Return whether a registry sells names below a name, as below `com` and `co.uk`."""
    return bool(_registries().publicsuffix(name) == name)


class Domains:
    """The rules of one public suffix list (https://publicsuffix.org/list/, private section
    included).

    The rules are parsed at first use and once a process, so that a workspace opens quickly.
    """

    def __init__(self, suffix_list_text: str) -> None:
        self._text = suffix_list_text
        self._cached: dict[str, str] = {}

    @cached_property
    def _rules(self) -> publicsuffixlist.PublicSuffixList:
        return _read(self._text)

    def registrable(self, host: str) -> str:
        """Return the registrable domain of a hostname, in lower case, without a trailing dot.

        IP addresses, single labels, public suffixes and names with empty labels are their own.
        """
        cached = self._cached.get(host)
        if cached is None:
            cached = self._find(host)
            if len(self._cached) >= _MAX_HOSTS:
                self._cached.clear()
            self._cached[host] = cached
        return cached

    def _find(self, host: str) -> str:
        name = host.lower().removesuffix(".")
        if ":" in name or "." not in name or _IPV4.fullmatch(name):
            return name or host
        suffix: str | None = self._rules.privatesuffix(name)
        return suffix or name
