"""Texts and their translations, line by line and sentence by sentence."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from lycosa.translation.align import aligned
from tests.text.data import sib200_numbered


def test_lines_that_one_side_lacks_are_left_out() -> None:
    english = [text for _, text in sib200_numbered("en")[:120]]
    german = [text for _, text in sib200_numbered("de")[:120]]
    generator = random.Random(7)
    gone, lacking = set(generator.sample(range(120), 6)), set(generator.sample(range(120), 6))
    one = "\n".join(text for place, text in enumerate(english) if place not in gone)
    other = "\n".join(text for place, text in enumerate(german) if place not in lacking)
    truth = set(zip(english, german, strict=True))
    result = list(aligned(one, other, "en", "de"))
    right = sum(pair in truth for pair in result)
    assert right >= 0.9 * len(result)
    assert right >= 0.85 * (120 - len(gone | lacking))


def test_sentences_of_a_paragraph_part_where_their_translations_do() -> None:
    english = [text for _, text in sib200_numbered("en")[:8]]
    chinese = [text for _, text in sib200_numbered("zh")[:8]]
    result = list(aligned(" ".join(english), "".join(chinese), "en", "zh"))
    assert len(set(result) & set(zip(english, chinese, strict=True))) >= 5


def test_code_and_numbers_hold_lines_together() -> None:
    one = "\n".join(
        f"Run the command lycosa{number} now" if number % 3 else "Then wait" for number in range(60)
    )
    other = "\n".join(f"Führen Sie jetzt lycosa{number} aus" for number in range(60) if number % 3)
    assert all(
        here.split()[3] == there.split()[3]
        for here, there in aligned(one, other, "en", "de")
        if here.startswith("Run")
    )


def test_what_was_not_translated_teaches_nothing() -> None:
    text = "This line stays in English\nls -l /usr/share\nAnd so does this one"
    assert list(aligned(text, text, "en", "de")) == []
    assert list(aligned(text, "", "en", "de")) == []


@given(st.text(max_size=300), st.text(max_size=300))
def test_any_texts_are_aligned(one: str, other: str) -> None:
    for here, there in aligned(one, other, "en", "zh"):
        assert here.strip()
        assert there.strip()
