"""What a page that is rendered may load: by place, exclusions, robots.txt and the partitions that
are held.

All of it takes the way of a robots.txt: urgent, by the host's clock, archived. Scripts are kept for
a while, since the pages of a site load the same ones.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from enum import Enum

from lycosa.config.settings import Collection
from lycosa.core.records import UrlId
from lycosa.crawl.state.crawl_state import CrawlState
from lycosa.url.scope import url_origin

KEEP_MS = 3_600_000
"""How long a script is given to further pages without asking for it again."""

_MAX_BYTES = 32 * 2**20

Head = list[tuple[str, str]]


class RequisiteDecision(Enum):
    """Whether something may be fetched."""

    YES = "yes"
    NO = "no"
    ASK_ROBOTS = "ask robots"  # nobody has asked for its robots.txt yet, and it may be done now
    WAIT = "wait"


class RequisiteRules:
    """The rules of one collection."""

    def __init__(self, crawl: CrawlState, collection: Collection) -> None:
        self._crawl = crawl
        self._deny = tuple(re.compile(pattern) for pattern in collection.deny)
        self._hosts = frozenset(host.lower().strip(".") for host in collection.render_hosts)

    def judge(self, identity: UrlId, page_host: str) -> RequisiteDecision:
        """Whether a page of `page_host` may have a URL fetched now. Makes the URL's host active."""
        crawl = self._crawl
        url, origin = identity.url, url_origin(identity.url)
        if (
            not self._near(identity.host, page_host)
            or not crawl.held_partitions.holds(identity.partition)
            or origin in crawl.refused_origins
            or crawl.excluded(url)
            or any(pattern.search(url) for pattern in self._deny)
        ):
            return RequisiteDecision.NO
        queue = crawl.hosts.queue(identity)
        if not crawl.hosts.has_current_robots(origin, identity.host_key, crawl.clock.now_ms()):
            return RequisiteDecision.WAIT if queue.held else RequisiteDecision.ASK_ROBOTS
        if not crawl.robots.reachable(origin) or not crawl.robots.allowed(url, origin):
            return RequisiteDecision.NO
        return RequisiteDecision.YES

    def _near(self, host: str, page_host: str) -> bool:
        registrable = self._crawl.domains.registrable
        if registrable(host) == registrable(page_host):
            return True
        labels = host.split(".")
        return any(".".join(labels[start:]) in self._hosts for start in range(len(labels)))


class ScriptCache:
    """Scripts by collection and URL, at most 32 MiB of them, those asked for last."""

    def __init__(self) -> None:
        self._held: OrderedDict[tuple[str, str], tuple[int, int, Head, bytes]] = OrderedDict()
        self._bytes = 0

    def get(self, key: tuple[str, str], now: int) -> tuple[int, Head, bytes] | None:
        """(status, head, payload), if it is here and not too old. `now`: monotonic."""
        cached = self._held.get(key)
        if cached is None or now - cached[0] > KEEP_MS:
            return None
        self._held.move_to_end(key)
        return cached[1:]

    def put(self, key: tuple[str, str], now: int, status: int, head: Head, payload: bytes) -> None:
        """Keep one."""
        old = self._held.pop(key, None)
        self._bytes += len(payload) - (len(old[3]) if old else 0)
        self._held[key] = (now, status, head, payload)
        while self._bytes > _MAX_BYTES and self._held:
            _, gone = self._held.popitem(last=False)
            self._bytes -= len(gone[3])
