from __future__ import annotations

import time
from pathlib import Path

import pytest

from lycosa.config.settings import IndexSettings
from lycosa.core.clock import SystemClock
from lycosa.core.errors import WorkspaceError
from lycosa.index import generation as generations
from lycosa.index.follower import IndexFollower
from lycosa.index.shards.shards import current_generation
from lycosa.index.suggest import file as suggest_file
from tests.index.corpus import Corpus, page


def follower(corpus: Corpus, interval: str) -> IndexFollower:
    return IndexFollower(
        corpus.root,
        IndexSettings.model_validate({"heap": "15MiB", "interval": interval}),
        SystemClock(),
    )


def test_commits_within_the_interval_make_one_generation(corpus: Corpus) -> None:
    follows = follower(corpus, "1h")
    for number in range(3):
        follows.committed(
            corpus.commit([(f"http://a.test/{number}", page("One page of a short crawl."))])
        )
    follows.finish()
    follows.close()
    info = current_generation(corpus.root)
    assert info is not None
    assert (info.documents, generations.numbers(corpus.root)) == (3, [1])


def test_a_long_crawl_is_found_while_it_goes_on(corpus: Corpus) -> None:
    follows = follower(corpus, "20ms")
    for number in range(2):
        follows.committed(
            corpus.commit([(f"http://a.test/{number}", page("One page of a long crawl."))])
        )
        deadline = time.monotonic() + 60
        while (info := current_generation(corpus.root)) is None or info.documents <= number:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    follows.close()


def test_suggestions_are_made_once_at_the_end_of_a_short_crawl(corpus: Corpus) -> None:
    follows = follower(corpus, "20ms")
    follows.committed(
        corpus.commit([("http://a.test/", page("A page of a crawl that is over soon."))])
    )
    deadline = time.monotonic() + 60
    while (generation := generations.newest(corpus.root)) is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert suggest_file.find(generation.path) is None
    follows.finish()
    follows.close()
    last = generations.newest(corpus.root)
    assert last is not None
    assert suggest_file.find(last.path) is not None


def test_an_error_is_kept_and_raised_at_the_end(corpus: Corpus) -> None:
    follows = follower(corpus, "20ms")
    entry = corpus.commit([("http://a.test/", page("A page whose file is lost."))])
    for file in Path(corpus.root).glob("data/*/pages.parquet"):
        file.unlink()
    follows.committed(entry)
    deadline = time.monotonic() + 60
    while follows.error is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    with pytest.raises(WorkspaceError, match="missing"):
        follows.finish()
    follows.close()
    follows.close()
