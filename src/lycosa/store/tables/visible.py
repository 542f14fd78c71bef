"""Filters of rows: exclusions, which apply once the rule is in the log, and removed pages."""

from __future__ import annotations

from functools import reduce
from operator import or_

import polars as pl

from lycosa.core.records import UrlState
from lycosa.store.exclusion.exclusions import Exclusions
from lycosa.url.keys import host_key
from lycosa.url.schemes import CRAWLED

URL_COLUMN = {
    "visits": "url",
    "pages": "url",
    "metadata": "url",
    "items": "url",
    "links": "source",
    "urls": "url",
    "found": "url",
    "matches": "url",
}
"""The column that exclusions apply to. A link belongs to its source, not to its target."""

_HOST_OF_URL = r"^[a-z]+://(\[[^\]]*\]|[^/:?#]*)"


def is_removed() -> pl.Expr:
    """Return whether a row of `urls` is of a page that is gone or excluded, or that redirects now.

    The last text of such a page remains in `pages`; the index and exports leave it out.
    """
    state = pl.col("state")
    removed = state.is_in([UrlState.GONE.value, UrlState.EXCLUDED.value])
    moved = (state == UrlState.VISITED.value) & (pl.col("reason") == "redirect")
    return (pl.col("operation") == "") & (removed | moved)


def is_excluded(exclusions: Exclusions, table: str) -> pl.Expr | None:
    """Return whether a row is excluded, None without matching rules.

    Host rules use the sort key, so that row groups are skipped.
    """
    tests: list[pl.Expr] = []
    if table == "hosts":
        name = (
            pl.when(pl.col("host") == "")
            .then(pl.col("registrable_domain"))
            .otherwise(pl.col("host"))
        )
        if exclusions.hosts:
            tests.append(pl.col("host").str.strip_suffix(".").is_in(sorted(exclusions.hosts)))
        tests.extend(_below(name, exclusions))
    else:
        url = pl.col(URL_COLUMN[table])
        if exclusions.hosts:
            keys = [host_key(form) for name in exclusions.hosts for form in (name, f"{name}.")]
            tests.append(pl.col("host_key").is_in(pl.Series(keys, dtype=pl.UInt64).implode()))
        tests.extend(_below(url.str.extract(_HOST_OF_URL, 1), exclusions))
        for prefix in (prefix for prefixes in exclusions.prefixes.values() for prefix in prefixes):
            tests.extend(url.str.starts_with(f"{scheme}{prefix}") for scheme in CRAWLED)
    return reduce(or_, tests) if tests else None


def _below(name: pl.Expr, exclusions: Exclusions) -> list[pl.Expr]:
    """Return whether a hostname is in an excluded domain."""
    if not exclusions.domains:
        return []
    plain = name.str.strip_suffix(".")
    below = [plain.str.ends_with(f".{domain}") for domain in sorted(exclusions.domains)]
    return [plain.is_in(sorted(exclusions.domains)), *below]
