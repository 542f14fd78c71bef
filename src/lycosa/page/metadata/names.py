"""Names of authors in declared values and visible bylines."""

from __future__ import annotations

import re
from collections.abc import Iterable

from lycosa.core.patterns import lazy_pattern
from lycosa.page.metadata.bounds import declared_text

MAX_NAME, MAX_WORDS = 100, 8

_BY = lazy_pattern(
    r"\A(?:(?:written |posted |submitted )?by\s*[:：]?\s+(?=\S)"
    r"|(?:بقلم|מאת|โดย)\s*:?\s+"
    r"|(?:by|authors?|written by|text|von|par|por|di|autor(?:a|en|es|in)?|aut(?:eur|ore)|penulis"
    r"|oleh|yazan|tác giả|автор|муаллиф|зохиогч|συντάκτης|作者|文|记者|記者|글|الكاتب|نویسنده|تحریر"
    r"|لیکوال|लेखक|ผู้เขียน)\s*[:：]\s*)",
    re.IGNORECASE,
)
_BEFORE = {
    "ca": r"per\s+",
    "da": r"af\s+",
    "de": r"von\s+",
    "es": r"por\s+",
    "fr": r"par\s+",
    "id": r"oleh\s+",
    "it": r"(?:a cura )?di\s+",
    "ms": r"oleh\s+",
    "nl": r"door\s+",
    "no": r"av\s+",
    "pt": r"por\s+",
    "ro": r"de\s+",
    "sv": r"av\s+",
    "tl": r"ni(?:na)?\s+",
    "zh": r"(?:本[报報]|新华社|新華社)?[记記]者\s*|文\s*[/／]\s*",
}
_BY_IN = {
    code: lazy_pattern(rf"\A(?:{words})(?=\S)", re.IGNORECASE) for code, words in _BEFORE.items()
}
"""Words before the name, by language: in others, Von and Di are names."""
_TITLE_IN = {
    "ja": lazy_pattern(r"(?<=\S)\s*記者\Z"),
    "ko": lazy_pattern(r"(?<=\S)\s*(?:선임|인턴)?기자\Z"),
    "zh": lazy_pattern(r"(?<=\S)\s*[/／][^/／]{1,8}[报報][道導导]\Z"),
}
_CONNECTIVE_WORDS = """
    und et y e i og och en da de del di do dos van von der den
    """
_CONNECTIVES = frozenset(_CONNECTIVE_WORDS.split())
_AROUND = " ,;:\"'“”|•·–—»/-"
_TAIL = lazy_pattern(r"\s+(?:on|at|in)\Z", re.IGNORECASE)
_SEPARATORS = lazy_pattern(r"\s*[;|•·、]\s*|\s*,\s+(?:and\s+|&\s*)?|\s+(?:and|und|et|y|&)\s+")
_PLACEHOLDERS = """
    admin administrator author authors by anonymous editor guest null undefined none unknown user
    webmaster wordpress staff
    """
_NO_NAME = frozenset(_PLACEHOLDERS.split())
_ADDRESS = lazy_pattern(r"https?://|www\.|@[\w-]+\.\w|\.(?:com|org|net)/")


def author_names(values: Iterable[str], limit: int, language: str = "") -> list[str]:
    """Return the names in declared values, each once: without "By", addresses, placeholders.

    A value may list several names. `language`: code of the language of the page; "" if unknown.
    """
    names: dict[str, str] = {}
    for value in values:
        text = _BY.sub("", declared_text(value, 4 * MAX_NAME)).strip(" ,;:")
        text = _without_words(text, language)
        if not text or _ADDRESS.search(text):
            continue
        for part in _split(text):
            name = _TAIL.sub("", part.strip(_AROUND))
            if _is_name(name):
                names.setdefault(name.casefold(), name)
    return list(names.values())[:limit]


def name_after_by(line: str, language: str) -> str:
    """Return the name of a byline such as "Von Anna Müller"; "" for any other line."""
    name = _without_words(line, language)
    words = [word for word in name.split() if word.lower() not in _CONNECTIVES]
    is_name = (
        name != line and 1 < len(words) <= MAX_WORDS and all(word[0].isupper() for word in words)
    )
    return name if is_name else ""


def _without_words(text: str, language: str) -> str:
    """Remove the words that the language puts before and after the names of authors."""
    if language in _BY_IN:
        match = _BY_IN[language].match(text)
        if match is not None and not text[match.end()].islower():
            text = text[match.end() :]
    return _TITLE_IN[language].sub("", text) if language in _TITLE_IN else text


def _split(text: str) -> list[str]:
    """Split a list of names; a comma alone may also precede a title ("Jane Doe, PhD")."""
    parts = [part for part in _SEPARATORS.split(text) if part]
    if len(parts) > 1 and all(" " in part or not part.isascii() for part in parts):
        return parts
    if len(parts) > 1 and " " in parts[0]:
        return parts[:1] if "," in text else [text]
    return [text]


def _is_name(name: str) -> bool:
    return (
        0 < len(name) <= MAX_NAME
        and len(name.split()) <= MAX_WORDS
        and name.lower() not in _NO_NAME
        and any(map(str.isalpha, name))
    )
