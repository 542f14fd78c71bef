"""Quality of passages, compared with fixed windows ranked by BM25, and the time of a search.

    python -m bench.passages [--data DIR] [--every N] [--results FILE]
    python -m bench.passages --chunks 100000 [--results FILE]

Each article of XQuAD (five paragraphs) is a page. A question is answered if one of the first three
passages of at most 120 tokens contains the answer. Answers are in `xquad/XX.answers.tsv` (number of
the paragraph, answer), as in the published dataset. Without that file, a passage counts that has a
part of the paragraph with the answer, which favours windows across paragraphs. Odd-numbered
questions were used for tuning, even-numbered ones are held out.

The baseline cuts the text into windows of whole words with as many tokens, without regard to
paragraphs and sentences, and ranks all windows of all pages by BM25 (k1 1.2, b 0.75) with the same
analysis. `paragraphs` does the same with the first tokens of each paragraph.

With `--chunks`: times of searches in that number of chunks of 384 dimensions, generated from words
of XQuAD (Spanish), by words, by vectors and by both. The encoder hashes words; no query is repeated.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.harness import DATA, arguments, quantiles, report, table, timed
from bench.relevance import (
    Collection,
    Document,
    bm25_rankings,
    halves,
    index_pages,
    xquad,
)
from lycosa.chunks.split import plain_text
from lycosa.chunks.tokens import estimated_tokens
from lycosa.commands.inspection.passages import PassageFinder, PassageRequest
from lycosa.commands.maintenance.engine_jobs import encode_chunks
from lycosa.config.settings import Config
from lycosa.core.records import Page
from lycosa.store.workspace import Workspace

LANGUAGES = ("es", "hi")
PARAGRAPHS = 5  # of an article
PASSAGES, TOKENS = 3, 120
DIMENSIONS, SECTIONS = 384, 20  # of vectors; of a page
SEARCHES, WARM_UP = 300, 20
CONTEXT = 10  # characters around an answer, which identify its paragraph

RecordingSite = Callable[[str], list[str]]
"""From the number of a question to its first passages."""


@dataclass(frozen=True)
class Questions:
    """The questions of a language. `answers`: by the number of the question."""

    collection: Collection
    answers: Mapping[str, str]

    def is_answered(self, number: str, passages: Iterable[str]) -> bool:
        """Return whether one of the passages has the answer, where it is in its paragraph."""
        (paragraph,) = self.collection.relevant[number]
        source = squeezed(self.collection.documents[int(paragraph)].text)
        needles = list(stretches(source, squeezed(self.answers.get(number, ""))))
        texts = [squeezed(text) for text in passages]
        return any(needle in text for needle in needles for text in texts)


def stretches(source: str, answer: str) -> Iterator[str]:
    """Yield the answer with what is before or after it; without an answer, all of the source."""
    if not answer:
        yield from (source[start : start + 40] for start in range(0, len(source), 40))
        return
    start = source.find(answer)
    while start >= 0:
        end = start + len(answer)
        yield source[max(0, start - CONTEXT) : end]
        yield source[start : end + CONTEXT]
        start = source.find(answer, end)


def squeezed(text: str) -> str:
    """Return a text without spaces and the markup of Markdown."""
    return "".join(plain_text(text).split())


def questions(data: Path, language: str) -> Questions:
    """Read XQuAD in a language."""
    collection = xquad(data / "xquad", language)
    for each in collection.documents:
        each.text = each.text.strip("\ufeff \u200b")
    file = data / "xquad" / f"{language}.answers.tsv"
    rows = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    answers = {str(number): row.split("\t")[1] for number, row in enumerate(rows, 1)}
    return Questions(collection, answers)


def articles(collection: Collection) -> Iterator[tuple[str, Page]]:
    """Yield the URL and the page of each article."""
    for first in range(0, len(collection.documents), PARAGRAPHS):
        text = "\n".join(each.text for each in collection.documents[first : first + PARAGRAPHS])
        page = Page(main_text=text, text=text, language=collection.language)
        yield f"http://{collection.name}.test/{first // PARAGRAPHS}", page


def windows(text: str) -> Iterator[str]:
    """Yield windows of whole words, of at most as many tokens as a passage."""
    window: list[str] = []
    size = 0
    for word in text.split():
        tokens = estimated_tokens(word)
        if window and size + tokens > TOKENS:
            yield " ".join(window)
            window, size = [], 0
        window.append(word)
        size += tokens
    yield " ".join(window)


def baseline(
    texts: Iterable[str], collection: Collection, numbers: Iterable[str] | None = None
) -> RecordingSite:
    """Return passages that are ranked by BM25 over all of them, for these or all questions."""
    documents = [Document(str(place), "", text) for place, text in enumerate(texts)]
    pieces = Collection(
        collection.name, collection.language, documents, collection.questions, collection.relevant
    )
    rankings = bm25_rankings(pieces, numbers)
    return lambda number: [documents[int(each)].text for each in rankings[number][:PASSAGES]]


def found_by(finder: PassageFinder, collection: Collection, times_ms: list[float]) -> RecordingSite:
    """Return a search by Lycosa that appends its durations to `times_ms`."""

    def answer(number: str) -> list[str]:
        request = PassageRequest(collection.questions[number], PASSAGES, TOKENS)
        result, wall_ms, _ = timed(lambda: finder.find(request))
        times_ms.append(wall_ms)
        return [each.text for each in result.passages]

    return answer


def share(of: Questions, answering: RecordingSite, numbers: Sequence[str]) -> float:
    """Return the share of these questions that are answered."""
    return sum(of.is_answered(number, answering(number)) for number in numbers) / len(numbers)


def index_articles(root: str, collection: Collection) -> PassageFinder:
    """Commit and index the articles of a collection."""
    index_pages(root, articles(collection))
    return PassageFinder(root)


def language_rows(
    root: str, data: Path, language: str, every: int = 1
) -> Iterator[tuple[str, ...]]:
    """Yield the figures of one language by ranking: the odd and the even questions."""
    of = questions(data, language)
    collection = of.collection
    pages = [page.main_text for _, page in articles(collection)]
    times_ms: list[float] = []
    first_windows = (next(windows(each.text)) for each in collection.documents)
    rankings = {
        "windows, BM25": baseline((each for page in pages for each in windows(page)), collection),
        "paragraphs, BM25": baseline(first_windows, collection),
        "Lycosa": found_by(index_articles(root, collection), collection, times_ms),
    }
    for name, answering in rankings.items():
        shares = [f"{share(of, answering, half[::every]):.3f}" for half in halves(collection)]
        times = quantiles(times_ms, 0.5, 0.95) if times_ms else ["", ""]
        yield (collection.name, name, *shares, *times)


def hashed_words(texts: list[str]) -> NDArray[Any]:
    """Encode texts: how often words of each hash occur."""
    rows = np.zeros((len(texts), DIMENSIONS), np.float32)
    for row, text in enumerate(texts):
        for word in text.lower().split():
            rows[row, hash(word) % DIMENSIONS] += 1
    return rows


def random_pages(collection: Collection, chunks: int) -> Iterator[tuple[str, Page]]:
    """Yield pages of sections, each of which is a chunk, with words as frequent as in XQuAD."""
    words = " ".join(each.text for each in collection.documents).split()
    chosen = random.Random(1)
    for number in range(chunks // SECTIONS):
        texts = [
            f"## {' '.join(chosen.choices(words, k=3))}\n\n{' '.join(chosen.choices(words, k=60))}"
            for _ in range(SECTIONS)
        ]
        text = "\n\n".join(texts)
        title = " ".join(chosen.choices(words, k=4))
        yield (
            f"http://site{number % 97}.test/{number}",
            Page(title=title, main_text=text, text=text, markdown=text, language="es"),
        )


def time_searches(folder: str, data: Path, chunks: int) -> str:
    """Encode many chunks, and return the times of that and of searches."""
    collection = xquad(data / "xquad", "es")
    index_pages(folder, random_pages(collection, chunks))
    config = Config.model_validate({"encoder": {"source": "bench.passages:hashed_words"}})
    encodings = []
    for name in ("first", "second"):
        vectors, *times = timed(lambda: encode_chunks(Workspace.open(folder), config))
        assert vectors is not None
        encodings.append((name, f"{vectors.encoded:,}", *(f"{each / 1000:.1f}" for each in times)))
    finder = PassageFinder(folder, config=config)
    queries = random.Random(2).sample(list(collection.questions.values()), SEARCHES + WARM_UP)
    rows = []
    for ranking in ("keyword", "vector", "hybrid"):
        requests = [PassageRequest(query, ranking=ranking) for query in queries]
        pairs = [timed(partial(finder.find, request))[1:] for request in requests][WARM_UP:]
        wall, cpu = zip(*pairs, strict=True)
        rows.append((ranking, *quantiles(wall, 0.5, 0.95), *quantiles(cpu, 0.5, 0.95)))
    columns = ("ranking", "median ms", "95 % ms", "median CPU ms", "95 % CPU ms")
    encoding = table(("encoding", "encoded chunks", "wall s", "CPU s"), encodings)
    return f"{encoding}\n\n{table(columns, rows)}"


def main() -> None:
    options = arguments(
        __doc__,
        runs=1,
        every=(1, "use every Nth question (default 1)"),
        data=DATA,
        chunks=(0, "time searches in this number of chunks"),
    ).parse_args()
    with tempfile.TemporaryDirectory(prefix="lycosa-bench-") as folder:
        if options.chunks:
            body = time_searches(folder, options.data, options.chunks)
            report(options, f"Passages of {options.chunks:,} chunks", body)
            return
        rows = [
            row
            for language in LANGUAGES
            for row in language_rows(f"{folder}/{language}", options.data, language, options.every)
        ]
    columns = ("collection", "passages", "odd questions (tuned on)", "even (held out)")
    report(options, "Passages", table((*columns, "median ms", "95 % ms"), rows))


if __name__ == "__main__":
    main()
