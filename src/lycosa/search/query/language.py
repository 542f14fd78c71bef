"""Identify the language of a query by its script and by dictionaries.

The words of a query occur in the dictionaries of several languages; `text.ngrams` decides ties.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from lycosa.search.query.query import ParsedQuery, clauses
from lycosa.text import ngrams
from lycosa.text.analyze import Analysis
from lycosa.translation.source import PIVOT, Sources
from lycosa.translation.terms import MAX_PHRASE, phrase_key, unit_keys

_SCRIPTS = tuple(
    (re.compile(f"[{ranges}]"), frozenset(languages.split()))
    for ranges, languages in (
        ("\u3041-\u30ff", "ja"),
        ("\u3400-\u9fff\U00020000-\U0003ffff", "zh ja"),
        ("\u1100-\u11ff\u3130-\u318f\uac00-\ud7af", "ko"),
        ("\u0e80-\u0eff", "lo"),
        ("\u1000-\u109f\uaa60-\uaa7f", "my"),
        ("\u0f00-\u0fff", "bo dz"),
        ("\u0e00-\u0e7f", "th"),
        ("\u1780-\u17ff", "km"),
        ("\u0900-\u097f", "hi ne mr sa"),
        ("\u0600-\u06ff\ufb50-\ufdff\ufe70-\ufeff", "ar fa ur ps ku sd ug"),
        ("\u0400-\u052f", "ru kk ky mn tg uk bg be sr mk"),
        ("\u0370-\u03ff\u1f00-\u1fff", "el"),
        ("\u0590-\u05ff", "he yi"),
        ("\u0530-\u058f", "hy"),
        ("\u10a0-\u10ff", "ka"),
        ("\u0980-\u09ff", "bn"),
        ("\u0b80-\u0bff", "ta"),
    )
)
_OTHER_SCRIPTS = frozenset().union(*(languages for _, languages in _SCRIPTS)) - {"sr", "ku"}


def query_language(
    parsed: ParsedQuery,
    languages: Iterable[str],
    sources: Sources,
    holding: Mapping[str, float] | None = None,
    analysis: Analysis = Analysis(),
) -> str:
    """Return the language of a query, an ISO 639 code.

    Of the languages of its script, it is the one whose tables have most of its words; of these, the
    one whose pages contain them most often.

    Args:
        languages: those of the index, most pages first.
        holding: number of pages of each language with the words, if available; stems count less.
    """
    listed = dict.fromkeys(language for language in languages if language)
    text = " ".join(clause.text for clause in clauses(parsed.required))
    written = next((spoken for pattern, spoken in _SCRIPTS if pattern.search(text)), None)
    if written is None:
        candidates = [
            PIVOT,
            *(
                language
                for language in listed
                if language not in _OTHER_SCRIPTS and language != PIVOT
            ),
        ]
    else:
        candidates = [language for language in listed if language in written] or sorted(written)
    if len(candidates) == 1:
        return candidates[0]
    named = ngrams.classify(text, {*candidates}).language
    order = {language: -place for place, language in enumerate(candidates)}
    others = (*listed, PIVOT)

    def rank(language: str) -> tuple[int, float, bool, int]:
        analyzer = analysis.of(language)
        units = [
            unit for clause in clauses(parsed.required) for unit in analyzer.units(clause.text)
        ]
        keys = [[*whole, *parts] for whole, parts in (unit_keys(analyzer, unit) for unit in units)]
        in_tables = {
            place
            for place, each in enumerate(keys)
            if any(sources.knows(key, language, others) for key in each)
        }
        for count in range(2, MAX_PHRASE + 1):
            for first in range(len(units) - count + 1):
                places = range(first, first + count)
                phrase = phrase_key(units[first : first + count])
                if not in_tables.issuperset(places) and sources.knows(phrase, language, others):
                    in_tables.update(places)
        return len(in_tables), (holding or {}).get(language, 0), language == named, order[language]

    return max(candidates, key=rank)
