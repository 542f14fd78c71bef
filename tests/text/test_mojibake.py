from __future__ import annotations

import pytest

from tests.text.data import declaration, declaration_languages, sib200
from tests.text.mojibake import damaged_places


def _as_windows_1252(text: str) -> str:
    return "".join(bytes([byte]).decode("cp1252", "ignore") or chr(byte) for byte in text.encode())


@pytest.mark.parametrize("stem", declaration_languages())
def test_good_text_has_none_and_double_encoded_text_has(stem: str) -> None:
    text = "\n".join(declaration(stem).values())
    assert damaged_places(text) == 0
    if sum(character > "\x7f" for character in text) > 20:
        assert damaged_places(_as_windows_1252(text)) > 5


def test_sentences_of_sib_200() -> None:
    """Its Indonesian and Filipino files hold double-encoded dashes and letters; no other file
    does.
    """
    damaged = {stem for stem, sentences in sib200().items() if any(map(damaged_places, sentences))}
    assert damaged == {"id", "tl"}


def test_replaced_characters_count() -> None:
    assert damaged_places("caf\ufffd") == 1
    assert damaged_places("l’Ã‰cole dâ€™Ã©tÃ©") >= 3
    assert damaged_places("SÃO PAULO, Ã, Â « Â »") == 0
