"""Which legacy encoding a text is in, when nobody says so or the label is wrong: decode and see whether the result reads like a language.

Each candidate decodes the sample; its score is the share of the decoded non-ASCII characters that are everyday characters of
the languages written in it, less what did not decode. (Li and Momoi, "A composite approach to language/encoding detection",
19th International Unicode Conference, 2001, use the same character distributions.)
"""

from __future__ import annotations

import re
from typing import NamedTuple

from lycosa.page.labels import codec_of

SAMPLE_LENGTH = 40_000  # bytes of text judged
FALLBACK = "windows-1252"
_MARKUP = re.compile(rb"<[^<>]*>")
_REPLACED_COST = 5.0  # a character that does not decode outweighs five that fit
_RUN = re.compile(rb"[\x80-\xff]+")
_FOREIGN_RUN = 1.8  # bytes: accented letters stand alone among ASCII ones, letters of other scripts stand together
_TIE = 0.001
_SURE = 0.25  # everyday characters from which an encoding of an Asian language is believed

_HAN_SHARED = (
    "的一是不了人我在有他中大上到和你地出道也年得就那要下以生自去之家可她里小心多天而能好都日于起成事只作想看文手十用主行方又如前所本面公同"
    "三已老知民分外但身些高意法此回二理美月明其全工己者向情部正名定女力等最新什打便位因重被走四第相次政海口使教西再平真世信北少加化由代入先山五太水"
)
_HAN_SIMPLE = (
    "国来个这们为时说会后过对学发着里么没样经现进实机给几业间电门东两长头开关无产军边义车应员报务战书师区议权华场队带认计华设达济众"
)
_HAN_TRADITIONAL = (
    "國來個這們為時說會後過對學發著裡麼沒樣經現進實機給幾業間電門東兩長頭開關無產軍邊義車應員報務戰書師區議權華場隊帶認計設達濟眾於與"
)
_HANGUL = (
    "이다는을의에가고하은지를한도로기사어나리자아그인서시라대정해부일수있들과으게여주보전니면만모적장구신제국스원성상조유경무동것등위비"
)
_KANA = "".join(map(chr, [*range(0x3041, 0x3094), *range(0x30A1, 0x30F7), 0x30FC, 0x3001, 0x3002]))
_CYRILLIC = "оеаинтсрвлкмдпуяыьгзбчйхжшюцщэфёіїєґ"
_GREEK = "αοιετσνηυρπκμλωάίέόήςδγχθφύβώξζψ"
_HEBREW = "אבגדהוזחטיךכלםמןנסעףפץצקרשת"
_ARABIC = "اليمونترةبعدفهسكقأحجشطصخغذزئءىثضظإآؤپچگکیژ،"
_THAI = "".join(map(chr, [*range(0x0E01, 0x0E3B), *range(0x0E40, 0x0E4E)]))
_QUOTES = "“”‘’–—…«»„€©®·•\xa0"


class _Candidate(NamedTuple):
    encoding: str
    everyday: frozenset[str]
    unlikely: frozenset[str] = frozenset()  # what a confusable encoding makes of other letters


_ASIAN = (
    _Candidate("shift_jis", frozenset(_KANA), frozenset(map(chr, range(0xFF61, 0xFFA0)))),
    _Candidate("euc-jp", frozenset(_KANA)),
    _Candidate("gbk", frozenset(_HAN_SHARED + _HAN_SIMPLE + ",。、“”")),
    _Candidate("big5", frozenset(_HAN_SHARED + _HAN_TRADITIONAL + ",。、「」")),
    _Candidate("euc-kr", frozenset(_HANGUL)),
)
_LETTER_BYTES = (
    _Candidate("windows-1251", frozenset(_CYRILLIC + _QUOTES)),
    _Candidate("koi8-r", frozenset(_CYRILLIC)),
    _Candidate("ibm866", frozenset(_CYRILLIC)),
    _Candidate("iso-8859-5", frozenset(_CYRILLIC)),
    _Candidate("windows-1253", frozenset(_GREEK + _QUOTES)),
    _Candidate("windows-1255", frozenset(_HEBREW + _QUOTES)),
    _Candidate("windows-1256", frozenset(_ARABIC + _QUOTES)),
    _Candidate("windows-874", frozenset(_THAI + "“”")),
)
_LATIN = (
    _Candidate("windows-1252", frozenset("éèàòìùêçâôîûùëïüöäßñóíáúãõåøæÉÀÜÖÄÅØÇ¿¡ºª°£" + _QUOTES)),
    _Candidate("windows-1250", frozenset("ąćęłńóśźżčěřšťůžýáíéúďňőűăâîşţđäöüčžšŁŚŻŹČŠŽŘÁ" + _QUOTES), frozenset("¿¡ĽĺŕÚĂŮ")),
    _Candidate("iso-8859-2", frozenset("ąćęłńóśźżčěřšťůžýáíéúďňőűăâîşţđäöüŁŚŻŹČŠŽŘÁ\xa0"), frozenset("\x9a\x9e\x8a\x8e\x9c\x9f")),
    _Candidate("windows-1254", frozenset("ışğçöüİŞĞÇÖÜâîû" + _QUOTES)),
    _Candidate("windows-1257", frozenset("āēīūšžčģķļņąęėįųšžõäöüĀŠŽ" + _QUOTES)),
)


def detect(payload: bytes) -> str:
    """The most likely encoding's WHATWG name; `windows-1252` when nothing speaks for another. Never raises."""
    if b"\x1b$" in payload or b"\x1b(J" in payload:
        return "iso-2022-jp"
    sample = _MARKUP.sub(b" ", payload[: 4 * SAMPLE_LENGTH])[:SAMPLE_LENGTH]
    if sample.isascii():
        sample = payload[:SAMPLE_LENGTH]
        if sample.isascii():
            return FALLBACK if not payload.isascii() else "utf-8"
    runs = _RUN.findall(sample)
    if sum(map(len, runs)) < _FOREIGN_RUN * len(runs):
        return _best(_LATIN, sample, 0.0) or FALLBACK
    return _best(_ASIAN, sample, _SURE) or _best(_LETTER_BYTES, sample, 0.0) or FALLBACK


def _best(candidates: tuple[_Candidate, ...], sample: bytes, least: float) -> str:
    """The candidate with the highest score above `least`; of equal ones the first."""
    best, best_score = "", least
    for candidate in candidates:
        score = _score(candidate, sample)
        if score > best_score + _TIE:
            best, best_score = candidate.encoding, score
    return best


def _score(candidate: _Candidate, sample: bytes) -> float:
    foreign = [character for character in sample.decode(codec_of(candidate.encoding), "replace") if character > "\x7f"]
    if not foreign:
        return 0.0
    fitting = sum(map(candidate.everyday.__contains__, foreign))
    broken = foreign.count("\ufffd") + (sum(map(candidate.unlikely.__contains__, foreign)) if candidate.unlikely else 0)
    return (fitting - _REPLACED_COST * broken) / len(foreign)
