"""`LinkGate`: admitted links, their depth, and counters of refusals."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lycosa.config.settings import Collection
from lycosa.core.errors import UrlError
from lycosa.core.records import Link, UrlId, UrlRow
from lycosa.crawl.admission.link_gate import AdmissionListener, LinkGate
from lycosa.crawl.admission.url_filter import ExclusionCheck, UrlFilter
from lycosa.frontier.seen import SeenUrls
from lycosa.url.domain import Domains, bundled_suffix_list
from lycosa.url.keys import Identifier
from lycosa.url.scope import Admission
from tests.waiting import ManualClock

DOMAINS = Domains(bundled_suffix_list())


class RecordingGate(AdmissionListener):
    """A link gate that records the admitted rows and decreased depths."""

    def __init__(self, *, filtered: bool = False, **settings: object) -> None:
        """Create the gate, `filtered` with the URL filter of a crawl."""
        collection = Collection.model_validate(settings)
        self.rows: dict[str, UrlRow] = {}
        self.decreased: list[tuple[str, int]] = []
        self.gate = LinkGate(
            collection,
            Admission(collection, ["http://h/"], DOMAINS),
            Identifier(DOMAINS, 64),
            SeenUrls(),
            self,
            screen=UrlFilter(collection, ExclusionCheck(None, DOMAINS), ManualClock())
            if filtered
            else None,
        )
        self.gate.seed("http://h/", 0)
        self.source = self.rows["http://h/"]

    @property
    def urls(self) -> list[str]:
        return list(self.rows)

    def admitted(self, rows: Sequence[UrlRow]) -> None:
        for row in rows:
            assert row.id.url not in self.rows
            self.rows[row.id.url] = row

    def depth_decreased(self, collection: str, identity: UrlId, depth: int) -> None:
        self.decreased.append((identity.url, depth))

    def follow(self, *links: Link, depth: int = 0) -> None:
        self.source.depth = depth
        self.gate.follow(self.source, links, 0)


def link(target: str, kind: str = "a", rel: str = "") -> Link:
    return Link(target, "", rel, kind, 0)


def test_new_links_in_scope_are_admitted_once_and_the_rest_is_counted() -> None:
    gate = RecordingGate()
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


FOLLOWED = ["a", "area", "frame", "iframe", "canonical", "alternate", "refresh", "redirect"]


@pytest.mark.parametrize("kind", [*FOLLOWED, "image", "requisite", "feed", "sitemap"])
def test_kinds_that_are_followed_and_kinds_that_are_only_stored(kind: str) -> None:
    gate = RecordingGate()
    gate.follow(link("http://h/x", kind))
    assert gate.urls == ["http://h/", *(["http://h/x"] if kind in FOLLOWED else [])]


def test_url_refused_by_depth_is_admitted_by_a_shorter_path() -> None:
    gate = RecordingGate(depth=2)
    gate.follow(link("http://h/x"), depth=2)
    assert gate.urls == ["http://h/"]
    gate.follow(link("http://h/x"), depth=1)
    assert gate.urls == ["http://h/", "http://h/x"]
    assert dict(gate.gate.take_refused()) == {"depth": 1}


def test_shorter_path_to_a_known_url_is_reported_once() -> None:
    gate = RecordingGate()
    gate.follow(link("http://h/x"), depth=4)
    gate.follow(link("http://h/x"), depth=1)
    assert gate.decreased == [("http://h/x", 2)]
    gate.follow(link("http://h/x"), depth=3)  # a longer path changes nothing
    gate.follow(link("http://h/x"), depth=1)
    assert gate.decreased == [("http://h/x", 2)]


def test_redirect_keeps_the_depth_and_records_its_source() -> None:
    gate = RecordingGate()
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


def test_urls_that_rewrite_to_the_same_url_are_admitted_once() -> None:
    gate = RecordingGate(drop_parameters=["utm_*"])
    gate.follow(
        link("http://h/a?utm_source=x"), link("http://h/a?utm_source=y"), link("http://h/a")
    )
    assert gate.urls == ["http://h/", "http://h/a"]


@pytest.mark.parametrize("url", ["mailto:x@h", "http://", "http://other/", ""])
def test_invalid_seed_is_an_error(url: str) -> None:
    gate = RecordingGate()
    with pytest.raises(UrlError):
        gate.gate.seed(url, 0)


def test_a_seed_need_not_match_the_patterns_but_links_must() -> None:
    gate = RecordingGate(allow=["/docs/"])
    gate.follow(link("http://h/docs/a"), link("http://h/other"))
    assert gate.urls == ["http://h/", "http://h/docs/a"]
    assert gate.gate.refuses(gate.source) is None
    assert dict(gate.gate.take_refused()) == {"pattern": 1}


def test_equal_keys_of_unequal_urls_are_refused_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lycosa.url.keys.xxh3_64_intdigest", lambda data: 7)
    gate = RecordingGate()
    gate.follow(link("http://h/other"))
    assert (gate.urls, dict(gate.gate.take_refused())) == (["http://h/"], {"key_collision": 1})


SESSION = "0123456789abcdef0123456789abcdef"


def test_url_with_a_session_id_is_admitted_without_it() -> None:
    gate = RecordingGate(filtered=True)
    gate.follow(
        link(f"http://h/a?PHPSESSID={SESSION}&id=3"),
        link(f"http://h/a?PHPSESSID={SESSION[::-1]}&id=3"),
    )
    gate.follow(link(f"http://h/sid-{SESSION}/b"), link("http://h/b"))
    assert gate.urls == ["http://h/", "http://h/a?id=3", "http://h/b"]
    assert dict(gate.gate.take_refused()) == {"trap_session_id": 3}


def test_url_without_its_session_id_must_pass_the_filters() -> None:
    gate = RecordingGate(filtered=True, deny=["/private/"])
    gate.follow(
        link(f"http://h/private{SESSION}/a"),
        link(f"http://h/sid-{SESSION}/private/a.zip"),
        link("http://h/c/"),
    )
    gate.follow(link(f"http://h/private;jsessionid={SESSION}/a"))
    assert gate.urls == ["http://h/", f"http://h/private{SESSION}/a", "http://h/c/"]
    assert dict(gate.gate.take_refused()) == {"pattern": 2, "trap_session_id": 1}


def test_redirect_to_itself_with_a_session_id_is_admitted_once() -> None:
    gate = RecordingGate(filtered=True)
    gate.follow(link("http://h/a"))
    assert gate.gate.redirect(gate.rows["http://h/a"], f"http://h/a;jsessionid={SESSION}", 0) == ""
    assert gate.urls[-1] == f"http://h/a;jsessionid={SESSION}"
    gate.gate.redirect(gate.rows[gate.urls[-1]], f"http://h/a;jsessionid={SESSION[::-1]}", 0)
    assert len(gate.urls) == 3, "another session ID is not admitted"


def test_permuted_parameters_are_refused_unless_their_order_may_matter() -> None:
    gate = RecordingGate(filtered=True)
    gate.follow(link("http://h/l?a=1&b=2"), link("http://h/l?b=2&a=1"), link("http://h/l?a=1&b=3"))
    gate.follow(
        link("http://h/x?one&two"), link("http://h/y?three&four"), link("http://h/x?two&one")
    )
    assert (dict(gate.gate.take_refused()), len(gate.urls)) == ({"trap_query_permutation": 1}, 6)
