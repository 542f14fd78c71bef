"""Every page in a real browser, on desktop and phone: axe-core, overflow and errors."""

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
from tests.serve.test_browser import WIDTH

pytestmark = pytest.mark.slow

AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
RUN_AXE = """axe.run(document, {iframes: false, resultTypes: ["violations"]}).then(result => JSON.stringify(
    result.violations.map(each => [each.id, each.help, each.nodes.slice(0, 3).map(node => node.html.slice(0, 200))])))"""

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
    """Values for the placeholders in `PAGES`."""
    pages = LiveTables(Workspace.open(workspace)).scan("pages").collect()
    url = next(url for url in pages["url"].sort() if "//127.0.2.1:" in url)
    return {
        "url": quote(url, safe=""),
        "host": str(urlsplit(url).hostname),
        "day": pages["fetched_at"].max().date().isoformat(),  # type: ignore[union-attr]
    }


def axe_violations(chromium: Browser) -> list[object]:
    """Return the violations that axe-core finds on the current page."""
    chromium.evaluate(AXE + "; 0")
    violations: list[object] = json.loads(chromium.evaluate(RUN_AXE))
    return violations


_PHONE_DARK, _DESKTOP_LIGHT = (390, 800, True), (1280, 900, False)
_CASES = [(path, _PHONE_DARK) for path in PAGES] + [
    pytest.param(path, _DESKTOP_LIGHT, marks=() if number % 4 == 1 else pytest.mark.prove)
    for number, path in enumerate(PAGES)
]


@pytest.mark.parametrize(("path", "window"), _CASES)
def test_pages_have_no_axe_violations(
    chromium: Browser,
    address: str,
    values: dict[str, str],
    path: str,
    window: tuple[int, int, bool],
) -> None:
    width, height, dark = window
    chromium.set_window(width, height, dark=dark)
    chromium.errors.clear()
    chromium.open(address.rstrip("/") + path.format(**values))
    assert axe_violations(chromium) == []
    assert chromium.evaluate(WIDTH) <= width, "the page is wider than the window"
    assert [error for error in chromium.errors if path != "/nowhere" or "404" not in error] == []


@pytest.mark.parametrize("path", ["/", "/?q=spider", "/library", "/crawl"])
def test_right_to_left_pages_have_no_axe_violations(
    chromium: Browser, address: str, path: str
) -> None:
    chromium.set_window(390, 800)
    chromium.open(f"{address}language?to=ar&next={quote(path, safe='')}")
    try:
        assert chromium.evaluate("document.documentElement.dir") == "rtl"
        assert axe_violations(chromium) == []
        assert chromium.evaluate(WIDTH) <= 390
    finally:
        chromium.open(f"{address}language?to=en")


def test_pages_of_signed_in_users_have_no_axe_violations(
    chromium: Browser, address: str, workspace: str
) -> None:
    chromium.set_window(1280, 900)
    chromium.open(f"{address}login?next=%2Fcrawl")
    chromium.evaluate("document.querySelector('[name=token]').focus()")
    chromium.type_text(Tokens(open_storage(workspace)).add("browser"))
    chromium.press_enter()
    assert chromium.evaluate("location.pathname") == "/crawl"
    for path in ("crawl", "hunt", "watch", "watch/matches", "uptime"):
        chromium.open(f"{address}{path}")
        assert axe_violations(chromium) == [], path
