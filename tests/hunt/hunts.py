"""Small webs in memory for hunts: a dictionary of pages, walked one after the other."""

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
    """A page as the parser makes it: a title that is its headline too, paragraphs, and a list of
    links (target -> text).
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
class Walked:
    """In which order pages were fetched, and what was found."""

    order: list[str]
    found: dict[str, RelevantPage]


def walk(hunt: Hunt, web: Mapping[str, Page], start: str, fetches: int = 100) -> Walked:
    """Fetch what the list says comes next, from one page on. A URL that the web lacks gives no
    page.
    """
    hunt.start([lead(start)])
    walked = Walked([], {})
    while len(walked.order) < fetches and (best := hunt.queue.best_of_hosts(1)):
        url = best[0][1]
        hunt.fetching(url)
        walked.order.append(url)
        if url not in web:
            hunt.failed(url)
            continue
        found = hunt.page(url, web[url])
        if found is not None:
            walked.found[url] = found
    return walked
