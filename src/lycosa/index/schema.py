"""The fields of the index, and the document of a page.

Five text fields hold the terms of all languages, each with the code of its language as prefix
(`en:event`). The average length of a field therefore covers all pages, and the document frequency
of a term only its own language. Stored fields: `about` (JSON) for display, and the key of the
snippet texts (`index.snippets.texts`), which pages with the same text share.

Values for sorting and counting are fast fields: host, text, prior, dates, language, type,
collection.

This module is what a search needs to start: it imports neither polars nor anything that does.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_to_bytes

import tantivy
from xxhash import xxh3_64_intdigest

from lycosa.core.records import TITLE_DIFFERS_TOO
from lycosa.hooks.plugins import installed_plugins
from lycosa.index.snippets.texts import joined
from lycosa.text.analyze import Analysis, Analyzer, analyzer_for

SCHEMA_VERSION = 5
"""Raise it when fields or their meaning change: an index of another version is built anew."""
SCHEMA = "schema"  # where a generation keeps it, among the versions of its analyzers

ID, HOST, PATH, LANGUAGE, COLLECTION, TYPE, URL_WORDS = (
    "id",
    "host",
    "path",
    "language",
    "collection",
    "type",
    "url_words",
)
LINKS = "links"
HOST_NAME, HOST_KEY, GROUP, PRIOR, PUBLISHED, DATE = (
    "host_name",
    "host_key",
    "group",
    "prior",
    "published",
    "date",
)
ABOUT, TEXT = "about", "text"
TITLE_ROLE, HEADINGS_ROLE, BODY_ROLE, FULL_ROLE, ANCHOR_ROLE = (
    "title",
    "headings",
    "body",
    "full",
    "anchor",
)
ROLES = (TITLE_ROLE, HEADINGS_ROLE, BODY_ROLE, FULL_ROLE, ANCHOR_ROLE)
WHITESPACE = "whitespace"
DEFAULT_TYPE = "html"

MOST_HEADINGS = 200
MAX_URL_WORDS_CHARACTERS = 500
MOST_LINKS = 500  # targets of a page that `link:` finds it by
# bits of a hash that are left out: of a billion targets one in a thousand has the key of another
# one
_LINK_SHIFT = 24
MOST_FOLDERS = 8  # levels of a path that `site:` may name
_SIGNED = 2**63  # tantivy's columns of unsigned numbers are dangerous from Python
INCONSISTENT, DECLARED_OTHERWISE = 0.7, 0.97
"""Factors for pages whose declared language and title, or only whose declared language, differ from
their text.
"""
URL_LENGTH_WEIGHT, _LONG_URL = 1e-6, 2_000
MIN_PRIOR = 0.65
"""The smallest prior: tantivy cannot multiply a score by less than 1, so `weight_of` divides by it.
"""
TITLE_COPIES = 2
"""How often the body field has the title: sentences are scored by this field alone
(docs/ranking.md).
"""
CLOCK_TOLERANCE_MS = 86_400_000
"""A publication date up to this much later than the fetch is a matter of time zones; a later one is
wrong.
"""
STORED_BODY, STORED_FULL = 24_000, 8_000
"""Characters of the main text, and of the text outside it, that are stored for snippets; all of
both is indexed.
"""
_FIRST_LINES = 8  # places at which a main text may begin that are looked at one by one
_URL_NOISE = re.compile(
    r"^[a-z][a-z0-9+.-]*://|\.(?:html?|php|aspx?|jsp|cgi)(?=$|[?#])|[^\w]+|_+", re.IGNORECASE
)


def text_field(role: str, language: str) -> str:
    """The name of the terms of a role in a language: `title_en`, `body_und`. They are part of one
    field, see `located`.
    """
    return f"{role}_{language}"


def located(name: str, terms: Sequence[str] = ()) -> tuple[str, tuple[str, ...]]:
    """The field of the index that holds terms named by `text_field`, and the terms as they are
    there; other fields as they are.
    """
    role, _, language = name.partition("_")
    if role not in ROLES:
        return name, tuple(terms)
    return role, tuple(f"{language}:{term}" for term in terms)


@functools.cache
def schema() -> tantivy.Schema:
    """The schema of every index generation of this version."""
    builder = tantivy.SchemaBuilder()
    # tantivy-py deletes nothing by an unsigned term and says nothing: the key is text.
    for name in (ID, HOST, PATH):
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic")
    for name in (LANGUAGE, COLLECTION, TYPE, HOST_NAME):
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic", fast=True)
    builder.add_text_field(URL_WORDS, tokenizer_name=WHITESPACE)
    builder.add_integer_field(LINKS, indexed=True)
    for name in (HOST_KEY, GROUP, PUBLISHED, DATE, TEXT):
        builder.add_integer_field(name, fast=True)
    builder.add_float_field(PRIOR, fast=True)
    for role in ROLES:
        builder.add_text_field(role, tokenizer_name=WHITESPACE)
    builder.add_bytes_field(ABOUT, stored=True)
    return builder.build()


def analysis_versions(analysis: Analysis = Analysis()) -> dict[str, str]:
    """What the terms of an index depend on: analyzer -> version. An index made with others must be
    built anew.

    Raises:
        UsageError: an analyzer needs a package that is not installed.
    """
    samples = ("en", "de", "fr", "es", "pt", "it", "ru", "zh", "ko", "th", "ar", "")
    return {analyzer.name: analyzer.version for analyzer in map(analysis.of, samples)} | {
        SCHEMA: str(SCHEMA_VERSION)
    }


@dataclass(slots=True)
class IndexedPage:
    """A page as the index takes it. Times in ms; `collections` are all that hold it.

    `links` are `link_key`s of what it links to. `prior` is what its score is multiplied by, at
    least 1; `anchors` the texts of links to it, those of many hosts oftener; `group` is the same
    for pages that are copies of each other.
    """

    url: str
    host: str
    url_key: int
    collections: Sequence[str]
    title: str
    description: str
    headings: Sequence[str]
    body: str
    full: str  # visible text outside `body`
    language: str
    fetched_at: int
    published_at: int | None = None
    type: str = DEFAULT_TYPE
    links: Sequence[int] = ()
    anchors: str = ""
    prior: float = 1.0
    group: int = 0
    language_share: float = 1.0  # of `pages`


@dataclass(slots=True, frozen=True)
class Stored:
    """What a hit shows of a page, read back from the index. Its texts are read when asked for."""

    url: str
    host: str
    title: str
    description: str
    language: str
    collections: list[str]
    fetched_at: int
    published_at: int | None
    type: str = DEFAULT_TYPE


def trusted_date(published_at: int | None, fetched_at: int) -> int | None:
    """Return the publication date for ranking and sorting, never after the fetch; None: none, or
    one that lies in the future.
    """
    if published_at is None or published_at > fetched_at + CLOCK_TOLERANCE_MS:
        return None
    return min(published_at, fetched_at)


def url_id(url_key: int) -> str:
    """The document's id: the URL's key as 16 hexadecimal digits."""
    return f"{url_key:016x}"


def document(
    page: IndexedPage, analysis: Analysis = Analysis(), text_key: int = 0
) -> tantivy.Document:
    """The document of a page whose stored texts have the key `text_key` (0: it has none). Hot path:
    what it costs is in bench/search.py.
    """
    analyzer = analysis.of(page.language)
    made = tantivy.Document()
    made.add_text(ID, url_id(page.url_key))
    for host in host_suffixes(page.host):
        made.add_text(HOST, host)
    for folder in folders(page.url):
        made.add_text(PATH, folder)
    made.add_text(LANGUAGE, page.language)
    made.add_text(TYPE, page.type)
    made.add_text(HOST_NAME, page.host)
    for collection in page.collections:
        made.add_text(COLLECTION, collection)
    made.add_text(URL_WORDS, " ".join(url_words(page.url)))
    for target in page.links[:MOST_LINKS]:
        made.add_integer(LINKS, target)
    made.add_integer(HOST_KEY, signed_key(page.host))
    made.add_integer(GROUP, page.group)
    published = trusted_date(page.published_at, page.fetched_at)
    made.add_integer(DATE, page.fetched_at if published is None else published)
    if published is not None:
        made.add_integer(PUBLISHED, published)
    made.add_float(PRIOR, weight_of(page.prior * static_factor(page.url, page.language_share)))
    if text_key:
        made.add_integer(TEXT, text_key - _SIGNED)
    headings = list(page.headings[:MOST_HEADINGS])
    further = installed_plugins().call("index_text", url=page.url, title=page.title, text=page.body)
    if page.title:
        title = prefixed(analyzer, page.title)
        # separate values, so that no phrase matches across two of them
        for _ in range(TITLE_COPIES):
            made.add_text(BODY_ROLE, title)
    for role, text in (
        (TITLE_ROLE, page.title),
        (HEADINGS_ROLE, "\n".join(headings)),
        (BODY_ROLE, page.body),
        (FULL_ROLE, "\n".join(filter(None, (page.full, page.description, *further)))),
        (ANCHOR_ROLE, page.anchors),
    ):
        if text:
            made.add_text(role, prefixed(analyzer, text))
    about = (
        page.url,
        page.host,
        page.title,
        page.description,
        page.language,
        list(page.collections),
        page.fetched_at,
        page.published_at,
        page.type,
    )
    made.add_bytes(
        ABOUT,
        json.dumps(about, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace"),
    )
    return made


def prefixed(analyzer: Analyzer, text: str) -> str:
    """The terms of a text, each behind the code of its language, for the tokenizer that splits at
    spaces.
    """
    mark = f"{analyzer.field_set}:"
    if analyzer.native:
        terms = analyzer.terms(text)
        return mark + f" {mark}".join(terms) if terms else ""
    joined = analyzer.joined(text)
    return mark + joined.replace(" ", f" {mark}") if joined else ""


def stored_text(page: IndexedPage) -> bytes:
    """What of a page's texts is stored for snippets (`index.snippets.texts.joined`)."""
    return joined(page.body[:STORED_BODY], page.full[:STORED_FULL])


def text_of(value: int | None) -> int | None:
    """The key of a document's stored text, given the value of its column `TEXT`."""
    return None if value is None else value + _SIGNED


def static_factor(url: str, language_share: float) -> float:
    """Return the factor of a page's score for its language and URL: below 1 if declaration and
    title contradict the text.

    Of pages that are otherwise equal, the one with the shorter URL comes first.
    """
    contradicts = (
        INCONSISTENT
        if language_share <= TITLE_DIFFERS_TOO
        else DECLARED_OTHERWISE
        if language_share < 1
        else 1.0
    )
    return contradicts * (1 - URL_LENGTH_WEIGHT * min(len(url), _LONG_URL))


def weight_of(prior: float) -> float:
    """Return the value of `PRIOR` for which tantivy multiplies a score by `prior / MIN_PRIOR`
    (log2 of the value plus two).
    """
    return math.exp2(max(1.0, prior / MIN_PRIOR)) - 2.0


def prior_of(weight: float | None) -> float:
    """Return the prior for a value of `PRIOR`; 1 for a page that has none."""
    return 1.0 if weight is None else math.log2(2.0 + max(0.0, weight)) * MIN_PRIOR


def signed_key(text: str) -> int:
    """xxh3_64 as a signed number."""
    return xxh3_64_intdigest(text.encode("utf-8", "replace")) - _SIGNED


def link_key(target: str) -> int:
    """By what `link:` finds the pages that link to a normalised URL; of a host `//example.org`. (40
    bits: a term of the index each.)
    """
    return signed_key(target) >> _LINK_SHIFT


def stored(document: tantivy.Document) -> Stored:
    """The inverse, as far as a hit needs it."""
    about: list[Any] = json.loads(document.get_first(ABOUT) or b"[]")
    url, host, title, description, language, collections, fetched_at, published_at, kind = about
    return Stored(
        url, host, title, description, language, collections, fetched_at, published_at, kind
    )


def outside(text: str, main_text: str) -> str:
    """The lines of `text` that are not in `main_text`, whose lines are a subsequence of them."""
    if not main_text:
        return text
    if text == main_text:
        return ""
    place = _place_of_lines(f"\n{text}\n", f"\n{main_text}\n")
    if place >= 0:  # every second page: nothing within the main text was left out
        before, after = text[: max(0, place - 1)], text[place + len(main_text) + 1 :]
        return f"{before}\n{after}" if before and after else before or after
    wanted = iter(main_text.split("\n"))
    next_line = next(wanted, None)
    rest: list[str] = []
    for line in text.split("\n"):
        if line == next_line:
            next_line = next(wanted, None)
        else:
            rest.append(line)
    return "\n".join(rest)


def _place_of_lines(text: str, lines: str) -> int:
    """`str.find` for lines, of which the first one tells mostly where they may be: half the
    time.
    """
    first, place = lines[: lines.index("\n", 1) + 1], -1
    for _ in range(_FIRST_LINES):
        place = text.find(first, place + 1)
        if place < 0 or text.startswith(lines, place):
            return place
    return text.find(lines, place)


def host_suffixes(host: str) -> list[str]:
    """What `site:` may name: `a.example.org` -> itself, `example.org`, `org`. An IP address is only
    itself.
    """
    if host.startswith("[") or host.replace(".", "").isdigit():
        return [host]
    labels = host.split(".")
    return [".".join(labels[place:]) for place in range(len(labels))]


def folders(url: str) -> list[str]:
    """The folders that a URL lies in, and its own path: `http://h/a/b.html?q` -> `a`,
    `a/b.html`.
    """
    path = url.partition("://")[2].partition("/")[2].partition("?")[0].strip("/")
    if not path:
        return []
    parts = path.split("/")
    levels = ["/".join(parts[:count]) for count in range(1, min(len(parts), MOST_FOLDERS) + 1)]
    return levels if levels[-1] == path else [*levels, path]


def url_words(url: str) -> list[str]:
    """The words of a URL's host and path, unstemmed:
    `https://docs.example.org/3/library/asyncio-task.html` -> docs example …
    """
    text = url[:MAX_URL_WORDS_CHARACTERS]
    if "%" in text:
        text = unquote_to_bytes(text).decode("utf-8", "replace")
    return analyzer_for("").terms(_URL_NOISE.sub(" ", text))
