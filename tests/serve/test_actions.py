"""Tasks of an anonymous user in a real browser, with and without scripts, on desktop and phone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import parse_qs, quote, urlsplit
from xml.etree import ElementTree

import httpx
import pytest

from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from tests.captures.test_captures import Capture, archive
from tests.serve.browser import Browser
from tests.serve.browser_user import (
    OTHER_MODES,
    RESULT_TITLES,
    SCRIPTS_ON_PHONE,
    BrowserMode,
    User,
    new_user,
)
from tests.serve.browser_user import mode as mode
from tests.serve.conftest import serving

pytestmark = pytest.mark.slow

ENTRY_TITLES = (
    ".//item/title",
    ".//{http://www.w3.org/2005/Atom}entry/{http://www.w3.org/2005/Atom}title",
)
HOME_TITLE = "Spiders that hunt on foot · The Wolf Spider Pages"
OLD_VERSION = (
    "<title>Spiders that hunt on foot</title><main><h1>Spiders that hunt on foot</h1><p>An "
    "older text was here.</p></main>"
)


@pytest.fixture(scope="module")
def home(workspace: str) -> str:
    """URL of the home page of a demo site."""
    urls: list[str] = LiveTables(Workspace.open(workspace)).scan("pages").collect()["url"].to_list()
    return next(
        url for url in urls if url.startswith("http://127.0.2.1:") and urlsplit(url).path == "/"
    )


@pytest.fixture(scope="module")
def address(copy: str, home: str) -> Iterator[str]:
    """Address of a server; the home page has an older version too."""
    archive(Workspace.open(copy), [Capture(home, 0, OLD_VERSION.encode())])
    with serving(copy) as served:
        yield served


def query_parameters(user: User) -> dict[str, list[str]]:
    """Return the parameters of the current URL."""
    return parse_qs(urlsplit(user.path).query)


def test_search(chromium: Browser, address: str, mode: BrowserMode) -> None:
    with new_user(chromium, address, mode, "search") as user:
        user.open("/")
        assert user.evaluate("document.activeElement.name") == "q", "the field has the focus"
        if mode.scripts:
            use_suggestions(user)
            user.open("/")
        user.search("wolf spider mother")
        assert user.texts(RESULT_TITLES)[0] == "Mothers with a load · The Wolf Spider Pages"
        assert query_parameters(user) == {
            "q": ["wolf spider mother"],
            "lang": [""],
        } or query_parameters(user) == {"q": ["wolf spider mother"]}
        assert user.texts(".snippet mark, h2 mark")
        without_language = (
            "[...document.querySelectorAll('.results h2:not(:has(bdi)), .results :is(h2, "
            ".snippet):not([lang][dir])')]"
        )
        assert user.evaluate(f"{without_language}.length") == 0
        narrow_and_widen(user)
        search_other_languages(user)
        sort_page_and_subscribe(user)
        if mode.scripts:
            use_keyboard(user)
            block_and_prefer_sites(user)
        else:
            assert user.evaluate("document.querySelectorAll('.results button').length") == 0, (
                "there is no button that needs scripts"
            )
        use_advanced_search(user)


def test_script_features_of_search_work_on_a_phone(chromium: Browser, address: str) -> None:
    with new_user(chromium, address, SCRIPTS_ON_PHONE, "search") as user:
        user.open("/")
        use_suggestions(user)
        use_keyboard(user)
        block_and_prefer_sites(user)


def result_languages(user: User) -> set[str]:
    """Return the languages of the results."""
    titles = f"[...document.querySelectorAll('{RESULT_TITLES}')]"
    return set(user.evaluate(f"{titles}.map(each => each.lang)"))


def use_suggestions(user: User) -> None:
    """Select a suggestion by keyboard, undo it, and click one."""
    shown = ".suggestions:not([hidden]) li"
    user.browser.click("document.querySelector('input[name=q]')")
    user.browser.type_text("wolf sp")
    user.browser.wait_until(f"document.querySelectorAll('{shown}').length > 0")
    first = user.texts(shown)[0]
    user.browser.key("ArrowDown")
    assert user.evaluate("document.querySelector('input[name=q]').value") == first
    user.browser.key("Escape")
    assert user.evaluate("document.querySelector('input[name=q]').value") == "wolf sp"
    assert user.texts(shown) == []
    user.browser.type_text("i")
    user.browser.wait_until(f"document.querySelectorAll('{shown}').length > 0")
    user.browser.follow(f"document.querySelector('{shown}')")
    user.check_page()
    assert query_parameters(user)["q"] == [first]


def narrow_and_widen(user: User) -> None:
    """Use facets, languages, sites and similar pages; URLs are permanent."""
    user.open("/?q=spider")
    total = user.texts(".summary")[0].partition("pages")[0]
    user.follow("Deutsch", ".facets")
    assert query_parameters(user)["lang"] == ["de"]
    assert result_languages(user) == {"de"}
    user.select("Language", "ja")
    user.submit("Search", ".field")
    assert result_languages(user) == {"ja"}
    user.open("/?q=spider")
    host = user.evaluate("document.querySelector('.results > li').dataset.host")
    more = next(each for each in user.texts(".facts a") if each.startswith(f"more from {host}"))
    user.follow(more)
    assert query_parameters(user)["site"] == [host]
    assert set(
        user.evaluate(
            "[...document.querySelectorAll('.results > li')].map(each => each.dataset.host)"
        )
    ) == {host}
    shown = user.texts(RESULT_TITLES)
    user.open(user.path)
    assert user.texts(RESULT_TITLES) == shown, "the same URL shows the same results"
    user.follow("Search all sites")
    assert user.texts(".summary")[0].startswith(total)
    title = user.texts(RESULT_TITLES)[0]
    user.follow("similar pages", ".results > li:first-child")
    assert query_parameters(user)["q"][0].startswith("similar:")
    assert user.texts(RESULT_TITLES)
    assert title not in user.texts(RESULT_TITLES)


def search_other_languages(user: User) -> None:
    """Search in other languages too, with translations that the user can edit."""
    user.open("/?q=museum")
    assert "ru" not in result_languages(user)
    user.follow("Also search in other languages")
    user.click("Also searched in 8 other languages: edit the translated words", kind="summary")
    user.fill("museum", "музей", "fieldset:has(legend[lang=ru])")
    user.submit("Search again")
    assert query_parameters(user)["translate"] == ["ru:museum=музей"]
    assert "ru" in result_languages(user)
    user.follow("Search only in the original language")
    assert "ru" not in result_languages(user)


def sort_page_and_subscribe(user: User) -> None:
    """Sort, page, correct the spelling, read feeds, find nothing."""
    user.open("/?q=spider")
    first = user.texts(RESULT_TITLES)
    user.follow("Sort by date")
    days = user.evaluate("[...document.querySelectorAll('.facts time')].map(each => each.dateTime)")
    assert days == sorted(days, reverse=True)
    user.follow("Sort by relevance")
    assert user.texts(RESULT_TITLES) == first
    user.follow("Next", ".pages")
    assert user.texts(".pages [aria-current=page]") == ["2"]
    assert not set(first) & set(user.texts(RESULT_TITLES))
    user.search("tarantulla")
    user.follow("tarantula", ".meant")
    assert user.texts(RESULT_TITLES)
    feeds = user.evaluate(
        "[...document.querySelectorAll('link[rel=alternate], "
        "link[rel=search]')].map(each => [each.type, each.href])"
    )
    kinds = {kind: urlsplit(href)._replace(scheme="", netloc="").geturl() for kind, href in feeds}
    assert set(kinds) == {
        "application/rss+xml",
        "application/atom+xml",
        "application/opensearchdescription+xml",
    }
    titles = user.texts(RESULT_TITLES)
    user.browser.follow(
        "[...document.querySelectorAll('.tongues a')].find(each => each.innerText === 'Atom feed')"
    )
    description = httpx.get(user.address + kinds.pop("application/opensearchdescription+xml")).text
    assert f'template="{user.address}/?q={{searchTerms}}' in description
    shown = [
        user.evaluate("document.body.innerText"),
        *(httpx.get(user.address + path).text for path in kinds.values()),
    ]
    feeds = [ElementTree.fromstring(each) for each in shown]
    entries = [
        [title.text for path in ENTRY_TITLES for title in feed.iterfind(path)] for feed in feeds
    ]
    assert [sorted(each) for each in entries] == [sorted(titles)] * 3
    user.clear_events()
    user.open("/?q=xyzzyplugh")
    user.assert_shown("No results")


def use_keyboard(user: User) -> None:
    """Focus the field with `/`, move through results with `j` and `k`."""
    user.open("/?q=spider")
    titles = user.texts(RESULT_TITLES)
    shown = []
    for name in "jjk":
        user.browser.key(name)
        shown.append(user.evaluate("document.activeElement.innerText"))
    assert shown == [titles[0], titles[1], titles[0]]
    user.browser.key("/")
    assert user.evaluate("[document.activeElement.name, document.activeElement.value]") == [
        "q",
        "spider",
    ]
    user.browser.key("j")
    assert user.evaluate("document.activeElement.name") == "q", "in the field a letter is text"


def block_and_prefer_sites(user: User) -> None:
    """Block and prefer sites, list and remove them."""
    hosts = (
        "[...document.querySelectorAll('.results > li')].filter(each => "
        "each.checkVisibility()).map(each => each.dataset.host)"
    )
    before = user.evaluate(hosts)
    other = next(host for host in before if host != before[0])
    for host, button in ((other, "prefer this site"), (before[0], "block this site")):
        user.click(f"options for {host}", f'li[data-host="{host}"]', "summary")
        user.click(button, f'li[data-host="{host}"] details[open]')
    assert user.evaluate(hosts)[0] == other
    assert before[0] not in user.evaluate(hosts)
    user.assert_shown("Results from blocked sites are hidden:")
    user.open("/?q=spider")
    assert (user.evaluate(hosts)[0], before[0] in user.evaluate(hosts)) == (other, False)
    user.click("show them")
    assert before[0] in user.evaluate(hosts)
    user.open("/advanced")
    assert len(user.texts("#sites li")) == 2
    user.click("remove", "#sites li:first-child")
    user.click("remove", "#sites li")
    assert user.texts("#sites, #sites h2") == []
    user.open("/?q=spider")
    assert user.evaluate(hosts) == before


def use_advanced_search(user: User) -> None:
    """Build a query with the form, and search for it."""
    user.follow("Advanced search")
    user.fill("All of these words", "spider")
    user.fill("In the title", "mothers")
    user.select("Language", "en")
    if user.mode.scripts:
        user.browser.wait_until("document.querySelector('#built').innerText.includes('lang:en')")
    else:
        user.submit("Show query")
    assert user.texts("#built") == ["spider intitle:mothers lang:en"]
    user.submit("Search", ".advanced")
    assert (
        user.evaluate("document.querySelector('input[name=q]').value")
        == "spider intitle:mothers lang:en"
    )
    assert user.texts(RESULT_TITLES)[0] == "Mothers with a load · The Wolf Spider Pages"


def test_cached_copies_and_versions(
    chromium: Browser, address: str, home: str, mode: BrowserMode
) -> None:
    with new_user(chromium, address, mode, "copies") as user:
        user.open("/?q=hunt+on+foot+site%3A127.0.2.1")
        assert user.texts(RESULT_TITLES)[0] == HOME_TITLE
        user.follow("cached copy", ".results > li:first-child")
        user.assert_shown(home, "Captured")
        assert (
            user.evaluate("document.querySelector('iframe').sandbox.contains('allow-scripts')")
            is False
        )
        copy = user.evaluate("document.querySelector('iframe').getAttribute('src')")
        user.follow("text only")
        user.assert_shown("Wolf spiders do not wait", "Captured")
        user.follow("as captured")
        user.follow("2 versions")
        assert len(user.texts("tbody tr")) == 2
        user.submit("Compare the selected versions")
        assert "An older text was here." in user.texts("del")
        assert any("Wolf spiders do not wait" in each for each in user.texts("ins"))
        user.follow("all versions")
        user.browser.follow("document.querySelector('tbody tr:last-child a')")
        user.check_page()
        user.follow("text only")
        user.assert_shown("An older text was here.")
        # In the frame's document, links to archived pages lead to their copies and are marked.
        user.browser.open(user.address + copy)
        copy_links = "[...document.querySelectorAll('a[href^=\"/cached?\"]')]"
        assert user.evaluate(f"{copy_links}.length") > 5
        assert (
            user.evaluate(
                f"new Set({copy_links}.map(each => getComputedStyle(each).textDecorationStyle)).size"
            )
            == 1
        )
        assert user.evaluate(f"getComputedStyle({copy_links}[0]).textDecorationStyle") == "dotted"
        user.clear_events()
        user.browser.follow(f"{copy_links}[1]")
        user.check_page()
        user.assert_shown("Captured")
        user.open("/?q=venomous+paragraph")
        user.follow("cached copy", ".results > li:first-child")
        assert user.evaluate("document.title").startswith("Cached copy of")


def test_library_sites_and_crawl_pages(
    chromium: Browser, address: str, home: str, mode: BrowserMode
) -> None:
    host = "127.0.2.1"
    with new_user(chromium, address, mode, "library") as user:
        user.open("/")
        user.follow("Library", ".around")
        user.follow("default", "tbody")
        assert query_parameters(user)["name"] == ["default"]
        user.assert_shown(
            "Captures in the archive", "Queued URLs", "Links found", "Pages in the library"
        )
        user.follow("Library", ".around")
        user.follow("Deutsch")
        days = [each for each in user.texts("tbody th a") if re.fullmatch(r"\d{4}-\d\d-\d\d", each)]
        assert len(user.evaluate("[...document.querySelectorAll('svg.chart title')]")) == len(days)
        user.follow(days[0])
        user.follow("Spinnen, die zu Fuß jagen")
        user.assert_shown("Charset", "utf-8", "Main text", "Sie laufen, schleichen, springen")
        user.follow("Cached copy")
        user.open(f"/library/page?url={quote(home, safe='')}")
        linked_pages = user.evaluate(
            "[...document.querySelectorAll('main li a')].map(each => "
            "[each.pathname, each.className, each.innerText])"
        )
        assert {(path, mark) for path, mark, _ in linked_pages} == {
            ("/library/page", "kept"),
            ("/crawl/explain", ""),
        }
        assert {path for path, _, url in linked_pages if url.endswith("/style.css")} == {
            "/crawl/explain"
        }, "a known URL without a page"
        user.follow("Explain this URL")
        user.assert_shown("State and schedule", "visited", home)

        user.follow("Sites", ".around")
        user.fill("Host name contains", host)
        user.submit("Filter")
        assert query_parameters(user)["like"] == [host]
        user.follow(host)
        assert "/life/" in user.texts("tbody th")
        user.evaluate("document.querySelector('img.map').scrollIntoView()")
        user.browser.wait_until("document.querySelector('img.map').naturalWidth > 100")
        reports = user.texts(".chips a")
        assert [each for each in reports if each.startswith("Broken links")] == ["Broken links 1"]
        for report in reports if mode in OTHER_MODES else ["Broken links 1", "All pages 18"]:
            user.follow(report, ".chips")
            if report == "Broken links 1":
                assert "drawings-1998.html" in user.texts("tbody tr")[0]
            if report == "Changes":
                break  # it is a separate page
        user.open(f"/site/changes?name={host}")
        user.fill("Number of days", "30")
        user.submit("Show")
        assert query_parameters(user)["days"] == ["30"]
        user.follow("all versions", f'tr:has(a[href$="={quote(home, safe="")}"])')
        user.assert_shown("2 archived versions")
        user.browser.open(f"{user.address}/site/map.svg?name={host}")
        assert user.evaluate("document.querySelectorAll('rect').length") > 10
        user.clear_events()

        user.open("/crawl")
        assert user.evaluate("document.querySelectorAll('svg.chart title').length") > 0
        user.follow(host)
        user.assert_shown("Recent fetches", "No URLs are queued.")
        user.open("/crawl")
        user.follow("default", "tbody")
        user.assert_shown("Fetches over time", "Hosts", "Languages")
        user.follow("Search this collection")
        assert query_parameters(user)["q"] == ["collection:default"]
        assert user.texts(RESULT_TITLES)
        user.open("/crawl")
        user.follow("All hosts")
        user.fill("Host name contains", "127.0.2.2")
        user.submit("Filter")
        assert user.texts("tbody th") == ["127.0.2.2"]
        user.open("/crawl")
        user.fill("URL", home)
        user.submit("Explain")
        user.assert_shown("State and schedule", "fetched and processed")

        user.open("/uptime")
        assert user.path.startswith("/login")


def test_language_of_the_interface(chromium: Browser, address: str, mode: BrowserMode) -> None:
    with new_user(chromium, address, mode, "words") as user:
        user.open("/crawl")
        for name, code, direction, heading in (
            ("Русский", "ru", "ltr", "Текущая активность"),
            ("العربية", "ar", "rtl", "النشاط الحالي"),
            ("中文", "zh", "ltr", "当前活动"),
        ):
            user.follow(name, ".foot")
            assert user.path == "/crawl", "the page is unchanged"
            assert user.evaluate(
                "[document.documentElement.lang, document.documentElement.dir]"
            ) == [code, direction]
            assert heading in user.texts("h2")
        user.open("/nowhere", status=404)
        user.follow("Español", ".foot", status=404)
        user.browser.follow("document.querySelector('.message a')")
        user.check_page()
        assert user.path == "/"
