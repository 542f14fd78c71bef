"""How long an index's fields are on average: tantivy knows, and tells it only when it explains a score."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import tantivy
from tantivy import Query

from lycosa.index.schema import (
    ANCHOR_ROLE,
    BODY_ROLE,
    FULL_ROLE,
    HEADINGS_ROLE,
    LANGUAGE,
    ROLES,
    TITLE_ROLE,
    URL_WORDS,
    stored,
    text_field,
    url_words,
)
from lycosa.text.analyze import Analysis

_NOT_STORED = (HEADINGS_ROLE, ANCHOR_ROLE)  # their texts are in the index alone
_LOOKED_AT = 40  # documents of a language that are looked through for one that has all fields
_BEGINNING = 400  # characters of a text in which a term of it is looked for
_TERMS = 5


@dataclass(slots=True, frozen=True)
class Lengths:
    """Of the fields of one field set, and of the URL's words. What has no document is missing."""

    counted: int  # documents that tantivy counts: those that were replaced too, until their segment is merged
    tokens: Mapping[str, float]  # field -> tokens in all documents
    having: Mapping[str, int]  # field -> documents of the set's languages


def measure(
    schema: tantivy.Schema,
    searcher: tantivy.Searcher,
    field_set: str,
    texts: Callable[[tantivy.DocAddress], tuple[str, str]],
    languages: Mapping[str, int],
    analysis: Analysis = Analysis(),
) -> Lengths:
    """Find for each field a document that has it, and ask what the average length is that its score depends on. `texts` gives the stored
    texts of a document."""
    counted = 0
    tokens: dict[str, float] = {}
    inside = [language for language in languages if analysis.of(language).field_set == field_set]
    names = {text_field(role, field_set) for role in ROLES if role not in _NOT_STORED} | {URL_WORDS}
    for role in _NOT_STORED:
        name = text_field(role, field_set)
        if told := _of_any_document(schema, searcher, name):
            tokens[name] = told.average * told.counted
    for language in [*inside, *(language for language in languages if language not in inside)]:
        if language not in inside:
            names = {URL_WORDS}  # a page in any language has them
        if names <= tokens.keys():
            continue
        everything = Query.const_score_query(Query.term_query(schema, LANGUAGE, language, "basic"), 0.0)
        for _, address in searcher.search(everything, _LOOKED_AT, count=False).hits:
            if names <= tokens.keys():
                break
            for name, term in _terms(searcher.doc(address), texts(address), field_set, names - tokens.keys(), analysis):
                told = explained(Query.term_query(schema, name, term, "freq"), searcher, address)
                if name not in tokens and told is not None:
                    counted = told.counted
                    tokens[name] = told.average * told.counted
    documents = sum(languages[language] for language in inside)
    having = dict.fromkeys(tokens, documents)
    if URL_WORDS in having:
        having[URL_WORDS] = sum(languages.values())
    return Lengths(counted, tokens, having)


@dataclass(slots=True, frozen=True)
class Explained:
    """What tantivy says of one term or phrase in one document. `counted` is 0 for a phrase."""

    frequency: float
    length: float
    average: float
    counted: int = 0


def explained(query: tantivy.Query, searcher: tantivy.Searcher, address: tantivy.DocAddress) -> Explained | None:
    """The parts of a leaf's score; None: the document does not hold it."""
    try:
        explanation = json.loads(query.explain(searcher, address).to_json())
    except ValueError:  # tantivy's answer for a document that does not match
        return None
    values: dict[str, float] = {}
    _gather(explanation, values)
    return Explained(values["freq"], values["dl"], values["avgdl"], int(values.get("N", 0)))


def matches(query: tantivy.Query, searcher: tantivy.Searcher, address: tantivy.DocAddress) -> bool:
    """Whether a document matches."""
    try:
        query.explain(searcher, address)
    except ValueError:
        return False
    return True


def _of_any_document(schema: tantivy.Schema, searcher: tantivy.Searcher, name: str) -> Explained | None:
    """What tantivy says of a field whose text is not stored: of its most frequent term, in a document that holds it."""
    for term, _ in searcher.terms_with_prefix(name, "", limit=1):
        query = Query.term_query(schema, name, term, "freq")
        for _, address in searcher.search(query, 1, count=False).hits:
            return explained(query, searcher, address)
    return None


def _gather(node: Mapping[str, Any], values: dict[str, float]) -> None:
    """The values of an explanation by the symbol that its description begins with: `dl, length of field`."""
    symbol, comma, _ = node["description"].partition(",")
    if comma:
        values[symbol] = node["value"]
    for child in node.get("details", ()):
        _gather(child, values)


def _terms(
    document: tantivy.Document, texts_of_it: tuple[str, str], field_set: str, names: set[str], analysis: Analysis
) -> Iterator[tuple[str, str]]:
    """Terms that stand in these fields of a document."""
    page = stored(document)
    analyzers = analysis.all_of(page.language)
    body, full = texts_of_it
    texts = {
        TITLE_ROLE: page.title,
        BODY_ROLE: body,
        FULL_ROLE: full or page.description,
    }
    for role, text in texts.items():
        name = text_field(role, field_set)
        if name in names:
            beginning = text[:_BEGINNING]
            whole = beginning if len(text) <= _BEGINNING else beginning.rpartition(" ")[0] or beginning
            yield from ((name, term) for analyzer in analyzers for term in analyzer.terms(whole)[:_TERMS])
    if URL_WORDS in names:
        yield from ((URL_WORDS, term) for term in url_words(page.url)[:_TERMS])
