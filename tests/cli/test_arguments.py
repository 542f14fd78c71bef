"""Sites, URLs, languages and texts as arguments: all commands accept the same forms."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lycosa.cli.options import start_of
from lycosa.core.errors import UsageError
from lycosa.store.exclusion.exclusions import parse_rule
from tests.cli.conftest import LYCOSA, Lycosa

SITE_COMMANDS: dict[str, Callable[[str, str], tuple[str, ...]]] = {
    "site": lambda site, _: ("site", site, "--json"),
    "mirror": lambda site, target: ("export", "mirror", site, target, "--json"),
    "warc": lambda site, target: ("export", "warc", target, "--site", site, "--json"),
    "wacz": lambda site, target: ("export", "wacz", f"{target}.wacz", "--site", site, "--json"),
    "search": lambda site, _: ("search", "moths", "--site", site, "--json"),
    "terms": lambda site, _: ("terms", "--site", site, "--json"),
    "changes": lambda site, _: ("changes", "--site", site, "--json"),
    "links": lambda site, _: ("links", "--broken", "--site", site, "--json"),
    "find": lambda site, _: ("find", "light", "--site", site, "--json"),
    "monitor": lambda site, _: ("monitor", site, "--json"),
}
"""Command -> arguments for a site and an output path."""
EMPTY_RESULTS = {
    "warc": '"captures": 0',
    "wacz": '"captures": 0',
    "search": '"total": 0',
    "terms": '"pages": 0',
    "find": '"matches": []',
}
"""Command -> the text in its JSON output if nothing matches."""


@pytest.mark.parametrize("name", SITE_COMMANDS)
def test_site_is_a_host_a_host_with_port_or_a_url(
    name: str, here: Lycosa, workspace: Path, site: str, tmp_path: Path
) -> None:
    authority = site.partition("://")[2]
    for number, form in enumerate([authority.partition(":")[0], authority, f"{site}/"]):
        outcome = here(
            "-w", str(workspace), *SITE_COMMANDS[name](form, str(tmp_path / str(number)))
        )
        assert outcome.code == 0, (form, outcome.err)
        assert EMPTY_RESULTS.get(name, "\0") not in outcome.out, form
    other = here(
        "-w", str(workspace), *SITE_COMMANDS[name]("other.example", str(tmp_path / "none"))
    )
    assert other.code or EMPTY_RESULTS.get(name, "[]") in other.out
    wrong = here("-w", str(workspace), *SITE_COMMANDS[name]("http://[", str(tmp_path / "wrong")))
    wrong.expect(2, err=("http://[",))


URL_COMMANDS: dict[str, tuple[str, ...]] = {
    "explain": ("explain",),
    "versions": ("versions",),
    "validate": ("validate",),
    "links": ("links", "--to"),
    "fetch": ("fetch",),
    "parse": ("parse",),
    "robots": ("robots",),
    "from": ("crawl", "-q", "--max-pages", "0", "--from"),
    "monitor": ("monitor", "add"),
    "add": ("add",),
}
"""Name -> a command that ends with the URL of an archived page."""


@pytest.mark.parametrize("name", URL_COMMANDS)
def test_url_needs_no_scheme_and_mailto_is_refused(
    name: str, here: Lycosa, workspace: Path, site: str, tmp_path: Path
) -> None:
    root = tmp_path / "w"
    shutil.copytree(workspace, root)
    options = () if name in ("fetch", "parse", "robots") else ("-w", str(root))
    typed = here(*options, *URL_COMMANDS[name], f"{site}/eyes.html".removeprefix("http://"))
    assert typed.code == (1 if name == "validate" else 0), typed.err  # the page has errors
    here(*options, *URL_COMMANDS[name], "mailto:a@127.0.0.1").expect(2, absent_err=("127.0.0.1/",))


@pytest.mark.parametrize(
    ("typed", "rule"),
    [
        ("www.example.org", "host:www.example.org"),
        ("https://WWW.example.org/", "host:www.example.org"),
        ("127.0.0.1:8080", "prefix:127.0.0.1:8080/"),
        ("http://example.org:8080/", "prefix:example.org:8080/"),
        ("https://example.org/docs/", "prefix:example.org/docs/"),
        ("example.org/docs", "prefix:example.org/docs"),
        ("domain:example.org", "domain:example.org"),
        ("host:example.org", "host:example.org"),
        ("[2001:db8::1]", "host:[2001:db8::1]"),
    ],
)
def test_exclusion_is_a_site_or_a_rule(typed: str, rule: str) -> None:
    assert (parse_rule(typed), parse_rule(rule)) == (rule, rule)


def test_a_start_before_1970_is_1970() -> None:
    assert start_of("99999999d").year == 1970
    assert start_of("1s").timestamp() == pytest.approx(time.time() - 1, abs=60)


@pytest.mark.parametrize("typed", ["", " ", "http://", "*.example.org", "a b"])
def test_invalid_exclusion_is_refused(typed: str) -> None:
    with pytest.raises(UsageError, match="not an exclusion"):
        parse_rule(typed)


@pytest.mark.parametrize(
    "command",
    [
        ("search", "moths"),
        ("terms",),
        ("export", "jsonl", "DIR"),
        ("export", "warc", "DIR"),
        ("export", "wacz", "DIR.wacz"),
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_an_unknown_language_is_refused(
    command: tuple[str, ...], here: Lycosa, workspace: Path, tmp_path: Path
) -> None:
    arguments = [part.replace("DIR", str(tmp_path / "out")) for part in command]
    outcome = here("-w", str(workspace), *arguments, "--lang", "klingon")
    assert (outcome.code, "'klingon' is not a language code" in outcome.err) == (2, True)
    assert here("-w", str(workspace), *arguments, "--lang", "EN").code == 0


EXPORT_TARGETS = {
    "xml": "out", "jsonl": "out", "parquet": "out", "text": "out", "warc": "out", "wacz": "out.wacz",
}  # fmt: skip


@pytest.mark.parametrize("kind", [*EXPORT_TARGETS, "mirror"])
def test_quiet_exports_print_nothing(
    kind: str, here: Lycosa, workspace: Path, site: str, tmp_path: Path
) -> None:
    target = str(tmp_path / EXPORT_TARGETS.get(kind, "out"))
    arguments = ("export", kind, *([site] if kind == "mirror" else []), target)
    outcome = here("-w", str(workspace), *arguments, "-q")
    assert (outcome.code, outcome.out, outcome.err) == (0, "", "")
    assert here("-w", str(workspace), *arguments).out


@pytest.mark.parametrize(
    "arguments",
    [
        ("watch", "add", "\udcff"),
        ("watch", "add", "x", "--name", "\udcff"),
        ("find", "\udcff"),
        ("find", "x", "--site", "\udcff"),
        ("search", "\udcff"),
        ("exclude", "\udcff"),
        ("crawl", "http://\udcff/"),
        ("crawl", "\udcff"),
        ("add", "http://127.0.0.1/\udcff"),
        ("explain", "\udcff"),
        ("site", "\udcff"),
        ("sql", "SELECT '\udcff'"),
        ("links", "--to", "\udcff"),
        ("versions", "\udcff"),
        ("monitor", "add", "http://127.0.0.1/\udcff"),
        ("monitor", "add", "http://127.0.0.1/", "--expect", "\udcff"),
        ("hunt", "\udcff"),
        ("export", "mirror", "\udcff", "out"),
        ("token", "add", "\udcff"),
        ("collection", "pause", "\udcff"),
        ("translate", "explain", "\udcff"),
    ],
    ids=ascii,
)
def test_arguments_that_are_not_utf8_are_refused_without_a_traceback(
    arguments: tuple[str, ...], workspace: Path, tmp_path: Path
) -> None:
    typed = [os.fsencode(each) for each in (*LYCOSA, "-w", str(workspace), *arguments)]
    done = subprocess.run(
        typed,
        capture_output=True,
        timeout=60,
        cwd=tmp_path,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
    )
    assert b"Traceback" not in done.stderr
    assert done.returncode == 2
    done.stdout.decode("utf-8")


@pytest.mark.proves("access-sql")
@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE pages",
        "DELETE FROM pages",
        "CREATE TABLE x AS SELECT 1",
        "/* x */ TRUNCATE TABLE pages",
    ],
)
def test_sql_only_reads(statement: str, here: Lycosa, workspace: Path) -> None:
    outcome = here("-w", str(workspace), "sql", statement)
    assert (outcome.code, "tables can only be read" in outcome.err) == (2, True)


def test_sql_accepts_every_kind_of_read_query(here: Lycosa, workspace: Path) -> None:
    for query in (
        "SELECT 1",
        "/* a */ -- b\n (SELECT 1)",
        "with a as (select 1 as x) select * from a",
        "SHOW TABLES",
        "EXPLAIN SELECT url FROM pages",
    ):
        assert here("-w", str(workspace), "sql", query).code == 0, query


def test_find_and_links_exit_with_1_if_nothing_matches(
    here: Lycosa, workspace: Path, site: str
) -> None:
    options = ("-w", str(workspace))
    assert here(*options, "find", "drawn to light").code == 0
    assert here(*options, "find", "no such words").code == 1
    assert here(*options, "links", "--to", f"{site}/eyes.html").code == 0
    assert here(*options, "links", "--to", f"{site}/nowhere.html").code == 1
    assert here(*options, "links", "--to", f"{site}/nowhere.html", "--json").out == "[]\n"


def test_configuration_that_is_not_utf8_is_reported_with_its_line(
    here: Lycosa, tmp_path: Path
) -> None:
    assert here("-w", str(tmp_path / "w"), "init").code == 0
    (tmp_path / "w" / "lycosa.toml").write_bytes(b'[fetch]\ncontact = "caf\xe9"\n')
    for command in (("crawl", "http://127.0.0.1:1/"), ("run",), ("serve",), ("add", "127.0.0.1:1")):
        outcome = here("-w", str(tmp_path / "w"), *command)
        assert (outcome.code, "lycosa.toml, line 2: not valid UTF-8" in outcome.err) == (2, True), (
            command
        )


def test_a_mistyped_command_is_answered_with_similar_names(here: Lycosa) -> None:
    here("serch", "moths").expect(2, err=("No such command 'serch'. Did you mean 'search'",))
    here("xyzzy").expect(2, err=("No such command 'xyzzy'.",), absent_err=("Did you mean",))


def test_damaged_workspace_is_not_treated_as_empty(here: Lycosa, tmp_path: Path) -> None:
    assert here("-w", str(tmp_path / "w"), "init").code == 0
    (tmp_path / "w" / "workspace.json").write_text("{")
    outcome = here("-w", str(tmp_path / "w"), "search", "moths")
    assert (outcome.code, "workspace.json is damaged" in outcome.err) == (1, True)


@pytest.mark.parametrize(
    "content",
    [
        b"word\tWort\n\0\0",
        "naïve\tna\N{LATIN SMALL LETTER I WITH DIAERESIS}v\n".encode("latin-1") * 20,
    ],
)
def test_binary_dictionary_is_refused(content: bytes, here: Lycosa, tmp_path: Path) -> None:
    assert here("-w", str(tmp_path / "w"), "init").code == 0
    (tmp_path / "en-de.tsv").write_bytes(content)
    add = ("translate", "add", str(tmp_path / "en-de.tsv"), "--from", "en", "--to", "de")
    outcome = here("-w", str(tmp_path / "w"), *add)
    assert (outcome.code, "not a text file in UTF-8" in outcome.err) == (2, True)
