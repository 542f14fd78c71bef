"""Find pages that translate each other, by hreflang, language menus and URLs (`/de/x`).

A URL counts if the language in it is that of the page's text. The result is pairs of a page in the
hub language and one in another. The hub is English if there are English pages, since translation
tables are joined through English.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from lycosa.store.tables.live import LiveTables
from lycosa.url.languages import CODE_IN_HOST, CODE_IN_PATH, language_code

HUB = "en"
PAIRS = ("host_key", "url_key", "language", "hub_host_key", "hub_url_key")
KEYS = ("host_key", "url_key", "hub_host_key", "hub_url_key")
_READ = ("host_key", "url_key", "url", "language", "alternates")
_FRAME_BYTES = 8 * 2**20
# Names of languages in language menus.
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
    """The language of the hub, and a row for each pair with the columns of `PAIRS`."""

    hub: str
    pairs: pl.DataFrame


def find_parallel(tables: LiveTables) -> ParallelPages:
    """Return the pairs of pages that translate each other. Memory: about 40 bytes a page.

    Raises:
        FileNotFoundError: a table's file was deleted: refresh the tables and try again.
    """
    by_url_parts, declared = [], []
    for frame in tables.batches("pages", _READ, memory_bytes=_FRAME_BYTES):
        by_url_parts.append(_url_parts(frame))
        declared.append(_declared(frame))
    if not by_url_parts:
        return ParallelPages(HUB, _no_pairs())
    pages = pl.concat(by_url_parts)
    in_both = pages.filter(
        pl.col("coded").any().over("place") & (pl.col("language").n_unique().over("place") > 1)
    )
    declarations = pl.concat([*declared, *_menu_links(tables, pages)]).join(
        pages.select("url_hash", "host_key", "url_key", "language").unique("url_hash"),
        left_on="target",
        right_on="url_hash",
    )
    languages = pl.concat(
        [in_both["language"], declarations["language"], declarations["from_language"]]
    )
    counted = languages.value_counts().sort("count", "language", descending=True)
    hub = HUB if HUB in counted["language"] or not counted.height else str(counted["language"][0])
    pairs = pl.concat([_pairs_by_url(in_both, hub), _pairs_by_declaration(declarations, hub)])
    return ParallelPages(
        hub, pairs.unique(["host_key", "url_key"], keep="first", maintain_order=True).sort(PAIRS)
    )


def _menu_links(tables: LiveTables, pages: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Return the links of language menus: the anchor text is the name of the target's language.

    A target that several pages of a language link to is a home page, not their translation.
    """
    rows: list[pl.DataFrame] = []
    columns = ("host_key", "url_key", "target", "anchor")
    for frame in tables.batches("links", columns, memory_bytes=_FRAME_BYTES):
        named = frame.with_columns(
            named=pl.col("anchor")
            .str.strip_chars()
            .str.to_lowercase()
            .replace_strict(_NAMES, default="")
        )
        bars = named.filter(pl.col("named") != "")
        rows.append(bars.select("host_key", "url_key", "named", pl.col("target").hash()))
    if not rows:
        return
    spoken = pages.select("host_key", "url_key", from_language="language").unique(
        ["host_key", "url_key"]
    )
    targets = pages.select(target="url_hash", target_language="language").unique("target")
    menus = (
        pl.concat(rows).unique().join(spoken, on=["host_key", "url_key"]).join(targets, on="target")
    )
    true = menus.filter(
        (pl.col("named") == pl.col("target_language"))
        & (pl.col("from_language") != pl.col("named"))
    )
    once = true.filter(pl.len().over("target", "from_language") == 1)
    yield once.select(
        from_host="host_key", from_url="url_key", from_language="from_language", target="target"
    )


def place_of(url: str, language: str) -> tuple[str, bool]:
    """Return the URL without the code of the page's language, and whether it has one."""
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


def _url_parts(frame: pl.DataFrame) -> pl.DataFrame:
    """Return key and language of each page, `place_of` its URL, and hashes of place and URL."""
    spoken = frame.filter(pl.col("language") != "")
    places = [place_of(*row) for row in spoken.select("url", "language").iter_rows()]
    parts = pl.DataFrame(places, {"place": pl.String, "coded": pl.Boolean}, orient="row")
    return spoken.select(
        "host_key", "url_key", "language", url_hash=pl.col("url").hash()
    ).with_columns(parts.select(pl.col("place").hash(), "coded"))


def _declared(frame: pl.DataFrame) -> pl.DataFrame:
    """Return (page, its language, the hash of each alternate's URL)."""
    rows = frame.filter((pl.col("alternates").list.len() > 0) & (pl.col("language") != "")).select(
        pl.col("host_key").alias("from_host"),
        pl.col("url_key").alias("from_url"),
        pl.col("language").alias("from_language"),
        "alternates",
    )
    target = pl.col("alternates").struct.field("url").hash()
    return rows.explode("alternates").with_columns(target=target).drop("alternates")


def _pairs_by_url(pages: pl.DataFrame, hub: str) -> pl.DataFrame:
    """Return the pairs by URL; of pages in one language, preferably one with its code."""
    one_each = pages.sort("place", "language", pl.col("coded").not_(), "url_hash").unique(
        ["place", "language"], keep="first", maintain_order=True
    )
    hubs = one_each.filter(pl.col("language") == hub).select(
        "place", hub_host_key="host_key", hub_url_key="url_key"
    )
    return one_each.filter(pl.col("language") != hub).join(hubs, on="place").select(PAIRS)


def _pairs_by_declaration(declarations: pl.DataFrame, hub: str) -> pl.DataFrame:
    """Return the pairs that either page declares."""
    apart = declarations.filter(pl.col("from_language") != pl.col("language"))
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


def texts_of_pairs(tables: LiveTables, pairs: pl.DataFrame, folder: Path) -> pl.DataFrame:
    """Return the pairs with `text` and `hub_text`: the main text, or else the visible text.

    The texts are in files in the folder and mapped into memory.
    """
    hubs = pairs.select(pl.col("hub_host_key", "hub_url_key").name.replace("^hub_", ""))
    keys = pl.concat([pairs.select("host_key", "url_key"), hubs]).unique()
    body = pl.when(pl.col("main_text") != "").then("main_text").otherwise("text")
    texts = [pl.DataFrame(schema={**keys.schema, "text": pl.String})]
    columns = (*keys.columns, "main_text", "text")
    frames = tables.batches("pages", columns, memory_bytes=_FRAME_BYTES)
    for number, frame in enumerate(frames):
        path = folder / f"{number}.arrow"
        chosen = frame.join(keys, on=keys.columns, how="semi")
        chosen.select(*keys.columns, text=body).write_ipc(path)
        texts.append(pl.read_ipc(path))
    one_each = pl.concat(texts).unique(keys.columns, keep="last")
    hub_texts = one_each.select(pl.all().name.prefix("hub_"))
    paired = pairs.join(one_each, on=keys.columns).join(hub_texts, on=hub_texts.columns[:2])
    return paired.sort(PAIRS)
