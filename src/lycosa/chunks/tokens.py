"""Estimate the number of tokens of a text, and budgets of chunks.

Tokenizers differ by model. The estimate needs none, and is meant to be a little too high for the
tokenizers of current multilingual models. Callers with a tokenizer pass its counting function.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from lycosa.core.errors import UsageError

MIN_LIMIT = 16
"""Smallest budget: any single character fits."""

_WIDE = (
    "\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Tibetan, Burmese, Khmer
    "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"  # Kana, Han, Hangul
    "\U00010000-\U0010ffff"  # among them emoji
)
_SIGNS = r"!-/:-@\[-`{-~"
# A character of a script that tokenizers cut finely, a sign, or up to four other characters.
_TOKEN = re.compile(rf"[{_WIDE}]|[{_SIGNS}]{{1,2}}|[^\s{_SIGNS}{_WIDE}]{{1,4}}")


def estimated_tokens(text: str) -> int:
    """Return about how many tokens a language model makes of a text. Hot path: bench/passages.py.

    A token is up to four letters of a word, one or two signs, or one character of a script without
    spaces.
    """
    return len(_TOKEN.findall(text))


@dataclass(slots=True, frozen=True)
class ChunkBudget:
    """The maximum size of a text, by a function that counts.

    Raises:
        UsageError: the limit is too small.
    """

    limit: int
    count: Callable[[str], int] = estimated_tokens

    def __post_init__(self) -> None:
        if self.limit < MIN_LIMIT:
            raise UsageError(
                f"a budget of {self.limit} is too small: it must be {MIN_LIMIT} or more"
            )

    def fits(self, text: str) -> bool:
        """Return whether a text is within the budget."""
        return self.count(text) <= self.limit


def budget_of(max_tokens: int = 0, max_characters: int = 0, *, default_tokens: int) -> ChunkBudget:
    """Return a budget of tokens, or of characters.

    Raises:
        UsageError: both are given, or the limit is too small.
    """
    for name, value in (("max_tokens", max_tokens), ("max_characters", max_characters)):
        if not isinstance(value, int) or value < 0:  # the options are made before they are checked
            raise UsageError(f"{name}: {value!r} is not an integer of at least 0")
    if max_tokens and max_characters:
        raise UsageError("choose a maximum of tokens or of characters, not both")
    if max_characters:
        return ChunkBudget(max_characters, len)
    return ChunkBudget(max_tokens or default_tokens)
