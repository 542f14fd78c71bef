"""JSON-LD as pages write it: the objects of each script, and the entities in them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

MAX_SCRIPTS = 50
MAX_CHARACTERS = 500_000  # of all scripts of a page that are parsed
MAX_ENTITIES = 500
_MAX_DEPTH = 12

Entity = dict[str, Any]
"""An object of JSON-LD; items of microdata and RDFa are converted to the same form."""

_SCHEMA_ORG = re.compile(r"\A(?:https?://(?:www\.)?schema\.org/|schema:)")
_PREFIXES = ("", "schema:", "https://schema.org/", "http://schema.org/")
_WRAPPING = re.compile(
    r"\A\s*(?:<!--|(?://|/\*)?<!\[CDATA\[(?:\*/)?)|(?:-->|(?://|/\*)?\]\]>(?:\*/)?)\s*+;?\s*+\Z"
)
# An unterminated string or comment extends to the end, so that the time is linear.
_STRING = r'"(?:[^"\\]|\\.?)*+(?:"|\Z)'
_COMMENT = re.compile(rf"{_STRING}|/\*.*?(?:\*/|\Z)|//[^\n]*", re.DOTALL)
_TRAILING_COMMA = re.compile(rf"{_STRING}|,(?=\s*+[}}\]])", re.DOTALL)


def read_scripts(scripts: Sequence[str]) -> list[Any]:
    """Return the values of scripts of type `application/ld+json`; invalid JSON is left out.

    Accepted beyond RFC 8259: control characters in strings, comments, trailing commas, and markup
    comments around the script.
    """
    values = []
    left = MAX_CHARACTERS
    for script in scripts[:MAX_SCRIPTS]:
        left -= len(script)
        if left < 0:
            break
        value = _parse(script)
        if isinstance(value, list):
            values.extend(value)
        elif value is not None:
            values.append(value)
    return values


def _parse(script: str) -> Any:
    try:
        return _decode(script)
    except (ValueError, RecursionError):
        pass
    script = _WRAPPING.sub("", script)
    for repair in (_COMMENT, _TRAILING_COMMA):
        script = repair.sub(_keep_strings, script)
    try:
        return _decode(script.strip().rstrip(";"))
    except (ValueError, RecursionError):
        return None


_decode = json.JSONDecoder(strict=False, parse_constant=lambda _: None).decode


def _keep_strings(match: re.Match[str]) -> str:
    return match[0] if match[0][0] == '"' else ""


def entities(values: Iterable[Any]) -> list[Entity]:
    """Return all objects with a type, outer ones first, at most `MAX_ENTITIES`."""
    collected: list[Entity] = []
    level = [value for value in values if isinstance(value, dict)]
    for _ in range(_MAX_DEPTH):
        inner: list[Entity] = []
        for entity in level:
            if "@type" in entity:
                collected.append(entity)
            if len(collected) >= MAX_ENTITIES:
                return collected
            inner.extend(_inside(entity))
        level = inner
    return collected


def _inside(entity: Entity) -> Iterator[Entity]:
    """Yield the objects of a graph, and the main entity."""
    for name in ("@graph", "mainEntity", "schema:mainEntity"):
        value = entity.get(name)
        if isinstance(value, dict):
            yield value
        elif isinstance(value, list):
            yield from (each for each in value[:MAX_ENTITIES] if isinstance(each, dict))


def value_of(entity: Entity, *names: str) -> Any:
    """Return the first value that is not empty of these properties of schema.org."""
    if not entity:
        return None
    for name in names:
        for prefix in _PREFIXES:
            value = entity.get(prefix + name)
            if value not in (None, "", [], {}):
                return value
    return None


def types_of(entity: Entity) -> list[str]:
    """Return the types without the prefix of schema.org."""
    declared = entity.get("@type")
    names = declared if isinstance(declared, list) else [declared]
    return [
        short for name in names[:10] if isinstance(name, str) and (short := short_type(name)) != ""
    ]


def short_type(name: str) -> str:
    """Shorten `http://schema.org/Product` to `Product`; "" for types of other vocabularies."""
    name = name.strip()
    name = _SCHEMA_ORG.sub("", name[:100].strip())
    return name if name.isalnum() and name.isascii() and len(name) <= 50 else ""


def texts_of(value: Any, limit: int = 50) -> list[str]:
    """Return the strings of a value: itself, those of a list, or of `@value` objects."""
    if value is None:
        return []
    values = value if isinstance(value, list) else [value]
    texts = []
    for each in values[:limit]:
        if isinstance(each, dict):
            each = each.get("@value")
        if isinstance(each, int | float) and not isinstance(each, bool):
            each = _number_text(each)
        if isinstance(each, str) and each.strip():
            texts.append(each)
    return texts


def _number_text(number: float) -> str:
    return str(number) if abs(number) < 1e15 else ""


def text_of(value: Any) -> str:
    """Return the first string of a value, "" for none."""
    return next(iter(texts_of(value)), "")


def named(value: Any, by_id: dict[str, Entity]) -> list[str]:
    """Return the names of persons, organisations and places: strings, or objects with a name or a
    reference to such an object.
    """
    if value is None:
        return []
    values = value if isinstance(value, list) else [value]
    names = []
    for each in values[:50]:
        if isinstance(each, dict):
            target = each
            if not value_of(each, "name", "@value") and isinstance(each.get("@id"), str):
                target = by_id.get(each["@id"], each)
            name = text_of(value_of(target, "name")) or text_of(target)
            if not name:
                parts = [text_of(value_of(target, part)) for part in ("givenName", "familyName")]
                name = " ".join(filter(None, parts))
        else:
            name = text_of(each)
        if name:
            names.append(name)
    return names
