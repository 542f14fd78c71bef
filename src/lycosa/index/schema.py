"""The index's fields, and a page as a document of them.

Every *field set* (one for each native analyzer, one for all segmented languages) has five text fields; a page fills those
of its own language's set. What is only shown is stored apart, as bytes: `about` (JSON). The beginnings of its texts, as long as snippets
look at them, stand in files of their own (`index.texts`), where `text` finds them: the same text stands there once, however many pages
have it.

What a search counts or puts in order by is a column (tantivy's fast fields): host, text, prior, dates, language, type, collection.

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

from lycosa.index.texts import joined
from lycosa.text.analyze import SEGMENTED, Analysis, Analyzer, analyzer_for, native_analyzers

SCHEMA_VERSION = 4
"""Raise it when fields or their meaning change: an index of another version is built anew."""
SCHEMA = "schema"  # where a generation keeps it, among the versions of its analyzers

ID, HOST, PATH, LANGUAGE, COLLECTION, TYPE, URL_WORDS = "id", "host", "path", "language", "collection", "type", "url_words"
LINKS = "links"
HOST_NAME, HOST_KEY, GROUP, PRIOR, PUBLISHED, DATE = "host_name", "host_key", "group", "prior", "published", "date"
ABOUT, TEXT = "about", "text"
TITLE_ROLE, HEADINGS_ROLE, BODY_ROLE, FULL_ROLE, ANCHOR_ROLE = "title", "headings", "body", "full", "anchor"
ROLES = (TITLE_ROLE, HEADINGS_ROLE, BODY_ROLE, FULL_ROLE, ANCHOR_ROLE)
WHITESPACE = "whitespace"
DEFAULT_TYPE = "html"

MOST_HEADINGS = 200
MOST_URL_WORDS_CHARACTERS = 500
MOST_LINKS = 500  # targets of a page that `link:` finds it by
_LINK_SHIFT = 24  # bits of a hash that are left out: of a billion targets one in a thousand has the key of another one
MOST_FOLDERS = 8  # levels of a path that `site:` may name
_SIGNED = 2**63  # tantivy's columns of unsigned numbers are dangerous from Python
STORED_BODY, STORED_FULL = 24_000, 8_000
"""Characters of the main text, and of the text outside it, that are stored for snippets; all of both is indexed."""
_FIRST_LINES = 8  # places at which a main text may begin that are looked at one by one
_URL_NOISE = re.compile(r"^[a-z][a-z0-9+.-]*://|\.(?:html?|php|aspx?|jsp|cgi)(?=$|[?#])|[^\w]+|_+", re.IGNORECASE)


def text_field(role: str, field_set: str) -> str:
    """The name of the field that holds a role's terms for a field set: `title_en`, `body_words`."""
    return f"{role}_{field_set}"


def field_sets() -> list[str]:
    return [*(analyzer.field_set for analyzer in native_analyzers()), SEGMENTED]


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
    for analyzer in native_analyzers():
        for role in ROLES:
            builder.add_text_field(text_field(role, analyzer.field_set), tokenizer_name=analyzer.name)
    for role in ROLES:
        builder.add_text_field(text_field(role, SEGMENTED), tokenizer_name=WHITESPACE)
    builder.add_bytes_field(ABOUT, stored=True)
    return builder.build()


def register(index: tantivy.Index) -> tantivy.Index:
    """Give an index the native analyzers that its schema names. Returns the same index."""
    for analyzer in native_analyzers():
        index.register_tokenizer(analyzer.name, analyzer.tokenizer)
    return index


def analysis_versions(analysis: Analysis = Analysis()) -> dict[str, str]:
    """What the terms of an index depend on: analyzer -> version. An index made with others must be built anew.

    Raises:
        UsageError: an analyzer needs a package that is not installed.
    """
    samples = ("en", "de", "fr", "es", "pt", "it", "ru", "zh", "ko", "th", "ar", "")
    return {analyzer.name: analyzer.version for analyzer in map(analysis.of, samples)} | {SCHEMA: str(SCHEMA_VERSION)}


@dataclass(slots=True)
class IndexedPage:
    """A page as the index takes it. Times in ms; `collections` are all that hold it.

    `links` are `link_key`s of what it links to. `prior` is what its score is multiplied by, at least 1; `anchors` the texts of links to
    it, those of many hosts oftener; `group` is the same for pages that are copies of each other.
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


def url_id(url_key: int) -> str:
    """The document's id: the URL's key as 16 hexadecimal digits."""
    return f"{url_key:016x}"


def document(page: IndexedPage, analysis: Analysis = Analysis(), text_key: int = 0) -> tantivy.Document:
    """The document of a page whose stored texts have the key `text_key` (0: it has none). Hot path: what it costs is in bench/search.py."""
    analyzer = analysis.of(page.language)
    field_set = analyzer.field_set
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
    made.add_integer(DATE, page.published_at if page.published_at is not None else page.fetched_at)
    if page.published_at is not None:
        made.add_integer(PUBLISHED, page.published_at)
    made.add_float(PRIOR, weight_of(page.prior))
    if text_key:
        made.add_integer(TEXT, text_key - _SIGNED)
    headings = list(page.headings[:MOST_HEADINGS])
    for role, text in (
        (TITLE_ROLE, page.title),
        (HEADINGS_ROLE, "\n".join(headings)),
        (BODY_ROLE, page.body),
        (FULL_ROLE, f"{page.full}\n{page.description}" if page.description else page.full),
        (ANCHOR_ROLE, page.anchors),
    ):
        if text:
            made.add_text(text_field(role, field_set), analyzer.joined(text))
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
    made.add_bytes(ABOUT, json.dumps(about, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace"))
    return made


def stored_text(page: IndexedPage) -> bytes:
    """What of a page's texts is stored for snippets (`index.texts.joined`)."""
    return joined(page.body[:STORED_BODY], page.full[:STORED_FULL])


def text_of(value: int | None) -> int | None:
    """The key of a document's stored text, given the value of its column `TEXT`."""
    return None if value is None else value + _SIGNED


def weight_of(prior: float) -> float:
    """The value of `PRIOR`, for which tantivy multiplies a score by `prior` (by log2 of two more than the value)."""
    return math.exp2(max(1.0, prior)) - 2.0


def prior_of(weight: float | None) -> float:
    """The inverse of `weight_of`; 1 for what has none."""
    return math.log2(2.0 + max(0.0, weight or 0.0))


def signed_key(text: str) -> int:
    """xxh3_64 as a signed number."""
    return xxh3_64_intdigest(text.encode("utf-8", "replace")) - _SIGNED


def link_key(target: str) -> int:
    """By what `link:` finds the pages that link to a normalised URL; of a host `//example.org`. (40 bits: a term of the index each.)"""
    return signed_key(target) >> _LINK_SHIFT


def stored(document: tantivy.Document) -> Stored:
    """The inverse, as far as a hit needs it."""
    about: list[Any] = json.loads(document.get_first(ABOUT) or b"[]")
    url, host, title, description, language, collections, fetched_at, published_at, kind = about
    return Stored(url, host, title, description, language, collections, fetched_at, published_at, kind)


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
    """`str.find` for lines, of which the first one tells mostly where they may be: half the time."""
    first, place = lines[: lines.index("\n", 1) + 1], -1
    for _ in range(_FIRST_LINES):
        place = text.find(first, place + 1)
        if place < 0 or text.startswith(lines, place):
            return place
    return text.find(lines, place)


def host_suffixes(host: str) -> list[str]:
    """What `site:` may name: `a.example.org` -> itself, `example.org`, `org`. An IP address is only itself."""
    if host.startswith("[") or host.replace(".", "").isdigit():
        return [host]
    labels = host.split(".")
    return [".".join(labels[place:]) for place in range(len(labels))]


def folders(url: str) -> list[str]:
    """The folders that a URL lies in, and its own path: `http://h/a/b.html?q` -> `a`, `a/b.html`."""
    path = url.partition("://")[2].partition("/")[2].partition("?")[0].strip("/")
    if not path:
        return []
    parts = path.split("/")
    levels = ["/".join(parts[:count]) for count in range(1, min(len(parts), MOST_FOLDERS) + 1)]
    return levels if levels[-1] == path else [*levels, path]


def url_words(url: str) -> list[str]:
    """The words of a URL's host and path, unstemmed: `https://docs.example.org/3/library/asyncio-task.html` -> docs example …"""
    text = url[:MOST_URL_WORDS_CHARACTERS]
    if "%" in text:
        text = unquote_to_bytes(text).decode("utf-8", "replace")
    return analyzer_for("").terms(_URL_NOISE.sub(" ", text))


def analyzers_of(languages: Sequence[str]) -> list[Analyzer]:
    """The analyzers behind these languages, each once."""
    return list({id(analyzer): analyzer for analyzer in map(analyzer_for, languages)}.values())
