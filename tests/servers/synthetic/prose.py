"""Text of the synthetic web: titles, paragraphs, slugs and names, as pure functions of a key."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from itertools import islice
from urllib.parse import quote

from tests.servers.synthetic.draw import draw
from tests.servers.synthetic.lexicon import LEXICONS

TOPIC_WORDS = 24
"""Number of content words of a page, few enough that pages differ in their words."""

_SENTENCE_PAIRS = 7  # a pair is a content word and a function word
_MIN_PARAGRAPH_PAIRS, _MAX_PARAGRAPH_PAIRS = 12, 40


class Writer:
    """Write the text of one page in one language."""

    __slots__ = ("_key", "_lexicon", "_names", "_topic")

    def __init__(self, language: str, key: int, about: Sequence[str] = ()) -> None:
        """
        Args:
            key: determines the text.
            about: words that are first in the title, and three times as frequent as others.
        """
        self._lexicon = LEXICONS[language]
        self._key = key
        chance = random.Random(key)
        self._topic = [*about, *chance.sample(self._lexicon.content, TOPIC_WORDS), *about, *about]
        self._names = [
            "".join(chance.choices(self._lexicon.syllables, k=3)).capitalize() for _ in range(4)
        ]

    def title(self) -> str:
        """Return a title of a few words and a name."""
        lexicon = self._lexicon
        words = lexicon.gap.join(self._topic[:3])
        return f"{words}{lexicon.gap}{self._names[0]}"

    def paragraph(self, number: int, revision: int) -> str:
        """Return paragraph `number` of the text. Each `revision` has different words."""
        lexicon = self._lexicon
        chance = random.Random(draw(self._key, number, revision))
        spread = _MAX_PARAGRAPH_PAIRS - _MIN_PARAGRAPH_PAIRS
        length = _MIN_PARAGRAPH_PAIRS + int(chance.random() * spread)
        words = chance.choices(self._topic, k=length)
        words[int(chance.random() * length)] = self._names[number % 4]
        function_words = chance.choices(lexicon.function, k=length)
        pairs = map(lexicon.glue.join, zip(words, function_words, strict=True))
        sentences = []
        while sentence := lexicon.gap.join(islice(pairs, _SENTENCE_PAIRS)):
            sentences.append(sentence[0].upper() + sentence[1:])
        return lexicon.stop.join(sentences) + lexicon.stop.strip()


def missing_text(language: str) -> str:
    """Return the text of a page for a missing URL."""
    return LEXICONS[language].missing


@cache
def _slug_words(language: str) -> tuple[str, ...]:
    return tuple(quote(word.lower()) for word in LEXICONS[language].content)


def slug(language: str, key: int, words: int = 3) -> str:
    """Return words joined by hyphens, percent-encoded if they are not ASCII."""
    vocabulary = _slug_words(language)
    parts = []
    for _ in range(words):
        key, index = divmod(key, len(vocabulary))
        parts.append(vocabulary[index])
    return "-".join(parts)
