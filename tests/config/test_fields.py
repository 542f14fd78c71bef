"""Item schemas in lycosa.toml: validation, and loading of stored schemas."""

from __future__ import annotations

import sys

import pytest

from lycosa.config.collection import Collection
from lycosa.config.fields import MAX_NESTING, STORED
from lycosa.config.reading import parse_config
from lycosa.core.errors import ConfigError

HEAD = '[[collection]]\nname = "shop"\n'


def _fields(text: str) -> Collection:
    return parse_config(f"{HEAD}[collection.fields]\n{text}").collection[0]


def test_string_is_a_css_selector() -> None:
    [schema] = _fields('title = "h1"').schemas
    assert (schema.name, schema.selector) == ("shop", "")
    assert schema.fields["title"].css == "h1"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('t = "h1["', r"fields\.t\.css: 'h1\[' is not a CSS selector"),
        ('t = "a::attr(href)"', r"pseudo-elements are not supported; .* attribute = 'href'"),
        ('t = { xpath = "//[" }', r"line 4: .*'//\[' is not an XPath expression"),
        ('t = { xpath = "nosuch()" }', "is not an XPath expression"),
        ('t = { css = "a", xpath = "b" }', "write css or xpath, not both"),
        ('t = { csss = "a" }', r"line 4: .*unknown setting 'csss'; did you mean 'css'\?"),
        ('t = { css = "a", fields = { x = { cs = "b" } } }', "unknown setting 'cs'"),
        ('t = { css = "a", type = "int" }', "Input should be 'text', 'integer'"),
        ('t = { css = "a", pattern = "(" }', "not a regular expression"),
        ('t = { css = "a", decimal = "," }', "`decimal` is for the type number, not text"),
        ('t = { css = "a", fields = { x = "b" }, pattern = "x" }', "is an object, and has no pattern"),
        ('t = { css = "a", type = "integer", default = "x" }', "is not of the type integer"),
        ('t = { css = "a", type = "date", default = "x" }', "is not an ISO 8601 date"),
        ('t = { css = "a", list = true, default = "x" }', "have no default"),
        ('t = { css = "a", required = true, default = "x" }', "a required field has no default"),
        ('url = "a"', "'url' is a column of all items; rename the field"),
        ('"9" = "a"', "should match pattern"),
        ('t = { css = "a", fields = { x = { xpath = "b" } } }', "must be CSS, or both XPath"),
        ('t = { xpath = "//a", fields = { x = { xpath = "//b" } } }', r"write './/b'"),
        (f"t = {'{ fields = { a = ' * 9}'b'{' } }' * 9}", f"at most {MAX_NESTING} deep"),
        ("\n".join(f'f{number} = "a"' for number in range(201)), "at most 200 fields"),
    ],
)  # fmt: skip
def test_invalid_fields_are_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        _fields(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[collection.items]]\nname = "A"\nfields = { t = "a" }', "does not have the required"),
        ('[[collection.items]]\nname = "a"', "Field required"),
        ('[[collection.items]]\nname = "a"\nfields = {}', "at least 1"),
        (
            '[collection.fields]\nt = "a"\n[[collection.items]]\nname = "shop"\nfields = { t = "a" }',
            "two schemas of items are named 'shop'",
        ),
        (
            '[[collection.items]]\nname = "a-b"\nfields = { t = "a" }\n'
            '[[collection.items]]\nname = "a_b"\nfields = { t = "a" }',
            "two schemas of items are named 'a_b'",
        ),
    ],
)
def test_invalid_schemas_are_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_config(HEAD + text)


def test_stored_schemas_are_read_without_lxml(monkeypatch: pytest.MonkeyPatch) -> None:
    collection = _fields('t = { xpath = "//h1[2]" }')
    stored = collection.model_dump(mode="json")
    assert Collection.model_validate(stored) == collection
    monkeypatch.setitem(sys.modules, "lxml", None)
    assert Collection.model_validate(stored, context=STORED) == collection
    with pytest.raises(ConfigError, match=r"require lxml: pip install 'lycosa\[xpath\]'"):
        _fields('t = { xpath = "//h1[3]" }')
