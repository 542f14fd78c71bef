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
_AROUND = " ,;:\"'“”|•·–—»/-"
_TAIL = lazy_pattern(r"\s+(?:on|at|in)\Z", re.IGNORECASE)
_SEPARATORS = lazy_pattern(r"\s*[;|•·、]\s*|\s*,\s+(?:and\s+|&\s*)?|\s+(?:and|und|et|y|&)\s+")
_PLACEHOLDERS = """
    admin administrator author authors by anonymous editor guest null undefined none unknown user
    webmaster wordpress staff
    """
_NO_NAME = frozenset(_PLACEHOLDERS.split())
_ADDRESS = lazy_pattern(r"https?://|www\.|@[\w-]+\.\w|\.(?:com|org|net)/")


def author_names(values: Iterable[str], limit: int) -> list[str]:
    """Return the names in declared values, each once: without "By", addresses, placeholders.

    A value may list several names.
    """
    names: dict[str, str] = {}
    for value in values:
        text = _BY.sub("", declared_text(value, 4 * MAX_NAME)).strip(" ,;:")
        if not text or _ADDRESS.search(text):
            continue
        for part in _split(text):
            name = _TAIL.sub("", part.strip(_AROUND))
            if _is_name(name):
                names.setdefault(name.casefold(), name)
    return list(names.values())[:limit]


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
