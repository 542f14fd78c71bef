"""Identify the language of a text by its stop words, or by letters of one alphabet.

Used for short texts and where pycld2 is unsure; cheap, and without result if nothing is clear. The
thresholds were calibrated on SIB-200.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Set

# minimum share of stop words without other evidence
CLEAR_SHARE = 0.2
# minimum share if pycld2 guesses the language too
AGREED_SHARE = 0.12
CLEAR_WORDS = 2
# minimum ratio to any other expected language
CLEAR_LEAD = 1.25
# Chinese or Japanese characters that outweigh Latin words that are no sentences
MANY_HAN = 40
MIN_LETTERS = 20  # of an alphabet before missing letters are evidence

# not in names of files and hosts
_LATIN_WORD = re.compile(r"(?<![\w./@-])[a-z\u00df-\u024f\u1e00-\u1eff]+(?![\w/@]|:/|-\w+/)")
_HAN_OR_KANA = re.compile("[\u3041-\u30ff\u3400-\u9fff]")
_CYRILLIC = re.compile("[\u0400-\u052f]")
_DEVANAGARI = re.compile("[\u0900-\u097f]+")


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
_HINDI = _words("है हैं के में की से का को और पर ने यह वह कि नहीं था थे थी लिए एक तो भी जो इस या हो कर")
_NEPALI = _words(
    "छ छन् र को पनि भएको भएका थियो थिए गरेको गरेका गर्न यो हुन्छ हुन् हो तथा भने अनि लागि गर्छ गरे वा कि एक धेरै"
)
_RUSSIAN = _words(
    "и в не на что с по как из для от за он она это его к о у был было при или они "
    "но то до так же если может"
)
_RUSSIAN_LETTERS = re.compile("[ыэё]")  # Bulgarian has none of them
# Letters of alphabets besides the Russian ones. No result if they fit several alphabets.
_CYRILLIC_LETTERS = {
    "kk": frozenset("әғқңөұүһі"),
    "ky": frozenset("ңөү"),
    "mn": frozenset("өү"),
    "tg": frozenset("ғӣқӯҳҷ"),
    "uk": frozenset("іїєґ"),
    "be": frozenset("іў"),
}
_MORE_CYRILLIC = frozenset("ђјљњћџѓќѕҗҙҡҫӑӗҥӧӱӹ").union(*_CYRILLIC_LETTERS.values())
_PASHTO = re.compile("[ټډړښږۍ]")
_NOT_PASHTO = re.compile("[ٹڈڑےٻڀٿڄڃڇڍڌڏڙڦڪڱۆۈۋڕڵ]")  # Urdu, Sindhi, Uyghur, Kurdish


def by_alphabet(text: str) -> str:
    """Return the language of a text in Devanagari, Cyrillic or Pashto letters, or ""."""
    words = _DEVANAGARI.findall(text)
    if 2 * len(words) > len(text.split()):
        hindi, nepali = (
            sum(map(vocabulary.__contains__, words)) for vocabulary in (_HINDI, _NEPALI)
        )
        if max(hindi, nepali) < max(CLEAR_WORDS, CLEAR_LEAD * min(hindi, nepali)):
            return ""
        return "hi" if hindi > nepali else "ne"
    lower = text.lower()
    letters = _CYRILLIC.findall(lower)
    if len(letters) >= MIN_LETTERS:
        special_letters = _MORE_CYRILLIC.intersection(letters)
        if not special_letters:
            return (
                ""
                if _RUSSIAN_LETTERS.search(lower) is None or _RUSSIAN.isdisjoint(lower.split())
                else "ru"
            )
        fitting = [
            language for language, more in _CYRILLIC_LETTERS.items() if special_letters <= more
        ]
        return fitting[0] if len(fitting) == 1 else ""
    return (
        "ps"
        if len(_PASHTO.findall(text)) >= CLEAR_WORDS and _NOT_PASHTO.search(text) is None
        else ""
    )


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


def has_words(text: str) -> bool:
    """Return whether a text has Latin words other than names of files and hosts."""
    return _LATIN_WORD.search(text.lower()) is not None


def by_words(text: str, guessed: str, sure: bool, expected: Set[str]) -> str:
    """Return the language of a text in Latin letters by its stop words, or "".

    The language `guessed` by pycld2 is confirmed if it is `sure` and no other language has more
    stop words. Else an expected or the guessed language must be well ahead of the others.
    """
    words = _LATIN_WORD.findall(text.lower())
    total = len(words)
    counts = {
        language: sum(map(vocabulary.__contains__, words))
        for language, vocabulary in _STOP_WORDS.items()
    }
    if sure:
        others = max(count for language, count in counts.items() if language != guessed)
        if guessed in counts:
            confirmed = counts[guessed] > others or counts[guessed] == others <= max(
                1, AGREED_SHARE * total
            )
        else:
            confirmed = others < AGREED_SHARE * total
        if confirmed:
            return guessed
    elif (
        guessed in ("ja", "zh")
        and max(counts.values()) < AGREED_SHARE * total
        and len(_HAN_OR_KANA.findall(text)) >= MANY_HAN
    ):
        return guessed
    ahead = max(
        counts, key=lambda language: (counts[language], language == guessed, language in expected)
    )
    least = max(CLEAR_WORDS, (AGREED_SHARE if ahead == guessed else CLEAR_SHARE) * total)
    if counts[ahead] < least or not (ahead in expected or ahead == guessed):
        return ""
    second = max(
        (count for language, count in counts.items() if language in expected and language != ahead),
        default=0,
    )
    return ahead if counts[ahead] >= CLEAR_LEAD * second else ""


def stop_words(language: str) -> frozenset[str]:
    """Return the stop words of a language in Latin letters, in lower case."""
    return _STOP_WORDS.get(language, frozenset())
