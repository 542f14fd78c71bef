"""Nobody waits for an answer that is already there."""

from __future__ import annotations

import http.client
import time
from pathlib import Path

from lycosa.core.records import Request
from tests.fetch.fetching import open_fetcher, run
from tests.servers.nginx import Server, nginx

PAGES = 100
SLOWER = 20
"""How many times the standard library's time we may take, one request after the other. A wait of
one sweep for each (which an answer read within the call that sent its request once cost) would be
several hundred times.
"""


def test_an_answer_that_comes_at_once_is_returned_at_once(tmp_path: Path) -> None:
    for number in range(PAGES):
        (tmp_path / f"{number}.html").write_text("<p>word " * (100 * (number % 40)))
    with nginx([Server("127.0.5.1", tmp_path)]) as server:
        client = http.client.HTTPConnection("127.0.5.1", server.port)
        began = time.monotonic()
        for number in range(PAGES):
            client.request("GET", f"/{number}.html")
            client.getresponse().read()
        plain = time.monotonic() - began
        client.close()
        with open_fetcher([("127.0.5.1", server.port)]) as fetcher:
            run(fetcher, [Request(f"http://127.0.5.1:{server.port}/0.html")])
            began = time.monotonic()
            requests = [
                Request(f"http://127.0.5.1:{server.port}/{number}.html") for number in range(PAGES)
            ]
            assert all(exchange.status == 200 for exchange in run(fetcher, requests, at_once=1))
            ours = time.monotonic() - began
    assert ours < SLOWER * plain
