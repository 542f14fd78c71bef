"""Crawls for a client program, such as an agent, that names the URLs.

The operator did not enter these URLs. They are submitted and do not become seeds: a seed may have a
private address, and later crawls would trust it too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lycosa.commands.crawl_models import CrawlReport, FocusedCrawlReport, HuntHit
from lycosa.commands.crawling.hunt import hunt_request, run_hunt
from lycosa.commands.crawling.run_crawl import CrawlCall, CrawlListeners, run_call
from lycosa.commands.crawling.submissions import submit_urls
from lycosa.config.settings import Config
from lycosa.core.errors import OwnedError
from lycosa.hunt.session import Event
from lycosa.processes.threads import Stoppable
from lycosa.store.workspace import Workspace
from lycosa.url.site_name import SiteScope


def open_collection(config: Config, name: str, *, configured: bool) -> Config:
    """Return the settings; a collection without configuration has scope `any`."""
    if configured:
        return config
    collections = tuple(
        each.model_copy(update={"scope": "any"}) if each.name == name else each
        for each in config.collection
    )
    return config.model_copy(update={"collection": collections})


def crawl_for_client(call: CrawlCall, url: str, listeners: CrawlListeners) -> CrawlReport:
    """Crawl the site of a URL, or the part below its path.

    Args:
        call: without seeds; `config` as of `open_collection`. The workspace is created if there is
            none.
        url: a host for the whole site, or a URL.
        listeners: functions that are called during the crawl.

    Raises:
        UsageError: the URL cannot be used, is outside the collection's scope or is excluded.
        OwnedError: another process is crawling in this workspace.
        WorkError: the disk is full, the archive or the log is damaged.
    """
    site = SiteScope.of(url)
    owner = Workspace.open_or_create(call.root).owner()
    if owner is not None:
        raise OwnedError(
            f"process {owner.pid} ({owner.command}) uses the workspace; this crawl can start when "
            "that process has ended"
        )
    submit_urls(call.root, call.config, [site.start], call.collection)
    return run_call(replace(call, site=site), listeners)


def focused_crawl_for_client(
    root: str,
    config: Config,
    parameters: Mapping[str, Any],
    on_event: Callable[[Event], None],
    on_start: Callable[[Stoppable], None],
) -> FocusedCrawlReport:
    """Follow the most relevant links from start pages, and return the relevant pages.

    Args:
        parameters: those of `HuntRequest`.
        on_event: called with each event, see `lycosa hunt --jsonl`.
        on_start: called with an object with a method `stop`, which ends the crawl early.

    Raises:
        UsageError: the question or a seed is invalid, or there are no start pages.
        OwnedError: a crawl or another focused crawl uses the workspace.
        WorkError: the disk is full, or the archive or the log is damaged.
    """
    request = hunt_request(**parameters, typed=False)
    hits: dict[str, HuntHit] = {}

    def handle(event: Event) -> None:
        if event["event"] == "found":
            hits[event["url"]] = HuntHit(**event)
        on_event(event)

    last = run_hunt(root, config, request, handle, on_start)
    return FocusedCrawlReport(
        request.question,
        last["ended"],
        last["pages"],
        last["relevant"],
        last["failed"],
        _ranked(hits, [each["url"] for each in last["results"]]),
    )


def _ranked(hits: Mapping[str, HuntHit], best: Sequence[str]) -> list[HuntHit]:
    """Return the hits that the end of the crawl lists, best first."""
    return [hits[url] for url in best if url in hits]
