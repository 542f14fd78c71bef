"""Korean by morphemes: what goes in, what comes out, and that nothing that a page may hold harms
it. Needs the extra `lycosa[ko]`.
"""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.core.errors import UsageError
from lycosa.text import korean
from lycosa.text.analyze import BIGRAMS, KIWI, Analysis, analysis_by, analyzer_for
from lycosa.text.fold import MAX_TERM_BYTES

needs_kiwi = pytest.mark.skipif(
    not korean.installed(), reason="kiwipiepy is not installed: pip install 'lycosa[ko]'"
)


@needs_kiwi
@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("학교에서는", "학교"),
        ("운영체제를 설치합니다", "운영 영체 체제 설치"),
        ("설치하는 설치했다", "설치 설치"),
        ("사용자가 만든", "사용 용자 만들"),
        ("만들고", "만들"),
        ("Linux에서는", "linux"),
        ("2023년에", "2023 년"),
        ("A4용지", "a4 용지"),
        ("cd-rom으로", "cd rom"),
        ("café의", "cafe 의"),
        ("을", "을"),
        ("plain English", "plain english"),
    ],
)
def test_terms(text: str, terms: str) -> None:
    assert Analysis((KIWI,)).of("ko").terms(text) == terms.split()


@needs_kiwi
def test_a_word_of_a_query_gives_the_terms_that_it_gives_in_a_page() -> None:
    analyzer = Analysis((KIWI,)).of("ko")
    text = "운영체제를 설치하기 전에, (하드디스크의) 파티션을 나눕니다. Linux에서는"
    units = analyzer.units(text)
    assert [term for unit in units for term in unit.phrase] == analyzer.terms(text)
    for unit in units:
        assert analyzer.terms(unit.surface) == list(unit.phrase)


@needs_kiwi
@settings(deadline=None, max_examples=200)
@given(
    st.text(
        st.one_of(
            st.characters(),
            st.characters(min_codepoint=0x1100, max_codepoint=0x11FF),
            st.characters(min_codepoint=0xAC00, max_codepoint=0xD7A3),
        ),
        max_size=200,
    )
)
def test_any_text(text: str) -> None:
    analyzer = Analysis((KIWI,)).of("ko")
    terms = analyzer.terms(text)
    assert analyzer.terms(text) == terms
    assert all(
        0 < len(term.encode()) <= MAX_TERM_BYTES and not term.isspace() and " " not in term
        for term in terms
    )
    assert [term for unit in analyzer.units(text) for term in unit.phrase] == terms


@needs_kiwi
@pytest.mark.prove
def test_a_million_characters_of_anything() -> None:
    """Words without end, all syllables, jamo, lone surrogates, emoji: no crash, and time that grows
    with the length alone.
    """
    analyzer = Analysis((KIWI,)).of("ko")
    generator = random.Random(7)
    alphabets = [
        "가나다라",
        "".join(map(chr, range(0xAC00, 0xD7A4))),
        "".join(map(chr, range(0x1100, 0x1200))),
        "가🙂\ud800\u0301a1 \n",
        "ㅋㅎㅠ가",
    ]
    for alphabet in alphabets:
        took = []
        for length in (50_000, 100_000):
            text = "".join(generator.choices(alphabet, k=length))
            started = time.process_time()
            analyzer.terms(text)
            took.append(time.process_time() - started)
        assert took[1] < 6 * took[0] + 1
    for _ in range(20_000):
        length = generator.randint(1, 200)
        analyzer.terms(
            "".join(
                chr(
                    generator.choice(
                        (generator.randrange(0xD800), generator.randrange(0xE000, 0x30000))
                    )
                )
                for _ in range(length)
            )
        )


def test_without_kiwipiepy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(korean, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'lycosa\[ko\]'"):
        korean.version()
    here, hint = Analysis((KIWI,)).here()
    assert here == Analysis()
    assert "lycosa[ko]" in hint
    assert Analysis().here() == (Analysis(), "")


def test_the_analysis_of_an_index_is_told_by_its_analyzers() -> None:
    assert analysis_by(["native-english", "syllable-pairs"]) == Analysis((BIGRAMS,))
    assert analysis_by([korean.NAME]) == Analysis((KIWI,))
    assert analysis_by([korean.NAME, "syllable-pairs"]).korean == (BIGRAMS, KIWI)
    assert analysis_by([]).of("ko") is analyzer_for("ko")
