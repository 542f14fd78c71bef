"""The part of the web that `find` looks at: a host, or what lies below a URL."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from lycosa.core.errors import UsageError
from lycosa.url.keys import host_key
from lycosa.url.normalise import normalise
from lycosa.url.schemes import CRAWLED
from lycosa.url.scope import hostname


@dataclass(slots=True, frozen=True)
class Site:
    """`start`: a normalised URL to begin at. The site is its host and port, or, where it has a path, what begins with it up to the last
    slash; over http and https alike."""

    start: str

    @classmethod
    def of(cls, text: str) -> Site:
        """A site as people write it: `example.org`, `https://example.org/docs/`.

        Raises:
            UsageError: it is none.
        """
        if not text.strip():
            raise UsageError("no site given: specify a host or a URL")
        return cls(normalise(text if "://" in text else f"http://{text}"))

    @property
    def prefix(self) -> str:
        """What a URL of the site begins with, behind its scheme."""
        rest = self.start.partition("://")[2].partition("?")[0]
        return rest[: rest.rindex("/") + 1]

    def takes(self, url: str) -> bool:
        """Whether a normalised URL belongs to it."""
        return url.partition("://")[2].startswith(self.prefix)

    def holds(self, column: str = "url") -> pl.Expr:
        """The same for rows of a table with `host_key`, by which files and row groups are passed over."""
        key = pl.lit(host_key(hostname(self.start)), dtype=pl.UInt64)
        begins = [pl.col(column).str.starts_with(f"{scheme}{self.prefix}") for scheme in CRAWLED]
        return (pl.col("host_key") == key) & pl.any_horizontal(begins)
