"""What the tables say of a collection's recrawl schedule, computed in one go: importance, the
spread of rates, the threshold.

Three passes in the order of the keys. The first takes the keys of the visited pages and a sample of
their histories; the second counts, for each of them, the distinct pages and the distinct other
hosts that link to it; the third estimates and writes down the rows whose numbers changed. Memory:
about 50 bytes a visited page, 8 a page with links, and some 50 MB of rows; so it belongs into a
process of its own when there are millions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple

import numpy as np
import polars as pl

from lycosa.core.records import FOLLOWED_KINDS, UrlState
from lycosa.frontier.recrawl.change_rate import (
    DAY_MS,
    ChangeStats,
    Floats,
    RatePrior,
    learn_prior,
    rate,
    rates,
)
from lycosa.frontier.recrawl.due import DEPTH_DECAY, RecrawlRules, weights_and_rates
from lycosa.frontier.recrawl.fresh import solve
from lycosa.store.tables.live import LiveTables

CHANGED = np.dtype(
    [
        ("partition", "u2"),
        ("host_key", "u8"),
        ("url_key", "u8"),
        ("importance", "f4"),
        ("change_rate", "f4"),
    ]
)
"""One row whose numbers changed, as it stands in the file of changes; in the order of partition,
host and URL key.
"""

NOTABLE = 0.1
"""A row is written again when its importance or its rate changed by more than this share."""

PRIOR_SAMPLE = 10_000
SOLVE_SAMPLE = 200_000
_STATS = len(ChangeStats())
_FRAME_BYTES = 16 * 2**20
_URL_COLUMNS = ("partition", "host_key", "url_key", "collection", "operation", "state")


class Solved(NamedTuple):
    """`threshold` spends the budget in the long run; `default_rate` is for pages visited once;
    `pages` were visited, and `changed` of them have new numbers.
    """

    threshold: float
    default_rate: float
    prior: RatePrior
    pages: int
    changed: int


class RankingResult(NamedTuple):
    """The result of a ranking; `changes` is at its start, and is closed by the receiver."""

    collection: str
    solved: Solved
    changes: BinaryIO


@dataclass(slots=True, frozen=True)
class _Pages:
    """The visited pages of a collection, in the order of their keys."""

    host_key: np.ndarray[tuple[int], np.dtype[np.uint64]]
    url_key: np.ndarray[tuple[int], np.dtype[np.uint64]]
    # of the URL as polars hashes it: links name their target by its text
    text_hash: np.ndarray[tuple[int], np.dtype[np.uint64]]
    prior: RatePrior


def rank(tables: LiveTables, collection: str, rules: RecrawlRules, changes: BinaryIO) -> Solved:
    """Rank a collection's visited pages as the tables hold them, and solve its schedule.

    `changes` gets the rows of `CHANGED` whose numbers are to be written.

    Raises:
        FileNotFoundError: a table's file went away (a merge replaced it long ago): refresh the
        tables and try again.
    """
    pages = _visited(tables, collection)
    in_links, linking_hosts = _links(tables, pages)
    default_rate = rate(ChangeStats(), pages.prior)
    count = pages.url_key.size
    step = -(-count // SOLVE_SAMPLE) if count else 1
    sampled: list[Floats] = []
    start = changed = 0
    for frame in _frames(tables, collection, ("depth", "importance", "change_rate", "history")):
        here = slice(start, start + frame.height)
        depth = np.maximum(frame["depth"].to_numpy(), 0)
        weight = (np.sqrt(1.0 + in_links[here]) + linking_hosts[here]) * DEPTH_DECAY**depth
        changing = _estimated(frame, pages.prior)
        rows = _notable(frame, weight, changing)
        changes.write(rows.tobytes())
        changed += rows.size
        offset = -start % step
        sampled.append(
            np.stack(weights_and_rates(_defaulting(rules, default_rate), depth, weight, changing))[
                :, offset::step
            ]
        )
        start += frame.height
    if not count:
        return Solved(rules.threshold, default_rate, pages.prior, 0, 0)
    weights, changing = np.concatenate(sampled, axis=1)
    budget = rules.budget_per_day * weights.size / count
    threshold = solve(weights, changing, budget, shortest_days=rules.shortest_ms / DAY_MS).threshold
    return Solved(threshold, default_rate, pages.prior, count, changed)


def _frames(tables: LiveTables, collection: str, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    mine = (
        (pl.col("collection") == collection)
        & (pl.col("operation") == "")
        & (pl.col("state") == UrlState.VISITED)
    )
    for frame in tables.ordered("urls", (*_URL_COLUMNS, *columns), memory_bytes=_FRAME_BYTES):
        chosen = frame.filter(mine)
        if chosen.height:
            yield chosen


def _visited(tables: LiveTables, collection: str) -> _Pages:
    hosts, urls, texts = (
        [np.zeros(0, np.uint64)],
        [np.zeros(0, np.uint64)],
        [np.zeros(0, np.uint64)],
    )
    sample = pl.DataFrame(schema={"url_key": pl.UInt64, "history": pl.List(pl.Float64)})
    for frame in _frames(tables, collection, ("url", "history")):
        hosts.append(frame["host_key"].to_numpy())
        urls.append(frame["url_key"].to_numpy())
        texts.append(frame["url"].hash().to_numpy())
        seen = frame.select("url_key", "history").filter(pl.col("history").list.len() == _STATS)
        # keys are hashes: any part of them is a fair one
        sample = pl.concat([sample, seen]).bottom_k(PRIOR_SAMPLE, by="url_key")
    return _Pages(
        np.concatenate(hosts),
        np.concatenate(urls),
        np.concatenate(texts),
        learn_prior(_stats(sample)),
    )


def _links(tables: LiveTables, pages: _Pages) -> tuple[Floats, Floats]:
    """For each page how many others link to it, and how many other hosts. Links of a host stand
    together, so a host that goes on in the next frame is the only one to be remembered.
    """
    order = np.argsort(pages.text_hash)
    ordered = pages.text_hash[order]
    in_links, hosts = np.zeros(order.size), np.zeros(order.size)
    last_host, counted = -1, np.zeros(0, np.int64)
    if not order.size:
        return in_links, hosts
    followed = [kind.value for kind in FOLLOWED_KINDS]
    for frame in tables.ordered(
        "links", ("host_key", "url_key", "target", "kind"), memory_bytes=_FRAME_BYTES
    ):
        links = frame.filter(pl.col("kind").is_in(followed)).select(
            "host_key", "url_key", target=pl.col("target").hash()
        )
        target = links["target"].to_numpy()
        place = np.minimum(np.searchsorted(ordered, target), order.size - 1)
        links = links.with_columns(page=pl.Series(order[place])).filter(
            pl.Series(ordered[place] == target)
        )
        links = links.filter(
            pl.Series(pages.url_key[links["page"].to_numpy()]) != pl.col("url_key")
        ).unique(["url_key", "page"])
        counts = links.group_by("page").len()
        in_links[counts["page"].to_numpy()] += counts["len"].to_numpy()
        foreign = links.filter(
            pl.Series(pages.host_key[links["page"].to_numpy()]) != pl.col("host_key")
        ).unique(["host_key", "page"])
        foreign = foreign.filter(
            ~(
                (pl.col("host_key") == last_host)
                & pl.col("page").is_in(pl.Series(counted).implode())
            )
        )
        counts = foreign.group_by("page").len()
        hosts[counts["page"].to_numpy()] += counts["len"].to_numpy()
        last = int(frame["host_key"][-1])
        here = foreign.filter(pl.col("host_key") == last)["page"].to_numpy()
        counted = np.concatenate([counted, here]) if last == last_host else here
        last_host = last
    return in_links, hosts


def _stats(frame: pl.DataFrame) -> list[Floats]:
    """The columns of `ChangeStats`."""
    return [
        frame["history"].list.get(place, null_on_oob=True).fill_null(0.0).to_numpy()
        for place in range(_STATS)
    ]


def _estimated(frame: pl.DataFrame, prior: RatePrior) -> Floats:
    """Rates by today's prior; 0 where there was no second visit."""
    seen = (frame["history"].list.len() == _STATS).fill_null(False).to_numpy()
    estimates = np.zeros(frame.height)
    if seen.any():
        estimates[seen] = rates(_stats(frame.filter(pl.Series(seen))), prior)
    return estimates


def _notable(
    frame: pl.DataFrame, weight: Floats, changing: Floats
) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    before, rate_before = (
        frame[name].fill_null(0.0).to_numpy() for name in ("importance", "change_rate")
    )
    chosen = (np.abs(weight - before) > NOTABLE * before) | (
        np.abs(changing - rate_before) > NOTABLE * rate_before
    )
    rows = np.zeros(int(chosen.sum()), CHANGED)
    for name in ("partition", "host_key", "url_key"):
        rows[name] = frame[name].to_numpy()[chosen]
    rows["importance"], rows["change_rate"] = weight[chosen], changing[chosen]
    return rows


def _defaulting(rules: RecrawlRules, default_rate: float) -> RecrawlRules:
    return (
        rules
        if rules.default_rate == default_rate
        else RecrawlRules(rules.policy, default_rate=default_rate)
    )
