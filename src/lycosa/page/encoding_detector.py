"""Detects the legacy encoding of a text with no or a wrong declaration.

It decodes the text and tests whether the result resembles a language.

Each candidate decodes the sample. The result is scored by three measures: how often its letters are
among the frequent ones of the languages written in that encoding (Li and Momoi, "A composite
approach to language/encoding detection", 19th International Unicode Conference, 2001, use the same
distributions); whether letters and signs are in valid positions (no capital after a small letter,
no sign inside a word, no Cyrillic letter next to a Latin one); and the bytes that do not decode.
Encodings that browsers do not support (`lycosa.page.encoding_labels.FURTHER`) must have a clearly
higher score than the others.

tests/page/test_encodings.py measures it on texts of which no letter was counted for the tables
here.
"""

from __future__ import annotations

import codecs
import functools
import math
import unicodedata
from collections import Counter
from typing import NamedTuple

from lycosa.core.patterns import lazy_pattern
from lycosa.page.encoding_labels import FURTHER, codec_of

SAMPLE_LENGTH = 200_000  # bytes that are searched for non-ASCII ones
# non-ASCII bytes scored, in whole words; three times as many take 0.3 ms more a candidate without
# better results
FOREIGN_LENGTH = 1_000
FALLBACK = "windows-1252"
HZ = "hz-gb-2312"
ESCAPED = ("iso-2022-jp", "iso-2022-jp-2", "iso-2022-jp-2004", "iso-2022-jp-3")

_MARKUP = lazy_pattern(rb"<[^<>]*>")
_PLAIN_ESCAPE = lazy_pattern(rb"\x1b(?:\$[@AB()]|\([BJI])")
_TIE = 0.001
_SELDOM = frozenset({"macintosh", "koi8-u"})
# required lead of encodings that browsers do not support, or that no served page is in
_RARE = 0.02
# least share of frequent characters for an encoding of an Asian language: misread alphabets reach
# 0.1
_SURE = 0.3
# required lead of a later candidate, in characters: one or two non-ASCII bytes prove nothing
_DOUBT = 0.5
_LEAST = 0.2  # below this score the text is taken for windows-1252
_MISPLACED = 1.0  # cost of a sign or capital in an invalid position
_BROKEN = 5.0  # cost of a character that does not decode: outweighs five valid ones
_FEW = 6  # non-ASCII characters below which a label is trusted
# score from which a label is trusted: Cyrillic and Arabic alphabets read as one another are below
_BELIEVED = 0.6
_CLEAR = 0.2  # required lead of another encoding over the label
_ODD_LETTER = 0.1  # score of a letter that the languages of an encoding hardly use
# score of the rarest letter of an alphabet; Latin encodings serve several languages with other
# letters
_RAREST = 0.2
# of its small letter: where capitals prevail, case is upside down, as KOI8-R has it to windows-1251
_CAPITAL = 0.7
_ASIAN_SIGN = 0.6
_SIGN = 0.2  # score of a one-byte sign: low, since most bytes are a sign in some encoding

# The most frequent characters of SIB-200: three quarters of a Chinese text, nine tenths of the
# syllables of a Korean one.
_HAN_SIMPLE = (
    "的在一是和有这大了为地国可人会行中以能个不他多其上动要时到斯物年些发于家成出里们球生最或来对过都用而后分旅方学尔通子常也"
    "种如游亚比之前公进你现同与部车得并利体自表法赛但提加机特它就然者克因间本更经性所德小日作美场由选队开活面当拉理第电运将数"
    "月海达力从目该很世果度合员罗手内下科病布次相被入新化式定议全长受星政区文意主还着水名组马格空称重保州接那联往使结情起明类"
    "航量供无岛原只至道非许没英界外二光型立巴司质客需期制西战项示点流应酒尼正奥取天等代持支系位程计金雪处约去术影票身包我两样"
    "三高任实心参统线好管节乐南例共市务说总问此网洲举获论做括基带看太已演适回且致府认万群几感阿十建及交飞今么报观每山滑研究医"
    "普气让况费较话兰路卡北随根维引城各关件查必工显头东少服图视像题变远先标指直决民始知导河何事华产纪洛萨季预解船响台传签求证"
    "别伊近住周确离店塔据领尽军未风营构即足镜语博独价伤细站技击划土林曾院级向安片造首哥请步形治门宣给商塞历环冰态列纳座打份消"
)
_HAN_TRADITIONAL = (
    "的在是一有國和為地會這中大人以他可不了上行能動多時其或個成要到物出年家斯球來於最生方也過與之用們發些旅學都法體而常所種同"
    "後前將分因但部現子賽得美此就比由對加表車數自電進公海第亞通並理拉開爾該及科間場德克本經性作如然文里機定選月達入提特你世下"
    "名主日活隊使式小利程力相著許當無重度水更羅運手化長新果遊西從受非稱員內已結政造者型面病區組馬位類它等任合示需供議說目立路"
    "兩全星影界原次較二布州英島客外網應戰雪點巴基保洲光航往三事正意期空票您金且那流聯很帶統取奧格實被天接持心觀身舉何維質關道"
    "太我十代論包沒高河蘭量尼讓費際座線計南山城總醫境單樂研滑認約群圖去只至先傳必話演交邊北處起各好普知態明言術近究每樣環確根"
    "市華仍題季安則例直決卡團始看希東府片參務便案院低顯阿管哥連準飛查形別還佳酒變見少共未幾治司像風頭氣請預狀船感站標須打節史"
    "消支協適資給證軍致獲林領品視遠今情民細建門括做越服塔即某紀項技鏡獨住制波報宣工響土問裡導萬件冰花洛引存四系足歐構納毒傷衛"
)
_HANGUL = (
    "이다는에의을니하은지로가고한서기있를스사인수리도습해으들대어자시아나라과일전적그했보정부상여것만동주구제장위와트국경비성"
    "게입공되원우행었세면할문화르마드합물관소거러요선유미오용중통치모며작운역간계야조안발때프년른연분진터명방않체포개생키양질"
    "차식된학타더바레단당려회호크영신후함음반무두결히내카항록번표또데예태많불람종파법없루독재월티코력건올실산매약형능특같였달"
    "류알든각필광남속말직져피곳최교출저까현및병래심버받열처새립점금강험변향증즈술승집등디따노격군투준초확임추권브환본몇근객너"
    "료토될길란편론던쪽감랜언페름존난텔취목박"
)
_KANA = "".join(map(chr, [*range(0x3041, 0x3094), *range(0x30A1, 0x30F7), 0x30FC]))
_RUSSIAN = "оеиатнсрвлкмпдуыягзьбчйхжюшцэфщъё"
_CYRILLIC = f"{_RUSSIAN}іїєґўј"
_KAZAKH = "аеынтрлідскомқбуижғпйңгзшүәөұявфхцьэюч"
_TAJIK = "аиорндмтбусҳкевлшзгхфқяӣҷпёйӯъчэғюж"
_GREEK = "αοιετσνηυρπκμλωάίέόήςδγχθφύβώξζψϊϋ"
_HEBREW = "יוהלאמרתבשנםדקעחטפגסכןצזךףץ"
_ARABIC = "اليمنورتبةعدفسكأقهحجطشىصإخزضثذغئءظآؤ"
_PERSIAN = "اویرنلمدتهکسبيشےفپعہجقزخحېةگںطكچأصئغآٹړھضثىذټګإظځډڅڈءږښژڑۍؤڼ"
_THAI = "".join(map(chr, [*range(0x0E01, 0x0E3B), *range(0x0E40, 0x0E4E)]))
_WESTERN = "éèàüöäñçíáóãõêâúòùìïîôûßåøæ"
_PORTUGUESE = "ãçéáóíêàâõúô"
_CENTRAL = "áéíóúýčďěňřšťůžąćęłńśźżőűöüăâîşţșțđôä"
_TURKISH = "ışğçöüâîû"
_BALTIC = "āēīūšžčģķļņąęėįųõäöü"
_VIETNAMESE = "đươăâêôáàéèóòíúùýăấ\u0300\u0301\u0303\u0309\u0323"
_QUOTES = "“”‘’–—…«»„‚€©®·•ªº°¿¡§£、。「」『』，（）：；！？・،؛؟\xa0\xad"


class _Candidate(NamedTuple):
    encoding: str
    frequent: str  # most frequent first
    latin: bool = False
    unlikely: str = ""  # characters that a confusable encoding decodes from other letters


_HALF_WIDTH = "".join(map(chr, range(0xFF61, 0xFFA0)))
_ASIAN = (
    _Candidate("shift_jis", _KANA, unlikely=_HALF_WIDTH),
    _Candidate("euc-jp", _KANA),
    _Candidate("gbk", _HAN_SIMPLE),
    _Candidate("gbk", _HAN_TRADITIONAL),
    _Candidate("big5", _HAN_TRADITIONAL),
    _Candidate("euc-kr", _HANGUL),
    _Candidate("johab", _HANGUL),
    _Candidate("euc-jis-2004", _KANA),
    _Candidate("shift_jis-2004", _KANA, unlikely=_HALF_WIDTH),
)
_ALPHABETS = (
    _Candidate("windows-1252", _WESTERN, latin=True),
    _Candidate("windows-1251", _CYRILLIC),
    _Candidate("koi8-r", _CYRILLIC),
    _Candidate("koi8-u", _CYRILLIC),
    _Candidate("ibm866", _CYRILLIC),
    _Candidate("iso-8859-5", _CYRILLIC),
    _Candidate("x-mac-cyrillic", _CYRILLIC),
    _Candidate("windows-1253", _GREEK),
    _Candidate("windows-1255", _HEBREW),
    _Candidate("windows-1256", _PERSIAN),
    _Candidate("iso-8859-6", _ARABIC),
    _Candidate("windows-874", _THAI),
    _Candidate("windows-1250", _CENTRAL, latin=True),
    _Candidate("iso-8859-2", _CENTRAL, latin=True),
    _Candidate("windows-1254", _TURKISH, latin=True),
    _Candidate("windows-1257", _BALTIC, latin=True),
    _Candidate("windows-1258", _VIETNAMESE, latin=True),
    _Candidate("macintosh", _WESTERN, latin=True),
    _Candidate("ibm860", _PORTUGUESE, latin=True, unlikely="üßÜ"),
    _Candidate("ibm850", _WESTERN, latin=True),
    _Candidate("ibm437", _WESTERN, latin=True),
    _Candidate("ibm863", _WESTERN, latin=True),
    _Candidate("ibm855", _CYRILLIC),
    _Candidate("ibm720", _ARABIC),
    _Candidate("x-mac-arabic", _ARABIC),
    _Candidate("x-mac-farsi", _PERSIAN),
    _Candidate("kz-1048", _KAZAKH),
    _Candidate("ptcp154", _KAZAKH),
    _Candidate("koi8-t", _TAJIK),
)


class _Classes(dict[int, str]):
    """Character -> its class, for `str.translate`.

    A A ASCII letters, l U non-ASCII small and capital ones, o others, q s signs, x broken.
    """

    def __missing__(self, code: int) -> str:
        character = chr(code)
        if code < 0x80:
            letter_class = ("a" if character.islower() else "A") if character.isalpha() else " "
        elif character in _QUOTES:
            letter_class = "q"
        else:
            category = unicodedata.category(character)
            if category in ("Cc", "Cn", "Co", "Cs") or character == "\ufffd":
                letter_class = "x"
            elif category == "Lu":
                letter_class = "U"
            elif category == "Ll":
                letter_class = "l"
            else:
                letter_class = "o" if category[0] in "LM" else "s"
        self[code] = letter_class
        return letter_class


_CLASSES = _Classes()
_MISPLACED_SIGN = lazy_pattern("(?<=[aAlUo])s(?=[aAlUo])")
_MISPLACED_CAPITAL = lazy_pattern("(?<=[al])U")
_LATIN_RUN = lazy_pattern("[lUo]{3,}")
_PAIR = lazy_pattern(
    r"(?<![^\s(\[>/-])(?:„(?=[^“”„]*[“”](?![^\W_]))|“(?=[^“”„]*”(?![^\W_]))|«(?=[^«»]*»(?![^\W_]))"
    r"|»(?=[^«»]*«(?![^\W_]))"
    r"|‘(?=[^‘]*’(?![^\W_]))|‚(?=[^‘’‚]*[‘’](?![^\W_])))"
)
_PUNCTUATION = lazy_pattern(
    r"(?<=[A-Za-z])’(?=(?:s|t|re|ve|ll|d|m)\b)|(?i:(?<=\b[cdjlmnst])|(?<=\bqu)|(?<=ll)|(?<=\bun)"
    r"|(?<=quest)|(?<=tutt))’(?=[^\W_])"
    r"|(?<!\S)[–—](?!\S)|(?<=\d)–(?=\d)|(?<=[A-Za-z])–(?=[A-Z])|(?<!\S)[£¥€](?=\d)"
    r"|(?<=\d)\xa0(?=\w)"
)
"""With `_PAIR`: quotation marks, apostrophes, dashes and currency signs in their places; a wrong
encoding makes letters of them.
"""
_SIGNS = "„“«»‘‚’–—£¥€\xa0"  # the characters that those two patterns match
_BESIDE_LATIN = lazy_pattern("(?<=[aA])[lUo]|[lUo](?=[aA])")


def detect(payload: bytes) -> str:
    """Return the name of the most likely encoding.

    One of WHATWG's or of `FURTHER`; by default `windows-1252`. Never raises.
    """
    if _PLAIN_ESCAPE.search(payload):
        if b"\x1b$)C" in payload:
            return "iso-2022-kr"
        return next((name for name in ESCAPED if _decodes(payload, name)), ESCAPED[0])
    if payload.isascii():
        return HZ if b"~{" in payload and _reads_as_hz(payload) else "utf-8"
    sample = _sample(payload)
    return _best(_ASIAN, sample, _SURE) or _best(_ALPHABETS, sample, _LEAST) or FALLBACK


def reads_better(payload: bytes, declared: str) -> str:
    """Return an encoding that fits far better than the declared one.

    The declared encoding is a single-byte one; "": it is plausible.
    """
    declared_alphabets = [candidate for candidate in _ALPHABETS if candidate.encoding == declared]
    if not declared_alphabets:
        return ""
    sample = _sample(payload)
    score, characters = _score(declared_alphabets[0], sample)
    if score >= _BELIEVED or characters < _FEW:
        return ""
    # Latin encodings are too much alike for one of them to refute the label of another.
    others = tuple(
        candidate
        for candidate in _ALPHABETS
        if not (candidate.latin and declared_alphabets[0].latin)
    )
    return _best(_ASIAN, sample, max(_SURE, score)) or _best(others, sample, score + _CLEAR)


def _best(candidates: tuple[_Candidate, ...], sample: bytes, least: float) -> str:
    """Return the candidate with the highest score above `least`. Of equal ones the first is used,
    and encodings that browsers support precede the others.
    """
    best, best_score = "", least
    for candidate in candidates:
        score, characters = _score(candidate, sample, best_score)
        if candidate.encoding in FURTHER or candidate.encoding in _SELDOM:
            score -= _RARE
        if best:
            score -= _DOUBT / max(1, characters)
        if score > best_score + _TIE:
            best, best_score = candidate.encoding, score
    return best


def _reads_as_hz(payload: bytes) -> bool:
    """Return whether a text is HZ (RFC 1843).

    That is ASCII, with Chinese between `~{` and `~}`.
    """
    if not _decodes(payload, HZ):
        return False
    han = [character for character in payload.decode(codec_of(HZ), "replace") if character > "\x7f"]
    return bool(han) and sum(map(_HAN_SIMPLE.__contains__, han)) >= _SURE * len(han)


def _decodes(payload: bytes, encoding: str) -> bool:
    try:
        codecs.getincrementaldecoder(codec_of(encoding))().decode(payload)
    except UnicodeError:  # not UnicodeDecodeError alone: "pending buffer overflow", see `decoded`
        return False
    return True


def decoded(data: bytes, codec: str) -> str:
    """Decode with replacement characters, except for one cut at the end.

    Bodies are cut at a size limit.
    """
    try:
        return codecs.getincrementaldecoder(codec)("replace").decode(data)
    except UnicodeError:
        # the truncated end is longer than the state of Python's CJK decoders
        return data.decode(codec, "replace")


def _sample(payload: bytes) -> bytes:
    """Return the words with non-ASCII bytes, joined by spaces.

    From the markup only if the text has none.
    """
    text = _MARKUP.sub(b" ", payload[:SAMPLE_LENGTH])
    if text.isascii():
        text = payload
    runs: list[bytes] = []
    length = 0
    for word in text.split():
        if not word.isascii():
            runs.append(word)
            length += len(word)
            if length > FOREIGN_LENGTH:
                break
    return b" ".join(runs)[: 2 * FOREIGN_LENGTH]


@functools.cache
def _weights(frequent: str, rarest: float) -> dict[str, float]:
    """Return the score of each character, from 1 down to `rarest`.

    1 is for the most frequent; capitals are scored like their small letters.
    """
    step = (1 - rarest) / len(frequent)
    weights = {character: 1 - step * place for place, character in enumerate(frequent)}
    return {
        capital: _CAPITAL * weights[letter]
        for letter in frequent
        if len(capital := letter.upper()) == 1
    } | weights


def _score(candidate: _Candidate, sample: bytes, least: float = -math.inf) -> tuple[float, int]:
    """Return how well a sample fits an encoding, at most 1.

    Also return the number of its non-ASCII characters.

    Args:
        least: of a lower score, an upper bound that is not above `least` is returned.
    """
    text = decoded(sample, codec_of(candidate.encoding))  # a cut tail is no fault
    counts = Counter(text)
    weights = _weights(candidate.frequent, 1.0 if candidate.latin else _RAREST)
    sign = _ASIAN_SIGN if candidate in _ASIAN else _SIGN
    total, worth = 0, 0.0
    for character, count in counts.items():
        if character <= "\x7f":
            continue
        total += count
        weight = weights.get(character)
        if weight is None:
            kind = _CLASSES[ord(character)]
            if kind == "x" or character in candidate.unlikely:
                weight = -_BROKEN
            else:
                weight = sign if kind == "q" else 0.0 if kind == "s" else _ODD_LETTER
        worth += weight * count
    if not total:
        return 0.0, 0
    signs = 0 if candidate in _ASIAN else sum(counts[each] for each in _SIGNS)
    # the patterns below take most of the time, and most candidates cannot exceed `least`
    bound = (worth + (1 - sign) * 2 * signs) / total
    if bound <= least:
        return bound, total
    if signs:
        worth += (1 - sign) * (2 * len(_PAIR.findall(text)) + len(_PUNCTUATION.findall(text)))
    classes = text.translate(_CLASSES)
    misplaced = len(_MISPLACED_SIGN.findall(classes)) + len(_MISPLACED_CAPITAL.findall(classes))
    if candidate.latin:
        misplaced += sum(map(len, _LATIN_RUN.findall(classes)))
    else:
        misplaced += len(_BESIDE_LATIN.findall(classes))
    return (worth - _MISPLACED * misplaced) / total, total
