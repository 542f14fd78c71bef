"""The language of the web interface: chosen by a cookie, else by Accept-Language; messages from PO
files, formatted by ICU.

Templates and code contain a message as its English text, in ICU's message format: `t("{n, plural,
one {# page} other {# pages}}", n=3)`. So plurals, numbers and dates follow each language's own
rules (Unicode CLDR), and a translator needs only the file `translations/CODE.po`. Untranslated
messages are shown in English. `scripts/make_translations.py` collects the messages; a test compares
the files with them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache, lru_cache
from importlib.resources import files

import polib
from icu4py.messageformat import MessageFormat
from markupsafe import Markup, escape

from lycosa.core.messages import Message

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


LANGUAGES = {"en": "English", "zh": "中文", "ru": "Русский", "es": "Español", "ar": "العربية"}
"""The languages of the web interface, by code, with their own names."""
COOKIE = "lycosa_language"

_LOCALES = {"en": "en_GB"}  # 3 March 2026
_CODE = re.compile("`([^`]+)`")
_OPEN, _CLOSE = "\ue000", "\ue001"  # private use: no message contains them


class Interface:
    """The web interface in one language. Templates call `t` and the similar methods."""

    def __init__(self, code: str) -> None:
        self.code = code
        self.direction = direction(code)
        self._locale = _LOCALES.get(code, code)
        self._messages = _catalog(code)

    def t(self, message: str, **values: str | float) -> str:
        """Return the message in this language with its values, as plain text, which the templates
        escape.
        """
        translated = self._messages.get(message, message)
        return _format(translated, self._locale).format({**values}) if values else translated

    def html(self, message: str, **values: object) -> Markup:
        """Return the message with values that are trusted markup; everything else is escaped."""
        marked = {
            name: value if isinstance(value, int | float) else f"{_OPEN}{name}{_CLOSE}"
            for name, value in values.items()
        }
        text = _CODE.sub(r'<code dir="ltr">\1</code>', str(escape(self.t(message, **marked))))
        for name, value in values.items():
            text = text.replace(f"{_OPEN}{name}{_CLOSE}", str(escape(value)))
        return Markup(text)

    def sentence(self, text: str) -> Markup:
        """Return a sentence in this language. Its values, and texts that are not a `Message` and
        thus English, are isolated from the surrounding text.
        """
        if not isinstance(text, Message):
            return Markup('<bdi lang="en" dir="ltr">{}</bdi>').format(text)
        return self.html(
            text.message, **{name: self._value(value) for name, value in text.values.items()}
        )

    def plain(self, text: Message) -> str:
        """Return a sentence in this language as plain text."""
        values = {
            name: self.plain(value) if isinstance(value, Message) else value
            for name, value in text.values.items()
        }
        return self.t(text.message, **values)

    def _value(self, value: str | int) -> Markup | int:
        if isinstance(value, int):
            return value
        return (
            self.sentence(value)
            if isinstance(value, Message)
            else Markup("<bdi>{}</bdi>").format(value)
        )

    def number(self, value: float) -> str:
        """Return a number as this language writes it: `12,345`."""
        return _format("{value, number}", self._locale).format({"value": value})

    def percent(self, share: float) -> str:
        """Return a share as a percentage: `50%` for 0.5."""
        return _format("{share, number, percent}", self._locale).format({"share": share})

    def day(self, at_ms: int | None) -> str:
        """Return a day in UTC, `3 March 2026`; empty for None and for impossible dates, which sites
        declare.
        """
        return self._day(at_ms, "{at, date, long}")

    def time(self, at_ms: int | None) -> str:
        """Return a day and the minute, in UTC: `3 Mar 2026, 14:05`."""
        at = None if at_ms is None else utc_time(at_ms)
        return "" if at is None else f"{self._day(at_ms, '{at, date, medium}')}, {at:%H:%M}"

    def _day(self, at_ms: int | None, form: str) -> str:
        if at_ms is None:
            return ""
        at = utc_time(at_ms)
        if at is None:
            return ""
        # ICU shows times in the process's own zone. Noon without a zone is noon of that day in
        # every one of them.
        noon = datetime(at.year, at.month, at.day, 12)  # noqa: DTZ001
        return _format(form, self._locale).format({"at": noon})


def utc_time(at_ms: int) -> datetime | None:
    """Return a time in UTC; None outside of the calendar, which sites may declare."""
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return None


def message(text: str) -> str:
    """Return the text itself. It marks a message for `scripts/make_translations.py` that is
    translated where it is displayed.
    """
    return text


@cache
def interface(code: str) -> Interface:
    """Return the interface in a language of `LANGUAGES`; English for any other."""
    return Interface(code if code in LANGUAGES else "en")


def chosen_language(cookies: Mapping[str, str], accept_language: str) -> str:
    """Return the reader's language: the chosen one, else the best of Accept-Language (RFC 9110
    section 12.5.4).
    """
    if cookies.get(COOKIE) in LANGUAGES:
        return cookies[COOKIE]
    wishes = []
    for place, wish in enumerate(accept_language[:1000].split(",")):
        name, _, parameters = wish.strip().partition(";")
        code = name.strip().lower().partition("-")[0]
        weight = _weight(parameters)
        if code in LANGUAGES and weight > 0:
            wishes.append((-weight, place, code))
    return min(wishes)[2] if wishes else "en"


def _weight(parameters: str) -> float:
    name, _, value = parameters.strip().partition("=")
    if name.strip().lower() != "q":
        return 1.0
    try:
        return float(value)
    except ValueError:
        return 0.0


def _catalog(code: str) -> Mapping[str, str]:
    if code == "en":
        return {}
    content = (
        files("lycosa.serve.web").joinpath("translations", f"{code}.po").read_text(encoding="utf-8")
    )
    return {
        entry.msgid: entry.msgstr
        for entry in polib.pofile(content)
        if entry.msgstr and not entry.fuzzy
    }


@lru_cache(maxsize=2_000)
def _format(message: str, code: str) -> MessageFormat:
    return MessageFormat(message, code)
