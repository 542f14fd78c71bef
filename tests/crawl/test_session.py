"""Sessions: collections of lycosa.toml, seeds, claims and submitted URLs.

Also: which changed settings cause the stored links to be processed again.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lycosa.config.collection import ADMISSION_SETTINGS, OTHER_SETTINGS, Collection
from lycosa.config.reading import parse_config
from lycosa.core.clock import SystemClock
from lycosa.core.errors import ClaimLost, ConfigError, UrlError, UsageError
from lycosa.crawl.session.planning import CrawlPlan, make_plan, seeds_of
from lycosa.crawl.session.session import REPARSED, CrawlSession, needs_link_walk, open_session
from lycosa.crawl.session.submission import Submitted, submit
from lycosa.crawl.state.task import Job
from lycosa.store.verify.check import verify
from lycosa.store.workspace import Workspace
from tests.crawl.conftest import ServeWeb, page, path_of, serve
from tests.crawl.sessions import collection, work

__all__ = ["serve"]


def test_seeds_of_all_crawls_are_merged_without_duplicates() -> None:
    a, b, c, d = (f"http://{name}.test/" for name in "abcd")
    configured = Collection.model_validate({"seeds": [c, a]})
    assert seeds_of({"seeds": [b, a]}, configured, (d,)) == (b, a, c, d)
    assert seeds_of({}, Collection()) == ()


def test_refused_seeds_of_earlier_calls_are_ignored() -> None:
    long = "http://a.test/" + "x" * 100
    narrow = Collection.model_validate({"max_url_length": 64})
    assert seeds_of({"seeds": [long, "mailto:a@b.test"]}, narrow, ("http://a.test/",)) == (
        "http://a.test/",
    )
    with pytest.raises(UsageError, match="too long"):
        seeds_of({}, narrow, (long,))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, False),
        ({"delay": "9s"}, False),
        ({"depth": 3}, True),
        ({"scope": "any"}, True),
        ({"deny": ["x"]}, True),
        ({"seeds": ["http://127.0.0.1/"]}, True),
        ({"max_pages_per_host": 5}, True),
        ({"traps": True}, True),
    ],
)
def test_changed_settings_that_reprocess_stored_links(
    change: dict[str, object], expected: bool
) -> None:
    before = collection("default").model_dump(mode="json")
    assert (
        needs_link_walk(before, collection("default", **change).model_dump(mode="json")) is expected
    )


def test_depth_limit_and_newer_parser_reprocess_stored_links() -> None:
    limited = collection("default", depth=2).model_dump(mode="json")
    assert needs_link_walk(limited, limited)
    settings = collection("default").model_dump(mode="json")
    assert needs_link_walk(settings | {REPARSED: 1}, settings)


def open_one(workspace: Workspace, seed: str, *settings: str) -> CrawlSession:
    return open_session(
        workspace,
        parse_config("", overrides=settings),
        [Job(collection("default"), (seed,))],
        command="test",
        clock=SystemClock(),
    )


def test_invalid_exclusion_list_is_refused_before_the_claim(tmp_path: Path) -> None:
    rules = tmp_path / "never.txt"
    rules.write_text("hots example.org\n")
    workspace = Workspace.open_or_create(str(tmp_path / "w"))
    with pytest.raises(ConfigError):
        open_one(workspace, "http://127.0.0.1:1/", f"crawl.exclusions={rules}")
    assert workspace.state().head == 0


def test_workspace_can_be_crawled_after_a_call_with_an_invalid_seed(
    serve: ServeWeb, tmp_path: Path
) -> None:
    web = serve({"/index.html": page("/a.html"), "/a.html": page()})
    with pytest.raises(UrlError):
        work(
            tmp_path / "w",
            [(collection("default"), [web.url(), "http://127.0.3.1:1/" + "x" * 3_000])],
        )
    assert work(tmp_path / "w", [(collection("default"), [web.url()])]).pages() == ["/", "/a.html"]


@pytest.mark.proves("cluster-fencing")
def test_exchanges_of_a_fenced_session_are_stored_and_change_no_newer_page(
    serve: ServeWeb, tmp_path: Path
) -> None:
    web = serve({"/index.html": page("/a.html"), "/a.html": page(text="old")})
    workspace = Workspace.open_or_create(str(tmp_path / "w"))
    first = open_one(workspace, web.url())
    first.load()
    second = open_one(workspace, web.url())
    second.load()
    with pytest.raises(ClaimLost):
        first.worker.run()
    first.close()
    (web.server.servers[0].root / "a.html").write_text(page(text="new"))
    second.worker.run()
    second.claim.release()
    second.close()
    crawled = work(tmp_path / "w", [(collection("default"), [web.url()])])
    assert len(web.requested_paths()) == 4
    assert len([str(row["url"]) for row in crawled.rows("visits") if row["kind"] == "page"]) == 4
    titles = {path_of(str(row["url"])): row["title"] for row in crawled.rows("pages")}
    assert titles == {"/": "a page", "/a.html": "new"}
    assert not workspace.claim("test", settings={}).orphans()
    assert verify(workspace, deep=True).ok


@pytest.mark.proves("cluster-fencing")
def test_second_session_fences_the_first(serve: ServeWeb, tmp_path: Path) -> None:
    """The first session fetches until it reads the log.

    The following sessions replay its exchanges, and one commits them.
    """
    web = serve({"/index.html": page("/a.html"), "/a.html": page()})
    workspace = Workspace.open_or_create(str(tmp_path / "w"))
    first = open_one(workspace, web.url())
    first.load()
    second = open_one(workspace, web.url())
    with pytest.raises(ClaimLost):
        first.worker.run()
    first.close()
    second.load()
    assert second.worker.progress.replayed == 3
    second.close()  # ends without a commit
    crawled = work(tmp_path / "w", [(collection("default"), [web.url()])])
    assert (crawled.pages(), sorted(web.requested_paths())) == (["/", "/a.html"], ["/", "/a.html"])
    ids = [str(row["record_id"]) for row in crawled.rows("visits")]
    assert len(ids) == len(set(ids)) == 3


def test_every_collection_setting_is_classified_by_the_effect_of_a_change() -> None:
    assert sorted((*ADMISSION_SETTINGS, *OTHER_SETTINGS)) == sorted(Collection.model_fields)


GOOD = '[[collection]]\nname = "good"\nseeds = ["http://127.0.0.1/"]\n'


def plan(text: str, *chosen: str, **settings: str) -> CrawlPlan:
    return make_plan(
        text,
        "lycosa.toml",
        chosen=chosen,
        overrides=tuple(f"fetch.{key}={value}" for key, value in settings.items()),
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ('seeds = ["htp:/x"]', "only http, https"),
        ('seeds = ["http://127.0.0.1/", "http://["]', "not a valid URL"),
        ('seed_file = "/nowhere/seeds.txt"', "/nowhere/seeds.txt cannot be read"),
        ('seeds = ["http://127.0.0.1/"]\nallow = ["("]', "not a regular expression"),
        ('seeds = ["http://127.0.0.1/"]\nsedes = 3', "did you mean 'seeds'"),
        ('seeds = ["http://127.0.0.1/"]\nschedule = "nachts"', "HH:MM-HH:MM"),
        ('seeds = ["http://127.0.0.1/"]\nfeed_urls = ["mailto:a@b"]', "only http, https"),
        (f'seeds = ["http://127.0.0.1/{"x" * 3000}"]', "too long"),
        ("depth = 2", "no seeds"),
    ],
)
def test_invalid_collection_is_skipped_and_the_others_remain(settings: str, message: str) -> None:
    crawl_plan = plan(f'{GOOD}[[collection]]\nname = "bad"\n{settings}\n')
    assert (crawl_plan.names, list(crawl_plan.bad)) == (["good"], ["bad"])
    assert message in crawl_plan.bad["bad"]


def test_second_collection_with_the_same_name_is_skipped() -> None:
    crawl_plan = plan(GOOD + GOOD.replace("127.0.0.1", "127.0.0.2"))
    assert [job.seeds for job in crawl_plan.jobs] == [("http://127.0.0.1/",)]
    assert "names must differ" in "".join(crawl_plan.bad.values())


def test_invalid_collection_with_the_name_of_another_is_identified_by_its_number() -> None:
    crawl_plan = plan(f"{GOOD}depth = -1\n{GOOD}")
    assert (crawl_plan.names, list(crawl_plan.bad)) == (["good"], ["good (number 1)"])


@pytest.mark.parametrize(
    "text",
    [
        "",
        '[[collection]]\nname = "x"\n',
        "[fetch]\nconections = 3\n" + GOOD,
        "[[collection",
        "collection = 3",
    ],
)
def test_configuration_without_a_valid_collection_is_an_error(text: str) -> None:
    with pytest.raises(ConfigError):
        plan(text)


def test_chosen_collections() -> None:
    text = GOOD + GOOD.replace("good", "other") + '[[collection]]\nname = "bad"\n'
    assert (plan(text, "other").names, plan(text, "other").bad) == (["other"], {})
    with pytest.raises(UsageError, match="did you mean 'other'"):
        plan(text, "othre")
    with pytest.raises(ConfigError, match="no seeds"):
        plan(text, "bad")


def test_seeds_come_from_settings_and_seed_file_else_from_earlier_calls(tmp_path: Path) -> None:
    (tmp_path / "seeds").write_text(
        "http://127.0.0.2/\t# the second\n\n# none\nhttp://127.0.0.1/ # first\n"
    )
    text = (
        f'{GOOD}seed_file = "{tmp_path}/seeds"\n[[collection]]\nname = '
        '"old"\n[[collection]]\nname = "any"\nscope = "any"\n'
    )
    before = {"old": {"seeds": ["http://127.0.0.9/"]}, "good": {"seeds": ["http://127.0.0.8/"]}}
    crawl_plan = make_plan(text, "lycosa.toml", before=before)
    assert {job.collection.name: job.seeds for job in crawl_plan.jobs} == {
        "good": ("http://127.0.0.1/", "http://127.0.0.2/"),
        "old": ("http://127.0.0.9/",),
        "any": (),
    }


@pytest.mark.proves("politeness-contact")
def test_public_hosts_need_a_contact() -> None:
    public = GOOD.replace("127.0.0.1", "www.debian.org")
    with pytest.raises(ConfigError, match=r"fetch\.contact is not set"):
        plan(public)
    assert plan(public, contact="https://www.uni-muenster.de/robot").names == ["good"]
    assert plan(public, connect_to='["www.debian.org::127.0.0.1:8000"]').names == ["good"]
    with pytest.raises(ConfigError, match=r"fetch\.contact is not set"):
        plan(public, connect_to='["www.debian.org::8.8.8.8:"]')
    with pytest.raises(ConfigError, match=r"fetch\.contact is not set"):
        plan(GOOD + 'feed_urls = ["https://www.debian.org/feed"]\n')


@pytest.mark.parametrize(
    ("host", "public"),
    [
        ("localhost", False),
        ("a.localhost:8000", False),
        ("10.1.2.3", False),
        ("[::1]:80", False),
        ("0x7f.1", False),
        ("8.8.8.8", True),
        ("[2606:4700::1111]", True),
        ("intranet", True),
    ],
)
def test_hosts_that_need_a_contact(host: str, public: bool) -> None:
    text = GOOD.replace("127.0.0.1", host)
    if public:
        with pytest.raises(ConfigError, match=r"fetch\.contact is not set"):
            plan(text)
    else:
        assert plan(text).names == ["good"]


ONE = '[[collection]]\nname = "one"\nseeds = ["http://127.0.0.1/"]\n'
TWO = (
    '[[collection]]\nname = "two"\nseeds = ["http://127.0.0.2/a/x"]\nscope = '
    '"prefix"\ndrop_parameters = ["utm_*"]\ndeny = ["y"]\n'
)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return tmp_path / "w"


def add(workspace: Path, *urls: str, collection: str = "", settings: str = ONE + TWO) -> Submitted:
    return submit(str(workspace), parse_config(settings), urls, collection)


@pytest.mark.parametrize(
    ("urls", "collection", "reason"),
    [
        (
            ("http://127.0.0.2/a/y",),
            "",
            r"specify one \(available: one, two\)",
        ),
        (("http://127.0.0.2/a/y",), "tow", "unknown collection 'tow'; did you mean 'two'"),
        (
            ("http://127.0.0.2/a/", "http://127.0.0.2/b"),
            "two",
            r"http://127.0.0.2/b is not accepted by collection 'two': refused \(scope\)",
        ),
        (("mailto:a@b",), "two", "only http, https, ftp and gopher URLs are crawled"),
        (("http://[",), "two", "not a valid URL"),
        ((f"http://127.0.0.2/a/{'x' * 3000}",), "two", r"refused \(too_long\)"),
    ],
)
def test_refused_submissions(
    workspace: Path, urls: tuple[str, ...], collection: str, reason: str
) -> None:
    with pytest.raises(UsageError, match=reason):
        add(workspace, *urls, collection=collection)
    assert not list(workspace.glob("inbox/*"))


def test_submission_is_written_to_the_inbox(workspace: Path) -> None:
    # `deny` applies to links only
    submitted = add(workspace, "http://127.0.0.2/a/y?utm_x=1", collection="two")
    assert submitted.urls == ("http://127.0.0.2/a/y",)
    assert submitted.owner is None
    (file,) = (workspace / "inbox").iterdir()
    assert file.name == submitted.file
    assert json.loads(file.read_text())["urls"] == ["http://127.0.0.2/a/y"]


def test_submission_without_a_collection_name_uses_the_only_collection(workspace: Path) -> None:
    assert add(workspace, "http://127.0.0.1/x", settings=ONE).collection == "one"
    with pytest.raises(UsageError, match="no collection yet"):
        add(workspace, "http://127.0.0.1/x", settings="")
    typed = parse_config(ONE.replace("one", "typed")).collection[0].model_dump(mode="json")
    Workspace.open(str(workspace)).claim("test", settings={"typed": typed})
    assert add(workspace, "http://127.0.0.1/x", settings="").collection == "typed"
    with pytest.raises(UsageError, match="scope"):
        add(workspace, "http://127.0.0.9/x", settings="")


def test_submission_of_an_excluded_url_is_refused(workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "list").write_text("host 127.0.0.1\n")
    settings = f'[crawl]\nexclusions = "{tmp_path}/list"\n{ONE}'
    with pytest.raises(UsageError, match=r"http://127.0.0.1/x is excluded by the operator"):
        add(workspace, "http://127.0.0.1/x", settings=settings)
    (tmp_path / "list").unlink()
    with pytest.raises(UsageError, match="cannot be read"):
        add(workspace, "http://127.0.0.1/x", settings=settings)
