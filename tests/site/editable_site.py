"""Serve a small site that tests change, and receive webhooks."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from lycosa.commands.crawling.crawl import CrawlOrder, crawl
from lycosa.config.reading import parse_config
from lycosa.config.settings import Collection, Config
from lycosa.crawl.state.progress import Progress
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from lycosa.url.site_name import SiteScope
from tests.servers.local_http import QuietHandler, serving_handler

QUICK = {"name": "default", "delay": 0, "courtesy_factor": 0.0, "traps": False}


@dataclass
class EditableSite:
    """Content of a site and its requests.

    `pages`: path -> HTML. `redirects`: path -> target.
    `request_counts`: number of requests of each path.
    """

    origin: str = ""
    pages: dict[str, str] = field(default_factory=dict)
    redirects: dict[str, str] = field(default_factory=dict)
    request_counts: Counter[str] = field(default_factory=Counter)

    def page(self, path: str, text: str, *links: str) -> None:
        anchors = "".join(f'<p><a href="{link}">to {link}</a></p>' for link in links)
        self.pages[path] = (
            f"<!doctype html><title>Page {path}</title><main><p>{text}</p></main>{anchors}"
        )


@contextmanager
def editable_site(address: str) -> Iterator[EditableSite]:
    site = EditableSite()

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            site.request_counts[self.path] += 1
            if target := site.redirects.get(self.path):
                self.reply(301, b"", [("location", target)])
                return
            result = site.pages.get(self.path)
            media_type = "text/plain" if self.path == "/robots.txt" else "text/html; charset=utf-8"
            self.answer(404 if result is None else 200, (result or "gone").encode(), media_type)

    with serving_handler(Handler, address) as site.origin:
        yield site


@dataclass
class WebhookReceiver:
    """Receiver of webhooks. `requests`: headers and body of each request.

    `answers` are the statuses and headers of the next responses; afterwards it responds 204.
    """

    origin: str = ""
    requests: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    answers: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    arrived: threading.Event = field(default_factory=threading.Event)

    @property
    def notices(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body in self.requests]

    def config(self, *more: str) -> Config:
        return parse_config(
            "", overrides=(f"notify.private={self.origin.partition('//')[2]}", *more)
        )


@contextmanager
def webhook_receiver(address: str = "127.0.7.71") -> Iterator[WebhookReceiver]:
    receiver = WebhookReceiver()

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            receiver.requests.append(
                ({name.lower(): value for name, value in self.headers.items()}, body)
            )
            status, headers = receiver.answers.pop(0) if receiver.answers else (204, {})
            self.reply(status, b"", headers.items())
            receiver.arrived.set()

    with serving_handler(Handler, address) as receiver.origin:
        yield receiver


def crawled(
    root: str, *seeds: str, config: Config | None = None, site: str = "", **collection: object
) -> Progress:
    """Crawl until no URL is due, without an index."""
    config = config or parse_config("", overrides=("crawl.patience=1s",))
    output: list[str] = []
    order = CrawlOrder(
        root,
        config,
        Collection.model_validate(QUICK | collection),
        seeds,
        index=False,
        site=SiteScope.of(site) if site else None,
        say=output.append,
    )
    return crawl(order)


def stored_texts(root: str) -> dict[str, str]:
    """Return URL -> text of all stored pages."""
    pages = LiveTables(Workspace.open(root)).scan("pages").select("url", "text")
    return dict(pages.collect().iter_rows())


def kill_often(site: EditableSite, script: str, *arguments: str, requests: int, count: int) -> int:
    """Run a Python script until it succeeds, killed at most `count` times.

    The kills are spread over the first `requests` requests to the site. Returns their number.
    """
    kills = 0
    while True:
        process = subprocess.Popen([sys.executable, "-c", script, *arguments])
        limit = requests * (kills + 1) // (count + 1)
        while (
            kills < count and process.poll() is None and sum(site.request_counts.values()) < limit
        ):
            time.sleep(0.005)
        if kills < count and process.poll() is None:
            process.kill()
            kills += 1
        if process.wait() == 0:
            return kills
