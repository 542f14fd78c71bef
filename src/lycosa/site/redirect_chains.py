"""Redirects of a site: chains of two hops or more, loops, and chains that end nowhere."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from lycosa.site.pages_of_site import MOST_HOPS, SiteFacts


@dataclass(slots=True, frozen=True)
class Chain:
    """Redirects behind one another. `urls`: from the first to where they end; in a loop the last is
    one that was there before.

    `end`: `ok`, `unknown` (the last was not fetched), `loop`, or why the last has no good answer.
    """

    urls: tuple[str, ...]
    hops: int
    end: str


def chains(facts: SiteFacts) -> list[Chain]:
    """Of what redirects on the site: chains of two hops or more, and every loop, from where they
    begin; longest first.

    A redirect that another one of the site leads to is part of that one's chain. A loop that
    nothing leads into begins with the first of its URLs by name.
    """
    moved = dict(
        facts.answers.filter(pl.col("redirect_to") != "").select("url", "redirect_to").iter_rows()
    )
    here = facts.nodes.filter(pl.col("redirect_to").fill_null("") != "")["url"].to_list()
    answered = facts.answers.join(
        facts.nodes.filter(pl.col("http_status").is_null()).select("hash"), on="hash", how="anti"
    )
    verdicts = dict(answered.select("url", "verdict").iter_rows())
    led_to = {moved[url] for url in here if url in moved and moved[url] != url}
    found: list[Chain] = []
    told: set[str] = set()
    for url in [
        *(url for url in here if url not in led_to),
        *(url for url in here if url in led_to),
    ]:
        if url in told:
            continue
        chain = _follow(url, moved, verdicts)
        told.update(chain.urls)
        if chain.hops > 1 or chain.end == "loop":
            found.append(chain)
    return sorted(found, key=lambda chain: (-chain.hops, chain.urls))


def _follow(start: str, moved: dict[str, str], verdicts: dict[str, str]) -> Chain:
    urls = [start]
    while len(urls) <= MOST_HOPS:
        target = moved.get(urls[-1])
        if target is None:
            break
        urls.append(target)
        if target in urls[:-1]:
            return Chain(tuple(urls), len(urls) - 1, "loop")
    last = urls[-1]
    end = (
        "unknown"
        if last not in verdicts
        else verdicts[last] or ("too_long" if last in moved else "ok")
    )
    return Chain(tuple(urls), len(urls) - 1, end)
