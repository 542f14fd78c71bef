"""Groups of pages with the same or nearly the same text, and the page that represents each group.

Pages with the same digest have one text. `lycosa.graph.minhash` finds similar texts, by characters
in languages that are written without spaces, by words elsewhere. The main text counts. Where it is
a small part of the visible text (a table of contents with a notice that all pages of the site
have), the visible text counts as much.

A group is represented by the page that most others declare as canonical; then by one with a
declared language and a title that fit its text (`pages.language_share`); then by one with a text
that fits `hreflang` or the URL (a page of `/de/` may not be translated yet). Further criteria are
the link rank, the shortest URL and the oldest fetch.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import polars as pl

from lycosa.graph.minhash import (
    CHARACTERS,
    MIN_SHINGLES,
    WORDS,
    Sketches,
    Tokens,
    shingles,
    stars,
    weighed,
)
from lycosa.store.tables.live import LiveTables
from lycosa.text.function_words import SPACELESS
from lycosa.url.languages import language_of_url

GROUPS = {
    "url_key": pl.UInt64(),
    # shared by the pages of a group: `text_group` of the page that represents it
    "group": pl.Int64(),
    "canonical": pl.UInt64(),  # the URL key of the page that represents the group
    "text": pl.UInt64(),  # the digest of the page's text
}

_READ = (
    "url_key",
    "url",
    "fetched_at",
    "canonical",
    "language",
    "alternates",
    "language_share",
    "may_index",
    "text_digest",
    "main_text",
    "text",
)
_FRAME_BYTES = 16 * 2**20
_NO_LETTER = re.compile(r"\W+")
_SMALL = 3  # a main text is small if the visible text is at least this many times as long
_ROWS = 200  # pages whose words are in memory together


def near_groups(
    tables: LiveTables, priors: pl.DataFrame, copies: pl.Series, folder: Path
) -> pl.DataFrame:
    """Return the pages that are in a group with others, with the columns of `GROUPS`.

    Args:
        tables: the pages.
        priors: url_key, prior: from the links to each page.
        copies: URL keys of pages that are skipped.
        folder: for temporary files, up to 4.2 KB a text.

    The result does not depend on the order of the pages in the files. Memory: about 200 bytes a
    page, 100 a pair of near texts.

    Raises:
        FileNotFoundError: a table's file was deleted some time after a compaction: refresh the
        tables and try again.
    """
    facts: list[pl.DataFrame] = []
    with (
        tempfile.NamedTemporaryFile(dir=folder, prefix="hashes-") as hashes,
        tempfile.NamedTemporaryFile(dir=folder, prefix="bands-") as bands,
    ):
        sketches = Sketches(hashes.file, bands.file)
        digests = _sketch_texts(_pages(tables, copies, facts), sketches)
        if not facts:
            return pl.DataFrame(schema=GROUPS)
        newest = pl.concat(facts).sort("fetched_at").unique("url_key", keep="last")
        pages = _in_order(newest, priors)
        best = dict(pages.group_by("text").agg(pl.col("order").min()).iter_rows())
        order = np.fromiter((best[digest] for digest in digests), np.int64, len(digests))
        near = sketches.near(np.array(digests, np.uint64))
        leaders = stars(((one, other) for one, other, _ in near), order)
    merged = pl.DataFrame(
        {
            "text": [digests[text] for text in leaders],
            "leader": [digests[text] for text in leaders.values()],
        },
        schema={"text": pl.UInt64, "leader": pl.UInt64},
    )
    groups = (
        pages.join(merged, on="text", how="left")
        .with_columns(leader=pl.col("leader").fill_null(pl.col("text")))
        .filter(pl.len().over("leader") > 1)
        .sort("order")
    )
    # The same mapping as `lycosa.index.update.text_group`, so that new pages with equal texts join.
    shifted = pl.col("leader").reinterpret(signed=True).xor(pl.lit(-(2**63), pl.Int64))
    return groups.with_columns(
        group=shifted, canonical=pl.col("url_key").first().over("leader")
    ).select(list(GROUPS))


def _pages(
    tables: LiveTables, copies: pl.Series, facts: list[pl.DataFrame]
) -> Iterator[pl.DataFrame]:
    """Read the pages to be grouped, and append the columns that order them to `facts`."""
    for frame in tables.batches("pages", _READ, memory_bytes=_FRAME_BYTES):
        pages = frame.filter(
            pl.col("may_index")
            & (pl.col("text_digest") != 0)
            & (pl.col("text") != "")
            & ~pl.col("url_key").is_in(copies.implode())
        )
        facts.append(_facts(pages))
        yield pages


def _sketch_texts(frames: Iterable[pl.DataFrame], sketches: Sketches) -> list[int]:
    """Sketch each text once, and return their digests in order; short texts are skipped."""
    digests: list[int] = []
    seen: set[int] = set()
    for frame in frames:
        for digest, width, main, visible in _texts(frame, seen):
            text = shingles(main, width)
            if visible.size:
                text = weighed(text, shingles(visible, width))
            if text.size >= MIN_SHINGLES:
                sketches.add(text)
                digests.append(digest)
    return digests


def _facts(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the columns that determine which page represents a group."""
    return frame.select(
        "url_key",
        "fetched_at",
        text="text_digest",
        url=pl.col("url").hash(),
        length=pl.col("url").str.len_bytes(),
        host=pl.col("url").str.extract("^[^:]*://([^/?#]*)").hash(),
        language=pl.col("language"),
        share=pl.col("language_share"),
        declared=_declared_language(frame),
        named=pl.when((pl.col("canonical") != "") & (pl.col("canonical") != pl.col("url"))).then(
            pl.col("canonical").hash()
        ),
    )


def _declared_language(frame: pl.DataFrame) -> pl.Series:
    """Return the language of each page by `hreflang` of itself, else by its URL, else ""."""
    alternate = pl.col("alternates").struct
    declared = dict(
        frame.select("url", "alternates")
        .with_row_index("row")
        .explode("alternates")
        .drop_nulls("alternates")
        .filter(alternate.field("url") == pl.col("url"))
        .select("row", alternate.field("language").str.split("-").list.first().str.to_lowercase())
        .filter(pl.col("language") != "x")
        .iter_rows()
    )
    return pl.Series(
        [declared.get(row) or language_of_url(url) for row, url in enumerate(frame["url"])],
        dtype=pl.String,
    )


def _in_order(pages: pl.DataFrame, priors: pl.DataFrame) -> pl.DataFrame:
    """Return url_key, text, order; the page with the smallest order represents its group."""
    votes = pages.drop_nulls("named").group_by(url="named").agg(votes=pl.len())
    candidates = pages.join(votes, on="url", how="left").join(priors, on="url_key", how="left")
    # A language code in a URL counts if the host has a page in that language with the code.
    true = (
        candidates.filter(pl.col("declared") == pl.col("language"))
        .select("host", "declared", names=pl.lit(True))
        .unique()
    )
    candidates = candidates.join(true, on=["host", "declared"], how="left")
    fits = (
        pl.when(pl.col("names").is_null() | (pl.col("declared") == ""))
        .then(0)
        .when(pl.col("declared") == pl.col("language"))
        .then(1)
        .otherwise(-1)
    )
    ordered = candidates.sort(
        [
            pl.col("votes").fill_null(0),
            "share",
            fits,
            pl.col("prior").fill_null(1.0),
            "length",
            "fetched_at",
            "url_key",
        ],
        descending=[True, True, True, True, False, False, False],
    )
    return ordered.with_row_index("order").select("url_key", "text", pl.col("order").cast(pl.Int64))


def _texts(frame: pl.DataFrame, seen: set[int]) -> Iterator[tuple[int, int, Tokens, Tokens]]:
    """Return (digest, tokens in a shingle, main text, visible text) of each text not yet seen.

    Texts are tokens. The visible text is empty where the main text suffices.
    """
    digests = frame["text_digest"].to_list()
    places = {digest: place for place, digest in enumerate(digests) if digest not in seen}
    seen.update(places)
    fresh = frame[sorted(places.values())]
    body = (
        pl.when(pl.col("main_text") != "")
        .then(pl.col("main_text"))
        .otherwise(pl.col("text"))
        .str.to_lowercase()
    )
    small = (
        pl.col("main_text").str.len_bytes().is_between(1, pl.col("text").str.len_bytes() // _SMALL)
    )
    whole = pl.when(small).then(pl.col("text").str.to_lowercase()).otherwise(pl.lit(""))
    texts = fresh.select(
        "text_digest", body=body, whole=whole, spaceless=pl.col("language").is_in(list(SPACELESS))
    )
    for part in texts.filter(~pl.col("spaceless")).iter_slices(_ROWS):
        bodies, wholes = _words(part["body"]), _words(part["whole"])
        for digest in part["text_digest"]:
            yield digest, WORDS, next(bodies), next(wholes)
    for digest, one, other in (
        texts.filter(pl.col("spaceless")).select("text_digest", "body", "whole").iter_rows()
    ):
        yield digest, CHARACTERS, _characters(one), _characters(other)


def _words(texts: pl.Series) -> Iterator[Tokens]:
    """Return the hashes of the words of each text."""
    words = texts.str.extract_all(r"\w+")
    hashes = words.explode().drop_nulls().hash().to_numpy()
    start = 0
    for length in words.list.len():
        yield hashes[start : start + length]
        start += length


def _characters(text: str) -> Tokens:
    """Return the letters and digits of a text."""
    return np.frombuffer(_NO_LETTER.sub("", text).encode("utf-32-le", "replace"), np.uint32).astype(
        np.uint64
    )
