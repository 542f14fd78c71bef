"""Read lycosa.toml and `--set section.key=value`.

Errors name the line, and for an unknown setting the nearest known one.
"""

from __future__ import annotations

import os
import reprlib
import tomllib
from collections import Counter
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, TypeVar, get_args, get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from lycosa.config.collection import Collection
from lycosa.config.section import SettingsSection, fault_text, nearest_setting
from lycosa.config.settings import Config
from lycosa.core.errors import ConfigError

_Section = TypeVar("_Section", bound=SettingsSection)

# Errors shown with their line; finding one takes quadratic time in the lines of the file.
_MAX_WITH_LINE = 20
_MAX_SHOWN = 200  # characters of a key or value in a message


class _ShortRepr(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxlong = self.maxother = _MAX_SHOWN


_SHORT = _ShortRepr()


def parse_config(
    text: str,
    source: str = "lycosa.toml",
    overrides: tuple[str, ...] = (),
    bad: MutableMapping[str, str] | None = None,
) -> Config:
    """Read a configuration and apply `section.key=value` overrides.

    Values of overrides are TOML; bare words are strings. `collection.key=value` applies to every
    collection, and creates the collection `default` if there is none. With `bad`, invalid
    collections are omitted without an error, and `bad` gets their names and error messages.

    Raises:
        ConfigError: not TOML, an unknown key, or an invalid value.
    """
    try:
        data = tomllib.loads(text.removeprefix("\ufeff"))  # some editors write a byte order mark
    except (ValueError, RecursionError) as error:
        # a number with thousands of digits is a ValueError but not a TOMLDecodeError
        raise ConfigError(f"{source}: {error}") from None
    for override in overrides:
        _apply_override(data, override, source)
    _require_no_nul(data, source)
    config = _validate(data, text, source, overrides, bad)
    collections = _distinct(config.collection, source, bad)
    twice = [
        url for url, number in Counter(each.url for each in config.monitor).items() if number > 1
    ]
    if twice:
        raise ConfigError(f"{source}: two monitors have the URL {twice[0]}; remove one")
    local = "" if "://" in source else source  # these two are not read from remote storage
    paths = {
        "fetch": _with_path(config.fetch, "ca_file", local),
        "crawl": _with_path(config.crawl, "exclusions", local),
    }
    return config.model_copy(update={"collection": collections, **paths})


def _validate(
    data: dict[str, Any],
    text: str,
    source: str,
    overrides: tuple[str, ...],
    bad: MutableMapping[str, str] | None,
) -> Config:
    try:
        return Config.model_validate(data)
    except ValidationError as error:
        problems = [
            (
                problem["loc"],
                _explain(problem, text if number < _MAX_WITH_LINE else "", source, overrides),
            )
            for number, problem in enumerate(error.errors())
        ]
        if bad is None or not all(
            len(location) > 1 and location[0] == "collection" for location, _ in problems
        ):
            messages = [message for _, message in problems[:_MAX_WITH_LINE]]
            if len(problems) > len(messages):
                messages.append(f"{source}: {len(problems) - len(messages)} further errors")
            raise ConfigError("\n".join(messages)) from None
        _leave_out(data, problems, bad)
        return Config.model_validate(data)


def _distinct(
    collections: Sequence[Collection], source: str, bad: MutableMapping[str, str] | None
) -> tuple[Collection, ...]:
    """Return the usable collections, each name once, with the paths of their seed files."""
    good: dict[str, Collection] = {}
    for number, collection in enumerate(collections, 1):
        name = collection.name
        if name not in good:
            good[name] = _with_path(collection, "seed_file", source)
            continue
        problem = f"{source}: two collections are named {name!r}; names must differ"
        if bad is None:
            raise ConfigError(problem)
        bad[f"{name} (number {number})"] = problem
    return tuple(good.values())


def _with_path(section: _Section, name: str, source: str) -> _Section:
    """Return a section with the path in a setting relative to the folder of lycosa.toml."""
    path = getattr(section, name)
    if not path or "://" in path:
        return section
    return section.model_copy(update={name: os.path.join(os.path.dirname(source), path)})


def _leave_out(
    data: dict[str, Any], problems: Sequence[tuple[Any, str]], bad: MutableMapping[str, str]
) -> None:
    """Remove invalid collections; `bad` gets their names and problems."""
    tables = data["collection"]
    wrong = {location[1] for location, _ in problems}
    valid = [number for number in range(len(tables)) if number not in wrong]
    names = {_label(tables, number) for number in valid}
    for location, message in problems:
        label = _label(tables, int(location[1]))
        if label in names:  # another collection has this name
            label = f"{label} (number {int(location[1]) + 1})"
        bad[label] = f"{bad[label]}\n{message}" if label in bad else message
    data["collection"] = [tables[number] for number in valid]


def _label(tables: Sequence[Any], number: int) -> str:
    name = tables[number].get("name") if isinstance(tables[number], dict) else None
    return name if isinstance(name, str) else f"number {number + 1}"


def _require_no_nul(data: dict[str, Any], source: str) -> None:
    """Refuse NUL characters, which cause obscure errors of system and libcurl."""
    waiting: list[Any] = [data]
    while waiting:  # tables can be nested deeper than the recursion limit
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += [*value, *value.values()]
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, str) and "\0" in value:
            raise ConfigError(
                f"{source}: {_shown(value)} contains the character NUL, which is "
                "not allowed in settings"
            )


def _apply_override(data: dict[str, Any], override: str, source: str) -> None:
    path, equals, value = override.partition("=")
    parts = path.strip().split(".")
    if not equals or len(parts) != 2 or not all(parts):
        raise ConfigError(f"--set {override}: write section.key=value, as in fetch.max_body=5MiB")
    section, key = parts
    model = _sections().get(section)
    if model is None:
        raise ConfigError(
            f"--set {override}: there is no section {section!r}; "
            f"{nearest_setting(section, list(_sections()))}"
        )
    if key not in model.model_fields:
        raise ConfigError(
            f"--set {override}: [{section}] has no setting {key!r}; "
            f"{nearest_setting(key, list(model.model_fields))}"
        )
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except (ValueError, RecursionError):
        parsed = value.strip()
    annotation = str(model.model_fields[key].annotation)
    if annotation.startswith("tuple") and not isinstance(parsed, list):
        parsed = [parsed]
    several = section in ("collection", "monitor")
    if section == "monitor" and section not in data:
        return  # there is no monitor to which it applies
    tables = data.setdefault(section, [{}] if several else {})
    for table in tables if several and isinstance(tables, list) else [tables]:
        if not isinstance(table, dict) or (several and table is tables):
            brackets = f"[[{section}]]" if several else f"[{section}]"
            raise ConfigError(
                f"{source}: {section} is a table: write {brackets} and its settings below it"
            )
        table[key] = parsed


def _sections() -> dict[str, type[SettingsSection]]:
    """Return the model of each section by its name."""
    return {
        name: model
        for name, field in Config.model_fields.items()
        if (model := _model_in(field.annotation)) is not None
    }


def _explain(problem: Any, text: str, source: str, overrides: tuple[str, ...]) -> str:
    location = problem["loc"]
    names = [part for part in location if isinstance(part, str)]
    setting = ".".join(names[:2])
    override = next(
        (
            assignment
            for assignment in reversed(overrides)
            if assignment.partition("=")[0].strip() == setting
        ),
        None,
    )
    where = f"{source}{line_of(text, location)}" if override is None else f"--set {override}"
    where = f"{where}: {'.'.join(str(part)[:_MAX_SHOWN] for part in location)}"
    if problem["type"] == "extra_forbidden":
        names_here = list(_fields_at(names[:-1]))
        hint = nearest_setting(names[-1], names_here)
        return f"{where}: unknown setting {_shown(names[-1])}; {hint}"
    if len(location) == 1 and problem["type"] == "tuple_type":
        return f"{where}: write [[{location[0]}]] in double brackets and its settings below it"
    fields = _fields_at(names[:-1]) if names else {}
    message = fault_text(problem, fields.get(names[-1]) if names else None)
    if len(message) > 2 * _MAX_SHOWN:
        message = f"{message[:_MAX_SHOWN]} ... {message[-_MAX_SHOWN:]}"
    return f"{where}: {message} (given: {_shown(problem.get('input'))})"


def _shown(value: object) -> str:
    """Return a short representation of a value."""
    try:
        return _SHORT.repr(value)
    except ValueError:  # a hexadecimal number may have more digits than Python writes
        return "a number with too many digits"


def _fields_at(names: Sequence[str]) -> Mapping[str, FieldInfo]:
    """Return the settings of the section with this path."""
    section: type[SettingsSection] = Config
    is_key = False  # whether the next name is a key that the user has chosen
    for name in names:
        if is_key:
            is_key = False
            continue
        field = section.model_fields.get(name)
        inner = _model_in(field.annotation) if field is not None else None
        if field is None or inner is None:
            break
        section, is_key = inner, get_origin(field.annotation) is Mapping
    return section.model_fields


def _model_in(annotation: Any) -> type[SettingsSection] | None:
    """Return the section that a setting contains, as in `tuple[Collection, ...]`."""
    if isinstance(annotation, type) and issubclass(annotation, SettingsSection):
        return annotation
    models = (_model_in(each) for each in get_args(annotation))
    return next((model for model in models if model is not None), None)


def line_of(text: str, location: tuple[str | int, ...]) -> str:
    """Return `, line N` of the statement that sets `location`; "" if no line is found.

    It is the last line that contains the key's name and before which the file is valid TOML that
    does not set the key. This covers dotted keys, inline tables and multi-line strings.
    """
    names = [part for part in location if isinstance(part, str)]
    if not names:
        return ""
    result = ""
    lines = text.splitlines(keepends=True)
    for number, line in enumerate(lines):
        if names[-1] not in line:
            continue
        try:
            before = tomllib.loads("".join(lines[:number]))
        except tomllib.TOMLDecodeError:
            continue  # inside a text or an array of several lines
        if _is_set(before, location):
            break
        if not line.lstrip().startswith("#"):
            result = f", line {number + 1}"
    return result


def _is_set(data: Any, location: tuple[str | int, ...]) -> bool:
    for part in location:
        held = (
            part in data
            if isinstance(data, dict)
            else isinstance(data, list) and isinstance(part, int) and part < len(data)
        )
        if not held:
            return False
        data = data[part]
    return True
