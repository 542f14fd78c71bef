"""From the tables to what the file of suggestions holds: phrases of titles, headings and links with
their weight, and words of the texts.

Memory is bounded whatever the number of pages: they are read in frames of some megabytes; of
phrases and of words those that count most are kept, with as many again while more come in (lossy
counting, as in `search.query.term_statistics`); and above `WORD_PAGES` pages words are counted in a
share of them, by the pages' keys. A text that several pages have is looked at once, and counts for
all of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

import polars as pl
from icu4py.breakers import WordBreaker

from lycosa.index.suggest.file import ANCHOR, HEADING, TITLE, WORD
from lycosa.index.suggest.normalise import folded_all
from lycosa.index.suggest.writer import MAX_PHRASE_BYTES

MAX_PHRASES = 300_000
MOST_WORDS = 300_000
WORD_PAGES = 50_000
"""Pages in which words are counted; of more, a share that comes to as many."""
# characters of a page whose words are counted; where ICU has to part them
WORD_TEXT, WORD_TEXT_CUT = 10_000, 3_000
MAX_PHRASE, MAX_WORD = 80, 40  # characters
MOST_HEADINGS, MAX_ANCHORS = 30, 5  # of a page
WEIGHTS = {TITLE: 3.0, ANCHOR: 2.0, HEADING: 1.0, WORD: 0.5}
USUAL_PAGES = 3  # of a host that hold a phrase; what is on more of them says little of each
COMMON = 0.25  # of the pages of a language: words on more of them are no suggestions
FEW_PAGES = 500  # above which a word on one page is not kept: most are misspelled, or nobody's
LEAST_PAGES = 3  # that hold a word which is suggested

COLUMNS = (
    "partition", "url_key", "host_key", "language", "title", "headline", "headings", "main_text",
    "text", "text_digest", "may_index",
)  # fmt: skip
COPY_COLUMNS = ("partition", "url_key", "language", "text_digest", "may_index")
MAX_PAIR = 6  # characters of two Chinese or Japanese words that are looked at as one
_PAIRED = ("zh", "ja")
_PARTS_OF_TITLE = r"\s+[|–—·•»:-]+\s+|\s*[|·•»]\s*"
_NUMBERING = r"^\s*(?:\d+(?:\.\d+)*\.?|\p{Lu}(?:\.\d+)+\.?)\s+"
_SPACELESS = ("zh", "ja", "th", "lo", "my", "km")
_WORDS = r"\p{L}[\p{L}\p{M}\p{N}]*"
_PHRASE_KEY = ("language", "text", "kind")
_WORD_SCHEMA = pl.Schema({"language": pl.String, "text": pl.String, "pages": pl.Int64})
_ROWS = 500
_NO_WORD = "".join(
    chr(code) for code in range(0x80) if not chr(code).isalnum() and chr(code) != "_"
)
_UNEVEN = r"  |[\t-\r\x1c-\x1f]"  # white space that is not one space


def copies_of(frames: Iterator[pl.DataFrame], share: int) -> dict[tuple[str, int], int]:
    """Of texts that several pages have: (language, digest) -> how many. Frames have the columns of
    `COPY_COLUMNS`; `share` as of `Collector`.
    """
    parts = [
        _shared_out(frame, share)
        .filter(pl.col("text_digest") != 0)
        .select("language", "text_digest")
        for frame in frames
    ]
    if not parts:
        return {}
    found = pl.concat(parts).group_by("language", "text_digest").len().filter(pl.col("len") > 1)
    return {(language, digest): count for language, digest, count in found.iter_rows()}


@dataclass(slots=True)
class Collector:
    """Takes pages in, frame by frame, sorted by host; `share`: one of so many is looked at for its
    words; `copies`: of `copies_of`.
    """

    share: int = 1
    copies: dict[tuple[str, int], int] = field(default_factory=dict)
    most_phrases: int = MAX_PHRASES
    most_words: int = MOST_WORDS
    pages: int = 0
    _by_language: dict[str, int] = field(default_factory=dict)
    _phrases: list[pl.DataFrame] = field(default_factory=list)
    _words: list[pl.DataFrame] = field(default_factory=list)

    def add(self, frame: pl.DataFrame, said: pl.DataFrame | None) -> None:
        """Pages with the columns of `COLUMNS`, each once; `said` is what links say of pages:
        url_key, prior, anchors.
        """
        self.pages += frame.height
        for language, count in frame.group_by("language").len().iter_rows():
            self._by_language[language] = self._by_language.get(language, 0) + count
        for part in frame.iter_slices(_ROWS):
            self._phrases.append(_phrases(part, said))
        looked_at = _shared_out(frame, self.share)
        weights = [
            self._weight_of(key) for key in looked_at.select("language", "text_digest").iter_rows()
        ]
        counted = looked_at.with_columns(weight=pl.Series(weights, dtype=pl.Int64)).filter(
            pl.col("weight") > 0
        )
        self._words += [_words(part) for part in counted.iter_slices(_ROWS) if part.height]
        self._phrases = _fewer(
            self._phrases, 2 * self.most_phrases, _together_phrases, "weight", self.most_phrases
        )
        self._words = _fewer(
            self._words, 2 * self.most_words, _together_words, "pages", self.most_words
        )

    def words(self) -> pl.DataFrame:
        """The words that were found, each by its commonest spelling: language, text, folded,
        pages.
        """
        rows = _together_words([pl.DataFrame(schema=_WORD_SCHEMA), *self._words])
        if self.pages > FEW_PAGES:
            rows = rows.filter(pl.col("pages") > 1)
        return (
            _with_folded(_most(rows, self.most_words, "pages"))
            .sort("pages", "text", descending=[True, False])
            .group_by("language", "folded", maintain_order=True)
            .agg(pl.col("text").first(), pl.col("pages").sum() * self.share)
            .select("language", "text", "folded", "pages")
        )

    def phrases(self, words: pl.DataFrame) -> pl.DataFrame:
        """The phrases that were found, and those of the words that are worth suggesting: language,
        text, folded, kind, pages, weight.
        """
        return (
            pl.concat([*self._from_pages(), self._from_words(words)])
            .sort("weight", "text", descending=[True, False])
            .group_by("language", "folded", maintain_order=True)
            .agg(pl.col("text", "kind").first(), pl.col("pages").max(), pl.col("weight").sum())
        )

    def _from_pages(self) -> Iterator[pl.DataFrame]:
        if self._phrases:
            rows = _together_phrases(self._phrases)
            yield _with_folded(_most(rows, self.most_phrases, "weight")).select(
                "language", "folded", "text", "kind", "pages", "weight"
            )

    def _from_words(self, words: pl.DataFrame) -> pl.DataFrame:
        of = pl.col("language").replace_strict(
            self._by_language, default=1, return_dtype=pl.Float64
        )
        rare = 1.0 - pl.col("pages") / (COMMON * of)
        wanted = words.filter(
            (pl.col("pages") >= LEAST_PAGES) & ((rare > 0) | (of < LEAST_PAGES / COMMON))
        )
        weighed = wanted.with_columns(
            weight=WEIGHTS[WORD] * (1.0 + pl.col("pages")).log(2.0) * rare.clip(0.1, 1.0), kind=WORD
        )
        best = _most(weighed, self.most_phrases // 4, "weight")
        long_enough = (pl.col("folded").str.len_chars() > 2) | ~_is_ascii("folded")
        return best.filter(long_enough).select(
            "language", "folded", "text", "kind", "pages", "weight"
        )

    def _weight_of(self, key: tuple[str, int]) -> int:
        """For how many pages one with this text counts: the first one of its copies for all of
        them.
        """
        count = self.copies.get(key)
        if count is None:
            return 1
        self.copies[key] = 0
        return count


def _phrases(pages: pl.DataFrame, said: pl.DataFrame | None) -> pl.DataFrame:
    """language, text, kind; pages, hosts, prior: how many pages of how many hosts have it, and the
    highest prior of one of them.
    """
    if said is None:
        known = pages.with_columns(prior=pl.lit(1.0), anchors=pl.lit(""))
    else:
        known = pages.join(said, on="url_key", how="left").with_columns(
            pl.col("prior").fill_null(1.0), pl.col("anchors").fill_null("")
        )
    title = pl.when(pl.col("title") != "").then("title").otherwise("headline")
    parts = (
        known.select(
            "language",
            "host_key",
            "url_key",
            "prior",
            title.str.replace_all(_PARTS_OF_TITLE, "\n").str.split("\n").alias("text"),
            kind=TITLE,
        ),
        known.select(
            "language",
            "host_key",
            "url_key",
            "prior",
            pl.col("headings").list.head(MOST_HEADINGS).alias("text"),
            kind=HEADING,
        ),
        known.select(
            "language",
            "host_key",
            "url_key",
            "prior",
            pl.col("anchors")
            .str.split("\n")
            .list.unique(maintain_order=True)
            .list.head(MAX_ANCHORS)
            .alias("text"),
            kind=ANCHOR,
        ),
    )
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


def _together_phrases(parts: list[pl.DataFrame]) -> pl.DataFrame:
    """Frames are sorted by host, so a host is counted twice only where one ends within it."""
    rows = (
        pl.concat(parts)
        .group_by(_PHRASE_KEY)
        .agg(pl.col("pages").sum(), pl.col("hosts").sum(), pl.col("prior").max())
    )
    return rows.with_columns(weight=_weight())


def _weight() -> pl.Expr:
    """What a phrase counts: its kind, the best of its pages, on how many pages and hosts it stands.
    What many pages of one host have is its name or a word of its navigation.
    """
    usual = USUAL_PAGES * pl.col("hosts")
    kind = pl.col("kind").replace_strict(WEIGHTS, return_dtype=pl.Float64)
    counted = (1.0 + pl.min_horizontal("pages", usual)).log(2.0)
    return kind * pl.col("prior") * counted * (usual / pl.col("pages")).clip(0.0, 1.0).sqrt()


def _words(pages: pl.DataFrame) -> pl.DataFrame:
    """language, text, pages: the words of the texts as they are written in lower case, and on how
    many pages; a page counts as `weight` says. Hot path: bench/search.py.
    """
    body = (
        pl.when(pl.col("main_text") != "").then("main_text").otherwise("text").str.head(WORD_TEXT)
    )
    texts = pages.select(
        "language", "weight", body=pl.concat_str([pl.col("title"), body], separator="\n")
    )
    spaced = texts.filter(~pl.col("language").is_in(_SPACELESS))
    parts = [
        spaced.select(
            "language",
            "weight",
            text=pl.col("body").str.to_lowercase().str.extract_all(_WORDS).list.unique(),
        )
    ]
    run_together = texts.filter(pl.col("language").is_in(_SPACELESS))
    if run_together.height:
        cut = [
            "\n".join(_cut(text[:WORD_TEXT_CUT].lower(), language))
            for language, text in run_together.select("language", "body").rows()
        ]
        parts.append(
            run_together.select(
                "language", "weight", text=pl.Series(cut, dtype=pl.String).str.split("\n")
            )
        )
    each = (
        pl.concat(parts)
        .explode("text")
        .drop_nulls("text")
        .filter(pl.col("text").str.len_chars().is_between(2, MAX_WORD))
    )
    return each.group_by("language", "text").agg(pages=pl.col("weight").sum())


def _together_words(parts: list[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(parts).group_by("language", "text").agg(pl.col("pages").sum())


def _cut(text: str, language: str) -> list[str]:
    """The words of a text without spaces between them, each once, by ICU's dictionary of its
    language; in Chinese and Japanese also two together, for the dictionary parts what people take
    for one (安装程序).
    """
    words = list(WordBreaker(text, language))
    found = {word for word in set(words) if word[:1].isalpha()}
    if language in _PAIRED:
        paired = {word for word in found if len(word) < MAX_PAIR and not word.isascii()}
        pairs = {
            pair for pair in itertools.pairwise(words) if pair[0] in paired and pair[1] in paired
        }
        found.update([one + other for one, other in pairs if len(one) + len(other) <= MAX_PAIR])
    return list(found)


def _with_folded(rows: pl.DataFrame) -> pl.DataFrame:
    """With the form of `text` by which it is compared, `folded`; without rows that have none, or a
    very long one.
    """
    is_plain = _is_ascii("text") & ~pl.col("text").str.contains(_UNEVEN)
    ascii, other = rows.filter(is_plain), rows.filter(~is_plain)
    plain = pl.col("text").str.to_lowercase().str.strip_chars_start(_NO_WORD).str.strip_chars(" ")
    made = pl.concat([
        ascii.with_columns(folded=plain),
        other.with_columns(folded=pl.Series(folded_all(other["text"].to_list()), dtype=pl.String)),
    ])  # fmt: skip
    return made.filter(pl.col("folded").str.len_bytes().is_between(1, MAX_PHRASE_BYTES))


def _is_ascii(name: str) -> pl.Expr:
    return pl.col(name).str.len_bytes() == pl.col(name).str.len_chars()


def _shared_out(pages: pl.DataFrame, share: int) -> pl.DataFrame:
    return pages.filter(pl.col("url_key") % share == 0) if share > 1 else pages


def _fewer(
    parts: list[pl.DataFrame], most: int, together: object, by: str, kept: int
) -> list[pl.DataFrame]:
    """The same in one frame, without the rarest, if there are too many rows."""
    if sum(part.height for part in parts) <= most:
        return parts
    assert callable(together)
    rows: pl.DataFrame = together(parts)
    return [_most(rows, kept, by)]


def _most(rows: pl.DataFrame, count: int, by: str) -> pl.DataFrame:
    return rows.top_k(count, by=by) if rows.height > count else rows
