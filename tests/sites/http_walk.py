"""Crawl small sites with the standard library, as a second reference.

It shares no code with the walk over the files. It follows only `a` and `area` and ignores `<base>`
and empty path segments, so it is only valid for sites without these.
"""

from __future__ import annotations

import http.client
from collections.abc import Iterable
from html.parser import HTMLParser
from urllib.parse import urldefrag, urljoin, urlsplit


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.references: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = dict(attributes)
        if tag in ("a", "area") and "nofollow" not in (values.get("rel") or "").lower().split():
            self.references.append(values.get("href") or "")


def fetched_urls(origin: str, seeds: Iterable[str]) -> dict[str, int]:
    """Return URL -> status of all URLs of one origin that the seeds lead to."""
    connection = http.client.HTTPConnection(urlsplit(origin).netloc, timeout=10)
    waiting = list(seeds)
    statuses: dict[str, int] = {}
    while waiting:
        url = waiting.pop()
        if url in statuses:
            continue
        parts = urlsplit(url)
        connection.request("GET", parts.path + (f"?{parts.query}" if parts.query else ""))
        response = connection.getresponse()
        body = response.read()
        statuses[url] = response.status
        references = [response.headers["Location"]] if response.status == 301 else []
        if response.status == 200 and response.headers.get_content_type() == "text/html":
            parser = _Links()
            parser.feed(body.decode("utf-8", "replace"))
            references = parser.references
        targets = {urldefrag(urljoin(url, reference)).url for reference in references if reference}
        waiting += [target for target in targets if target.startswith(f"{origin}/")]
    connection.close()
    return statuses
