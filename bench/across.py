"""Quality of cross-language search: SIB-200, dictionaries, and tables learned from a crawl.

    python -m bench.across sib [--dev K] [--plain] [--languages ne,kk]
    python -m bench.across both [--dev K]
    python -m bench.across crawl|written [--root DIR]

sib      Tables learned from SIB-200, English to and from each language. A sentence is a query for
         its translation among the test part (index_id mod 5 = 0), MRR@10; tables are learned from
         the rest. `--dev K` holds out index_id mod 5 = K instead, for calibration. `--plain`: IBM
         model 1.
both     English sentences with dictionaries only, learned tables only, and both.
crawl    Headings of three sites as queries for their translations; makes the workspace.
written  Mixed and Chinese queries written by hand, on the same workspace.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.corpora import SITES as SITES_FOLDER
from bench.corpora import fill
from bench.harness import arguments, report, table
from lycosa.config.settings import IndexSettings
from lycosa.graph.builder import make_generation
from lycosa.index import generation as generations
from lycosa.index.builder import IndexBuilder
from lycosa.index.generation import GenerationInfo
from lycosa.index.indexer import Indexer
from lycosa.index.schema import IndexedPage, analysis_versions
from lycosa.search.crosslingual.across import LanguageSearch
from lycosa.search.crosslingual.translated import Across, Translator
from lycosa.search.engine.open_index import OpenIndex
from lycosa.search.engine.searcher import Searcher, SearchRequest
from lycosa.search.query.filters import Filters
from lycosa.search.query.query import Clause, ParsedQuery
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from lycosa.text.analyze import analyzer_for
from lycosa.translation.dictionaries import DictionaryEntry, as_table, dictd, wiktionary
from lycosa.translation.parallel_pages import find_parallel
from lycosa.translation.source import Sources, Translation, TranslationSource
from lycosa.translation.table import TableInfo, TranslationTable, analyzers, write_table
from lycosa.translation.terms import Vocabulary
from lycosa.translation.word_alignment import learn

DATA = Path(
    os.environ.get("LYCOSA_TEST_DATA", Path(__file__).resolve().parents[2] / "shared" / "data")
)
# fmt: off
LANGUAGES = ("zh", "ja", "ko", "de", "ur", "fr", "ru", "es", "pt", "ar", "hi", "it", "id", "ms", "my", "fa", "vi", "mn", "kk", "ky", "ne",
             "tl", "ps", "lo", "tg", "bo")
# The larger of the bars and of what a plain IBM-1 reaches on this split (`--plain`),
# English to the language.
BARS = {"ne": .871, "kk": .80, "mn": .901, "ky": .822, "lo": .893, "ms": .964, "ar": .937, "fa": .977, "tg": .807, "bo": .875, "my": .730,
        "hi": .976, "ur": .922, "ps": .833, "zh": .921}  # fmt: skip
# fmt: on
PLAIN_ROUNDS = 10
PLAIN_TRANSLATIONS = 10
CUT = 10


def sentences(language: str) -> dict[int, str]:
    """SIB-200's sentences by their index_id."""
    rows = (
        line.split("\t", 2)
        for line in (DATA / "sib200" / f"{language}.tsv")
        .read_text(encoding="utf-8")
        .rstrip("\n")
        .split("\n")[1:]
    )
    return {int(number): text.strip() for number, _, text in rows}


def parts(held_out: int) -> tuple[list[int], list[int]]:
    """What is learned from, and what is asked: mod 5 = 0 is never learned from."""
    numbers = sorted(sentences("en"))
    return [number for number in numbers if number % 5 not in (0, held_out)], [
        number for number in numbers if number % 5 == held_out
    ]


@contextmanager
def indexed(texts: Iterable[tuple[str, str, str]]) -> Iterator[OpenIndex]:
    """An index of (URL, language, text): one document each, title and headings empty."""
    folder = Path(tempfile.mkdtemp(prefix="lycosa-across-"))
    try:
        builder = IndexBuilder(generations.workshop(folder), None, heap_bytes=50_000_000, threads=1)
        for number, (url, language, text) in enumerate(texts):
            builder.put(
                IndexedPage(
                    url, "sib.test", number, ["sib"], "", "", [], text, "", language, number
                )
            )
        builder.commit()
        documents, languages, collections = builder.counts()
        info = GenerationInfo(1, 0, "", documents, analysis_versions(), languages, collections, "")
        built = builder.link()
        builder.close()
        yield OpenIndex([generations.publish(folder, built, info)])
    finally:
        shutil.rmtree(folder)


def learned_table(
    folder: Path, source: str, target: str, numbers: Sequence[int]
) -> TranslationTable:
    one, other = Vocabulary(analyzer_for(source)), Vocabulary(analyzer_for(target))
    ours, theirs = sentences(source), sentences(target)
    result = learn([(ours[number], theirs[number]) for number in numbers], one, other)
    path = folder / f"{source}-{target}-{len(numbers)}.sqlite"
    path.unlink(missing_ok=True)
    info = TableInfo("sib", "learned", source, target, 0, analyzers(source, target))
    write_table(path, info, result.pairs, result.source_surfaces, result.target_surfaces)
    return TranslationTable(path)


class PlainTable:
    """Brown et al.'s model 1 in one direction, as it stands: the yardstick. Terms are those of the
    index.
    """

    def __init__(self, source: str, target: str, numbers: Sequence[int]) -> None:
        self._pair = source, target
        one, other = analyzer_for(source), analyzer_for(target)
        ours, theirs = sentences(source), sentences(target)
        vocabulary: dict[str, int] = {"": 0}
        words: dict[str, int] = {}
        first, second, token, count = [], [], [], 0
        for number in numbers:
            mine = [
                0,
                *(vocabulary.setdefault(term, len(vocabulary)) for term in one.terms(ours[number])),
            ]
            for term in other.terms(theirs[number]):
                word = words.setdefault(term, len(words))
                first += mine
                second += [word] * len(mine)
                token += [count] * len(mine)
                count += 1
        keys, pair = np.unique(np.array(first) * len(words) + np.array(second), return_inverse=True)
        of, tokens = keys // len(words), np.array(token)
        probability = np.full(len(keys), 1 / len(words))
        for _ in range(PLAIN_ROUNDS):
            each = probability[pair]
            share = each / np.bincount(tokens, weights=each)[tokens]
            expected = np.bincount(pair, weights=share, minlength=len(keys))
            probability = expected / np.bincount(of, weights=expected)[of]
        names, targets = list(vocabulary), list(words)
        self._found: dict[str, list[Translation]] = {}
        for key, weight in sorted(
            zip(keys.tolist(), probability.tolist(), strict=True), key=lambda item: -item[1]
        ):
            translations = self._found.setdefault(names[key // len(words)], [])
            if len(translations) < PLAIN_TRANSLATIONS:
                translations.append(
                    Translation(
                        targets[key % len(words)], weight, targets[key % len(words)], "plain"
                    )
                )

    def covers(self, source: str, target: str) -> bool:
        return (source, target) == self._pair

    def lookup(self, term: str, source: str, target: str) -> list[Translation]:
        return self._found.get(term, [])

    def resembling(self, term: str, source: str, target: str) -> list[Translation]:
        return []


def reciprocal_rank(
    index: OpenIndex, sources: Sources, source: str, target: str, test_part: Sequence[int]
) -> float:
    """MRR@10 of the sentences of one language asked in another."""
    ours = sentences(source)
    total = 0.0
    for number in test_part:
        query = Translator(sources, ParsedQuery((Clause(ours[number]),)), source).into(target)
        search = LanguageSearch(index, query, Filters())
        hits = index.hits_of(search.find(CUT, folded=False).best, [])
        total += next(
            (1 / rank for rank, hit in enumerate(hits, 1) if hit.url.endswith(f"/{number}")), 0.0
        )
    return total / len(test_part)


def texts_of(languages: Iterable[str], numbers: Sequence[int]) -> list[tuple[str, str, str]]:
    return [
        (f"http://sib.test/{language}/{number}", language, sentences(language)[number])
        for language in languages
        for number in numbers
    ]


def sib(
    languages: Sequence[str], held_out: int, *, plain: bool = False, together: bool = False
) -> list[tuple[str, float, float]]:
    """(language, MRR@10 from English, MRR@10 to English); each language in an index of its own, or
    all together in one.
    """
    numbers, test_part = parts(held_out)
    rows = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        english = stack.enter_context(
            indexed(texts_of(("en", *LANGUAGES) if together else ("en",), test_part))
        )
        for language in languages:
            there: TranslationSource
            back: TranslationSource
            if plain:
                there, back = (
                    PlainTable("en", language, numbers),
                    PlainTable(language, "en", numbers),
                )
            else:
                there = back = learned_table(folder, "en", language, numbers)
            index = (
                english
                if together
                else stack.enter_context(indexed(texts_of((language,), test_part)))
            )
            forth = reciprocal_rank(index, Sources([there]), "en", language, test_part)
            rows.append(
                (
                    language,
                    forth,
                    reciprocal_rank(english, Sources([back]), language, "en", test_part),
                )
            )
            print(f"{language} {forth:.3f} {rows[-1][2]:.3f}", flush=True)
    return rows


SITES = ("apache-manual", "debian-reference", "installation-guide")
MOST_HEADINGS = 60  # of a site and a language
TOP = 5
_NUMBER = re.compile(
    r"^\s*(?:(?:Chapter|Appendix)\s+)?(?:[A-Z]|\d+)(?:\.\d+)*\.\s+|\s+[-–]\s+Apache.*$"
)


@dataclass(slots=True)
class Heading:
    """A page's heading, and the page in another language that it is to find."""

    site: str
    language: str
    text: str
    url: str


def crawled(root: str) -> tuple[str, float]:
    """A workspace with the three sites, indexed and ranked; made if it is not there. Returns its
    root and the seconds that ranking took.
    """
    if (Path(root) / "graph").is_dir():
        return root, 0.0
    with tempfile.TemporaryDirectory() as folder:
        for name in SITES:
            (Path(folder) / name).symlink_to(SITES_FOLDER / name)
        fill(root, Path(folder), 1_000_000, [])
    with Indexer(root, IndexSettings()) as indexer:
        indexer.update()
    started = time.process_time()
    make_generation(Workspace.open(root))
    return root, time.process_time() - started


def headings(root: str, *, back: bool = False) -> list[Heading]:
    """English headings and the translated pages that they are to find; `back`: headings of other
    languages and English pages.

    Headings that several pages of a language have are left out, and pages whose heading was not
    translated.
    """
    tables = LiveTables(Workspace.open(root))
    pairs = find_parallel(tables).pairs
    frames = tables.batches("pages", ("host_key", "url_key", "url", "title", "headings"))
    pages = {
        (host, url): (address, _NUMBER.sub("", listed[0] if listed else title).strip())
        for frame in frames
        for host, url, address, title, listed in frame.iter_rows()
    }
    result: dict[tuple[str, str], list[Heading]] = {}
    for host, url, language, hub_host, hub_url in pairs.iter_rows():
        theirs, ours = pages[host, url], pages[hub_host, hub_url]
        source, expected = (theirs, ours) if back else (ours, theirs)
        if source[1] and source[1].lower() != expected[1].lower():
            site = expected[0].partition("://")[2].partition(".")[0]
            result.setdefault((site, language), []).append(
                Heading(site, language, source[1], expected[0])
            )
    chosen = []
    for listed in result.values():
        often = Counter(heading.text.lower() for heading in listed)
        unique = [heading for heading in listed if often[heading.text.lower()] == 1]
        random.Random(3).shuffle(unique)
        chosen += unique[:MOST_HEADINGS]
    return chosen


def crawl(root: str) -> None:
    """What the three sites teach: English headings find their own page in each other language."""
    root, seconds = crawled(root)
    searcher = Searcher(root)
    if seconds:
        print(f"ranked and learned in {seconds:.0f} s of CPU")
    for back in (False, True):
        ranks: dict[tuple[str, str], list[int]] = {}
        for heading in headings(root, back=back):
            source, target = (heading.language, "en") if back else ("en", heading.language)
            request = SearchRequest(
                heading.text,
                count=CUT,
                language=target,
                per_host=0,
                folded=False,
                across=Across((target,), source),
            )
            hits = [hit.url for hit in searcher.search(request).hits]
            ranks.setdefault((heading.site, heading.language), []).append(
                hits.index(heading.url) + 1 if heading.url in hits else 0
            )
        print(
            "to English" if back else "from English",
            "(site, language, headings, success@1, success@5, MRR@10)",
        )
        for (site, language), each in sorted(ranks.items()):
            first = sum(rank == 1 for rank in each) / len(each)
            top = sum(1 <= rank <= TOP for rank in each) / len(each)
            print(
                f"{site:20s} {language} {len(each):3d} {first:.3f} {top:.3f} "
                f"{sum(1 / rank for rank in each if rank) / len(each):.3f}",
                flush=True,
            )


# Written by hand before the first run: mixed queries, and characters in the other script than the
# page's. The page (without `.html`) is to be among the first five of its language.
WRITTEN = (
    ("Debian PPPoE 安装", "zh_CN/apds05"),
    ("USB 引导", "zh_CN/ch04s03"),
    ("64-bit PC 引导", "zh_CN/ch05s01"),
    ("E-Mail 系统", "zh_CN/ch08s04"),
    ("bookworm 预置文件", "zh_CN/apbs04"),
    ("預置文件", "zh_CN/apbs04"),
    ("推薦的分區方案", "zh_CN/apcs03"),
    ("加載缺失的固件", "zh_CN/ch06s04"),
    ("修復損壞的系統", "zh_CN/ch08s06"),
    ("目錄樹", "zh_CN/apcs02"),
    ("硬盤引導 Debian", "zh_CN/ch04s04"),
    ("多重啟動系統 分區", "zh_CN/ch03s05"),
    ("關於本文檔", "zh_CN/apes01"),
    ("Debian 软件包管理", "debian-reference.test/ch02.zh-tw"),
    ("系统初始化", "debian-reference.test/ch03.zh-tw"),
    ("认证和访问控制", "debian-reference.test/ch04.zh-tw"),
    ("網絡設置", "debian-reference.test/ch05.zh-cn"),
    ("數據轉換", "debian-reference.test/ch11.zh-cn"),
    ("Debian 编程", "debian-reference.test/ch12.zh-tw"),
    ("Debian 編程", "debian-reference.test/ch12.zh-cn"),
    ("Debian 目录树", "en/apcs02"),
    ("修复损坏的系统", "en/ch08s06"),
    ("加载缺失的固件 firmware", "en/ch06s04"),
    ("推荐的分区方案", "en/apcs03"),
)


def written(root: str) -> None:
    """The written list: how many queries find their page."""
    searcher = Searcher(root)
    missed = []
    for query, expected in WRITTEN:
        hits = searcher.search(
            SearchRequest(query, per_host=0, folded=False, across=Across(("zh", "en")))
        ).hits
        ours = [
            hit.url.removesuffix(".html")
            for hit in hits
            if hit.language == ("en" if expected.startswith("en/") else "zh")
        ]
        if not any(url.endswith(expected) for url in ours[:TOP]):
            missed.append(query)
    print(
        f"written list: {len(WRITTEN) - len(missed)} of {len(WRITTEN)} queries find their page",
        *missed,
        sep="\n    ",
    )


DICTIONARIES = ("de", "es", "ru", "zh", "fr", "it", "pt", "ja")
_WIKTIONARY = {"zh": "cmn"}
_FREEDICT = {
    "de": "deu",
    "es": "spa",
    "ru": "rus",
    "fr": "fra",
    "it": "ita",
    "pt": "por",
    "ja": "jpn",
}


def dictionary_table(folder: Path, target: str) -> TranslationTable:
    """Wiktionary's list and FreeDict's dictionary of English and a language, as far as they are
    there, in one table.
    """
    entries: list[DictionaryEntry] = []
    path = DATA / "wiktionary" / f"en-{_WIKTIONARY.get(target, target)}.txt"
    if path.exists():
        entries += wiktionary(path.read_text(encoding="utf-8").splitlines())
    index = Path(f"/usr/share/dictd/freedict-eng-{_FREEDICT.get(target, '')}.index")
    if index.exists():
        entries += dictd(index)
    made = as_table(entries, "en", target)
    path = folder / f"dictionary-{target}.sqlite"
    info = TableInfo("dictionary", "dictionary", "en", target, 0, analyzers("en", target))
    write_table(path, info, made.pairs, made.source_surfaces, made.target_surfaces)
    return TranslationTable(path)


def both(languages: Sequence[str], held_out: int) -> None:
    """English sentences asked by dictionary only, by what was learned only, by both."""
    numbers, test_part = parts(held_out)
    with tempfile.TemporaryDirectory() as folder:
        for language in languages:
            dictionary, learned = (
                dictionary_table(Path(folder), language),
                learned_table(Path(folder), "en", language, numbers),
            )
            with indexed(texts_of((language,), test_part)) as index:
                choices = ([dictionary], [learned], [dictionary, learned])
                result = [
                    reciprocal_rank(index, Sources(chosen), "en", language, test_part)
                    for chosen in choices
                ]
            print(
                language,
                f"{dictionary.info.pairs:,}",
                *(f"{each:.3f}" for each in result),
                flush=True,
            )


def main() -> None:
    parser = arguments(__doc__, runs=1, dev=0, plain=False, together=False, root="")
    parser.add_argument("what", choices=["sib", "both", "crawl", "written"])
    parser.add_argument("--languages", default=",".join(LANGUAGES))
    options = parser.parse_args()
    if options.what == "both":
        both(DICTIONARIES, options.dev)
        return
    if options.what == "written":
        written(options.root)
        return
    if options.what == "crawl":
        crawl(options.root or tempfile.mkdtemp(prefix="lycosa-across-"))
        return
    rows = sib(
        options.languages.split(","), options.dev, plain=options.plain, together=options.together
    )
    means = ("mean", *(float(np.mean([row[place] for row in rows])) for place in (1, 2)))
    cells = [(name, f"{forth:.3f}", f"{back:.3f}") for name, forth, back in (*rows, means)]
    body = table(("SIB-200, MRR", "from English", "to English"), cells)
    report(options, "Cross-language search", body, rows)


if __name__ == "__main__":
    main()
