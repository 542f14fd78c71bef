"""The type of a page: article, collection, documentation, forum, listing, product or service.

A logistic regression over metadata, the URL and the shape of the page. Its numbers are in
`content_model.json`, made by `scripts/train_main_text.py`.
"""

from __future__ import annotations

import math

from lycosa.core.patterns import lazy_pattern
from lycosa.page.html.block_features import (
    IN_ARTICLE,
    IN_FORM,
    IN_MAIN,
    IN_TABLE,
    SENTENCE_ENDS,
    RuleFit,
    element_flags,
)
from lycosa.page.html.tree import HEADINGS, TAG
from lycosa.page.page_parts import PageParts

TYPES = ("article", "collection", "documentation", "forum", "listing", "product", "service")

_SCHEMA_TYPE = lazy_pattern(r'"@type"\s*:\s*(?:\[\s*)?"([A-Za-z]+)"')
_ARTICLES = frozenset(
    {
        "AnalysisNewsArticle",
        "Article",
        "BlogPosting",
        "NewsArticle",
        "ReportageNewsArticle",
        "TechArticle",
        "WebArticle",
    }
)
_PRODUCTS = frozenset({"Offer", "Product", "ProductGroup"})
_FORUMS = frozenset({"DiscussionForumPosting", "QAPage", "Question"})
_LISTS = frozenset({"CollectionPage", "ItemList", "SearchResultsPage"})
_CURRENCIES = "$£¥₹"
_PRICE = lazy_pattern(rf"[{_CURRENCIES}]\s?\d")  # the euro sign may also follow the number
_PRICE_LENGTH = 20_000  # characters of a page that are searched for prices
_LINKED_DATA_LENGTH = 200_000
_URLS = tuple(
    lazy_pattern(pattern)
    for pattern in (
        r"/(?:t|topics?|threads?|forums?|viewtopic|showthread|discussion|d|questions|comments"
        r"|r)[/.?]",
        r"/(?:products?|p|dp|item|itm|shop)[/.]",
        r"/(?:collections?|categor(?:y|ies)|c|cat|browse|shop|store)(?:/|$|[.?])",
        r"/(?:docs?|documentation|manual|reference|guide|api|help|wiki|learn)[/.]",
        r"/(?:blog|news|articles?|story|stories|posts?|\d{4}/\d\d)[/]",
        r"^https?://[^/]+/?$",
        r"(?:services?|solutions?|pricing|features|about|platform)(?:/|$)",
        r"^https?://(?:docs?|developer|help)\.",
        r"^https?://(?:forums?|community|discuss|boards)\.",
        r"^https?://(?:shop|store)\.",
    )
)
_LI, _PRE, _H1 = TAG["li"], TAG["pre"], TAG["h1"]
_REGIONS = (IN_TABLE, IN_ARTICLE, IN_MAIN, IN_FORM)


def type_features(parts: PageParts, fit: RuleFit, scale: float, url: str) -> list[float]:
    """Return the features of a page, in the order of the model's weights. Hot path.

    Args:
        scale: Latin letters that a character is worth.
    """
    blocks, lines = parts.blocks, parts.lines
    flags = element_flags(parts)
    sizes = sorted([block[2] for block in blocks])
    tags = [block[5] for block in blocks]
    sentences = sum([block[2] for block in blocks if lines[block[1] - 1][-1:] in SENTENCE_ENDS])
    within = dict.fromkeys(flags, 0)
    for block in blocks:
        within[flags[block[4]]] += block[2]
    regions = [sum([within[kinds] for kinds in within if kinds & flag]) for flag in _REGIONS]
    count, total = len(blocks), max(fit.total, 1)
    text = parts.text()[:_PRICE_LENGTH]
    prices = text.count("€")
    if any(sign in text for sign in _CURRENCIES):
        prices += len(_PRICE.findall(text))
    url = url.lower()
    return [
        *_declarations(parts),
        math.log1p(fit.selected * scale),
        fit.selected / total,
        fit.linked / total,
        math.log1p(count),
        math.log1p(total * scale),
        prices / count,
        prices > 0,
        tags.count(_LI) / count,
        sum([tag in HEADINGS for tag in tags]) / count,
        _PRE in tags,
        *(size / total for size in regions),
        _H1 in tags,
        math.log1p(sizes[count // 2] * scale),
        sentences / total,
        *(pattern.search(url) is not None for pattern in _URLS),
    ]


def _declarations(parts: PageParts) -> tuple[bool, ...]:
    """Return the features of the declared metadata of a page, such as schema.org types."""
    declared = {
        name
        for data in parts.linked_data
        for name in _SCHEMA_TYPE.findall(data[:_LINKED_DATA_LENGTH])
    }
    meta = parts.meta
    kind = (meta.get("og:type") or "").lower()
    is_article = not declared.isdisjoint(_ARTICLES)
    declares_article = kind in ("article", "blog", "news") or any(
        name.startswith("article:") for name in meta
    )
    is_product = not declared.isdisjoint(_PRODUCTS) or "product" in kind
    is_forum = not declared.isdisjoint(_FORUMS)
    return (
        is_article,
        declares_article,
        is_product,
        is_forum,
        not declared.isdisjoint(_LISTS),
        bool(parts.times) or any("publish" in name or "date" in name for name in meta),
        parts.has_article,
        "author" in meta,
        (is_article or declares_article) and not is_product and not is_forum,
    )
