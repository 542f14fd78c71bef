"""The part of the web that `find` searches: a host, or the URLs below a path."""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

from lycosa.core.errors import UsageError
from lycosa.url.normalise import normalise, typed_url
from lycosa.url.site_name import SiteName, site_name


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
        """A site as people write it: `example.org`, `https://example.org/docs/`.

        Raises:
            UsageError: it is none.
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
        """Whether a normalised URL belongs to it."""
        return self.name.contains(url, self.path)

    def holds(self) -> pl.Expr:
        """Whether a row with `host_key` and `url` belongs to it."""
        return self.name.rows(path=self.path)
