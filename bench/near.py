"""Near-duplicates: precision and recall on pairs of texts of known similarity, and CPU per page.

    python -m bench.near [--pairs 2000]

Texts are random words of a Zipf vocabulary, or random characters for scripts without spaces. The
second text of a pair has runs of its words replaced; its true similarity is computed with plain
sets. Similarities are between 0.5 and 1, a quarter of them at 0.75 to 0.85.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from bench.corpora import commit_pages
from bench.harness import arguments, report, table, timed
from lycosa.core.records import Page
from lycosa.graph.builder import make_generation
from lycosa.graph.generation import link_signals_of
from lycosa.graph.minhash import CHARACTERS, NEAR, WORDS
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from lycosa.text.digest import text_digest

_HAN = [chr(code) for code in range(0x4E00, 0x4E00 + 1_500)]


@dataclass(frozen=True)
class Planted:
    """A pair of texts and their true similarity."""

    language: str
    one: str
    other: str
    similarity: float


@dataclass(frozen=True)
class Measured:
    """Precision of grouped pairs, and recall of pairs with a similarity of at least `NEAR`."""

    precision: float
    recall: float
    true: int
    groups: int
    seconds: float


def planted(pairs: int, seed: int = 7) -> list[Planted]:
    """Return pairs, a third of them in a script without spaces."""
    chance = random.Random(seed)
    words = [
        "".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(2, 9)))
        for _ in range(8_000)
    ]
    weights = [1 / (rank + 10) for rank in range(len(words))]
    result = []
    for number in range(pairs):
        spaceless = number % 3 == 0
        length = int(60 * 30 ** chance.random())
        tokens = (
            chance.choices(_HAN, k=length)
            if spaceless
            else chance.choices(words, weights, k=length)
        )
        target = chance.uniform(0.75, 0.85) if number % 4 == 0 else chance.uniform(0.5, 1.0)
        changed = _changed(tokens, target, spaceless, words, chance)
        glue = "" if spaceless else " "
        true = jaccard(tokens, changed, CHARACTERS if spaceless else WORDS)
        result.append(
            Planted("zh" if spaceless else "en", glue.join(tokens), glue.join(changed), true)
        )
    return result


def jaccard(one: list[str], other: list[str], width: int) -> float:
    """Return the similarity by its definition."""
    first, second = (
        {tuple(tokens[place : place + width]) for place in range(len(tokens) - width + 1)}
        for tokens in (one, other)
    )
    return len(first & second) / len(first | second)


def _changed(
    tokens: list[str], target: float, spaceless: bool, words: list[str], chance: random.Random
) -> list[str]:
    """Replace runs of tokens until the similarity is about the target."""
    width = CHARACTERS if spaceless else WORDS
    changed = list(tokens)
    share = (1 - target) / (1 + target)  # of shingles to replace
    left = share * len(tokens)
    while left >= width:
        run = min(chance.randint(1, 12), max(1, int(left) - width + 1))
        start = chance.randrange(len(tokens) - run)
        changed[start : start + run] = chance.choices(_HAN if spaceless else words, k=run)
        left -= run + width - 1
    return changed


def measure(pairs: list[Planted], folder: Path) -> Measured:
    """Commit the texts as pages, rank, and compare the groups with the pairs."""

    def pages() -> Iterator[tuple[str, Page]]:
        for number, pair in enumerate(pairs):
            for side, text in (("a", pair.one), ("b", pair.other)):
                digest = text_digest(text)
                page = Page(main_text=text, text=text, language=pair.language, text_digest=digest)
                yield f"http://h{number % 50}.test/{number}/{side}", page

    root = str(folder / "workspace")
    commit_pages(root, pages())
    workspace = Workspace.open(root)
    _, wall_ms, _ = timed(lambda: make_generation(workspace))
    groups = _groups(workspace)
    grouped = [
        groups.get(f"{number}/a", 0) == groups.get(f"{number}/b", 1) for number in range(len(pairs))
    ]
    # groups of texts that are not pairs
    others = len({group for group in groups.values() if group}) - sum(grouped)
    right = sum(
        pair.similarity >= NEAR for pair, in_group in zip(pairs, grouped, strict=True) if in_group
    )
    true = sum(pair.similarity >= NEAR for pair in pairs)
    positives = sum(grouped) + abs(others)
    return Measured(
        right / max(positives, 1), right / max(true, 1), true, positives, wall_ms / 1000
    )


def _groups(workspace: Workspace) -> dict[str, int]:
    news = link_signals_of(workspace, range(workspace.partitions))
    assert news is not None
    urls = LiveTables(workspace).scan("pages").select("url_key", "url").collect()
    rows = news.pages().filter(pl.col("group") != 0).join(urls, on="url_key").select("url", "group")
    return {url.split("/", 3)[3]: group for url, group in rows.iter_rows()}


def main() -> None:
    options = arguments(__doc__, runs=1, pairs=2_000).parse_args()
    pairs = planted(options.pairs)
    rows = []
    for _ in range(options.runs):
        with tempfile.TemporaryDirectory(prefix="lycosa-bench-") as folder:
            result = measure(pairs, Path(folder))
        page_ms = result.seconds * 1000 / len(pairs) / 2
        rows.append((f"{result.precision:.3f}", f"{result.recall:.3f}", f"{page_ms:.2f}"))
    body = table(("precision (limit 0.95)", "recall (limit 0.94)", "ms per page"), rows)
    report(options, "Near-duplicates", body, rows)


if __name__ == "__main__":
    main()
