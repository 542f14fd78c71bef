"""Names of languages in themselves, and which of them are written from right to left."""

from __future__ import annotations

LANGUAGE_NAMES = {
    "am": "አማርኛ",
    "ar": "العربية",
    "az": "Azərbaycanca",
    "be": "Беларуская",
    "bg": "Български",
    "bn": "বাংলা",
    "bo": "བོད་ཡིག",
    "ca": "Català",
    "cs": "Čeština",
    "da": "Dansk",
    "de": "Deutsch",
    "el": "Ελληνικά",
    "en": "English",
    "es": "Español",
    "et": "Eesti",
    "eu": "Euskara",
    "fa": "فارسی",
    "fi": "Suomi",
    "fr": "Français",
    "gl": "Galego",
    "he": "עברית",
    "hi": "हिन्दी",
    "hr": "Hrvatski",
    "hu": "Magyar",
    "hy": "Հայերեն",
    "id": "Bahasa Indonesia",
    "it": "Italiano",
    "ja": "日本語",
    "ka": "ქართული",
    "kk": "Қазақша",
    "km": "ខ្មែរ",
    "ko": "한국어",
    "lo": "ລາວ",
    "lt": "Lietuvių",
    "lv": "Latviešu",
    "mn": "Монгол",
    "ms": "Bahasa Melayu",
    "my": "မြန်မာ",
    "nb": "Norsk bokmål",
    "ne": "नेपाली",
    "nl": "Nederlands",
    "no": "Norsk",
    "pl": "Polski",
    "pt": "Português",
    "ro": "Română",
    "ru": "Русский",
    "si": "සිංහල",
    "sk": "Slovenčina",
    "sl": "Slovenščina",
    "sr": "Српски",
    "sv": "Svenska",
    "sw": "Kiswahili",
    "ta": "தமிழ்",
    "th": "ไทย",
    "tl": "Filipino",
    "tr": "Türkçe",
    "ug": "ئۇيغۇرچە",
    "uk": "Українська",
    "ur": "اردو",
    "uz": "Oʻzbekcha",
    "vi": "Tiếng Việt",
    "zh": "中文",
}

_RIGHT_TO_LEFT = frozenset({"ar", "ckb", "dv", "fa", "he", "ps", "sd", "ug", "ur", "yi"})


def language_name(code: str) -> str:
    """Return the name of a language, `Deutsch` for `de`; unknown codes are returned."""
    return LANGUAGE_NAMES.get(code, code)


def direction(code: str) -> str:
    """Return the value of HTML's `dir` for text in a language: `rtl`, `ltr`, or `auto` when the
    language is unknown.
    """
    if not code:
        return "auto"
    return "rtl" if code.partition("-")[0] in _RIGHT_TO_LEFT else "ltr"
