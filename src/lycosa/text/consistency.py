"""Whether the language that a page declares, that of its URL and that of its title fit the language
of its text.
"""

from __future__ import annotations

import re

from lycosa.core.records import DECLARATION_DIFFERS, TITLE_DIFFERS_TOO
from lycosa.text.identify import LANGUAGES, best_guess, identify

_CLOSE = ({"id", "ms"}, {"no", "da"}, {"hr", "sr", "bs"}, {"fa", "tg"})
"""Languages that identification confuses in short texts."""
_FOREIGN_TO_ENGLISH = re.compile(r"[^\W\d_a-zA-Z]")


def language_share(language: str, declared: str, title: str, in_url: str = "") -> float:
    """Return the share of text, declaration and title that agree on the identified language of the
    text: 1, 0.75 or 0.5.

    Only a declaration that differs counts, since many pages declare nothing. The code in a URL is
    one too: a copy of a page below `/ru/` declares the language of the original. The title decides
    whether the page is a translation whose text was not translated, or a page with a wrong
    declaration.
    """
    others = [code for code in (declared, in_url) if _contradicts(language, code)]
    if not others:
        return 1.0
    if title and any(_title_differs(title, language, other) for other in others):
        return TITLE_DIFFERS_TOO
    return DECLARATION_DIFFERS


def _contradicts(language: str, declared: str) -> bool:
    return (
        bool(language and declared)
        and declared != language
        and not any({language, declared} <= close for close in _CLOSE)
    )


def _title_differs(title: str, language: str, declared: str) -> bool:
    """Without the n-gram model, which takes 100 MB: on the 1,730 English pages of a handbook in 24
    languages it found 38 more of the 620 translated titles, and took 75 English ones for
    translated; this takes 1.
    """
    titled = identify(title, LANGUAGES | {language, declared}, with_model=False).language
    if not titled and language == "en" and _FOREIGN_TO_ENGLISH.search(title):
        return True
    return titled not in ("", language) or best_guess(title) == declared
