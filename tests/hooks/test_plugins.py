"""Test registration, failures and effects of plug-ins."""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lycosa.commands.crawling.reparse import reparse_workspace
from lycosa.config.reading import parse_config
from lycosa.core.errors import UsageError
from lycosa.core.records import Page, Visit
from lycosa.hooks import hook
from lycosa.hooks.plugins import Plugins
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from tests.crawl.conftest import ServeWeb, page
from tests.crawl.sessions import collection, work


def test_without_plugins_no_hook_is_implemented() -> None:
    assert not Plugins().has("admit_url")
    assert Plugins().call("admit_url", url="http://a/", collection="c") == []
    assert Plugins().merged("page_columns") == {}


def test_an_unknown_argument_is_refused_at_registration() -> None:
    def admit_url(address: str) -> bool:
        return bool(address)

    with pytest.raises(UsageError, match=r"(?s)plug-in wrong: .*address"):
        Plugins([("wrong", SimpleNamespace(admit_url=hook(admit_url)))])


class _Hooks:
    @hook
    def index_text(self) -> None:
        """Do nothing."""


_HOOKS = _Hooks()


@pytest.mark.parametrize(
    ("plugin", "message"),
    [
        (SimpleNamespace(admit_url=hook(cache(lambda url: None))), "admit_url is not a function"),
        (SimpleNamespace(admit_url=lambda url: None), "admit_url is not a function"),
        (SimpleNamespace(helper=lambda url: None), "it has no function with the decorator"),
        (None, "it has no function with the decorator"),
        (_Hooks, "it is a class"),
        (_HOOKS, "it is also the plug-in first"),
    ],
)
def test_a_plugin_whose_hooks_could_not_be_called_is_refused(plugin: object, message: str) -> None:
    with pytest.raises(UsageError, match=f"plug-in wrong: {message}"):
        Plugins([("first", _HOOKS), ("wrong", plugin)])


def test_a_plugin_that_exits_is_switched_off(capsys: pytest.CaptureFixture[str]) -> None:
    def commit_done() -> None:
        sys.exit(3)

    Plugins([("wrong", SimpleNamespace(commit_done=hook(commit_done)))]).call("commit_done")
    assert "plug-in wrong is switched off: commit_done raised SystemExit: 3" in (
        capsys.readouterr().err
    )


@pytest.mark.proves("isolation-plugins")
def test_a_plugin_that_raises_is_reported_and_switched_off(
    capsys: pytest.CaptureFixture[str],
) -> None:
    calls = []

    def admit_url(url: str) -> bool | None:
        calls.append(url)
        raise KeyError("no such key")

    def good(url: str) -> bool | None:
        return not url.endswith("/no")

    plugins = Plugins(
        [
            ("bad", SimpleNamespace(admit_url=hook(admit_url))),
            ("good", SimpleNamespace(admit_url=hook(good))),
        ]
    )
    assert plugins.call("admit_url", url="http://a/no", collection="c") == [False]
    assert plugins.call("admit_url", url="http://a/yes", collection="c") == [True]
    assert calls == ["http://a/no"]
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "plug-in bad is switched off: admit_url raised KeyError: 'no such key'" in error
    assert "test_plugins.py" in error


class _Recorder:
    def __init__(self) -> None:
        self.archived: list[str] = []
        self.commits: list[int] = []

    @hook
    def admit_url(self, url: str) -> bool | None:
        return False if url.endswith("/print.html") else None

    @hook
    def request_headers(self, url: str) -> dict[str, str]:
        return {"X-Plugin": "yes" if "index" not in url else "home"}

    @hook
    def response_archived(self, visit: Visit) -> None:
        self.archived.append(visit.url)

    @hook
    def page_parsed(self, page: Page) -> dict[str, Any]:
        return {"words": len(page.text.split()), "loud": page.title.isupper()}

    @hook
    def commit_done(self, entry: int) -> None:
        self.commits.append(entry)


def test_hooks_are_called_in_a_crawl(serve: ServeWeb, tmp_path: Path) -> None:
    refuse = 'location = /secret.html { if ($http_x_plugin != "yes") { return 403; } }'
    web = serve(
        {
            "/index.html": page("secret.html", "print.html", text="LOUD"),
            "/secret.html": page(text="quiet one"),
            "/print.html": page(text="printed"),
        },
        extra=[refuse],
    )
    recorder = _Recorder()
    plugins = Plugins([("recorder", recorder)])
    work(tmp_path / "w", [(collection("c"), [web.url()])], plugins=plugins)
    assert sorted(web.requested_paths()) == ["/", "/secret.html"]
    rows = LiveTables(Workspace.open(str(tmp_path / "w"))).scan("pages").collect()
    values = dict(zip(rows["title"], rows["plugin_values"], strict=True))
    assert json.loads(values["LOUD"]) == {"words": 5, "loud": True}
    assert json.loads(values["quiet one"]) == {"words": 2, "loud": False}
    assert set(recorder.archived) == {
        web.url(path) for path in ("/", "/secret.html", "/robots.txt")
    }
    assert recorder.commits


def test_urls_refused_by_a_plugin_are_counted(serve: ServeWeb, tmp_path: Path) -> None:
    web = serve({"/index.html": page("print.html")})
    plugins = Plugins([("recorder", _Recorder())])
    crawled = work(tmp_path / "w", [(collection("c"), [web.url()])], plugins=plugins)
    assert crawled.progress.refused["plugin"] == 1


class _Wrong:
    """Plug-in whose hook `name` returns the invalid `value`."""

    def __init__(self, name: str, value: object) -> None:
        def answer() -> object:
            return value

        setattr(self, name, hook(answer))


@pytest.mark.parametrize(
    ("name", "arguments", "value"),
    [
        ("request_headers", {"url": "", "collection": ""}, {"X": "a\r\nHost: b"}),
        ("request_headers", {"url": "", "collection": ""}, {"X y": "a"}),
        ("request_headers", {"url": "", "collection": ""}, ["X"]),
        ("admit_url", {"url": "", "collection": ""}, "no"),
        ("sql_tables", {"tables": None, "query": ""}, {"a": [1]}),
        ("page_parsed", {"page": None, "visit": None}, {"a": "\ud800"}),
        ("page_columns", {}, {"a b": str}),
        ("page_columns", {}, {"a": list}),
        ("page_parsed", {"page": None, "visit": None}, {"a": object()}),
        ("page_parsed", {"page": None, "visit": None}, {"a": float("nan")}),
        ("page_parsed", {"page": None, "visit": None}, 7),
        ("index_text", {"url": "", "title": "", "text": ""}, "\ud800"),
        ("index_text", {"url": "", "title": "", "text": ""}, 7),
        ("report_rendered", {"site": "", "report": None}, {"a": [7]}),
        ("report_rendered", {"site": "", "report": None}, {"a": "one text"}),
    ],
)
def test_a_plugin_that_returns_a_wrong_value_is_switched_off(
    name: str, arguments: dict[str, Any], value: object, capsys: pytest.CaptureFixture[str]
) -> None:
    plugins = Plugins([("wrong", _Wrong(name, value))])
    assert plugins.has(name)
    assert plugins.call(name, **arguments) == []
    assert not plugins.has(name)
    error = capsys.readouterr().err
    assert f"plug-in wrong is switched off: {name} raised" in error
    assert f"(its result is wrong; {__file__}:" in error
    plugins.call(name, **arguments)
    assert not capsys.readouterr().err


_VALUES = {"label": "x", "number": 3, "share": 0.5, "loud": True}


class _Columns:
    @hook
    def page_columns(self) -> dict[str, type]:
        return {name: type(value) for name, value in _VALUES.items()}

    @hook
    def page_parsed(self) -> dict[str, Any]:
        return _VALUES


def test_columns_of_every_type_and_pages_from_before_the_plugin(
    serve: ServeWeb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    web = serve({"/index.html": page(text="before"), "/b.html": page(text="with it")})
    root, plugins = tmp_path / "w", Plugins([("columns", _Columns())])
    work(root, [(collection("c"), [web.url()])], plugins=Plugins())
    work(root, [(collection("c"), [web.url("/b.html")])], plugins=plugins)
    monkeypatch.setattr("lycosa.store.tables.live.installed_plugins", lambda: plugins)
    rows = LiveTables(Workspace.open(str(root))).sql(
        f"SELECT title, {', '.join(_VALUES)} FROM pages ORDER BY title"
    )
    assert rows.rows() == [
        ("before", None, None, None, None),
        ("with it", *_VALUES.values()),
    ]


@pytest.mark.parametrize("failure", ["raises", "not installed"])
def test_reparse_keeps_the_values_of_a_plugin_that_fails(
    serve: ServeWeb,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    failure: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    web, root = serve({"/index.html": page("/b.html"), "/b.html": page()}), tmp_path / "w"

    def plugin(name: str, value: object) -> tuple[str, object]:
        def page_parsed() -> dict[str, object] | None:
            if value == "raises":
                raise KeyError("x")
            return None if value is None else {name: value}

        functions = {"page_columns": hook(lambda: {name: int}), "page_parsed": hook(page_parsed)}
        return name, SimpleNamespace(**functions)

    def reparsed(*plugins: tuple[str, object]) -> tuple[int, int, set[str]]:
        working = Plugins(plugins)
        for module in ("lycosa.commands.crawling.reparse", "lycosa.crawl.recovery.reparse"):
            monkeypatch.setattr(f"{module}.installed_plugins", lambda: working)
        report = reparse_workspace(str(root), parse_config(""), None, None, "w")
        rows = LiveTables(Workspace.open(str(root))).scan("pages").collect()
        return report.changed, report.kept_values, set(rows["plugin_values"])

    work(root, [(collection("c"), [web.url()])], plugins=Plugins([plugin("a", 1), plugin("b", 2)]))
    failed = () if failure == "not installed" else (plugin("b", "raises"),)
    assert reparsed(plugin("a", 1), *failed) == (0, 2, {'{"a": 1, "b": 2}'})
    assert capsys.readouterr().err.count("plug-in b is switched off") == len(failed)
    assert reparsed(plugin("a", 3), *failed) == (2, 2, {'{"a": 3, "b": 2}'})
    assert reparsed(plugin("b", 2), plugin("a", None)) == (2, 0, {'{"b": 2}'})


def test_a_column_of_the_table_cannot_be_replaced(
    serve: ServeWeb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    web = serve({"/index.html": page()})
    work(tmp_path / "w", [(collection("c"), [web.url()])], plugins=Plugins())
    plugins = Plugins([("columns", SimpleNamespace(page_columns=hook(lambda: {"url": str})))])
    monkeypatch.setattr("lycosa.store.tables.live.installed_plugins", lambda: plugins)
    with pytest.raises(UsageError, match="plug-in columns: pages already has a column url"):
        LiveTables(Workspace.open(str(tmp_path / "w"))).sql("SELECT url FROM pages")


@pytest.mark.parametrize("names", [("url",), ("stars", "stars")])
def test_columns_with_wrong_names_are_refused_before_a_crawl_and_a_reparse(
    serve: ServeWeb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]
) -> None:
    web, root = serve({"/index.html": page()}), tmp_path / "w"
    work(root, [(collection("c"), [web.url()])], plugins=Plugins())
    plugins = Plugins(
        (f"plugin{number}", SimpleNamespace(page_columns=hook(lambda name=name: {name: str})))
        for number, name in enumerate(names)
    )
    message = f"plug-in plugin{len(names) - 1}: pages already has a column {names[0]}"
    with pytest.raises(UsageError, match=message):
        work(root, [(collection("c"), [web.url()])], plugins=plugins)
    monkeypatch.setattr("lycosa.commands.crawling.reparse.installed_plugins", lambda: plugins)
    with pytest.raises(UsageError, match=message):
        reparse_workspace(str(root), parse_config(""), None, None, "w")
