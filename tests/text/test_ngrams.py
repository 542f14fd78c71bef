"""Language identification by n-grams, for short texts."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.text.identify import LANGUAGES, identify
from lycosa.text.ngrams import classify
from tests.text.data import sib200_numbered

SPACELESS = {"zh", "ja", "lo", "my", "bo"}
# Minimum macro accuracy over 27 languages on the half of SIB-200 that was not used for training:
# random strings of one to three words (three characters per word in scripts without spaces).
WORDS_FLOORS = {1: 0.78, 2: 0.9, 3: 0.94}


@pytest.mark.parametrize("words", WORDS_FLOORS)
def test_accuracy_on_one_to_three_words(words: int) -> None:
    shares = {}
    for language in sorted(LANGUAGES):
        rows = [text for _, text in sib200_numbered(language)]
        unseen = rows[len(rows) // 2 :]
        generator = random.Random(words)
        strings = [_string(sentence, words, language, generator) for sentence in unseen]
        correct = sum(identify(string).language == language for string in strings)
        shares[language] = correct / len(strings)
    assert len(shares) == 27
    assert sum(shares.values()) / 27 >= WORDS_FLOORS[words], shares


def _string(sentence: str, words: int, language: str, generator: random.Random) -> str:
    if language in SPACELESS:
        start = generator.randrange(max(1, len(sentence) - 3 * words))
        return sentence[start : start + 3 * words]
    units = sentence.split()
    start = generator.randrange(max(1, len(units) - words))
    return " ".join(units[start : start + words])


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Это короткое русское предложение о погоде", "ru"),
        ("Бұл қазақ тіліндегі қысқа сөйлем", "kk"),
        ("Бу кыргыз тилиндеги кыскача сүйлөм, жаңы", "ky"),
        ("Энэ бол монгол хэл дээрх богино өгүүлбэр юм", "mn"),
        ("Ин ҷумлаи кӯтоҳ бо забони тоҷикӣ аст", "tg"),
        ("यह हिन्दी में एक छोटा वाक्य है", "hi"),
        ("यो नेपाली भाषाको एक छोटो वाक्य हो र यहाँ छ", "ne"),
        ("دا په پښتو ژبه کې لنډه جمله ده", "ps"),
        ("یہ اردو میں ایک چھوٹا جملہ ہے", "ur"),
        ("plain English", "en"),
        ("Los turistas pueden visitar distintos puntos del país y de la costa", "es"),
        ("Cada um dos lugares tem a sua história e não se pode ver tudo em um dia", "pt"),
        ("", ""),
        ("2004 12:34", ""),
    ],
)
def test_languages_of_one_script_are_distinguished(text: str, language: str) -> None:
    assert classify(text, LANGUAGES).language == language


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Це коротке речення українською мовою про погоду", "uk"),
        ("Він не приїде сюди, бо дуже пізно", "uk"),
        ("Това е кратко изречение на български език", "bg"),
        ("Det er en dansk side om vejret i dag, og den er ikke lang", "da"),
        ("Kolme lyhyttä sanaa suomeksi, jotka ovat helppoja", "fi"),
        ("Ultimo show di Fire of Anatolia al Madison Square Garden, New York", "it"),
        ("da/\nde/\nen/\nfr/\npt-br/", ""),
        ("de/\nlos_das.png http://der.die.example/der/die\npt-br/", ""),
    ],
)
def test_languages_without_ngram_table_and_file_names(text: str, language: str) -> None:
    assert identify(text).language == language


def test_a_single_candidate_has_an_infinite_lead() -> None:
    assert classify("information", {"fr", "ja"})[:2] == ("fr", math.inf)
    assert classify("information", {"ja", "xx"}) == ("", 0.0, 0.0)


@given(st.text(max_size=200), st.sets(st.sampled_from(["xx", "en", "pt", "ru", "hi"])))
def test_never_raises(text: str, languages: set[str]) -> None:
    language, lead, _ = classify(text, languages)
    assert language in {"", *languages}
    assert lead >= 0
