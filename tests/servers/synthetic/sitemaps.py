"""Sitemaps and feeds of the synthetic hosts.

Sitemaps follow sitemaps.org and Google's news and hreflang extensions. Feeds are RSS 2.0 or Atom
(RFC 4287).
"""

from __future__ import annotations

import gzip
import re
from datetime import UTC, datetime
from email.utils import formatdate

from tests.servers.synthetic.changes import Changes
from tests.servers.synthetic.hosts import Host
from tests.servers.synthetic.layout import Layout
from tests.servers.synthetic.pages import NEWEST, Pages

ENTRIES = 1_000
"""Maximum number of URLs in a sitemap. Larger hosts have a sitemap index."""

_XMLNS = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
_NEWS = 'xmlns:news="http://www.google.com/schemas/sitemap-news/0.9"'
_XHTML = 'xmlns:xhtml="http://www.w3.org/1999/xhtml"'
_PART = re.compile(r"/sitemap-(\d{1,9})\.(?:xml|xml\.gz|txt)")
_DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>\n'


class Sitemaps:
    """Write the sitemaps and the feed of a host. Times: milliseconds since the plan's epoch."""

    def __init__(self, layout: Layout, changes: Changes, pages: Pages) -> None:
        self._layout = layout
        self._changes = changes
        self._pages = pages
        self._epoch = layout.plan.epoch_ms

    def sitemap(self, host: Host, path: str, at: int) -> tuple[str, bytes] | None:
        """Return (content type, body) of the sitemap or sitemap index at a path, or None."""
        size = self._layout.size(host, at)
        ending = {"gzip": ".xml.gz", "text": ".txt"}.get(host.sitemap, ".xml")
        if host.sitemap == "news":
            return (
                self._file(ending, self._news(host, size, at))
                if path == "/news-sitemap.xml"
                else None
            )
        # A text sitemap cannot be an index. The protocol allows up to 50,000 URLs in one file.
        parts = 1 if host.sitemap == "text" else -(-size // ENTRIES)
        has_index = host.sitemap == "index" or parts > 1
        if path == f"/sitemap{ending}":
            if has_index:
                return self._file(ending, self._index(host, parts, ending, at))
            return self._file(ending, self._entries(host, range(size), at))
        match = _PART.fullmatch(path)
        if not has_index or match is None or not path.endswith(ending) or int(match[1]) >= parts:
            return None
        first = int(match[1]) * ENTRIES
        return self._file(ending, self._entries(host, range(first, min(first + ENTRIES, size)), at))

    def _file(self, ending: str, text: str) -> tuple[str, bytes]:
        if ending == ".xml.gz":
            return "application/gzip", gzip.compress(text.encode(), compresslevel=1, mtime=0)
        return "text/plain; charset=utf-8" if ending == ".txt" else "application/xml", text.encode()

    def _index(self, host: Host, parts: int, ending: str, at: int) -> str:
        entries = "".join(
            f"<sitemap><loc>http://{host.name}/sitemap-{part}{ending}</loc>"
            f"{self._last_modified(host, part * ENTRIES, at)}</sitemap>\n"
            for part in range(parts)
        )
        return f"{_DECLARATION}<sitemapindex {_XMLNS}>\n{entries}</sitemapindex>\n"

    def _entries(self, host: Host, numbers: range, at: int) -> str:
        layout = self._layout
        if host.sitemap == "text":
            return "".join(f"http://{host.name}{layout.path(host, number)}\n" for number in numbers)
        lines = []
        for number in numbers:
            alternates = ""
            if len(host.languages) > 1:
                alternates = "".join(
                    f'<xhtml:link rel="alternate" hreflang="{each}" '
                    f'href="{self._url(host, number, each)}"/>'
                    for each in host.languages
                )
            lines.append(
                f"<url><loc>{self._url(host, number)}</loc>"
                f"{self._last_modified(host, number, at)}{alternates}</url>\n"
            )
        return f"{_DECLARATION}<urlset {_XMLNS} {_XHTML}>\n{''.join(lines)}</urlset>\n"

    def _news(self, host: Host, size: int, at: int) -> str:
        lines = "".join(self._news_entry(host, number, at) for number in _newest(size))
        return f"{_DECLARATION}<urlset {_XMLNS} {_NEWS}>\n{lines}</urlset>\n"

    def _news_entry(self, host: Host, number: int, at: int) -> str:
        return (
            f"<url><loc>{self._url(host, number)}</loc>{self._last_modified(host, number, at)}<news:news><news:publication>"
            f"<news:name>{host.name}</news:name><news:language>{host.language}</news:language></news:publication>"
            f"<news:publication_date>{self._date(self._layout.created_at(host, number))}</news:publication_date>"
            f"<news:title>{self._pages.title(host, number)}</news:title></news:news></url>\n"
        )

    def _url(self, host: Host, number: int, language: str = "") -> str:
        return f"http://{host.name}{self._layout.path(host, number, language)}".replace(
            "&", "&amp;"
        )

    def _last_modified(self, host: Host, number: int, at: int) -> str:
        if host.lastmod == "absent":
            return ""
        since = at if host.lastmod == "lying" else self._changes.state(host, number, at).since
        return f"<lastmod>{self._date(since)}</lastmod>"

    def _date(self, at: int) -> str:
        return f"{datetime.fromtimestamp((self._epoch + at) // 1000, UTC):%Y-%m-%dT%H:%M:%S+00:00}"

    def feed(self, host: Host, at: int) -> tuple[str, bytes]:
        """Return (content type, body) of the feed: the newest pages, newest first."""
        entry = self._rss_item if host.feed == "rss" else self._atom_entry
        entries = "".join(
            entry(host, number, at) for number in _newest(self._layout.size(host, at))
        )
        title, origin = f"<title>{host.name}</title>", f"http://{host.name}/"
        if host.feed == "rss":
            start = f'<rss version="2.0"><channel>{title}<link>{origin}</link>'
            text = f"{start}\n{entries}</channel></rss>\n"
        else:
            start = f'<feed xmlns="http://www.w3.org/2005/Atom">{title}<id>{origin}</id>'
            text = f"{start}\n{entries}</feed>\n"
        return f"application/{host.feed}+xml", (_DECLARATION + text).encode()

    def _rss_item(self, host: Host, number: int, at: int) -> str:
        url, title = self._url(host, number), self._pages.title(host, number)
        published = self._epoch + self._layout.created_at(host, number)
        date = formatdate(published // 1000, usegmt=True)
        return (
            f"<item><title>{title}</title><link>{url}</link><guid>{url}</guid>"
            f"<pubDate>{date}</pubDate></item>\n"
        )

    def _atom_entry(self, host: Host, number: int, at: int) -> str:
        url, title = self._url(host, number), self._pages.title(host, number)
        published = self._date(self._layout.created_at(host, number))
        updated = self._date(self._changes.state(host, number, at).since)
        dates = f"<published>{published}</published><updated>{updated}</updated>"
        return f'<entry><title>{title}</title><link href="{url}"/><id>{url}</id>{dates}</entry>\n'


def _newest(size: int) -> range:
    """Return the numbers of the newest pages, newest first."""
    return range(size - 1, max(-1, size - 1 - NEWEST), -1)
