"""Base class and value types of the sections of the configuration."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic.fields import FieldInfo

from lycosa.core.errors import UsageError
from lycosa.core.units import format_duration, parse_duration_ms, parse_size, write_size


def _duration(value: object) -> int:
    return _with_unit(
        value, parse_duration_ms, "write a duration as text with its unit, as in '10s'"
    )


def _size(value: object) -> int:
    advice = "write a size as text with its unit, as in '10MiB'"
    return _with_unit(value, parse_size, advice)


def _with_unit(value: object, parse: Callable[[str], int], advice: str) -> int:
    if isinstance(value, str):
        try:
            return parse(value)
        except UsageError as error:
            raise ValueError(str(error)) from None
    if type(value) is int and value == 0:
        return 0
    raise ValueError(advice)


def _expression(value: str) -> str:
    try:
        re.compile(value)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"not a regular expression: {error}") from None
    return value


DurationMs = Annotated[
    int, BeforeValidator(_duration), PlainSerializer(format_duration, when_used="json")
]
Expression = Annotated[str, AfterValidator(_expression)]
Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
"""The name of an environment variable."""
SizeBytes = Annotated[int, BeforeValidator(_size), PlainSerializer(write_size, when_used="json")]


_NUMBERS = (int, float, int | None, float | None)
_BOUNDS = {
    "greater_than_equal": ("ge", "at least"),
    "greater_than": ("gt", "more than"),
    "less_than_equal": ("le", "at most"),
}


def fault_text(problem: Any, field: FieldInfo | None) -> str:
    """Return a message about a value, with bounds in the unit of the setting.

    `problem`: from `ValidationError.errors`.
    """
    if problem["type"] == "string_pattern_mismatch" and field is not None and field.description:
        return f"does not have the required form: {field.description.rstrip('.')}"
    bound = _BOUNDS.get(problem["type"])
    if bound is None:
        if problem["type"] == "tuple_type":
            return 'must be a list in square brackets, as in ["a", "b"]'
        return str(problem["msg"]).removeprefix("Value error, ")
    limit = problem["ctx"][bound[0]]
    readers = [getattr(each, "func", None) for each in field.metadata] if field is not None else []
    shown = (
        format_duration(limit)
        if _duration in readers
        else write_size(limit)
        if _size in readers
        else f"{limit:,}"
    )
    return f"must be {bound[1]} {shown}"


def first_fault(error: ValidationError, model: type[BaseModel]) -> str:
    """Return `NAME: message` for the first error of a flat model."""
    problem = error.errors()[0]
    name = str(problem["loc"][0]) if problem["loc"] else ""
    if problem["type"] == "extra_forbidden":
        return f"unknown setting {name!r}; {nearest_setting(name, list(model.model_fields))}"
    return f"{name}: {fault_text(problem, model.model_fields.get(name))}"


def nearest_setting(word: str, names: list[str]) -> str:
    """Return a question with the most similar name, else all names."""
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names)}"


class SettingsSection(BaseModel):
    """A section of lycosa.toml: immutable, and an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @field_validator("*", mode="before")
    @classmethod
    def _number(cls, value: object, info: ValidationInfo) -> object:
        field = cls.model_fields[str(info.field_name)]
        has_unit = any(isinstance(each, BeforeValidator) for each in field.metadata)
        # pydantic reads booleans as 0 and 1: `max_pages = false` would fetch nothing
        if isinstance(value, bool) and field.annotation in _NUMBERS and not has_unit:
            raise ValueError("must be a number; remove the line for the default")
        return value
