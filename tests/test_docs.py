"""The documentation matches the code: settings, columns, commands, options, hooks and links."""

from __future__ import annotations

import inspect
import re
import runpy
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lycosa.cli.main import COMMANDS as PANELS
from lycosa.cli.main import app, load_command
from lycosa.config.reading import parse_config
from lycosa.config.settings import Config
from lycosa.config.template import configuration_template
from lycosa.hooks import specs

ROOT = Path(__file__).resolve().parent.parent
PAGES = runpy.run_path(str(ROOT / "scripts" / "reference.py"))["PAGES"]
DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"


@pytest.mark.parametrize("name", sorted(PAGES))
def test_pages_made_from_the_code_are_up_to_date(name: str) -> None:
    assert (REFERENCE / name).read_text(encoding="utf-8") == PAGES[name](), (
        f"docs/reference/{name} is not up to date: run .venv/bin/python scripts/make_docs.py"
    )


PROCESSES = {"worker", "pages", "coordina"}
"""Process names in docs/how-to/service.md, which look like commands."""
COMMAND_PAGES = (
    "commands-crawl.md",
    "commands-search.md",
    "commands-monitor.md",
    "commands-data.md",
)
BUILT = {name: load_command(name) for panel in PANELS.values() for name in panel}
GROUPS = {name: list(each.commands) for name, each in BUILT.items() if hasattr(each, "commands")}
COMMANDS = [name for name in BUILT if name not in GROUPS]
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")


def _names(title: str) -> list[str]:
    """Return the commands of a heading.

    `export xml, text` are two commands of a group, `watch` all commands of its group.
    """
    first, *others = title.replace(",", "").split()
    if first not in GROUPS:
        return [first]
    return [f"{first} {other}" for other in others or sorted(GROUPS[first])]


def _sections() -> list[tuple[str, str, str]]:
    """Return page, title and text of each section that describes commands."""
    sections = []
    for page in COMMAND_PAGES:
        for section in re.split(
            r"^## ", (REFERENCE / page).read_text(encoding="utf-8"), flags=re.M
        )[1:]:
            title, _, body = section.partition("\n")
            assert title.startswith("lycosa "), f"docs/reference/{page}: {title}"
            sections.append((page, title.removeprefix("lycosa "), body))
    return sections


SECTIONS = _sections()


def _section_of_commands_page(title: str) -> str:
    text = (REFERENCE / "commands.md").read_text(encoding="utf-8")
    return text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_every_command_is_documented() -> None:
    documented = [name for _, title, _ in SECTIONS for name in _names(title)]
    assert sorted(documented) == sorted(
        [*COMMANDS, *(name for group in GROUPS for name in _names(group))]
    )


@pytest.mark.parametrize("name", [*COMMANDS, *GROUPS])
def test_every_command_is_in_the_table_of_all_commands(name: str) -> None:
    table = _section_of_commands_page("All commands")
    assert re.search(rf"^\| \[?`{name}`", table, flags=re.M)


@pytest.mark.parametrize(
    ("page", "title", "body"), SECTIONS, ids=[title for _, title, _ in SECTIONS]
)
def test_documented_options_of_a_command_are_those_of_its_help(
    page: str, title: str, body: str
) -> None:
    options = set[str]().union(*map(_options, _names(title)))
    # example calls are checked by another test
    documented = set(_OPTION.findall(re.sub(r"`lycosa [^`]+`", "", body)))
    common = set(_OPTION.findall(_section_of_commands_page("Conventions")))
    assert documented - options == set(), (
        f"docs/reference/{page} has options that {title} does not have"
    )
    assert options - documented - common == set(), f"docs/reference/{page} lacks options of {title}"


def test_common_options_of_commands_exist() -> None:
    documented = set(_OPTION.findall((REFERENCE / "commands.md").read_text(encoding="utf-8")))
    assert documented <= _options("crawl") | {"--version", "--install-completion"}


@pytest.mark.parametrize(
    "path", [*sorted(DOCS.rglob("*.md")), ROOT / "README.md"], ids=lambda path: path.name
)
def test_calls_in_documents_use_existing_commands_and_options(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    calls = re.findall(r"`lycosa\s([^`]+)`", text) + re.findall(
        r"^ *\$? ?lycosa ([^#\n]+)", text, flags=re.M
    )
    for call in calls:
        words = re.sub(r"(?:^|\s)(?:-w|--set)\s+(?:'[^']*'|\S+)", " ", call).split()
        name = next((word for word in words if not word.startswith("-")), "")
        if not re.fullmatch("[a-z]+", name) or call in PROCESSES:  # a placeholder like COMMAND
            continue
        assert name in COMMANDS or name in GROUPS, f"{path.name}: lycosa {call}"
        names = [
            f"{name} {word}"
            for word in words
            if name in GROUPS and f"{name} {word}" in _names(name)
        ] or _names(name)
        known = set[str]().union(*map(_options, names)) | {"--help", "--version"}
        assert set(_OPTION.findall(" ".join(words))) <= known, f"{path.name}: lycosa {call}"


@cache
def _options(name: str) -> frozenset[str]:
    """Return the long options of a command, from the starts of the lines of its help."""
    names = re.findall(
        r"^  (?:-\w, )?--[a-z][a-z-]+(?: / --[a-z-]+)?",
        _help(name).partition("\nExamples:")[0],
        flags=re.M,
    )
    return frozenset(_OPTION.findall("\n".join(names)))


@cache
def _help(name: str) -> str:
    """Return the help of a command."""
    result = CliRunner().invoke(app, [*name.split(), "--help"], env={"COLUMNS": "110"})
    assert result.exit_code == 0, result.output
    return result.output


def test_default_values_in_the_configuration_template_are_valid() -> None:
    template = configuration_template()
    assert parse_config(template) == Config()
    uncommented = re.sub(r"^# (?=[a-z_0-9]+ = (?!…))", "", template, flags=re.M).replace(
        "# [[collection]]", "[[collection]]"
    )
    parsed = parse_config(uncommented)
    assert parsed.fetch == Config().fetch
    assert [collection.name for collection in parsed.collection] == ["default"]


def test_targets_of_links_between_documents_exist() -> None:
    for path in [*DOCS.rglob("*.md"), *ROOT.glob("*.md"), *ROOT.glob("examples/*.md")]:
        for target in re.findall(r"\]\(([^)#\s]+)", path.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (path.parent / target).exists(), (
                    f"{path.relative_to(ROOT)} links to {target}"
                )


def _anchor(heading: str) -> str:
    """Return the anchor of a heading on GitHub."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w -]", "", plain.strip().lower()).replace(" ", "-")


@cache
def _anchors(path: Path) -> frozenset[str]:
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    return frozenset(map(_anchor, re.findall(r"^#+ (.+)$", text, flags=re.M)))


def test_anchors_of_links_between_documents_exist() -> None:
    for path in [*DOCS.rglob("*.md"), *ROOT.glob("*.md")]:
        for target, anchor in re.findall(
            r"\]\(([^)#\s]*)#([^)\s]+)\)", path.read_text(encoding="utf-8")
        ):
            other = (path.parent / target).resolve() if target else path
            if other.suffix == ".md":
                assert anchor in _anchors(other), (
                    f"{path.relative_to(ROOT)} links to {target}#{anchor}"
                )


CRAWLERS = {"Lycosa", "Scrapy", "Nutch", "Heritrix", "StormCrawler", "BUbiNG", "YaCy", "Larbin"}


def test_every_section_of_the_comparison_has_a_row_with_a_source_for_each_crawler() -> None:
    pages = [
        (DOCS / "explanation" / name).read_text(encoding="utf-8")
        for name in ("compare-crawling.md", "compare-storage-search.md")
    ]
    sections = [section for page in pages for section in re.split(r"^## ", page, flags=re.M)[1:]]
    assert len(sections) == 9
    for section in sections:
        rows = [
            row
            for row in re.findall(r"^\| (\w+) \| (.*) \|$", section, flags=re.M)
            if row[0] in CRAWLERS
        ]
        assert {name for name, _ in rows} == CRAWLERS, section[:40]
        for name, text in rows:
            assert "](" in text, f"{section[:20]!r}: the row of {name} has no source"


_CODE = re.compile(r"`((?:[a-z]+)(?:\.\w+)+)`")


def _exists(name: str) -> bool:
    """Return whether a dotted name is a module of Lycosa, an attribute of one, or a setting."""
    parts = f"lycosa.{name}".split(".")
    for length in range(len(parts), 1, -1):
        try:
            value: object = import_module(".".join(parts[:length]))
        except ImportError:
            continue
        for attribute in parts[length:]:
            value = getattr(value, attribute, None)
        if value is not None:
            return True
    section, _, key = name.partition(".")
    settings = getattr(Config(), section, None)
    return settings is not None and hasattr(settings, key)


def test_modules_in_the_architecture_page_exist() -> None:
    packages = {path.name for path in (ROOT / "src" / "lycosa").iterdir() if path.is_dir()}
    names = set(_CODE.findall((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")))
    modules = {name for name in names if name.partition(".")[0] in packages}
    assert len(modules) > 50
    assert not [name for name in sorted(modules) if not _exists(name)]


def test_the_page_about_plugins_lists_every_hook() -> None:
    page = (DOCS / "how-to" / "plugins.md").read_text()
    documented = dict(re.findall(r"^\| `(\w+)\(([\w, ]*)\)` \|", page, re.MULTILINE))
    defined = {
        name: ", ".join(inspect.signature(function).parameters)
        for name, function in vars(specs).items()
        if inspect.isfunction(function) and hasattr(function, f"{specs.PROJECT}_spec")
    }
    assert documented == defined
