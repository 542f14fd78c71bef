"""Count the words of the stored pages, and find rising ones. Memory is bounded.

A word begins with a letter; in scripts without spaces, ICU's dictionaries find the words. Single
characters and numbers are omitted. Cases are counted together and shown in the most frequent form.
The main text of a page counts, or else all of its text, once for all collections.

*Stop words* are those of `text.function_words`, and words without information about a page: on more
than `MAX_SHARE` of the pages of their language, or spread evenly and on more than `STOP_SHARE` of
them (`EVEN_SHARE` from `EVEN_PAGES` pages on). Evenness is the residual inverse document frequency
in bits (Church and Gale, "Poisson mixtures", Natural Language Engineering 1995); function words
have less than `EVEN_BITS`. Below `STOP_PAGES` pages, only listed stop words are omitted.

*Rising* words are on a larger share of the newest pages than of the earlier ones, by Dunning's
log-likelihood ratio over pages ("Accurate methods for the statistics of surprise and coincidence",
Computational Linguistics 1993).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

import polars as pl
from icu4py.breakers import WordBreaker

from lycosa.core.dataclass import doc
from lycosa.core.errors import WorkspaceError
from lycosa.core.parameters import check_period
from lycosa.core.units import format_time
from lycosa.store.tables.live import LiveTables, read_live
from lycosa.text.function_words import SPACELESS, function_words

STOP_SHARE, STOP_PAGES = 0.25, 20
EVEN_SHARE, EVEN_PAGES = 0.03, 200
MAX_SHARE = 0.5
EVEN_BITS = 1.0
# of a rising word: the 0.999 quantile of chi-squared with one degree of freedom
MIN_SURPRISE = 10.83
MIN_RISING = 3  # newest pages with a rising word
MAX_WORDS = 1_000_000
"""Words that are counted at once, about 80 MB. Of more, the rarest are dropped (lossy counting)."""
MAX_WORD = 64
WEEK_MS = 7 * 86_400_000
_SPACELESS = SPACELESS - {"bo"}  # Tibetan separates syllables

_READ = (
    "url_key",
    "url",
    "collection",
    "language",
    "fetched_at",
    "published_at",
    "may_index",
    "main_text",
    "text",
)
_WORD = r"[\p{L}\p{M}][\p{L}\p{M}\p{N}]*(?:['’‑-][\p{L}\p{M}\p{N}]+)*"
_IS_WORD = re.compile(r"[^\W\d_]")
_FRAME_BYTES = 48 * 2**20
_ROWS = 200  # pages whose words are in memory together
_KEY = ("language", "lower")
_COUNTS = ("documents", "total", "recent", "capital", "upper")

_BODY = pl.when(pl.col("main_text") != "").then(pl.col("main_text")).otherwise(pl.col("text"))


@dataclass(slots=True, frozen=True)
class TermsRequest:
    """The words to count. Times in ms since 1970 UTC, of publication or else of the fetch; `until`
    is exclusive. `host` includes its subdomains. `rising`: only rising words, strongest first;
    `period_ms`: age of the newest pages.

    Raises:
        UsageError: `since` is later than `until`.
    """

    count: int = 50
    language: str = ""
    host: str = ""
    collection: str = ""
    since: int | None = None
    until: int | None = None
    rising: bool = False
    period_ms: int = WEEK_MS
    stop_words: bool = False  # include them

    def __post_init__(self) -> None:
        check_period(self.since, self.until, format_time)


@dataclass(slots=True, frozen=True)
class Term:
    """A word: its pages, occurrences, and newest pages, and how surprising their number is."""

    text: str
    language: str
    documents: int
    total: int
    recent: int
    surprise: float


@dataclass(slots=True, frozen=True)
class TermsReport:
    """The most frequent words, or the words with the largest increase.

    If more than `MAX_WORDS` words were counted, the pages of each may be up to `missed` too few.
    """

    pages: int = field(metadata=doc("Number of pages counted."))
    recent_pages: int
    recent_since: str = field(metadata=doc("UTC, ISO 8601: start of the recent period."))
    terms: list[Term] = field(
        metadata=doc(
            "`documents`: number of pages that contain the word; `surprise`: log-likelihood ratio "
            "of its share in recent and earlier pages, negative: less frequent."
        )
    )
    languages: dict[str, int] = field(metadata=doc("Pages by language."), default_factory=dict)
    missed: int = field(
        metadata=doc("Words on at most this many pages may be missing; 0: the list is complete."),
        default=0,
    )


def count_terms(
    tables: LiveTables, request: TermsRequest, most_words: int = MAX_WORDS
) -> TermsReport:
    """Count the words of the pages.

    Raises:
        FileNotFoundError: a compaction removed a file: refresh the tables and try again.
        polars.exceptions.PolarsError: a file cannot be read.
    """
    filters = _filters(request)
    newest = _newest(tables, filters)
    recent_since = newest - request.period_ms
    counter = _Counter(most_words)
    pages = dict[tuple[str, bool], int]()
    for frame in tables.ordered("pages", _READ, memory_bytes=_FRAME_BYTES):
        used = frame.filter(filters).unique("url_key", keep="last", maintain_order=True)
        facts = used.select("language", recent=_at() > recent_since, body=_BODY)
        for (language, recent), part in facts.group_by("language", "recent"):
            pages[str(language), bool(recent)] = (
                pages.get((str(language), bool(recent)), 0) + part.height
            )
        for part in facts.iter_slices(_ROWS):
            counter.add(_counted(part))
    all_of, recent_of = dict[str, int](), dict[str, int]()
    for (language, recent), number in pages.items():
        all_of[language] = all_of.get(language, 0) + number
        recent_of[language] = recent_of.get(language, 0) + number * recent
    words = counter.words()
    terms = _chosen(words, request, all_of, recent_of)
    return TermsReport(
        sum(all_of.values()),
        sum(recent_of.values()),
        format_time(max(recent_since, 0)),
        terms,
        all_of,
        counter.missed,
    )


def surprise(recent: int, earlier: int, recent_pages: int, earlier_pages: int) -> float:
    """Return Dunning's -2 log λ of a word's newest and earlier pages, negative if they fell."""
    pages, documents = recent_pages + earlier_pages, recent + earlier
    if not recent_pages or not earlier_pages or not documents:
        return 0.0
    value = 0.0
    for seen, here in ((recent, recent_pages), (earlier, earlier_pages)):
        for number, expected in (
            (seen, here * documents / pages),
            (here - seen, here * (pages - documents) / pages),
        ):
            if number:
                value += 2 * number * math.log(number / expected)
    return value if recent * earlier_pages >= earlier * recent_pages else -value


class _Counter:
    """Adds up counts of words, and drops the rarest of too many."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._parts: list[pl.DataFrame] = []
        self._rows = 0
        self.missed = 0

    def add(self, counted: pl.DataFrame) -> None:
        self._parts.append(counted)
        self._rows += counted.height
        if self._rows > 2 * self._most:
            rows = self.words()
            if rows.height > self._most:
                floor = int(rows["documents"].sort(descending=True)[self._most // 2])
                self.missed += floor
                rows = rows.filter(pl.col("documents") > floor)
            self._parts, self._rows = [rows], rows.height

    def words(self) -> pl.DataFrame:
        """Return a row for each word, with the columns of `_KEY` and `_COUNTS`."""
        if not self._parts:
            return pl.DataFrame(
                schema=dict.fromkeys(_KEY, pl.String) | dict.fromkeys(_COUNTS, pl.Int64)
            )
        return pl.concat(self._parts).group_by(_KEY).agg(pl.col(_COUNTS).sum())


def _at() -> pl.Expr:
    """Return the publication date of a page in ms, or the fetch if there is none or it is later."""
    is_trusted = pl.col("published_at").is_not_null() & (
        pl.col("published_at") <= pl.col("fetched_at")
    )
    return pl.when(is_trusted).then("published_at").otherwise("fetched_at").dt.epoch("ms")


def _filters(request: TermsRequest) -> pl.Expr:
    """Return which pages to count."""
    filters = pl.col("may_index")
    if request.language:
        filters &= pl.col("language") == request.language
    if request.collection:
        filters &= pl.col("collection") == request.collection
    if request.host:
        host, slash, path = request.host.partition("/")
        filters &= pl.col("url").str.contains(
            rf"^[a-z]+://(?:[^/?]*[.@])?{re.escape(host.lower())}(?::\d+)?"
            rf"{slash}{re.escape(path)}(?:[/?]|$)"
        )
    if request.since is not None:
        filters &= _at() >= request.since
    if request.until is not None:
        filters &= _at() < request.until
    return filters


def _newest(tables: LiveTables, filters: pl.Expr) -> int:
    """Return the date of the newest page in ms; 0 without pages."""
    columns = ("url", "collection", "language", "fetched_at", "published_at", "may_index")
    newest = 0
    for frame in tables.ordered("pages", columns, memory_bytes=_FRAME_BYTES):
        newest = max(newest, frame.filter(filters).select(_at().max()).item() or 0)
    return newest


def _counted(pages: pl.DataFrame) -> pl.DataFrame:
    """Return the words of these pages: the columns of `_KEY` and `_COUNTS`."""
    spaced = pages.filter(~pl.col("language").is_in(list(_SPACELESS)))
    words = [
        spaced.with_row_index("page").select(
            "page", "language", "recent", word=pl.col("body").str.extract_all(_WORD)
        )
    ]
    run_together = pages.filter(pl.col("language").is_in(list(_SPACELESS))).with_row_index(
        "page", offset=spaced.height
    )
    cut = [
        _cut(text, language)
        for language, text in run_together.select("language", "body").iter_rows()
    ]
    words.append(
        run_together.select("page", "language", "recent").with_columns(
            word=pl.Series(cut, dtype=pl.List(pl.String))
        )
    )
    each = (
        pl.concat(words)
        .explode("word")
        .drop_nulls("word")
        .filter(pl.col("word").str.len_chars().is_between(2, MAX_WORD))
    )
    lower = pl.col("word").str.to_lowercase()
    first_differs = pl.col("word").str.head(1) != pl.col("lower").str.head(1)
    upper = pl.col("word") == pl.col("word").str.to_uppercase()
    by_page = (
        each.with_columns(lower=lower)
        .with_columns(upper=upper & (pl.col("word") != pl.col("lower")), capital=first_differs)
        .group_by("page", "language", "recent", "lower")
        .agg(
            total=pl.len().cast(pl.Int64),
            capital=pl.col("capital").sum().cast(pl.Int64),
            upper=pl.col("upper").sum().cast(pl.Int64),
        )
    )
    return by_page.group_by(_KEY).agg(
        documents=pl.len().cast(pl.Int64),
        total=pl.col("total").sum(),
        recent=pl.col("recent").sum().cast(pl.Int64),
        capital=pl.col("capital").sum(),
        upper=pl.col("upper").sum(),
    )


def _cut(text: str, language: str) -> list[str]:
    """Return the words of a text without spaces, by ICU's dictionaries."""
    sound = text.encode("utf-8", "replace").decode()  # ICU takes no lone surrogates
    return [word for word in WordBreaker(sound, language) if _IS_WORD.match(word)]


def _chosen(
    words: pl.DataFrame, request: TermsRequest, all_of: dict[str, int], recent_of: dict[str, int]
) -> list[Term]:
    """Return the words to show, in order."""
    if not request.stop_words:
        numbers = pl.col("language").replace_strict(all_of, default=0, return_dtype=pl.Int64)
        words = words.filter(~_stop_words(words["language"].unique().to_list()))
        if request.rising:  # a word on few earlier pages is no stop word
            of = numbers - pl.col("language").replace_strict(
                recent_of, default=0, return_dtype=pl.Int64
            )
            words = words.filter(
                ~((of >= STOP_PAGES) & (pl.col("documents") - pl.col("recent") > STOP_SHARE * of))
            )
        else:
            words = words.filter(~_is_uninformative(numbers))
    if request.rising:
        words = words.filter(pl.col("recent") >= MIN_RISING)
    else:
        words = words.sort(["documents", "total", "lower"], descending=[True, True, False]).head(
            request.count
        )
    terms = []
    for language, lower, documents, total, recent, capital, upper in words.select(
        *_KEY, *_COUNTS
    ).iter_rows():
        earlier_pages = all_of[language] - recent_of[language]
        value = surprise(recent, documents - recent, recent_of[language], earlier_pages)
        written = (
            lower.upper()
            if 2 * upper > total
            else lower[:1].upper() + lower[1:]
            if 2 * capital > total
            else lower
        )
        terms.append(Term(written, language, documents, total, recent, round(value, 2)))
    if request.rising:
        terms = sorted(
            (term for term in terms if term.surprise >= MIN_SURPRISE),
            key=lambda term: (-term.surprise, term.text),
        )
    return terms[: request.count]


def _stop_words(languages: list[str]) -> pl.Expr:
    """Return whether a word is a stop word of its language."""
    listed = (
        (pl.col("language") == language) & pl.col("lower").is_in(sorted(function_words(language)))
        for language in languages
    )
    return pl.any_horizontal(pl.lit(False), *listed)


def _is_uninformative(pages: pl.Expr) -> pl.Expr:
    """Return whether a word is on too many of the `pages`, or on many and evenly spread."""
    share = pl.col("documents") / pages
    by_chance = pages * (1.0 - (-pl.col("total") / pages).exp())
    even = (by_chance / pl.col("documents")).log(2.0) < EVEN_BITS
    common = (share > STOP_SHARE) | ((pages >= EVEN_PAGES) & (share > EVEN_SHARE))
    return (pages >= STOP_PAGES) & ((share > MAX_SHARE) | (common & even))


def workspace_terms(root: str, request: TermsRequest) -> TermsReport:
    """Count the words of a workspace as it is now.

    Raises:
        WorkspaceError: there is no workspace, or it cannot be read.
    """
    try:
        return read_live(root, lambda tables: count_terms(tables, request))
    except pl.exceptions.PolarsError as error:
        raise WorkspaceError(f"the tables cannot be read: {error}; run `lycosa check`") from None
