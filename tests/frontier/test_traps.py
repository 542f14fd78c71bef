"""Trap detection by content.

Each kind of trap is stopped after a few pages; real sites lose no page.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from itertools import product

import pytest

from lycosa.frontier.traps.detector import (
    MAX_GROUPS,
    MAX_PROBES,
    PROBE_AFTER,
    HostTrapDetector,
    ObservedPage,
    explain,
)
from lycosa.frontier.traps.trap_group import PROVEN, PrefixRule, TrapGroup
from lycosa.page.parse import parse_page
from lycosa.text.digest import simhash, text_digest
from lycosa.url.traps import TrapRule
from tests.servers.sites import Site, require_sites

SYLLABLES = "ba be bi bo bu da de di do du ka ke ki ko ku la le li lo lu ma me mi mo mu na ne ni no nu ra re ri ro ru".split()  # noqa: SIM905
MAX_FETCHES = 12  # before a trap is stopped
MAX_FETCHES_ORDINARY = 28  # before a trap with ordinary URLs is stopped


def prose(key: object, words: int = 150, lines: int = 6) -> str:
    """Return a text that is distinct for each key."""
    chance = random.Random(repr(key))
    vocabulary = ["".join(chance.choices(SYLLABLES, k=3)) for _ in range(words)]
    return "\n".join(" ".join(vocabulary[start :: max(1, lines)]) for start in range(lines))


def visit(
    groups: HostTrapDetector, path: str, text: str, title: str = "", *, by_line: bool = True
) -> bool:
    """Fetch a page if its groups allow it; return whether it was fetched."""
    if rule := groups.refuses(path):
        groups.count(rule)
        return False
    groups.observe(
        path,
        ObservedPage(
            simhash=simhash(text),
            text_digest=text_digest(text),
            text_length=len(text),
            title=title,
            text=text if by_line else "",
        ),
    )
    return True


def fetch_count(
    groups: HostTrapDetector, pages: Iterable[tuple[str, str]], *, by_line: bool = True
) -> int:
    return sum(visit(groups, path, text, by_line=by_line) for path, text in pages)


SAME = prose("same")
FACETS = [
    "&".join(parameters)
    for parameters in product(
        ("c=red", "c=blue", "c=black"), ("s=l", "s=m", "s=s"), ("p=low", "p=high"), ("o=a", "o=b")
    )
]
PRODUCTS = prose("products", words=400, lines=40).split("\n")
TRAPS: dict[str, tuple[PrefixRule, Callable[[], list[tuple[str, str]]]]] = {
    "calendar": (
        PrefixRule.EMPTY_CALENDAR,
        lambda: [
            (
                f"/cal/{2026 + n // 12}/{n % 12 + 1:02}",
                f"{SAME}\nMonth {n % 12} of {2026 + n // 12}",
            )
            for n in range(600)
        ],
    ),
    "calendar by query": (
        PrefixRule.EMPTY_CALENDAR,
        lambda: [
            (f"/cal?date=2026-{n % 12 + 1:02}-{n % 28 + 1:02}", f"{SAME}\n{n}") for n in range(600)
        ],
    ),
    "numbered": (
        PrefixRule.NEAR_IDENTICAL,
        lambda: [(f"/item/{n}", f"item {n}\n{SAME}") for n in range(600)],
    ),
    "short and numbered": (
        PrefixRule.NEAR_IDENTICAL,
        lambda: [(f"/item/{n}", f"item {n}\nla lo li lu\n{n} {n + 1}") for n in range(600)],
    ),
    "named": (
        PrefixRule.NEAR_IDENTICAL,
        lambda: [(f"/all/{prose(n, 1, 1)}", f"{SAME}\n{prose(n, 1, 1)}") for n in range(600)],
    ),
    "combined facets": (
        PrefixRule.FACETS,
        lambda: [
            (f"/shop?{query}", "\n".join(random.Random(query).sample(PRODUCTS, 20)))
            for query in FACETS
        ],
    ),
    "sessions": (
        PrefixRule.SAME_TEXT,
        lambda: [(f"/x-{n:020x}/a", prose(n % 3)) for n in range(600)],
    ),
    "made-up folders": (
        PrefixRule.NEAR_IDENTICAL,
        lambda: [
            (
                "/maze/" + "/".join(f"{n:09b}".replace("0", "more").replace("1", "again/")) + "/",
                SAME,
            )
            for n in range(500)
        ],
    ),
}


@pytest.mark.parametrize("name", TRAPS)
def test_trap_is_stopped_after_a_few_fetches(name: str) -> None:
    rule, make = TRAPS[name]
    groups = HostTrapDetector()
    for number in range(200):
        assert visit(groups, f"/real/story-{number}", prose(number))
    pages = make()
    limit = (
        MAX_FETCHES_ORDINARY
        if name in ("named", "short and numbered", "made-up folders")
        else MAX_FETCHES
    )
    assert fetch_count(groups, pages) <= limit + MAX_PROBES
    assert groups.refused[rule] > len(pages) * 0.4
    assert visit(groups, "/real/another", prose("another")), "a page outside the trap was refused"


def test_near_identical_pages_are_detected_without_their_text() -> None:
    assert fetch_count(HostTrapDetector(), TRAPS["numbered"][1](), by_line=False) <= 6 * MAX_FETCHES


def test_probes_find_real_pages_in_the_group_of_a_trap() -> None:
    groups = HostTrapDetector()
    assert (
        fetch_count(groups, [(f"/all/x{number}", SAME) for number in range(100)])
        <= MAX_FETCHES_ORDINARY
    )
    assert groups.refuses("/all/real")
    for number in range(PROBE_AFTER * 2):
        visit(groups, f"/other/{number}x", prose(number))
    assert visit(groups, "/all/real-1", prose("real 1"))
    assert (
        fetch_count(
            groups, [(f"/all/real-{number}", prose(("real", number))) for number in range(2, 50)]
        )
        == 48
    )


def test_probes_of_an_endless_trap_are_bounded() -> None:
    groups = HostTrapDetector()
    assert (
        fetch_count(groups, [(f"/all/x{number}", SAME) for number in range(20_000)])
        <= MAX_FETCHES_ORDINARY + MAX_PROBES
    )
    assert groups.refuses("/all/x") == "near_identical"


def test_proven_subgroup_is_admitted_in_a_stopped_group() -> None:
    groups = HostTrapDetector(has_stopped=True)
    groups.groups["/a/"] = TrapGroup(0, rule=PrefixRule.NEAR_IDENTICAL, stopped_at=0)
    groups.groups["/a/b/*"] = TrapGroup(novel=PROVEN - 1)
    assert groups.refuses("/a/b/c")
    groups.groups["/a/b/*"].novel = PROVEN
    assert not groups.refuses("/a/b/c")
    assert groups.refuses("/a/d/c")


def test_soft_404_pages_are_detected_by_text_and_title() -> None:
    error_text = "There is nothing here. " + prose("sorry", 40, 2)
    groups = HostTrapDetector()
    stories = [(f"/s/{prose(number, 1, 1)}", prose(number)) for number in range(50)]
    assert fetch_count(groups, stories) == 50
    assert (
        fetch_count(groups, [(f"/lost/{prose(number, 1, 1)}x", error_text) for number in range(50)])
        <= MAX_FETCHES_ORDINARY
    )
    titled = HostTrapDetector()
    for number in range(5):
        titled.observe(
            f"/lost/y{number}",
            ObservedPage(simhash=7, text_digest=number, text_length=90, title="404 Not Found"),
        )
        titled.refuses(f"/lost/y{number}")
    assert PrefixRule.SOFT_404 not in titled.refused
    assert (
        titled.observe(
            "/lost/y6",
            ObservedPage(simhash=7, text_digest=6, text_length=90, title="404 Not Found"),
        )
        == PrefixRule.SOFT_404
    )


def test_front_page_is_never_a_soft_404() -> None:
    groups = HostTrapDetector()
    groups.observe("/x", ObservedPage(simhash=simhash(SAME), text_digest=1, text_length=len(SAME)))
    page = ObservedPage(simhash=simhash(SAME), text_digest=1, text_length=len(SAME))
    assert groups.observe("/", page) == ""
    assert sum(group.repeated for group in groups.groups.values()) == 0


def test_responses_with_error_status_are_ignored() -> None:
    groups = HostTrapDetector()
    for number in range(50):
        page = ObservedPage(simhash=1, text_digest=1, text_length=5, status=404)
        assert groups.observe(f"/a/{number}", page) == ""
    assert groups == HostTrapDetector()


REAL_ARCHIVES: dict[str, Callable[[int], str]] = {
    "by number": lambda number: f"/news/{number}",
    "by date": lambda number: (
        f"/{2000 + number // 300}/{number // 28 % 12 + 1:02}/{number % 28 + 1:02}/story-{number}.html"
    ),
    "front pages by date": lambda number: (
        f"/{2000 + number // 300}/{number // 28 % 12 + 1:02}/{number % 28 + 1:02}/"
    ),
    "by query": lambda number: f"/show.php?id={number}&section={number % 7}",
    "in one folder": lambda number: f"/a/{prose(number, 1, 1)}",
    "deep": lambda number: f"/a/b/c/d/e{number % 5}/{number}x",
}


@pytest.mark.parametrize("name", REAL_ARCHIVES)
@pytest.mark.parametrize("by_line", [True, False])
def test_archive_of_distinct_pages_is_never_a_trap(name: str, by_line: bool) -> None:
    frame = prose("frame", 30, 3)
    pages = [(REAL_ARCHIVES[name](number), f"{frame}\n{prose(number)}") for number in range(800)]
    assert fetch_count(HostTrapDetector(), pages, by_line=by_line) == len(pages)


@pytest.mark.parametrize("by_line", [True, False])
def test_dictionary_of_short_entries_is_never_a_trap(by_line: bool) -> None:
    frame = prose("frame", 30, 3)
    pages = [
        (f"/word/{prose(number, 1, 1)}", f"{frame}\n{prose(number, 8, 1)}") for number in range(800)
    ]
    assert fetch_count(HostTrapDetector(), pages, by_line=by_line) == len(pages)


RECORDS: dict[str, Callable[[int], str]] = {
    "by number": lambda number: f"/doc/{number}.html",
    "by query": lambda number: f"/record?id={number}",
    "by id": lambda number: f"/entry/{number:020x}",
    "named": lambda number: f"/names/{prose(number, 1, 1)}.html",
    "deep": lambda number: f"/a/b/c/d/{number}",
}


@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.parametrize("text", ["", SAME], ids=["empty", "frame only"])
@pytest.mark.parametrize("by_line", [True, False])
def test_records_with_distinct_titles_are_never_a_trap(name: str, text: str, by_line: bool) -> None:
    groups = HostTrapDetector()
    for number in range(3_000):
        path = RECORDS[name](number)
        assert visit(groups, path, text, f"{prose(number, 4, 1)} {number}", by_line=by_line), (
            number,
            groups.groups,
        )


def test_group_without_texts_and_titles_is_stopped_late() -> None:
    assert (
        20
        < fetch_count(HostTrapDetector(), [(f"/blank/{number}", "") for number in range(600)])
        < 60
    )


def test_group_with_half_distinct_pages_keeps_nearly_all_of_them() -> None:
    chance = random.Random(5)
    pages = [
        (f"/mixed/{number}", prose(number) if chance.random() < 0.5 else SAME)
        for number in range(3_000)
    ]
    new = [(path, text) for path, text in pages if text != SAME]
    groups = HostTrapDetector()
    fetched_paths = [path for path, text in pages if visit(groups, path, text) and text != SAME]
    assert len(fetched_paths) > 0.9 * len(new)


def test_mirrors_are_not_detected_as_traps() -> None:
    pages = [
        (f"/doc/{mirror}/chapter-{prose(number, 1, 1)}", prose(number))
        for number in range(40)
        for mirror in "abcdefghijklmnop"
    ]
    assert fetch_count(HostTrapDetector(), pages) == len(pages)


def test_memory_is_bounded() -> None:
    groups = HostTrapDetector()
    for number in range(2_000):
        visit(
            groups,
            f"/{prose(number, 1, 1)}/{number % 9}/x?{prose(-number, 1, 1)}=1",
            prose(number % 700, 40, 2),
        )
    assert len(groups.groups) == MAX_GROUPS
    assert sum(group.lines is not None for group in groups.groups.values()) <= 8
    assert max(len(group.seen) for group in groups.groups.values()) <= 32
    assert len(groups.digests) <= 4_096


def test_groups_are_restored_from_stored_counters() -> None:
    groups = HostTrapDetector()
    assert fetch_count(groups, [(f"/all/x{number}", SAME) for number in range(60)]) < 60
    groups.count(TrapRule.SESSION_ID)
    counters = groups.counters()
    assert counters["session_id"] == 1
    assert counters["stopped:near_identical:/all/*"] + counters["near_identical"] == 60
    again = HostTrapDetector.from_counters(counters)
    assert again.refuses("/all/y")
    assert not again.refuses("/some/y")
    assert again.counters() == counters


def test_each_rule_is_explained_in_one_sentence() -> None:
    sentences = {explain(rule) for rule in (*PrefixRule, *TrapRule)}
    assert len(sentences) == len(PrefixRule) + len(TrapRule)
    assert all(sentence[0].isupper() and sentence.endswith(".") for sentence in sentences)
    assert explain("robots") == ""
    assert not set(PrefixRule) & set(TrapRule), "counters of both have the same keys"


def _refused(
    site: Site, order: Callable[[list[str]], None], *, by_line: bool
) -> tuple[int, list[str]]:
    paths = sorted(f"/{file.relative_to(site.root)}" for file in site.root.rglob("*.html"))
    order(paths)
    groups = HostTrapDetector()
    refused = []
    for path in paths:
        if groups.refuses(path):
            refused.append(path)
            continue
        payload = (site.root / path[1:]).read_bytes()
        page = parse_page(payload, url=f"http://{site.name}{path}", content_type="text/html")
        observed = {
            "simhash": page.simhash,
            "text_digest": page.text_digest,
            "text_length": len(page.text),
        }
        summary = "\n".join((page.description, *page.headings))
        groups.observe(
            path,
            ObservedPage(
                **observed, title=page.title, summary=summary, text=page.text if by_line else ""
            ),
        )
    return len(paths), refused


def test_no_page_of_real_sites_is_refused() -> None:
    for site in require_sites():
        if site.name in ("maint-guide", "python-doc"):
            count, refused = _refused(
                site, random.Random(3).shuffle, by_line=site.name != "maint-guide"
            )
            assert count > 40
            assert refused == []


@pytest.mark.prove
@pytest.mark.parametrize("by_line", [True, False])
@pytest.mark.parametrize(
    "order",
    [lambda paths: None, list.reverse, random.Random(1).shuffle],
    ids=["sorted", "reversed", "shuffled"],
)
def test_no_page_of_six_real_sites_is_refused_in_any_order(
    order: Callable[[list[str]], None], by_line: bool
) -> None:
    counts = [_refused(site, order, by_line=by_line) for site in require_sites()]
    assert sum(count for count, _ in counts) > 5_000
    assert [refused for _, refused in counts if refused] == []
