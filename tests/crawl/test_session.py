"""Sessions: what a claim needs before it is made, seeds over several calls, what makes stored links
worth another look.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lycosa.config.collection import ADMISSION_SETTINGS, OTHER_SETTINGS, Collection
from lycosa.config.reading import parse_config
from lycosa.core.clock import SystemClock
from lycosa.core.errors import ClaimLost, ConfigError, UrlError, UsageError
from lycosa.crawl.session.planning import seeds_of
from lycosa.crawl.session.session import REPARSED, CrawlSession, look_again, open_session
from lycosa.crawl.state.task import Job
from lycosa.store.verify.check import verify
from lycosa.store.workspace import Workspace
from tests.crawl.conftest import ServeWeb, page, path_of, serve
from tests.crawl.sessions import collection, work

__all__ = ["serve"]


def test_seeds_of_all_calls_each_once() -> None:
    a, b, c, d = (f"http://{name}.test/" for name in "abcd")
    configured = Collection.model_validate({"seeds": [c, a]})
    assert seeds_of({"seeds": [b, a]}, configured, (d,)) == (b, a, c, d)
    assert seeds_of({}, Collection()) == ()


def test_seeds_of_earlier_calls_that_are_refused_now_stop_nothing() -> None:
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
def test_what_makes_stored_links_worth_another_look(
    change: dict[str, object], expected: bool
) -> None:
    before = collection("default").model_dump(mode="json")
    after = collection("default", **change).model_dump(mode="json")
    assert look_again(before, after) is expected


def test_a_depth_limit_and_a_newer_parser_always_do() -> None:
    limited = collection("default", depth=2).model_dump(mode="json")
    assert look_again(limited, limited)
    settings = collection("default").model_dump(mode="json")
    assert look_again(settings | {REPARSED: 1}, settings)


def open_one(workspace: Workspace, seed: str, *settings: str) -> CrawlSession:
    return open_session(
        workspace,
        parse_config("", overrides=settings),
        [Job(collection("default"), (seed,))],
        command="test",
        clock=SystemClock(),
    )


def test_a_wrong_exclusion_list_claims_nothing(tmp_path: Path) -> None:
    rules = tmp_path / "never.txt"
    rules.write_text("hots example.org\n")
    workspace = Workspace.open_or_create(str(tmp_path / "w"))
    with pytest.raises(ConfigError):
        open_one(workspace, "http://127.0.0.1:1/", f"crawl.exclusions={rules}")
    assert workspace.state().head == 0


def test_a_seed_that_cannot_be_used_is_told_and_the_next_call_goes_on(
    serve: ServeWeb, tmp_path: Path
) -> None:
    web = serve({"/index.html": page("/a.html"), "/a.html": page()})
    with pytest.raises(UrlError):
        work(
            tmp_path / "w",
            [(collection("default"), [web.url(), "http://127.0.3.1:1/" + "x" * 3_000])],
        )
    assert work(tmp_path / "w", [(collection("default"), [web.url()])]).pages() == ["/", "/a.html"]


def test_what_an_outranked_session_fetched_meanwhile_is_kept_and_changes_nothing(
    serve: ServeWeb, tmp_path: Path
) -> None:
    web = serve({"/index.html": page("/a.html"), "/a.html": page(text="old")})
    workspace = Workspace.open_or_create(str(tmp_path / "w"))
    first = open_one(workspace, web.url())
    first.take_up()
    second = open_one(workspace, web.url())
    second.take_up()
    with pytest.raises(ClaimLost):
        first.worker.run()
    first.close()
    (web.server.servers[0].root / "a.html").write_text(page(text="new"))
    second.worker.run()
    second.claim.release()
    second.close()
    crawled = work(tmp_path / "w", [(collection("default"), [web.url()])])
    assert len(web.asked()) == 4
    visits = [str(row["url"]) for row in crawled.rows("visits") if row["kind"] == "page"]
    assert len(visits) == 4
    titles = {path_of(str(row["url"])): row["title"] for row in crawled.rows("pages")}
    assert titles == {"/": "a page", "/a.html": "new"}
    assert not workspace.claim("look", settings={}).orphans()
    assert verify(workspace, deep=True).ok


def test_a_second_session_outranks_the_first(serve: ServeWeb, tmp_path: Path) -> None:
    """The first fetches until it looks at the log; what it then holds is taken up by whoever comes
    next, and committed once.
    """
    web = serve({"/index.html": page("/a.html"), "/a.html": page()})
    workspace = Workspace.open_or_create(str(tmp_path / "w"))
    first = open_one(workspace, web.url())
    first.take_up()
    second = open_one(workspace, web.url())
    with pytest.raises(ClaimLost):
        first.worker.run()
    first.close()
    second.take_up()
    assert second.worker.progress.replayed == 3
    second.close()  # and dies before its commit
    crawled = work(tmp_path / "w", [(collection("default"), [web.url()])])
    assert crawled.pages() == ["/", "/a.html"]
    assert sorted(web.asked()) == ["/", "/a.html"]
    ids = [str(row["record_id"]) for row in crawled.rows("visits")]
    assert len(ids) == len(set(ids)) == 3


def test_every_collection_setting_says_what_a_change_of_it_means() -> None:
    assert sorted((*ADMISSION_SETTINGS, *OTHER_SETTINGS)) == sorted(Collection.model_fields)
