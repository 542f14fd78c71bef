"""Synthetic pages for tests of sharded search."""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass
from pathlib import Path

from lycosa.core.records import Page
from lycosa.index.indexer import Indexer
from lycosa.search.engine.searcher import SearchResults
from tests.index.corpus import Corpus, index_settings, page

HOSTS = 24
PAGES = 30  # per host
EQUAL = "http://equal-{}.test/same"  # pages with equal scores for every query

_WORDS = {
    "en": "spider web night hunt wolf trap silk thread garden autumn forest stone river water "
    "light shadow morning evening window table",
    "de": "spinne netz nacht jagd wolf falle seide faden garten herbst wald stein fluss wasser "
    "licht schatten morgen abend fenster tisch",
    "fr": "araignée toile nuit chasse loup piège soie fil jardin automne forêt pierre rivière eau "
    "lumière ombre matin soir fenêtre table",
}


@dataclass(slots=True, frozen=True)
class TwoIndexes:
    """Workspaces with the same pages in one index and in several shards."""

    one: str
    many: str
    shards: int


def made_pages() -> list[tuple[str, Page]]:
    """Return pages of hosts with different languages, lengths and words."""
    generator = random.Random(7)
    pages = []
    for host in range(HOSTS):
        language = ("en", "en", "de", "fr")[host % 4]
        words = _WORDS[language].split()
        weights = [generator.random() ** 3 + 0.02 for _ in words]
        for number in range(PAGES):
            length = int(10 + 300 * generator.random() ** 2 * (1 + host % 5))
            text = " ".join(generator.choices(words, weights, k=length))
            title = " ".join(generator.choices(words, weights, k=3))
            pages.append(
                (
                    f"http://host{host}.test/{title.split()[0]}/{number}",
                    page(f"{text}.", title=title, language=language),
                )
            )
    pages += [
        (EQUAL.format(number), page("Unmistakable words of one kind.", title="Same", language="en"))
        for number in range(40)
    ]
    pages += [
        (
            f"http://copy-{number}.test/",
            page("A twice told tale.", language="en", text_digest=2**63 + 5),
        )
        for number in range(6)
    ]
    return pages


def queries() -> list[str]:
    """Return queries in all languages, with phrases and operators."""
    generator = random.Random(9)
    result = []
    for language, vocabulary in _WORDS.items():
        words = vocabulary.split()
        result += [" ".join(generator.sample(words, 1 + number % 3)) for number in range(16)]
        result += [
            f'"{words[0]} {words[1]}"',
            f"{words[2]} -{words[3]}",
            f"{words[4]} lang:{language}",
            f"{words[5]} site:host3.test",
        ]
    return [
        *result,
        "spider netz",
        "nowhere web",
        "nothing-like-it",
        "site:host1.test",
        "-web site:host2.test",
        "lang:de",
        "-",
    ]


def two_indexes(folder: Path, shards: int) -> TwoIndexes:
    """Create both workspaces from one commit."""
    corpus = Corpus(str(folder / "one"), partitions=16)
    corpus.commit(made_pages())
    shutil.copytree(corpus.root, folder / "many")
    for root, count in ((corpus.root, 1), (str(folder / "many"), shards)):
        with Indexer(root, index_settings(count)) as indexer:
            indexer.update()
    return TwoIndexes(corpus.root, str(folder / "many"), shards)


def urls(results: SearchResults) -> list[str]:
    return [hit.url for hit in results.hits]


def short_urls(results: SearchResults) -> list[str]:
    """Return the URLs of the results without `http://`."""
    return [hit.url.removeprefix("http://") for hit in results.hits]
