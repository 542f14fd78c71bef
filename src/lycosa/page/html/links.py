"""From hrefs as written to `Link` records: resolved, bounded, each once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from lycosa.core.errors import Refusal
from lycosa.core.records import Link, LinkKind
from lycosa.page.page_parts import FoundLink
from lycosa.url.normalise import LinkResolver

MAX_LINKS = 20_000  # of a page
_REFRESH = re.compile(
    r"\s*(?:\d+|(?=\.))(?:\.[\d.]*)?(?:\s*[;,]\s*|\s+)(?:url\s*=\s*)?(.*)",
    re.IGNORECASE | re.DOTALL,
)
_HEADER_LINK = re.compile(
    r"\s*+<([^>]*)>((?:\s*+;\s*+[^\s=;,\"]++\s*+(?:=\s*+(?:\"(?:[^\"\\]|\\.)*+\""
    r"|[^\s;,\"]*+))?+)*+)\s*+(?:,|$)"
)
_HEADER_PARAMETER = re.compile(
    r";\s*([^\s=;,\"]+)\s*(?:=\s*(?:\"((?:[^\"\\]|\\.)*)\"|([^\s;,\"]*)))?"
)


class Links(NamedTuple):
    """`refused`: reason -> number of invalid hrefs. `cut`: there were more than MAX_LINKS."""

    links: list[Link]
    refused: dict[str, int]
    cut: bool


def refresh_target(content: str) -> str:
    """Return the URL of a meta refresh, "" if it names none (WHATWG HTML section 4.2.5.3, shared
    declarative refresh steps).
    """
    match = _REFRESH.fullmatch(content[:4096])
    if not match:
        return ""
    target = match[1].strip(" \t\n\f\r")
    if target[:1] in ("'", '"'):
        target = target[1:].partition(target[0])[0]
    return target


def header_links(values: Iterable[str]) -> list[tuple[str, dict[str, str]]]:
    """Return (target, parameters) of HTTP Link headers (RFC 8288 section 3); invalid parts are
    ignored.
    """
    links: list[tuple[str, dict[str, str]]] = []
    for value in values:
        position = 0
        value = value[:8192]
        while position < len(value):
            match = _HEADER_LINK.match(value, position)
            if match is None:  # unparsable text ends at the next comma
                position = value.find(",", position) + 1 or len(value)
                continue
            parameters: dict[str, str] = {}
            for name, quoted, bare in _HEADER_PARAMETER.findall(match[2]):
                parameters.setdefault(name.lower(), quoted or bare)
            links.append((match[1].strip(), parameters))
            position = match.end()
    return links


def own_target(href: str, url: str) -> str:
    """Return the target of a link that does not depend on a `base` element, as written if it
    cannot be resolved.
    """
    resolved = LinkResolver(url).resolve(href)
    return href if type(resolved) is Refusal else resolved


def resolve_links(
    page_links: Sequence[FoundLink], resolver: LinkResolver, page_has_base: bool
) -> Links:
    """Make records of a page's links, in document order; of equal ones (target, kind, anchor) the
    first stays, without `nofollow` if another has none.

    A reference to the page itself (`#top`) is no link. Hot path: 50 to 300 links a page.
    """
    links: list[Link] = []
    refused: dict[str, int] = {}
    seen: dict[tuple[str, str, str], int] = {}
    see = seen.setdefault
    resolve, cached = resolver.resolve, resolver.resolved.get
    new_link = tuple.__new__  # called by Link's constructor; takes half the time
    position = 0
    for kind, href, rel, anchor in page_links:
        place, fragment, _ = href.partition("#")
        if fragment and not place and not page_has_base:
            continue
        target = cached(place)
        # White space before the fragment is not at the end of the whole text, where the parser
        # would strip it.
        if target is None or (fragment and place[-1] <= " "):
            target = resolve(href)
        if type(target) is Refusal:
            refused[target.value] = refused.get(target.value, 0) + 1
            continue
        earlier = see((target, kind, anchor), position)  # one look: hashing costs most
        if earlier != position:
            if "nofollow" in links[earlier].rel and "nofollow" not in rel:
                links[earlier] = links[earlier]._replace(rel=rel)
            continue
        if position == MAX_LINKS:
            return Links(links, refused, True)
        links.append(new_link(Link, (target, anchor, rel, kind, position)))
        position += 1
    return Links(links, refused, False)


def base_url(url: str, href: str | None) -> str:
    """Return the base of the links of a document with this `base` element."""
    if href is None:
        return url
    resolved = LinkResolver(url).resolve(href)
    return url if type(resolved) is Refusal else resolved


def first_target(links: Iterable[Link], kind: LinkKind) -> str | None:
    """Return the target of the first link of a kind."""
    kind_value = kind.value
    for target, _, _, link_kind, _ in links:
        if link_kind == kind_value:
            return target
    return None
