"""Compute the URLs that a crawl of some folders must fetch.

Uses neither HTTP nor code of Lycosa.

Follows `a`, `area`, `frame`, `iframe`, `link rel=canonical`, `link rel=alternate` (without feeds
and style sheets), meta refresh and redirects, except with nofollow. Scope: origins that have a
folder. HTML is parsed by libxml2; the crawler uses lexbor.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from lxml import etree

from tests.sites.serving import answer
from tests.sites.urls import Split, join, split

FEED_TYPES = frozenset(
    {
        "application/rss+xml",
        "application/atom+xml",
        "application/feed+json",
        "application/json",
        "text/xml",
    }
)
PARSED_TYPES = frozenset({"text/html", "application/xhtml+xml"})
ROBOT_NAMES = frozenset({"robots", "lycosa"})

_TAGS = ("base", "a", "area", "frame", "iframe", "link", "meta")
# HTML, shared declarative refresh steps
_REFRESH = re.compile(r"\s*[\d.]+\s*[;,\s]\s*(?:url\s*=\s*)?(.*)", re.IGNORECASE | re.DOTALL)
_OUTER_SPACE = " \t\n\f\r"


def expected_urls(roots: Mapping[str, Path], seeds: Iterable[str]) -> dict[str, int]:
    """Return URL -> status of all fetches of a crawl from the seeds.

    Args:
        roots: origin (`http://127.0.1.10:8600`) -> document root.
        seeds: absolute URLs under these origins.
    """
    waiting = deque(split(seed) for seed in seeds)
    statuses: dict[str, int] = {}
    seen = {parts.url for parts in waiting}
    while waiting:
        parts = waiting.popleft()
        response = answer(roots[parts.origin], parts.path, parts.query)
        statuses[parts.url] = response.status
        targets: Iterable[Split | None] = ()
        if response.location:
            targets = (join(parts, response.location),)
        elif response.status == 200 and response.content_type in PARSED_TYPES:
            targets = links(response.body(), parts)
        for target in targets:
            if target is not None and target.origin in roots and target.url not in seen:
                seen.add(target.url)
                waiting.append(target)
    return statuses


def links(body: bytes, page: Split) -> set[Split]:
    """Return the targets of the followed links, without fragments.

    A page with a nofollow meta element has none.
    """
    if not body.strip():
        return set()
    tree = etree.HTML(body, etree.HTMLParser(huge_tree=True))
    if tree is None:
        return set()
    base = page
    based = False
    references: set[str] = set()
    for element in tree.iter(*_TAGS):
        if element.tag == "base":
            href = element.get("href")
            if href is not None and not based:
                base, based = join(page, href) or page, True
        elif element.tag == "meta" and (element.get("name") or "").strip().lower() in ROBOT_NAMES:
            if {"nofollow", "none"} & set(
                re.split(r"[,\s]+", (element.get("content") or "").lower())
            ):
                return set()
        else:
            references.update(_followed(element))
    targets = (
        join(base, reference)
        for reference in {reference.partition("#")[0] for reference in references}
    )
    return {target for target in targets if target is not None}


def _followed(element: etree._Element) -> Iterator[str]:
    """Yield the reference of an element that a crawl follows."""
    relations = set((element.get("rel") or "").lower().split())
    reference: str | None = None
    if element.tag in ("a", "area"):
        reference = None if "nofollow" in relations else element.get("href")
    elif element.tag in ("frame", "iframe"):
        reference = element.get("src")
    elif element.tag == "link":
        media_type = (element.get("type") or "").partition(";")[0].strip().lower()
        alternate = (
            "alternate" in relations
            and "stylesheet" not in relations
            and media_type not in FEED_TYPES
        )
        if ("canonical" in relations or alternate) and "nofollow" not in relations:
            reference = element.get("href")
    elif (element.get("http-equiv") or "").strip().lower() == "refresh":
        match = _REFRESH.fullmatch(element.get("content") or "")
        reference = match[1].strip(_OUTER_SPACE).strip("'\"") if match else None
    if reference:
        yield reference
