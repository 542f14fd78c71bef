"""The exclusion list of the operator: URLs that must never be fetched.

A text file in UTF-8 with one rule a line; text after # is stored as the reason:

    host   www.example.org                     # mail of 2026-11-02
    domain example.org                         # with all hosts below it
    prefix https://example.org/private/        # http and https alike

It may be edited during a crawl. If it cannot be read or has an invalid line, the previous rules
stay in force and the problem is reported.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from enum import StrEnum
from os import stat_result
from pathlib import Path
from typing import NamedTuple

from lycosa.core.clock import Clock, Interval
from lycosa.core.errors import ConfigError, UrlError
from lycosa.url.normalise import normalise
from lycosa.url.schemes import CRAWLED
from lycosa.url.scope import hostname

CHECK_MS = 2_000
"""How often the file is checked."""

_MAX_PROBLEMS = 10
_LINE = re.compile(r"(\S+)(?:\s+(\S+))?(?:\s+(.*))?")
COMMENT = re.compile(r"(?:^|\s)#")  # a # within a URL is a fragment, not a comment


class ExclusionKind(StrEnum):
    """Kinds of rules."""

    HOST = "host"  # one hostname, on all its ports
    DOMAIN = "domain"  # a name and all below it; a registrable domain, or more, or less
    PREFIX = "prefix"  # all URLs that begin so


class ExclusionRule(NamedTuple):
    """One line of the list; `value` normalised, a prefix without its scheme. `line` counts from
    1.
    """

    kind: ExclusionKind
    value: str
    reason: str
    line: int

    def __str__(self) -> str:
        return (
            f"{self.kind} {self.value} (line {self.line}{': ' if self.reason else ''}{self.reason})"
        )


class ExclusionRules:
    """An immutable snapshot of the list, for any thread."""

    __slots__ = ("_domains", "_hosts", "_prefixes", "_starts", "rules")

    def __init__(self, rules: Iterable[ExclusionRule] = ()) -> None:
        self.rules = tuple(rules)
        self._hosts = _first_of(self.rules, ExclusionKind.HOST)
        self._domains = _first_of(self.rules, ExclusionKind.DOMAIN)
        self._prefixes = _first_of(self.rules, ExclusionKind.PREFIX)
        self._starts = _without_longer(sorted(self._prefixes))

    def __len__(self) -> int:
        return len(self.rules)

    def excluded(self, url: str, host: str, registrable_domain: str) -> ExclusionRule | None:
        """Return the rule that excludes a normalised URL, or None. Hot path.

        Args:
            host: its hostname (`lycosa.url.scope.hostname`).
            registrable_domain: of that host (`lycosa.url.domain.Domains`).
        """
        if not self.rules:
            return None
        name = host.removesuffix(".")
        rule = (
            self._hosts.get(name) or self._domains.get(registrable_domain) or self._by_parent(name)
        )
        if rule is None and self._starts:
            rest = name + url.partition("://")[2][len(host) :]
            # no start is a prefix of another, so the one that matches is the greatest not after it
            at = bisect_right(self._starts, rest) - 1
            if at >= 0 and rest.startswith(self._starts[at]):
                return self._prefixes[self._starts[at]]
        return rule

    def _by_parent(self, host: str) -> ExclusionRule | None:
        """Match `domain` rules for other names: news.example.org, or a suffix as github.io."""
        name = host
        while self._domains and name:
            rule = self._domains.get(name)
            if rule is not None:
                return rule
            name = name.partition(".")[2]
        return None


def parse_exclusions(text: str, source: str) -> ExclusionRules:
    """Read a list.

    Raises:
        ConfigError: invalid lines; the message has the first ten, each with a correction.
    """
    rules: list[ExclusionRule] = []
    problems: list[str] = []
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
        comment = COMMENT.search(line)
        statement = line[: comment.start()].strip() if comment else line.strip()
        if not statement:
            continue
        try:
            rules.append(_rule(statement, line[comment.end() :].strip() if comment else "", number))
        except ValueError as error:
            problems.append(f"{source}, line {number}: {statement!r}: {error}")
    if problems:
        more = len(problems) - _MAX_PROBLEMS
        raise ConfigError(
            "\n".join(problems[:_MAX_PROBLEMS])
            + (f"\n{source}: {more} more invalid lines" if more > 0 else "")
        )
    return ExclusionRules(rules)


def _rule(statement: str, reason: str, number: int) -> ExclusionRule:
    match = _LINE.fullmatch(statement)
    assert match is not None  # a statement is not empty
    word, value, rest = match[1].lower(), match[2], match[3]
    if word not in set(ExclusionKind):
        raise ValueError(
            "a line must begin with host, domain or prefix, for example: host www.example.org"
        )
    kind = ExclusionKind(word)
    if not value:
        raise ValueError(
            f"{word!r} needs a {'URL' if kind is ExclusionKind.PREFIX else 'host name'} after it"
        )
    if rest:
        raise ValueError(f"write one {word} per line, and # before a comment")
    return ExclusionRule(
        kind, _prefix(value) if kind is ExclusionKind.PREFIX else _name(value, kind), reason, number
    )


def _name(value: str, kind: ExclusionKind) -> str:
    if parent := re.fullmatch(r"\*?\.([^.].*)", value):
        raise ValueError(f"write domain {parent[1]}, which includes all hosts below it")
    if re.search(r"[/?#@\\]", value):
        raise ValueError(
            f"{kind} needs a name without scheme and path; for a URL, write prefix URL"
        )
    try:
        host = hostname(normalise(f"http://{value}/"))
    except UrlError:
        raise ValueError("not a host name") from None
    if value.endswith("]") != host.endswith("]") or (":" in value and not value.endswith("]")):
        raise ValueError("remove the port: a rule applies to all ports")
    name = host.removesuffix(".")
    if not name or "*" in name:
        raise ValueError("not a host name")
    return name


def _prefix(value: str) -> str:
    if "#" in value:
        raise ValueError("remove the # and the text after it: fragments are not sent to servers")
    if not value.lower().startswith(CRAWLED):
        raise ValueError(f"write the complete URL, for example: prefix https://{value.lstrip('/')}")
    try:
        return normalise(value).partition("://")[2]
    except UrlError as error:
        raise ValueError(f"not a valid URL ({error.reason.value})") from None


def _first_of(rules: Iterable[ExclusionRule], kind: ExclusionKind) -> dict[str, ExclusionRule]:
    first_rules: dict[str, ExclusionRule] = {}
    for rule in rules:
        if rule.kind is kind:
            first_rules.setdefault(rule.value, rule)
    return first_rules


def _without_longer(starts: list[str]) -> list[str]:
    """Return the sorted strings that do not begin with another one."""
    prefixes: list[str] = []
    for start in starts:
        if not prefixes or not start.startswith(prefixes[-1]):
            prefixes.append(start)
    return prefixes


class ExclusionFile:
    """The list in a file, reloaded when it changes. Not thread-safe; its snapshots are."""

    def __init__(self, path: Path, clock: Clock) -> None:
        """
        Raises:
            ConfigError: the file cannot be read or has invalid lines; nothing may be fetched.
        """
        self._path = path
        self._checks = Interval(clock, CHECK_MS, first_ms=CHECK_MS)
        self._signature = self._seen = _signature(path)
        self._current = read_exclusions(path)
        self.problem = ""

    def current(self) -> ExclusionRules:
        """Return the rules in force; a new object after a change.

        `problem` is then why the current file is not in force, "" if it is. A change counts when
        two checks in a row see the same file, so that a half-written file is not used.
        """
        if not self._checks.is_due():
            return self._current
        signature = _signature(self._path)
        if signature != self._signature and signature == self._seen:
            self._load(signature)
        elif signature == self._signature:
            self.problem = ""  # the file has been restored
        self._seen = signature
        return self._current

    def _load(self, signature: tuple[int, int, int]) -> None:
        try:
            loaded = read_exclusions(self._path)
        except ConfigError as error:
            self.problem = (
                "the exclusion file has changed but cannot be used; the previous "
                f"exclusions stay in force: {error}"
            )
            return
        if _signature(self._path) == signature:
            self._current, self._signature, self.problem = loaded, signature, ""


def configured_file(path: str, clock: Clock) -> ExclusionFile | None:
    """Return the file of `crawl.exclusions`, None if it is empty. Raises as `ExclusionFile`."""
    return ExclusionFile(Path(path), clock) if path else None


def _signature(path: Path) -> tuple[int, int, int]:
    """Return values that change with the content of a file; zeros if there is none."""
    try:
        status: stat_result = path.stat()
    except OSError:
        return (0, 0, 0)
    return (status.st_mtime_ns, status.st_size, status.st_ino)


def read_exclusions(path: Path) -> ExclusionRules:
    """Read a list of exclusions. Raises ConfigError as `ExclusionFile`."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"exclusion list {path} cannot be read: {error}; fix it or remove crawl.exclusions"
        ) from None
    return parse_exclusions(text, str(path))
