"""Check and convert the text of a selected element to the type of its field."""

from __future__ import annotations

import re
from functools import cached_property, lru_cache

from icu4py.messageformat import MessageFormat

from lycosa.config.fields import FieldType
from lycosa.core.errors import Refusal
from lycosa.core.units import format_time
from lycosa.page.dates import parse_date
from lycosa.page.metadata.visible import written_dates
from lycosa.page.page_parts import HtmlTree
from lycosa.url.normalise import LinkResolver

Value = str | int | float | bool

_MAX_SEARCHED = 1_000  # characters
MAX_NUMBER = 1e15  # integers up to it are exact
_NUMBER = re.compile(
    # a minus sign, perhaps before a currency symbol
    r"((?<!\w)[-\u2212][$€£¥₹]?\s?)?"
    # digits in groups separated by spaces or apostrophes, or anything with points and commas
    r"(\d{1,3}(?:[ \u00a0\u202f\u2009'’]\d{3})+(?!\d)(?:[.,\u066b]\d+)?"
    r"|\d[\d.,\u066b\u066c]*|(?<![\d.,])\.\d+)"
)
_WHOLE = re.compile(r"\d*|\d{1,3}(?:[.,]\d{2,3})*[.,]\d{3}")  # groups of two: Indian
_CURRENCY = re.compile(r"[$€£¥₹₽₺₩₫₴฿]|\b(?:[A-Z]{3}|zł|kr|Kč|Ft)\b")
_GROUPED = re.compile(r"[1-9]\d{0,2}[.,]\d{3}")
_FALSE = frozenset({"false", "no", "off", "0"})


class BadValue(Exception):
    """A value that does not fit its field."""


class ValueReader:
    """Converts values of one page."""

    def __init__(self, tree: HtmlTree) -> None:
        self._tree = tree

    @cached_property
    def _links(self) -> LinkResolver:
        return LinkResolver(self._tree.base, self._tree.charset or "utf-8")

    @cached_property
    def _language(self) -> str:
        attributes = self._tree.root.attributes
        return attributes.get("lang") or attributes.get("xml:lang") or ""

    def value(self, text: str, type: FieldType, decimal: str = "") -> Value:
        """Return the value of a selected text that is not empty.

        Raises:
            BadValue: it is not of the type.
        """
        match type:
            case "url":
                return self._url(text)
            case "number":
                return read_number(text, decimal, self._language)
            case "integer":
                number = read_number(text, "", self._language, is_integer=True)
                if number != int(number):
                    raise BadValue("not an integer")
                return int(number)
            case "date":
                return read_date(text)
            case "boolean":
                return text.lower() not in _FALSE
        return text

    def _url(self, text: str) -> str:
        target = self._links.resolve(text)
        if isinstance(target, Refusal):
            raise BadValue("not the URL of a page or file")
        return target


def read_number(
    text: str, decimal: str = "", language: str = "", *, is_integer: bool = False
) -> float:
    """Return the first number of a text: `1.299,00 €`, `1,299.00` and `1 299` are 1299.

    Args:
        decimal: the decimal separator; "": by the number.
        language: decides on `1.299`, which is 1299 in German and 1.299 in English. If it is "", a
            point is decimal unless the text names a currency, and a comma separates groups.
        is_integer: `1.299` and `1,299` are 1299 in all languages.

    Raises:
        BadValue: there is no number, or its separators have no meaning.
    """
    match = _NUMBER.search(text[:_MAX_SEARCHED])
    if match is None:
        raise BadValue("not a number")
    digits = re.sub(r"[^\d.,]", "", match[2].replace("\u066b", ".")).rstrip(".,")
    if not decimal:
        decimal = _decimal_separator(digits, text, language, is_integer)
    whole, _, fraction = digits.partition(decimal)
    if not _WHOLE.fullmatch(whole) or "," in fraction or "." in fraction:
        raise BadValue("a number whose separators have no meaning")
    number = float(f"{whole.replace(',', '').replace('.', '') or '0'}.{fraction or '0'}")
    if number > MAX_NUMBER:
        raise BadValue(f"a number over {MAX_NUMBER:.0e}")
    return -number if match[1] else number


def _decimal_separator(digits: str, text: str, language: str, is_integer: bool) -> str:
    point, comma = digits.rfind("."), digits.rfind(",")
    if point >= 0 and comma >= 0:  # the last one
        return "." if point > comma else ","
    separator, other = (".", ",") if point >= 0 else (",", ".")
    if digits.count(separator) > 1:
        return other
    if not _GROUPED.fullmatch(digits):
        return separator
    if is_integer:
        return other
    if language:
        return decimal_separator(language)
    return other if separator == "," or _CURRENCY.search(text) else separator


@lru_cache(256)
def decimal_separator(language: str) -> str:
    """Return the decimal separator of a language tag such as `de-CH`."""
    try:
        written = MessageFormat("{n,number}", language[:40]).format({"n": 1.5})
    except ValueError:
        return "."
    return "," if "," in written or "\u066b" in written else "."


def read_date(text: str) -> str:
    """Return the first date of a text in ISO 8601, UTC.

    Raises:
        BadValue: there is none that is certain.
    """
    moment = parse_date(text)
    if moment is None:
        moments = (parse_date(written) for written in written_dates(text))
        moment = next((each for each in moments if each is not None), None)
    if moment is None:
        raise BadValue("not a date, or one whose day and month may be swapped")
    return format_time(moment)
