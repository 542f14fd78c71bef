"""The documentation says what the code does: settings, columns and commands."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lycosa.app.reference import PAGES
from lycosa.cli.main import COMMANDS, app, app_for
from lycosa.core.config import Config, parse_config

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
COMMAND_PAGES = "\n".join(path.read_text(encoding="utf-8") for path in sorted(DOCS.glob("commands*.md")))


@pytest.mark.parametrize("name", sorted(PAGES))
def test_pages_made_from_the_code_are_up_to_date(name: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == PAGES[name](), f"run .venv/bin/python scripts/make_docs.py: docs/{name} is old"


@pytest.mark.parametrize("name", [*COMMANDS, "export warc", "export bulk"])
def test_every_command_is_documented(name: str) -> None:
    assert re.search(rf"^## .*lycosa {name}\b", COMMAND_PAGES, flags=re.M)


def test_every_option_of_a_command_that_docs_name_exists() -> None:
    sections = re.split(r"^## (?=lycosa )", COMMAND_PAGES, flags=re.M)[1:]
    assert len(sections) > 30
    for section in sections:
        title, _, body = section.partition("\n")
        names = re.findall(r"lycosa (export \w+|watch \w+|uptime \w+|\w+)", title)
        known = "".join(map(_help, names))
        for option in set(re.findall(r"--[a-z][a-z-]+", body)):
            assert option in known, f"the documentation names {option} for {title}"


@cache
def _help(name: str) -> str:
    """The help of one command, without building all the others."""
    first, *more = name.split()
    groups = [group.typer_instance for group in app.registered_groups if group.name == first]
    program, words = (groups[0], more) if groups else (app_for([first]), [first])
    assert program is not None
    result = CliRunner().invoke(program, [*words, "--help"], env={"COLUMNS": "110"})
    assert result.exit_code == 0, result.output
    return result.output


def test_every_documented_setting_default_is_one_that_the_schema_takes() -> None:
    from lycosa.app.template import configuration_template

    template = configuration_template()
    assert parse_config(template) == Config()
    live = re.sub(r"^# (?=[a-z_0-9]+ = (?!…))", "", template, flags=re.M).replace("# [[collection]]", "[[collection]]")
    parsed = parse_config(live)
    assert parsed.fetch == Config().fetch
    assert [collection.name for collection in parsed.collection] == ["default"]


def test_links_between_documents_lead_somewhere() -> None:
    for path in [*DOCS.rglob("*.md"), *ROOT.glob("*.md")]:
        for target in re.findall(r"\]\(([^)#\s]+)", path.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (path.parent / target).exists(), f"{path.relative_to(ROOT)} links to {target}"


ROBOTS = {"Lycosa", "Scrapy", "Nutch", "Heritrix", "StormCrawler", "BUbiNG", "YaCy", "Larbin"}


def test_every_robot_has_a_line_with_a_source_in_every_part_of_the_comparison() -> None:
    parts = re.split(r"^## ", (DOCS / "compare.md").read_text(encoding="utf-8"), flags=re.M)[2:]  # after the head and the short table
    assert len(parts) == 9
    for part in parts:
        rows = [row for row in re.findall(r"^\| (\w+) \| (.*) \|$", part, flags=re.M) if row[0] in ROBOTS]
        assert {name for name, _ in rows} == ROBOTS, part[:40]
        for name, known in rows:
            assert "](" in known, f"{part[:20]!r} says of {name} what it has no source for"


def test_commands_of_the_readme_exist() -> None:
    names = set(re.findall(r"^\s+lycosa (?:-w \S+ )?([a-z]+)", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.M))
    known = {*COMMANDS, *(group.name for group in app.registered_groups)}
    assert names
    assert names <= known
