"""What the models of the use cases share: descriptions of fields, and parts of long lists."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_Model = TypeVar("_Model", bound="DataclassInstance")


def doc(description: str) -> dict[str, str]:
    """Return field metadata with the description that the OpenAPI document shows."""
    return {"description": description}


def list_lengths(model: DataclassInstance) -> dict[str, int]:
    """Return the length of each list of a model, by field."""
    values = {field.name: getattr(model, field.name) for field in fields(model)}
    return {name: len(value) for name, value in values.items() if isinstance(value, list)}


def with_list_part(model: _Model, offset: int, count: int) -> _Model:
    """Return a model with `count` entries of each list, from `offset` on."""
    parts = {name: getattr(model, name)[offset : offset + count] for name in list_lengths(model)}
    return replace(model, **parts)
