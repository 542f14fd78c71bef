"""What pages need to be shown, for collections that want it: style sheets name fonts, images and
other sheets.

Images, sheets, scripts and fonts are archived and nothing else: they become no pages, so they are
not in the index.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

from lycosa.core.errors import Refusal
from lycosa.core.records import Exchange, Link, LinkKind
from lycosa.crawl.processing.page_reader import ParsedExchange, ParseFunction
from lycosa.http.decode import Headers, decode_with
from lycosa.page.html import style
from lycosa.url.indexable import unindexable_type
from lycosa.url.normalise import LinkResolver

_MAX_LINKS = 5_000


def understand_requisites(
    exchange: Exchange,
    headers: Headers,
    parse: ParseFunction,
    media_types: Sequence[str],
    max_decoded: int,
) -> ParsedExchange:
    """Understand an answer with the URLs that its styles name. What none of `media_types` names
    becomes no page.
    """
    content_type = headers.get("content-type") or ""
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type == "text/css":
        body = decode_with(exchange, headers, max_decoded)
        return ParsedExchange(
            None,
            truncated=body.truncated,
            links=_links(exchange.url, style.urls(style.text_of(body.payload)), 0),
        )
    if unindexable_type(content_type, media_types):
        return ParsedExchange(None)
    parsed = parse(exchange, headers)
    page = parsed.page
    if page is not None and "html" in media_type:
        body = decode_with(exchange, headers, max_decoded)
        urls = chain(style.html_urls(body.payload), style.image_sets(body.payload))
        page.links.extend(_links(exchange.url, urls, len(page.links)))
    return parsed


def _links(base: str, urls: Iterable[str], position: int) -> list[Link]:
    resolver = LinkResolver(base)
    targets: dict[str, None] = {}
    for url in urls:
        target = resolver.resolve(url)
        if not isinstance(target, Refusal):
            targets[target] = None
        if len(targets) == _MAX_LINKS:
            break
    return [
        Link(target, "", "", LinkKind.REQUISITE.value, position + number)
        for number, target in enumerate(targets)
    ]
