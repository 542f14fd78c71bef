"""Collect phrases of titles, headings and links with their weights, and words of the texts.

Memory is bounded: pages are read in frames; only the best phrases and words are kept, and as many
again between prunings (lossy counting, as in `search.query.term_statistics`); above `WORD_PAGES`
pages, words are counted in a sample by page key. A text that several pages have is read once and
counts for all of them: first phrases are collected from all pages, then words from some of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import field

import polars as pl
from icu4py.breakers import WordBreaker

from lycosa.core.dataclass import dataclass
from lycosa.index.suggest.file import ANCHOR, HEADING, TITLE, WORD
from lycosa.index.suggest.normalise import CYRILLIC, HAN_AND_KANA, folded_all
from lycosa.index.suggest.writer import MAX_PHRASE_BYTES
from lycosa.text.function_words import SPACELESS
from lycosa.text.segmented import SEPARATED

MAX_PHRASES = 300_000
MAX_WORDS = 300_000
WORD_PAGES = 50_000
"""Pages in which words are counted; of more, a sample of this size."""
# characters of a page whose words are counted; in languages that ICU segments
WORD_TEXT, SEGMENTED_TEXT = 10_000, 3_000
MAX_PHRASE, MAX_WORD = 80, 40  # characters
MAX_HEADINGS, MAX_ANCHORS = 30, 5  # of a page
WEIGHTS = {TITLE: 3.0, ANCHOR: 2.0, HEADING: 1.0, WORD: 0.5}
USUAL_PAGES = 3  # of a host with a phrase; more make it less significant
COMMON = 0.25  # share of pages above which a word is not suggested
FEW_PAGES = 500  # above which words of a single page are dropped: most are misspelled
MIN_PAGES = 3  # with a suggested word

COLUMNS = (
    "partition", "collection", "url_key", "host_key", "language", "title", "headline", "headings",
    "text_digest", "may_index",
)  # fmt: skip
PAGE = ["collection", "url_key"]
"""The columns that identify a page."""
BEGINNING = pl.concat_str(
    [
        pl.col("title"),
        pl.when(pl.col("main_text") != "").then("main_text").otherwise("text").str.head(WORD_TEXT),
    ],
    separator="\n",
).alias("beginning")
"""The text of a page whose words are counted."""
MAX_PAIR = 6  # characters of two Chinese or Japanese words that also count as one
_PAIRED = ("zh", "ja")
_PARTS_OF_TITLE = r"\s+[|–—·•»:-]+\s+|\s*[|·•»]\s*"
_NUMBERING = r"^\s*(?:\d+(?:\.\d+)*\.?|\p{Lu}(?:\.\d+)+\.?)\s+"
_SPACELESS = SPACELESS - {"bo"}  # Tibetan separates syllables
# non-ASCII separators of words; characters before the letters of a word
_SIGNS = r"[^\p{L}\p{M}\p{N}\x00-\x7f]+"
_NO_LETTERS = r"^[\p{M}\p{N}]+"
_PHRASE_KEY = ("language", "text", "kind")
_WORDS = pl.Schema({"language": pl.String, "text": pl.String, "pages": pl.Int64})
_SAMPLE = pl.Schema(
    {"collection": pl.String, "url_key": pl.UInt64, "language": pl.String, "text_digest": pl.UInt64}
)
_ROWS = 500  # pages whose phrases are counted together, or whose words by language
_WORD_ROWS = 125  # of them whose words polars has in memory
_UNMERGED, _UNMERGED_WORDS = 50_000, 150_000  # counted rows that need not be merged
_NO_WORD = "".join(
    chr(code) for code in range(0x80) if not chr(code).isalnum() and chr(code) != "_"
)
_UNEVEN = r"  |[\t-\r\x1c-\x1f]"  # white space other than single spaces
# texts of which only the case is folded
_PLAIN = rf"^(?:[\x00-\x7f]*|[{CYRILLIC}{HAN_AND_KANA}]+)$"


@dataclass(slots=True)
class Collector:
    """Collects phrases from all pages, then words from those that `read_for_words` returns.

    `share`: words are counted in one page of this many.
    """

    share: int = 1
    max_phrases: int = MAX_PHRASES
    max_words: int = MAX_WORDS
    pages: int = 0
    _by_language: dict[str, int] = field(default_factory=dict)
    _sample: list[pl.DataFrame] = field(default_factory=lambda: [_SAMPLE.to_frame()])
    _phrases: list[pl.DataFrame] = field(default_factory=list)
    _texts: list[pl.DataFrame] = field(default_factory=list)
    _words: list[pl.DataFrame] = field(default_factory=lambda: [_WORDS.to_frame()])

    def add(self, frame: pl.DataFrame, link_signals: pl.DataFrame | None) -> None:
        """Add pages with the columns `COLUMNS`, each once, sorted by host.

        `link_signals`: url_key, prior, anchors.
        """
        self.pages += frame.height
        for language, count in frame.group_by("language").len().iter_rows():
            self._by_language[language] = self._by_language.get(language, 0) + count
        for part in frame.iter_slices(_ROWS):
            self._phrases.append(_phrases(part, link_signals))
        self._phrases = _fewer(self._phrases, _merged_phrases, "weight", self.max_phrases)
        looked_at = frame.filter(pl.col("url_key") % self.share == 0)
        self._sample.append(looked_at.select(*PAGE, "language", "text_digest"))

    def read_for_words(self) -> pl.DataFrame:
        """Return the pages in which words are counted: `PAGE`, and `weight`, the number of pages
        that each represents.

        Pages with the same text are represented by one of them.
        """
        text = pl.when(pl.col("text_digest") == 0).then("url_key").otherwise("text_digest")
        groups = pl.concat(self._sample).group_by("language", text=text)
        return groups.agg(pl.col(PAGE).first(), weight=pl.len().cast(pl.Int64))

    def add_words(self, frame: pl.DataFrame) -> None:
        """Add pages with the columns language, weight, and `BEGINNING`."""
        self._texts.append(frame)
        if sum(part.height for part in self._texts) >= _ROWS:
            self._count_words()

    def words(self) -> pl.DataFrame:
        """Return the words, each with its most frequent spelling: `writer.WORDS`."""
        self._count_words()
        rows = _merged_words(self._words)
        if self.pages > FEW_PAGES:
            rows = rows.filter(pl.col("pages") > 1)
        return (
            _with_folded(_most(rows, self.max_words, "pages"))
            .sort("pages", "text", descending=[True, False])
            .group_by("language", "folded", maintain_order=True)
            .agg(pl.col("text").first(), pl.col("pages").sum() * self.share)
            .select("language", "text", "folded", "pages")
        )

    def phrases(self, words: pl.DataFrame) -> pl.DataFrame:
        """Return the phrases and the words that are suggested: `writer.PHRASES`."""
        return (
            pl.concat([*self._from_pages(), self._from_words(words)])
            .sort("weight", "text", descending=[True, False])
            .group_by("language", "folded", maintain_order=True)
            .agg(pl.col("text", "kind").first(), pl.col("pages").max(), pl.col("weight").sum())
        )

    def _count_words(self) -> None:
        """Count the words of `_texts`."""
        if self._texts:
            texts = pl.concat(self._texts).sort("language")  # a part has few languages
            self._words += [_words(part) for part in texts.iter_slices(_WORD_ROWS)]
            self._words = _fewer(
                self._words, _merged_words, "pages", self.max_words, _UNMERGED_WORDS
            )
            self._texts.clear()

    def _from_pages(self) -> Iterator[pl.DataFrame]:
        if self._phrases:
            rows = _merged_phrases(self._phrases)
            yield _with_folded(_most(rows, self.max_phrases, "weight")).select(
                "language", "folded", "text", "kind", "pages", "weight"
            )

    def _from_words(self, words: pl.DataFrame) -> pl.DataFrame:
        of = pl.col("language").replace_strict(
            self._by_language, default=1, return_dtype=pl.Float64
        )
        rare = 1.0 - pl.col("pages") / (COMMON * of)
        suggested = words.filter(
            (pl.col("pages") >= MIN_PAGES) & ((rare > 0) | (of < MIN_PAGES / COMMON))
        )
        weighed = suggested.with_columns(
            weight=WEIGHTS[WORD] * (1.0 + pl.col("pages")).log(2.0) * rare.clip(0.1, 1.0), kind=WORD
        )
        best = _most(weighed, self.max_phrases // 4, "weight")
        long_enough = (pl.col("folded").str.len_chars() > 2) | ~_is_ascii("folded")
        return best.filter(long_enough).select(
            "language", "folded", "text", "kind", "pages", "weight"
        )


def _phrases(pages: pl.DataFrame, link_signals: pl.DataFrame | None) -> pl.DataFrame:
    """Return language, text, kind, and numbers of pages and hosts with it, and their best prior."""
    if link_signals is None:
        with_links = pages.with_columns(prior=pl.lit(1.0), anchors=pl.lit(""))
    else:
        with_links = pages.join(link_signals, on="url_key", how="left").with_columns(
            pl.col("prior").fill_null(1.0), pl.col("anchors").fill_null("")
        )
    title = pl.when(pl.col("title") != "").then("title").otherwise("headline")
    anchors = pl.col("anchors").str.split("\n").list.unique(maintain_order=True)
    sources = {
        TITLE: title.str.replace_all(_PARTS_OF_TITLE, "\n").str.split("\n"),
        HEADING: pl.col("headings").list.head(MAX_HEADINGS),
        ANCHOR: anchors.list.head(MAX_ANCHORS),
    }
    keys = ("language", "host_key", "url_key", "prior")
    parts = [with_links.select(*keys, text=text, kind=kind) for kind, text in sources.items()]
    text = (
        pl.col("text")
        .str.replace_all(r"\s+", " ")
        .str.replace(_NUMBERING, "")
        .str.strip_chars(" \t#¶§*:;,.|-–—·•»«\u200b")
    )
    rows = pl.concat(parts).explode("text").drop_nulls("text").with_columns(text)
    rows = rows.filter(
        pl.col("text").str.len_chars().is_between(2, MAX_PHRASE)
        & pl.col("text").str.contains(r"\p{L}")
    )
    return (
        rows.group_by(_PHRASE_KEY)
        .agg(
            pages=pl.col("url_key").n_unique().cast(pl.Int64),
            hosts=pl.col("host_key").n_unique().cast(pl.Int64),
            prior=pl.col("prior").max(),
        )
        .with_columns(weight=pl.lit(0.0))
    )


def _merged_phrases(parts: list[pl.DataFrame]) -> pl.DataFrame:
    """Merge. Frames are sorted by host, so hosts count twice only where a frame ends."""
    rows = (
        pl.concat(parts)
        .group_by(_PHRASE_KEY)
        .agg(pl.col("pages").sum(), pl.col("hosts").sum(), pl.col("prior").max())
    )
    return rows.with_columns(weight=_weight())


def _weight() -> pl.Expr:
    """Return the weight of a phrase: by kind, best page, and number of pages and hosts.

    Phrases on many pages of one host weigh less: site names and navigation.
    """
    usual = USUAL_PAGES * pl.col("hosts")
    kind = pl.col("kind").replace_strict(WEIGHTS, return_dtype=pl.Float64)
    counted = (1.0 + pl.min_horizontal("pages", usual)).log(2.0)
    return kind * pl.col("prior") * counted * (usual / pl.col("pages")).clip(0.0, 1.0).sqrt()


def _words(pages: pl.DataFrame) -> pl.DataFrame:
    """Return the words of pages in lower case: language, text, pages (weighted by `weight`).

    A word counts twice for a page that also has it after a number: 5MB, MB. Hot path:
    bench/search.py.
    """
    spaced = pages.filter(~pl.col("language").is_in(_SPACELESS))
    lower = pl.col("beginning").str.to_lowercase().str.replace_all(_SIGNS, " ").cast(pl.Binary)
    separated = [text.translate(SEPARATED) for text in spaced.select(lower).to_series()]
    words = pl.Series(separated, dtype=pl.Binary).cast(pl.String).str.split(" ").list.unique()
    parts = [spaced.select("language", "weight", text=words)]
    run_together = pages.filter(pl.col("language").is_in(_SPACELESS))
    if run_together.height:
        cut = [
            "\n".join(_cut(text[:SEGMENTED_TEXT].lower(), language))
            for language, text in run_together.select("language", "beginning").rows()
        ]
        parts.append(
            run_together.select(
                "language", "weight", text=pl.Series(cut, dtype=pl.String).str.split("\n")
            )
        )
    return (
        pl.concat(parts)
        .explode("text")
        .group_by("language", "text")
        .agg(pages=pl.col("weight").sum())
        .with_columns(pl.col("text").str.replace(_NO_LETTERS, ""))
        .filter(pl.col("text").str.len_chars().is_between(2, MAX_WORD))
    )


def _merged_words(parts: list[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(parts).group_by("language", "text").agg(pl.col("pages").sum())


def _cut(text: str, language: str) -> list[str]:
    """Return the unique words of a text without spaces, segmented by ICU.

    In Chinese and Japanese also pairs, because ICU splits words that readers see as one (安装程序).
    """
    words = list(WordBreaker(text, language))
    unique = {word for word in set(words) if word[:1].isalpha()}
    if language in _PAIRED:
        paired = {word for word in unique if len(word) < MAX_PAIR and not word.isascii()}
        unique.update([
            one + other
            for one, other in itertools.pairwise(words)
            if one in paired and other in paired and len(one) + len(other) <= MAX_PAIR
        ])  # fmt: skip
    return list(unique)


def _with_folded(rows: pl.DataFrame) -> pl.DataFrame:
    """Add the folded form of `text`, and drop rows whose form is empty or very long."""
    is_plain = pl.col("text").str.contains(_PLAIN) & ~pl.col("text").str.contains(_UNEVEN)
    simple, other = rows.filter(is_plain), rows.filter(~is_plain)
    plain = pl.col("text").str.to_lowercase().str.strip_chars_start(_NO_WORD).str.strip_chars(" ")
    made = pl.concat([
        simple.with_columns(folded=plain),
        other.with_columns(folded=pl.Series(folded_all(other["text"].to_list()), dtype=pl.String)),
    ])  # fmt: skip
    return made.filter(pl.col("folded").str.len_bytes().is_between(1, MAX_PHRASE_BYTES))


def _is_ascii(name: str) -> pl.Expr:
    return pl.col(name).str.len_bytes() == pl.col(name).str.len_chars()


def _fewer(
    parts: list[pl.DataFrame],
    merge: Callable[[list[pl.DataFrame]], pl.DataFrame],
    by: str,
    limit: int,
    unmerged: int = _UNMERGED,
) -> list[pl.DataFrame]:
    """Merge frames when their rows have tripled, and drop the rarest if there are too many."""
    rows = sum(part.height for part in parts)
    if rows <= min(max(unmerged, 3 * parts[0].height), 2 * limit):
        return parts
    merged = merge(parts)
    return [_most(merged, limit, by) if rows > 2 * limit else merged]


def _most(rows: pl.DataFrame, count: int, by: str) -> pl.DataFrame:
    return rows.top_k(count, by=by) if rows.height > count else rows
