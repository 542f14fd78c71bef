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
"""Content words of one page: pages differ in what they speak of, not only in the order of the same
words.
"""

_SENTENCE = 7  # pairs of words
_SHORTEST, _LONGEST = 12, 40  # pairs of a paragraph


class Writer:
    """Writes about one topic in one language."""

    __slots__ = ("_key", "_lexicon", "_names", "_topic")

    def __init__(self, language: str, key: int, about: Sequence[str] = ()) -> None:
        """`about`: words that come first in the title, and in the text three times as often as
        others.
        """
        self._lexicon = LEXICONS[language]
        self._key = key
        chance = random.Random(key)
        self._topic = [*about, *chance.sample(self._lexicon.content, TOPIC_WORDS), *about, *about]
        self._names = [
            "".join(chance.choices(self._lexicon.syllables, k=3)).capitalize() for _ in range(4)
        ]

    def title(self) -> str:
        """A few words and a name, the same for the whole life of a page."""
        lexicon = self._lexicon
        words = lexicon.gap.join(self._topic[:3])
        return f"{words}{lexicon.gap}{self._names[0]}"

    def paragraph(self, number: int, revision: int) -> str:
        """Paragraph `number` of the text; another `revision` has other words throughout."""
        lexicon = self._lexicon
        chance = random.Random(draw(self._key, number, revision))
        length = _SHORTEST + int(chance.random() * (_LONGEST - _SHORTEST))
        words = chance.choices(self._topic, k=length)
        words[int(chance.random() * length)] = self._names[number % 4]
        glue = lexicon.glue
        pairs = iter(
            [
                word + glue + binding
                for word, binding in zip(
                    words, chance.choices(lexicon.function, k=length), strict=True
                )
            ]
        )
        sentences = []
        while sentence := lexicon.gap.join(islice(pairs, _SENTENCE)):
            sentences.append(sentence[0].upper() + sentence[1:])
        return lexicon.stop.join(sentences) + lexicon.stop.strip()


def missing_text(language: str) -> str:
    """What a server says of a page that does not exist."""
    return LEXICONS[language].missing


@cache
def _slug_words(language: str) -> tuple[str, ...]:
    return tuple(quote(word.lower()) for word in LEXICONS[language].content)


def slug(language: str, key: int, words: int = 3) -> str:
    """Words joined by hyphens, percent-encoded where the language is not written in ASCII."""
    choice = _slug_words(language)
    picked = []
    for _ in range(words):
        key, index = divmod(key, len(choice))
        picked.append(choice[index])
    return "-".join(picked)
