"""The commented lycosa.toml that `init` writes, made from the schema so that it cannot drift."""

from __future__ import annotations

import textwrap
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from lycosa.config.collection import Collection
from lycosa.config.reading import parse_config
from lycosa.config.settings import Config

SECTIONS = ("fetch", "crawl", "index", "store", "run", "cluster", "serve", "search", "notify")


def configuration_template() -> str:
    """Return a configuration file: all settings with description and default, commented out, and an
    example collection.
    """
    parts = [
        "# Lycosa configuration. All settings are shown with their defaults. To change a setting, "
        "remove the #\n# and edit the value. Durations and sizes need a unit.\n"
    ]
    config = Config()
    for section in SECTIONS:
        model = getattr(config, section)
        parts.append(f"[{section}]\n" + "\n".join(setting_lines(type(model), model)))
    example = Collection()
    parts.append(
        "# A collection is a set of seeds with its own rules and schedule. Repeat the section for "
        "each collection.\n# [[collection]]\n" + "\n".join(setting_lines(Collection, example))
    )
    text = "\n".join(parts)
    parse_config(text)
    return text


def setting_lines(model: type[BaseModel], values: BaseModel) -> list[str]:
    """Return the fields of a section as commented TOML."""
    plain = values.model_dump(mode="json")
    return [_setting(name, field, plain[name]) for name, field in model.model_fields.items()]


def _setting(name: str, field: FieldInfo, value: Any) -> str:
    text = "\n".join(
        textwrap.wrap(field.description or "", 110, initial_indent="# ", subsequent_indent="# ")
    )
    return f"{text}\n# {name} = {toml_value(value)}\n"


def toml_value(value: Any) -> str:
    """Return a default as TOML; None (no limit) as an empty example."""
    if value is None:
        return "…  (not set)"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {toml_value(item)}" for name, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(toml_value(item) for item in value) + "]"
    return str(value)
