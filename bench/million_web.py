"""A large web of real pages: `python -m bench.million_web --pages 100000 --hosts 2000`.

The pages of the documentation sites are templates: their runs of text come from other pages of the
same language, and their links lead to pages of this web. A tenth of the links leads to another
host. Of every hundred pages four are copies, two redirect and three are missing or fail. The first
line of the output is the port on 127.0.0.1; `/-served` returns how many requests were answered.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
from bisect import bisect
from collections import defaultdict
from collections.abc import Iterable
from itertools import accumulate

from bench.corpora import SITES, html_files

SEED = "http://www0.site0.com/"
FANOUT = 8  # pages, or hosts, that a page or front page links to so that all are reachable
_RUN = re.compile(rb"(?<=>)[^<>]{40,}(?=<)")
_HREF = re.compile(rb'(?<=href=")[^"#]+')
_LANGUAGE = re.compile(rb'<html[^>]*?lang="([a-zA-Z]{2})')
_CHARSET = re.compile(rb"charset=[\"']?([\w-]+)")
_DROPPED = re.compile(rb"(?is)<(script|style)\b.*?</\1\s*>|<(?:base|link|meta)\b[^>]*>")
_HOST = re.compile(rb"\r\n[Hh]ost: *www(\d+)\.")
_ROBOTS = b"User-agent: *\nDisallow: /private/\n"


def origin(host: int) -> bytes:
    """Return the origin of a host; two share a registrable domain."""
    return b"http://www%d.site%d.com" % (host, host // 2)


class Web:
    """Computes each response from host and path. `sources`: pages that are used as templates."""

    def __init__(self, pages: int, hosts: int, sources: Iterable[bytes]) -> None:
        weights = [(rank + 20) ** -0.7 for rank in range(hosts)]  # a few hosts are large
        self.sizes = [max(1, round(pages * weight / sum(weights))) for weight in weights]
        self._ends = list(accumulate(self.sizes))
        self._templates: dict[bytes, list[bytes]] = defaultdict(list)
        self._runs: dict[bytes, list[bytes]] = defaultdict(list)
        for page in sources:
            language, charset = _LANGUAGE.search(page), _CHARSET.search(page)
            if language and charset and charset[1].lower() == b"utf-8":
                template = _DROPPED.sub(b"", page)
                self._templates[language[1]].append(template)
                self._runs[language[1]] += _RUN.findall(template)
        self._languages = sorted(self._templates)
        self._weights = [len(self._templates[name]) for name in self._languages]
        self.served = 0

    def response(self, head: bytes) -> bytes:
        """Return the response to a request. Hot path."""
        path, host = head.split(b" ", 2)[1], _HOST.search(head)
        if path == b"/-served":
            return _message(b"200 OK", b"%d" % self.served)
        self.served += 1
        number = int(host[1]) if host else len(self.sizes)
        if number >= len(self.sizes):
            return _message(b"404 Not Found", b"no such host")
        if path == b"/robots.txt":
            return _message(b"404 Not Found", b"") if number % 3 else _message(b"200 OK", _ROBOTS)
        page = int(path.rpartition(b"-")[2] or 0) if b"-" in path else 0
        leaf = page * FANOUT + 1 >= self.sizes[number]
        # leaves only: other pages must lead to all pages below them
        draw = (page * 37 + number * 17) % 100 if leaf and page else 50
        if draw < 2:
            target = b"Location: %s\r\n" % self._url(number, page - 1)
            return _message(b"301 Moved Permanently", b"moved", target)
        if draw < 4 or page >= self.sizes[number]:
            return _message(b"404 Not Found", b"<title>404</title>")
        if draw < 5:
            return _message(b"500 Internal Server Error", b"<title>500</title>")
        return _message(b"200 OK", self._page(number, page - (5 <= draw < 9)))

    def _page(self, host: int, page: int) -> bytes:
        draws = random.Random(host << 32 | page)
        (language,) = random.Random(host).choices(self._languages, self._weights)
        runs, template = self._runs[language], draws.choice(self._templates[language])
        text = _RUN.sub(lambda _: runs[int(draws.random() * len(runs))], template)
        text = _HREF.sub(lambda _: self._link(host, draws), text)
        below = range(page * FANOUT + 1, min(page * FANOUT + FANOUT + 1, self.sizes[host]))
        links = [self._url(host, child) for child in below]
        if not page:
            first = host * FANOUT + 1
            links += [
                self._url(child, 0) for child in range(first, min(first + FANOUT, len(self.sizes)))
            ]
        items = b"".join(b'<li><a href="%s">More</a></li>' % link for link in links)
        return (
            text.replace(b"</title>", b" %d.%d</title>" % (host, page), 1) + b"<ul>%s</ul>" % items
        )

    def _link(self, host: int, draws: random.Random) -> bytes:
        """Return a link: most lead to the first pages of the host, a tenth to any page."""
        if draws.random() < 0.1:
            place = int(draws.random() * self._ends[-1])
            other = bisect(self._ends, place)
            return self._url(other, place - self._ends[other] + self.sizes[other])
        return self._url(host, int(draws.random() ** 3 * self.sizes[host]))

    def _url(self, host: int, page: int) -> bytes:
        path = b"/" if not page else b"/section-%d/page-%d" % (page // 100, page)
        return origin(host) + path


def _message(status: bytes, body: bytes, fields: bytes = b"") -> bytes:
    head = b"HTTP/1.1 %s\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: %d\r\n%s\r\n"
    return head % (status, len(body), fields) + body


class Connection(asyncio.Protocol):
    """Answers one request after the other."""

    def __init__(self, web: Web) -> None:
        self._web, self._buffer = web, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while b"\r\n\r\n" in self._buffer:
            head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
            self._transport.write(self._web.response(head))


async def serve(web: Web) -> None:
    """Serve until the process ends; print the port."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(web), "127.0.0.1", 0, backlog=1_024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pages", type=int, default=100_000)
    parser.add_argument("--hosts", type=int, default=2_000)
    options = parser.parse_args()
    sources = (path.read_bytes() for _, path in html_files(SITES))
    asyncio.run(serve(Web(options.pages, options.hosts, sources)))


if __name__ == "__main__":
    main()
