"""Korean analysis by kiwipiepy: queries are analysed like the index."""

from __future__ import annotations

from pathlib import Path

import pytest

from lycosa.commands.maintenance.translate import add_dictionary
from lycosa.config.settings import IndexSettings
from lycosa.core.errors import UsageError
from lycosa.index.indexer import Indexer, ShardIndexer
from lycosa.index.shards.shards import index_analysis, shards_of
from lycosa.maintenance.jobs import rank_workspace
from lycosa.search.crosslingual.translated import Across
from lycosa.search.engine.searcher import Searcher, SearchRequest, SearchResults
from lycosa.search.federation.replica import Replica
from lycosa.text import analyze, korean
from lycosa.text.analyze import BIGRAMS, KIWI, Analysis
from tests.index.corpus import Corpus, page
from tests.search.test_federation import Service
from tests.waiting import until

needs_kiwi = pytest.mark.skipif(
    not korean.installed(), reason="kiwipiepy is not installed: pip install 'lycosa[ko]'"
)

HOSTS = [f"h{number}.test" for number in range(6)]
TEXT = "운영체제를 설치하기 전에 하드디스크를 나눕니다. 사용자가 만든 파일시스템의 목록입니다."


def settings(kind: str, shards: int = 1) -> IndexSettings:
    return IndexSettings.model_validate({"heap": "15MiB", "korean": kind, "shards": shards})


def update(corpus: Corpus, kind: str, shards: int = 1) -> str:
    with Indexer(corpus.root, settings(kind, shards)) as indexer:
        return indexer.update().rebuilt


def ask(root: str, text: str, across: Across | None = None) -> SearchResults:
    return Searcher(root).search(SearchRequest(text, 100, per_host=0, folded=False, across=across))


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    corpus = Corpus(str(tmp_path / "workspace"))
    pages = {
        f"http://{host}/": page(f"{TEXT} {number} 쪽", title="설치 안내", language="ko")
        for number, host in enumerate(HOSTS)
    }
    corpus.commit(
        [
            *pages.items(),
            ("http://en.test/", page("The file system of an operating system.", language="en")),
        ]
    )
    return corpus


@needs_kiwi
def test_changed_setting_rebuilds_the_index_and_changes_query_analysis(corpus: Corpus) -> None:
    update(corpus, BIGRAMS)
    before = Searcher(corpus.root)
    assert before.search(SearchRequest("만들다")).total == 0  # another form of the verb
    assert "another version" in update(corpus, KIWI)
    assert update(corpus, KIWI) == ""
    # the open generation still has the old analysis
    assert before.search(SearchRequest("파일시스템을")).total == len(HOSTS)
    assert before.reload()
    for query in (
        "만들다",
        "파일시스템을",
        "파일",
        "나누다",
        '"운영체제 설치"',
        "file system",
        "title:안내",
    ):
        assert before.search(SearchRequest(query, language=None)).total >= (
            1 if query.isascii() else len(HOSTS)
        ), query
    hit = before.search(SearchRequest("파일시스템을")).hits[0]
    assert "".join(text for text, marked in hit.snippet if marked) == "파일시스템의"
    assert "another version" in update(corpus, BIGRAMS)
    assert before.reload()
    assert before.search(SearchRequest("만들다")).total == 0


@needs_kiwi
def test_shards_with_different_analysis_are_searched_together(
    corpus: Corpus, tmp_path: Path
) -> None:
    update(corpus, BIGRAMS, 2)
    indexer = ShardIndexer(corpus.root, shards_of(2)[0], settings(KIWI, 2))
    assert "another version" in indexer.update().rebuilt
    indexer.close()
    path = tmp_path / "en-ko.tsv"
    path.write_text("operating system\t운영체제\ninstallation\t설치\n", encoding="utf-8")
    add_dictionary(corpus.root, path)
    assert ask(corpus.root, "파일시스템을").total == len(HOSTS)
    assert 0 < ask(corpus.root, "만들다").total < len(HOSTS)  # only the shard with stemmed verbs
    hits = ask(corpus.root, "operating system", Across(("ko",), "en")).hits
    assert ({hit.host for hit in hits}, len(hits)) == ({*HOSTS, "en.test"}, len(HOSTS) + 1)
    replicas = [Replica(corpus.root, each) for each in shards_of(2)]
    assert sum(replica.describe(0).documents for replica in replicas) == len(HOSTS) + 1


@needs_kiwi
def test_replicas_analyse_a_query_like_their_shard(corpus: Corpus) -> None:
    update(corpus, KIWI, 2)
    service = Service(corpus.root, 1)
    try:
        # a replica loads kiwipiepy before it answers
        until(lambda: not service.search("만들다").missing_shards)
        assert service.search("만들다").total == len(HOSTS)
        assert service.search("파일시스템을").total == len(HOSTS)
    finally:
        service.close()


@needs_kiwi
@pytest.mark.parametrize("kind", [BIGRAMS, KIWI])
def test_learned_tables_work_after_the_analysis_changed(tmp_path: Path, kind: str) -> None:
    corpus = Corpus(str(tmp_path / "workspace"))
    words = {
        "apple": "사과",
        "river": "강물",
        "house": "주택",
        "teacher": "선생님",
        "market": "시장",
        "window": "창문",
        "bridge": "다리",
        "garden": "정원",
    }
    names = list(words)
    pages = []
    for number in range(60):
        chosen = [names[(number * step + step) % len(names)] for step in (1, 3, 5, 7)]
        english = "\n".join(
            f"The {one} is near number {number} {place}." for place, one in enumerate(chosen)
        )
        hangul = "\n".join(
            f"{words[one]}은 번호 {number} {place} 가까이에 있습니다."
            for place, one in enumerate(chosen)
        )
        pages += [
            (f"http://a.test/en/{number}", page(english, language="en")),
            (f"http://a.test/ko/{number}", page(hangul, language="ko")),
        ]
    corpus.commit(pages)
    update(corpus, kind)
    assert index_analysis(corpus.root) == Analysis((kind,))
    assert rank_workspace(corpus.root).translations == 1
    other = KIWI if kind == BIGRAMS else BIGRAMS
    for current in (kind, other):
        update(corpus, current)
        results = ask(corpus.root, "bridge", Across(("ko",), "en"))
        assert not [note for note in results.notes if "table" in note]
        assert {hit.language for hit in results.hits} == {"en", "ko"}, current
        back = ask(corpus.root, "다리", Across(("en",), "ko"))
        assert {hit.language for hit in back.hits} == {"en", "ko"}, current


@needs_kiwi
def test_note_and_error_name_the_missing_package(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    update(corpus, KIWI)
    monkeypatch.setattr(korean, "find_spec", lambda name: None)
    monkeypatch.setattr(analyze, "_by_morphemes", analyze._by_morphemes.__wrapped__)
    assert any("lycosa[ko]" in note for note in ask(corpus.root, "파일시스템을 만들다").notes)
    plain = ask(corpus.root, "file system")
    assert plain.total == 1
    assert not plain.notes
    with pytest.raises(UsageError, match=r"lycosa\[ko\]"):
        Indexer(corpus.root, settings(KIWI))
