"""Every page, in a real browser, on a desk and on a phone: axe-core finds nothing, nothing sticks
out, nothing breaks.
"""

from __future__ import annotations

import json
from importlib.resources import files
from urllib.parse import quote, urlsplit

import pytest

from lycosa.commands.maintenance.tokens import Tokens
from lycosa.store.storage.storage import open_storage
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from tests.serve.browser import Browser

pytestmark = pytest.mark.slow

AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
RUN = """axe.run(document, {iframes: false, resultTypes: ["violations"]}).then(found => JSON.stringify(
    found.violations.map(each => [each.id, each.help, each.nodes.slice(0, 3).map(node => node.html.slice(0, 200))])))"""

PAGES = (
    "/",
    "/?q=spider",
    "/?q=%22egg+sac%22&lang=en&sort=date",
    "/?q=xyzzyplugh",
    "/?q=museum&across=all",
    "/advanced?all=spider",
    "/?q=venomous+paragraph",
    "/nowhere",
    "/login",
    "/library",
    "/library/days?lang=de",
    "/library/day?lang=de&day={day}",
    "/library/collection?name=default",
    "/library/page?url={url}",
    "/crawl",
    "/crawl/hosts",
    "/crawl/host?name={host}",
    "/crawl/explain?url={url}",
    "/crawl/collection/default",
    "/sites",
    "/site?name={host}",
    "/site?name={host}&show=broken",
    "/site?name={host}&show=page_list",
    "/site/changes?name={host}",
    "/hunt",
    "/uptime",
    "/uptime/of?name={host}",
    "/cached?url={url}",
    "/cached?url={url}&text=1",
    "/versions?url={url}",
)


@pytest.fixture(scope="module")
def values(workspace: str) -> dict[str, str]:
    """What the paths above name, as this workspace has it."""
    pages = LiveTables(Workspace.open(workspace)).scan("pages").collect()
    url = next(url for url in pages["url"].sort() if "//127.0.2.1:" in url)
    return {
        "url": quote(url, safe=""),
        "host": str(urlsplit(url).hostname),
        "day": pages["fetched_at"].max().date().isoformat(),  # type: ignore[union-attr]
    }


def _look(
    chromium: Browser, url: str, width: int, height: int, *, dark: bool, missing: bool = False
) -> None:
    chromium.look(width, height, dark=dark)
    chromium.errors.clear()
    chromium.open(url)
    chromium.evaluate(AXE + "; 0")
    assert json.loads(chromium.evaluate(RUN)) == []
    assert chromium.evaluate("document.documentElement.scrollWidth") <= width, (
        "something sticks out"
    )
    assert [error for error in chromium.errors if not missing or "404" not in error] == []


@pytest.mark.parametrize("path", PAGES)
def test_axe_finds_nothing_on_a_phone_at_night(
    chromium: Browser, address: str, values: dict[str, str], path: str
) -> None:
    _look(
        chromium,
        address.rstrip("/") + path.format(**values),
        390,
        800,
        dark=True,
        missing=path == "/nowhere",
    )


_BY_DAY = [
    path if number % 4 == 1 else pytest.param(path, marks=pytest.mark.prove)
    for number, path in enumerate(PAGES)
]


@pytest.mark.parametrize("path", _BY_DAY)
def test_axe_finds_nothing_on_a_desk_by_day(
    chromium: Browser, address: str, values: dict[str, str], path: str
) -> None:
    _look(
        chromium,
        address.rstrip("/") + path.format(**values),
        1280,
        900,
        dark=False,
        missing=path == "/nowhere",
    )


@pytest.mark.parametrize("path", ["/", "/?q=spider", "/library", "/crawl"])
def test_right_to_left(chromium: Browser, address: str, path: str) -> None:
    chromium.look(390, 800)
    chromium.open(f"{address}language?to=ar&next={quote(path, safe='')}")
    try:
        assert chromium.evaluate("document.documentElement.dir") == "rtl"
        chromium.evaluate(AXE + "; 0")
        assert json.loads(chromium.evaluate(RUN)) == []
        assert chromium.evaluate("document.documentElement.scrollWidth") <= 390
    finally:
        chromium.open(f"{address}language?to=en")


def test_a_person_comes_in_pauses_and_leaves_with_and_without_scripts(
    chromium: Browser, address: str, workspace: str
) -> None:
    token = Tokens(open_storage(workspace)).add("browser")
    chromium.look(1280, 900)
    for scripts in (True, False):
        chromium.scripts(allowed=scripts)
        try:
            chromium.open(f"{address}login?next=%2Fcrawl")
            chromium.evaluate("document.querySelector('[name=token]').focus()")
            chromium.type_text(token)
            chromium.press_enter()
            assert chromium.evaluate("location.pathname") == "/crawl"
            for button, then in (("Pause", "Resume"), ("Resume", "Pause")):
                chromium.does(
                    "[...document.querySelectorAll('button')].find(each => "
                    f"each.innerText == '{button}').click()"
                )
                assert chromium.evaluate(
                    "[...document.querySelectorAll('td button')].map(each => each.innerText)"
                ) == [then]
            # it needs promises
            for path in ("crawl", "hunt", "watch", "watch/matches", "uptime") if scripts else ():
                chromium.open(f"{address}{path}")
                chromium.evaluate(AXE + "; 0")
                assert json.loads(chromium.evaluate(RUN)) == [], path
            chromium.open(f"{address}login")
            chromium.does("document.querySelector('form[action=\"/logout\"] button').click()")
            chromium.open(f"{address}crawl")
            assert (
                chromium.evaluate("document.querySelectorAll('form[action=\"/crawl/add\"]').length")
                == 0
            )
        finally:
            chromium.scripts(allowed=True)
