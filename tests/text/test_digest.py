from __future__ import annotations

import random

import pytest
import xxhash
from bench.harness import cpu_ms
from hypothesis import given
from hypothesis import strategies as st

from lycosa.text.digest import distance, simhash, text_digest
from tests.text.data import sib200


def page(language: str, characters: int = 6_000) -> str:
    return "\n".join(sib200()[language])[:characters]


def test_digest_is_xxh3_of_the_utf8_bytes() -> None:
    assert text_digest("Straße 北京") == xxhash.xxh3_64_intdigest("Straße 北京".encode())
    assert text_digest("") == 0x2D06800538D394C2  # the reference value of XXH3_64 for no input


@given(st.text(alphabet=st.characters(exclude_categories=()), max_size=200))
def test_fingerprints_are_functions_into_64_bits(text: str) -> None:
    again = text.encode("utf-8", "surrogatepass").decode("utf-8", "surrogatepass")
    assert simhash(text) == simhash(again)
    assert 0 <= simhash(text) < 2**64
    assert 0 <= text_digest(text) < 2**64


@pytest.mark.parametrize("text", ["", " ", "\n\n  \t"])
def test_nothing_has_fingerprint_zero(text: str) -> None:
    assert simhash(text) == 0


@pytest.mark.parametrize("language", ["en", "ru", "ar", "hi", "zh", "ja", "lo"])
def test_small_edits_move_few_bits(language: str) -> None:
    text = page(language)
    generator = random.Random(7)
    for _ in range(5):
        place = generator.randrange(len(text) - 20)
        edited = text[:place] + generator.choice(["", "0", " edited here "]) + text[place + 4 :]
        assert distance(simhash(text), simhash(edited)) <= 6


@pytest.mark.parametrize("language", ["en", "ru", "ar", "hi", "zh", "ja", "lo"])
def test_another_text_is_far(language: str) -> None:
    sentences = sib200()[language]
    assert distance(simhash("\n".join(sentences[:60])), simhash("\n".join(sentences[60:120]))) >= 8


def test_distance_grows_with_the_share_that_differs() -> None:
    words = page("en", 15_000).split()
    generator = random.Random(1)
    distances = []
    for changed in (2, 100, 1_500):
        edited = list(words)
        for place in generator.sample(range(len(words)), changed):
            edited[place] = f"word{generator.randrange(10**6)}"
        distances.append(distance(simhash(" ".join(words)), simhash(" ".join(edited))))
    assert distances == sorted(distances)
    assert distances[0] <= 2
    assert distances[2] >= 12


@pytest.mark.prove
def test_cost() -> None:
    text = page("en", 15_000)
    assert cpu_ms(lambda: [simhash(text) for _ in range(100)]) / 100 < 0.1
    assert cpu_ms(lambda: [text_digest(text) for _ in range(100)]) / 100 < 0.1
