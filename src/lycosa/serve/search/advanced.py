"""The advanced form: its fields become a query in the query language, which it shows, so that
people learn to write it.
"""

from __future__ import annotations

from collections.abc import Mapping

ADVANCED = (
    *(
        "all",
        "phrase",
        "any",
        "none",
        "title",
        "address",
        "anchor",
        "site",
        "lang",
        "type",
        "after",
        "before",
    ),
    *("sort", "in", "across"),
)
"""The form's fields. The last three are no part of the query: order, collection, languages that are
asked too.
"""

_OPERATORS = {
    "title": "intitle:",
    "address": "inurl:",
    "anchor": "inanchor:",
    "type": "filetype:",
    "after": "after:",
    "before": "before:",
}


def built_query(fields: Mapping[str, str]) -> str:
    """The query that the fields ask for. `any` and `none` are words with spaces between, `site` may
    be several.
    """
    values = {name: " ".join(text.split()) for name, text in fields.items()}
    parts = [values.get("all", "")]
    if values.get("phrase"):
        parts.append('"' + values["phrase"].replace('"', " ") + '"')
    parts.append(" OR ".join(values.get("any", "").split()))
    parts.extend(
        f"-{word.lstrip('-')}" for word in values.get("none", "").split() if word.lstrip("-")
    )
    parts.extend(
        f"{operator}{_value(values[name])}"
        for name, operator in _OPERATORS.items()
        if values.get(name)
    )
    parts.extend(f"site:{site}" for site in values.get("site", "").split())
    if values.get("lang"):
        parts.append(f"lang:{values['lang']}")
    return " ".join(part for part in parts if part)


def _value(text: str) -> str:
    return '"' + text.replace('"', " ") + '"' if " " in text else text
