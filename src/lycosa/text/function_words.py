"""Function words and question words of the languages that have an analyzer.

A search ignores them in queries that are sentences; question words indicate a sentence. Words of
languages without spaces are those of the dictionaries of ICU.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Sequence

from lycosa.text.stop_words import stop_words

QUESTION_MARKS = ("?", "？", "؟", "⁇", "⸮")
SENTENCE_MARKS = (*QUESTION_MARKS, ".", "。", "．", "۔", "।", "॥", "！", "!")
SPACELESS = frozenset({"zh", "ja", "th", "lo", "my", "km", "bo"})
AFFIXES = frozenset({"می", "ها", "های"})  # Persian; often written as separate words
_MAX_SEGMENTS = 3

_QUESTION_WORDS = {
    "ar": "ما ماذا من متى أين كيف لماذا لم كم أي أية هل بماذا لمن",
    "bo": "ག་རེ ག་པར སུ ག་དུས ག་འདྲ ཅི ཇི་ལྟར གང ནམ",
    "ca": "què qui quan on com quin quina quins quines quant quants per",
    "cs": "co kdo kdy kde jak proč který která které kolik čí kam",
    "da": "hvad hvem hvornår hvor hvordan hvorfor hvilken hvilket hvilke",
    "de": "was wer wen wem wessen wann wo wohin woher wie warum weshalb wieso welche welcher "
    "welches welchen welchem wieviel wieviele "
    "womit wofür wodurch worauf worin woran",
    "el": "τι ποιος ποια ποιο ποιοι πότε πού πώς γιατί πόσο πόσα πόσοι",
    "en": "what who whom whose when where which why how does did do is are was were can could "
    "should would",
    "es": "qué que quién quien quiénes cuándo cuando dónde donde cómo como cuál cual cuáles "
    "cuánto cuánta cuántos cuántas por",
    "fa": "چه چی کی کجا چرا چگونه چطور کدام چند چقدر آیا",
    "fr": "que quoi qui quand où comment pourquoi quel quelle quels quelles combien est-ce lequel "
    "laquelle lesquels",
    "hi": "क्या कौन कब कहाँ कहां कैसे क्यों किस किसने किसे किसका किसकी किसके कितना कितने कितनी "
    "कौनसा कौनसी किन किसको",
    "id": "apa siapa kapan dimana mana bagaimana mengapa kenapa berapa apakah",
    "it": "che cosa chi quando dove come perché quale quali quanto quanta quanti quante qual cos'è",
    "ja": "何 なに なん 誰 だれ いつ どこ なぜ どう どの どれ どちら いくつ いくら どのように どうして どんな ですか ますか か",  # noqa: E501
    "kk": "не кім қашан қайда қалай неге қай қандай қанша неше",
    "km": "តើ ឯណា នៅឯណា អ្វី អ្នកណា ណា ពេលណា ហេតុអ្វី យ៉ាងណា ប៉ុន្មាន",
    "ko": "무엇 무엇을 무엇이 무엇인가 무엇입니까 무엇인가요 뭐 누구 누가 누구를 누구의 누구인가 언제 어디 어디에 어디에서 어디서 왜 "  # noqa: E501
    "어떻게 몇 어느 어떤 얼마 얼마나 무슨",
    "ky": "эмне ким качан кайда кандай эмнеге кайсы канча",
    "lo": "ຫຍັງ ໃຜ ເມື່ອໃດ ໃສ ແນວໃດ ເປັນຫຍັງ ໃດ ຈັກ ເທົ່າໃດ",
    "mn": "юу хэн хэзээ хаана яаж яагаад ямар аль хэд хичнээн",
    "ms": "apa siapa bila mana bagaimana mengapa kenapa berapa apakah di",
    "my": "ဘာ ဘယ်သူ ဘယ်တော့ ဘယ်မှာ ဘယ်လို ဘာကြောင့် ဘယ် ဘယ်လောက်",
    "ne": "के को कसले कसको कहिले कहाँ कसरी किन कुन कति",
    "nl": "wat wie wanneer waar hoe waarom welke welk hoeveel wiens",
    "pl": "co kto kiedy gdzie jak dlaczego który która które ile czyj czy",
    "ps": "څه څوک کله چیرته څنګه ولې کوم څو څومره ایا",
    "pt": "que quê quem quando onde como porque porquê qual quais quanto quanta quantos quantas",
    "ro": "ce cine când unde cum care cât câtă câți câte de",
    "ru": "что кто кого кому чем когда где куда откуда как почему зачем какой какая какое какие "
    "каких каким какую каком который которая "
    "которые сколько чей чья чьё ли кем",
    "sv": "vad vem när var hur varför vilken vilket vilka vems",
    "tg": "чӣ кӣ кай куҷо чаро чӣ-хел кадом чанд чӣ-қадар оё",
    "th": "อะไร ใคร เมื่อไหร่ เมื่อไร เมื่อใด ไหน ที่ไหน อย่างไร ทำไม เท่าไหร่ เท่าไร กี่ ใด หรือ ไหม",
    "tl": "ano sino kailan saan paano bakit alin ilan kanino magkano",
    "tr": "ne kim ne-zaman nerede nereye nasıl neden niçin hangi kaç mi mı mu mü",
    "ur": "کیا کون کب کہاں کیسے کیوں کس کسے کتنا کتنے کتنی کونسا کونسی",
    "vi": "gì ai nào đâu sao mấy bao nhiêu tại khi thế",
    "zh": "什么 什麼 谁 誰 何时 何時 哪里 哪裡 哪儿 哪 哪个 哪個 哪些 怎么 怎麼 怎样 怎樣 如何 为什么 為什麼 为何 為何 多少 几 幾 吗 "  # noqa: E501
    "嗎 呢 是否 何",
}
_FUNCTION_WORDS = {
    "ar": "في من على إلى عن مع هذا هذه ذلك تلك التي الذي الذين كان كانت يكون تم قد لا لم لن أن إن "
    "أو و ثم بين كل بعض عند بعد قبل هو هي هم",
    "bo": "དང ནི གི ཀྱི གྱི འི ཡི ལ ན ནས ལས ཏུ དུ རུ སུ ར འདི དེ ཡིན རེད ཡོད འདུག ཞིག ཅིག ཤིག ཀྱང ཡང གིས ཀྱིས གྱིས",
    "el": "ο η το οι τα του της των τον την και να σε με για από που είναι στο στη στην στον ένα "
    "μια ή δεν θα",
    "en": "i me my am us them those why whose whom shall might must get got same both each very "
    "through during against between under "
    "while because until whether",
    "fa": "و در به از که این آن را با است برای یک تا بر هم شد می شود بود هر نیز یا ولی اما های ها "
    "او ما آنها شما کرد کرده شده",
    "fi": "ja on ei se että oli ovat kun niin myös mutta hän joka tai kuin ole jos vain",
    "hi": "है हैं के में की से का को और पर ने यह वह कि नहीं था थे थी लिए एक तो भी जो इस या हो कर "
    "गया गई गए होता होती होते रहा रही रहे "
    "द्वारा  "
    "तक अपने उस उन उनके उनकी उसके उसकी हुआ हुई हुए थीं ही साथ बाद",
    "hu": "a az és hogy nem is egy de ez azt van volt csak meg már mint vagy",
    "ja": "の に は を た が で て と し れ さ ある いる も する から "
    "な こと として い や など なっ ない この ため その あっ よう "
    "また もの あり まで  "
    "られ なる へ だ これ によって により それ です ます でし まし した して され "
    "って ました ません という",
    "kk": "және мен бұл үшін да де бір осы ол олар болып бар болды деп емес ма ме ба бе па пе",
    "ko": "이 그 저 것 수 등 및 또는 그리고 의 가 은 는 을 를 에 에서 "
    "로 으로 와 과 도 만 있는 있다 한 하는 했습니까 합니까 입니까 "
    "있습니까 되었습니까  "
    "대한 위한 위해 통해",
    "ky": "жана менен бул үчүн да де бир ошол ал алар болуп бар болгон деп эмес",
    "lo": "ແລະ ທີ່ ຂອງ ໃນ ເປັນ ມີ ໄດ້ ຈະ ບໍ່ ນີ້ ນັ້ນ ກັບ ຈາກ ໃຫ້ ຢູ່",
    "mn": "ба бол нь энэ тэр юм байна байсан болон мөн их нэг л ч дээр болгон",
    "ms": "yang dan di dengan untuk dari ini itu pada adalah tidak dalam ke akan oleh juga telah "
    "atau sebagai mereka ada kerana boleh "
    "ialah",
    "my": "သည် ကို မှာ မှ တွင် နှင့် ၏ များ က လည်း ၍ ရှိ ဖြစ် သော ဖြင့် အတွက်",
    "ne": "छ छन् र को पनि भएको भएका थियो थिए गरेको गरेका गर्न यो हुन्छ हुन् हो तथा भने लागि गरे "
    "वा कि एक मा ले लाई बाट",
    "no": "og i er det en et den til av for på med som de ikke har kan fra var om vil ved eller "
    "men du dette etter å",
    "pl": "i w na z do że się nie to jest są był była było o jak po za od przez dla oraz lub ale "
    "tym tego",
    "ps": "د په کې او چې له سره ته دی ده دي یو دا هغه نه هم پر وو شوی شوه کړی کړه",
    "ru": "и в не на с по из для от за он она это его к о у был была было были при или они но то "
    "до так же если может а бы во со об "
    "их ее  "
    "её эти этот эта того том тем является",
    "tg": "ва дар ба аз ки ин он бо барои як буд аст ҳам то ё на мешавад шуд",
    "th": "ที่ และ ใน ของ เป็น มี ได้ การ ให้ จะ ไม่ นี้ นั้น กับ จาก ว่า ก็ แต่ โดย หรือ อยู่ คือ ถูก",
    "ur": "ہے ہیں کے میں کی سے کا کو اور پر نے یہ وہ کہ نہیں تھا تھے تھی لیے ایک تو بھی جو اس یا "
    "ہو کر گیا گئی گئے ان ہی ساتھ بعد",
    "vi": "bị bởi đó làm nên cũng rằng nếu thì mà vì do",
    "zh": "的 是 了 在 和 与 與 及 或 有 不 这 這 那 他 她 它 们 們 我 你 "
    "您 也 就 都 而 被 把 从 從 到 对 對 于 於 为 為 以 之 其 中 "
    "上 下 个 個 一个 一個 着 過 过",
    "de": "in am unter um gegen ohne waren sein hatte wir ich du ihr so dann weil diese dieser "
    "dieses bis vor seit zwischen alle mehr "
    "sehr gibt bin",
    "fr": "sous sans étaient avait cet elles on je tu dont si y n s c j l d entre vers chez",
    "es": "unos unas u a eran había le les estos estas ese esa eso esto ya e tiene",
    "it": "nei nelle su a alle erano se questi queste l d fra tra ci",
    "pt": "sem aos às era eram tem têm este esta já entre",
    "nl": "waren heeft hebben ze we ik je over onder",
    "sv": "han hon vi hade så",
    "tr": "ama şu o den dan ki ise",
}


@functools.cache
def question_words(language: str) -> frozenset[str]:
    """Return the question words of a language (ISO 639 code), in lower case."""
    return frozenset(_QUESTION_WORDS.get(language, "").split())


@functools.cache
def function_words(language: str) -> frozenset[str]:
    """Return the function words and question words of a language, in lower case."""
    return (
        stop_words(language)
        | frozenset(_FUNCTION_WORDS.get(language, "").split())
        | question_words(language)
    )


def plain_word(surface: str) -> str:
    """Fold case and strip punctuation, but keep vowel signs at the end."""
    start, end = 0, len(surface)
    while start < end and not surface[start].isalnum():
        start += 1
    while end > start and not (
        surface[end - 1].isalnum() or unicodedata.category(surface[end - 1])[0] == "M"
    ):
        end -= 1
    return surface[start:end].casefold()


@functools.cache
def _all_question_words() -> frozenset[str]:
    return frozenset().union(*(question_words(language) for language in _QUESTION_WORDS))


def is_question(words: Sequence[str]) -> bool:
    """Return whether plain words begin or end with a question word of any language."""
    return bool(words) and not _all_question_words().isdisjoint((words[0], words[-1]))


def has_question_word(words: Sequence[str], language: str) -> bool:
    """Return whether the plain words of a text without spaces contain a question word.

    It may be anywhere, segmented into up to three words. A single character counts only at the
    beginning and the end.
    """
    vocabulary = question_words(language)
    joiner = "\u0f0b" if language == "bo" else ""
    for start in range(len(words)):
        for end in range(start + 1, min(start + _MAX_SEGMENTS, len(words)) + 1):
            text = joiner.join(words[start:end])
            if text in vocabulary and (len(text) > 1 or start == 0 or end == len(words)):
                return True
    return False
