"""The form in which a reader mends the translations of a search across languages.

For each language and word it has a field `w.LANGUAGE.WORD` with what is asked for, alternatives
with `|` between, and a hidden `o.LANGUAGE.WORD` with what stood there. What was changed becomes
`translate=LANGUAGE:WORD=…` in the page's own address, so that the mended search is a permalink.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lycosa.search.crosslingual.translated import TranslatedQuery, edit

FIELD, BEFORE = "w.", "o."
MAX_SHOWN = 6
"""Alternatives of a word that are shown, the heaviest first: all are asked for as long as nothing
is changed.
"""
_MAX_EDITS = 300
_LONGEST = 256


@dataclass(slots=True, frozen=True)
class Word:
    """A word of the query in another language: the names of its two fields and what stands in
    them.
    """

    source: str
    field: str
    before: str
    asked: str


@dataclass(slots=True, frozen=True)
class Asked:
    """The query as it was asked in one language."""

    language: str
    words: list[Word]


def asked_words(queries: Iterable[TranslatedQuery], own: str) -> list[Asked]:
    """The translations for the form; those of the query's `own` language are not to be mended."""
    found = []
    for query in queries:
        if query.language == own:
            continue
        words = [
            Word(
                term.source,
                f"{FIELD}{query.language}.{term.source}",
                f"{BEFORE}{query.language}.{term.source}",
                "|".join(each.surface for each in term.alternatives[:MAX_SHOWN]),
            )
            for term in query.terms
        ]
        found.append(Asked(query.language, words))
    return found


def mended(given: Mapping[str, str], before: Iterable[str]) -> tuple[str, ...] | None:
    """The edits that the form's fields `given` make of those `before`; None if the form was not
    sent.
    """
    changed: dict[str, str] = {}
    for text in before:
        known = edit(text)
        if known is not None:
            changed[f"{known[0]}.{known[1]}"] = text
    sent = False
    for name, value in given.items():
        key = name.removeprefix(FIELD)
        language, dot, word = key.partition(".")
        if key == name or not dot:
            continue
        sent = True
        text = f"{language}:{word}={value}"[:_LONGEST]
        if (
            value != given.get(f"{BEFORE}{key}", "")
            and edit(text) is not None
            and len(changed) < _MAX_EDITS
        ):
            changed[f"{language.lower()}.{word.strip().lower()}"] = text
    return tuple(changed.values()) if sent else None
