"""One normalised record of all that a page declares about itself."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from lycosa.core.dataclass import dataclass
from lycosa.core.errors import Refusal
from lycosa.core.records import Metadata
from lycosa.page.metadata.bounds import MetadataBudget, clean, declared_text
from lycosa.page.metadata.dates import modified_at, published_at
from lycosa.page.metadata.embedded import EmbeddedItems, read_items
from lycosa.page.metadata.entities import ARTICLES, Subject, read_subject
from lycosa.page.metadata.linked_data import (
    named,
    read_scripts,
    text_of,
    texts_of,
    value_of,
)
from lycosa.page.metadata.names import author_names
from lycosa.page.metadata.offers import read_offer, read_rating
from lycosa.page.metadata.titles import page_headline
from lycosa.page.metadata.visible import visible_authors
from lycosa.page.page_parts import PageParts
from lycosa.url.languages import language_code
from lycosa.url.normalise import LinkResolver

MAX_AUTHORS, MAX_KEYWORDS = 20, 50
MAX_HEADLINE, MAX_DESCRIPTION, MAX_NAME, MAX_KEYWORD = 1_000, 5_000, 200, 100  # characters

DATED_TYPES = frozenset({"article", "forum"})
"""Types of pages that show an author and a date."""
_DATED_URL = re.compile(r"/(?:blogs?|news|articles?|stor(?:y|ies)|posts?|\d{4}/\d\d)/")
_SOCIAL = ("og:", "article:", "book:", "profile:", "video:", "music:", "product:", "fb:")
_TYPES = {
    "article": "Article",
    "book": "Book",
    "product": "Product",
    "product.item": "Product",
    "product.group": "ProductGroup",
    "og:product": "Product",
    "profile": "ProfilePage",
    "blog": "Blog",
    "website": "WebSite",
    "place": "Place",
    "event": "Event",
    "restaurant.restaurant": "Restaurant",
}
_TYPES_BY_GROUP = {"video": "VideoObject", "music": "MusicRecording"}


@dataclass(slots=True, frozen=True)
class PageFacts:
    """The input of `read_metadata` besides the parts of the page.

    `base`: resolves addresses. `fetched_at`: no date is later; None: unknown. `page_type`: as
    `lycosa.page.html.page_type`.
    """

    url: str
    base: str
    canonical: str = ""
    fetched_at: int | None = None
    page_type: str = ""


def read_metadata(parts: PageParts, facts: PageFacts) -> Metadata:
    """Return the metadata of a page. Hot path for pages that declare nothing. Never raises."""
    meta = parts.meta
    scripts = read_scripts(parts.linked_data) if parts.linked_data else []
    root = parts.root
    items = EmbeddedItems() if root is None or not parts.has_items else read_items(root)
    groups = (scripts, items.microdata, items.rdfa)
    urls = [url.rstrip("/") for url in (facts.url, facts.canonical) if url]
    subject = read_subject(groups, urls)
    main = subject.main
    offer, rating = read_offer(main, meta), read_rating(main)
    kind = subject.type or _open_graph_type(meta.get("og:type", ""))
    is_dated = (
        facts.page_type in DATED_TYPES
        or kind in ARTICLES
        or _DATED_URL.search(facts.url) is not None
    )
    site_name = _site_name(subject, meta)
    headline = clean(page_headline(parts, subject, site_name, facts.url), MAX_HEADLINE)
    shown_as = headline if is_dated else None
    publisher = _first(named(value_of(main, "publisher", "brand"), subject.by_id))
    return Metadata(
        type=kind,
        headline=headline,
        authors=_authors(parts, subject, shown_as),
        published_at=published_at(parts, subject, facts.url, facts.fetched_at, shown_as),
        modified_at=modified_at(parts, subject, facts.fetched_at),
        description=_description(subject, meta),
        image=_image(parts, subject, facts.base),
        language=_language(parts, subject),
        site_name=site_name,
        publisher=declared_text(publisher, MAX_NAME),
        section=declared_text(
            text_of(value_of(main, "articleSection", "category"))
            or meta.get("article:section", ""),
            MAX_NAME,
        ),
        keywords=_keywords(parts, main),
        license=_license(main, meta),
        price=offer.price,
        currency=offer.currency,
        availability=offer.availability,
        rating=rating.value,
        best_rating=rating.best,
        rating_count=rating.count,
        raw=raw_values(parts, scripts, items),
    )


def raw_values(parts: PageParts, scripts: Sequence[Any], items: EmbeddedItems) -> str:
    """Return the declared values by format as a JSON object of bounded size."""
    budget = MetadataBudget()
    social: dict[str, list[str]] = {}
    twitter: dict[str, list[str]] = {}
    for name, content in parts.properties:
        group = twitter if name.startswith("twitter:") else social
        group.setdefault(name, []).append(content)
    plain: dict[str, list[str]] = {}
    for name, content in _named(parts):
        group = (
            twitter
            if name.startswith("twitter:")
            else social
            if name.startswith(_SOCIAL)
            else plain
        )
        if content not in group.setdefault(name, []):
            group[name].append(content)
    formats = {
        "opengraph": social,
        "twitter": twitter,
        "json-ld": list(scripts),
        "microdata": items.microdata,
        "rdfa": items.rdfa,
        "meta": plain,
    }
    return _encode(
        {name: part for name, value in formats.items() if value and (part := budget.value(value))}
    )


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def _named(parts: PageParts) -> Iterable[tuple[str, str]]:
    """Return the meta elements with a name, or the fields of a document that is not HTML."""
    return parts.meta.items() if parts.root is None else parts.named_metas


def _first(texts: Sequence[str]) -> str:
    return texts[0] if texts else ""


def _open_graph_type(declared: str) -> str:
    name = declared.strip().lower()[:50]
    return _TYPES.get(name) or _TYPES_BY_GROUP.get(name.partition(".")[0], "")


def _authors(parts: PageParts, subject: Subject, headline: str | None) -> list[str]:
    """Return the authors by the first source that names one. `headline`: a byline is looked for
    near it; None: none is.
    """
    language = language_code(parts.language)
    for values in _author_values(parts, subject):
        if names := author_names(values, MAX_AUTHORS, language):
            return names
    return [] if headline is None else visible_authors(parts, headline, MAX_AUTHORS, language)


def _author_values(parts: PageParts, subject: Subject) -> Iterator[Sequence[str]]:
    for entity in (subject.main, subject.page):
        yield named(value_of(entity, "author", "creator"), subject.by_id)
    metas: dict[str, list[str]] = {}
    for name, content in (*_named(parts), *parts.properties):
        if name in _AUTHOR_METAS:
            metas.setdefault(name, []).append(content)
    yield from (metas[name] for name in _AUTHOR_METAS if name in metas)


_AUTHOR_METAS = (
    *("citation_author", "author", "article:author", "parsely-author", "sailthru.author"),
    *("dc.creator", "dcterms.creator", "byl"),
)


def _description(subject: Subject, meta: dict[str, str]) -> str:
    value = (
        meta.get("og:description")
        or meta.get("description")
        or text_of(value_of(subject.main, "description", "abstract"))
        or meta.get("twitter:description")
        or meta.get("dc.description")
        or ""
    )
    return declared_text(value, MAX_DESCRIPTION)


def _site_name(subject: Subject, meta: dict[str, str]) -> str:
    value = (
        meta.get("og:site_name")
        or text_of(value_of(subject.site, "name"))
        or meta.get("application-name")
        or ""
    )
    return declared_text(value, MAX_NAME)


def _image(parts: PageParts, subject: Subject, base: str) -> str:
    """Return the first address of an image that resolves."""
    meta = parts.meta
    candidates = [meta[name] for name in _IMAGE_METAS if name in meta]
    for name in ("image", "thumbnailUrl", "primaryImageOfPage"):
        value = value_of(subject.main, name) or value_of(subject.page, name)
        candidates += _image_urls(value, subject)
    candidates = [text.strip()[:4_000] for text in candidates if text.strip()]
    if not candidates:
        return ""
    resolver = LinkResolver(base)
    for address in candidates:
        target = resolver.resolve(address)
        if not isinstance(target, Refusal) and target.startswith("http"):
            return target
    return ""


_IMAGE_METAS = (
    *("og:image:secure_url", "og:image:url", "og:image"),
    *("twitter:image", "twitter:image:src"),
)


def _image_urls(value: Any, subject: Subject) -> list[str]:
    if value is None:
        return []
    values = value if isinstance(value, list) else [value]
    urls = []
    for each in values[:5]:
        if isinstance(each, dict):
            if isinstance(each.get("@id"), str) and not value_of(each, "url", "contentUrl"):
                each = subject.by_id.get(each["@id"], each)
            each = value_of(each, "contentUrl", "url") or each.get("@id")
        urls += texts_of(each, 5)
    return urls


def _language(parts: PageParts, subject: Subject) -> str:
    for declared in (
        text_of(value_of(subject.main, "inLanguage")),
        parts.language,
        text_of(value_of(subject.page, "inLanguage")),
        parts.meta.get("og:locale", ""),
        parts.meta.get("http-equiv:content-language", ""),
    ):
        if declared and (code := language_code(declared)):
            return code
    return ""


def _keywords(parts: PageParts, main: dict[str, Any]) -> list[str]:
    values = texts_of(value_of(main, "keywords"))
    values += [content for name, content in parts.properties if name.endswith((":tag", ":tags"))]
    values += [parts.meta[name] for name in ("keywords", "news_keywords") if name in parts.meta]
    words: dict[str, str] = {}
    for value in values[:MAX_KEYWORDS]:
        for word in value[:5_000].split(","):
            word = declared_text(word, MAX_KEYWORD)
            if word:
                words.setdefault(word.casefold(), word)
    return list(words.values())[:MAX_KEYWORDS]


def _license(main: dict[str, Any], meta: dict[str, str]) -> str:
    value = value_of(main, "license")
    if isinstance(value, dict):
        value = value_of(value, "url", "name") or value.get("@id")
    return declared_text(
        text_of(value) or meta.get("dc.rights", "") or meta.get("dcterms.license", "")
    )
