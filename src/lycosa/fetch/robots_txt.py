"""robots.txt (RFC 9309): permissions, deciding line, lifetime of a copy.

Pure; never raises. Lines are grouped here by the rules of the RFC, and protego matches only the
paths of the groups for our product token. So a group for `lycos` does not apply to `lycosa`, the
other groups of a long file take no time, and the deciding line can be reported.

FTP has the same file at its root (RFC 9309 section 2.3). Gopher's RFC defines none; its search
engines use the text with the selector `robots.txt`. Its rules apply to selectors, with or without a
leading slash.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Literal, NamedTuple

from protego import Protego

from lycosa.http.decode import Headers
from lycosa.url.schemes import path_start

MAX_ROBOTS_BYTES = 512 * 1024
"""Maximum parsed size; RFC 9309 section 2.5 requires at least 500 KiB."""

MAX_CACHE_MS = 24 * 3_600_000
"""RFC 9309 section 2.4: a copy should not be used for longer."""

MIN_CACHE_MS = 3_600_000
"""Minimum lifetime of a copy, also with no-cache, to limit requests."""

MAX_CRAWL_DELAY_MS = 3_600_000
"""Longer values of Crawl-delay are reduced to this."""

Verdict = Literal["parse", "allow_all", "deny_all"]

# The field names and misspellings that protego accepts; a colon may be missing.
_AGENT = re.compile(r"user[- ]?agent(?:\s*:|\s)\s*(.*)", re.IGNORECASE)
_RULE = re.compile(
    r"(allow|dissallow|dissalow|disalow|diasllow|disallaw|disallow)(?:\s*:|\s)\s*(.*)",
    re.IGNORECASE,
)
_SELECTOR_RULE = re.compile(
    r"^([ \t]*(?:dis)?allow[ \t]*:[ \t]*)(?=[^/*$#\s])", re.IGNORECASE | re.MULTILINE
)
_DELAY = re.compile(r"crawl[- ]delay(?:\s*:|\s)\s*(.*)", re.IGNORECASE)
_SITEMAP = re.compile(r"site-?maps?(?:\s*:|\s)\s*(.*)", re.IGNORECASE)
_LINE_END = re.compile(r"\r\n|\r|\n")
_TOKEN = re.compile(r"[^\s/]+")
# line ends for Python, and so for protego, but not by the RFC
_SPLITS_LINES = re.compile("[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")  # its byte order marks
_SECONDS = re.compile(r"(\d{1,12}(?:\.\d{0,6})?|\.\d{1,6})(?:s|sec|seconds)?(?!\S)", re.IGNORECASE)


def product_token(user_agent: str) -> str:
    """Return the product token of a user agent (RFC 9309 section 2.2.1).

    `Lycosa/0.1 (+https://…)` -> `Lycosa`. The groups of a robots.txt have such tokens.
    """
    return user_agent.partition("/")[0].split(" ")[0].strip()


def robots_url(origin: str) -> str:
    """Return the URL of the robots.txt of an origin."""
    return f"{origin}/0robots.txt" if origin.startswith("gopher:") else f"{origin}/robots.txt"


def _by_selector(url: str) -> str:
    """Return a gopher URL as an http URL with the selector as its path."""
    start = path_start(url)
    return f"http{url[6:start]}/{url[start + 2 :].removeprefix('/')}"


def robots_text(payload: bytes) -> str:
    """Decode a robots.txt up to the limit. RFC 9309 requires UTF-8; UTF-16 is read, too."""
    return payload[:MAX_ROBOTS_BYTES].decode(
        "utf-16" if payload[:2] in _UTF_16 else "utf-8", "replace"
    )


def robots_verdict(status: int, error: str = "") -> Verdict:
    """Return whether to parse a robots.txt, allow all URLs, or allow none.

    RFC 9309 section 2.3.1. 2xx: parse it. 4xx: all URLs are allowed, except for 429, which denies
    like 5xx. No response and 5xx: unreachable, no URL is allowed. 3xx after the maximum of
    redirects: all URLs are allowed.
    """
    if error or status == 0:
        return "deny_all"
    if 200 <= status < 300:
        return "parse"
    if status == 429 or status >= 500 or status < 200:
        return "deny_all"
    return "allow_all"


def cache_ms(headers: Headers) -> int:
    """Return how long a response may be cached, in milliseconds.

    Cache-Control max-age (RFC 9111 section 5.2.2.1) between an hour and a day; a day without it.
    """
    for directive in headers.tokens("cache-control"):
        name, _, value = directive.partition("=")
        if name.strip() in ("no-cache", "no-store"):
            return MIN_CACHE_MS
        digits = value.strip().strip('"')
        if name.strip() == "max-age" and digits.isascii() and digits.isdigit():
            return min(max(int(digits[:12]) * 1000, MIN_CACHE_MS), MAX_CACHE_MS)
    return MAX_CACHE_MS


class _Rule(NamedTuple):
    allow: bool
    pattern: str
    line: str


class Robots:
    """The rules of one robots.txt for one robot."""

    __slots__ = ("_allowed_without_rules", "_body", "_delay_ms", "_matcher", "_sitemaps", "_token")

    def __init__(
        self,
        body: str,
        user_agent: str,
        origin: str = "",
        *,
        allowed_without_rules: bool = True,
    ) -> None:
        """`body`: the text, of which the first 512 KiB are parsed.

        `origin`: its origin; needed only if the scheme is not http or https.
        """
        if origin.startswith("gopher:"):
            body = _SELECTOR_RULE.sub(r"\1/", body[:MAX_ROBOTS_BYTES])
        self._body = body  # the parsed rules are ten times as large: `line` parses it again
        self._token = product_token(user_agent).lower()
        groups = _Groups(self._token, body)
        rules = groups.rules()
        self._delay_ms = groups.delay_ms()
        self._sitemaps = tuple(groups.sitemaps)
        self._allowed_without_rules = allowed_without_rules
        self._matcher = _matcher(rules) if rules else None

    @classmethod
    @cache
    def everything(cls) -> Robots:
        """Return the rules without a robots.txt: all is allowed."""
        return cls("", "*")

    @classmethod
    @cache
    def nothing(cls) -> Robots:
        """Return the rules of an unreachable robots.txt: nothing is allowed."""
        return cls("", "*", allowed_without_rules=False)

    def allowed(self, url: str) -> bool:
        """Return whether an absolute URL of this origin may be fetched. Hot path."""
        if self._matcher is not None:
            if url[:1] == "g":
                url = _by_selector(url)
            allowed: bool = self._matcher.can_fetch(url, "*")
            return allowed
        return self._allowed_without_rules

    def line(self, url: str) -> str:
        """Return the line that decides about a URL, or "".

        It is the longest matching line with the same result as `allowed`.
        """
        if url[:1] == "g":
            url = _by_selector(url)
        allowed = self.allowed(url)
        matching = [
            rule
            for rule in _Groups(self._token, self._body).rules()
            if rule.allow == allowed and _matches(rule, url)
        ]
        return max(matching, key=lambda rule: len(rule.pattern)).line if matching else ""

    def crawl_delay_ms(self) -> int | None:
        """Return the Crawl-delay, at most 1 h; None without a valid one.

        It is not in the RFC, but widely used.
        """
        return self._delay_ms

    def sitemaps(self) -> list[str]:
        """Return the distinct Sitemap lines, as written; they belong to no group."""
        return list(self._sitemaps)


def _matcher(rules: Iterable[_Rule]) -> Protego:
    lines = [
        f"{'Allow' if rule.allow else 'Disallow'}: {_SPLITS_LINES.sub(_percent, rule.pattern)}"
        for rule in rules
    ]
    return Protego.parse("\n".join(["User-agent: *", *lines]))


def _percent(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode())


def _matches(rule: _Rule, url: str) -> bool:
    """Return whether a rule's pattern matches, by testing it alone as a Disallow."""
    return not _matcher([rule._replace(allow=False)]).can_fetch(url, "*")


class _Groups:
    """The groups of a file: for this crawler, for all crawlers, and others.

    RFC 9309 section 2.2: only allow and disallow end a list of user agents. A Crawl-delay applies
    to the agents since the last line that was not a user agent, as authors of such files expect.
    """

    def __init__(self, token: str, body: str) -> None:
        self._token = token
        self._rules_by_agent: dict[str, list[_Rule]] = {}
        self._delays: dict[str, int] = {}
        self.sitemaps: dict[str, None] = {}  # in order, each once
        self._read(body)

    def _read(self, body: str) -> None:
        agents: set[str] = set()
        delay_agents: set[str] = set()
        in_rules = after_delay = False
        lines = _LINE_END.split(body.removeprefix("\ufeff")[:MAX_ROBOTS_BYTES])
        if len(body) >= MAX_ROBOTS_BYTES:
            lines.pop()  # a truncated Allow would allow too much
        for line in lines:
            text = line.partition("#")[0].strip()
            if not text:
                continue
            if match := _AGENT.fullmatch(text):
                if in_rules:
                    agents, in_rules = set(), False
                    after_delay = True
                if after_delay:
                    delay_agents, after_delay = set(), False
                for name in match[1].split(","):  # one line for several, against the RFC
                    agent = self._agent(name.strip())
                    agents.add(agent)
                    delay_agents.add(agent)
                    self._rules_by_agent.setdefault(agent, [])
            elif match := _RULE.fullmatch(text):
                in_rules = True
                for agent in agents:
                    if match[2]:
                        self._rules_by_agent[agent].append(
                            _Rule(match[1][0] in "aA", match[2], text)
                        )
            elif match := _DELAY.fullmatch(text):
                after_delay = True
                if (delay := _delay_ms(match[1])) is not None:
                    for agent in delay_agents:
                        self._delays[agent] = delay
            elif (match := _SITEMAP.fullmatch(text)) and match[1]:
                self.sitemaps[match[1]] = None

    def _agent(self, value: str) -> str:
        """Return the group of a user agent: `*`, our token, or "" for others."""
        match = _TOKEN.match(value)
        if match is None:
            return ""
        if match[0] == "*":
            return "*"
        return self._token if match[0].strip("*").lower() == self._token else ""

    def _group(self) -> str:
        return self._token if self._token in self._rules_by_agent else "*"

    def rules(self) -> list[_Rule]:
        return self._rules_by_agent.get(self._group(), [])

    def delay_ms(self) -> int | None:
        return self._delays.get(self._group())


def _delay_ms(value: str) -> int | None:
    match = _SECONDS.match(value)
    return min(round(float(match[1]) * 1000), MAX_CRAWL_DELAY_MS) if match else None
