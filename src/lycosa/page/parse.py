"""From bytes to a `Page`. Pure: the same bytes give the same page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lycosa.core.dataclass import dataclass
from lycosa.core.errors import Refusal
from lycosa.core.records import Alternate, Item, Link, LinkKind, Page
from lycosa.page import media
from lycosa.page.directory_listing import LISTINGS, read_listing, without_end
from lycosa.page.encoding import decode
from lycosa.page.feeds import feed
from lycosa.page.html.document import read_html, read_tree
from lycosa.page.html.head import alternate_kind
from lycosa.page.html.links import (
    base_url,
    first_target,
    header_links,
    own_target,
    refresh_target,
    resolve_links,
)
from lycosa.page.html.main_text import MainText, main_text, whole_text
from lycosa.page.html.markdown import MarkdownMode, parts_markdown
from lycosa.page.markdown import text_markdown
from lycosa.page.media import MediaFormat
from lycosa.page.metadata.bounds import declared_text
from lycosa.page.metadata.record import PageFacts, read_metadata
from lycosa.page.page_parts import HtmlTree, PageParts, ReadItems, fold
from lycosa.page.robots_directives import permission
from lycosa.text.digest import simhash, text_digest
from lycosa.text.identify import (
    NOTHING,
    Identified,
    identify,
    language_share,
    prefer_declared,
)
from lycosa.url.languages import language_code, language_of_url
from lycosa.url.normalise import LinkResolver

FAULT_BINARY = "binary"  # declared as text, but no text in any encoding
FAULT_LINKS_CUT = "links_cut"
FAULT_ANCHOR_CUT = "anchor_cut"
# Characters of main text from which it alone decides the language.
_ENOUGH_MAIN_TEXT = 200
_TITLE_LENGTH = 1_000
_DESCRIPTION_LENGTH = 5_000
_MAX_ALTERNATES = 1_000


@dataclass(slots=True, frozen=True)
class ParseOptions:
    """The name of the robot that fetched a document, the time (ms since 1970; None: unknown), what
    else to read from the tree of an HTML document, and the form of `Page.markdown` (None: it has
    none).
    """

    product_token: str = "lycosa"
    at_ms: int | None = None
    read_items: ReadItems | None = None
    markdown: MarkdownMode | None = None


DEFAULT_OPTIONS = ParseOptions()


@dataclass(slots=True, frozen=True)
class PageSource:
    """The URL and the response headers of a document. See `parse_page`."""

    url: str
    link_headers: Sequence[str] = ()
    x_robots_tag: Sequence[str] = ()
    content_language: str = ""
    refresh: str = ""
    options: ParseOptions = DEFAULT_OPTIONS


def can_parse(content_type: str, payload: bytes) -> bool:
    """Return whether `parse_page` reads this document: HTML, XHTML, plain text, feeds and XML."""
    return media.format_of(content_type, payload) is not MediaFormat.OTHER


def parse_page(
    payload: bytes,
    *,
    url: str,
    content_type: str = "",
    link_headers: Sequence[str] = (),
    x_robots_tag: Sequence[str] = (),
    content_language: str = "",
    refresh: str = "",
    options: ParseOptions = DEFAULT_OPTIONS,
) -> Page:
    """Parse one document. Never raises on any bytes; `faults` lists their faults.

    Args:
        payload: the decoded body.
        url: its normalised URL.
        content_type: the Content-Type header as received.
        link_headers: values of Link headers (RFC 8288): canonical and hreflang alternates are read.
        x_robots_tag: values of X-Robots-Tag headers.
        content_language: the Content-Language header, for documents that declare no language.
        refresh: the Refresh header, which browsers read like a meta refresh.
        options: name of the crawler in robots directives, and time of the fetch, after which dates
            are ignored.
    """
    source = PageSource(url, link_headers, x_robots_tag, content_language, refresh, options)
    form = media.format_of(content_type, payload)
    size = len(payload)
    if form in (MediaFormat.BINARY, MediaFormat.OTHER):
        may_index, may_follow = permission((), x_robots_tag, options.product_token)
        return Page(size=size, faults=[FAULT_BINARY], may_index=may_index, may_follow=may_follow)
    whole = form in _READERS or form in LISTINGS
    if form in LISTINGS:
        parts, decoded = read_listing(form, payload, url)
    elif whole:
        if form is MediaFormat.TEXT and url.startswith("gopher:"):
            payload = without_end(payload)
        decoded = decode(payload, content_type)
        parts = _READERS[form](decoded.data)
    else:
        is_xml, marked = form is MediaFormat.XHTML, options.markdown is not None
        parts, decoded = read_html(payload, content_type, xml=is_xml, marked=marked)
    return build_page(
        parts, source, size=size, charset=decoded.charset, faults=decoded.faults, whole=whole
    )


def build_page(
    parts: PageParts,
    source: PageSource,
    *,
    size: int,
    whole: bool,
    charset: str = "",
    faults: Sequence[str] = (),
) -> Page:
    """Return the page that the parts of a document make. `whole`: all of its text is main text."""
    meta, text, options = parts.meta, parts.text(), source.options
    selected = whole_text(text) if whole else main_text(parts, source.url)
    og_title = fold(meta.get("og:title", ""))
    title = (parts.title or og_title)[:_TITLE_LENGTH]
    description = declared_text(
        meta.get("description") or meta.get("og:description") or meta.get("dc.description") or "",
        _DESCRIPTION_LENGTH,
    )
    links = _read_links(parts, source, charset)
    may_index, may_follow = permission(
        parts.named_metas, source.x_robots_tag, options.product_token
    )
    declared = language_code(
        parts.language or meta.get("http-equiv:content-language") or source.content_language
    )
    sample = selected.text if len(selected.text) >= _ENOUGH_MAIN_TEXT else text
    place = source.url, links.resolver.base, links.canonical or ""
    metadata = read_metadata(parts, PageFacts(*place, options.at_ms, selected.page_type))
    described = sample or f"{title}\n{description}".strip()
    identified, share = _identify(described, title, declared, source.url)
    return Page(
        title=title,
        headline=(parts.headline or og_title)[:_TITLE_LENGTH],
        description=description,
        headings=parts.headings,
        main_text=selected.text,
        main_lines=selected.lines,
        page_type=selected.page_type,
        text=text,
        language=identified.language,
        language_score=identified.score,
        other_languages=list(identified.others),
        declared_language=declared,
        language_share=share,
        charset=charset,
        published_at=metadata.published_at,
        canonical=links.canonical,
        may_index=may_index,
        may_follow=may_follow,
        size=size,
        text_digest=text_digest(text),
        simhash=simhash(sample) if sample else 0,
        faults=[*faults, *parts.faults, *links.faults],
        alternates=links.alternates,
        links=links.links,
        refused=links.refused,
        metadata=metadata,
        items=_read_items(parts, source, links.resolver.base, charset),
        markdown=_markdown(parts, selected, links.resolver, options.markdown),
    )


def _markdown(
    parts: PageParts, main: MainText, resolver: LinkResolver, mode: MarkdownMode | None
) -> str | None:
    if mode is None:
        return None
    if parts.marked is None:
        return text_markdown(parts.text(), parts.headings)
    return parts_markdown(parts, main, resolver, mode)


def _read_items(parts: PageParts, source: PageSource, base: str, charset: str) -> list[Item]:
    read_items = source.options.read_items
    if read_items is None or parts.root is None:
        return []
    return read_items(HtmlTree(parts.root, parts.data, source.url, base, charset))


def parse_items(
    payload: bytes, read_items: ReadItems, *, url: str, content_type: str = ""
) -> list[Item]:
    """Return the items of a document, as `parse_page` would, without its text and links."""
    form = media.format_of(content_type, payload)
    if form not in (MediaFormat.HTML, MediaFormat.XHTML):
        return []
    root, decoded = read_tree(payload, content_type, xml=form is MediaFormat.XHTML)
    if root is None:
        return []
    # searching the bytes takes a fifth of the time of a selector
    node = root.css_first("base[href]") if b"<base" in decoded.data.lower() else None
    base = base_url(url, None if node is None else node.attributes.get("href"))
    return read_items(HtmlTree(root, decoded.data, url, base, decoded.charset))


def _plain(data: bytes) -> PageParts:
    text = data.decode(errors="replace").replace("\0", "")
    return PageParts(lines=[line for line in map(fold, text.splitlines()) if line])


_READERS = {
    MediaFormat.TEXT: _plain,
    MediaFormat.XML: feed.read,
    MediaFormat.JSON_FEED: feed.read_json,
}


class _Links(NamedTuple):
    links: list[Link]
    refused: dict[str, int]
    alternates: list[Alternate]
    canonical: str | None
    faults: list[str]
    resolver: LinkResolver


def _read_links(parts: PageParts, source: PageSource, charset: str) -> _Links:
    """Resolve the links of a document and of its headers."""
    collected, alternates = parts.links, parts.alternates
    has_canonical = parts.has_canonical
    for refresh in (source.refresh, parts.meta.get("http-equiv:refresh")):
        if refresh and (target := refresh_target(refresh)):
            collected.append((LinkKind.REFRESH.value, target, "", ""))
    for target, parameters in header_links(source.link_headers) if source.link_headers else ():
        if parts.base is not None:  # headers do not depend on it (RFC 8288 section 3.2)
            target = own_target(target, source.url)
        relations = parameters.get("rel", "").lower().split()
        if "canonical" in relations:
            collected.append((LinkKind.CANONICAL.value, target, " ".join(relations), ""))
            has_canonical = True
        elif "alternate" in relations and (kind := alternate_kind(parameters.get("type", ""))):
            collected.append((kind.value, target, " ".join(relations), ""))
            if parameters.get("hreflang") and kind is LinkKind.ALTERNATE:
                alternates.append((parameters["hreflang"], target))
    resolver = LinkResolver(base_url(source.url, parts.base), charset or "utf-8")
    links, refused, cut = resolve_links(collected, resolver, parts.base is not None)
    faults = [FAULT_LINKS_CUT] if cut else []
    if parts.anchors_cut:
        faults.append(FAULT_ANCHOR_CUT)
    targets = [
        (language, resolver.resolve(href)) for language, href in alternates[:_MAX_ALTERNATES]
    ]
    return _Links(
        links,
        refused,
        [Alternate(code, target) for code, target in targets if type(target) is not Refusal],
        first_target(links, LinkKind.CANONICAL) if has_canonical else None,
        faults,
        resolver,
    )


def _identify(text: str, title: str, declared: str, url: str) -> tuple[Identified, float]:
    """Return the language, and its share (see `language_share`)."""
    if not text:
        return NOTHING, 1.0
    identified = prefer_declared(identify(text), text, declared)
    share = language_share(identified.language, declared, title, language_of_url(url))
    return identified, share
