"""Six real web sites, about 5,400 HTML pages in 20 languages, from Debian's documentation packages.

They are laid out once, under `~/.cache/lycosa-sites`, by `../shared/tools/make_sites.sh`, and
served by nginx, each on an address of its own, by the rules of the `nginx.conf` that the script
writes; only the port differs.
"""

from __future__ import annotations

import fcntl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.servers.certificates import Certificate
from tests.servers.nginx import Nginx, Server, nginx

NAMES = (
    "apache-manual",
    "debian-reference",
    "installation-guide",
    "maint-guide",
    "python-doc",
    "tuxpaint-doc",
)
"""In the order in which the script numbers the addresses: 127.0.1.10 and up."""

CACHE = Path.home() / ".cache" / "lycosa-sites"
SCRIPT = Path(__file__).resolve().parents[3] / "shared" / "tools" / "make_sites.sh"
LAYOUT_LIMIT_S = 900.0


class SitesAbsent(Exception):
    """The sites are not laid out here and the script that lays them out is not beside the
    repository.
    """


@dataclass(frozen=True)
class Site:
    """One site: its name, its document root, its address."""

    name: str
    root: Path
    address: str


@dataclass(frozen=True)
class ServedSites:
    """Sites being served."""

    sites: tuple[Site, ...]
    server: Nginx
    scheme: str = "http"

    def origin(self, name: str) -> str:
        """`http://ADDRESS:PORT` of a site."""
        site = next(site for site in self.sites if site.name == name)
        return f"{self.scheme}://{site.address}:{self.server.port}"

    def roots(self) -> dict[str, Path]:
        """Origin -> document root."""
        return {self.origin(site.name): site.root for site in self.sites}

    def seeds(self) -> list[str]:
        """`/` of each site, and every index.LANG.html of debian-reference, which no page links
        to.
        """
        return [seed for site in self.sites for seed in site_seeds(site, self.origin(site.name))]


def site_seeds(site: Site, origin: str) -> list[str]:
    """The seeds of one site, absolute."""
    seeds = [f"{origin}/"]
    if site.name == "debian-reference":
        seeds += [f"{origin}/{path.name}" for path in sorted(site.root.glob("index.*.html"))]
    return seeds


def lay_sites() -> tuple[Site, ...]:
    """The six sites on disk; lays them out when they are not there yet. Safe to call from several
    processes at once.

    Raises:
        SitesAbsent: they are not laid out and `../shared` is absent. RuntimeError: the script fails
        (the packages cannot be fetched); the message holds what it said.
    """
    sites = tuple(
        Site(name, CACHE / name, f"127.0.1.{10 + number}") for number, name in enumerate(NAMES)
    )
    CACHE.parent.mkdir(parents=True, exist_ok=True)
    with (CACHE.parent / "lycosa-sites.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _is_complete():
            return sites
        if not SCRIPT.exists():
            raise SitesAbsent(
                f"the six sites are not in {CACHE} and {SCRIPT}, which lays them out, is absent"
            )
        result = subprocess.run(
            ["bash", str(SCRIPT), str(CACHE)],
            capture_output=True,
            text=True,
            timeout=LAYOUT_LIMIT_S,
            check=False,
        )
        if result.returncode or not _is_complete():
            raise RuntimeError(f"{SCRIPT} failed with {result.returncode}: {result.stderr[-2000:]}")
    return sites


def _is_complete() -> bool:
    # The script writes nginx.conf last, so a layout that was cut short has none.
    return (CACHE / "nginx.conf").exists() and all((CACHE / name).is_dir() for name in NAMES)


def require_sites() -> tuple[Site, ...]:
    """`lay_sites` for tests: skips where they cannot exist."""
    try:
        return lay_sites()
    except SitesAbsent as absent:
        pytest.skip(str(absent))


@contextmanager
def serve_sites(
    sites: tuple[Site, ...],
    *,
    port: int = 0,
    program: str = "",
    certificate: Certificate | None = None,
) -> Iterator[ServedSites]:
    """Serve the sites until the block ends, on a free port unless one is given; over TLS and HTTP/2
    with a certificate.
    """
    servers = [Server(site.address, site.root, certificate=certificate) for site in sites]
    with nginx(servers, port=port, program=program) as server:
        yield ServedSites(sites, server, "https" if certificate else "http")
