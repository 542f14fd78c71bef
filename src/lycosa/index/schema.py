"""The index's fields, and a page as a document of them.

Every *field set* (one for each native analyzer, one for all segmented languages) has four text fields; a page fills those
of its own language's set. What is only shown is stored apart, as bytes: `about` (JSON), `body` and `full`. So each text is
indexed once and stored once, as it was written (lz4, tantivy's blocks of 16 KB).

This module is what a search needs to start: it imports neither polars nor anything that does.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote_to_bytes

import tantivy

from lycosa.text.analyze import SEGMENTED, Analyzer, analyzer_for, native_analyzers

SCHEMA_VERSION = 1
"""Raise it when fields or their meaning change: an index of another version is built anew."""

ID, HOST, LANGUAGE, COLLECTION, URL_WORDS = "id", "host", "language", "collection", "url_words"
FETCHED_AT, DATE = "fetched_at", "date"
ABOUT, BODY, FULL = "about", "body", "full"
TITLE_ROLE, HEADINGS_ROLE, BODY_ROLE, FULL_ROLE = "title", "headings", "body", "full"
ROLES = (TITLE_ROLE, HEADINGS_ROLE, BODY_ROLE, FULL_ROLE)
WHITESPACE = "whitespace"

MOST_HEADINGS = 200
MOST_URL_WORDS_CHARACTERS = 500
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
    builder.add_text_field(ID, tokenizer_name="raw", index_option="basic")
    builder.add_text_field(HOST, tokenizer_name="raw", index_option="basic")
    builder.add_text_field(LANGUAGE, tokenizer_name="raw", index_option="basic")
    builder.add_text_field(COLLECTION, tokenizer_name="raw", index_option="basic")
    builder.add_text_field(URL_WORDS, tokenizer_name=WHITESPACE)
    builder.add_integer_field(FETCHED_AT, fast=True)
    builder.add_integer_field(DATE, fast=True)
    for analyzer in native_analyzers():
        for role in ROLES:
            builder.add_text_field(text_field(role, analyzer.field_set), tokenizer_name=analyzer.name)
    for role in ROLES:
        builder.add_text_field(text_field(role, SEGMENTED), tokenizer_name=WHITESPACE)
    for name in (ABOUT, BODY, FULL):
        builder.add_bytes_field(name, stored=True)
    return builder.build()


def register(index: tantivy.Index) -> tantivy.Index:
    """Give an index the native analyzers that its schema names. Returns the same index."""
    for analyzer in native_analyzers():
        index.register_tokenizer(analyzer.name, analyzer.tokenizer)
    return index


def analysis_versions() -> dict[str, str]:
    """What the terms of an index depend on: analyzer -> version. An index made with others must be built anew."""
    samples = ("en", "de", "fr", "es", "pt", "it", "ru", "zh", "ko", "th", "ar", "")
    return {analyzer.name: analyzer.version for analyzer in map(analyzer_for, samples)} | {"schema": str(SCHEMA_VERSION)}


@dataclass(slots=True)
class IndexedPage:
    """A page as the index takes it. Times in ms; `collections` are all that hold it."""

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


@dataclass(slots=True, frozen=True)
class Stored:
    """What a hit shows of a page, read back from the index. `body` and `full` are read when asked for."""

    url: str
    host: str
    title: str
    description: str
    language: str
    collections: list[str]
    fetched_at: int
    published_at: int | None
    headings: list[str] = field(default_factory=list)


def url_id(url_key: int) -> str:
    """The document's id: the URL's key as 16 hexadecimal digits."""
    return f"{url_key:016x}"


def document(page: IndexedPage) -> tantivy.Document:
    """The document of a page. Hot path: what it costs is in bench/search.py."""
    analyzer = analyzer_for(page.language)
    field_set = analyzer.field_set
    made = tantivy.Document()
    made.add_text(ID, url_id(page.url_key))
    for host in host_suffixes(page.host):
        made.add_text(HOST, host)
    made.add_text(LANGUAGE, page.language)
    for collection in page.collections:
        made.add_text(COLLECTION, collection)
    made.add_text(URL_WORDS, " ".join(url_words(page.url)))
    made.add_integer(FETCHED_AT, page.fetched_at)
    made.add_integer(DATE, page.published_at if page.published_at is not None else page.fetched_at)
    headings = list(page.headings[:MOST_HEADINGS])
    for role, text in (
        (TITLE_ROLE, page.title),
        (HEADINGS_ROLE, "\n".join(headings)),
        (BODY_ROLE, page.body),
        (FULL_ROLE, f"{page.full}\n{page.description}" if page.description else page.full),
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
        headings,
    )
    made.add_bytes(ABOUT, json.dumps(about, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace"))
    made.add_bytes(BODY, page.body.encode("utf-8", "replace"))
    made.add_bytes(FULL, page.full.encode("utf-8", "replace"))
    return made


def stored(document: tantivy.Document) -> Stored:
    """The inverse, as far as a hit needs it."""
    about: list[Any] = json.loads(document.get_first(ABOUT) or b"[]")
    url, host, title, description, language, collections, fetched_at, published_at, headings = about
    return Stored(url, host, title, description, language, collections, fetched_at, published_at, headings)


def stored_text(document: tantivy.Document, name: str) -> str:
    """`BODY` or `FULL` of a document, as it was written."""
    return bytes(document.get_first(name) or b"").decode("utf-8")


def stored_page(document: tantivy.Document, url_key: int, collections: Sequence[str]) -> IndexedPage:
    """A document as the page it was made of, but in other collections: to index it again without its tables."""
    shown = stored(document)
    return IndexedPage(
        url=shown.url,
        host=shown.host,
        url_key=url_key,
        collections=collections,
        title=shown.title,
        description=shown.description,
        headings=shown.headings,
        body=stored_text(document, BODY),
        full=stored_text(document, FULL),
        language=shown.language,
        fetched_at=shown.fetched_at,
        published_at=shown.published_at,
    )


def outside(text: str, main_text: str) -> str:
    """The lines of `text` that are not in `main_text`, whose lines are a subsequence of them."""
    if not main_text:
        return text
    if text == main_text:
        return ""
    place = f"\n{text}\n".find(f"\n{main_text}\n")
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


def host_suffixes(host: str) -> list[str]:
    """What `site:` may name: `a.example.org` -> itself, `example.org`, `org`. An IP address is only itself."""
    if host.startswith("[") or host.replace(".", "").isdigit():
        return [host]
    labels = host.split(".")
    return [".".join(labels[place:]) for place in range(len(labels))]


def url_words(url: str) -> list[str]:
    """The words of a URL's host and path, unstemmed: `https://docs.example.org/3/library/asyncio-task.html` -> docs example …"""
    text = url[:MOST_URL_WORDS_CHARACTERS]
    if "%" in text:
        text = unquote_to_bytes(text).decode("utf-8", "replace")
    return analyzer_for("").terms(_URL_NOISE.sub(" ", text))


def analyzers_of(languages: Sequence[str]) -> list[Analyzer]:
    """The analyzers behind these languages, each once."""
    return list({id(analyzer): analyzer for analyzer in map(analyzer_for, languages)}.values())
