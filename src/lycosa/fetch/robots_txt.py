"""robots.txt (RFC 9309): permissions, the deciding line, and how long a copy is valid. Pure; never
raises.

Lines are grouped here by the rules of the RFC, and protego matches the paths of the groups for our
product token: so a group for `lycos` does not apply to `lycosa`, a file with a thousand groups
costs no more than ours, and the deciding line can be reported.

FTP has the same file at its root (RFC 9309 section 2.3). Gopher has none by its RFC, but a custom
that its search engines keep: the text with the selector `robots.txt`, whose rules are about
selectors, slash or not.
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
"""What is read of a robots.txt; RFC 9309 section 2.5 asks for at least 500 KiB."""

MAX_CACHE_MS = 24 * 3_600_000
"""RFC 9309 section 2.4: a copy should not be used for longer."""

MIN_CACHE_MS = 3_600_000
"""A file with no-cache is still fetched only once an hour, to limit the load of robots.txt."""

MAX_CRAWL_DELAY_MS = 3_600_000
"""Longer values of Crawl-delay are reduced to this."""

Verdict = Literal["parse", "allow_all", "deny_all"]

# Names and misspellings as protego reads them; a colon may be missing.
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
# for Python, and so for protego, but not for the RFC
_SPLITS_LINES = re.compile("[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")  # its byte order marks
_SECONDS = re.compile(r"(\d{1,12}(?:\.\d{0,6})?|\.\d{1,6})(?!\S)")


def product_token(user_agent: str) -> str:
    """`Lycosa/0.1 (+https://…)` -> `Lycosa`: what robots.txt files name (RFC 9309 section
    2.2.1).
    """
    return user_agent.partition("/")[0].split(" ")[0].strip()


def robots_url(origin: str) -> str:
    """Return the URL of the robots.txt of an origin."""
    return f"{origin}/0robots.txt" if origin.startswith("gopher:") else f"{origin}/robots.txt"


def _by_selector(url: str) -> str:
    """Return a gopher URL without its item type, as rules have it: a path of the web."""
    start = path_start(url)
    return f"http{url[6:start]}/{url[start + 2 :].removeprefix('/')}"


def robots_text(payload: bytes) -> str:
    """Decode a robots.txt up to the limit. RFC 9309 requires UTF-8; UTF-16 is read, too."""
    return payload[:MAX_ROBOTS_BYTES].decode(
        "utf-16" if payload[:2] in _UTF_16 else "utf-8", "replace"
    )


def robots_verdict(status: int, error: str = "") -> Verdict:
    """Return what a response to the request for robots.txt means (RFC 9309 section 2.3.1).

    2xx: parse it. 4xx: all is allowed, except for 429, which denies like 5xx. No response and 5xx:
    unreachable, nothing is allowed. 3xx after the maximum of redirects: all is allowed.
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
        """`body`: the text; its first 512 KiB are read. `origin`: its origin if the scheme is not
        http or https.
        """
        if origin.startswith("gopher:"):
            body = _SELECTOR_RULE.sub(r"\1/", body[:MAX_ROBOTS_BYTES])
        self._body = body  # the parsed rules are ten times as large: `line` reads again
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
        """Return the line that decides about a URL: the longest that matches and agrees with the
        verdict, "" without one.
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
        """Crawl-delay (not in the RFC, but widely written), at most an hour; None without a
        readable one.
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
    """Sorts the lines of a file into those for this crawler, those for all crawlers, and the rest
    (RFC 9309 section 2.2).

    Only allow and disallow end a list of user agents, as the RFC has it; a Crawl-delay belongs to
    the agents named since the last line that was not a user agent, as authors of such files expect.
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
            lines.pop()  # half an Allow would allow too much
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
                agent = self._agent(match[1])
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
        """`*`, our token, or "" for everybody else's."""
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
