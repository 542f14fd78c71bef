"""Build a site with known errors for a real nginx, and list these errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from lycosa.config.reading import parse_config
from tests.servers.nginx import Server, nginx
from tests.site import editable_site

ADDRESS = "127.0.7.61"
WORDS = (
    "The lighthouse is on the cliff above the harbour, and page number {} describes what "
    "its keeper saw in that year."
)
SPECIAL_LINKS = (
    *("/chain-0", "/round-1", "/to-nowhere", "same-1.html", "same-2.html", "own.html"),
    *("untitled.html", "en.html", "empty.html"),
)


@dataclass
class Planted:
    """Expected findings, as paths. Broken links are pairs (target, source)."""

    pages: set[str] = field(default_factory=set)
    broken: set[tuple[str, str]] = field(default_factory=set)
    orphans: set[str] = field(default_factory=set)
    chains: set[tuple[str, ...]] = field(default_factory=set)
    duplicates: set[tuple[str, ...]] = field(default_factory=set)
    untitled: set[str] = field(default_factory=set)
    unanswered: set[tuple[str, str]] = field(default_factory=set)
    depth: dict[str, int] = field(default_factory=dict)


def write_site(root: Path, rows: int = 5) -> tuple[Planted, str]:
    """Write the site. Return its errors and the nginx rules of its redirects."""
    planted = Planted()
    files: dict[str, str] = {}

    def page(path: str, *links: str, title: str = "", head: str = "", number: object = "") -> None:
        anchors = "".join(f'<p><a href="{link}">to {link}</a></p>' for link in links)
        name = title or f"Page {path}"
        files[path] = (
            f"<!doctype html><title>{name}</title>{head}<p>{WORDS.format(number or path)}</p>{anchors}"
        )
        planted.pages.add(path)

    page("/", *(f"/row/{row}/" for row in range(rows)), "/special/")
    planted.depth["/"] = 0
    for row in range(rows):
        page(f"/row/{row}/", f"/row/{row}/a.html", "/missing.html")
        page(f"/row/{row}/a.html", "b.html", "/", "#top", "/moved-once")
        page(f"/row/{row}/b.html", "/error", f"/row/{row}/a.html")
        planted.broken |= {("/missing.html", f"/row/{row}/"), ("/error", f"/row/{row}/b.html")}
        planted.depth |= {f"/row/{row}/": 1, f"/row/{row}/a.html": 2, f"/row/{row}/b.html": 3}
    chain = [f"/chain-{number}" for number in range(4)]
    page("/special/", *SPECIAL_LINKS)
    planted.depth["/special/"] = 1
    page("/end.html")
    planted.depth["/end.html"] = 2
    page("/target.html")
    planted.depth["/target.html"] = 3
    planted.chains = {(*chain, "/end.html"), ("/round-1", "/round-2", "/round-1")}
    # One redirect to a missing page is a broken link, not a chain.
    planted.broken.add(("/to-nowhere", "/special/"))
    page("/special/same-1.html", number="one text")
    page("/special/same-2.html", number="one text")
    page("/special/own.html", head='<link rel="canonical" href="same-1.html">', number="one text")
    planted.duplicates = {("/special/same-1.html", "/special/same-2.html")}
    for path, title in (
        ("/special/untitled.html", "<h1>A heading</h1>"),
        ("/special/empty.html", "<title> </title>"),
    ):
        files[path] = f"<!doctype html>{title}<p>{WORDS.format(path)}</p>"
        planted.pages.add(path)
        planted.untitled.add(path)
    page("/special/en.html", head=_alternates("en", "de", "fr"))
    page("/special/de.html", head=_alternates("en", "de"))
    page("/special/fr.html", head=_alternates("fr"))
    planted.unanswered = {("/special/en.html", "/special/fr.html")}
    # In the sitemap only; the first links to the second.
    page("/lonely/1.html", "/lonely/2.html")
    page("/lonely/2.html")
    page("/lonely/3.html", "/row/0/")
    page("/lonely/seeded.html")  # also a seed, so not first discovered in the sitemap
    planted.orphans = {"/lonely/1.html", "/lonely/3.html", "/lonely/seeded.html"}
    _write(root, files)
    return planted, _rules(chain)


def _write(root: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        file = root / (path.lstrip("/") + ("index.html" if path.endswith("/") else ""))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def _rules(chain: list[str]) -> str:
    moves = {
        **dict(zip(chain, [*chain[1:], "/end.html"], strict=True)),
        "/moved-once": "/target.html",
        "/to-nowhere": "/nowhere.html",
        "/round-1": "/round-2",
        "/round-2": "/round-1",
    }
    rules = [f"location = {path} {{ return 301 {target}; }}" for path, target in moves.items()]
    return " ".join([*rules, "location = /error { return 410; }", "absolute_redirect off;"])


def _alternates(*languages: str) -> str:
    return "".join(
        f'<link rel="alternate" hreflang="{each}" href="/special/{each}.html">'
        for each in languages
    )


@contextmanager
def crawled(folder: Path) -> Iterator[tuple[str, str, Planted]]:
    """Serve and crawl the site. Yield workspace, origin and expected findings."""
    root = folder / "www"
    root.mkdir()
    planted, rules = write_site(root)
    with nginx([Server(ADDRESS, root, extra=rules)]) as server:
        origin = f"http://{ADDRESS}:{server.port}"
        listed = [*planted.orphans, "/lonely/2.html", "/row/1/", "/end.html"]
        urls = "".join(f"<url><loc>{origin}{path}</loc></url>" for path in sorted(listed))
        (root / "sitemap.xml").write_text(
            f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{urls}</urlset>'
        )
        (root / "robots.txt").write_text(f"User-agent: *\nSitemap: {origin}/sitemap.xml\n")
        workspace = str(folder / "w")
        seeds = (f"{origin}/", f"{origin}/lonely/seeded.html")
        editable_site.crawled(workspace, *seeds, config=parse_config(""))
        yield workspace, origin, planted
