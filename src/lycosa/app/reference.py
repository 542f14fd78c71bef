"""The reference pages that come from the code itself: settings and columns from their schemas, the query language from its parser."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel

from lycosa.app.template import SECTIONS, toml_value
from lycosa.core.config import Collection, Config
from lycosa.core.credentials import BasicAuth, FormLogin
from lycosa.core.monitor import Monitor
from lycosa.search.syntax import syntax_page
from lycosa.store.schema import TABLES

_SETTINGS_HEAD = """# Settings

`lycosa.toml` in the workspace holds them; `lycosa init` writes one with every setting at its default. `--set section.key=value` overrides
any of them for one call, before or after the command's name, as often as you like; with `collection.` it holds for every collection.
Durations and sizes carry their unit: `500ms`, `10s`, `2h`, `1d`; `64KiB`, `10MiB`. An unknown setting is an error that names its line and
the nearest known name. This page is made from the schema (`scripts/make_docs.py`).
"""

_FORMATS_TABLES_HEAD = """# Table columns

Every table is a set of Parquet files; the live rows are what `lycosa sql` and the Python API read (see [formats.md](formats.md)).
Columns are a public contract: new ones may come, none changes its meaning. Times are UTC with milliseconds; keys are xxh3_64,
unsigned. This page is made from the schema (`scripts/make_docs.py`).
"""


def settings_page() -> str:
    """docs/settings.md."""
    config = Config()
    parts = [_SETTINGS_HEAD]
    for section in SECTIONS:
        model = getattr(config, section)
        parts.append(f"## [{section}]\n\n{(type(model).__doc__ or '').strip()}\n\n{_settings_table(model)}")
    parts.append(f"## [[collection]]\n\n{(Collection.__doc__ or '').strip()}\n\n{_settings_table(Collection())}")
    for name, model in (("auth", BasicAuth), ("login", FormLogin)):
        parts.append(f"## [[collection.{name}]]\n\n{' '.join((model.__doc__ or '').split())}\n\n{_required_table(model)}")
    parts.append(f"## [[monitor]]\n\n{(Monitor.__doc__ or '').strip()}\n\n{_required_table(Monitor)}")
    return "\n".join(parts)


def _required_table(model: type[BaseModel]) -> str:
    """The settings of a table that has no defaults as a whole."""
    rows = ["| setting | default | meaning |", "|---|---|---|"]
    required = {name: None for name, field in model.model_fields.items() if field.is_required()}
    plain = model.model_construct(**required).model_dump(mode="json", warnings=False)
    for name, field in model.model_fields.items():
        default = "required" if field.is_required() else f"`{toml_value(plain[name])}`"
        rows.append(f"| `{name}` | {default} | {field.description} |")
    return "\n".join(rows) + "\n"


def _settings_table(values: BaseModel) -> str:
    plain: Mapping[str, Any] = values.model_dump(mode="json")
    rows = ["| setting | default | meaning |", "|---|---|---|"]
    for name, field in type(values).model_fields.items():
        default = "not set" if plain[name] is None else f"`{toml_value(plain[name])}`"
        rows.append(f"| `{name}` | {default} | {field.description} |")
    return "\n".join(rows) + "\n"


def tables_page() -> str:
    """docs/tables.md."""
    parts = [_FORMATS_TABLES_HEAD]
    for table in TABLES.values():
        rows = ["| column | type | meaning |", "|---|---|---|"]
        rows += [
            f"| `{column.name}` | {column.type}{' or null' if column.nullable else ''} | {column.meaning} |" for column in table.columns
        ]
        parts.append(f"## {table.name}\n\n{table.meaning}\n\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


PAGES: Mapping[str, Callable[[], str]] = {"settings.md": settings_page, "tables.md": tables_page, "query.md": syntax_page}
"""File in docs/ -> what it must hold."""
