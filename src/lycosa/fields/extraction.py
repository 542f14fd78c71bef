"""Extract the items of a page: select by the schema, convert, check. Hot path (bench/fields.py)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from icu4py.messageformat import MessageFormat

from lycosa.config.collection import Collection
from lycosa.config.fields import FieldType, ItemField, ItemSchema
from lycosa.core.errors import Refusal
from lycosa.core.records import Item, ItemProblem
from lycosa.core.units import format_time
from lycosa.fields.selecting import CSS, XPATH, Selecting, url_of, xpath_root
from lycosa.page.dates import parse_date
from lycosa.page.metadata.bounds import clean
from lycosa.page.metadata.visible import written_dates
from lycosa.page.page_parts import HtmlTree
from lycosa.url.normalise import LinkResolver

MAX_ITEMS = 1_000  # of a schema in a page
MAX_VALUES = 1_000  # of a list
MAX_PROBLEMS = 20  # recorded for an item
MAX_TEXT, MAX_HTML = 10_000, 100_000  # characters of a value
MAX_CHARACTERS = 2_000_000  # of the values of a page
_MAX_SHOWN = 200  # characters of a value in a problem

_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
MISSING = "required, but nothing is selected"


class FieldExtractor:
    """Extracts items by the schemas of collections: an `ItemExtractor`. Picklable."""

    def __init__(self, collections: Sequence[Collection]) -> None:
        self._collections = tuple(collections)

    def __reduce__(self) -> tuple[type[FieldExtractor], tuple[Sequence[Collection]]]:
        return FieldExtractor, (self._collections,)  # compiled expressions cannot be pickled

    @cached_property
    def _schemas(self) -> Mapping[str, Sequence[_Schema]]:
        return {
            each.name: [_Schema(each.name, schema) for schema in each.schemas]
            for each in self._collections
        }

    def read(self, collections: Sequence[str], tree: HtmlTree) -> list[Item]:
        """Return the items of a page for these collections. Never raises on any page."""
        schemas = [
            schema
            for name in collections
            for schema in self._schemas.get(name, ())
            if schema.applies(tree.url)
        ]
        if not schemas:
            return []
        page = _Page(tree)
        return [item for schema in schemas for item in schema.read(page)]


class _Page:
    """The state of a page during the extraction of its items."""

    def __init__(self, tree: HtmlTree) -> None:
        self._tree = tree
        self.values = ValueReader(tree)
        self.characters_left = MAX_CHARACTERS

    @cached_property
    def _xpath_root(self) -> Any | None:
        return xpath_root(self._tree)

    def root(self, selecting: Selecting) -> Any | None:
        return self._tree.root if selecting is CSS else self._xpath_root


@dataclass(slots=True)
class _Record:
    """Validity, missing fields and problems of an item."""

    valid: bool = True
    missing: list[str] = field(default_factory=list)
    problems: list[ItemProblem] = field(default_factory=list)

    def reject(self) -> None:
        """Make the item invalid."""
        self.valid = False

    def add_problem(self, field: _Field, value: str, problem: str) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(
                ItemProblem(field.path, field.selector, value[:_MAX_SHOWN], problem)
            )


class _Schema:
    """A compiled schema."""

    def __init__(self, collection: str, schema: ItemSchema) -> None:
        self._collection, self._name = collection, schema.name
        self._applies = re.compile(schema.url_pattern).search if schema.url_pattern else None
        self._selector = schema.selector
        self._selecting: Selecting = XPATH if schema.xpath else CSS
        self._fields = [
            _Field(name, "", each, self._selecting if self._selector else None)
            for name, each in schema.fields.items()
        ]

    def applies(self, url: str) -> bool:
        return self._applies is None or self._applies(url) is not None

    def read(self, page: _Page) -> list[Item]:
        root = page.root(self._selecting)
        if root is None:
            return [self._without_items()]
        elements = self._selecting.select(root, self._selector) if self._selector else [root]
        items: list[Item] = []
        for element in elements[:MAX_ITEMS]:
            item = self._item(page, element, len(items))
            page.characters_left -= len(item.values)
            if page.characters_left < 0:
                break
            items.append(item)
        return items or [self._without_items()]

    def _without_items(self) -> Item:
        return Item(self._collection, self._name, None, valid=False)

    def _item(self, page: _Page, element: Any, position: int) -> Item:
        record = _Record()
        values = {each.name: each.read(page, element, record) for each in self._fields}
        return Item(
            self._collection,
            self._name,
            position,
            _json(values),
            record.valid,
            tuple(record.missing),
            tuple(record.problems),
        )


class _Field:
    """A compiled field. `around`: the language of the enclosing selector."""

    def __init__(self, name: str, prefix: str, rule: ItemField, around: Selecting | None) -> None:
        self.name, self.path = name, f"{prefix}{name}"
        self.selector = rule.selector
        own = XPATH if rule.xpath else CSS
        self._selecting: Selecting = own if rule.selector or around is None else around
        # without an enclosing item, each field uses the tree of its own language
        self._from_root = around is None
        self._rule, self._type = rule, rule.type
        self._search = re.compile(rule.pattern).search if rule.pattern else None
        self._raw = self._raw_reader(rule)
        inside = self._selecting if rule.selector else around
        self._fields = [
            _Field(inner, f"{self.path}.", each, inside) for inner, each in rule.fields.items()
        ]

    def _raw_reader(self, rule: ItemField) -> Callable[[Any], str | None]:
        selecting, attribute = self._selecting, rule.attribute
        if attribute:
            return lambda element: _cleaned(selecting.attribute(element, attribute))
        if rule.type == "url":
            return lambda element: _cleaned(url_of(selecting, element))
        if rule.type == "html":
            return lambda element: selecting.html(element)[:MAX_HTML]
        return lambda element: _folded(selecting.text(element))

    def read(self, page: _Page, element: Any, record: _Record) -> Any:
        """Return the value of the field in an element; add problems to `record`."""
        if self._from_root:
            element = page.root(self._selecting)
            if element is None:
                return self._nothing(record)
        if self._fields:
            return self._read_objects(page, element, record)
        if self._rule.list:
            return self._read_list(page, element, record)
        text = self._first_text(element)
        if self._type == "boolean":
            return self._boolean(text, page, record)
        if not text:
            return self._nothing(record)
        value = self._value(text, page, record)
        if value is None and self._rule.required:
            record.reject()
        return value

    def _select(self, element: Any) -> Sequence[Any]:
        if not self.selector:
            return [element]
        return self._selecting.select(element, self.selector)

    def _first_text(self, element: Any) -> str | None:
        """Return the first non-empty text."""
        selected = self._selecting.first(element, self.selector) if self.selector else element
        if selected is None:
            return None
        text = self._raw(selected)
        if text or not self.selector:
            return text
        texts = map(self._raw, self._select(element)[1:MAX_VALUES])
        return next((other for other in texts if other), text)

    def _boolean(self, text: str | None, page: _Page, record: _Record) -> bool:
        if text is None:
            return False
        if self._search is not None:
            return self._search(text) is not None
        return bool(page.values.value(text, "boolean"))

    def _nothing(self, record: _Record) -> Any:
        if self._type == "boolean" and not self._fields:
            return False
        record.missing.append(self.path)
        if self._rule.required:
            record.reject()
            record.add_problem(self, "", MISSING)
        return [] if self._rule.list else self._rule.default

    def _value(self, text: str, page: _Page, record: _Record) -> Any:
        """Return the value of a text; if it does not fit, None, and add a problem."""
        if self._search is not None:
            match = self._search(text)
            part = match and (match[1 if match.re.groups else 0] or "").strip()
            if not part:
                record.add_problem(self, text, f"does not match {self._rule.pattern}")
                return None
            text = part
        if self._type in ("text", "html"):
            return text
        try:
            return page.values.value(text, self._type, self._rule.decimal)
        except BadValue as bad:
            record.add_problem(self, text, str(bad))
            return None

    def _read_list(self, page: _Page, element: Any, record: _Record) -> list[Any]:
        texts = [text for each in self._select(element)[:MAX_VALUES] if (text := self._raw(each))]
        if not texts:
            self._nothing(record)
            return []
        values = [self._value(text, page, record) for text in texts]
        fitting = [value for value in values if value is not None]
        if self._rule.required and not fitting:
            record.reject()
        return fitting

    def _read_objects(self, page: _Page, element: Any, record: _Record) -> Any:
        elements = self._select(element)[: MAX_VALUES if self._rule.list else 1]
        if not elements:
            return self._nothing(record)
        objects, missing = [], None
        for each in elements:
            inner = _Record(problems=record.problems)
            objects.append({part.name: part.read(page, each, inner) for part in self._fields})
            if not inner.valid:
                record.reject()
            absent = set(inner.missing)
            missing = absent if missing is None else missing & absent
        record.missing += sorted(missing or ())
        return objects if self._rule.list else objects[0]


def _folded(text: str) -> str:
    """Return the result of `clean`, faster for common texts with line breaks."""
    text = " ".join(text[: 4 * MAX_TEXT].split())
    return text[:MAX_TEXT].rstrip() if text.isprintable() else clean(text, MAX_TEXT)


def _cleaned(value: str | None) -> str | None:
    return None if value is None else clean(value, MAX_TEXT)


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
