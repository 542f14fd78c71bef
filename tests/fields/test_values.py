"""Test parsing of numbers and dates in the notations of pages."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from icu4py.messageformat import MessageFormat

from lycosa.fields.extraction import MAX_NUMBER, BadValue, decimal_separator, read_date, read_number

LOCALES = ("en", "de", "fr", "es", "it", "pt", "ru", "pl", "sv", "de-CH", "hi", "ja", "ar", "fa")


@pytest.mark.parametrize(
    ("text", "language", "number"),
    [
        ("1.299,00 €", "", 1299.0),
        ("1,299.00", "", 1299.0),
        ("$1,299", "", 1299.0),
        ("1.299 €", "", 1299.0),
        ("1.299", "", 1.299),
        ("1.299", "de", 1299.0),
        ("1.299", "en-GB", 1.299),
        ("1,299", "de", 1.299),
        ("1,299", "", 1299.0),
        ("1 299,50 kr", "sv", 1299.5),
        ("1\u202f299,50 €", "fr", 1299.5),
        ("CHF 1'299.95", "de-CH", 1299.95),
        ("1’299", "", 1299.0),
        ("₹ 1,29,999.00", "hi", 129999.0),
        ("R$ 1.234,56", "pt-BR", 1234.56),
        ("1.234.567", "", 1234567.0),
        ("12 345 678", "", 12345678.0),
        ("١٬٢٣٤٫٥", "ar", 1234.5),
        ("£51.77", "", 51.77),
        ("5,-", "", 5.0),
        (".99", "", 0.99),
        ("0.125", "de", 0.125),
        ("-5 °C", "", -5.0),
        ("−$5.50", "", -5.5),
        ("X-200", "", 200.0),
        ("4.5 5 reviews", "", 4.5),
        ("from 10 to 20", "", 10.0),
        ("2000.000", "de", 2000.0),
    ],
)
def test_numbers(text: str, language: str, number: float) -> None:
    assert read_number(text, "", language) == number


@pytest.mark.parametrize("text", ["", "call us", "12.5.2024", "1.2.3", "1,2,3", "9" * 20])
def test_invalid_numbers_are_refused(text: str) -> None:
    with pytest.raises(BadValue):
        read_number(text)


def test_an_explicit_separator_decides() -> None:
    assert read_number("1.299", ",") == 1299.0
    assert read_number("1,299", ",") == 1.299
    with pytest.raises(BadValue, match="separators"):
        read_number("1.5", ",")


def test_an_integer_has_no_decimals() -> None:
    assert read_number("1.234", "", "", is_integer=True) == 1234
    assert read_number("1.234", "", "en", is_integer=True) == 1234


@pytest.mark.parametrize("locale", LOCALES)
@given(number=st.decimals(min_value=-(10**9), max_value=10**9, places=2))
def test_numbers_written_by_icu_are_read_back(locale: str, number: object) -> None:
    written = MessageFormat("{n,number}", locale).format({"n": float(str(number))})
    read = read_number(written.replace("\u200e", "").replace("\u200f", ""), "", locale)
    assert math.isclose(read, float(str(number)), abs_tol=0.006)


@given(st.text(max_size=60), st.sampled_from(["", ".", ","]), st.sampled_from(["", *LOCALES]))
def test_any_text_is_a_number_or_none(text: str, decimal: str, language: str) -> None:
    try:
        number = read_number(text, decimal, language)
    except BadValue:
        return
    assert math.isfinite(number)
    assert abs(number) <= MAX_NUMBER


@given(st.text(max_size=30))
def test_any_language_tag_has_a_separator(tag: str) -> None:
    assert decimal_separator(tag) in (".", ",")


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("2024-05-13T10:20:30+02:00", "2024-05-13T08:20:30Z"),
        ("13.05.2024", "2024-05-13T00:00:00Z"),
        ("Published on May 13th, 2024 by Jane", "2024-05-13T00:00:00Z"),
        ("2024年5月13日", "2024-05-13T00:00:00Z"),
        ("25/12/2023", "2023-12-25T00:00:00Z"),
        ("Mon, 13 May 2024 08:00:00 GMT", "2024-05-13T08:00:00Z"),
    ],
)
def test_dates(text: str, date: str) -> None:
    assert read_date(text) == date


@pytest.mark.parametrize("text", ["yesterday", "03/04/2024", "2024-13-45", "99"])
def test_invalid_and_ambiguous_dates_are_refused(text: str) -> None:
    with pytest.raises(BadValue, match="not a date"):
        read_date(text)
