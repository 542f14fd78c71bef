"""Words that another language writes as one: `system requirements` is `Systemanforderungen`.

No table has them: a learner sees each of the two words beside the compound now and then, and beside
much else oftener. So the translations of two words that stand side by side are joined, with the
sounds that join them in that language, and what the index holds is looked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from lycosa.search.crosslingual.translated import TranslatedQuery, TranslatedTerm
from lycosa.translation.source import Translation, best

# What may stand between the parts (Duden, Fugenelement; Algemene Nederlandse Spraakkunst 12.3;
# Svenska Akademiens grammatik 2, §26).
_JOINTS = {
    "de": ("", "s", "es", "n", "en", "er", "e"),
    "nl": ("", "s", "en", "e"),
    "sv": ("", "s", "o", "e"),
    "da": ("", "s", "e"),
    "no": ("", "s", "e"),
}
_TRIED = 4  # translations of each word
_SHORTEST = 3  # letters of a part: shorter ones are joined to anything


def with_compounds(query: TranslatedQuery, holds: Callable[[str], bool]) -> TranslatedQuery:
    """The query with those pairs of words as one that the index holds so; each page may hold them
    apart as well. `holds`: a term.
    """
    joints = _JOINTS.get(query.language)
    if joints is None or len(query.terms) < 2:
        return query
    terms: list[TranslatedTerm] = []
    place = 0
    while place < len(query.terms):
        pair = query.terms[place : place + 2]
        found = best([list(_joined(*pair, joints, holds))]) if len(pair) == 2 else []
        if found:
            terms.append(
                TranslatedTerm(f"{pair[0].source} {pair[1].source}", tuple(found), words=pair)
            )
            place += 2
        else:
            terms.append(pair[0])
            place += 1
    return replace(query, terms=tuple(terms))


def _joined(
    one: TranslatedTerm,
    other: TranslatedTerm,
    joints: tuple[str, ...],
    holds: Callable[[str], bool],
) -> Iterator[Translation]:
    if one.words or other.words:
        return
    for first in one.alternatives[:_TRIED]:
        for second in other.alternatives[:_TRIED]:
            if min(len(first.key), len(second.key)) < _SHORTEST or not (
                first.key.isalpha() and second.key.isalpha()
            ):
                continue
            for prefix in dict.fromkeys((first.key, first.surface.lower())):
                for joint in joints:
                    key = f"{prefix}{joint}{second.key}"
                    if holds(key):
                        weight = min(first.weight, second.weight)
                        yield Translation(
                            key,
                            weight,
                            f"{first.surface}{joint}{second.surface.lower()}",
                            first.origin,
                        )
