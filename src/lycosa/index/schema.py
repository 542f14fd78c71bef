"""The fields of the index, and the document of a page.

Five text fields contain the terms of all languages, each with the code of its language as prefix
(`en:event`). The average length of a field therefore covers all pages, and the document frequency
of a term only its own language. Stored fields: `about` (JSON) for display, and the key of the
snippet texts (`index.snippets.texts`), which pages with the same text share.

Values for sorting and counting are fast fields: host, text, prior, dates, language, type,
collection.

Every search starts with this module: it imports polars neither directly nor indirectly.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any
from urllib.parse import unquote_to_bytes

import tantivy
from xxhash import xxh3_64_intdigest

from lycosa.core.dataclass import dataclass
from lycosa.core.records import TITLE_DIFFERS_TOO
from lycosa.hooks.plugins import installed_plugins
from lycosa.index.snippets.texts import joined
from lycosa.text.analyze import Analysis, analyzer_for

SCHEMA_VERSION = 6
"""Increase it when fields or their meaning change: indexes of another version are rebuilt."""
SCHEMA = "schema"  # its key among the analyzer versions of a generation

ID, HOST, PATH, LANGUAGE, COLLECTION, TYPE, URL_WORDS = (
    "id",
    "host",
    "path",
    "language",
    "collection",
    "type",
    "url_words",
)
KIND, AUTHOR = "kind", "author"
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

MAX_HEADINGS = 200
MAX_URL_WORDS_CHARACTERS = 500
MAX_LINKS = 500  # targets of a page that `link:` can find
# dropped bits of a hash: of a billion targets, one in a thousand shares the key of another
_LINK_SHIFT = 24
MAX_FOLDERS = 8  # levels of a path that `site:` accepts
_SIGNED = 2**63  # offset of unsigned keys in signed columns
INCONSISTENT, DECLARED_OTHERWISE = 0.7, 0.97
"""Factors for pages whose declared language and title, or only whose declared language, differ from
their text.
"""
URL_LENGTH_WEIGHT, _LONG_URL = 1e-6, 2_000
MIN_PRIOR = 0.65
"""The smallest prior: tantivy cannot multiply a score by less than 1, so `weight_of` divides by it.
"""
TITLE_COPIES = 2
"""Copies of the title in the body field, the only field for sentences (explanation/ranking.md)."""
CLOCK_TOLERANCE_MS = 86_400_000
"""Publication dates later than the fetch are wrong, except within this time zone tolerance."""
STORED_BODY, STORED_FULL = 24_000, 8_000
"""Characters of main text and other text that are stored for snippets; all of both is indexed."""
_URL_NOISE = re.compile(
    r"^[a-z][a-z0-9+.-]*://|\.(?:html?|php|aspx?|jsp|cgi)(?=$|[?#])|[^\w]+|_+", re.IGNORECASE
)


def text_field(role: str, language: str) -> str:
    """Return the name of the terms of a role in a language, such as `title_en`; see `located`."""
    return f"{role}_{language}"


def located(name: str, terms: Sequence[str] = ()) -> tuple[str, tuple[str, ...]]:
    """Return field and terms in the index for a name of `text_field`; other fields unchanged."""
    role, _, language = name.partition("_")
    if role not in ROLES:
        return name, tuple(terms)
    return role, tuple([f"{language}:{term}" for term in terms])


@functools.cache
def schema() -> tantivy.Schema:
    """Return the schema of generations of this version."""
    builder = tantivy.SchemaBuilder()
    # text, because tantivy-py silently ignores deletions by unsigned terms
    for name in (ID, HOST, PATH):
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic")
    for name in (LANGUAGE, COLLECTION, TYPE, HOST_NAME):
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic", fast=True)
    builder.add_text_field(KIND, tokenizer_name="raw", index_option="basic")
    builder.add_text_field(AUTHOR, tokenizer_name=WHITESPACE, index_option="basic")
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
    """Return analyzer -> version. An index of other versions must be rebuilt.

    Raises:
        UsageError: an analyzer needs a package that is not installed.
    """
    samples = ("en", "ko", "")  # tantivy's, Korean's and ICU's: the others have their versions
    return {analyzer.name: analyzer.version for analyzer in map(analysis.of, samples)} | {
        SCHEMA: str(SCHEMA_VERSION)
    }


@dataclass(slots=True)
class IndexedPage:
    """A page to index. Times in ms; `collections` are all that contain it.

    `links`: `link_key`s of its link targets. `prior`: factor of its score, at least 1. `anchors`:
    texts of links to it, repeated for several hosts. `group`: equal for copies of each other.
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
    kinds: Sequence[str] = ()  # `lycosa.page.metadata.entities.type_names`
    authors: Sequence[str] = ()  # the words of their names


@dataclass(slots=True, frozen=True)
class Stored:
    """Stored fields of a page, for display. Its texts are stored separately."""

    url: str
    host: str
    title: str
    description: str
    language: str
    collections: list[str]
    fetched_at: int
    published_at: int | None
    type: str = DEFAULT_TYPE


_STORED_FIELDS = attrgetter(*(each.name for each in fields(Stored)))


def trusted_date(published_at: int | None, fetched_at: int) -> int | None:
    """Return the publication date for ranking and sorting; None: none, or in the future.

    It is never later than the fetch.
    """
    if published_at is None or published_at > fetched_at + CLOCK_TOLERANCE_MS:
        return None
    return min(published_at, fetched_at)


def url_id(url_key: int) -> str:
    """Return the document id: the URL key as 16 hexadecimal digits."""
    return f"{url_key:016x}"


def page_id(url: str) -> str:
    """Return the document id of a normalised URL."""
    return url_id(signed_key(url) + _SIGNED)


def document(
    page: IndexedPage, analysis: Analysis = Analysis(), text_key: int = 0
) -> tantivy.Document:
    """Return the document of a page with stored texts `text_key` (0: none).

    Hot path: bench/search.py.
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
    for kind in page.kinds:
        made.add_text(KIND, kind)
    if page.authors:
        made.add_text(AUTHOR, " ".join(page.authors))
    made.add_text(HOST_NAME, page.host)
    for collection in page.collections:
        made.add_text(COLLECTION, collection)
    made.add_text(URL_WORDS, " ".join(url_words(page.url)))
    for target in page.links[:MAX_LINKS]:
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
    headings = list(page.headings[:MAX_HEADINGS])
    further = installed_plugins().call("index_text", url=page.url, title=page.title, text=page.body)
    if page.title:
        title = analyzer.marked(page.title)
        # separate values, so that no phrase matches across two of them
        for role in (TITLE_ROLE, *(BODY_ROLE,) * TITLE_COPIES):
            made.add_text(role, title)
    for role, text in (
        (HEADINGS_ROLE, "\n".join(headings)),
        (BODY_ROLE, page.body),
        (FULL_ROLE, "\n".join(filter(None, (page.full, page.description, *further)))),
        (ANCHOR_ROLE, page.anchors),
    ):
        if text:
            made.add_text(role, analyzer.marked(text))
    made.add_bytes(ABOUT, _about(page))
    return made


def _about(page: IndexedPage) -> bytes:
    """Return the fields of `Stored` as JSON."""
    return json.dumps(_STORED_FIELDS(page), ensure_ascii=False, separators=(",", ":")).encode(
        "utf-8", "replace"
    )


def stored_text(page: IndexedPage) -> bytes:
    """Return the texts of a page to store for snippets (`index.snippets.texts.joined`)."""
    return joined(page.body[:STORED_BODY], page.full[:STORED_FULL])


def text_of(value: int | None) -> int | None:
    """Return the key of the stored text for a value of the column `TEXT`."""
    return None if value is None else value + _SIGNED


def static_factor(url: str, language_share: float) -> float:
    """Return the factor of a page's score for its language and URL: below 1 if declaration and
    title contradict the text.

    Of pages that are otherwise equal, the one with the shorter URL ranks first.
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
    """Return xxh3_64 as a signed number."""
    return xxh3_64_intdigest(text.encode("utf-8", "replace")) - _SIGNED


def link_key(target: str) -> int:
    """Return the key by which `link:` finds links to a normalised URL or host (`//example.org`).

    It has 40 bits: each target is a term of the index.
    """
    return signed_key(target) >> _LINK_SHIFT


def stored(document: tantivy.Document) -> Stored:
    """Return the stored fields of a document."""
    about: list[Any] = json.loads(document.get_first(ABOUT) or b"[]")
    return Stored(*about)


def outside(text: str, main_text: str, main_lines: Sequence[int] = ()) -> str:
    """Return the lines of `text` without those of `main_text`, which are a subsequence.

    `main_lines`: their numbers as `Page.main_lines`, or none.
    """
    if main_lines:
        outer = text.split("\n")
        for place in range(len(main_lines) - 2, -1, -2):
            del outer[main_lines[place] : main_lines[place + 1]]
        return "\n".join(outer)
    if not main_text:
        return text
    if text == main_text:
        return ""
    place = f"\n{text}\n".find(f"\n{main_text}\n")
    if place >= 0:
        before, after = text[: max(0, place - 1)], text[place + len(main_text) + 1 :]
        return f"{before}\n{after}" if before and after else before or after
    inner = iter(main_text.split("\n"))
    next_line = next(inner, None)
    rest: list[str] = []
    for line in text.split("\n"):
        if line == next_line:
            next_line = next(inner, None)
        else:
            rest.append(line)
    return "\n".join(rest)


def host_suffixes(host: str) -> list[str]:
    """Return the `site:` values of a host: `a.example.org` -> itself, `example.org`, `org`.

    An IP address has only itself.
    """
    if host.startswith("[") or host.replace(".", "").isdigit():
        return [host]
    labels = host.split(".")
    return [".".join(labels[place:]) for place in range(len(labels))]


def folders(url: str) -> list[str]:
    """Return the folders and the path of a URL: `http://h/a/b.html?q` -> `a`, `a/b.html`."""
    path = url.partition("://")[2].partition("/")[2].partition("?")[0].strip("/")
    if not path:
        return []
    parts = path.split("/")
    levels = ["/".join(parts[:count]) for count in range(1, min(len(parts), MAX_FOLDERS) + 1)]
    return levels if levels[-1] == path else [*levels, path]


def url_words(url: str) -> list[str]:
    """Return the unstemmed words of host and path of a URL.

    `https://docs.example.org/3/library/asyncio-task.html` -> docs example …
    """
    text = url[:MAX_URL_WORDS_CHARACTERS]
    if "%" in text:
        text = unquote_to_bytes(text).decode("utf-8", "replace")
    return analyzer_for("").terms(_URL_NOISE.sub(" ", text))
