"""What a reader does, page by page, in a real browser: with and without scripts, on a desk and on a
phone. Nobody has to come in for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import parse_qs, quote, urlsplit
from xml.etree import ElementTree

import httpx
import pytest

from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from tests.captures.test_captures import Taken, archive
from tests.serve.browser import Browser
from tests.serve.conftest import serving
from tests.serve.person import OTHER_WAYS, SCRIPTS_ON_A_PHONE, Person, Way, person
from tests.serve.person import way as way

pytestmark = pytest.mark.slow

ENTRIES = (
    ".//item/title",
    ".//{http://www.w3.org/2005/Atom}entry/{http://www.w3.org/2005/Atom}title",
)
TITLES = ".results > li h2"
HOME = "Spiders that hunt on foot · The Wolf Spider Pages"
OLD = (
    "<title>Spiders that hunt on foot</title><main><h1>Spiders that hunt on foot</h1><p>An "
    "older text stood here.</p></main>"
)


@pytest.fixture(scope="module")
def home(workspace: str) -> str:
    """The URL of the page that the walk comes back to."""
    urls: list[str] = LiveTables(Workspace.open(workspace)).scan("pages").collect()["url"].to_list()
    return next(
        url for url in urls if url.startswith("http://127.0.2.1:") and urlsplit(url).path == "/"
    )


@pytest.fixture(scope="module")
def address(copy: str, home: str) -> Iterator[str]:
    """The real server over a workspace that has an older version of that page as well."""
    archive(Workspace.open(copy), [Taken(home, 0, OLD.encode())])
    with serving(copy) as served:
        yield served


def asked(reader: Person) -> dict[str, list[str]]:
    """The query of the address: what a permalink holds."""
    return parse_qs(urlsplit(reader.place).query)


def test_searching(chromium: Browser, address: str, way: Way) -> None:
    with person(chromium, address, way, "search") as reader:
        reader.go("/")
        assert reader.value("document.activeElement.name") == "q", "one may type at once"
        if way.scripts:
            suggestions(reader)
            reader.go("/")
        reader.search("wolf spider mother")
        assert reader.texts(TITLES)[0] == "Mothers with a load · The Wolf Spider Pages"
        assert asked(reader) == {"q": ["wolf spider mother"], "lang": [""]} or asked(reader) == {
            "q": ["wolf spider mother"]
        }
        assert reader.texts(".snippet mark, h2 mark")
        bare = (
            "[...document.querySelectorAll('.results h2:not(:has(bdi)), .results :is(h2, "
            ".snippet):not([lang][dir])')]"
        )
        assert reader.value(f"{bare}.length") == 0
        narrowed_and_widened(reader)
        other_languages(reader)
        in_order_and_further(reader)
        if way.scripts:
            keys(reader)
            sites_of_ones_own(reader)
        else:
            assert reader.value("document.querySelectorAll('.results button').length") == 0, (
                "nothing that does nothing"
            )
        advanced(reader)


def test_what_scripts_add_to_a_search_on_a_phone(chromium: Browser, address: str) -> None:
    with person(chromium, address, SCRIPTS_ON_A_PHONE, "search") as reader:
        reader.go("/")
        suggestions(reader)
        keys(reader)
        sites_of_ones_own(reader)


def suggestions(reader: Person) -> None:
    """They come as one types; an arrow chooses, Escape takes back, Enter searches."""
    shown = ".suggestions:not([hidden]) li"
    reader.browser.click("document.querySelector('input[name=q]')")
    reader.browser.type_text("wolf sp")
    reader.browser.until(f"document.querySelectorAll('{shown}').length > 0")
    first = reader.texts(shown)[0]
    reader.browser.key("ArrowDown")
    assert reader.value("document.querySelector('input[name=q]').value") == first
    reader.browser.key("Escape")
    assert reader.value("document.querySelector('input[name=q]').value") == "wolf sp"
    assert reader.texts(shown) == []
    reader.browser.type_text("i")
    reader.browser.until(f"document.querySelectorAll('{shown}').length > 0")
    reader.browser.follow(f"document.querySelector('{shown}')")
    reader.look()
    assert asked(reader)["q"] == [first]


def narrowed_and_widened(reader: Person) -> None:
    """Facets, the language list, more from a site, similar pages; each is an address of its own
    that can be kept.
    """
    reader.go("/?q=spider")
    everything = reader.texts(".summary")[0].partition("pages")[0]
    reader.follow("Deutsch", ".facets")
    assert asked(reader)["lang"] == ["de"]
    assert set(
        reader.value(f"[...document.querySelectorAll('{TITLES}')].map(each => each.lang)")
    ) == {"de"}
    reader.choose("Language", "ja")
    reader.press("Search", ".field")
    assert set(
        reader.value(f"[...document.querySelectorAll('{TITLES}')].map(each => each.lang)")
    ) == {"ja"}
    reader.go("/?q=spider")
    host = reader.value("document.querySelector('.results > li').dataset.host")
    more = next(each for each in reader.texts(".facts a") if each.startswith(f"more from {host}"))
    reader.follow(more)
    assert asked(reader)["site"] == [host]
    assert set(
        reader.value(
            "[...document.querySelectorAll('.results > li')].map(each => each.dataset.host)"
        )
    ) == {host}
    shown = reader.texts(TITLES)
    reader.go(reader.place)
    assert reader.texts(TITLES) == shown, "an address shows the same again"
    reader.follow("Search all sites")
    assert reader.texts(".summary")[0].startswith(everything)
    title = reader.texts(TITLES)[0]
    reader.follow("similar pages", ".results > li:first-child")
    assert asked(reader)["q"][0].startswith("similar:")
    assert reader.texts(TITLES)
    assert title not in reader.texts(TITLES)


def other_languages(reader: Person) -> None:
    """Asked in other languages too, with words that can be mended."""
    reader.go("/?q=museum")
    assert "ru" not in reader.value(
        f"[...document.querySelectorAll('{TITLES}')].map(each => each.lang)"
    )
    reader.follow("Also search in other languages")
    reader.press_here(
        "Also searched in 8 other languages: edit the translated words", kind="summary"
    )
    reader.fill("museum", "музей", "fieldset:has(legend[lang=ru])")
    reader.press("Search again")
    assert asked(reader)["translate"] == ["ru:museum=музей"]
    assert "ru" in reader.value(
        f"[...document.querySelectorAll('{TITLES}')].map(each => each.lang)"
    )
    reader.follow("Search only in the original language")
    assert "ru" not in reader.value(
        f"[...document.querySelectorAll('{TITLES}')].map(each => each.lang)"
    )


def in_order_and_further(reader: Person) -> None:
    """Newest first, the next page of results, another spelling, feeds, OpenSearch, a query that
    finds nothing.
    """
    reader.go("/?q=spider")
    first = reader.texts(TITLES)
    reader.follow("Sort by date")
    days = reader.value("[...document.querySelectorAll('.facts time')].map(each => each.dateTime)")
    assert days == sorted(days, reverse=True)
    reader.follow("Sort by relevance")
    assert reader.texts(TITLES) == first
    reader.follow("Next", ".pages")
    assert reader.texts(".pages [aria-current=page]") == ["2"]
    assert not set(first) & set(reader.texts(TITLES))
    reader.search("tarantulla")
    reader.follow("tarantula", ".meant")
    assert reader.texts(TITLES)
    feeds = reader.value(
        "[...document.querySelectorAll('link[rel=alternate], "
        "link[rel=search]')].map(each => [each.type, each.href])"
    )
    kinds = {kind: urlsplit(href)._replace(scheme="", netloc="").geturl() for kind, href in feeds}
    assert set(kinds) == {
        "application/rss+xml",
        "application/atom+xml",
        "application/opensearchdescription+xml",
    }
    titles = reader.texts(TITLES)
    reader.browser.follow(
        "[...document.querySelectorAll('.tongues a')].find(each => each.innerText === 'Atom feed')"
    )
    description = httpx.get(
        reader.address + kinds.pop("application/opensearchdescription+xml")
    ).text
    assert f'template="{reader.address}/?q={{searchTerms}}' in description
    shown = [
        reader.value("document.body.innerText"),
        *(httpx.get(reader.address + path).text for path in kinds.values()),
    ]
    feeds = [ElementTree.fromstring(each) for each in shown]
    entries = [
        [title.text for where in ENTRIES for title in feed.iterfind(where)] for feed in feeds
    ]
    assert [sorted(each) for each in entries] == [sorted(titles)] * 3
    reader.clear()
    reader.go("/?q=xyzzyplugh")
    reader.sees("No results")


def keys(reader: Person) -> None:
    """`/` to the box, `j` and `k` through the results, Enter opens."""
    reader.go("/?q=spider")
    titles = reader.texts(TITLES)
    shown = []
    for name in "jjk":
        reader.browser.key(name)
        shown.append(reader.value("document.activeElement.innerText"))
    assert shown == [titles[0], titles[1], titles[0]]
    reader.browser.key("/")
    assert reader.value("[document.activeElement.name, document.activeElement.value]") == [
        "q",
        "spider",
    ]
    reader.browser.key("j")
    assert reader.value("document.activeElement.name") == "q", "a letter that is typed is a letter"


def sites_of_ones_own(reader: Person) -> None:
    """Sites that this browser blocks or prefers: kept, listed, forgotten."""
    hosts = (
        "[...document.querySelectorAll('.results > li')].filter(each => "
        "each.checkVisibility()).map(each => each.dataset.host)"
    )
    before = reader.value(hosts)
    other = next(host for host in before if host != before[0])
    for host, words in ((other, "prefer this site"), (before[0], "block this site")):
        reader.press_here(f"options for {host}", f'li[data-host="{host}"]', "summary")
        reader.press_here(words, f'li[data-host="{host}"] details[open]')
    assert reader.value(hosts)[0] == other
    assert before[0] not in reader.value(hosts)
    reader.sees("Results from blocked sites are hidden:")
    reader.go("/?q=spider")
    assert (reader.value(hosts)[0], before[0] in reader.value(hosts)) == (other, False)
    reader.press_here("show them")
    assert before[0] in reader.value(hosts)
    reader.go("/advanced")
    assert len(reader.texts("#sites li")) == 2
    reader.press_here("remove", "#sites li:first-child")
    reader.press_here("remove", "#sites li")
    assert reader.texts("#sites, #sites h2") == []
    reader.go("/?q=spider")
    assert reader.value(hosts) == before


def advanced(reader: Person) -> None:
    """The form writes the query, and teaches it."""
    reader.follow("Advanced search")
    reader.fill("All of these words", "spider")
    reader.fill("In the title", "mothers")
    reader.choose("Language", "en")
    if reader.way.scripts:
        reader.browser.until("document.querySelector('#built').innerText.includes('lang:en')")
    else:
        reader.press("Show query")
    assert reader.texts("#built") == ["spider intitle:mothers lang:en"]
    reader.press("Search", ".advanced")
    assert (
        reader.value("document.querySelector('input[name=q]').value")
        == "spider intitle:mothers lang:en"
    )
    assert reader.texts(TITLES)[0] == "Mothers with a load · The Wolf Spider Pages"


def test_copies_and_versions(chromium: Browser, address: str, home: str, way: Way) -> None:
    with person(chromium, address, way, "copies") as reader:
        reader.go("/?q=hunt+on+foot+site%3A127.0.2.1")
        assert reader.texts(TITLES)[0] == HOME
        reader.follow("cached copy", ".results > li:first-child")
        reader.sees(home, "Captured")
        assert (
            reader.value("document.querySelector('iframe').sandbox.contains('allow-scripts')")
            is False
        )
        copy = reader.value("document.querySelector('iframe').getAttribute('src')")
        reader.follow("text only")
        reader.sees("Wolf spiders do not wait", "Captured")
        reader.follow("as captured")
        reader.follow("2 versions")
        assert len(reader.texts("tbody tr")) == 2
        reader.press("Compare the selected versions")
        assert "An older text stood here." in reader.texts("del")
        assert any("Wolf spiders do not wait" in each for each in reader.texts("ins"))
        reader.follow("all versions")
        reader.browser.follow("document.querySelector('tbody tr:last-child a')")
        reader.look()
        reader.follow("text only")
        reader.sees("An older text stood here.")
        # The frame's own document: links to pages that are here lead to their copies, and are
        # marked.
        reader.browser.open(reader.address + copy)
        kept = "[...document.querySelectorAll('a[href^=\"/cached?\"]')]"
        assert reader.value(f"{kept}.length") > 5
        assert (
            reader.value(
                f"new Set({kept}.map(each => getComputedStyle(each).textDecorationStyle)).size"
            )
            == 1
        )
        assert reader.value(f"getComputedStyle({kept}[0]).textDecorationStyle") == "dotted"
        reader.clear()
        reader.browser.follow(f"{kept}[1]")
        reader.look()
        reader.sees("Captured")
        reader.go("/?q=venomous+paragraph")
        reader.follow("cached copy", ".results > li:first-child")
        assert reader.value("document.title").startswith("Cached copy of")


def test_the_library_and_sites(chromium: Browser, address: str, home: str, way: Way) -> None:
    host = "127.0.2.1"
    with person(chromium, address, way, "library") as reader:
        reader.go("/")
        reader.follow("Library", ".around")
        reader.follow("default", "tbody")
        assert asked(reader)["name"] == ["default"]
        reader.sees("Captures in the archive", "Queued URLs", "Links found", "Pages in the library")
        reader.follow("Library", ".around")
        reader.follow("Deutsch")
        days = [
            each for each in reader.texts("tbody th a") if re.fullmatch(r"\d{4}-\d\d-\d\d", each)
        ]
        assert len(reader.value("[...document.querySelectorAll('svg.chart title')]")) == len(days)
        reader.follow(days[0])
        reader.follow("Spinnen, die zu Fuß jagen")
        reader.sees("Charset", "utf-8", "Main text", "Sie laufen, schleichen, springen")
        reader.follow("Cached copy")
        reader.go(f"/library/page?url={quote(home, safe='')}")
        kept = reader.value(
            "[...document.querySelectorAll('main li a')].map(each => "
            "[each.pathname, each.className, each.innerText])"
        )
        assert {(path, mark) for path, mark, _ in kept} == {
            ("/library/page", "kept"),
            ("/crawl/explain", ""),
        }
        assert {path for path, _, url in kept if url.endswith("/style.css")} == {
            "/crawl/explain"
        }, "it is known and has no page"
        reader.follow("Explain this URL")
        reader.sees("State and schedule", "visited", home)

        reader.follow("Sites", ".around")
        reader.fill("Host name contains", host)
        reader.press("Filter")
        assert asked(reader)["like"] == [host]
        reader.follow(host)
        assert "/life/" in reader.texts("tbody th")
        reader.value("document.querySelector('img.map').scrollIntoView()")
        reader.browser.until("document.querySelector('img.map').naturalWidth > 100")
        reports = reader.texts(".chips a")
        assert [each for each in reports if each.startswith("Broken links")] == ["Broken links 1"]
        for report in reports if way in OTHER_WAYS else ["Broken links 1", "All pages 18"]:
            reader.follow(report, ".chips")
            if report == "Broken links 1":
                assert "drawings-1998.html" in reader.texts("tbody tr")[0]
            if report == "Changes":
                break  # a page of its own
        reader.go(f"/site/changes?name={host}")
        reader.fill("Number of days", "30")
        reader.press("Show")
        assert asked(reader)["days"] == ["30"]
        reader.follow("all versions", f'tr:has(a[href$="={quote(home, safe="")}"])')
        reader.sees("2 archived versions")
        reader.browser.open(f"{reader.address}/site/map.svg?name={host}")
        assert reader.value("document.querySelectorAll('rect').length") > 10
        reader.clear()

        reader.go("/crawl")
        assert reader.value("document.querySelectorAll('svg.chart title').length") > 0
        reader.follow(host)
        reader.sees("Recent fetches", "No URLs are queued.")
        reader.go("/crawl")
        reader.follow("default", "tbody")
        reader.sees("Fetches over time", "Hosts", "Languages")
        reader.follow("Search this collection")
        assert asked(reader)["q"] == ["collection:default"]
        assert reader.texts(TITLES)
        reader.go("/crawl")
        reader.follow("All hosts")
        reader.fill("Host name contains", "127.0.2.2")
        reader.press("Filter")
        assert reader.texts("tbody th") == ["127.0.2.2"]
        reader.go("/crawl")
        reader.fill("URL", home)
        reader.press("Explain")
        reader.sees("State and schedule", "fetched and processed")

        reader.go("/uptime")
        assert reader.place.startswith("/login")


def test_the_language_of_our_words(chromium: Browser, address: str, way: Way) -> None:
    with person(chromium, address, way, "words") as reader:
        reader.go("/crawl")
        for name, code, direction, words in (
            ("Русский", "ru", "ltr", "Текущая активность"),
            ("العربية", "ar", "rtl", "النشاط الحالي"),
            ("中文", "zh", "ltr", "当前活动"),
        ):
            reader.follow(name, ".foot")
            assert reader.place == "/crawl", "one stays where one was"
            assert reader.value(
                "[document.documentElement.lang, document.documentElement.dir]"
            ) == [code, direction]
            assert words in reader.texts("h2")
        reader.go("/nowhere", refused=404)
        reader.follow("Español", ".foot", refused=404)
        reader.browser.follow("document.querySelector('.message a')")
        reader.look()
        assert reader.place == "/"
