#!/usr/bin/env python3
"""Gather the messages of the pages into `src/lycosa/serve/web/translations/*.po`, beside the
translations that are there.

Messages are the texts in the templates' `t(…)` and `th(…)`, and in `message(…)` of the code. What
is new is empty until somebody translates it, what nobody says any more is taken out. With --check
nothing is written: it fails if a file would change.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import polib
from jinja2 import Environment, nodes

SERVE = Path(__file__).resolve().parent.parent / "src" / "lycosa" / "serve"

_SAID = "Message("
CALLED = ("HTTPException", "Message", "_unauthorised", "message", "t", "html")


def template_messages(path: Path) -> Iterator[str]:
    """Every text in the first argument of `t` and `th`: there may be several, where a condition
    chooses.
    """
    tree = Environment(autoescape=True).parse(path.read_text(encoding="utf-8"))
    for call in tree.find_all(nodes.Call):
        if isinstance(call.node, nodes.Name) and call.node.name in ("t", "th") and call.args:
            first = call.args[0]
            texts = [first] if isinstance(first, nodes.Const) else []
            if isinstance(first, nodes.CondExpr):
                texts = [
                    each for each in (first.expr1, first.expr2) if isinstance(each, nodes.Const)
                ]
            yield from (text.value for text in texts if isinstance(text.value, str))


def code_messages(path: Path) -> Iterator[str]:
    """Every text in `message(…)`, `words.t(…)` and `words.html(…)`, the titles of
    `HTTPException(…)`, which a page shows, and the second of `Message(CODE, …)`.
    """
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        called = (
            node.func.attr
            if isinstance(node.func, ast.Attribute)
            else node.func.id
            if isinstance(node.func, ast.Name)
            else ""
        )
        first = (
            node.args[1]
            if called in ("HTTPException", "Message") and len(node.args) > 1
            else node.args[0]
        )
        if called in CALLED and isinstance(first, ast.Constant) and isinstance(first.value, str):
            yield first.value


def said_messages() -> dict[str, str]:
    """The messages of `Message(CODE, …)` outside of the pages, and a file that says each."""
    paths = (path for path in sorted(SERVE.parent.rglob("*.py")) if SERVE not in path.parents)
    return {
        text: str(path.relative_to(SERVE.parent))
        for path in paths
        if _SAID in path.read_text()
        for text in code_messages(path)
    }


def messages() -> dict[str, list[str]]:
    """Each message and the files that say it, in the order of the files."""
    found: dict[str, list[str]] = {}
    for path in sorted(SERVE.glob("*/templates/*")):
        for text in template_messages(path):
            found.setdefault(text, []).append(str(path.relative_to(SERVE)))
    for path in sorted(SERVE.rglob("*.py")):
        for text in code_messages(path):
            found.setdefault(text, []).append(str(path.relative_to(SERVE)))
    for text, place in said_messages().items():
        found.setdefault(text, []).append(place)
    return {text: list(dict.fromkeys(places)) for text, places in found.items()}


def catalog(code: str, found: dict[str, list[str]]) -> polib.POFile:
    """The file of a language as it should be."""
    path = SERVE / "web" / "translations" / f"{code}.po"
    before = (
        {entry.msgid: entry.msgstr for entry in polib.pofile(str(path))} if path.exists() else {}
    )
    made = polib.POFile(wrapwidth=140)
    made.metadata = {
        "Content-Type": "text/plain; charset=UTF-8",
        "Content-Transfer-Encoding": "8bit",
        "Language": code,
    }
    for text, places in found.items():
        made.append(
            polib.POEntry(
                msgid=text,
                msgstr=before.get(text, ""),
                occurrences=[(place, "") for place in places],
            )
        )
    return made


def main() -> int:
    """0: all is written, or with --check as it should be and translated."""
    found = messages()
    wrong = 0
    for path in sorted(SERVE.glob("web/translations/*.po")):
        made = catalog(path.stem, found)
        missing = [entry.msgid for entry in made if not entry.msgstr]
        stale = str(made) + "\n" != path.read_text(encoding="utf-8")
        if "--check" in sys.argv:
            wrong += bool(missing or stale)
        else:
            path.write_text(str(made) + "\n", encoding="utf-8")
        print(
            f"{path.stem}: {len(made) - len(missing)} of {len(made)} messages"
            + (", not collected again" if stale and "--check" in sys.argv else "")
        )
        for text in missing:
            print(f"  {text}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
