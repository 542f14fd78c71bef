"""Test of the web of `bench.million`."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise

from bench.million_web import SEED, Web

_SOURCE = b"""<html lang="en"><meta charset="utf-8"><title>Moths</title>
<p>%s</p><a href="other.html">another page</a><p>%s</p></html>"""
_TEXTS = [
    f"Sentence number {number} about moths that fly at night.".encode() for number in range(8)
]


def test_links_lead_to_every_page_and_some_pages_fail() -> None:
    web = Web(1_000, 20, [_SOURCE % pair for pair in pairwise(_TEXTS)])
    queue, statuses, texts = [SEED.encode()], dict[bytes, int](), dict[bytes, bytes]()
    while queue:
        url = queue.pop()
        if url not in statuses:
            _, _, host, path = url.split(b"/", 3)
            response = web.response(b"GET /%s HTTP/1.1\r\nHost: %s" % (path, host))
            head, _, body = response.partition(b"\r\n\r\n")
            statuses[url], texts[url] = int(head.split(b" ")[1]), re.sub(rb"<.*?>", b"", body)
            queue += re.findall(rb'href="([^"]+)"', body) + re.findall(rb"Location: (\S+)", head)
    assert len(statuses) == sum(web.sizes) == web.served
    counts = Counter(statuses.values())
    assert 0.01 < counts[301] / len(statuses) < 0.03
    assert 0.02 < (counts[404] + counts[500]) / len(statuses) < 0.04
    pages = [texts[url] for url, status in statuses.items() if status == 200]
    assert 0.02 < 1 - len(set(pages)) / len(pages) < 0.06
