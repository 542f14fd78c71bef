"""Quality of the first results on collections with relevance judgements, compared with plain BM25.

    python -m bench.relevance [--data DIR] [--only NAME]... [--results FILE]     NAME: a collection,
    mixed, or languages

Judged collections: Cranfield, CISI and Medline (mean average precision of the first 1,000 results)
and XQuAD (mean reciprocal rank of the first ten: the paragraph that answers a question).
Odd-numbered questions were used for tuning, even-numbered ones are held out. Two baselines rank the
same texts with BM25 (k1 1.2, b 0.75) over one field of title and text, any of the words: `BM25`
with our analysis, `tantivy` with its own stemmer where it has one. Lycosa is measured without
feedback (the figures to compare with BM25) and with `feedback=auto`, the default.

`mixed`: XQuAD and the sentences of SIB-200 in all languages in one index, with and without the
language of the query (mean reciprocal rank of the first ten). A SIB-200 query is every second word
of a sentence; in languages without spaces, the middle half of it.

`languages`: the same queries with one index per language, compared with tantivy and BM25; only on
request.

UDHR (`tests/search/test_relevance.py`): each article of the Universal Declaration is a page. The
query is the three rarest words of its first sentence.
"""

from __future__ import annotations

import itertools
import math
import re
import tempfile
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

import tantivy

from bench import corpora
from bench.corpora import commit_pages, index_workspace, tantivy_baseline
from bench.harness import DATA, arguments, reciprocal_rank, report, table
from lycosa.core.records import Page
from lycosa.search.engine.searcher import Searcher, SearchRequest
from lycosa.text.analyze import analyzer_for

DEPTH, MRR_DEPTH = 1_000, 10
K1, B = 1.2, 0.75
_NUMBER = re.compile(r"\d+")
# a Tibetan sentence ends with two shads
_SENTENCE_END = re.compile(r"(?<=[.!?。！？။۔։।॥])\s|(?<=།)\s*།|\n")
_WITHOUT_SPACES = frozenset({"bo", "ja", "ko", "lo", "my", "th", "zh"})
_TANTIVY_STEMMERS = {
    "ar": "arabic",
    "de": "german",
    "en": "english",
    "es": "spanish",
    "fr": "french",
    "it": "italian",
    "pt": "portuguese",
    "ru": "russian",
}


@dataclass(slots=True)
class Document:
    """One document of a collection."""

    number: str
    title: str
    text: str


@dataclass(slots=True)
class Collection:
    """Documents, queries by number, and the numbers of the documents relevant to each query."""

    name: str
    language: str
    documents: list[Document]
    questions: dict[str, str]
    relevant: Mapping[str, set[str]] = field(default_factory=dict)

    @property
    def measure(self) -> Callable[[Sequence[str], set[str]], float]:
        """Average precision; reciprocal rank where one document answers each question."""
        return average_precision if self.depth == DEPTH else first_ten

    @property
    def depth(self) -> int:
        """The number of results that the measure examines."""
        return MRR_DEPTH if self.name.startswith("xquad") else DEPTH


def cranfield(folder: Path) -> Collection:
    """Read Cranfield in TREC form. A text follows `.W` and repeats its title, which is removed."""
    documents = []
    for entry in (folder / "cran.all.1400.trec-format").read_text().split("</DOC>")[:-1]:
        number = re.search(r"<DOCNO>\s*(\d+)", entry)
        head, _, text = entry.partition("<TEXT>")[2].partition("</TEXT>")[0].partition("\n.W\n")
        title = " ".join(head.partition("\n.A\n")[0].split())
        plain = " ".join(text.split())
        assert number is not None
        documents.append(Document(number[1], title, plain.removeprefix(title).strip()))
    queries = (folder / "cran.qry.trec-format").read_text().split("</top>")[:-1]
    texts = (each.partition("Description:")[2].partition("<narr>")[0] for each in queries)
    questions = {str(number): " ".join(text.split()) for number, text in enumerate(texts, 1)}
    relevant: dict[str, set[str]] = defaultdict(set)
    for line in (folder / "cran.qrels.trec-format").read_text().splitlines():
        question, _, document, judgement = line.split()
        if 1 <= int(judgement) <= 4:
            relevant[question].add(document)
    return Collection("cranfield", "en", documents, questions, relevant)


def _rows(path: Path) -> list[list[str]]:
    return [line.split("\t") for line in path.read_text(encoding="utf-8-sig").split("\n") if line]


def abstracts(folder: Path) -> Collection:
    """Read CISI or Medline: `docs.tsv`, `queries.tsv`, `qrels.tsv`."""
    documents = [
        Document(row[0], row[1], row[2] if len(row) > 2 else "")
        for row in _rows(folder / "docs.tsv")
    ]
    relevant: dict[str, set[str]] = defaultdict(set)
    for question, document, *_ in _rows(folder / "qrels.tsv"):
        relevant[question].add(document)
    questions = {row[0]: row[1] for row in _rows(folder / "queries.tsv")}
    return Collection(folder.name, "en", documents, questions, relevant)


def xquad(folder: Path, language: str) -> Collection:
    """Read XQuAD: paragraphs without titles, and questions that one of them answers."""
    documents = [
        Document(number, "", text) for number, text in _rows(folder / f"{language}.paragraphs.tsv")
    ]
    rows = _rows(folder / f"{language}.questions.tsv")
    questions = {str(number): text for number, (_, text) in enumerate(rows, 1)}
    relevant = {str(number): {row[0]} for number, row in enumerate(rows, 1)}
    return Collection(f"xquad-{language}", language, documents, questions, relevant)


def judged(data: Path) -> list[Collection]:
    """Return the collections with judgements in a folder."""
    result = [cranfield(data / "cranfield")] if (data / "cranfield").is_dir() else []
    result += [abstracts(data / name) for name in ("cisi", "med") if (data / name).is_dir()]
    return result + [
        xquad(data / "xquad", path.name[:2])
        for path in sorted((data / "xquad").glob("*.paragraphs.tsv"))
    ]


def index_pages(root: str, pages: Iterable[tuple[str, Page]]) -> Searcher:
    """Commit pages at their URLs, and index them."""
    commit_pages(root, pages)
    index_workspace(root)
    return Searcher(root)


def pages_of(collection: Collection) -> Iterable[tuple[str, Page]]:
    """Yield the documents as pages of a host with the collection's name."""
    for each in collection.documents:
        headings = [each.title] if each.title else []
        page = Page(
            title=each.title,
            main_text=each.text,
            text=each.text,
            headings=headings,
            language=collection.language,
        )
        yield f"http://{collection.name}.test/{each.number}", page


def index_collection(root: str, collection: Collection) -> Searcher:
    return index_pages(root, pages_of(collection))


def rankings(
    searcher: Searcher,
    collection: Collection,
    numbers: Iterable[str] | None = None,
    depth: int | None = None,
    *,
    language: str = "",
    **request: object,
) -> dict[str, list[str]]:
    """Return for each question the numbers of documents, best first."""
    result = {}
    prefix = f"http://{collection.name}.test/"
    for number in collection.questions if numbers is None else numbers:
        search_request = SearchRequest(
            collection.questions[number],
            collection.depth if depth is None else depth,
            language=language or None,
            per_host=0,
            folded=False,
            snippets=False,
            **request,  # type: ignore[arg-type]
        )
        hits = searcher.search(search_request).hits
        result[number] = [hit.url.removeprefix(prefix) for hit in hits]
    return result


def tantivy_rankings(collection: Collection) -> dict[str, list[str]]:
    """Return rankings of tantivy alone: one field, its stemmer, any of the words.

    Words are cut at spaces and punctuation: its simple tokenizer cuts Hindi words at signs.
    """
    tokenizer = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).filter(
        tantivy.Filter.lowercase()
    )
    if collection.language in _TANTIVY_STEMMERS:
        tokenizer = tokenizer.filter(tantivy.Filter.stemmer(_TANTIVY_STEMMERS[collection.language]))
    documents = (
        (each.number, _spaced(f"{each.title} {each.text}")) for each in collection.documents
    )
    search = tantivy_baseline(tokenizer.build(), {"text": 1.0}, documents)
    return {number: search(_spaced(text), DEPTH) for number, text in collection.questions.items()}


def _spaced(text: str) -> str:
    """Return a text in lower case with spaces instead of punctuation and symbols.

    The query parser treats words in capitals as operators.
    """
    return "".join(
        each if each.isalnum() or unicodedata.category(each)[0] == "M" else " " for each in text
    ).lower()


def bm25_rankings(
    collection: Collection, numbers: Iterable[str] | None = None
) -> dict[str, list[str]]:
    """Return rankings by BM25 over title and text with our analyzer; repeated words count.

    Args:
        numbers: of the questions; None: all.
    """
    analyzer = analyzer_for(collection.language)
    postings: dict[str, dict[int, int]] = defaultdict(dict)
    lengths = []
    for place, each in enumerate(collection.documents):
        terms = analyzer.terms(f"{each.title} {each.text}")
        lengths.append(len(terms))
        for term, count in Counter(terms).items():
            postings[term][place] = count
    average, documents = sum(lengths) / len(lengths), len(lengths)
    result = {}
    for number in collection.questions if numbers is None else numbers:
        scores: dict[int, float] = defaultdict(float)
        units = analyzer.units(collection.questions[number])
        query_terms = (term for unit in units for term in unit.phrase)
        for term, times in Counter(query_terms).items():
            holding = postings.get(term, {})
            rarity = math.log(1 + (documents - len(holding) + 0.5) / (len(holding) + 0.5))
            for place, count in holding.items():
                saturation = count + K1 * (1 - B + B * lengths[place] / average)
                scores[place] += times * rarity * count * (K1 + 1) / saturation
        order = sorted(scores, key=lambda place: (-scores[place], place))[:DEPTH]
        result[number] = [collection.documents[place].number for place in order]
    return result


def average_precision(ranking: Sequence[str], relevant: set[str]) -> float:
    ranks = [rank for rank, document in enumerate(ranking, 1) if document in relevant]
    return sum(count / rank for count, rank in enumerate(ranks, 1)) / len(relevant)


def first_ten(ranking: Sequence[str], relevant: set[str]) -> float:
    """Return the reciprocal rank in the first ten results."""
    return reciprocal_rank(ranking[:MRR_DEPTH], relevant)


def mean(
    collection: Collection, result: Mapping[str, Sequence[str]], numbers: Iterable[str]
) -> float:
    """Return the mean of the measure over those questions that have a relevant document."""
    judged_numbers = [number for number in numbers if collection.relevant.get(number)]
    values = (
        collection.measure(result[number], collection.relevant[number]) for number in judged_numbers
    )
    return sum(values) / len(judged_numbers)


def halves(collection: Collection) -> tuple[list[str], list[str]]:
    """Return the odd questions (tuned on) and the even ones (held out)."""
    odd = [number for number in collection.questions if int(number) % 2]
    return odd, [number for number in collection.questions if not int(number) % 2]


def declaration(path: Path) -> dict[int, str]:
    """Return the articles of a declaration by number."""
    result: dict[int, str] = {}
    for article in ElementTree.parse(path).getroot().iter():
        number = _NUMBER.search(article.get("number", ""))
        if article.tag.rpartition("}")[2] != "article" or number is None:
            continue
        paragraphs = [
            " ".join("".join(part.itertext()).split())
            for part in article.iter()
            if part.tag.rpartition("}")[2] == "para"
        ]
        if text := "\n".join(filter(None, paragraphs)):
            result[int(number[0])] = text
    return result


def declarations(folder: Path) -> dict[str, dict[int, str]]:
    return {path.stem: declaration(path) for path in sorted(folder.glob("*.xml"))}


def index_declarations(root: str, texts: Mapping[str, Mapping[int, str]]) -> Searcher:
    pages = (
        (f"http://{stem}.test/{number}", Page(main_text=text, text=text, language=stem[:2]))
        for stem, articles in texts.items()
        for number, text in articles.items()
    )
    return index_pages(root, pages)


def words_of(language: str, text: str) -> list[tuple[str, str]]:
    """Return (key, written form) of the words. A Tibetan word is two syllables, as in its index."""
    units = analyzer_for(language).units(text)
    if language == "bo":
        return [
            (one.word, f"{one.surface}་{two.surface}")
            for one, two in itertools.pairwise(units)
            if one.word
        ]
    return [
        (" ".join(unit.phrase), unit.surface) for unit in units if len("".join(unit.phrase)) > 1
    ]


def rarest_words(language: str, articles: Mapping[int, str]) -> dict[int, str]:
    """Return for each article the three words of its first sentence that are in fewest articles."""
    spread = Counter(
        word
        for text in articles.values()
        for word in {word for word, _ in words_of(language, text)}
    )
    result = {}
    for number, text in articles.items():
        written = dict(words_of(language, _SENTENCE_END.split(text, maxsplit=1)[0]))
        rare = sorted(written, key=lambda word: (spread[word], -len(word)))[:3]
        result[number] = " ".join(written[word] for word in rare)
    return result


def found_first(searcher: Searcher, stem: str, articles: Mapping[int, str]) -> float:
    """Return the share of articles that are the first result for their own rarest words."""
    language = stem.split("-")[0]
    right = 0
    for number, query in rarest_words(language, articles).items():
        hits = searcher.search(
            SearchRequest(query, 1, host=f"{stem}.test", per_host=0, snippets=False)
        ).hits
        right += bool(hits) and hits[0].url == f"http://{stem}.test/{number}"
    return right / len(articles)


def collection_rows(root: str, collection: Collection) -> list[tuple[str, ...]]:
    """Return figures of each ranking of a collection: odd, even and all questions."""
    odd, even = halves(collection)
    searcher = index_collection(root, collection)
    results = {
        "BM25": bm25_rankings(collection),
        "tantivy": tantivy_rankings(collection),
        "Lycosa, no feedback": rankings(
            searcher, collection, language=collection.language, feedback="off"
        ),
        "Lycosa": rankings(searcher, collection, language=collection.language),
    }
    return [
        (
            collection.name,
            name,
            *(f"{mean(collection, result, of):.3f}" for of in (odd, even, collection.questions)),
        )
        for name, result in results.items()
    ]


def sib200(data: Path) -> list[Collection]:
    """Read the sentences of SIB-200, each with a part of itself as query."""
    collections = []
    for name in sorted(path.stem for path in (data / "sib200").glob("*.tsv")):
        language = name.split("-")[0]
        texts = {str(number): text for number, _, text in corpora.sib200(name, data)}
        documents = [Document(number, "", text) for number, text in texts.items()]
        questions = {number: _part_of(text, language) for number, text in texts.items()}
        relevant = {number: {number} for number in texts}
        collections.append(Collection(name, language, documents, questions, relevant))
    return collections


def _part_of(sentence: str, language: str) -> str:
    quarter = len(sentence) // 4
    if language in _WITHOUT_SPACES:
        return sentence[quarter : len(sentence) - quarter]
    return " ".join(sentence.split()[::2])


def mixed_rows(root: str, data: Path, questions: int) -> list[tuple[str, ...]]:
    """Return reciprocal ranks in one index of all languages, with and without the language."""
    collections = [each for each in judged(data) if each.name.startswith("xquad")]
    sentences = sib200(data)
    pages = (page for each in (*collections, *sentences) for page in pages_of(each))
    searcher = index_pages(root, pages)
    groups = {each.name: [each] for each in collections}
    groups[f"SIB-200, {len(sentences)} languages"] = sentences

    def rank(group: Sequence[Collection], half: int, *, with_language: bool) -> str:
        means = []
        for each in group:
            numbers = halves(each)[half]
            numbers = numbers[:: max(1, len(numbers) * len(group) // questions)]
            language = each.language if with_language else ""
            result = rankings(searcher, each, numbers, MRR_DEPTH, language=language)
            ranks = (first_ten(result[number], each.relevant[number]) for number in numbers)
            means.append(sum(ranks) / len(numbers))
        return f"{sum(means) / len(means):.3f}"

    return [
        (label, name, *(rank(group, half, with_language=given) for given in (True, False)))
        for half, name in enumerate(("odd", "even"))
        for label, group in groups.items()
    ]


def language_rows(root: str, data: Path) -> list[tuple[str, ...]]:
    """Return reciprocal ranks of each language of SIB-200 with spaces, with an index for each."""
    rows: list[tuple[str, ...]] = []
    for each in sib200(data):
        if each.language not in _WITHOUT_SPACES:
            searcher = index_collection(f"{root}-{each.name}", each)
            even = halves(each)[1]
            own = rankings(searcher, each, even, MRR_DEPTH, language=each.language)
            means = (
                sum(first_ten(result[number], {number}) for number in even) / len(even)
                for result in (tantivy_rankings(each), bm25_rankings(each), own)
            )
            stemmer = _TANTIVY_STEMMERS.get(each.language, "none")
            rows.append((each.name, stemmer, *(f"{figure:.3f}" for figure in means)))
    return rows


def main() -> None:
    parser = arguments(__doc__, runs=1, data=DATA)
    parser.add_argument("--only", action="append", default=[], help="a collection; may be repeated")
    options = parser.parse_args()
    parts = []
    with tempfile.TemporaryDirectory(prefix="lycosa-bench-") as folder:
        rows = []
        for collection in judged(options.data):
            if not options.only or collection.name in options.only:
                rows += collection_rows(f"{folder}/{collection.name}", collection)
        if rows:
            columns = (
                "collection",
                "ranking",
                "odd questions (tuned on)",
                "even (held out)",
                "all",
            )
            parts.append(table(columns, rows))
        if not options.only or "mixed" in options.only:
            mixed = mixed_rows(f"{folder}/mixed", options.data, 600)
            header = (
                "one index of all languages",
                "questions",
                "language given",
                "no language given",
            )
            parts.append(table(header, mixed))
        if "languages" in options.only:
            names = ("SIB-200, even", "stemmer of tantivy", "tantivy", "BM25", "Lycosa")
            parts.append(table(names, language_rows(f"{folder}/sib", options.data)))
    report(options, "Relevance", "\n\n".join(parts))


if __name__ == "__main__":
    main()
