"""`dataclass` as in the standard library, but four times as fast to define; helpers for models.

The standard library compiles six methods of each class, which took a fifth of the start of a crawl
(docs/decisions/0036-start-up.md). Here only `__init__` is compiled; the others are shared code.
Type checkers refuse assignments to fields of frozen classes; there is no check at run time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass

    from _typeshed import DataclassInstance
else:

    def dataclass(*, slots: bool = False, frozen: bool = False) -> Callable[[type], type]:
        """Return a decorator. `frozen` classes have a hash."""

        def decorate(cls: type) -> type:
            own = vars(cls).keys()
            cls = dataclasses.dataclass(cls, slots=slots, eq=False, repr=False)
            if "__eq__" not in own:
                _add_comparison(cls, frozen)
            if "__repr__" not in own:
                cls.__repr__ = _repr
            return cls

        return decorate


def _add_comparison(cls: Any, frozen: bool) -> None:
    names = [field.name for field in dataclasses.fields(cls) if field.compare]
    values: Callable[[Any], tuple[Any, ...]] = (
        attrgetter(*names)
        if len(names) > 1  # for one name it does not return a tuple
        else lambda self: tuple(getattr(self, name) for name in names)
    )

    def equal(self: Any, other: Any) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return values(self) == values(other)

    cls.__eq__ = equal
    cls.__hash__ = (lambda self: hash(values(self))) if frozen else None


@recursive_repr()
def _repr(self: Any) -> str:
    values = (
        f"{field.name}={getattr(self, field.name)!r}"
        for field in dataclasses.fields(self)
        if field.repr
    )
    return f"{type(self).__qualname__}({', '.join(values)})"


_Model = TypeVar("_Model", bound="DataclassInstance")


def doc(description: str) -> dict[str, str]:
    """Return field metadata with the description that the OpenAPI document shows."""
    return {"description": description}


def list_lengths(model: DataclassInstance) -> dict[str, int]:
    """Return the length of each list of a model, by field."""
    values = {field.name: getattr(model, field.name) for field in dataclasses.fields(model)}
    return {name: len(value) for name, value in values.items() if isinstance(value, list)}


def with_list_part(model: _Model, offset: int, count: int) -> _Model:
    """Return a model with `count` entries of each list, from `offset` on."""
    parts = {name: getattr(model, name)[offset : offset + count] for name in list_lengths(model)}
    return dataclasses.replace(model, **parts)
