from __future__ import annotations

import pytest

from lycosa.index.schema import outside


@pytest.mark.parametrize(
    ("text", "main_text", "rest"),
    [
        ("menu\nfirst\nsecond\nfoot", "first\nsecond", "menu\nfoot"),
        ("first\nsecond\nfoot", "first\nsecond", "foot"),
        ("menu\nfirst\nsecond", "first\nsecond", "menu"),
        ("menu\nfirst\naside\nsecond\nfoot", "first\nsecond", "menu\naside\nfoot"),
        ("first line\nfirst\nfoot", "first", "first line\nfoot"),
        ("a\nx\na\nb\nfoot", "a\nb", "a\nx\nfoot"),
        ("\n".join(["a"] * 20 + ["b", "foot"]), "a\nb", "\n".join(["a"] * 19 + ["foot"])),
        ("same", "same", ""),
        ("all of it", "", "all of it"),
        ("", "", ""),
    ],
)
def test_what_is_outside_the_main_text(text: str, main_text: str, rest: str) -> None:
    assert outside(text, main_text) == rest
