"""From bytes to a `Page`: the room's door. Pure: the same bytes give the same page."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lycosa.core.errors import Refusal
from lycosa.core.records import Alternate, LinkKind, Page
from lycosa.page import feed, media
from lycosa.page.dates import parse_date
from lycosa.page.document import read_html
from lycosa.page.encoding import decode
from lycosa.page.folder import LISTINGS, read_listing, without_end
from lycosa.page.found import Found, fold
from lycosa.page.links import first_target, header_links, refresh_target, resolve_links
from lycosa.page.main_text import main_text
from lycosa.page.media import Format
from lycosa.page.robots import permission
from lycosa.text.digest import simhash, text_digest
from lycosa.text.identify import identify
from lycosa.url.normalise import LinkResolver

FAULT_BINARY = "binary"  # declared as text, but no text in any encoding
FAULT_LINKS_CUT = "links_cut"
FAULT_ANCHOR_CUT = "anchor_cut"
_ENOUGH_MAIN_TEXT = 200  # characters of main text from which the rest of the page is not asked for the language
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
    """Whether `parse_page` reads this kind of document: HTML, XHTML, plain text, feeds and other XML."""
    return media.format_of(content_type, payload) is not Format.OTHER


def parse_page(
    payload: bytes,
    *,
    url: str,
    content_type: str = "",
    link_headers: Sequence[str] = (),
    x_robots_tag: Sequence[str] = (),
    product_token: str = "lycosa",
) -> Page:
    """Understand one document. Never raises on any bytes; what is wrong with them stands in `faults`.

    Args:
        payload: the decoded body.
        url: where it came from, normalised.
        content_type: the Content-Type header as received.
        link_headers: values of Link headers (RFC 8288): canonical and hreflang alternates are read.
        x_robots_tag: values of X-Robots-Tag headers.
        product_token: the robot name that pages may address.
    """
    page = Page(size=len(payload))
    form = media.format_of(content_type, payload)
    if form in (Format.BINARY, Format.OTHER):
        page.faults.append(FAULT_BINARY)
        page.may_index, page.may_follow = permission((), x_robots_tag, product_token)
        return page
    whole = form in _READERS or form in LISTINGS
    if form in LISTINGS:
        found, decoded = read_listing(form, payload, url)
    elif whole:
        if form is Format.TEXT and url.startswith("gopher:"):
            payload = without_end(payload)
        decoded = decode(payload, content_type)
        found = _READERS[form](decoded.data)
    else:
        found, decoded = read_html(payload, content_type, xml=form is Format.XHTML)
    page.charset = decoded.charset
    page.faults.extend(decoded.faults)
    fill_page(page, found, url, link_headers, x_robots_tag, product_token, whole=whole)
    return page


def fill_page(
    page: Page,
    found: Found,
    url: str,
    link_headers: Sequence[str],
    x_robots_tag: Sequence[str],
    product_token: str,
    *,
    whole: bool,
) -> None:
    """Make of what a document says what we understand of it. `whole`: all of its text is main text. Arguments as for `parse_page`."""
    page.faults.extend(found.faults)
    _fill_texts(page, found, whole=whole)
    _fill_links(page, found, url, link_headers)
    page.published_at = _published(found)
    page.may_index, page.may_follow = permission(found.robots, x_robots_tag, product_token)
    _fill_language(page)


def _plain(data: bytes) -> Found:
    found = Found()
    text = data.decode(errors="replace").replace("\0", "")
    found.lines = [line for line in map(fold, text.splitlines()) if line]
    return found


_READERS = {Format.TEXT: _plain, Format.XML: feed.read, Format.JSON_FEED: feed.read_json}


def _fill_texts(page: Page, found: Found, whole: bool) -> None:
    page.text = found.text()
    page.main_text = page.text if whole else main_text(found)
    meta = found.meta
    page.title = (found.title or fold(meta.get("og:title", "")))[:_TITLE_LENGTH]
    page.headline = (found.headline or fold(meta.get("og:title", "")))[:_TITLE_LENGTH]
    description = meta.get("description") or meta.get("og:description") or meta.get("dc.description") or ""
    page.description = fold(description)[:_DESCRIPTION_LENGTH]
    page.headings = found.headings


def _fill_links(page: Page, found: Found, url: str, link_headers: Sequence[str]) -> None:
    refresh = found.meta.get("http-equiv:refresh")
    if refresh and (target := refresh_target(refresh)):
        found.links.append((LinkKind.REFRESH.value, target, "", ""))
    alternates = found.alternates
    for target, parameters in header_links(link_headers) if link_headers else ():
        relations = parameters.get("rel", "").lower().split()
        if "canonical" in relations:
            found.links.append((LinkKind.CANONICAL.value, target, " ".join(relations), ""))
            found.has_canonical = True
        elif "alternate" in relations:
            found.links.append((LinkKind.ALTERNATE.value, target, " ".join(relations), ""))
            if parameters.get("hreflang"):
                alternates.append((parameters["hreflang"], target))
    base = url
    if found.base is not None:
        resolved = LinkResolver(url).resolve(found.base)
        if type(resolved) is not Refusal:
            base = resolved
    resolver = LinkResolver(base, page.charset or "utf-8")
    page.links, page.refused, cut = resolve_links(found.links, resolver, found.base is not None)
    if cut:
        page.faults.append(FAULT_LINKS_CUT)
    if found.anchors_cut:
        page.faults.append(FAULT_ANCHOR_CUT)
    if found.has_canonical:
        page.canonical = first_target(page.links, LinkKind.CANONICAL)
    for language, href in alternates[:_MAX_ALTERNATES]:
        target = resolver.resolve(href)
        if type(target) is not Refusal:
            page.alternates.append(Alternate(language, target))


def _published(found: Found) -> int | None:
    """The first date that parses, most explicit source first."""
    meta = found.meta
    candidates = [meta["article:published_time"]] if "article:published_time" in meta else []
    candidates += [match[1] for data in found.linked_data for match in [_PUBLISHED.search(data)] if match]
    candidates += [meta[name] for name in _DATE_METAS[1:] if name in meta]
    candidates += [written for written, marked in found.times if marked]
    for candidate in candidates:
        moment = parse_date(candidate)
        if moment is not None:
            return moment
    return None


def _fill_language(page: Page) -> None:
    sample = page.main_text if len(page.main_text) >= _ENOUGH_MAIN_TEXT else page.text
    if sample:
        identified = identify(sample)
        page.language, page.language_score = identified.language, identified.score
        page.other_languages = list(identified.others)
        page.simhash = simhash(sample)
    page.text_digest = text_digest(page.text)
