"""Stop words of the languages in Latin letters: of a query, and as a sign of a text's language.

They are a quarter to a half of the words of running text. Where one language leads clearly in every
part of a text, no model is needed, and a page costs a tenth of the time. Related languages share
stop words, so that they rarely lead (Portuguese and Galician) and the caller uses a model.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from itertools import repeat
from typing import NamedTuple

CLEAR_WORDS = 2  # function words of a short query that are not its subject
MIN_WORDS = 2  # stop words of the language in each part of a text
MIN_RATIO = 1.4  # of its stop words to those of the second language, in the whole text
BITS = 8  # of a count in a part


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_STOP_WORDS = {
    language: _words(words)
    for language, words in {
        "en": "the of and to is are was were be been this that these those with your you it its "
        "for from by on as or not an "
        "have has had which can will would they their he his she her we our if when where how "
        "what there more than "
        "other all also into only in at but who may no a any one do about after over so such then "
        "now like up out",
        "de": "der die das und ist nicht ein eine einen einem einer eines zu zum zur mit von vom "
        "auf für den dem des im sich "
        "auch es sie er wird werden wurde wurden sind war als an aus bei nach über oder aber kann "
        "können wie man durch "
        "dass wenn nur noch haben hat",
        "fr": "le la les l des du de d et est un une dans en pour que qui il elle ne pas par sur "
        "avec au aux ce cette ces "
        "sont été plus son sa ses se ou mais comme à qu où leur leurs nous vous ils être fait ont "
        "a était",
        "es": "el la los las de del y es un una en por para que no se con al lo su sus como más o "
        "fue son ha este esta pero "
        "entre también cuando muy sin sobre ser hay fueron desde hasta donde han era si está "
        "están puede",
        "pt": "o a os as de do da dos das e é um uma em no na nos nas por para que não se com ao "
        "à seu sua seus suas como "
        "mais ou foi são mas pelo pela pelos também quando muito ser há foram até eles isso está "
        "estão pode você",
        "it": "il lo la i gli le di del della dei delle dello degli e è un una uno in per che non "
        "si con al alla ai dal dalla "
        "nel nella sul sulla come più o fu sono ha anche ma suo sua da quando essere stato stati "
        "hanno questo questa "
        "tra era loro ad ed",
        "nl": "de het een en van is niet in op te dat die voor met zijn aan er wordt worden werd "
        "deze dit ook als bij uit "
        "naar door om of maar hun hij zij kan kunnen u uw nog dan wat tot alle",
        "da": "og i at er det en et den til af for på med som de ikke der har kan fra var om vil "
        "ved eller men du dit denne dette efter",
        "sv": "och i att är det en ett den till av för på med som de inte har kan från var om vid "
        "eller men du detta denna hur ska också",
        "ca": "el la els les de del dels i és un una en per que no es amb al als com més o va són "
        "ha aquest aquesta però seu "
        "seva quan si pot",
        "gl": "o a os as de do da dos das e é un unha en no na nos nas por para que non se co coa "
        "ao seu súa como máis ou foi "
        "son pero cando",
        "ro": "și în de la cu pe un o nu că este sunt din care al ale ai a pentru mai sau dar "
        "prin se fost acest această cum când lui fi",
        "cs": "a v na se je že s z do o pro jako k jsou to nebo by byl ale po od které který "
        "která při tak aby své i ve byla",
        "tr": "ve bir bu için ile de da olarak olan daha çok gibi en kadar sonra ne değil ancak "
        "olduğu ya veya her",
        "id": "yang dan di dengan untuk dari ini itu pada adalah tidak dalam ke akan oleh juga "
        "telah atau sebagai mereka ada "
        "lebih tersebut saat orang dapat satu seperti karena bisa kerana boleh ia banyak",
        "vi": "và của là các được có trong cho một những với không này đã người từ khi để đến về "
        "cũng như ở trên vào ra hơn nhiều nó",
        "tl": "ang ng sa mga na ay at si ito ni kay nang hindi para mula isang siya sila kung may "
        "niya nila ito'y dahil kanyang ayon",
    }.items()
}
_LANGUAGES = tuple(_STOP_WORDS)

_ASKING = _words(
    "i me my does did doing should could am us them those why whose whom shall might must get got"
)  # further function words of English questions


def query_function_words(words: Collection[str]) -> frozenset[str]:
    """Return the function words of a query (in lower case), of the best matching language.

    None if there is only one in a short query (`die hard`), or nothing else (`to be or not to be`).
    """
    distinct = frozenset(words)
    matches = max(
        (
            distinct & vocabulary | (distinct & _ASKING if language == "en" else frozenset())
            for language, vocabulary in _STOP_WORDS.items()
        ),
        key=len,
    )
    return (
        matches
        if len(matches) < len(distinct)
        and (len(matches) >= CLEAR_WORDS or len(words) > 2 * CLEAR_WORDS)
        else frozenset()
    )


def stop_words(language: str) -> frozenset[str]:
    """Return the stop words of a language in Latin letters, in lower case."""
    return _STOP_WORDS.get(language, frozenset())


class Vote(NamedTuple):
    """`share`: of the stop words of the first two languages, 0 to 1."""

    language: str
    share: float


@functools.cache
def _counters() -> dict[str, int]:
    """Return stop word -> a 1 in the byte of each language that has it."""
    counters: dict[str, int] = {}
    for place, language in enumerate(_LANGUAGES):
        for word in _STOP_WORDS[language]:
            counters[word] = counters.get(word, 0) + (1 << BITS * place)
    return counters


def _is_latin(letter: str) -> bool:
    return letter < "\u0370" or "\u1e00" <= letter < "\u1f00"


def vote(parts: Sequence[str]) -> Vote | None:
    """Return the language that leads in every part, or None.

    Args:
        parts: of a text, each at most 500 characters long.
    """
    find, totals = _counters().get, [0] * len(_LANGUAGES)
    leaders = set()
    for part in parts:
        if not part.isascii() and not all(map(_is_latin, filter(str.isalpha, set(part)))):
            return None
        counts = sum(map(find, part.lower().split(), repeat(0))).to_bytes(len(_LANGUAGES), "little")
        most = max(counts)
        leaders.add(counts.index(most))
        if most < MIN_WORDS or counts.count(most) > 1 or len(leaders) > 1:
            return None
        totals = [total + count for total, count in zip(totals, counts, strict=True)]
    second, first = sorted(totals)[-2:]
    if first < MIN_RATIO * second:
        return None
    return Vote(_LANGUAGES[leaders.pop()], first / (first + second))
