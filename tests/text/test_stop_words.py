from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.text import identify as identify_module
from lycosa.text.identify import LANGUAGES, identify
from lycosa.text.stop_words import by_alphabet, by_words, has_words
from tests.text.data import sib200

LARGE_MODEL_SHARE = 0.004  # of the sentences of SIB-200 that may need the large model


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Это короткое русское предложение о погоде", "ru"),
        ("Бұл қазақ тіліндегі қысқа сөйлем", "kk"),
        ("Бу кыргыз тилиндеги кыскача сүйлөм, жаңы", ""),
        ("Энэ бол монгол хэл дээрх богино өгүүлбэр юм", ""),
        ("Ин ҷумлаи кӯтоҳ бо забони тоҷикӣ аст", "tg"),
        ("Це коротке речення українською мовою про погоду", "uk"),
        ("Він не приїде сюди, бо дуже пізно", "uk"),
        ("Він не піде туди, бо дуже пізно", ""),
        ("Това е кратко изречение на български език", ""),
        ("यह हिन्दी में एक छोटा वाक्य है", "hi"),
        ("यो नेपाली भाषाको एक छोटो वाक्य हो र यहाँ छ", "ne"),
        ("دا په پښتو ژبه کې لنډه جمله ده", "ps"),
        ("یہ اردو میں ایک چھوٹا جملہ ہے", ""),
        ("plain English", ""),
        ("", ""),
    ],
)
def test_alphabets(text: str, language: str) -> None:
    assert by_alphabet(text) == language


@pytest.mark.parametrize(
    ("text", "guessed", "sure", "language"),
    [
        ("Los turistas pueden visitar distintos puntos del país y de la costa", "", False, "es"),
        (
            "Cada um dos lugares tem a sua história e não se pode ver tudo em um dia",
            "gl",
            True,
            "pt",
        ),
        ("O lugar non se pode ver nun día, pero cando se vai co tempo é bo", "gl", True, "gl"),
        ("Det er en dansk side om vejret i dag, og den er ikke lang", "da", True, "da"),
        ("Kolme lyhyttä sanaa suomeksi", "fi", True, "fi"),
        ("INSTALL.txt.gz 04-Jul-2022 12:34 4109", "en", True, "en"),
        ("Ultimo show di Fire of Anatolia al Madison Square Garden, New York", "en", True, ""),
        ("Debian Ubuntu Fedora", "", False, ""),
    ],
)
def test_words(text: str, guessed: str, sure: bool, language: str) -> None:
    assert by_words(text, guessed, sure, LANGUAGES) == language


def test_names_of_files_are_no_words() -> None:
    assert not has_words("de/\nlos_das.png http://der.die.example/der/die\npt-br/")
    assert has_words("see de/ for")


def test_a_list_of_folders_has_no_language() -> None:
    assert identify("da/\nde/\nen/\nfr/\npt-br/").language == ""


def test_the_large_model_is_hardly_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[str] = []

    def note(sample: str, expected: frozenset[str] | None) -> tuple[str, float]:
        requests.append(sample)
        return "", 0.0

    monkeypatch.setattr(identify_module, "_by_bytes", note)
    sentences = [sentence for sentences in sib200().values() for sentence in sentences]
    for sentence in sentences:
        identify(sentence)
    assert len(requests) <= LARGE_MODEL_SHARE * len(sentences)


@given(
    st.text(max_size=200),
    st.sampled_from(["", "en", "gl", "fi", "zh"]),
    st.booleans(),
    st.sets(st.sampled_from(["xx", "en", "pt", "fi"])),
)
def test_never_raises(text: str, guessed: str, sure: bool, expected: set[str]) -> None:
    assert isinstance(by_words(text, guessed, sure, expected), str)
    assert isinstance(by_alphabet(text), str)
