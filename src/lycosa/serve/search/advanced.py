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
    given = {name: " ".join(text.split()) for name, text in fields.items()}
    parts = [given.get("all", "")]
    if given.get("phrase"):
        parts.append('"' + given["phrase"].replace('"', " ") + '"')
    parts.append(" OR ".join(given.get("any", "").split()))
    parts.extend(
        f"-{word.lstrip('-')}" for word in given.get("none", "").split() if word.lstrip("-")
    )
    parts.extend(
        f"{operator}{_value(given[name])}"
        for name, operator in _OPERATORS.items()
        if given.get(name)
    )
    parts.extend(f"site:{site}" for site in given.get("site", "").split())
    if given.get("lang"):
        parts.append(f"lang:{given['lang']}")
    return " ".join(part for part in parts if part)


def _value(text: str) -> str:
    return '"' + text.replace('"', " ") + '"' if " " in text else text
