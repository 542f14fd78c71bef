"""Sites as users write them, and which URLs and table rows belong to them."""

from __future__ import annotations

import re
from dataclasses import field

import polars as pl

from lycosa.core.dataclass import dataclass
from lycosa.core.errors import UsageError
from lycosa.url.keys import host_key
from lycosa.url.normalise import normalise, typed_url
from lycosa.url.scope import hostname


@dataclass(slots=True, frozen=True)
class SiteName:
    """A hostname with all its schemes and ports, or (with `authority`, as in `127.0.0.1:8080`) one
    port of it.
    """

    host: str
    authority: str = ""

    def __str__(self) -> str:
        return self.authority or self.host

    def rows(self, column: str = "url", path: str = "") -> pl.Expr:
        """Return the condition for rows of the site: by `host_key`, so that scans skip files and
        row groups, and by the URL in `column`.
        """
        return (pl.col("host_key") == pl.lit(host_key(self.host), pl.UInt64)) & self.holds(
            column, path
        )

    def holds(self, column: str, path: str = "") -> pl.Expr:
        """Return the condition for URLs of the site in a column."""
        return pl.col(column).str.contains(self._pattern(path))

    def contains(self, url: str, path: str = "") -> bool:
        """Return whether a normalised URL is one of the site (whose path begins with `path`)."""
        return re.match(self._pattern(path), url) is not None

    def _pattern(self, path: str) -> str:
        where = re.escape(self.authority) if self.authority else re.escape(self.host) + r"(?::\d+)?"
        return rf"^[a-z]+://{where}{re.escape(path) if path else '(?:[/?]|$)'}"


def unknown_site(site: SiteName) -> UsageError:
    """Return the error for a site without any data."""
    return UsageError(f"no data about {site}; list the known hosts with `lycosa status --by host`")


def site_name(text: str) -> SiteName:
    """Return the site in a hostname, `host:port` or URL (whose path is ignored).

    Raises:
        UsageError: it is not one of these.
    """
    problem = f"{text!r} is not a site: write a host, host:port or URL, for example example.org"
    if "[" not in text and re.match(r"[^/?#]*:(?!\d|//)", text):
        raise UsageError(f"{problem} (the port is missing)")
    try:
        url = normalise(typed_url(text))
    except UsageError as error:
        raise UsageError(f"{problem} ({error})") from None
    host = hostname(url)
    if not host:
        raise UsageError(problem)
    authority = url.partition("://")[2].partition("/")[0].partition("?")[0].rpartition("@")[2]
    return SiteName(host, authority if authority != host else "")


@dataclass(slots=True, frozen=True)
class SiteScope:
    """`start`: a normalised URL to begin at. The site is its host (one port, if it names one); with
    a path, the URLs that begin with the path up to its last slash; over http and https alike.
    """

    start: str
    name: SiteName = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", site_name(self.start))

    @classmethod
    def of(cls, text: str) -> SiteScope:
        """Return the site from its usual notation: `example.org`, `https://example.org/docs/`.

        Raises:
            UsageError: it is not a site.
        """
        if not text.strip():
            raise UsageError("no site given: specify a host or a URL")
        return cls(normalise(typed_url(text)))

    @property
    def path(self) -> str:
        """The prefix of the paths of its URLs."""
        rest = self.start.partition("://")[2].partition("?")[0]
        return rest[rest.index("/") : rest.rindex("/") + 1]

    def takes(self, url: str) -> bool:
        """Return whether a normalised URL belongs to it."""
        return self.name.contains(url, self.path)

    def holds(self) -> pl.Expr:
        """Return whether a row with `host_key` and `url` belongs to it."""
        return self.name.rows(path=self.path)
