"""Commands on a real workspace: text and JSON output, exit codes, and errors of wrong calls."""

from __future__ import annotations

import gc
import io
import json
import re
import resource
import subprocess
import sys
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any

import pytest

from lycosa.cli import main
from tests.cli.conftest import LYCOSA, NO_DELAY, Lycosa, run_here
from tests.servers.hostile import HostileServer


def test_crawl_prints_a_summary(lycosa: Lycosa, site: str, tmp_path: Path) -> None:
    root = tmp_path / "my pages"
    outcome = lycosa("-w", str(root), "crawl", site, *NO_DELAY)
    outcome.expect(
        0,
        "Finished: no URLs are due",
        "visited 2",
        "gone 1",
        "excluded 1",
        f"lycosa -w '{root}' search",
    )


def test_crawl_in_json_and_quiet(here: Lycosa, site: str, tmp_path: Path) -> None:
    outcome = here("crawl", site, "--json", "-w", str(tmp_path / "w"), *NO_DELAY)
    assert (outcome.json["pages"], outcome.json["states"], outcome.json["ended"]) == (
        2,
        {"visited": 2, "gone": 1, "excluded": 1},
        "finished",
    )
    quiet = here("-w", str(tmp_path / "w2"), "crawl", site, "--quiet", *NO_DELAY)
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")


def test_seed_file_with_comments_and_urls_without_scheme(
    here: Lycosa, site: str, tmp_path: Path
) -> None:
    seeds = tmp_path / "seeds.txt"
    seeds.write_text(
        f"# seeds\n\n{site.removeprefix('http://')}/eyes.html # one\n", encoding="utf-8-sig"
    )
    options = ("--seeds", str(seeds), "--depth", "0", "--json", "--delay", "0")
    outcome = here("-w", str(tmp_path / "w"), "crawl", *options)
    assert outcome.json["pages"] == 1


def test_urls_are_read_from_standard_input(site: str, tmp_path: Path) -> None:
    options = ("--seeds", "-", "-w", str(tmp_path / "w"))
    seeds = f"\ufeff# seeds\r\n{site}/eyes.html\r\n"
    crawled = run_here("crawl", *options, "--depth", "0", "--json", "--delay", "0", text=seeds)
    assert crawled.json["pages"] == 1
    run_here("add", *options, f"{site}/", text=seeds).expect(0, "2 URLs submitted")
    run_here("add", *options, text="# nothing\n").expect(2, err=("there is no URL in it",))
    run_here("crawl", *options, text=f"{site}/\na b\n").expect(2, err=("standard input, line 2",))


def test_search_prints_results_and_their_number(here: Lycosa, workspace: Path) -> None:
    outcome = here("-w", str(workspace), "search", '"compound eye"')
    outcome.expect(0, "Compound eyes", "/eyes.html", err=("1 to 1 of 1 result",))
    document = here("search", "moths", "--json", "-w", str(workspace)).json
    hits = document["hits"]
    assert isinstance(hits, list)
    assert (hits[0]["title"], hits[0]["language"]) == ("The home of <script> & moths", "en")
    assert document["total"] == len(hits)
    here("-w", str(workspace), "search", "zeppelin").expect(1, err=("0 results",))


def test_search_pages_and_filters(here: Lycosa, workspace: Path) -> None:
    first = here("-w", str(workspace), "search", "eye OR moths", "-n", "1", "--json").json
    second = here(
        "-w", str(workspace), "search", "eye OR moths", "-n", "1", "--page", "2", "--json"
    ).json
    assert first["hits"] != second["hits"] or first["total"] == 1
    assert here("-w", str(workspace), "search", "moths", "--lang", "zh").code == 1


def test_status_counts_pages_and_urls(here: Lycosa, workspace: Path) -> None:
    here("-w", str(workspace), "status").expect(0, "4: visited 2, excluded 1, gone 1")
    document = here("-w", str(workspace), "status", "--json").json
    assert document["pages"] == 2
    assert document["urls"] == {"total": 4, "visited": 2, "excluded": 1, "gone": 1}
    assert document["index"]["documents"] == 2  # type: ignore[index]


def test_explain_reports_fetched_excluded_and_unknown_urls(
    here: Lycosa, workspace: Path, site: str
) -> None:
    fetched = here("-w", str(workspace), "explain", f"{site}/eyes.html")
    fetched.expect(None, "visited: fetched and processed", "'Eyes of moths'")
    forbidden = here("-w", str(workspace), "explain", f"{site}/private/x.html")
    forbidden.expect(None, "admitted earlier, then excluded: robots", "Disallow: /private/")
    unknown = here("-w", str(workspace), "explain", "http://elsewhere.example/")
    unknown.expect(None, "never admitted", "is not the host and port of a seed")
    document = here("-w", str(workspace), "explain", f"{site}/gone.html", "--json").json
    assert document["visits"][0]["http_status"] == 404  # type: ignore[index]


def test_sql_prints_tables_json_and_csv(here: Lycosa, workspace: Path) -> None:
    rows = json.loads(
        here("-w", str(workspace), "sql", "SELECT url, title FROM pages ORDER BY url", "--json").out
    )
    assert [row["title"] for row in rows] == ["The home of <script> & moths", "Compound eyes"]
    csv = here(
        "-w",
        str(workspace),
        "sql",
        "SELECT state, COUNT(*) AS n FROM urls GROUP BY state ORDER BY state",
        "--csv",
    ).out
    assert csv.split() == ["state,n", "excluded,1", "gone,1", "visited,2"]
    assert "visited" in here("-w", str(workspace), "sql", "SELECT * FROM urls").out
    here("-w", str(workspace), "sql", "SELECT x FROM pages").expect(2, err=("pages has partition",))
    assert here("-w", str(workspace), "sql", "SELECT * FROM nothing").code == 2


def test_characters_that_the_terminal_cannot_encode_are_replaced(workspace: Path) -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    gc_threshold = gc.get_threshold()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), suppress(SystemExit):
        patch.setattr(
            sys, "argv", ["lycosa", "-w", str(workspace), "sql", "select 'caf\u00e9' as place"]
        )
        main.main()
    gc.set_threshold(*gc_threshold)
    out.flush()
    assert b"caf?" in out.buffer.getvalue()


def test_path_that_is_not_utf8_is_refused(here: Lycosa, tmp_path: Path) -> None:
    outcome = here("-w", f"{tmp_path}/n\udcff", "status")
    assert (outcome.code, "not valid UTF-8" in outcome.err) == (2, True)


def test_fetch_robots_and_parse_write_no_files(here: Lycosa, site: str, tmp_path: Path) -> None:
    fetched = here("fetch", f"{site}/eyes.html", cwd=tmp_path)
    assert fetched.out.startswith("GET /eyes.html HTTP/1.1\n")
    assert "HTTP/1.1 200 OK" in fetched.out
    assert here("fetch", f"{site}/eyes.html", "--body", cwd=tmp_path).out.endswith("</html>")
    here("fetch", f"{site}/private/x.html", cwd=tmp_path).expect(1, err=("robots",))
    for options in (("--body", "--markdown"), ("--mode", "full")):
        here("fetch", f"{site}/eyes.html", *options).expect(2, err=("--markdown",))
    here("robots", f"{site}/private/x.html", cwd=tmp_path).expect(1, "Disallow: /private/")
    parsed = here("parse", f"{site}/eyes.html", "--json", cwd=tmp_path).json
    assert (parsed["title"], list(tmp_path.iterdir())) == ("Compound eyes", [])


def test_fetch_reports_errors_and_truncation(here: Lycosa) -> None:
    with HostileServer() as server:
        cut = here("fetch", server.url("endless-body"), "--body", "--set", "fetch.max_body=1KiB")
        cut.expect(0, "<p>more", err=("endless-body: 1,024 bytes, truncated",))
        large = here("fetch", server.url("large-headers"), "--body")
        large.expect(1, err=("large-headers: headers_too_large (", "bytes of header)"))
        here("fetch", server.url("redirect-nowhere")).expect(1, err=("bad_redirect",))


def test_parse_reads_files_and_standard_input(lycosa: Lycosa, here: Lycosa, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(
        '<title>T</title><meta name="author" content="By Jane Doe"><meta name="date" '
        'content="2024-05-13"><p>Some text here.<a href="b.html">to b</a>'
    )
    outcome = here("parse", str(page), "--url", "http://h.example/d/a.html")
    assert "http://h.example/d/b.html  to b" in outcome.out
    assert re.search(r"^authors +Jane Doe$", outcome.out, re.MULTILINE)
    assert re.search(r"^published +2024-05-13T00:00:00Z$", outcome.out, re.MULTILINE)
    declared: Any = here("parse", str(page), "--json").json["metadata"]
    assert declared["authors"] == ["Jane Doe"]
    assert declared["raw"]["meta"] == {"author": ["By Jane Doe"], "date": ["2024-05-13"]}
    piped = lycosa("parse", "-", "--json", text="<title>From a pipe</title>")
    assert piped.json["title"] == "From a pipe"
    assert here("parse", str(tmp_path / "missing.html")).code == 2


def test_export_check_reparse_and_index(here: Lycosa, workspace: Path, tmp_path: Path) -> None:
    exported = here("-w", str(workspace), "export", "warc", str(tmp_path / "out"), "--json").json
    assert exported["captures"] == 4  # two pages, one 404, robots.txt
    assert here("-w", str(workspace), "check", "--deep").code == 0
    reparsed = here("-w", str(workspace), "reparse", "--json").json
    assert reparsed == {
        "pages": 2,
        "changed": 0,
        "text_changed": 0,
        "unreadable": 0,
        "kept_values": 0,
    }
    assert here("-w", str(workspace), "index", "--rebuild", "--json").json["documents"] == 2
    assert here("-w", str(workspace), "search", "moths").code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        *("export jsonl OUT", "export warc OUT", "export wacz OUT.wacz", "export markdown OUT"),
        *("export chunks OUT", "export items OUT.csv", "export mirror a.example OUT"),
        *("export llms a.example OUT", "export bulk --to jsonl", "export bulk --to quickwit"),
        *("reparse", "search moths", "search --passages moths", "find moths", "terms"),
    ],
)
def test_unknown_collections_are_refused(
    here: Lycosa, workspace: Path, tmp_path: Path, arguments: str
) -> None:
    words = arguments.replace("OUT", str(tmp_path / "out")).split()
    outcome = here("-w", str(workspace), *words, "--collection", "defualt")
    outcome.expect(2, err=("unknown collection 'defualt'; did you mean 'default'?",))
    assert not list(tmp_path.iterdir())


def test_check_detects_a_changed_byte(here: Lycosa, site: str, tmp_path: Path) -> None:
    root = tmp_path / "w"
    here("-w", str(root), "crawl", site, *NO_DELAY)
    warc = next(root.glob("data/*/archive.warc.gz"))
    content = bytearray(warc.read_bytes())
    content[len(content) // 2] ^= 1
    warc.write_bytes(content)
    here("-w", str(root), "check", "--deep").expect(1, "archive.warc.gz")


def test_init_writes_a_configuration_that_crawl_reads(
    here: Lycosa, site: str, tmp_path: Path
) -> None:
    root = tmp_path / "w"
    assert here("-w", str(root), "init").code == 0
    assert "max_body" in (root / "lycosa.toml").read_text()
    assert here("-w", str(root), "init").code == 2
    (root / "lycosa.toml").write_text(
        '[[collection]]\nname = "moths"\ndelay = "0s"\ndepth = 0\ncourtesy_factor = 0.0\n'
    )
    options = ("--collection", "moths", "--json", "--set", "crawl.patience=0")
    outcome = here("-w", str(root), "crawl", site, *options)
    assert outcome.json["pages"] == 1
    text = '[[collection]]\nname = "a"\nseeds = ["http://127.0.0.1/"]\n'
    (root / "lycosa.toml").write_text(f'{text}[[collection]]\nname = "b"\nseed_file = "b.txt"\n')
    here("-w", str(root), "crawl").expect(2, err=("has no seeds", "--collection a | b"))
    (root / "lycosa.toml").write_text("[fetch]\nuser_agnt = 'x'\n")
    here("-w", str(root), "crawl").expect(2, err=("line 2", "user_agent"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("crawl",), "nothing to crawl"),
        (("crawl", "mailto:a@b"), "'mailto:a@b' cannot be used: only http"),
        (("crawl", "http://h.example/", "--scope", "world"), "choose host, domain, prefix or any"),
        (("crawl", "http://h.example/", "--delay", "5"), "is not a duration"),
        (("crawl", "http://h.example/", "--set", "fetch.colour=red"), "no setting 'colour'"),
        (("crawl", "--seeds", "missing.txt"), "missing.txt cannot be read"),
        (("crawl", "http://h.example/", "--depth", "-1"), "--depth"),
        (("reparse", "--since", "yesterday"), "is not a date"),
        (("changes", "--since", "yesterday"), "is neither a date nor an age"),
        (("nonsense",), "nonsense"),
    ],
)
def test_wrong_calls_are_refused_with_a_message_and_create_no_workspace(
    here: Lycosa, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    here(*arguments, cwd=tmp_path).expect(2, err=(message,), absent_err=("Traceback",))
    assert not [path for path in tmp_path.rglob("*") if path.name in ("log", "workspace.json")]


@pytest.mark.parametrize(
    "command",
    [
        "search x",
        "status",
        "explain http://h/",
        "add http://127.0.0.1:9/",
        "sql SELECT",
        "index",
        "check",
        "export warc out",
        "serve",
    ],
)
def test_commands_report_a_missing_workspace(here: Lycosa, tmp_path: Path, command: str) -> None:
    outcome = here(*command.split(), cwd=tmp_path)
    outcome.expect(1, err=("is not a workspace",), absent_err=("Traceback",))
    assert list(tmp_path.iterdir()) == []


def test_help_imports_no_large_library() -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([*LYCOSA, "--help"], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"lycosa --help: {spent:.2f} s of CPU")
    modules = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, lycosa.cli.main; "
            "print(*sorted({name.partition('.')[0] for name in sys.modules}))",
        ],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    assert not {"polars", "pyarrow", "pydantic", "tantivy", "numpy", "pycurl", "fastapi"} & set(
        modules
    )


def test_garbage_collector_is_frozen_at_exit() -> None:
    # Functions registered first are called last.
    report = (
        "import atexit, gc, sys; atexit.register(lambda: print(gc.get_freeze_count(), "
        "len(gc.get_objects())))"
    )
    program = (
        f"{report}; from lycosa.cli.main import main; sys.argv = ['lycosa', '--version']; main()"
    )
    outcome = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stdout.split()
    assert int(outcome[-2]) > 100 * int(outcome[-1])


def imported_by(*words: str) -> set[str]:
    """Return the modules that a `lycosa` command imports."""
    program = (
        f"import sys; from lycosa.cli.main import main; sys.argv = ['lycosa', *{words!r}]\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    return set(done.stderr.splitlines()[-1].split())


def test_only_the_module_of_a_called_command_is_imported() -> None:
    modules = imported_by("robots", "--help")
    assert "lycosa.cli.inspection.single" in modules
    assert not {"lycosa.cli.crawling.crawl", "lycosa.cli.searching.search"} & modules


NOT_FOR_A_CRAWL = {
    "lycosa.search", "lycosa.translation", "lycosa.cluster", "lycosa.hunt", "lycosa.find",
    "lycosa.uptime", "lycosa.site", "lycosa.captures", "lycosa.export", "lycosa.daemon",
    "lycosa.serve", "lycosa.crawl.rendering", "lycosa.fetch.browser", "lycosa.graph.builder",
    "lycosa.maintenance.jobs", "lycosa.commands.models", "lycosa.commands.page_models",
    "lycosa.commands.search_models", "lycosa.text.spaceless", "lycosa.text.korean",
    "lycosa.text.burmese", "multiprocessing", "sqlite3", "ssl", "asyncio", "fastapi", "pyarrow",
}  # fmt: skip
ONLY_FOR_THE_INDEX = {"lycosa.index", "lycosa.graph", "lycosa.text.analyze", "tantivy", "icu4py"}


@pytest.mark.parametrize("index", [True, False])
def test_a_crawl_imports_only_what_it_uses(site: str, tmp_path: Path, index: bool) -> None:
    options = ["-w", str(tmp_path / "w"), "--delay", "0", "--quiet", "--set", "crawl.patience=0"]
    names = imported_by("crawl", site, *options, *([] if index else ["--no-index"]))
    packages = {name[: end.start()] for name in names for end in re.finditer(r"\.|$", name)}
    assert {"lycosa.crawl.worker", "lycosa.page.parse", "polars"} <= packages
    assert not NOT_FOR_A_CRAWL & packages
    assert ONLY_FOR_THE_INDEX & packages == (ONLY_FOR_THE_INDEX if index else set())


def test_status_imports_no_parser_and_no_client(workspace: Path) -> None:
    modules = imported_by("-w", str(workspace), "status")
    assert "lycosa.commands.inspection.status" in modules
    assert not {"lycosa.crawl.dispatcher", "lycosa.page.parse", "pycurl"} & modules


def test_unknown_command_is_an_error(here: Lycosa) -> None:
    here("crwal").expect(2, err=("crwal",))
