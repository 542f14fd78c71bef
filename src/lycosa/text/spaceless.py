"""Analyzers of scripts without spaces: Chinese, Japanese, Burmese and Lao. Hot path."""

from __future__ import annotations

import functools
import itertools
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence

from icu4py.breakers import WordBreaker

from lycosa.text import fold
from lycosa.text.segmented import (
    LETTERS,
    MAX_CHARACTERS,
    MEMO_CHUNKS,
    MEMO_WORDS,
    SIGNS,
    StreamsAnalyzer,
    Unit,
    both_streams,
    clean,
    same,
)

# Chinese and Japanese words that folding does not change.
_PLAIN_CJK = re.compile(f"[\u3041-\u3096\u30a1-\u30fa\u30fc\u4e00-\u9fff]{{1,{MAX_CHARACTERS}}}")
_LETTERS = LETTERS.removesuffix("\uac00-\ud7a3")  # without Hangul
_CJK = "\u3005\u3041-\u3096\u30a1-\u30fa\u30fc\u4e00-\u9fff"
_CJK_RUNS = re.compile(f"[{_CJK}]+|[^\\W_{_CJK}]+")
_NOT_USUAL_CJK = re.compile(
    f"[^0-9{_LETTERS}{SIGNS}\\s{_CJK}"
    "\u3001\u3002\u3008-\u3011\u301c\u30fb\uff01-\uff3e\uff40-\uff5e]"
)
_JOINED_CJK = re.compile(f"_(?=[{_CJK}])|_(?<=[{_CJK}]_)")


class PartsAnalyzer(StreamsAnalyzer):
    """Scripts without spaces: first all characters or syllables, then the words of several.

    A word of a query is a phrase of its parts, so that it matches regardless of the segmentation of
    the text; whole words rank higher. Words by ICU are cached.
    """

    def __init__(
        self,
        language: str,
        parts: Callable[[str], Sequence[str]],
        *,
        name: str,
        version: str,
        prepare: Callable[[str], str] | None = None,
        in_place: bool = False,
    ) -> None:
        """`in_place`: `prepare` replaces single characters."""
        super().__init__(language, same, name=name, version=version, prepare=prepare)
        self._parts = parts
        self._in_place = in_place

    def surfaces(self, text: str) -> list[str]:
        """Return the words of the text, in their original spelling if `in_place`."""
        ready = clean(self.prepare(text))
        words = list(WordBreaker(ready, self.language))
        if not self._in_place or (written := clean(fold.with_names(text))) == ready:
            return words
        ends = list(itertools.accumulate(map(len, words)))
        return [written[start:end] for start, end in zip([0, *ends], ends, strict=False)]

    def units_of(self, surface: str) -> Iterable[Unit]:
        """Return parts in the prepared script; the word keeps its script, to rank it first."""
        for term in (surface,) if _PLAIN_CJK.fullmatch(surface) else self._word(surface):
            if term.isascii():
                yield Unit((term,), "", surface)
            else:
                parts = self._parts_of(term)
                yield Unit(tuple(parts), term if len(parts) > 1 else "", surface)

    def _parts_of(self, term: str) -> Sequence[str]:
        return self._parts(term if self._prepare_letters is None else self._prepare_letters(term))


class CharacterAnalyzer(PartsAnalyzer):
    """Chinese and Japanese: characters, then words. Runs of characters are cached.

    Usual texts are split into runs by `re`, and ICU segments all new runs together. Texts with
    other signs are analysed by `PartsAnalyzer`, with the same result.
    """

    def __init__(
        self, language: str, *, name: str, version: str, prepare: Callable[[str], str] | None = None
    ) -> None:
        """`prepare` must preserve the length of a text."""
        super().__init__(
            language, characters_of, name=name, version=version, prepare=prepare, in_place=True
        )

    def _clear(self) -> None:
        super()._clear()
        # run -> its characters or terms; -> the words in it, in the form of `Terms`
        self._runs: tuple[dict[str, str], dict[str, str]] = {}, {}

    def marked(self, text: str) -> str:
        written = clean(fold.with_names(text))
        if not all(map(_parts_words, set(_NOT_USUAL_CJK.findall(written)))) or (
            "_" in written and _JOINED_CJK.search(written)
        ):
            return super().marked(text)
        if len(self._runs[0]) > MEMO_CHUNKS:
            self._clear()
        parts, words = self._runs
        runs = _CJK_RUNS.findall(written)
        unknown = set(runs).difference(words)
        if unknown:
            new = [run for run in unknown if "\u3000" < run < "\ua000"]
            if not self._learn_runs(new, parts, words):
                return super().marked(text)
            if len(self._terms) > MEMO_WORDS:
                self._terms = self._new_terms()
            # words recur, runs hardly do
            for word in unknown.difference(new):
                words[word], parts[word] = "", self._terms[word]
        return both_streams(parts, words, runs)

    def _learn_runs(
        self, runs: Sequence[str], parts: dict[str, str], words: dict[str, str]
    ) -> bool:
        """Cache runs; return False if a word is so long that it may not be a term."""
        if not runs:
            return True
        written = ready = "\n".join(runs)
        if self._prepare_letters is not None:
            ready = self._prepare_letters(written)
        cut = list(WordBreaker(ready, self.language))
        if len(max(cut, key=len)) > MAX_CHARACTERS:
            return False
        if ready != written:
            ends = list(itertools.accumulate(map(len, cut)))
            cut = [written[start:end] for start, end in zip([0, *ends], ends, strict=False)]
        mark = self._mark
        several = [
            word if word == "\n" else f"{mark}{word} "
            for word in cut
            if len(word) > 1 or word == "\n"
        ]
        # six times as fast as a join
        characters = ready.replace("", f" {mark}")[1 : -len(mark)]
        parts.update(zip(runs, characters.split(f"{mark}\n "), strict=True))
        words.update(zip(runs, "".join(several).split("\n"), strict=True))
        return True


@functools.cache
def _parts_words(sign: str) -> bool:
    """Return whether ICU always ends a word at this sign, and no term contains it."""
    usual = (
        unicodedata.category(sign) in ("So", "Sm", "Sc", "Po", "Ps", "Pe", "Pi", "Pf", "Pd", "Cn")
        and not "\u3012" <= sign <= "\u33ff"
    )
    return usual and not any(
        character.isalnum() or unicodedata.category(character)[0] == "M"
        for character in fold.plain(sign)
    )


def characters_of(term: str) -> Sequence[str]:
    """Return the characters of a Chinese or Japanese word; other words are one part."""
    return term if _is_cjk(term) else (term,)


def _is_cjk(term: str) -> bool:
    first = term[0]
    return (
        "\u3005" <= first <= "\u9fff"
        or "\uf900" <= first <= "\ufaff"
        or "\U00020000" <= first <= "\U0003ffff"
    )
