"""The rules of each origin's robots.txt (RFC 9309).

An origin is unknown, pending (its file is being fetched) or known until it expires. Nothing is
fetched from an origin that is not known. An unreachable file (no response, 5xx) allows nothing, and
is requested again after `UNREACHABLE_TTL_MS`.
"""

from __future__ import annotations

from collections.abc import Iterable

from cachetools import LRUCache

from lycosa.core.dataclass import dataclass
from lycosa.core.host_row import RobotsEntry
from lycosa.core.records import Exchange
from lycosa.fetch.robots_txt import MAX_ROBOTS_BYTES, Robots, cache_ms, robots_text, robots_verdict
from lycosa.http.decode import decode_body, parse_head

MAX_HOPS = 5
"""Maximum number of followed redirects (RFC 9309 section 2.3.1.2)."""

UNREACHABLE_TTL_MS = 30 * 60_000
"""Lifetime of "disallow all" after robots.txt was unreachable.

It is half of the shortest lifetime of a received file.
"""

_ADJUSTED_MS = 60_000  # maximum difference between two synchronized clocks
_PARSED_BYTES = 32 * 2**20
_OVERHEAD_BYTES, _BYTES_A_BYTE = 2_000, 14
# A parsed file takes about 14 times the memory of its text: an estimate, from a measured factor of
# 24 when the text of the lines was stored too.


@dataclass(slots=True)
class _ParsedRobots:
    robots: Robots
    reachable: bool
    fetched_at: int
    expires_at: int
    cost: int  # bytes


def is_unexpired(entry: RobotsEntry | _ParsedRobots, now_ms: int) -> bool:
    """Return whether a file has not expired.

    A file with a fetch time in the future has expired: the clock was set back.
    """
    return entry.fetched_at - _ADJUSTED_MS <= now_ms < entry.expires_at


class RobotsCache:
    """Parsed robots.txt files of the origins in use, at most 32 MB.

    The rows of `hosts` have the text of all files.
    """

    def __init__(self, user_agent: str) -> None:
        self._user_agent = user_agent
        self._entries: LRUCache[str, _ParsedRobots] = LRUCache(
            _PARSED_BYTES, getsizeof=lambda parsed: parsed.cost
        )
        # the last look-up: each fetch makes several for its origin
        self._last: tuple[str, _ParsedRobots | None] = ("", None)

    def is_current(self, origin: str, now_ms: int) -> bool:
        entry = self._entry(origin)
        return entry is not None and is_unexpired(entry, now_ms)

    def reachable(self, origin: str) -> bool:
        entry = self._entry(origin)
        return entry is not None and entry.reachable

    def expires_at(self, origin: str) -> int:
        return self._entries[origin].expires_at

    def allowed(self, url: str, origin: str) -> bool:
        """Return whether the file of a known origin allows the URL."""
        entry = self._entry(origin)
        assert entry is not None, origin
        return entry.robots.allowed(url)

    def sitemaps(self, origin: str) -> list[str]:
        """Return the sitemaps in a known origin's file, as written."""
        entry = self._entry(origin)
        return list(entry.robots.sitemaps()) if entry else []

    def holds(self, origin: str) -> bool:
        """Return whether the origin's file is in the cache, expired or not."""
        return self._entry(origin) is not None

    def crawl_delay_ms(self, origin: str) -> int:
        """Return the origin's Crawl-delay, if its file is in the cache."""
        entry = self._entry(origin)
        return (entry.robots.crawl_delay_ms() or 0) if entry else 0

    def load_current(self, entries: Iterable[RobotsEntry], origin: str, now_ms: int) -> bool:
        """Load an origin's stored file; return False if there is no current one."""
        if self.is_current(origin, now_ms):
            return True
        for entry in entries:
            if entry.origin == origin and is_unexpired(entry, now_ms):
                self.load(entry)
                return True
        return False

    def received(self, origin: str, exchange: Exchange) -> RobotsEntry:
        """Parse the last exchange for an origin's robots.txt, after redirects.

        Returns the entry to store in the host's row.
        """
        status = exchange.status if not exchange.error or exchange.error == "incomplete" else 0
        if 300 <= status < 400:
            # too many redirects, or an unusable Location: unavailable (RFC 9309 section 2.3.1.2)
            status = 404
        at = exchange.started_at + exchange.duration_ms
        body = ""
        lifetime = UNREACHABLE_TTL_MS
        verdict = robots_verdict(status, "" if status else exchange.error or "no answer")
        if verdict != "deny_all":
            headers = parse_head(exchange.response_head)
            lifetime = cache_ms(headers)
            if verdict == "parse":
                payload = decode_body(exchange, MAX_ROBOTS_BYTES).payload
                body = robots_text(payload)
        entry = RobotsEntry(origin, status, at, at + lifetime, body)
        self.load(entry)
        return entry

    def load(self, entry: RobotsEntry) -> None:
        """Load a stored file of an origin."""
        verdict = robots_verdict(entry.status, "" if entry.status else "no answer")
        if verdict == "parse":
            robots = Robots(entry.body, self._user_agent, entry.origin)
        elif verdict == "allow_all":
            robots = Robots.everything()
        else:
            robots = Robots.nothing()
        self._entries[entry.origin] = _ParsedRobots(
            robots,
            verdict != "deny_all",
            entry.fetched_at,
            entry.expires_at,
            len(entry.body) * _BYTES_A_BYTE + _OVERHEAD_BYTES,
        )
        self._last = "", None

    def _entry(self, origin: str) -> _ParsedRobots | None:
        """Return the parsed file of an origin, if it is in the cache. Hot path."""
        if self._last[0] != origin:
            self._last = origin, self._entries.get(origin)
        return self._last[1]
