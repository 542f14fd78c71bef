"""Digests of texts and differences between texts."""

from __future__ import annotations

import random
import re
import time
from difflib import unified_diff

import pytest
import xxhash
from bench.harness import cpu_ms
from hypothesis import given
from hypothesis import strategies as st

from lycosa.text.difference import CAME, GONE, MAX_SHOWN, SAME, Difference, difference
from lycosa.text.digest import distance, simhash, text_digest
from tests.text.data import sib200


def page(language: str, characters: int = 6_000) -> str:
    return "\n".join(sib200()[language])[:characters]


def test_digest_is_xxh3_of_the_utf8_bytes() -> None:
    assert text_digest("Straße 北京") == xxhash.xxh3_64_intdigest("Straße 北京".encode())
    assert text_digest("") == 0x2D06800538D394C2  # reference value of XXH3_64 for empty input


@given(st.text(alphabet=st.characters(exclude_categories=()), max_size=200))
def test_fingerprints_are_deterministic_and_have_64_bits(text: str) -> None:
    again = text.encode("utf-8", "surrogatepass").decode("utf-8", "surrogatepass")
    assert simhash(text) == simhash(again)
    assert 0 <= simhash(text) < 2**64
    assert 0 <= text_digest(text) < 2**64


@pytest.mark.parametrize("text", ["", " ", "\n\n  \t"])
def test_fingerprint_of_white_space_is_zero(text: str) -> None:
    assert simhash(text) == 0


@pytest.mark.parametrize("language", ["en", "ru", "ar", "hi", "zh", "ja", "lo"])
def test_small_edits_change_few_bits(language: str) -> None:
    text = page(language)
    generator = random.Random(7)
    for _ in range(5):
        place = generator.randrange(len(text) - 20)
        edited = text[:place] + generator.choice(["", "0", " edited here "]) + text[place + 4 :]
        assert distance(simhash(text), simhash(edited)) <= 6


@pytest.mark.parametrize("language", ["en", "ru", "ar", "hi", "zh", "ja", "lo"])
def test_different_texts_differ_in_many_bits(language: str) -> None:
    sentences = sib200()[language]
    assert distance(simhash("\n".join(sentences[:60])), simhash("\n".join(sentences[60:120]))) >= 8


def test_distance_grows_with_the_number_of_changed_words() -> None:
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
def test_digests_of_a_page_cost_a_fraction_of_finding_its_words() -> None:
    text = page("en", 15_000)
    words = re.compile(r"\w+")
    found = cpu_ms(lambda: [words.findall(text) for _ in range(100)])
    assert cpu_ms(lambda: [simhash(text) for _ in range(100)]) < found / 3
    assert cpu_ms(lambda: [text_digest(text) for _ in range(100)]) < found / 20


def patched(old: str, result: Difference) -> str:
    """Return the new text, computed from the old one and the difference."""
    before = old.split("\n") if old else []
    after: list[str] = []
    place = 0
    for piece in (piece for stretch in result.stretches for piece in stretch):
        if piece.kind in (SAME, GONE):
            assert tuple(before[piece.old : piece.old + len(piece.blocks)]) == piece.blocks
            after += before[place : piece.old]
            place = piece.old + len(piece.blocks)
        if piece.kind in (SAME, CAME):
            after += before[place : piece.old] if piece.kind == CAME else []
            place = max(place, piece.old) if piece.kind == CAME else place
            assert len(after) == piece.new
            after += piece.blocks
    return "\n".join(after + before[place:])


@pytest.mark.parametrize("seed", range(40))
def test_difference_applied_to_the_old_text_gives_the_new_text(seed: int) -> None:
    generator = random.Random(seed)
    words = [f"block {number}" for number in range(generator.choice((2, 5, 40, 400)))]
    old = generator.choices(words, k=generator.randrange(0, 120))
    new = [block for block in old if generator.random() > 0.2]
    for _ in range(generator.randrange(0, 20)):
        new.insert(generator.randrange(0, len(new) + 1), generator.choice(words))
    before, after = "\n".join(old), "\n".join(new)
    result = difference(before, after)
    assert patched(before, result) == after
    assert (bool(result), len(new) - len(old)) == (before != after, result.came - result.gone)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a\nb\nc", "a\nx\nc"),
        ("", "a"),
        ("a", ""),
        ("a\nb\nc\nd\ne\nf\ng", "a\nb\nC\nd\ne\nf\nG"),
        ("a", "a"),
    ],
)
def test_unified_diff_equals_that_of_difflib(old: str, new: str) -> None:
    expected = list(
        unified_diff(
            old.split("\n") if old else [], new.split("\n") if new else [], lineterm="", n=1
        )
    )[2:]
    assert list(difference(old, new).lines()) == expected


def _alternating(count: int) -> tuple[str, str]:
    return "\n".join("ab"[number % 2] for number in range(count)), "\n".join(
        "ba"[number % 3 % 2] for number in range(count)
    )


def _shuffled(count: int) -> tuple[str, str]:
    lines = [str(number) for number in range(count)]
    return "\n".join(lines), "\n".join(random.Random(1).sample(lines, count))


def _nested(count: int) -> tuple[str, str]:
    """Return texts in which only one block at a time is unique."""
    old = [str(number // 2) for number in range(count)]
    return "\n".join(old), "\n".join(old[::-1])


@pytest.mark.parametrize("make", [_alternating, _shuffled, _nested])
def test_time_of_a_difference_is_not_quadratic(make: object) -> None:
    """Ten times the blocks must take less than a hundred times as long."""
    assert callable(make)
    seconds = []
    for count in (8_000, 80_000):
        old, new = make(count)
        begin = time.process_time()
        result = difference(old, new)
        seconds.append(time.process_time() - begin)
        assert result
        assert (
            sum(
                len(piece.blocks)
                for stretch in result.stretches
                for piece in stretch
                if piece.kind != SAME
            )
            <= MAX_SHOWN
        )
        assert result.cut
    assert seconds[1] < 40 * seconds[0] + 2.0
