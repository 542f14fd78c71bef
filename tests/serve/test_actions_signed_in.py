"""Tasks of a signed-in user in a real browser, and what is stored afterwards.

Each runs with and without scripts, on desktop and phone.
"""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from lycosa.commands.crawling.submissions import proposals
from lycosa.commands.maintenance.tokens import Tokens
from lycosa.config.settings import Config
from lycosa.crawl.session.pausing import paused
from lycosa.store.coordination.owner import owner_of
from lycosa.store.storage.storage import Storage, open_storage
from lycosa.store.workspace import Workspace
from lycosa.uptime.monitors import monitors_of
from lycosa.watch.watches import add_watch, list_watches, remove_watch
from tests import waiting
from tests.cli.conftest import printed_here
from tests.daemon.daemons import QUICK, collection, daemon, rows
from tests.serve.browser import Browser
from tests.serve.browser_user import MODES, OTHER_MODES, RESULT_TITLES, BrowserMode, User, new_user
from tests.serve.browser_user import mode as mode
from tests.serve.conftest import serving
from tests.serve.test_uptime import MINUTE, commit_checks
from tests.servers.nginx import Server, nginx

pytestmark = pytest.mark.slow

CRAWLED, HUNTED = "127.0.6.44", "127.0.6.45"
until = functools.partial(waiting.until, limit_s=180.0)
LEAVES = 400  # at 4 pages per second the hunt cannot fetch all before it is stopped
MONITORED = "http://example.org/"
RUNNING = "document.querySelector('[role=status]').dataset.state === 'running'"


@dataclass(frozen=True)
class World:
    """A served workspace, its token, and the port of the sites that it crawls."""

    root: str
    address: str
    port: int
    token: str
    settings: str

    @property
    def storage(self) -> Storage:
        return open_storage(self.root)

    def unlinked_page(self, mode: BrowserMode) -> str:
        """Return the URL of a page without inlinks, one per mode."""
        return f"http://{CRAWLED}:{self.port}/{mode}.html"


def write_sites(folder: Path) -> None:
    """Write a site with unlinked pages, and one with many linked pages."""
    for name in (CRAWLED, HUNTED):
        (folder / name).mkdir(parents=True)
        (folder / name / "index.html").write_text(
            "<html lang=en><title>Home</title><p>A home page that welcomes all of you."
        )
    for each in (*MODES, *OTHER_MODES):
        text = (
            f"<html lang=en><title>The dormouse of {each}</title><p>The dormouse {unique_word(each)} "
            "sleeps through the winter in a hollow tree."
        )
        (folder / CRAWLED / f"{each}.html").write_text(text)
    links = "".join(
        f'<li><a href="/{number}.html">Silk of the wolf spider, part {number}</a>'
        for number in range(LEAVES)
    )
    (folder / HUNTED / "silk.html").write_text(
        f"<html lang=en><title>A list</title><ul>{links}</ul>"
    )
    for number in range(LEAVES):
        text = (
            f"<html lang=en><title>Silk of the wolf spider, part {number}</title><p>The wolf "
            f"spider spins silk; part {number} says how."
        )
        (folder / HUNTED / f"{number}.html").write_text(text)


def unique_word(mode: BrowserMode) -> str:
    """Return a word that only the pages of a mode contain."""
    return f"quiggle{(*MODES, *OTHER_MODES).index(mode)}"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("inside")
    write_sites(folder / "sites")
    root = folder / "w"
    root.mkdir()
    servers = [
        Server(name, folder / "sites" / name, index="index.html", autoindex=False)
        for name in (CRAWLED, HUNTED)
    ]
    with nginx(servers) as server:
        homes = [f"http://{name}:{server.port}/" for name in (CRAWLED, HUNTED)]
        # each commit and update of the index costs CPU that the browser needs
        slower = QUICK.replace("300ms", "1s")
        settings = f"{slower}[serve]\npublic_form = true\n" + collection("default", *homes).replace(
            "delay = 0", 'delay = "250ms"'
        )
        (root / "lycosa.toml").write_text(settings)
        printed_here("-w", str(root), "crawl", "--quiet", *homes)
        commit_checks(
            Workspace.open(str(root)),
            MONITORED,
            "u" * 10 + "ssss" + "u" * 6,
            round(time.time() * 1000) // MINUTE * MINUTE,
        )
        with serving(str(root)) as address:
            yield World(
                str(root),
                address,
                server.port,
                Tokens(open_storage(str(root))).add("ada"),
                settings,
            )


def sign_in(user: User, world: World, path: str) -> None:
    """Sign in by the form, which then opens a path."""
    user.open(f"/login?next={path}")
    user.fill("Token", world.token)
    user.submit("Sign in")
    assert user.path == path
    user.assert_shown("ada")


def test_sign_in_and_change_monitors_watches_proposals_and_files(
    chromium: Browser, world: World, mode: BrowserMode, tmp_path: Path
) -> None:
    with new_user(chromium, world.address, mode, "inside") as user:
        user.open("/hunt")
        user.follow("Sign in with a token to start a hunt.")
        user.fill("Token", "not a token")
        user.submit("Sign in", status=401)
        user.assert_shown("This token is unknown")
        user.fill("Token", world.token)
        user.submit("Sign in")
        assert user.path == "/hunt", "the requested page opens after sign-in"
        add_and_remove_monitor(user, world)
        add_and_remove_watch(user, world)
        decide_proposals(user, world)
        create_and_download_files(user, tmp_path)
        user.follow("ada", ".around")
        user.submit("Sign out")
        user.open("/crawl")
        user.assert_not_shown("Add URLs")
        user.open("/watch")
        assert user.path == "/login?next=%2Fwatch"


def add_and_remove_monitor(user: User, world: World) -> None:
    user.follow("Uptime", ".around")
    user.assert_shown("No monitors yet.")
    user.fill("URL", f"http://{CRAWLED}:{world.port}/")
    user.submit("Add", status=400)
    user.assert_shown("not a public address")
    user.open("/uptime")
    user.fill("URL", MONITORED)
    user.fill("Name", "Example")
    user.fill("Check interval", "30s")
    user.submit("Add")
    (stored,) = monitors_of(world.storage, Config()).values()
    assert (stored.monitor.url, stored.monitor.name, stored.monitor.every) == (
        MONITORED,
        "Example",
        30_000,
    )
    (row,) = user.texts("tbody tr")
    # 4 of 20 checks failed, and the time since has no checks
    assert 75 < float(row.removeprefix("Example up ").partition("%")[0]) < 99
    assert user.evaluate("document.querySelectorAll('svg.spark title').length") == 24
    user.follow("Example")
    user.assert_shown("Outages in the last 30 days", "http 500")
    user.open("/uptime")
    user.submit(f"Remove {MONITORED}")
    user.assert_shown("No monitors yet.")
    user.fill("Host or URL", CRAWLED)
    user.submit("Show")
    user.assert_shown("Pages of this host in the crawl", "Successful")
    assert monitors_of(world.storage, Config()) == {}


def add_and_remove_watch(user: User, world: World) -> None:
    user.follow("Watches", ".around")
    user.fill("Patterns, one per line", "hollow oak\nwolf spider")
    user.fill("Name", "trees")
    user.tick("accents")
    user.submit("Add")
    (stored,) = [each for each in list_watches(world.root) if each.name == "trees"]
    assert (stored.name, stored.texts, stored.ignore) == (
        "trees",
        ("hollow oak", "wolf spider"),
        ("accents",),
    )
    user.follow("trees")
    user.assert_shown("No matches yet.")
    user.fill("Host or URL prefix", CRAWLED)
    user.submit("Filter")
    user.follow("Watches", "main")
    user.submit("Remove trees")
    user.assert_not_shown("trees")
    assert "trees" not in {each.name for each in list_watches(world.root)}


def decide_proposals(user: User, world: World) -> None:
    """Reject a proposal, and accept one in the scope of a collection."""
    for number, note in enumerate(("a site with dormice", "another one")):
        user.open("/propose")
        user.fill("URL of the site", f"https://example.org/{unique_word(user.mode)}/{number}")
        user.fill("Reason", note)
        user.submit("Submit")
        user.assert_shown("Thank you.")
    user.open("/crawl")
    user.follow("Proposed sites")
    user.assert_shown("a site with dormice", "another one")
    user.submit("Reject", "tr:has(form):first-child")
    (remaining,) = proposals(world.storage)
    assert remaining.note == "another one"
    user.submit("Accept")
    user.assert_shown("is not accepted by collection")
    # Replaces the URL by one in scope: the form refuses addresses on loopback.
    path = f"run/moderation/{remaining.id}.json"
    in_scope = f"http://{CRAWLED}:{world.port}/proposed-by-{user.mode}"
    world.storage.replace(
        path, (world.storage.read(path) or b"").replace(remaining.url.encode(), in_scope.encode())
    )
    before = set(world.storage.names("inbox"))
    user.open("/proposals")
    user.submit("Accept")
    user.assert_shown("No open proposals.")
    (submitted,) = set(world.storage.names("inbox")) - before
    assert in_scope.encode() in (world.storage.read(f"inbox/{submitted}") or b"")


def create_and_download_files(user: User, folder: Path) -> None:
    """Create the files of a day and download one."""
    user.follow("Library", ".around")
    user.follow("English")
    user.follow(
        next(each for each in user.texts("tbody th a") if re.fullmatch(r"\d{4}-\d\d-\d\d", each))
    )
    user.select("Format", "jsonl")
    user.submit("Create files")
    name = next(each for each in user.texts("a[download]") if ".jsonl" in each)
    assert user.download(name, folder).stat().st_size > 0


def test_hunt_streams_results_and_is_stopped(
    chromium: Browser, world: World, mode: BrowserMode
) -> None:
    until(lambda: owner_of(world.storage) is None)  # until the previous hunt has ended
    with new_user(chromium, world.address, mode, "hunt") as user:
        sign_in(user, world, "/hunt")
        user.fill("Query", "wolf spider silk")
        user.fill("Seed URLs", f"http://{HUNTED}:{world.port}/silk.html")
        user.fill("Time limit", "5m")
        user.fill("Maximum number of results", "300")
        user.submit("Start hunt")
        hunt_path, loads = user.path, chromium.loads
        chromium.wait_until(f"document.querySelectorAll('{RESULT_TITLES}').length > 0")
        first_count = len(user.texts(RESULT_TITLES))
        chromium.wait_until(f"document.querySelectorAll('{RESULT_TITLES}').length > {first_count}")
        assert (chromium.loads == loads) is mode.scripts, (
            "with scripts results are added to the page, without them it reloads"
        )
        user.save_screenshot("rising")
        user.evaluate("window.stop()")  # without scripts the page must not reload during a click
        user.clear_events()
        user.submit("Stop")
        chromium.wait_until(f"!({RUNNING})")
        user.assert_shown("Ended: stopped on request.")
        assert not user.evaluate("document.getElementById('hunt').dataset.refresh"), (
            "the page of an ended hunt requests nothing more"
        )
        titles = user.texts(RESULT_TITLES)
        assert len(titles) > first_count
        assert all("Silk of the wolf spider" in each for each in titles)
        user.clear_events()
        user.open("/hunt")
        chromium.follow(f"document.querySelector('a[href=\"{hunt_path}\"]')")
        user.check_page()
        assert user.texts(RESULT_TITLES) == titles, "the results are stored"
        chromium.follow("document.querySelector('.results a.kept')")
        user.check_page()
        user.assert_shown("Captured", "silk.html")
    assert hunt_path.rpartition("/")[2] in {
        name.removesuffix(".jsonl") for name in world.storage.names("run/hunts")
    }


@pytest.mark.parametrize(
    "modes", [MODES, pytest.param(OTHER_MODES, marks=pytest.mark.prove)], ids=["usual", "other"]
)
def test_control_of_a_running_crawl(
    chromium: Browser, world: World, modes: list[BrowserMode]
) -> None:
    """An added URL is fetched, matched and found; then the crawl is paused, resumed, excluded."""
    until(lambda: owner_of(world.storage) is None)
    add_watch(world.root, Config(), [unique_word(mode) for mode in modes], name="dormice")
    with daemon(Path(world.root), world.settings) as running:
        running.until(lambda: running.live.get("collections") is not None or running.worker)
        until(lambda: "active hosts" in httpx.get(f"{world.address}crawl").text)
        for mode in modes:
            with new_user(chromium, world.address, mode, "crawl") as user:
                sign_in(user, world, "/crawl")
                add_and_find(user, world, mode)
                pause_and_resume(user, world)
                exclude(user, world, mode)
        assert running.stop() == 0, running.errors
    remove_watch(world.root, "dormice")


def add_and_find(user: User, world: World, mode: BrowserMode) -> None:
    url = world.unlinked_page(mode)
    user.assert_shown("Pages per second", "URLs queued in memory", "Active hosts")
    before = ",".join(user.texts("#live dd"))
    user.fill("One URL per line", url)
    user.submit("Add")
    user.assert_shown("The URLs have been added and are queued for fetching.")
    user.evaluate("document.querySelector('#live dl').id = 'first-figures'")
    loads = user.browser.loads
    until(lambda: url in {row["url"] for row in rows(Path(world.root), "pages", "url")})
    if mode.scripts:
        figures = "[...document.querySelectorAll('#live dd')].map(each => each.innerText).join()"
        user.browser.wait_until(
            f"!document.getElementById('first-figures') && {figures} !== '{before}'"
        )
        assert user.browser.loads == loads, "the figures are updated without a reload"
        user.clear_events()
    user.fill("URL", url)
    user.submit("Explain")
    user.assert_shown("State and schedule", "visited", url)
    user.open("/watch")
    user.follow("dormice")
    (match,) = [each for each in user.texts("tbody tr") if unique_word(mode) in each]
    assert "sleeps through the winter" in match
    user.follow("cached copy", f'tr:has(a[href*="{mode}.html"])')
    user.assert_shown("Captured")
    until(lambda: is_searchable(world, mode))
    user.open(f"/?q={unique_word(mode)}")
    assert user.texts(RESULT_TITLES) == [f"The dormouse of {mode}"]


def is_searchable(world: World, mode: BrowserMode) -> bool:
    """Return whether the search API finds the page."""
    return bool(
        httpx.get(f"{world.address}api/v1/search", params={"q": unique_word(mode)}).json()["total"]
    )


def pause_and_resume(user: User, world: World) -> None:
    user.open("/crawl")
    user.submit("Pause")
    user.assert_shown("Paused. Requests in flight are completed.", "paused")
    assert paused(world.storage)["default"]["by"] == "ada"
    user.follow("default", "tbody")
    user.assert_shown("paused")
    user.submit("Resume")
    user.assert_shown("Resumed.")
    assert user.path.startswith("/crawl/collection/default")
    assert paused(world.storage) == {}


def exclude(user: User, world: World, mode: BrowserMode) -> None:
    rule = f"prefix:{world.unlinked_page(mode)}"
    user.follow("Crawl", ".around")
    user.fill("Rule", rule)
    user.submit("Continue")
    user.assert_shown(rule, "The rule matches 1 stored page.")
    user.follow("Cancel")
    user.fill("Rule", rule)
    user.submit("Continue")
    user.submit("Exclude")
    user.assert_shown("Excluded.")
    assert rule.replace("http://", "") in Workspace.open(world.root).state().exclusions.rules
    until(lambda: not is_searchable(world, mode))  # until the indexer of the daemon has updated
    user.open(f"/?q={unique_word(mode)}")
    assert user.texts(RESULT_TITLES) == []
