"""Which links become rows, at what depth, and what is counted."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.commands.inspection.explain_state import Known, row_facts, unknown_facts
from lycosa.config.settings import Collection
from lycosa.core.clock import ManualClock
from lycosa.core.errors import UrlError
from lycosa.core.records import Link, UrlId, UrlRow
from lycosa.crawl.admission.link_gate import AdmissionListener, LinkGate
from lycosa.crawl.admission.remote_links import Way
from lycosa.crawl.admission.url_filter import ExclusionCheck, UrlFilter
from lycosa.frontier.seen.seen_urls import SeenUrls
from lycosa.store.tables.buffers import polars_schema
from lycosa.store.tables.schema import TABLES
from lycosa.url.domain import Domains, bundled_suffix_list
from lycosa.url.keys import Identifier
from lycosa.url.normalise import normalise
from lycosa.url.scope import Admission


class _NoTables:
    """Tables without rows."""

    def scan(self, name: str) -> pl.LazyFrame:
        return pl.LazyFrame(schema=polars_schema(TABLES[name]))


NO_TABLES: Any = _NoTables()
DOMAINS = Domains(bundled_suffix_list())


class Gate(AdmissionListener):
    """A link gate with what it reported."""

    def __init__(self, *, screened: bool = False, **settings: object) -> None:
        """`screened`: with the screen of the product."""
        collection = Collection.model_validate(settings)
        self.rows: dict[str, UrlRow] = {}
        self.risen: list[tuple[str, int]] = []
        self.gate = LinkGate(
            collection,
            Admission(collection, ["http://h/"], DOMAINS),
            Identifier(DOMAINS, 64),
            SeenUrls(),
            self,
            screen=UrlFilter(collection, ExclusionCheck(None, DOMAINS), ManualClock())
            if screened
            else None,
        )
        self.gate.seed("http://h/", 0)
        self.source = self.rows["http://h/"]

    @property
    def urls(self) -> list[str]:
        return list(self.rows)

    def admitted(self, row: UrlRow) -> None:
        assert row.id.url not in self.rows
        self.rows[row.id.url] = row

    def depth_decreased(self, collection: str, identity: UrlId, depth: int) -> None:
        self.risen.append((identity.url, depth))

    def follow(self, *links: Link, depth: int = 0) -> None:
        self.source.depth = depth
        self.gate.follow(self.source, links, 0)


def link(target: str, kind: str = "a", rel: str = "") -> Link:
    return Link(target, "", rel, kind, 0)


def test_new_links_in_scope_are_admitted_once_and_the_rest_is_counted() -> None:
    gate = Gate()
    page = [
        link("http://h/a"),
        link("http://h/a"),
        link("http://other/"),
        link("http://h/b", rel="nofollow"),
        link("http://h/i", "image"),
    ]
    gate.follow(*page)
    gate.follow(*page)
    assert gate.urls == ["http://h/", "http://h/a"]
    assert dict(gate.gate.take_refused()) == {"scope": 2, "nofollow": 2}
    assert dict(gate.gate.take_refused()) == {}


@pytest.mark.parametrize(
    "kind", ["a", "area", "frame", "iframe", "canonical", "alternate", "refresh", "redirect"]
)
def test_followed_kinds(kind: str) -> None:
    gate = Gate()
    gate.follow(link("http://h/x", kind))
    assert gate.urls == ["http://h/", "http://h/x"]


@pytest.mark.parametrize("kind", ["image", "requisite", "feed", "sitemap"])
def test_kinds_that_are_only_stored(kind: str) -> None:
    gate = Gate()
    gate.follow(link("http://h/x", kind))
    assert gate.urls == ["http://h/"]


def test_depth_limit_is_not_remembered_against_a_shorter_way() -> None:
    gate = Gate(depth=2)
    gate.follow(link("http://h/x"), depth=2)
    assert gate.urls == ["http://h/"]
    gate.follow(link("http://h/x"), depth=1)
    assert gate.urls == ["http://h/", "http://h/x"]
    assert dict(gate.gate.take_refused()) == {"depth": 1}


def test_a_shorter_way_to_a_known_url_is_reported_once() -> None:
    gate = Gate()
    gate.follow(link("http://h/x"), depth=4)
    gate.follow(link("http://h/x"), depth=1)
    assert gate.risen == [("http://h/x", 2)]
    gate.follow(link("http://h/x"), depth=3)  # a longer way changes nothing
    gate.follow(link("http://h/x"), depth=1)
    assert gate.risen == [("http://h/x", 2)]


def test_a_redirect_keeps_depth_and_remembers_where_it_began() -> None:
    gate = Gate()
    gate.follow(link("http://h/a"), depth=2)
    first = gate.rows["http://h/a"]
    gate.gate.redirect(first, "http://h/b", 0)
    second = gate.rows["http://h/b"]
    gate.gate.redirect(second, "http://h/c", 0)
    third = gate.rows["http://h/c"]
    assert [
        (row.depth, row.redirects, row.redirect_from, row.referrer)
        for row in (first, second, third)
    ] == [
        (3, 0, "", "http://h/"),
        (3, 1, "http://h/a", "http://h/a"),
        (3, 2, "http://h/a", "http://h/b"),
    ]


def test_rules_change_what_is_admitted_and_equal_results_are_one_url() -> None:
    gate = Gate(drop_parameters=["utm_*"])
    gate.follow(
        link("http://h/a?utm_source=x"), link("http://h/a?utm_source=y"), link("http://h/a")
    )
    assert gate.urls == ["http://h/", "http://h/a"]


@pytest.mark.parametrize("url", ["mailto:x@h", "http://", "http://other/", ""])
def test_a_seed_that_cannot_be_used_is_an_error(url: str) -> None:
    gate = Gate()
    with pytest.raises(UrlError):
        gate.gate.seed(url, 0)


def test_a_seed_need_not_match_the_patterns_but_links_must() -> None:
    gate = Gate(allow=["/docs/"])
    gate.follow(link("http://h/docs/a"), link("http://h/other"))
    assert gate.urls == ["http://h/", "http://h/docs/a"]
    assert gate.gate.refuses(gate.source) is None
    assert dict(gate.gate.take_refused()) == {"pattern": 1}


def test_equal_keys_of_unequal_urls_are_refused_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lycosa.url.keys.xxh3_64_intdigest", lambda data: 7)
    gate = Gate()
    gate.follow(link("http://h/other"))
    assert gate.urls == ["http://h/"]
    assert dict(gate.gate.take_refused()) == {"key_collision": 1}


SESSION = "0123456789abcdef0123456789abcdef"


def test_a_session_id_is_left_out_and_the_page_taken_without_it() -> None:
    gate = Gate(screened=True)
    gate.follow(
        link(f"http://h/a?PHPSESSID={SESSION}&id=3"),
        link(f"http://h/a?PHPSESSID={SESSION[::-1]}&id=3"),
    )
    gate.follow(link(f"http://h/sid-{SESSION}/b"), link("http://h/b"))
    assert gate.urls == ["http://h/", "http://h/a?id=3", "http://h/b"]
    assert dict(gate.gate.take_refused()) == {"trap_session_id": 3}


def test_what_stands_instead_of_a_session_must_be_wanted_too() -> None:
    gate = Gate(screened=True, deny=["/private/"])
    gate.follow(
        link(f"http://h/private{SESSION}/a"),
        link(f"http://h/sid-{SESSION}/private/a.zip"),
        link("http://h/c/"),
    )
    gate.follow(link(f"http://h/private;jsessionid={SESSION}/a"))
    assert gate.urls == ["http://h/", f"http://h/private{SESSION}/a", "http://h/c/"]
    assert dict(gate.gate.take_refused()) == {"pattern": 2, "trap_session_id": 1}


def test_a_page_that_redirects_to_itself_with_a_session_is_taken_with_it() -> None:
    gate = Gate(screened=True)
    gate.follow(link("http://h/a"))
    source = gate.rows["http://h/a"]
    assert gate.gate.redirect(source, f"http://h/a;jsessionid={SESSION}", 0) == ""
    assert gate.urls[-1] == f"http://h/a;jsessionid={SESSION}"
    again = gate.rows[gate.urls[-1]]
    gate.gate.redirect(again, f"http://h/a;jsessionid={SESSION[::-1]}", 0)
    assert len(gate.urls) == 3, "and not again and again"


def test_the_same_parameters_in_another_order_are_refused_but_not_where_order_may_count() -> None:
    gate = Gate(screened=True)
    gate.follow(link("http://h/l?a=1&b=2"), link("http://h/l?b=2&a=1"), link("http://h/l?a=1&b=3"))
    gate.follow(
        link("http://h/x?one&two"), link("http://h/y?three&four"), link("http://h/x?two&one")
    )
    assert dict(gate.gate.take_refused()) == {"trap_query_permutation": 1}
    assert len(gate.urls) == 6


MANY = "?" + "&".join(f"p{n}=1" for n in range(40))
URLS = st.builds(
    "".join,
    st.tuples(
        st.sampled_from(
            [
                "http://h",
                "https://h",
                "http://h:8080",
                "http://sub.h",
                "http://other",
                "ftp://h",
                "gopher://h",
            ]
        ),
        st.lists(
            st.sampled_from(
                [
                    "/a",
                    "/b",
                    "/a/a/a",
                    "/private",
                    "/2099/01/02",
                    "/calendar/1999-01",
                    "/0123456789abcdef0123456789abcdef",
                ]
            ),
            max_size=8,
        ).map("".join),
        st.sampled_from(
            [
                "/",
                "/x.html",
                "/x.jpg",
                "/x.pdf",
                "/x.zip",
                ";jsessionid=0123456789ABCDEF0123456789ABCDEF",
                "/" + "y" * 3_000,
            ]
        ),
        st.sampled_from(
            ["", "?a=1", "?a=1&b=2&c=3", "?PHPSESSID=0123456789abcdef0123456789abcdef", MANY]
        ),
    ),
)


@given(
    url=URLS,
    scope=st.sampled_from(["host", "domain", "prefix", "any"]),
    documents=st.booleans(),
    traps=st.booleans(),
    deny=st.booleans(),
)
def test_explain_refuses_what_the_crawl_refuses(
    url: str, scope: str, documents: bool, traps: bool, deny: bool
) -> None:
    collection = Collection.model_validate(
        {"scope": scope, "traps": traps, "deny": ["/private"] if deny else []}
    )
    excluded, clock = ExclusionCheck(None, DOMAINS), ManualClock()
    gate = LinkGate(
        collection,
        Admission(collection, ["http://h/"], DOMAINS),
        Identifier(DOMAINS, 64),
        SeenUrls(),
        AdmissionListener(),
        screen=UrlFilter(collection, excluded, clock, documents=documents),
    )
    try:
        target = normalise(url)
    except UrlError:
        return
    refused = gate.admit(target, 1, 0, Way("http://h/"))
    facts = unknown_facts(
        "c",
        Known(collection, ("http://h/",)),
        target,
        NO_TABLES,
        excluded,
        DOMAINS,
        clock,
        other_schemes=False,
        documents=documents,
        robots={},
    )
    counted = {reason for reason in gate.refused if reason}
    assert bool(facts["refused_by"]) == bool(refused or counted), (
        refused,
        counted,
        facts["refused_by"],
    )
    for reason in counted:
        assert any(f"({reason})" in text for text in facts["refused_by"])


def test_explain_names_robots_txt_and_pauses() -> None:
    collection = Collection()
    nothing: dict[str, Any] = {"other_schemes": False, "documents": True}
    forbidden = {"allowed": False, "by": "Disallow: /private/", "says": "not allowed"}
    known = Known(collection, ("http://h/",))
    refused = unknown_facts(
        "c",
        known,
        "http://h/private/",
        NO_TABLES,
        ExclusionCheck(None, DOMAINS),
        DOMAINS,
        ManualClock(),
        robots=forbidden,
        **nothing,
    )
    assert refused["refused_by"] == [
        "refused (robots): robots.txt disallows it (Disallow: /private/)"
    ]
    now = datetime(2026, 1, 1, tzinfo=UTC)
    row = dict.fromkeys(("not_before", "visited_at", "first_seen_at", "captured_at")) | {
        "url": "http://h/", "state": "known", "state_at": now, "reason": "", "operation": "", "fails": 0, "depth": 0,
        "importance": 0.0, "change_rate": 0.0, "claim": 0.0, "silence": 0.0,
    }  # fmt: skip
    now_ms = round(now.timestamp() * 1000)
    rest: dict[str, Any] = {
        "other_schemes": False,
        "rank_interval_ms": 1,
        "now_ms": now_ms,
        "paused": "",
    }
    free = row_facts(row, known, DOMAINS, host_rests_until=0, robots={}, **rest)
    assert free["due_at"] == "now"
    paused = row_facts(row, known, DOMAINS, host_rests_until=now_ms + 60_000, robots={}, **rest)
    assert (paused["due_at"][:16], paused["due_by"]) == (
        "2026-01-01T00:01",
        "after the pause of the host (see host_clock)",
    )
    unreachable = {
        "unreachable": True,
        "allowed": False,
        "says": "unreachable",
        "expires_at": now_ms + 3_600_000,
    }
    waiting = row_facts(row, known, DOMAINS, host_rests_until=0, robots=unreachable, **rest)
    assert (waiting["due_at"][:16], waiting["due_by"]) == (
        "2026-01-01T01:00",
        "when robots.txt is requested again: unreachable",
    )
