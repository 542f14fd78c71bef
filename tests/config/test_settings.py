"""The configuration: defaults, bounds, error messages and overrides."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from lycosa.config.reading import parse_config
from lycosa.config.serving import ServeSettings
from lycosa.config.settings import (
    ClusterSettings,
    Collection,
    Config,
    CrawlSettings,
    FetchSettings,
    IndexSettings,
)
from lycosa.core.errors import ConfigError

SECTIONS: dict[str, type[BaseModel]] = {
    "fetch": FetchSettings,
    "crawl": CrawlSettings,
    "index": IndexSettings,
    "cluster": ClusterSettings,
    "serve": ServeSettings,
    "collection": Collection,
}
SETTINGS = [(section, name) for section, model in SECTIONS.items() for name in model.model_fields]


def problem(text: str, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, "lycosa.toml", overrides)
    return str(caught.value)


def test_empty_file_gives_the_defaults() -> None:
    assert parse_config("") == Config()


def test_parse_a_file() -> None:
    config = parse_config(
        """
        [fetch]
        user_agent = "spider/1"
        max_body = "5MiB"
        total_timeout = "1m30s"
        slow_speed = 0
        [crawl]
        patience = 0
        [[collection]]
        name = "news"
        seeds = ["http://a/", "http://b/"]
        scope = "domain"
        [[collection]]
        name = "docs"
        delay = "50ms"
        depth = 3
        """
    )
    assert (
        config.fetch.user_agent,
        config.fetch.max_body,
        config.fetch.total_timeout,
        config.fetch.slow_speed,
    ) == (
        "spider/1",
        5 * 2**20,
        90_000,
        0,
    )
    assert config.crawl.patience == 0
    assert [(entry.name, entry.scope, entry.delay, entry.depth) for entry in config.collection] == [
        ("news", "domain", 1_000, None),
        ("docs", "host", 50, 3),
    ]


@pytest.mark.parametrize(("section", "name"), SETTINGS)
def test_every_setting_has_a_description_and_a_valid_default(section: str, name: str) -> None:
    model = SECTIONS[section]
    description = model.model_fields[name].description
    assert description
    assert description.endswith(".")
    written = model().model_dump(mode="json")[name]
    if written is not None:
        value = json.dumps(written, ensure_ascii=False)
        header = "[[collection]]" if section == "collection" else f"[{section}]"
        config = parse_config(f"{header}\n{name} = {value}\n")
        part = config.collection[0] if section == "collection" else getattr(config, section)
        assert getattr(part, name) == getattr(model(), name)
        assert parse_config(f"{header}\n", overrides=(f"{section}.{name}={value}",)) == config


@given(st.integers(1_024, 2**50), st.integers(1, 2**50))
def test_serialised_configuration_is_read_back(size: int, milliseconds: int) -> None:
    config = parse_config(
        "", overrides=(f"fetch.max_body={size}B", f"fetch.total_timeout={milliseconds}ms")
    )
    assert (config.fetch.max_body, config.fetch.total_timeout) == (size, milliseconds)
    assert Config.model_validate(config.model_dump(mode="json")) == config


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (
            "[fetch]\nuser_agnt = 'x'\n",
            2,
            "fetch.user_agnt: unknown setting 'user_agnt'; did you mean 'user_agent'?",
        ),
        (
            "# user_agnt = 1\n[crawl]\n\n[fetch]\n# user_agnt = 1\nuser_agent = 'user_agnt'\n  "
            "user_agnt='x'\n",
            7,
            "did you mean 'user_agent'?",
        ),
        (
            "[fetchh]\nuser_agent = 'x'\n",
            1,
            "fetchh: unknown setting 'fetchh'; did you mean 'fetch'?",
        ),
        ("\nfetch.user_agnt = 'x'\n", 2, "did you mean 'user_agent'?"),
        ("[crawl]\n[fetch]\n'user_agnt' = 'x'\n", 3, "did you mean 'user_agent'?"),
        (
            "[crawl]\npatience = '1s'\n[fetch]\nuser_agent = '''\nuser_agnt = 1\n'''\nuser_agnt = "
            "2\n",
            7,
            "did you mean",
        ),
        ("fetch = {user_agent = 'x', user_agnt = 'y'}\n", 1, "did you mean 'user_agent'?"),
        ("[fetch]\nzzzzzz = 1\n", 2, "known: user_agent, contact, "),
        (
            "[[collection]]\ndeth = 1\n",
            2,
            "collection.0.deth: unknown setting 'deth'; did you mean 'depth'?",
        ),
        (
            "[[collection]]\nname='a'\ndepth=1\n[[collection]]\nname='b'\ndepth=-1\n",
            6,
            "collection.1.depth: must be at least 0 (given: -1)",
        ),
        (
            "[crawl]\npatience = '1s'\n[index]\nthreads = 99\n",
            4,
            "index.threads: must be at most 16 (given: 99)",
        ),
        ("[fetch]\nconnections = 0\n", 2, "fetch.connections: must be at least 1 (given: 0)"),
        (
            "[fetch]\nmax_body = 10\n",
            2,
            "write a size as text with its unit, as in '10MiB' (given: 10)",
        ),
        ("[fetch]\nmax_body = '10'\n", 2, "'10' is not a size"),
        ("[fetch]\nmax_body = '1B'\n", 2, "must be at least 1KiB"),
        (
            "[fetch]\ntotal_timeout = 10\n",
            2,
            "write a duration as text with its unit, as in '10s' (given: 10)",
        ),
        ("[fetch]\ntotal_timeout = 'soon'\n", 2, "'soon' is not a duration"),
        ("[crawl]\npatience = false\n", 2, "write a duration"),
        ("[crawl]\npatience = 0.0\n", 2, "write a duration"),
        ("[[collection]]\nscope = 'world'\n", 2, "'host', 'domain', 'prefix' or 'any'"),
        (
            "[[collection]]\nname = 'News'\n",
            2,
            "does not have the required form: Name of the collection",
        ),
        ("[[collection]]\ncourtesy_factor = inf\n", 2, "finite number"),
        ("[[collection]]\ncourtesy_factor = nan\n", 2, "collection.0.courtesy_factor"),
        (
            "[[collection]]\nseeds = [\n  'http://a/',\n  5,\n]\n",
            2,
            "collection.0.seeds.1: Input should be a valid string (given: 5)",
        ),
        ("crawl = 3\n", 1, "crawl: Input should be a valid dictionary"),
        ("[collection]\nname = 'x'\n", 1, "write [[collection]] in double brackets"),
        ("[[collection]]\nseeds = 'http://a/'\n", 2, "seeds: must be a list in square brackets"),
        ("[[collection]]\nmax_pages = false\n", 2, "max_pages: must be a number"),
        ("[[collection]]\npriority = true\n", 2, "priority: must be a number"),
    ],
)
def test_error_messages_name_the_line(text: str, line: int, message: str) -> None:
    first = problem(text).splitlines()[0]
    assert first.startswith(f"lycosa.toml, line {line}: ")
    assert message in first


def test_all_problems_are_reported_together() -> None:
    messages = problem("[fetch]\nx = 1\nconnections = 0\n[serve]\nport = 70000\n").splitlines()
    assert [entry.split(": ")[0] for entry in messages] == [
        "lycosa.toml, line 3",
        "lycosa.toml, line 2",
        "lycosa.toml, line 5",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[fetch\n", "lycosa.toml: "),
        ("a = 1\na = 2\n", "line 2"),
        (
            "[[collection]]\n[[collection]]\n",
            "two collections are named 'default'; names must differ",
        ),
        (
            "[[collection]]\nallow = ['(']\n",
            "lycosa.toml, line 2: collection.0.allow.0: not a regular expression",
        ),
        ("[[collection]]\ndeny = ['a{99999999999999999999}']\n", "not a regular expression"),
    ],
)
def test_syntax_and_consistency_errors(text: str, message: str) -> None:
    assert message in problem(text)


@pytest.mark.parametrize(
    ("override", "section", "name", "value"),
    [
        ("fetch.user_agent=spider/1 (me)", "fetch", "user_agent", "spider/1 (me)"),
        ('fetch.user_agent="a b"', "fetch", "user_agent", "a b"),
        ("fetch.user_agent=a=b", "fetch", "user_agent", "a=b"),
        ("fetch.max_body=5MiB", "fetch", "max_body", 5 * 2**20),
        ("fetch.total_timeout = 3s", "fetch", "total_timeout", 3_000),
        ("fetch.connections=7", "fetch", "connections", 7),
        ("fetch.http2=false", "fetch", "http2", False),
        ("fetch.contact=", "fetch", "contact", ""),
        ("fetch.connect_to=a:80:127.0.0.1:8000", "fetch", "connect_to", ("a:80:127.0.0.1:8000",)),
        ("fetch.connect_to=['::a:1', '::b:2']", "fetch", "connect_to", ("::a:1", "::b:2")),
        ("serve.port=0", "serve", "port", 0),
        ("crawl.patience=0", "crawl", "patience", 0),
    ],
)
def test_overrides(override: str, section: str, name: str, value: Any) -> None:
    for text in ("", f"[{section}]\n"):
        assert getattr(getattr(parse_config(text, overrides=(override,)), section), name) == value


@pytest.mark.parametrize(
    ("source", "path", "expected"),
    [
        ("/data/news/lycosa.toml", "seeds/en.txt", "/data/news/seeds/en.txt"),
        ("news/lycosa.toml", "seeds/en.txt", "news/seeds/en.txt"),
        ("/data/news/lycosa.toml", "/home/me/en.txt", "/home/me/en.txt"),
        ("s3://bucket/news/lycosa.toml", "seeds/en.txt", "s3://bucket/news/seeds/en.txt"),
        ("/data/news/lycosa.toml", "s3://bucket/en.txt", "s3://bucket/en.txt"),
        ("/data/news/lycosa.toml", "", ""),
    ],
)
def test_paths_are_relative_to_the_configuration_file(
    source: str, path: str, expected: str
) -> None:
    text = f'[fetch]\nca_file = "{path}"\n[crawl]\nexclusions = "{path}"\n'
    config = parse_config(f'{text}[[collection]]\nname = "en"\nseed_file = "{path}"\n', source)
    assert config.collection[0].seed_file == expected
    local = path if source.startswith("s3:") else expected  # a CA file and exclusions are local
    assert (config.fetch.ca_file, config.crawl.exclusions) == (local, local)


def test_overrides_precede_the_file_and_the_last_one_is_used() -> None:
    text = "[fetch]\nconnections = 3\nretries = 1\n"
    config = parse_config(text, overrides=("fetch.connections=4", "fetch.connections=5"))
    assert (config.fetch.connections, config.fetch.retries) == (5, 1)


def test_overrides_of_collections_apply_to_all_collections() -> None:
    text = "[[collection]]\nname = 'a'\n[[collection]]\nname = 'b'\ndelay = '2s'\n"
    assert [
        entry.delay for entry in parse_config(text, overrides=("collection.delay=50ms",)).collection
    ] == [50, 50]


def test_override_without_collections_creates_the_default_one() -> None:
    (collection,) = parse_config(
        "", overrides=("collection.delay=50ms", "collection.deny=print")
    ).collection
    assert (collection.name, collection.delay, collection.deny) == ("default", 50, ("print",))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("fetch", "write section.key=value"),
        ("fetch=1", "write section.key=value"),
        ("fetch.=1", "write section.key=value"),
        (".x=1", "write section.key=value"),
        ("a.b.c=1", "write section.key=value"),
        ("=", "write section.key=value"),
        ("", "write section.key=value"),
        ("fecth.user_agent=x", "there is no section 'fecth'; did you mean 'fetch'?"),
        ("zzz.user_agent=x", "known: fetch, crawl, render, index, encoder, store, run, cluster, "),
        ("fetch.usr_agent=x", "[fetch] has no setting 'usr_agent'; did you mean 'user_agent'?"),
        ("fetch.connections=0", "must be at least 1"),
        ("fetch.connections=many", "valid integer"),
        ("fetch.max_body=5", "write a size as text with its unit"),
        ("collection.delay=5", "write a duration as text with its unit"),
        ("fetch.retries=" + "[" * 5_000, "valid integer"),
    ],
)
def test_invalid_override_is_named_in_the_message(override: str, message: str) -> None:
    messages = problem("[fetch]\nconnections = 3\nmax_body = '1MiB'\n", override)
    assert messages.startswith(f"--set {override}: ")
    assert message in messages


@pytest.mark.parametrize(
    "text",
    [
        "fetch = 3\n",
        "collection = 3\n",
        "collection = [1]\n",
        "[[fetch]]\n",
        "[collection]\nname = 'a'\n",
    ],
)
def test_override_of_a_section_that_is_not_a_table(text: str) -> None:
    section = "fetch" if "fetch" in text else "collection"
    name = "retries=1" if section == "fetch" else "delay=1s"
    assert f"lycosa.toml: {section} is a table" in problem(text, f"{section}.{name}")
    assert section in problem(text)


@pytest.mark.parametrize(
    "text",
    [
        f"[fetch]\nconnections = {'9' * 5_000}\n",
        f"[fetch]\nconnections = 0x{'f' * 5_000}\n",
        f"[fetch]\nconnections{'.a' * 3_000} = 1\n",
        f"[fetch]\n{'x' * 100_000} = 1\n",
        f"[fetch]\ntotal_timeout = '{'x' * 100_000}'\n",
        f"[[collection]]\nallow = ['{'(' * 100_000}']\n",
        f"[[collection]]\nseeds = [{'1,' * 5_000}]\n",
        '[fetch]\nca_file = "/a\\u0000b"\n',
    ],
)
def test_length_of_error_messages_is_bounded(text: str) -> None:
    messages = problem(text).splitlines()
    assert messages[0].startswith("lycosa.toml")
    assert len(messages) <= 21
    assert max(map(len, messages)) < 3_000


def test_huge_number_in_an_override_is_reported() -> None:
    assert problem("", f"fetch.connections={'9' * 5_000}").startswith("--set fetch.connections=")


def test_byte_order_mark_is_ignored() -> None:
    assert parse_config("\ufeff[fetch]\nconnections = 5\n").fetch.connections == 5


@given(st.text(max_size=40), st.text(max_size=20))
def test_any_text_gives_a_configuration_or_a_message(text: str, override: str) -> None:
    for overrides in (
        (),
        (override,),
        (f"fetch.user_agent={override}",),
        (f"collection.seeds={override}",),
    ):
        try:
            parse_config(text, overrides=overrides)
        except ConfigError as error:
            outcome = str(error)
        else:
            outcome = "a configuration"
        assert outcome


def test_settings_are_immutable() -> None:
    with pytest.raises(ValueError, match="frozen"):
        parse_config("").fetch.connections = 3  # type: ignore[misc]


def test_monitor_defaults_and_errors() -> None:
    (monitor,) = parse_config("[[monitor]]\nurl = 'https://example.org/'\n").monitor
    assert (
        monitor.every,
        monitor.timeout_ms,
        monitor.confirm_after_ms,
        monitor.accepts(204),
        monitor.accepts(404),
    ) == (
        60_000,
        7_200,
        9_000,
        True,
        False,
    )
    assert "did you mean 'every'" in problem(
        "[[monitor]]\nurl = 'https://example.org/'\nevry = '5s'\n"
    )
    assert "without a user name" in problem("[[monitor]]\nurl = 'https://me@example.org/'\n")
    assert "remove one" in problem(
        "[[monitor]]\nurl = 'https://example.org/'\n[[monitor]]\nurl = 'https://example.org/'\n"
    )
