"""What somebody with a token does, in a real browser: with and without scripts, on a desk and on a
phone; and what is stored afterwards.
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
from tests.cli.conftest import printed
from tests.daemon.daemons import QUICK, collection, daemon, rows
from tests.serve.browser import Browser
from tests.serve.conftest import serving
from tests.serve.person import OTHER_WAYS, WAYS, Person, Way, person
from tests.serve.person import way as way
from tests.serve.test_uptime import MINUTE, commit_checks
from tests.servers.nginx import Server, nginx

pytestmark = pytest.mark.slow

CRAWLED, HUNTED = "127.0.6.44", "127.0.6.45"
until = functools.partial(waiting.until, limit_s=180.0)
LEAVES = 400  # at four a second more than enough to be stopped among
WATCHED = "http://example.org/"
TITLES = ".results > li h2"
RUNNING = "document.querySelector('[role=status]').dataset.state === 'running'"


@dataclass(frozen=True)
class World:
    """A workspace that is served, and the sites that it may fetch from."""

    root: str
    address: str
    port: int
    token: str
    settings: str

    @property
    def storage(self) -> Storage:
        return open_storage(self.root)

    def fresh(self, way: Way) -> str:
        """A page that no link leads to, one for each way."""
        return f"http://{CRAWLED}:{self.port}/{way}.html"


def write_sites(folder: Path) -> None:
    """One site with a home page and pages that nobody links to; one with many pages about silk."""
    for name in (CRAWLED, HUNTED):
        (folder / name).mkdir(parents=True)
        (folder / name / "index.html").write_text(
            "<html lang=en><title>Home</title><p>A home page that says welcome to all of you."
        )
    for each in (*WAYS, *OTHER_WAYS):
        text = (
            f"<html lang=en><title>The dormouse of {each}</title><p>The dormouse {code(each)} "
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


def code(way: Way) -> str:
    """A word of its own."""
    return f"quiggle{(*WAYS, *OTHER_WAYS).index(way)}"


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
        settings = f"{QUICK}[serve]\npublic_form = true\n" + collection("default", *homes).replace(
            "delay = 0", 'delay = "250ms"'
        )
        (root / "lycosa.toml").write_text(settings)
        printed("-w", str(root), "crawl", "--quiet", *homes, limit_s=120)
        commit_checks(
            Workspace.open(str(root)),
            WATCHED,
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


def come_in(someone: Person, world: World, path: str) -> None:
    """By the form, and on to where one wanted to go."""
    someone.go(f"/login?next={path}")
    someone.fill("Token", world.token)
    someone.press("Sign in")
    assert someone.place == path
    someone.sees("ada")


def test_coming_in_and_changing_things(
    chromium: Browser, world: World, way: Way, tmp_path: Path
) -> None:
    with person(chromium, world.address, way, "inside") as someone:
        someone.go("/hunt")
        someone.follow("Sign in with a token to start a hunt.")
        someone.fill("Token", "not a token")
        someone.press("Sign in", refused=401)
        someone.sees("This token is unknown")
        someone.fill("Token", world.token)
        someone.press("Sign in")
        assert someone.place == "/hunt", "one comes to where one wanted to go"
        monitors(someone, world)
        watches(someone, world)
        proposed(someone, world)
        files(someone, tmp_path)
        someone.follow("ada", ".around")
        someone.press("Sign out")
        someone.go("/crawl")
        someone.misses("Add URLs")
        someone.go("/watch")
        assert someone.place == "/login?next=%2Fwatch"


def monitors(someone: Person, world: World) -> None:
    someone.follow("Uptime", ".around")
    someone.sees("No monitors yet.")
    someone.fill("URL", f"http://{CRAWLED}:{world.port}/")
    someone.press("Add", refused=400)
    someone.sees("not a public address")
    someone.go("/uptime")
    someone.fill("URL", WATCHED)
    someone.fill("Name", "Example")
    someone.fill("Check interval", "30s")
    someone.press("Add")
    (kept,) = monitors_of(world.storage, Config()).values()
    assert (kept.monitor.url, kept.monitor.name, kept.monitor.every) == (WATCHED, "Example", 30_000)
    (row,) = someone.texts("tbody tr")
    # four of twenty minutes, and those since
    assert 75 < float(row.removeprefix("Example up ").partition("%")[0]) < 99
    assert someone.value("document.querySelectorAll('svg.spark title').length") == 24
    someone.follow("Example")
    someone.sees("Outages in the last 30 days", "http 500")
    someone.go("/uptime")
    someone.press(f"Remove {WATCHED}")
    someone.sees("No monitors yet.")
    someone.fill("Host or URL", CRAWLED)
    someone.press("Show")
    someone.sees("Pages of this host in the crawl", "Successful")
    assert monitors_of(world.storage, Config()) == {}


def watches(someone: Person, world: World) -> None:
    someone.follow("Watches", ".around")
    someone.fill("Patterns, one per line", "hollow oak\nwolf spider")
    someone.fill("Name", "trees")
    someone.tick("accents")
    someone.press("Add")
    (kept,) = [each for each in list_watches(world.root) if each.name == "trees"]
    assert (kept.name, kept.texts, kept.ignore) == (
        "trees",
        ("hollow oak", "wolf spider"),
        ("accents",),
    )
    someone.follow("trees")
    someone.sees("No matches yet.")
    someone.fill("Host or URL prefix", CRAWLED)
    someone.press("Filter")
    someone.follow("Watches", "main")
    someone.press("Remove trees")
    someone.misses("trees")
    assert "trees" not in {each.name for each in list_watches(world.root)}


def proposed(someone: Person, world: World) -> None:
    """Anybody proposes; somebody with a token drops it, or takes it, if a collection may."""
    for number, note in enumerate(("a site with dormice", "another one")):
        someone.go("/propose")
        someone.fill("URL of the site", f"https://example.org/{code(someone.way)}/{number}")
        someone.fill("Reason", note)
        someone.press("Submit")
        someone.sees("Thank you.")
    someone.go("/crawl")
    someone.follow("Proposed sites")
    someone.sees("a site with dormice", "another one")
    someone.press("Reject", "tr:has(form):first-child")
    (left,) = proposals(world.storage)
    assert left.note == "another one"
    someone.press("Accept")
    someone.sees("is not accepted by collection")
    # As if its name had been a public one of a site that is in scope.
    path = f"run/moderation/{left.id}.json"
    there = f"http://{CRAWLED}:{world.port}/proposed-by-{someone.way}"
    world.storage.replace(
        path, (world.storage.read(path) or b"").replace(left.url.encode(), there.encode())
    )
    before = set(world.storage.names("inbox"))
    someone.go("/proposals")
    someone.press("Accept")
    someone.sees("No open proposals.")
    (submitted,) = set(world.storage.names("inbox")) - before
    assert there.encode() in (world.storage.read(f"inbox/{submitted}") or b"")


def files(someone: Person, folder: Path) -> None:
    """A day's files are made and taken."""
    someone.follow("Library", ".around")
    someone.follow("English")
    someone.follow(
        next(each for each in someone.texts("tbody th a") if re.fullmatch(r"\d{4}-\d\d-\d\d", each))
    )
    someone.choose("Format", "jsonl")
    someone.press("Create files")
    name = next(each for each in someone.texts("a[download]") if ".jsonl" in each)
    assert someone.take(name, folder).stat().st_size > 0


def test_a_hunt_is_watched_and_stopped(chromium: Browser, world: World, way: Way) -> None:
    until(lambda: owner_of(world.storage) is None)  # of the hunt before
    with person(chromium, world.address, way, "hunt") as someone:
        come_in(someone, world, "/hunt")
        someone.fill("Query", "wolf spider silk")
        someone.fill("Seed URLs", f"http://{HUNTED}:{world.port}/silk.html")
        someone.fill("Time limit", "5m")
        someone.fill("Maximum number of results", "300")
        someone.press("Start hunt")
        where, loads = someone.place, chromium.loads
        chromium.until(f"document.querySelectorAll('{TITLES}').length > 0")
        some = len(someone.texts(TITLES))
        chromium.until(f"document.querySelectorAll('{TITLES}').length > {some}")
        assert (chromium.loads == loads) is way.scripts, (
            "it grows where it stands, or the page comes again"
        )
        someone.keep("rising")
        someone.value("window.stop()")  # without scripts: not while one presses
        someone.clear()
        someone.press("Stop")
        chromium.until(f"!({RUNNING})")
        someone.sees("Ended: stopped on request.")
        found = someone.texts(TITLES)
        assert len(found) > some
        assert all("Silk of the wolf spider" in each for each in found)
        someone.clear()
        someone.go("/hunt")
        chromium.follow(f"document.querySelector('a[href=\"{where}\"]')")
        someone.look()
        assert someone.texts(TITLES) == found, "it is kept"
        chromium.follow("document.querySelector('.results a.kept')")
        someone.look()
        someone.sees("Captured", "silk.html")
    assert where.rpartition("/")[2] in {
        name.removesuffix(".jsonl") for name in world.storage.names("run/hunts")
    }


@pytest.mark.parametrize(
    "ways", [WAYS, pytest.param(OTHER_WAYS, marks=pytest.mark.prove)], ids=["usual", "other"]
)
def test_a_crawl_that_goes_on(chromium: Browser, world: World, ways: list[Way]) -> None:
    """Beside one daemon: what is added is fetched, watched for, found; then paused, resumed,
    excluded.
    """
    until(lambda: owner_of(world.storage) is None)
    add_watch(world.root, Config(), [code(way) for way in ways], name="dormice")
    with daemon(Path(world.root), world.settings) as running:
        running.until(lambda: running.live.get("collections") is not None or running.worker)
        until(lambda: "active hosts" in httpx.get(f"{world.address}crawl").text)
        for way in ways:
            with person(chromium, world.address, way, "crawl") as someone:
                come_in(someone, world, "/crawl")
                add_and_find(someone, world, way)
                pause_and_resume(someone, world)
                exclude(someone, world, way)
        assert running.stop() == 0, running.errors
    remove_watch(world.root, "dormice")


def add_and_find(someone: Person, world: World, way: Way) -> None:
    url = world.fresh(way)
    someone.sees("Pages per second", "URLs queued in memory", "Active hosts")
    before = ",".join(someone.texts("#live dd"))
    someone.fill("One URL per line", url)
    someone.press("Add")
    someone.sees("The URLs have been added and are queued for fetching.")
    someone.value("document.querySelector('#live dl').id = 'as-it-came'")
    loads = someone.browser.loads
    until(lambda: url in {row["url"] for row in rows(Path(world.root), "pages")})
    if way.scripts:
        figures = "[...document.querySelectorAll('#live dd')].map(each => each.innerText).join()"
        someone.browser.until(f"!document.getElementById('as-it-came') && {figures} !== '{before}'")
        assert someone.browser.loads == loads, "it grows where it stands"
        someone.clear()
    someone.fill("URL", url)
    someone.press("Explain")
    someone.sees("State and schedule", "visited", url)
    someone.go("/watch")
    someone.follow("dormice")
    (match,) = [each for each in someone.texts("tbody tr") if code(way) in each]
    assert "sleeps through the winter" in match
    someone.follow("cached copy", f'tr:has(a[href*="{way}.html"])')
    someone.sees("Captured")
    until(lambda: found(world, way))
    someone.go(f"/?q={code(way)}")
    assert someone.texts(TITLES) == [f"The dormouse of {way}"]


def found(world: World, way: Way) -> bool:
    """Whether the search has the page by now; asked without a browser, which costs more."""
    return bool(httpx.get(f"{world.address}api/v1/search", params={"q": code(way)}).json()["total"])


def pause_and_resume(someone: Person, world: World) -> None:
    someone.go("/crawl")
    someone.press("Pause")
    someone.sees("Paused. Requests in flight are completed.", "paused")
    assert paused(world.storage)["default"]["by"] == "ada"
    someone.follow("default", "tbody")
    someone.sees("paused")
    someone.press("Resume")
    someone.sees("Resumed.")
    assert someone.place.startswith("/crawl/collection/default")
    assert paused(world.storage) == {}


def exclude(someone: Person, world: World, way: Way) -> None:
    rule = f"prefix:{world.fresh(way)}"
    someone.follow("Crawl", ".around")
    someone.fill("Rule", rule)
    someone.press("Continue")
    someone.sees(rule, "The rule matches 1 stored page.")
    someone.follow("Cancel")
    someone.fill("Rule", rule)
    someone.press("Continue")
    someone.press("Exclude")
    someone.sees("Excluded.")
    assert rule.replace("http://", "") in Workspace.open(world.root).state().exclusions.rules
    until(lambda: not found(world, way))  # the daemon's indexer may be at work, and follows then
    someone.go(f"/?q={code(way)}")
    assert someone.texts(TITLES) == []
