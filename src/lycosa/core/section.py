"""What the sections of the configuration are made of: a closed model, and values with their unit."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer

from lycosa.core.errors import UsageError
from lycosa.core.units import format_duration, parse_duration_ms, parse_size, write_size


def _duration(value: object) -> object:
    if isinstance(value, str):
        try:
            return parse_duration_ms(value)
        except UsageError as error:
            raise ValueError(str(error)) from None
    if type(value) is int and value == 0:
        return 0
    raise ValueError("write a duration as text with its unit, as in '10s'")


def _size(value: object) -> object:
    if isinstance(value, str):
        try:
            return parse_size(value)
        except UsageError as error:
            raise ValueError(str(error)) from None
    if type(value) is int and value == 0:
        return 0
    raise ValueError("write a size as text with its unit, as in '10MiB'")


DurationMs = Annotated[int, BeforeValidator(_duration), PlainSerializer(format_duration, when_used="json")]
Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
"""The name of an environment variable."""
SizeBytes = Annotated[int, BeforeValidator(_size), PlainSerializer(write_size, when_used="json")]


class Section(BaseModel):
    """One table of lycosa.toml: an unknown key is an error, and nothing changes after it was read."""

    model_config = ConfigDict(extra="forbid", frozen=True)
