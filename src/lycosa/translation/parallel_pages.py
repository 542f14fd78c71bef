"""Pages that are translations of each other, by what they say (hreflang, language bars) and where
they lie (`/de/x`, `x.de.html`).

A path counts where the language that stands in it is the one that the page's text is in. What is
found is pairs of a page in the hub language with one in another; the hub is English where there is
English, for tables of translations are joined through it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import polars as pl
from xxhash import xxh3_64_intdigest

from lycosa.store.tables.live import LiveTables
from lycosa.url.languages import CODE_IN_HOST, CODE_IN_PATH, language_code

HUB = "en"
PAIRS = ("host_key", "url_key", "language", "hub_host_key", "hub_url_key")
_READ = ("host_key", "url_key", "url", "language", "alternates")
# What a language calls itself, and how English lists it, as language bars have it.
_NAMES = {
    "العربية": "ar",
    "བོད་ཡིག": "bo",
    "català": "ca",
    "čeština": "cs",
    "dansk": "da",
    "deutsch": "de",
    "ελληνικά": "el",
    "english": "en",
    "español": "es",
    "castellano": "es",
    "فارسی": "fa",
    "suomi": "fi",
    "français": "fr",
    "हिन्दी": "hi",
    "हिंदी": "hi",
    "magyar": "hu",
    "bahasa indonesia": "id",
    "indonesia": "id",
    "italiano": "it",
    "日本語": "ja",
    "қазақша": "kk",
    "한국어": "ko",
    "кыргызча": "ky",
    "ລາວ": "lo",
    "монгол": "mn",
    "bahasa melayu": "ms",
    "မြန်မာ": "my",
    "မြန်မာဘာသာ": "my",
    "नेपाली": "ne",
    "nederlands": "nl",
    "norsk": "no",
    "polski": "pl",
    "پښتو": "ps",
    "português": "pt",
    "português do brasil": "pt",
    "română": "ro",
    "русский": "ru",
    "svenska": "sv",
    "тоҷикӣ": "tg",
    "filipino": "tl",
    "türkçe": "tr",
    "українська": "uk",
    "اردو": "ur",
    "tiếng việt": "vi",
    "中文": "zh",
    "简体中文": "zh",
    "中文(简体)": "zh",
    "繁體中文": "zh",
    "正體中文": "zh",
}


@dataclass(slots=True, frozen=True)
class ParallelPages:
    """The pairs, a row each with the columns of `PAIRS`, and the hub's language."""

    hub: str
    pairs: pl.DataFrame


def find_parallel(tables: LiveTables) -> ParallelPages:
    """Pairs of pages that are translations of each other. Memory: some 40 bytes a page.

    Raises:
        FileNotFoundError: a table's file went away: refresh the tables and try again.
    """
    placed, said = [], []
    for frame in tables.batches("pages", _READ):
        placed.append(_placed(frame))
        said.append(_said(frame))
    if not placed:
        return ParallelPages(HUB, _no_pairs())
    pages = pl.concat(placed)
    in_both = pages.filter(
        pl.col("coded").any().over("place") & (pl.col("language").n_unique().over("place") > 1)
    )
    told = pl.concat([*said, *_by_bars(tables, pages)]).join(
        pages.select("url_hash", "host_key", "url_key", "language").unique("url_hash"),
        left_on="target",
        right_on="url_hash",
    )
    languages = pl.concat([in_both["language"], told["language"], told["from_language"]])
    counted = languages.value_counts().sort("count", "language", descending=True)
    hub = HUB if HUB in counted["language"] or not counted.height else str(counted["language"][0])
    found = pl.concat([_by_place(in_both, hub), _by_word(told, hub)])
    return ParallelPages(
        hub, found.unique(["host_key", "url_key"], keep="first", maintain_order=True).sort(PAIRS)
    )


def _by_bars(tables: LiveTables, pages: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """What language bars say: a link whose text is a language's own name, to a page in it to which
    one page of a language alone links so.

    Many link so to where a language's pages begin: that is no translation of theirs.
    """
    rows: list[pl.DataFrame] = []
    for frame in tables.batches("links", ("host_key", "url_key", "target", "anchor")):
        named = frame.with_columns(
            named=pl.col("anchor")
            .str.strip_chars()
            .str.to_lowercase()
            .replace_strict(_NAMES, default="")
        )
        bars = named.filter(pl.col("named") != "")
        hashes = pl.Series("target", [_hash(target) for target in bars["target"]], pl.UInt64)
        rows.append(bars.select("host_key", "url_key", "named").with_columns(hashes))
    if not rows:
        return
    spoken = pages.select("host_key", "url_key", from_language="language").unique(
        ["host_key", "url_key"]
    )
    targets = pages.select(target="url_hash", target_language="language").unique("target")
    known = (
        pl.concat(rows).unique().join(spoken, on=["host_key", "url_key"]).join(targets, on="target")
    )
    true = known.filter(
        (pl.col("named") == pl.col("target_language"))
        & (pl.col("from_language") != pl.col("named"))
    )
    once = true.filter(pl.len().over("target", "from_language") == 1)
    yield once.select(
        from_host="host_key", from_url="url_key", from_language="from_language", target="target"
    )


def place_of(url: str, language: str) -> tuple[str, bool]:
    """The URL without the language that stands in it, and whether one did that is the page's
    own.
    """
    path = url.find("/", url.find("://") + 3)
    for match in reversed(list(CODE_IN_PATH.finditer(url, path)) if path > 0 else []):
        if _is(match[1], language) or (match[2] and _is(match[2], language)):
            before, after = url[: match.start() - 1], url[match.end() :]
            return before + after, True
    host = CODE_IN_HOST.match(url)
    if host is not None and _is(host[2], language):
        return host[1] + url[host.end() :], True
    return url, False


def _is(code: str, language: str) -> bool:
    return language_code(code) == language


def _hash(text: str) -> int:
    return int(xxh3_64_intdigest(text.encode("utf-8", "replace")))


def _placed(frame: pl.DataFrame) -> pl.DataFrame:
    places, coded, hashes = [], [], []
    for url, language in frame.select("url", "language").iter_rows():
        place, known = place_of(url, language or "")
        places.append(_hash(place))
        coded.append(known)
        hashes.append(_hash(url))
    columns = [
        pl.Series("place", places, pl.UInt64),
        pl.Series("coded", coded, pl.Boolean),
        pl.Series("url_hash", hashes, pl.UInt64),
    ]
    return (
        frame.select("host_key", "url_key", "language")
        .with_columns(columns)
        .filter(pl.col("language") != "")
    )


def _said(frame: pl.DataFrame) -> pl.DataFrame:
    """(page, its language, the hash of each alternate's URL)."""
    rows = frame.filter((pl.col("alternates").list.len() > 0) & (pl.col("language") != "")).select(
        pl.col("host_key").alias("from_host"),
        pl.col("url_key").alias("from_url"),
        pl.col("language").alias("from_language"),
        "alternates",
    )
    listed = rows.explode("alternates")
    urls = (
        listed["alternates"].struct.field("url")
        if listed.height
        else pl.Series("url", [], pl.String)
    )
    hashes = pl.Series("target", [_hash(url) for url in urls], pl.UInt64)
    return listed.drop("alternates").with_columns(hashes)


def _by_place(pages: pl.DataFrame, hub: str) -> pl.DataFrame:
    """Of several pages of a language at one place the one whose path names it, and of these the
    first.
    """
    one_each = pages.sort("place", "language", pl.col("coded").not_(), "url_hash").unique(
        ["place", "language"], keep="first", maintain_order=True
    )
    hubs = one_each.filter(pl.col("language") == hub).select(
        "place", hub_host_key="host_key", hub_url_key="url_key"
    )
    return one_each.filter(pl.col("language") != hub).join(hubs, on="place").select(PAIRS)


def _by_word(told: pl.DataFrame, hub: str) -> pl.DataFrame:
    """What pages say, from either side."""
    apart = told.filter(pl.col("from_language") != pl.col("language"))
    from_hub = apart.filter(pl.col("from_language") == hub).select(
        "host_key", "url_key", "language", hub_host_key="from_host", hub_url_key="from_url"
    )
    to_hub = apart.filter(pl.col("language") == hub).select(
        pl.col("from_host").alias("host_key"),
        pl.col("from_url").alias("url_key"),
        pl.col("from_language").alias("language"),
        pl.col("host_key").alias("hub_host_key"),
        pl.col("url_key").alias("hub_url_key"),
    )
    return pl.concat([from_hub, to_hub]).select(PAIRS)


def _no_pairs() -> pl.DataFrame:
    return pl.DataFrame(
        schema={name: pl.String() if name == "language" else pl.UInt64() for name in PAIRS}
    )


def wanted_keys(pairs: pl.DataFrame) -> pl.DataFrame:
    """The pages of which the text is needed, each once."""
    return pl.concat(
        [
            pairs.select("host_key", "url_key"),
            pairs.select(host_key="hub_host_key", url_key="hub_url_key"),
        ]
    ).unique()


def texts(tables: LiveTables, wanted: pl.DataFrame) -> Iterator[tuple[int, int, str]]:
    """(host_key, url_key, text) of these pages; of what has no main text all that is visible."""
    for frame in tables.batches("pages", ("host_key", "url_key", "main_text", "text")):
        rows: Iterable[tuple[int, int, str, str]] = frame.join(
            wanted, on=["host_key", "url_key"], how="semi"
        ).iter_rows()
        yield from ((host, url, main or text) for host, url, main, text in rows)
