"""Signatures of the public methods of the Python API, and checks of their arguments."""

from __future__ import annotations

import ast
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from datetime import date, datetime, timedelta
from functools import cache, wraps
from typing import (
    Any,
    NamedTuple,
    Protocol,
    TypeVar,
    cast,
    runtime_checkable,
)

from lycosa.core.errors import LycosaError, UsageError, WorkError
from lycosa.core.parameters import texts

_Method = TypeVar("_Method", bound=Callable[..., Any])


def accepts(arguments: type) -> Callable[[_Method], _Method]:
    """Return a decorator that lists the keyword arguments in the signature of a method.

    `help` and the completion of notebooks then show them, as type checkers do.
    """

    def describe(method: _Method) -> _Method:
        signature = inspect.signature(method)
        named = list(signature.parameters.values())[:-1]  # without **options
        only = inspect.Parameter.KEYWORD_ONLY
        named += [
            inspect.Parameter(name, only, default=..., annotation=annotation.__forward_arg__)
            for name, annotation in arguments.__annotations__.items()
        ]
        vars(method)["__signature__"] = signature.replace(parameters=named)
        return method

    return describe


class CheckedCalls:
    """Base of the classes of the API: public methods check their arguments.

    The types in the signature decide. An argument of another type is a `UsageError`. A path is
    accepted in place of a text, and a text in place of a list.
    """

    def __init_subclass__(cls) -> None:
        for name, method in [*vars(cls).items()]:
            if inspect.isfunction(method) and not name.startswith("_"):
                setattr(cls, name, checked(method))


def checked(method: _Method) -> _Method:
    """Return a method that checks its arguments before the call."""
    signature = inspect.signature(method)
    called = method.__qualname__.removesuffix(".__init__")

    @wraps(method)
    def call(*positional: Any, **named: Any) -> Any:
        try:
            arguments = signature.bind(*positional, **named)
        except TypeError as error:
            raise TypeError(f"{called}: {error}") from None
        for name, value in arguments.arguments.items():
            parameter = signature.parameters[name]
            if parameter.annotation is not parameter.empty:  # not `self`
                place = f"{called}: {name}"
                arguments.arguments[name] = _argument(place, value, parameter, method)
        with system_errors(positional[0] if positional else None):
            return method(*arguments.args, **arguments.kwargs)

    return cast(_Method, call)


@contextmanager
def system_errors(part: Any) -> Iterator[None]:
    """Raise WorkError for an error of the system about a file of a workspace.

    `part`: the `Workspace`, or a group of its methods. Errors of callbacks remain as they are.
    """
    try:
        yield
    except OSError as error:
        from lycosa.core.system_errors import refusal_in

        root = getattr(part, "root", None) or getattr(part, "_root", "")
        message = root and not isinstance(error, LycosaError) and refusal_in(error, root)
        if not message:
            raise
        raise WorkError(message) from error


def _argument(
    place: str, value: Any, parameter: inspect.Parameter, method: Callable[..., Any]
) -> Any:
    """Return the value of an argument, paths as texts and lists as tuples. Raises UsageError."""
    types = _types_of(parameter.annotation)
    in_list = types & _LISTS and not (value is None or ("str" in types and isinstance(value, str)))
    if in_list or parameter.kind is parameter.VAR_POSITIONAL:
        value = texts(place, value)
    elif isinstance(value, os.PathLike) and "str" in types:
        value = os.fspath(value)
    else:
        _require_type(place, value, types, parameter.default, method.__globals__)
    if parameter.name not in _QUERIES:
        for text in value if isinstance(value, tuple) else (value,):
            if isinstance(text, str) and _NOT_TEXT.search(text):
                raise UsageError(
                    f"{place}: {text!r} has a null character or half of a surrogate pair: remove it"
                )
    return value


def _require_type(
    place: str, value: object, types: frozenset[str], default: object, names: Mapping[str, Any]
) -> None:
    """Raise UsageError if a value, or a field of a dataclass, has another type.

    `types`: names of types as in source code. `names`: those of the module that refers to them.
    """
    kinds = [_KINDS.get(name) or _Kind(names[name], f"of type {name}") for name in types - {"None"}]
    if value is None and "None" in types:
        return
    fitting = [kind for kind in kinds if isinstance(value, kind.types)]
    if not fitting or (isinstance(value, bool) and not {"bool", "object"} & types):
        expected = " or ".join(sorted(kind.description for kind in kinds))
        like = f" such as {default!r}" if isinstance(default, str) and default else ""
        hint = "; leave it out for the default" if default is not inspect.Parameter.empty else ""
        raise UsageError(f"{place}: {value!r} is not {expected}{like}{hint}")
    if "int" in types and isinstance(value, int) and not 0 <= value < 2**63:
        raise UsageError(f"{place}: {value} is not {_KINDS['int'].description} and below 2**63")
    if is_dataclass(value):
        names = vars(sys.modules[type(value).__module__])
        for field in fields(value):
            types = _types_of(str(field.type))
            _require_type(f"{place}.{field.name}", getattr(value, field.name), types, None, names)


@cache
def _types_of(annotation: str) -> frozenset[str]:
    """Return the alternatives of a type: `int | None` is "int" and "None"."""

    def alternatives(node: ast.expr) -> list[str]:
        if isinstance(node, ast.BinOp):
            return alternatives(node.left) + alternatives(node.right)
        text = ast.unparse(node)
        return ["Callable" if text.startswith("Callable[") else text]

    return frozenset(alternatives(ast.parse(annotation, mode="eval").body))


class _Kind(NamedTuple):
    types: type | tuple[type, ...]
    description: str


@runtime_checkable
class _Writable(Protocol):
    def write(self, content: bytes, /) -> int: ...


_QUERIES = {"query", "question"}  # of any characters
_NOT_TEXT = re.compile("[\0\ud800-\udc7f\udd00-\udfff]")  # \udc80-\udcff: see `os.fsdecode`
_LISTS = frozenset({"Sequence[str]", "Sequence[Path | str]", "Iterable[str]"})
_SETTINGS = "a mapping such as {'fetch': {'user_agent': 'x'}}, or text such as 'fetch.user_agent=x'"
_KINDS = {
    "str": _Kind(str, "text"),
    "bytes": _Kind(bytes, "bytes"),
    "int": _Kind(int, "an integer of at least 0"),
    "bool": _Kind(bool, "True or False"),
    "date": _Kind(date, "a date or time"),
    "Path": _Kind(os.PathLike, "a path"),
    "os.PathLike[str]": _Kind(os.PathLike, "a path"),
    "object": _Kind(object, "a value"),
    "Callable": _Kind(Callable, "a function"),  # type: ignore[arg-type]
    "BinaryIO": _Kind(_Writable, "a file that is open for writing"),
    "MutableMapping[str, str]": _Kind(MutableMapping, "a dictionary"),
    "Duration": _Kind(
        (str, int, float, timedelta), "a duration: seconds, a timedelta, or text such as '10m'"
    ),
    "Settings": _Kind((Mapping, str, Iterable), _SETTINGS),
    "VersionName": _Kind((str, int, datetime), "the number or time of a version"),
    **dict.fromkeys(_LISTS, _Kind((str, Iterable), "a list of texts")),
}
