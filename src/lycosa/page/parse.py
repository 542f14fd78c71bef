"""From bytes to a `Page`: the room's door. Pure: the same bytes give the same page."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lycosa.core.errors import Refusal
from lycosa.core.records import Alternate, LinkKind, Page
from lycosa.page import media
from lycosa.page.dates import parse_date
from lycosa.page.encoding import decode
from lycosa.page.feeds import feed
from lycosa.page.folder import LISTINGS, read_listing, without_end
from lycosa.page.html.document import read_html
from lycosa.page.html.links import first_target, header_links, refresh_target, resolve_links
from lycosa.page.html.main_text import main_text
from lycosa.page.media import MediaFormat
from lycosa.page.page_parts import PageParts, fold
from lycosa.page.robots_directives import permission
from lycosa.text.consistency import language_share
from lycosa.text.digest import simhash, text_digest
from lycosa.text.identify import identify
from lycosa.url.languages import language_code, language_of_url
from lycosa.url.normalise import LinkResolver

FAULT_BINARY = "binary"  # declared as text, but no text in any encoding
FAULT_LINKS_CUT = "links_cut"
FAULT_ANCHOR_CUT = "anchor_cut"
# characters of main text from which the rest of the page is not asked for the language
_ENOUGH_MAIN_TEXT = 200
_TITLE_LENGTH = 1_000
_DESCRIPTION_LENGTH = 5_000
_MAX_ALTERNATES = 1_000

_DATE_METAS = (
    "article:published_time",
    "og:published_time",
    "datepublished",
    "dc.date.issued",
    "dcterms.issued",
    "dc.date",
    "dcterms.date",
    "dc.date.created",
    "dcterms.created",
    "parsely-pub-date",
    "sailthru.date",
    "pubdate",
    "publishdate",
    "publish-date",
    "publication_date",
    "citation_publication_date",
    "date",
    "http-equiv:date",
)
_PUBLISHED = re.compile(r'"datePublished"\s*:\s*"([^"]{8,80})"')


def understands(content_type: str, payload: bytes) -> bool:
    """Whether `parse_page` reads this kind of document: HTML, XHTML, plain text, feeds and other
    XML.
    """
    return media.format_of(content_type, payload) is not MediaFormat.OTHER


def parse_page(
    payload: bytes,
    *,
    url: str,
    content_type: str = "",
    link_headers: Sequence[str] = (),
    x_robots_tag: Sequence[str] = (),
    product_token: str = "lycosa",
    content_language: str = "",
) -> Page:
    """Understand one document. Never raises on any bytes; what is wrong with them stands in
    `faults`.

    Args:
        payload: the decoded body.
        url: where it came from, normalised.
        content_type: the Content-Type header as received.
        link_headers: values of Link headers (RFC 8288): canonical and hreflang alternates are read.
        x_robots_tag: values of X-Robots-Tag headers.
        product_token: the robot name that pages may address.
        content_language: the Content-Language header, for documents that declare no language.
    """
    page = Page(size=len(payload))
    form = media.format_of(content_type, payload)
    if form in (MediaFormat.BINARY, MediaFormat.OTHER):
        page.faults.append(FAULT_BINARY)
        page.may_index, page.may_follow = permission((), x_robots_tag, product_token)
        return page
    whole = form in _READERS or form in LISTINGS
    if form in LISTINGS:
        parts, decoded = read_listing(form, payload, url)
    elif whole:
        if form is MediaFormat.TEXT and url.startswith("gopher:"):
            payload = without_end(payload)
        decoded = decode(payload, content_type)
        parts = _READERS[form](decoded.data)
    else:
        parts, decoded = read_html(payload, content_type, xml=form is MediaFormat.XHTML)
    page.charset = decoded.charset
    page.faults.extend(decoded.faults)
    fill_page(
        page, parts, url, link_headers, x_robots_tag, product_token, content_language, whole=whole
    )
    return page


def fill_page(
    page: Page,
    parts: PageParts,
    url: str,
    link_headers: Sequence[str],
    x_robots_tag: Sequence[str],
    product_token: str,
    content_language: str = "",
    *,
    whole: bool,
) -> None:
    """Make of what a document says what we understand of it. `whole`: all of its text is main text.
    Arguments as for `parse_page`.
    """
    page.faults.extend(parts.faults)
    _fill_texts(page, parts, whole=whole)
    _fill_links(page, parts, url, link_headers)
    page.published_at = _published(parts)
    page.may_index, page.may_follow = permission(parts.robots, x_robots_tag, product_token)
    page.declared_language = language_code(
        parts.language or parts.meta.get("http-equiv:content-language") or content_language
    )
    _fill_language(page, url)


def _plain(data: bytes) -> PageParts:
    parts = PageParts()
    text = data.decode(errors="replace").replace("\0", "")
    parts.lines = [line for line in map(fold, text.splitlines()) if line]
    return parts


_READERS = {
    MediaFormat.TEXT: _plain,
    MediaFormat.XML: feed.read,
    MediaFormat.JSON_FEED: feed.read_json,
}


def _fill_texts(page: Page, parts: PageParts, whole: bool) -> None:
    page.text = parts.text()
    page.main_text = page.text if whole else main_text(parts)
    meta = parts.meta
    page.title = (parts.title or fold(meta.get("og:title", "")))[:_TITLE_LENGTH]
    page.headline = (parts.headline or fold(meta.get("og:title", "")))[:_TITLE_LENGTH]
    description = (
        meta.get("description") or meta.get("og:description") or meta.get("dc.description") or ""
    )
    page.description = fold(description)[:_DESCRIPTION_LENGTH]
    page.headings = parts.headings


def _fill_links(page: Page, parts: PageParts, url: str, link_headers: Sequence[str]) -> None:
    refresh = parts.meta.get("http-equiv:refresh")
    if refresh and (target := refresh_target(refresh)):
        parts.links.append((LinkKind.REFRESH.value, target, "", ""))
    alternates = parts.alternates
    for target, parameters in header_links(link_headers) if link_headers else ():
        relations = parameters.get("rel", "").lower().split()
        if "canonical" in relations:
            parts.links.append((LinkKind.CANONICAL.value, target, " ".join(relations), ""))
            parts.has_canonical = True
        elif "alternate" in relations:
            parts.links.append((LinkKind.ALTERNATE.value, target, " ".join(relations), ""))
            if parameters.get("hreflang"):
                alternates.append((parameters["hreflang"], target))
    base = url
    if parts.base is not None:
        resolved = LinkResolver(url).resolve(parts.base)
        if type(resolved) is not Refusal:
            base = resolved
    resolver = LinkResolver(base, page.charset or "utf-8")
    page.links, page.refused, cut = resolve_links(parts.links, resolver, parts.base is not None)
    if cut:
        page.faults.append(FAULT_LINKS_CUT)
    if parts.anchors_cut:
        page.faults.append(FAULT_ANCHOR_CUT)
    if parts.has_canonical:
        page.canonical = first_target(page.links, LinkKind.CANONICAL)
    for language, href in alternates[:_MAX_ALTERNATES]:
        target = resolver.resolve(href)
        if type(target) is not Refusal:
            page.alternates.append(Alternate(language, target))


def _published(parts: PageParts) -> int | None:
    """The first date that parses, most explicit source first."""
    meta = parts.meta
    candidates = [meta["article:published_time"]] if "article:published_time" in meta else []
    candidates += [
        match[1] for data in parts.linked_data for match in [_PUBLISHED.search(data)] if match
    ]
    candidates += [meta[name] for name in _DATE_METAS[1:] if name in meta]
    candidates += [written for written, marked in parts.times if marked]
    for candidate in candidates:
        moment = parse_date(candidate)
        if moment is not None:
            return moment
    return None


def _fill_language(page: Page, url: str) -> None:
    sample = page.main_text if len(page.main_text) >= _ENOUGH_MAIN_TEXT else page.text
    text = sample or f"{page.title}\n{page.description}".strip()
    if text:
        identified = identify(text)
        page.language, page.language_score = identified.language, identified.score
        page.other_languages = list(identified.others)
        page.language_share = language_share(
            page.language, page.declared_language, page.title, language_of_url(url)
        )
    if sample:
        page.simhash = simhash(sample)
    page.text_digest = text_digest(page.text)
