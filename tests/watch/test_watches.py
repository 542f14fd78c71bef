"""Test watches in real crawls: matches, notices, maintenance and kills."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from lycosa.commands.maintenance.exclude import exclude_and_purge
from lycosa.config.reading import parse_config
from lycosa.core.errors import NameTaken, UsageError
from lycosa.crawl.session.submission import submit
from lycosa.matching.orders import FOLDER
from lycosa.store.compaction.compact import compact
from lycosa.store.tables.live import LiveTables
from lycosa.store.verify.check import verify
from lycosa.store.workspace import Workspace
from lycosa.watch.delivery import MatchDelivery
from lycosa.watch.watches import add_watch, list_watches, matches, remove_watch
from tests.site.editable_site import (
    EditableSite,
    crawled,
    editable_site,
    kill_often,
    stored_texts,
    webhook_receiver,
)
from tests.waiting import until

QUIET = parse_config("", overrides=("crawl.patience=1s",))


@pytest.fixture
def root(tmp_path: Path) -> str:
    return Workspace.create(str(tmp_path / "w")).root


def write_site(site: EditableSite) -> None:
    site.page("/", "Front page of the paper.", "/wolf", "/sheep", "/zh")
    site.page("/wolf", "A Wolf was seen. The wolf ran. Wolf!")
    site.page("/sheep", "Sheep are counted here.")
    site.page("/zh", "北京有一只狼。狼来了")


def test_pages_fetched_after_the_watch_match_at_exact_positions(root: str) -> None:
    with editable_site("127.0.7.73") as site:
        write_site(site)
        crawled(root, f"{site.origin}/", depth=0)
        exact = add_watch(root, QUIET, ["Wolf", "狼", "Front page"])
        any_case = add_watch(root, QUIET, ["WOLF"], ["case"], name="any wolf")
        crawled(root, f"{site.origin}/")
    results, total = matches(root)
    assert total == 3
    pages = stored_texts(root)
    for each in results:
        text = pages[each.url]
        if each.watch == exact.id:
            assert each.positions == tuple(
                at for at in range(len(text)) if text.startswith(each.text, at)
            )
        else:
            assert [text[at : at + 4].lower() for at in each.positions] == ["wolf"] * 3
        assert each.count == len(each.positions)
        assert each.text in each.context or each.watch == any_case.id
    # the home page, with "Front page", was fetched before
    assert Counter((each.watch, each.text) for each in results) == Counter(
        {(exact.id, "Wolf"): 1, (exact.id, "狼"): 1, (any_case.id, "WOLF"): 1}
    )
    assert matches(root, "any wolf")[1] == 1
    assert verify(Workspace.open(root)).ok


def test_a_page_is_reported_again_only_after_the_text_was_missing(root: str) -> None:
    def visit(site: EditableSite, text: str) -> list[str]:
        site.page("/", text)
        if site.request_counts:
            submit(root, QUIET, [f"{site.origin}/"])
        crawled(root, f"{site.origin}/", config=receiver.config("crawl.patience=1s"))
        texts = [notice["text"] for notice in receiver.notices]
        receiver.requests.clear()
        return texts

    with editable_site("127.0.7.74") as site, webhook_receiver() as receiver:
        add_watch(
            root, receiver.config(), ["wolf", "bear"], notify=[f"webhook {receiver.origin}/x"]
        )
        assert "wolf" in visit(site, "A wolf.")[0]
        assert visit(site, "A wolf, again.") == []
        assert visit(site, "No animal.") == []
        (back,) = visit(site, "The wolf is back.")
        assert "wolf" in back
        (other,) = visit(site, "The wolf and a bear.")
        assert "“bear”" in other
        assert "more" not in other  # the match of "wolf" is not new
        (target,) = list_watches(root)[0].notify
        assert (target.delivered, target.waiting) == (3, 0)
    assert (matches(root)[1], matches(root, every=True)[1]) == (2, 5)


@pytest.mark.parametrize("compacted", [False, True])
def test_text_that_is_older_than_the_watch_is_no_news(root: str, compacted: bool) -> None:
    def visit(site: EditableSite, text: str) -> None:
        site.page("/", text)
        if site.request_counts:
            submit(root, QUIET, [f"{site.origin}/"])
        crawled(root, f"{site.origin}/", config=receiver.config("crawl.patience=1s"))

    def notified_texts() -> list[str]:
        texts = [notice["facts"]["texts"] for notice in receiver.notices]
        receiver.requests.clear()
        return texts

    with editable_site("127.0.7.79") as site, webhook_receiver() as receiver:
        visit(site, "A wolf.")
        watch = ("wolf", "bear", "fox")
        add_watch(root, receiver.config(), watch, notify=[f"webhook {receiver.origin}/x"])
        if compacted:
            compact(Workspace.open(root), whole=True)
        visit(site, "A wolf and a bear.")
        assert notified_texts() == ["bear"]
        visit(site, "A wolf and a fox.")
        assert notified_texts() == ["fox"]
        visit(site, "Nothing.")
        visit(site, "The wolf is back.")
        assert notified_texts() == ["wolf"]


def test_a_failed_notice_is_delivered_later(root: str) -> None:
    with editable_site("127.0.7.75") as site, webhook_receiver() as receiver:
        write_site(site)
        add_watch(root, receiver.config(), ["Wolf"], notify=[f"webhook {receiver.origin}/x"])
        receiver.answers = [(503, {})]
        crawled(root, f"{site.origin}/", config=receiver.config("crawl.patience=1s"))
        (target_state,) = list_watches(root)[0].notify
        assert target_state.waiting + target_state.delivered == 1
        messages: list[str] = []
        # As the next command does.
        delivery = MatchDelivery(root, receiver.config(), messages.append)
        delivery.start()
        until(lambda: list_watches(root)[0].notify[0].delivered, 20)
        delivery.finish()
        assert {notice["id"] for notice in receiver.notices} == {receiver.notices[0]["id"]}
        assert len(receiver.requests) == 2
    assert list_watches(root)[0].notify[0].delivered == 1


def test_compaction_keeps_matches_and_exclusion_removes_them(root: str) -> None:
    with editable_site("127.0.7.76") as site:
        write_site(site)
        failing = "command /bin/false"
        add_watch(root, QUIET, ["Wolf", "狼"], notify=[f"file {root}/notices.jsonl", failing])
        for path in ("/wolf", "/zh", "/sheep"):
            crawled(root, f"{site.origin}{path}")
        before = matches(root)
        compact(Workspace.open(root), whole=True)
        assert matches(root) == before
        delivery = MatchDelivery(root, QUIET, print)
        delivery.start()
        delivery.finish()
        sent = (Path(root) / "notices.jsonl").read_text().splitlines()
        assert len({json.loads(line)["id"] for line in sent}) == len(sent) == 2
        exclude_and_purge(root, QUIET, [f"prefix:{site.origin}/wolf"], remove=True)
        assert [each.text for each in matches(root)[0]] == ["狼"]
        rows = LiveTables(Workspace.open(root)).all_rows("matches").collect()
        assert rows["text"].to_list() == ["狼"]  # also removed from the file
        waiting = [
            path.read_text()
            for path in Path(root, "run/outbox").iterdir()
            if failing in path.read_text()
        ]
        assert ["wolf" in text for text in waiting] == [False]
        assert "/zh" in waiting[0]
        assert matches(root, site=f"{site.origin}/below/")[1] == 0
        assert matches(root, site=site.origin)[1] == 1


def test_a_watch_of_one_collection_ignores_others(root: str) -> None:
    with editable_site("127.0.7.77") as site:
        write_site(site)
        only = add_watch(root, QUIET, ["Wolf"])
        crawled(root, f"{site.origin}/wolf", name="one")
        with pytest.raises(NameTaken, match=f"the name 'Wolf' .{only.id}.: choose another name"):
            add_watch(root, QUIET, ["Wolf"], collections=["one"])
        other = add_watch(root, QUIET, ["Wolf"], collections=["one"], name="of one")
        with pytest.raises(UsageError, match="unknown collection 'two'"):
            add_watch(root, QUIET, ["Wolf"], collections=["two"])
        crawled(root, f"{site.origin}/wolf", name="two")
    assert [(each.watch, each.collection) for each in matches(root, every=True)[0]] == [
        (only.id, "two"),
        (only.id, "one"),
    ] or matches(root, other.id)[1] == 0


def test_removed_and_damaged_watches_affect_no_other(root: str) -> None:
    with editable_site("127.0.7.78") as site:
        write_site(site)
        gone = add_watch(root, QUIET, ["Wolf"], name="w")
        with pytest.raises(NameTaken):
            add_watch(root, QUIET, ["Sheep"], name="w")
        kept = add_watch(root, QUIET, ["Sheep"], name="other")
        file = Path(root) / FOLDER / f"{kept.id}.json"  # as if added at the same time
        file.write_text(file.read_text().replace('"other"', '"w"'))
        with pytest.raises(UsageError, match="2 have the name 'w'"):
            remove_watch(root, "w")
        remove_watch(root, gone.id)
        (Path(root) / FOLDER / "watch-bad.json").write_text("{")
        crawled(root, f"{site.origin}/")
    assert [each.watch for each in matches(root)[0]] == [kept.id]
    with pytest.raises(UsageError, match="no watch 'x'"):
        remove_watch(root, "x")
    with pytest.raises(UsageError):
        add_watch(root, QUIET, [" "])


CRAWL = """
import sys
from tests.site.editable_site import crawled
from lycosa.config.reading import parse_config
crawled(sys.argv[1], sys.argv[2], config=parse_config("", overrides=("crawl.patience=1s", "crawl.commit_pages=7")))
"""


@pytest.mark.parametrize("count", [1, pytest.param(12, marks=pytest.mark.prove)])
def test_kill_nine_stores_and_reports_each_match_once(
    root: str, tmp_path: Path, count: int
) -> None:
    notices_path = tmp_path / "notices.jsonl"
    with editable_site("127.0.7.79") as site:
        for number in range(60):
            site.page(
                f"/{number}", f"Page {number} mentions a wolf.", f"/{number + 1}", f"/{number + 2}"
            )
        add_watch(root, QUIET, ["wolf"], notify=[f"file {notices_path}"])
        kills = kill_often(site, CRAWL, root, f"{site.origin}/0", requests=60, count=count)
        assert {
            path: times for path, times in site.request_counts.items() if times > 1 + kills
        } == {}
    results, total = matches(root, every=True)
    assert total == len({each.url for each in results}) == 60
    notices = [
        json.loads(line) for line in notices_path.read_text().splitlines() if line.endswith("}")
    ]
    assert {notice["url"] for notice in notices} == {each.url for each in results}
    assert len({notice["id"] for notice in notices}) == 60
    assert len(notices) <= 60 + 20 * kills
