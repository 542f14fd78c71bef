"""How well the first results answer: Cranfield's questions with their judgements, and articles found by their own words in 27 languages.

    python -m bench.relevance [--data DIR] [--results FILE]

Cranfield: 1,400 abstracts, each a page with its title; 225 questions; judgement 1 to 4 is relevant. Mean average precision over the first
1,000 results, for the odd and the even questions apart (weights were chosen on the odd ones alone) and for all. Beside it the same texts in
plain tantivy: one field, English stemming, any of the words.

UDHR: each article of the Universal Declaration is a page; the query is the three words of its first sentence that fewest articles hold, the
language is said. Success is the article itself as the first result; articles whose first sentence is that of others are counted as
they come.
"""

from __future__ import annotations

import argparse
import itertools
import re
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import tantivy

from bench.measure import append_results, table
from lycosa.core.config import IndexSettings
from lycosa.core.records import Page, Visit
from lycosa.index.indexer import Indexer
from lycosa.search.engine import Searcher, SearchRequest
from lycosa.store.tables import Buffers
from lycosa.store.workspace import Workspace
from lycosa.text.analyze import analyzer_for
from lycosa.url.keys import Identifier

DATA = Path("/work/shared/data")
DEPTH = 1_000
FIRST_AT = 1_700_000_000_000
_NUMBER = re.compile(r"\d+")
_SENTENCE_END = re.compile(r"(?<=[.!?。！？။۔։।॥])\s|(?<=།)\s*།|\n")  # one Tibetan shad ends a clause, two a sentence


@dataclass(slots=True)
class Abstract:
    """One document of Cranfield."""

    number: str
    title: str
    text: str


@dataclass(slots=True)
class Cranfield:
    """The collection. Questions are numbered by their position, as the judgements number them."""

    abstracts: list[Abstract]
    questions: dict[str, str]
    relevant: Mapping[str, set[str]]


def cranfield(folder: Path) -> Cranfield:
    """Read the collection in TREC form; a text follows `.W`, and begins with its title again, which is left out of it."""
    abstracts = []
    for document in (folder / "cran.all.1400.trec-format").read_text().split("</DOC>")[:-1]:
        number = re.search(r"<DOCNO>\s*(\d+)", document)
        body = document.partition("<TEXT>")[2].partition("</TEXT>")[0]
        head, _, text = body.partition("\n.W\n")
        title = " ".join(head.partition("\n.A\n")[0].split())
        plain = " ".join(text.split())
        assert number is not None
        abstracts.append(Abstract(number[1], title, plain.removeprefix(title).strip()))
    questions = {}
    for place, top in enumerate((folder / "cran.qry.trec-format").read_text().split("</top>")[:-1], 1):
        questions[str(place)] = " ".join(top.partition("Description:")[2].partition("<narr>")[0].split())
    relevant: dict[str, set[str]] = defaultdict(set)
    for line in (folder / "cran.qrels.trec-format").read_text().splitlines():
        question, _, document, judgement = line.split()
        if 1 <= int(judgement) <= 4:
            relevant[question].add(document)
    return Cranfield(abstracts, questions, relevant)


def index_pages(root: str, pages: Iterable[tuple[str, Page]]) -> Searcher:
    """Commit pages at their addresses, and index them."""
    workspace = Workspace.create(root)
    identifier = Identifier(workspace.domains, workspace.partitions)
    claim, buffers = workspace.claim("bench"), Buffers()
    for count, (url, page) in enumerate(pages):
        _, host, host_key, url_key, partition = identifier.identify(url)
        buffers.add_page(Visit(url, host, partition, host_key, url_key, "page", "default", 0, FIRST_AT + count, 1), page)
    claim.commit(claim.next_folder(), buffers.mapping())
    claim.release()
    with Indexer(root, IndexSettings()) as indexer:
        indexer.update()
    return Searcher(root)


def index_cranfield(root: str, collection: Cranfield) -> Searcher:
    return index_pages(
        root,
        (
            (
                f"http://cranfield.test/{each.number}",
                Page(title=each.title, main_text=each.text, text=each.text, headings=[each.title], language="en"),
            )
            for each in collection.abstracts
        ),
    )


def rankings(searcher: Searcher, questions: Mapping[str, str], depth: int = DEPTH) -> dict[str, list[str]]:
    """For each question the numbers of the documents found, the best first."""
    return {
        number: [hit.url.rpartition("/")[2] for hit in searcher.search(SearchRequest(text, depth)).hits]
        for number, text in questions.items()
    }


def plain_rankings(collection: Cranfield) -> dict[str, list[str]]:
    """tantivy by itself: title and text in one field, stemmed, any of the words."""
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("number", stored=True, tokenizer_name="raw")
    builder.add_text_field("text", tokenizer_name="en_stem")
    index = tantivy.Index(builder.build())
    writer = index.writer(heap_size=50_000_000, num_threads=1)
    for each in collection.abstracts:
        document = tantivy.Document()
        document.add_text("number", each.number)
        document.add_text("text", f"{each.title} {each.text}")
        writer.add_document(document)
    writer.commit()
    index.reload()
    searcher = index.searcher()
    found = {}
    for number, text in collection.questions.items():
        query = index.parse_query(re.sub(r"[^\w\s]", " ", text), ["text"])
        hits = searcher.search(query, DEPTH).hits
        found[number] = [str(searcher.doc(address).get_first("number")) for _, address in hits]
    return found


def average_precision(ranking: Sequence[str], relevant: set[str]) -> float:
    seen, total = 0, 0.0
    for place, document in enumerate(ranking, 1):
        if document in relevant:
            seen += 1
            total += seen / place
    return total / len(relevant)


def mean_average_precision(found: Mapping[str, Sequence[str]], relevant: Mapping[str, set[str]], of: Iterable[str]) -> float:
    values = [average_precision(found[number], relevant[number]) for number in of if relevant.get(number)]
    return sum(values) / len(values)


def halves(collection: Cranfield) -> tuple[list[str], list[str]]:
    """The odd questions (tuned on), the even ones (held out)."""
    numbers = list(collection.questions)
    return [each for each in numbers if int(each) % 2], [each for each in numbers if not int(each) % 2]


def declaration(path: Path) -> dict[int, str]:
    """The articles of a declaration, by number."""
    found: dict[int, str] = {}
    for article in ElementTree.parse(path).getroot().iter():
        number = _NUMBER.search(article.get("number", ""))
        if article.tag.rpartition("}")[2] != "article" or number is None:
            continue
        paragraphs = [" ".join("".join(part.itertext()).split()) for part in article.iter() if part.tag.rpartition("}")[2] == "para"]
        if text := "\n".join(filter(None, paragraphs)):
            found[int(number[0])] = text
    return found


def declarations(folder: Path) -> dict[str, dict[int, str]]:
    return {path.stem: declaration(path) for path in sorted(folder.glob("*.xml"))}


def index_declarations(root: str, texts: Mapping[str, Mapping[int, str]]) -> Searcher:
    return index_pages(
        root,
        (
            (f"http://{stem}.test/{number}", Page(main_text=text, text=text, language=stem.split("-")[0]))
            for stem, articles in texts.items()
            for number, text in articles.items()
        ),
    )


def words_of(language: str, text: str) -> list[tuple[str, str]]:
    """(what tells a word from others, how it is written). A Tibetan word is taken to be two syllables, as its index does."""
    units = analyzer_for(language).units(text)
    if language == "bo":
        return [(one.word, f"{one.surface}་{two.surface}") for one, two in itertools.pairwise(units) if one.word]
    return [(" ".join(unit.phrase), unit.surface) for unit in units if len("".join(unit.phrase)) > 1]


def rarest_words(language: str, articles: Mapping[int, str]) -> dict[int, str]:
    """For each article the three words of its first sentence that fewest articles hold, as they are written."""
    spread = Counter(word for text in articles.values() for word in {word for word, _ in words_of(language, text)})
    found = {}
    for number, text in articles.items():
        sentence = _SENTENCE_END.split(text, maxsplit=1)[0]
        written = dict(words_of(language, sentence))
        rare = sorted(written, key=lambda word: (spread[word], -len(word)))[:3]
        found[number] = " ".join(written[word] for word in rare)
    return found


def found_first(searcher: Searcher, stem: str, articles: Mapping[int, str]) -> float:
    """The share of articles that are the first result for their own rarest words."""
    language = stem.split("-")[0]
    right = 0
    for number, query in rarest_words(language, articles).items():
        hits = searcher.search(SearchRequest(query, 1, host=f"{stem}.test", per_host=0)).hits
        right += bool(hits) and hits[0].url == f"http://{stem}.test/{number}"
    return right / len(articles)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--results", type=Path, help="append the figures to this file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lycosa-bench-") as folder:
        collection = cranfield(options.data / "cranfield")
        odd, even = halves(collection)
        rows = []
        for name, found in (
            ("Lycosa", rankings(index_cranfield(f"{folder}/cranfield", collection), collection.questions)),
            ("tantivy", plain_rankings(collection)),
        ):
            figures = (mean_average_precision(found, collection.relevant, of) for of in (odd, even, collection.questions))
            rows.append((name, *(f"{figure:.3f}" for figure in figures)))
        body = table(("MAP on Cranfield", "odd questions (tuned on)", "even (held out)", "all"), rows)
        texts = declarations(options.data / "udhr27")
        searcher = index_declarations(f"{folder}/udhr", texts)
        shares = {stem: found_first(searcher, stem, articles) for stem, articles in texts.items()}
        listed = sorted(shares.items(), key=lambda item: item[1])
        body += "\n\nUDHR, success@1: " + ", ".join(f"{stem} {share:.3f}" for stem, share in listed)
        print(body)
        if options.results:
            append_results(options.results, "Relevance", "python -m bench.relevance", body)


if __name__ == "__main__":
    main()
