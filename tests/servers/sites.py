"""Six real web sites, about 5,400 HTML pages in 20 languages, from Debian's documentation packages.

`../shared/tools/make_sites.sh` creates them once in `~/.cache/lycosa-sites`. nginx serves each on
its own address.
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
"""Site number N has the address 127.0.1.(10 + N)."""

CACHE = Path.home() / ".cache" / "lycosa-sites"
SCRIPT = Path(__file__).resolve().parents[3] / "shared" / "tools" / "make_sites.sh"
LAYOUT_LIMIT_S = 900.0


class SitesMissing(Exception):
    """The sites are missing, and so is the script that creates them."""


@dataclass(frozen=True)
class Site:
    """One site; `root` is its document root."""

    name: str
    root: Path
    address: str


@dataclass(frozen=True)
class ServedSites:
    """Sites, and the nginx that serves them."""

    sites: tuple[Site, ...]
    server: Nginx
    scheme: str = "http"

    def origin(self, name: str) -> str:
        """Return `http://ADDRESS:PORT` of a site."""
        site = next(site for site in self.sites if site.name == name)
        return f"{self.scheme}://{site.address}:{self.server.port}"

    def roots(self) -> dict[str, Path]:
        """Return the document root of each origin."""
        return {self.origin(site.name): site.root for site in self.sites}

    def seeds(self) -> list[str]:
        """Return the seeds of all sites (see `site_seeds`)."""
        return [seed for site in self.sites for seed in site_seeds(site, self.origin(site.name))]


def site_seeds(site: Site, origin: str) -> list[str]:
    """Return the seed URLs of one site.

    These are `/`, and for debian-reference each index.LANG.html, because no page links to them.
    """
    seeds = [f"{origin}/"]
    if site.name == "debian-reference":
        seeds += [f"{origin}/{path.name}" for path in sorted(site.root.glob("index.*.html"))]
    return seeds


def create_sites() -> tuple[Site, ...]:
    """Return the six sites, which are created if they are missing.

    Several processes may call it at the same time.

    Raises:
        SitesMissing: the sites and the script are missing.
        RuntimeError: the script fails, for example because a package cannot be downloaded. The
            message contains the error output.
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
            raise SitesMissing(
                f"the six sites are not in {CACHE}, and {SCRIPT}, which creates them, is missing"
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
    # The script writes nginx.conf last: after an interruption it is missing.
    return (CACHE / "nginx.conf").exists() and all((CACHE / name).is_dir() for name in NAMES)


def require_sites() -> tuple[Site, ...]:
    """Call `create_sites`, and skip the test if the sites cannot be created."""
    try:
        return create_sites()
    except SitesMissing as absent:
        pytest.skip(str(absent))


@contextmanager
def serve_sites(
    sites: tuple[Site, ...],
    *,
    port: int = 0,
    program: str = "",
    certificate: Certificate | None = None,
) -> Iterator[ServedSites]:
    """Serve the sites until the block ends.

    Args:
        port: 0 selects a free one.
        program: the path of nginx. "": searches for it.
        certificate: enables TLS and HTTP/2.
    """
    servers = [Server(site.address, site.root, certificate=certificate) for site in sites]
    with nginx(servers, port=port, program=program) as server:
        yield ServedSites(sites, server, "https" if certificate else "http")
