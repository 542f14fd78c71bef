"""Exclusions as a condition on rows: what they name is invisible to every reader from the moment
the rule is in the log.
"""

from __future__ import annotations

from functools import reduce
from operator import or_

import polars as pl

from lycosa.store.exclusion.exclusions import Exclusions
from lycosa.url.keys import host_key
from lycosa.url.schemes import CRAWLED

URL_COLUMN = {
    "visits": "url",
    "pages": "url",
    "links": "source",
    "urls": "url",
    "found": "url",
    "matches": "url",
}
"""The column that says what a row is about. A link counts as its source's: who links to an excluded
page may say so.
"""

_HOST_OF_URL = r"^[a-z]+://(\[[^\]]*\]|[^/:?#]*)"


def is_excluded(exclusions: Exclusions, table: str) -> pl.Expr | None:
    """Whether a row of a table is excluded; None if no rule can name one. Host rules use the sort
    key, so row groups are passed over.
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
    """Whether a hostname is, or lies below, an excluded domain."""
    if not exclusions.domains:
        return []
    plain = name.str.strip_suffix(".")
    below = [plain.str.ends_with(f".{domain}") for domain in sorted(exclusions.domains)]
    return [plain.is_in(sorted(exclusions.domains)), *below]
