"""Apply the wording rules of CONTRIBUTING.md to all texts that users read.

Usage: python -m tests.wording [--list] [PATH]...

It prints the violations, or with --list the texts, in all files or in those below PATH.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, nodes

ROOT = Path(__file__).resolve().parent.parent
MAX_COLUMNS = 100
MAX_SENTENCE_WORDS = 25

ALLOWED: Mapping[str, tuple[str, ...]] = {
    "faults": ("faults list[text]",),
    "grant": ("grant this account access",),
}
"""Exceptions: phrase -> texts around it in which it is allowed."""

_DOCUMENTS = (
    "*.md",
    "docs/**/*.md",
    "bench/*.md",
    "examples/*.md",
    "src/lycosa/commands/demo/web/*.md",
)
_CODE_SPAN = re.compile(r"`[^`]*`")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_NUMBER_WITHOUT_ZERO = re.compile(r"(?<![\w.\])/*:])\.\d+(?!\d*em)")
_SENTENCE_END = re.compile(r"(?<=[.!?:;])[)\"”]*\s+")
_WORD = re.compile(r"\w")


class Text(NamedTuple):
    """One text that users read."""

    path: str
    line: int
    content: str


@cache
def terms() -> dict[str, str]:
    """Return the table "Terms" of CONTRIBUTING.md: phrase to avoid -> replacement."""
    section = (
        (ROOT / "CONTRIBUTING.md")
        .read_text(encoding="utf-8")
        .partition("\n## Terms\n")[2]
        .partition("\n## ")[0]
    )
    rows = re.findall(r"^\| (?!avoid|---)(.+?) \| (.+?) \|$", section, flags=re.M)
    return {
        phrase.strip(): replacement
        for phrases, replacement in rows
        for phrase in phrases.split(",")
    }


@cache
def _terms_pattern() -> re.Pattern[str]:
    phrases = sorted(terms(), key=len, reverse=True)
    return re.compile(r"(?<![\w-])(" + "|".join(map(re.escape, phrases)) + r")(?![\w-])", re.I)


def problems(text: Text) -> Iterator[str]:
    """Describe each violation of CONTRIBUTING.md in a text."""
    prose = _CODE_SPAN.sub("`…`", text.content)
    for match in _terms_pattern().finditer(prose):
        phrase = match[1].lower()
        around = prose[max(match.start() - 40, 0) : match.end() + 40]
        if not any(part in around for part in ALLOWED.get(phrase, ())):
            replacement = next(new for old, new in terms().items() if old.lower() == phrase)
            yield f"{text.path}:{text.line}: “{match[1]}” ({replacement}): {around.strip()!r}"
    for match in _NUMBER_WITHOUT_ZERO.finditer(prose):
        yield (
            f"{text.path}:{text.line}: number without a leading zero: "
            f"{prose[max(match.start() - 20, 0) : match.end() + 10]!r}"
        )


def documents(root: Path = ROOT) -> list[Path]:
    """Return the Markdown files of the repository, without virtual environments."""
    return sorted(
        {path for pattern in _DOCUMENTS for path in root.glob(pattern) if ".venv" not in path.parts}
    )


def document_texts(path: Path) -> Iterator[Text]:
    """Yield the lines of a Markdown file that are not code."""
    name = str(path.relative_to(ROOT))
    in_terms = False
    for number, line in _prose_lines(path):
        in_terms = line == "## Terms" or (in_terms and not line.startswith("## "))
        if not (in_terms and name == "CONTRIBUTING.md"):
            yield Text(name, number, line)


def layout_problems(path: Path) -> Iterator[str]:
    """Describe lines over 100 columns and sentences over 25 words, except in code."""
    name = str(path.relative_to(ROOT))
    paragraph: list[str] = []
    start = 0
    for number, line in [*_prose_lines(path), (0, "")]:
        is_table = line.startswith("|")
        if (
            len(line) > MAX_COLUMNS
            and not is_table
            and not re.fullmatch(r"\s*(\[[^\]]*\]: )?\S+", line)
        ):
            yield f"{name}:{number}: {len(line)} columns"
        starts_paragraph = not line.strip() or is_table or re.match(r"\s*([-*]|\d+\.|#+|>) ", line)
        if starts_paragraph:
            yield from _long_sentences(name, start, " ".join(paragraph))
            paragraph, start = [], number
        if is_table:
            for cell in re.split(r"(?<!\\)\|", line):
                yield from _long_sentences(name, number, cell)
        elif line.strip():
            start = start or number
            paragraph.append(line.strip())


def _long_sentences(name: str, line: int, text: str) -> Iterator[str]:
    plain = _LINK.sub(r"\1", _CODE_SPAN.sub("code", text))
    for sentence in _SENTENCE_END.split(plain):
        words = [word for word in sentence.split() if _WORD.search(word)]
        if len(words) > MAX_SENTENCE_WORDS:
            yield f"{name}:{line}: a sentence of {len(words)} words: {' '.join(words[:8])} …"


def _prose_lines(path: Path) -> Iterator[tuple[int, str]]:
    in_fence = in_indented_code = False
    after_blank = True
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.lstrip().startswith("```"):
            in_fence = not in_fence
            continue
        in_indented_code = line.startswith("    ") and (
            in_indented_code or (after_blank and not re.match(r"\s+([-*]|\d+\.) ", line))
        )
        after_blank = not line.strip()
        if not in_fence and not in_indented_code:
            yield number, line


def code_texts(path: Path) -> Iterator[Text]:
    """Yield the strings of a module that have several words, and docstrings shown to users."""
    name = str(path.relative_to(ROOT))
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = {
        id(node.body[0].value): node
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    constant_docs = {
        id(node.value) for node in tree.body if isinstance(node, ast.Expr)
    } - docstrings.keys()
    f_string_parts = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in node.values
    }
    for node in ast.walk(tree):
        content = _string(node)
        if content is None or id(node) in constant_docs | f_string_parts:
            continue
        owner = docstrings.get(id(node))
        if owner is not None and not _is_shown(path, owner):
            continue
        if len(re.findall(r"[A-Za-z]{2,}", content)) >= 2 and " " in content.strip():
            yield Text(name, getattr(node, "lineno", 0), content)


def _string(node: ast.AST) -> str | None:
    """Return the text of a string constant or an f-string, with `…` for each value."""
    if isinstance(node, ast.JoinedStr):
        return "".join(_string(part) or "…" for part in node.values)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return None


def _is_shown(path: Path, owner: ast.AST) -> bool:
    """Return whether the docstring of a function or class is shown to users.

    It is for commands, sections of the configuration, the Python API, and routes and models of the
    JSON API.
    """
    package = path.parent.name
    if (package, path.name) == ("lycosa", "api.py"):
        return True
    if isinstance(owner, ast.FunctionDef | ast.AsyncFunctionDef):
        return (package == "cli" and not owner.name.startswith("_")) or (
            "serve" in path.parts and any(map(_is_route, owner.decorator_list))
        )
    bases = (
        {base.id for base in owner.bases if isinstance(base, ast.Name)}
        if isinstance(owner, ast.ClassDef)
        else set()
    )
    return "Section" in bases or ("serve" in path.parts and "BaseModel" in bases)


def _is_route(decorator: ast.expr) -> bool:
    return (
        isinstance(decorator, ast.Call)
        and isinstance(decorator.func, ast.Attribute)
        and decorator.func.attr in {"get", "post", "put", "delete"}
    )


def template_texts(path: Path) -> Iterator[Text]:
    """Yield the texts of a template: arguments of `t` and `th`, and literal text."""
    name = str(path.relative_to(ROOT))
    tree = Environment(autoescape=True).parse(path.read_text(encoding="utf-8"))
    for data in tree.find_all(nodes.TemplateData):
        content = re.sub(r"<[^>]*>?", " ", data.data)
        if re.search(r"[A-Za-z]{2,}", content):
            yield Text(name, data.lineno, content)
    for constant in tree.find_all(nodes.Const):
        if isinstance(constant.value, str) and re.search(r"[A-Za-z]{2,}", constant.value):
            yield Text(name, constant.lineno, constant.value)


def all_texts() -> Iterator[Text]:
    """Yield all texts of the program and its documentation that users see."""
    for document in documents():
        yield from document_texts(document)
    source = ROOT / "src" / "lycosa"
    for folder in (source, ROOT / "bench", ROOT / "examples", ROOT / "scripts"):
        for module in sorted(folder.rglob("*.py")):
            yield from code_texts(module)
    for path in (ROOT / "Makefile", ROOT / "pyproject.toml", *sorted(source.rglob("*.xsd"))):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            yield Text(str(path.relative_to(ROOT)), number, line)
    for template in sorted((source / "serve").glob("*/templates/*")):
        yield from template_texts(template)
    for script in sorted((source / "serve" / "web" / "static").glob("*.js")):
        for number, line in enumerate(script.read_text(encoding="utf-8").splitlines(), 1):
            for quoted in re.findall(r'"([^"]* [^"]*)"', line):
                yield Text(str(script.relative_to(ROOT)), number, quoted)


def main(arguments: Sequence[str]) -> int:
    prefixes = tuple(word.removeprefix("./") for word in arguments if word != "--list") or ("",)
    texts = [text for text in all_texts() if text.path.startswith(prefixes)]
    if "--list" in arguments:
        for text in texts:
            print(f"{text.path}:{text.line}: {text.content!r}")
        return 0
    rows = [problem for text in texts for problem in problems(text)]
    for document in documents():
        if str(document.relative_to(ROOT)).startswith(prefixes):
            rows += layout_problems(document)
    print("\n".join([*rows, f"{len(rows)} to change"]))
    return bool(rows)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
