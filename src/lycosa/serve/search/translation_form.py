"""The form in which a reader edits the translations of a search in several languages.

For each language and word it has a field `w.LANGUAGE.WORD` with the alternatives, separated by `|`,
and a hidden field `o.LANGUAGE.WORD` with their previous value. Edits become parameters
`translate=LANGUAGE:WORD=…` of the address, so that the edited search is a permalink.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lycosa.search.crosslingual.translated import TranslatedQuery, edit

FIELD, BEFORE = "w.", "o."
MAX_SHOWN = 6
"""Alternatives of a word that are shown, highest weight first. All are searched until edited."""
_MAX_EDITS = 300
_MAX_EDIT_LENGTH = 256


@dataclass(slots=True, frozen=True)
class Word:
    """A word of the query: the names of its two fields and its alternatives."""

    source: str
    field: str
    before: str
    alternatives: str


@dataclass(slots=True, frozen=True)
class TranslatedForm:
    """The translations of a query into one language."""

    language: str
    words: list[Word]


def translation_forms(queries: Iterable[TranslatedQuery], own: str) -> list[TranslatedForm]:
    """Return the translations that may be edited: not those into the `own` language."""
    forms = []
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
        forms.append(TranslatedForm(query.language, words))
    return forms


def edited_translations(fields: Mapping[str, str], before: Iterable[str]) -> tuple[str, ...] | None:
    """Return the edits `before` updated by the fields of the form; None without form fields."""
    changed: dict[str, str] = {}
    for text in before:
        parsed = edit(text)
        if parsed is not None:
            changed[f"{parsed[0]}.{parsed[1]}"] = text
    sent = False
    for name, value in fields.items():
        key = name.removeprefix(FIELD)
        language, dot, word = key.partition(".")
        if key == name or not dot:
            continue
        sent = True
        text = f"{language}:{word}={value}"[:_MAX_EDIT_LENGTH]
        if (
            value != fields.get(f"{BEFORE}{key}", "")
            and edit(text) is not None
            and len(changed) < _MAX_EDITS
        ):
            changed[f"{language.lower()}.{word.strip().lower()}"] = text
    return tuple(changed.values()) if sent else None
