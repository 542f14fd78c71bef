"""From the tables to what the file of suggestions holds: phrases of titles, headings and links with their weight, and words of the texts.

Memory is bounded whatever the number of pages: they are read in frames of some megabytes; of phrases and of words those that count most
are kept, with as many again while more come in (lossy counting, as in `search.terms`); and above `WORD_PAGES` pages words are counted in
a share of them, by the pages' keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import polars as pl
from icu4py.breakers import WordBreaker

from lycosa.index.suggest_file import ANCHOR, HEADING, TITLE, WORD, KnownWord, Phrase
from lycosa.index.suggest_fold import folded
from lycosa.index.suggest_write import LONGEST_PHRASE_BYTES

MOST_PHRASES = 300_000
MOST_WORDS = 300_000
WORD_PAGES = 50_000
"""Pages in which words are counted; of more, a share that comes to as many."""
WORD_TEXT, WORD_TEXT_CUT = 10_000, 3_000  # characters of a page whose words are counted; where ICU has to part them
LONGEST_PHRASE, LONGEST_WORD = 80, 40  # characters
MOST_HEADINGS, MOST_ANCHORS = 30, 5  # of a page
WEIGHTS = {TITLE: 3.0, ANCHOR: 2.0, HEADING: 1.0, WORD: 0.5}
USUAL_PAGES = 3  # of a host that hold a phrase; what is on more of them says little of each
COMMON = 0.25  # of the pages of a language: words on more of them are no suggestions
FEW_PAGES = 500  # above which a word on one page is not kept: most are misspelled, or nobody's
FOLDED_ROWS = 100_000  # of words, at least, that wait to be put together
LEAST_PAGES = 3  # that hold a word which is suggested

COLUMNS = ("partition", "url_key", "host_key", "language", "title", "headline", "headings", "main_text", "text", "may_index")
LONGEST_PAIR = 6  # characters of two Chinese or Japanese words that are looked at as one
_PAIRED = ("zh", "ja")
_PARTS_OF_TITLE = r"\s+[|–—·•»:-]+\s+|\s*[|·•»]\s*"
_NUMBERING = r"^\s*(?:\d+(?:\.\d+)*\.?|\p{Lu}(?:\.\d+)+\.?)\s+"
_SPACELESS = ("zh", "ja", "th", "lo", "my", "km")
_WORDS = r"\p{L}[\p{L}\p{M}\p{N}]*"
_PHRASE_KEY = ("language", "text", "kind")
_ROWS = 500


@dataclass(slots=True)
class Collector:
    """Takes pages in, frame by frame, sorted by host; `share`: one of so many is looked at for its words."""

    share: int = 1
    most_phrases: int = MOST_PHRASES
    most_words: int = MOST_WORDS
    pages: int = 0
    _by_language: dict[str, int] = field(default_factory=dict)
    _phrases: list[pl.DataFrame] = field(default_factory=list)
    _words: list[pl.DataFrame] = field(default_factory=list)

    def add(self, frame: pl.DataFrame, said: pl.DataFrame | None) -> None:
        """Pages with the columns of `COLUMNS`, each once; `said` is what links say of pages: url_key, prior, anchors."""
        for part in frame.iter_slices(_ROWS):
            self.pages += part.height
            for language, count in part.group_by("language").len().iter_rows():
                self._by_language[language] = self._by_language.get(language, 0) + count
            self._phrases.append(_phrases(part, said))
            looked_at = part.filter(pl.col("url_key") % self.share == 0) if self.share > 1 else part
            if looked_at.height:
                self._words.append(_words(looked_at))
        self._phrases = _fewer(self._phrases, 2 * self.most_phrases, _together_phrases, "weight", self.most_phrases)
        if sum(part.height for part in self._words[1:]) > max(FOLDED_ROWS, self._words[0].height):
            self._words = [_together_words(self._words)]  # most are words that other pages have, too
        self._words = _fewer(self._words, 2 * self.most_words, _together_words, "pages", self.most_words)

    def words(self) -> list[KnownWord]:
        """The words that were found, each by its commonest spelling."""
        if not self._words:
            return []
        rows = _together_words(self._words)
        if self.pages > FEW_PAGES:
            rows = rows.filter(pl.col("pages") > 1)
        rows = rows.top_k(min(self.most_words, rows.height), by="pages")
        best: dict[tuple[str, str], KnownWord] = {}
        languages: dict[str, str] = {}  # each once in memory
        for language, text, pages in rows.sort("pages", "text", descending=[True, False]).iter_rows():
            form = folded(text)
            if not form:
                continue
            before = best.get((language, form))
            if before is not None:
                best[language, form] = KnownWord(before.text, form, before.language, before.pages + pages * self.share)
            else:
                best[language, form] = KnownWord(
                    text, text if form == text else form, languages.setdefault(language, language), pages * self.share
                )
        return list(best.values())

    def phrases(self, words: list[KnownWord]) -> list[Phrase]:
        """The phrases that were found, and those of the words that are worth suggesting."""
        found: dict[tuple[str, str], Phrase] = {}
        for phrase in (*self._from_pages(), *self._from_words(words)):
            key = phrase.language, phrase.folded
            before = found.get(key)
            if before is None:
                found[key] = phrase
                continue
            first = max(before, phrase, key=lambda each: each.weight)
            weight, pages = before.weight + phrase.weight, max(before.pages, phrase.pages)
            found[key] = Phrase(first.text, first.folded, first.language, weight, first.kind, pages)
        return list(found.values())

    def _from_pages(self) -> Iterator[Phrase]:
        if not self._phrases:
            return
        rows = _together_phrases(self._phrases).with_columns(weight=_weight()).top_k(self.most_phrases, by="weight")
        for language, text, kind, pages, weight in rows.select(*_PHRASE_KEY, "pages", "weight").sort("text").iter_rows():
            form = folded(text).strip()
            if form and len(form.encode("utf-8", "replace")) <= LONGEST_PHRASE_BYTES:
                yield Phrase(text, form, language, weight, kind, pages)

    def _from_words(self, words: list[KnownWord]) -> Iterator[Phrase]:
        frame = pl.DataFrame(
            {"place": range(len(words)), "language": [word.language for word in words], "pages": [word.pages for word in words]},
            schema={"place": pl.UInt32, "language": pl.String, "pages": pl.Int64},
        )
        of = pl.col("language").replace_strict(self._by_language, default=1, return_dtype=pl.Float64)
        rare = 1.0 - pl.col("pages") / (COMMON * of)
        wanted = frame.filter((pl.col("pages") >= LEAST_PAGES) & ((rare > 0) | (of < LEAST_PAGES / COMMON)))
        weighed = wanted.with_columns(weight=WEIGHTS[WORD] * (1.0 + pl.col("pages")).log(2.0) * rare.clip(0.1, 1.0))
        for place, weight in weighed.top_k(self.most_phrases // 4, by="weight").select("place", "weight").iter_rows():
            word = words[place]
            if len(word.folded) > 2 or not word.folded.isascii():
                yield Phrase(word.text, word.folded, word.language, weight, WORD, word.pages)


def _phrases(pages: pl.DataFrame, said: pl.DataFrame | None) -> pl.DataFrame:
    """language, text, kind; pages, hosts, prior: how many pages of how many hosts have it, and the highest prior of one of them."""
    if said is None:
        known = pages.with_columns(prior=pl.lit(1.0), anchors=pl.lit(""))
    else:
        known = pages.join(said, on="url_key", how="left").with_columns(pl.col("prior").fill_null(1.0), pl.col("anchors").fill_null(""))
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
        known.select("language", "host_key", "url_key", "prior", pl.col("headings").list.head(MOST_HEADINGS).alias("text"), kind=HEADING),
        known.select(
            "language",
            "host_key",
            "url_key",
            "prior",
            pl.col("anchors").str.split("\n").list.unique(maintain_order=True).list.head(MOST_ANCHORS).alias("text"),
            kind=ANCHOR,
        ),
    )
    text = pl.col("text").str.replace_all(r"\s+", " ").str.replace(_NUMBERING, "").str.strip_chars(" \t#¶§*:;,.|-–—·•»«\u200b")
    rows = pl.concat(parts).explode("text").drop_nulls("text").with_columns(text)
    rows = rows.filter(pl.col("text").str.len_chars().is_between(2, LONGEST_PHRASE) & pl.col("text").str.contains(r"\p{L}"))
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
    rows = pl.concat(parts).group_by(_PHRASE_KEY).agg(pl.col("pages").sum(), pl.col("hosts").sum(), pl.col("prior").max())
    return rows.with_columns(weight=_weight())


def _weight() -> pl.Expr:
    """What a phrase counts: its kind, the best of its pages, on how many pages and hosts it stands. What many pages of one host
    have is its name or a word of its navigation."""
    usual = USUAL_PAGES * pl.col("hosts")
    kind = pl.col("kind").replace_strict(WEIGHTS, return_dtype=pl.Float64)
    counted = (1.0 + pl.min_horizontal("pages", usual)).log(2.0)
    return kind * pl.col("prior") * counted * (usual / pl.col("pages")).clip(0.0, 1.0).sqrt()


def _words(pages: pl.DataFrame) -> pl.DataFrame:
    """language, text, pages: the words of the texts as they are written in lower case, and on how many pages."""
    body = pl.when(pl.col("main_text") != "").then("main_text").otherwise("text").str.head(WORD_TEXT)
    texts = pages.select("language", body=pl.concat_str([pl.col("title"), body], separator="\n")).with_row_index("page")
    spaced = texts.filter(~pl.col("language").is_in(_SPACELESS))
    parts = [spaced.select("page", "language", text=pl.col("body").str.to_lowercase().str.extract_all(_WORDS).list.unique())]
    run_together = texts.filter(pl.col("language").is_in(_SPACELESS))
    if run_together.height:
        cut = [sorted(set(_cut(text[:WORD_TEXT_CUT], language))) for language, text in run_together.select("language", "body").iter_rows()]
        parts.append(run_together.select("page", "language").with_columns(text=pl.Series(cut, dtype=pl.List(pl.String))))
    each = pl.concat(parts).explode("text").drop_nulls("text").filter(pl.col("text").str.len_chars().is_between(2, LONGEST_WORD))
    return each.group_by("language", "text").agg(pages=pl.len().cast(pl.Int64))


def _together_words(parts: list[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(parts).group_by("language", "text").agg(pl.col("pages").sum())


def _cut(text: str, language: str) -> Iterator[str]:
    """The words of a text without spaces between them, by ICU's dictionary of its language; in Chinese and Japanese also two
    together, for the dictionary parts what people take for one (安装程序)."""
    sound = text.encode("utf-8", "replace").decode().lower()  # ICU takes no lone surrogates
    before = ""
    for word in WordBreaker(sound, language):
        if not word[:1].isalpha():
            before = ""
            continue
        yield word
        if before and not (before.isascii() or word.isascii()) and language in _PAIRED and len(before) + len(word) <= LONGEST_PAIR:
            yield before + word
        before = word


def _fewer(parts: list[pl.DataFrame], most: int, together: object, by: str, kept: int) -> list[pl.DataFrame]:
    """The same in one frame, without the rarest, if there are too many rows."""
    if sum(part.height for part in parts) <= most:
        return parts
    assert callable(together)
    rows: pl.DataFrame = together(parts)
    return [rows.top_k(kept, by=by) if rows.height > kept else rows]
