"""Run focused crawls on small webs in memory.

A web is a dictionary of pages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lycosa.core.records import Page
from lycosa.hunt.hunt import Hunt, RelevantPage
from lycosa.hunt.links import Lead
from lycosa.page.parse import parse_page
from lycosa.url.scope import hostname


def page(
    title: str,
    *paragraphs: str,
    url: str = "http://a.example/",
    links: Mapping[str, str] | None = None,
) -> Page:
    """Return a parsed page with title, paragraphs and links.

    `links` maps each target to its anchor text.
    """
    anchors = "".join(
        f'<li>see <a href="{target}">{text}</a> here</li>' for target, text in (links or {}).items()
    )
    text = "".join(f"<p>{paragraph}</p>" for paragraph in paragraphs)
    html = (
        "<!doctype html><html "
        f"lang=en><title>{title}</title><body><main><h1>{title}</h1>{text}<ul>{anchors}</ul></main></body></html>"
    )
    return parse_page(html.encode(), url=url, content_type="text/html; charset=utf-8")


def lead(url: str, anchor: str = "", context: str = "", *, foreign: bool = False) -> Lead:
    return Lead(url, hostname(url), anchor, context, foreign)


@dataclass
class Walk:
    """URLs in the order of their fetches, and the relevant pages."""

    order: list[str]
    relevant: dict[str, RelevantPage]


def walk(hunt: Hunt, web: Mapping[str, Page], start: str, fetches: int = 100) -> Walk:
    """Fetch the best URL of the queue until it is empty. Unknown URLs fail."""
    hunt.start([lead(start)])
    walked = Walk([], {})
    while len(walked.order) < fetches and (best := hunt.queue.best_of_hosts(1)):
        url = best[0][1]
        hunt.fetching(url)
        walked.order.append(url)
        if url not in web:
            hunt.failed(url)
            continue
        relevant_page = hunt.page(url, web[url])
        if relevant_page is not None:
            walked.relevant[url] = relevant_page
    return walked
