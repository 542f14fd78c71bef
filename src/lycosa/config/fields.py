"""`[[collection.items]]` and `[collection.fields]`: extraction of items."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import cache
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, ValidationInfo, model_validator

from lycosa.config.section import Expression, SettingsSection

FieldType = Literal["text", "integer", "number", "date", "url", "boolean", "html"]

RESERVED = frozenset(
    {"url", "collection", "position", "fetched_at", "record_id", "valid", "problems"}
)
"""Columns of every table of items: no field may have one of these names."""

ITEM_TABLES = "items_"
"""Prefix of the names of schemas as tables in SQL."""

MAX_FIELDS = 200  # of a schema
MAX_NESTING = 8
REGULAR_EXPRESSIONS = {"re": "http://exslt.org/regular-expressions"}
"""Namespaces of XPath selectors, as in Parsel: `re:test(@href, "page=\\d+")`."""


STORED: Mapping[str, bool] = {"stored": True}
"""Context of a validation of settings that a crawl has stored: selectors are not compiled."""


def _css(selector: str, info: ValidationInfo) -> str:
    if selector and info.context is not STORED:
        _check_css(selector)
    return selector


def _xpath(selector: str, info: ValidationInfo) -> str:
    if selector and info.context is not STORED:
        _check_xpath(selector)
    return selector


@cache
def _check_css(selector: str) -> None:
    # Imported here: only a configuration with selectors needs the parser.
    from selectolax.lexbor import LexborHTMLParser, SelectolaxError

    if "::" in selector:
        raise ValueError(
            f"{selector!r}: pseudo-elements are not supported; write the selector of the element, "
            "and attribute = 'href' for the value of an attribute"
        )
    try:
        LexborHTMLParser("<p>").css(selector)
    except SelectolaxError:
        raise ValueError(f"{selector!r} is not a CSS selector") from None


@cache
def _check_xpath(selector: str) -> None:
    try:
        from lxml import etree
    except ImportError:
        raise ValueError(
            "XPath selectors require lxml: pip install 'lycosa[xpath]', or write a CSS selector"
        ) from None
    try:
        etree.XPath(selector, namespaces=REGULAR_EXPRESSIONS)(etree.Element("html"))
    except (etree.XPathError, ValueError) as error:
        raise ValueError(f"{selector!r} is not an XPath expression: {error}") from None


_Css = Annotated[str, AfterValidator(_css)]
_Xpath = Annotated[str, AfterValidator(_xpath)]
_FieldName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")]
_DEFAULTS: Mapping[str, tuple[type, ...]] = {
    "text": (str,),
    "html": (str,),
    "url": (str,),
    "date": (str,),
    "integer": (int,),
    "number": (int, float),
}


class _Selecting(SettingsSection):
    css: _Css = Field(
        "",
        max_length=1_000,
        description="CSS selector. Empty, without `xpath`: the element around it.",
    )
    xpath: _Xpath = Field(
        "",
        max_length=1_000,
        description="XPath 1.0 expression, in place of `css`. Requires the extra `xpath`.",
    )

    @property
    def selector(self) -> str:
        return self.css or self.xpath

    @model_validator(mode="after")
    def _one_selector(self) -> Self:
        if self.css and self.xpath:
            raise ValueError("write css or xpath, not both")
        return self


class ItemField(_Selecting):
    """A field: its selector and its type. A text in place of a table is a CSS selector."""

    attribute: str = Field(
        "",
        max_length=100,
        description="Attribute that has the value. Empty: the text of the element. For the type "
        "`url`, empty means `href`, `src` or `content`.",
    )
    type: FieldType = Field(
        "text",
        description="Type of the value: `text`, `integer`, `number`, `date`, `url`, `boolean` or "
        "`html`. `boolean`: whether anything is selected, unless it is `false`, `no`, `off` or "
        "`0`.",
    )
    list: bool = Field(False, description="All values, as a list. `false`: only the first.")
    required: bool = Field(
        False, description="An item without this field is not valid, and not exported."
    )
    default: str | int | float | None = Field(
        None, description="Value where nothing is selected. Not set: null."
    )
    pattern: Expression = Field(
        "",
        max_length=1_000,
        description="Regular expression. The value is its first group, or else its match.",
    )
    decimal: Literal["", ".", ","] = Field(
        "",
        description="Decimal separator of numbers. Empty: by the number and, where it has two "
        "meanings, by the language of the page.",
    )
    fields: Mapping[_FieldName, ItemField] = Field(
        {},
        description="Fields of a nested object. Their selectors select inside its element.",
    )

    @model_validator(mode="before")
    @classmethod
    def _of_text(cls, value: Any) -> Any:
        return {"css": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.fields:
            alone = {"attribute": "", "type": "text", "default": None, "pattern": "", "decimal": ""}
            wrong = [name for name, default in alone.items() if getattr(self, name) != default]
            if wrong:
                raise ValueError(f"a field with `fields` is an object, and has no {wrong[0]}")
        if self.decimal and self.type != "number":
            raise ValueError(f"`decimal` is for the type number, not {self.type}")
        if self.default is not None:
            self._check_default(self.default)
        return self

    def _check_default(self, default: str | int | float) -> None:
        if self.list or self.type == "boolean":
            raise ValueError("a list and a boolean have no default: they are [] and false")
        if self.required:
            raise ValueError("a required field has no default")
        if not isinstance(default, _DEFAULTS[self.type]):
            raise ValueError(f"the default {default!r} is not of the type {self.type}")
        if self.type == "date":
            try:
                datetime.fromisoformat(str(default))
            except ValueError:
                raise ValueError(f"the default {default!r} is not an ISO 8601 date") from None


class ItemSchema(_Selecting):
    """Items of one kind: the pages and elements that they are in, and their fields."""

    name: str = Field(
        "item",
        pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$",
        description="Name of the schema: lower-case letters, digits, `-` and `_`. Its SQL table is "
        "`items_NAME`.",
    )
    url_pattern: Expression = Field(
        "",
        max_length=1_000,
        description="Regular expression. The schema applies to pages of which it matches a part of "
        "the URL. Empty: all HTML pages of the collection.",
    )
    fields: Mapping[_FieldName, ItemField] = Field(
        min_length=1, description="Fields: a selector, or a table of the settings below, by name."
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if wrong := RESERVED.intersection(self.fields):
            raise ValueError(f"{min(wrong)!r} is a column of all items; rename the field")
        if sum(1 for _ in self.walk()) > MAX_FIELDS:
            raise ValueError(f"a schema has at most {MAX_FIELDS} fields")
        for _, field, parents in self.walk():
            if len(parents) > MAX_NESTING:
                raise ValueError(f"fields are nested at most {MAX_NESTING} deep")
            around = next((each for each in reversed(parents) if each.selector), None)
            if around is not None and field.xpath.startswith("/"):
                raise ValueError(
                    f"{field.xpath!r} starts at the page, not inside {around.selector!r}; write "
                    f"'.{field.xpath}'"
                )
            if around is not None and field.selector and bool(around.css) != bool(field.css):
                raise ValueError(
                    f"{field.selector!r} selects inside {around.selector!r}: both must be CSS, or "
                    "both XPath"
                )
        return self

    def walk(self) -> Iterator[tuple[str, ItemField, tuple[_Selecting, ...]]]:
        """Yield dotted name, field and enclosing selections of all fields.

        Nested fields are included.
        """
        yield from _walk("", self.fields, (self,))


def _walk(
    prefix: str, fields: Mapping[str, ItemField], parents: tuple[_Selecting, ...]
) -> Iterator[tuple[str, ItemField, tuple[_Selecting, ...]]]:
    for name, field in fields.items():
        yield f"{prefix}{name}", field, parents
        yield from _walk(f"{prefix}{name}.", field.fields, (*parents, field))
