"""robots.txt of the synthetic hosts, and whether it allows a path.

The evaluation of the rules is independent of the crawler's parser.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from tests.servers.synthetic.draw import uniform
from tests.servers.synthetic.hosts import Host
from tests.servers.synthetic.plan import WebPlan

OUR_TOKEN = "lycosa"


@dataclass(slots=True, frozen=True)
class Group:
    """A group of robots.txt. `rules`: (allow, pattern). `delay_ms`: the Crawl-delay; 0: none."""

    agent: str
    rules: tuple[tuple[bool, str], ...]
    delay_ms: int = 0


@dataclass(slots=True, frozen=True)
class RobotsFile:
    """A robots.txt; other statuses than 200 have no content."""

    status: int
    groups: tuple[Group, ...] = ()
    sitemaps: tuple[str, ...] = ()

    def text(self) -> str:
        lines = []
        for group in self.groups:
            lines.append(f"User-agent: {group.agent}")
            lines += [
                f"{'Allow' if allow else 'Disallow'}: {pattern}" for allow, pattern in group.rules
            ] or ["Disallow:"]
            if group.delay_ms:
                lines.append(f"Crawl-delay: {group.delay_ms / 1000:g}")
            lines.append("")
        lines += [f"Sitemap: {sitemap}" for sitemap in self.sitemaps]
        return "\n".join(lines) + "\n"

    def group(self, agent: str) -> Group | None:
        """Return the group of a crawler, else the group `*`, else None."""
        own = next((group for group in self.groups if group.agent.lower() == agent.lower()), None)
        return own or next((group for group in self.groups if group.agent == "*"), None)

    def allows(self, path: str, agent: str = OUR_TOKEN) -> bool:
        """Return whether a path is allowed (RFC 9309 section 2.2.2).

        The longest matching pattern applies; with equal lengths, Allow does. 5xx and 429 disallow
        everything, other 4xx nothing.
        """
        if path == "/robots.txt":
            return True
        if self.status != 200:
            return 400 <= self.status < 500 and self.status != 429
        group = self.group(agent)
        if group is None:
            return True
        matching = [
            (len(pattern), allow) for allow, pattern in group.rules if _pattern(pattern).match(path)
        ]
        return max(matching)[1] if matching else True

    def crawl_delay_ms(self, agent: str = OUR_TOKEN) -> int:
        group = self.group(agent) if self.status == 200 else None
        return group.delay_ms if group else 0


@lru_cache(maxsize=1_024)
def _pattern(text: str) -> re.Pattern[str]:
    end = text.endswith("$")
    return re.compile(
        ".*".join(map(re.escape, text.removesuffix("$").split("*"))) + ("$" if end else "")
    )


_GENERAL = (
    (False, "/private/"),
    (False, "/*.exe$"),
    (False, "/cgi-bin/"),
    (True, "/cgi-bin/about"),
)
_NAMED = ((False, "/private/"), (False, "/tmp/"))


def robots_file(plan: WebPlan, host: Host, at: int | None) -> RobotsFile:
    """Return the robots.txt of a host at a time (ms since the plan's epoch).

    Without a time, it is the file that the host serves while it does not fail.
    """
    if host.robots == "missing":
        return RobotsFile(404)
    if host.robots == "failing" and at is not None and robots_fails(plan, host, at):
        return RobotsFile(503)
    delay = host.crawl_delay_ms
    other = Group("BadBot", ((False, "/"),))
    if host.robots == "closed":
        return RobotsFile(200, (Group("*", ((False, "/"),)),))
    groups: tuple[Group, ...]
    if host.robots == "named":
        groups = (other, Group(OUR_TOKEN, _NAMED, delay), Group("*", ((False, "/"),)))
    else:
        groups = (other, Group("*", _GENERAL, delay))
    return RobotsFile(200, groups, sitemap_urls(host))


def robots_fails(plan: WebPlan, host: Host, at: int) -> bool:
    """Return whether it fails at a time: always in the first window, and in some others."""
    window = at // plan.window_ms
    return (
        window == 0 or uniform(plan.seed, "robots fail", host.number, window) < plan.failing_share
    )


def sitemap_urls(host: Host) -> tuple[str, ...]:
    """Return the URLs of the Sitemap lines."""
    if not host.sitemap:
        return ()
    ending = {"gzip": "sitemap.xml.gz", "text": "sitemap.txt", "news": "news-sitemap.xml"}.get(
        host.sitemap, "sitemap.xml"
    )
    return (f"http://{host.name}/{ending}",)
