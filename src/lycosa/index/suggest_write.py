"""Writing the file of suggestions (`index.suggest_file`)."""

from __future__ import annotations

import itertools
import json
import math
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from xxhash import xxh3_64_hexdigest

from lycosa.index.suggest_file import (
    FORMAT,
    HEAD,
    LARGE,
    LEAST_WEIGHT,
    MAGIC,
    MASKS,
    PREFIX,
    TOPS,
    WEIGHT_STEPS,
    WORD,
    KnownWord,
    Phrase,
    SuggestInfo,
    letters_mask,
    top_key,
)
from lycosa.index.suggest_fold import starts
from lycosa.index.suggest_texts import Row, chunk_arrays, packed, smallest, text_arrays, usual_fold, usual_text, word_arrays

LONGEST_PHRASE_BYTES = 400

_PLACES = 512  # more than a phrase has bytes: a row is a phrase's number times this, and where in it a word begins


def write(folder: Path, info: SuggestInfo, phrases: Sequence[Phrase], words: Sequence[KnownWord]) -> Path:
    """Write the file of these phrases and words into a folder. Memory: some 700 bytes a phrase, 300 a word."""
    languages = sorted({found.language for found in phrases} | {found.language for found in words})
    number = {language: place for place, language in enumerate(languages)}
    phrases = sorted(phrases, key=lambda found: (-found.weight, found.folded, found.language))
    texts = [_bytes(found.text) for found in phrases]
    folds = [_bytes(found.folded)[:LONGEST_PHRASE_BYTES] for found in phrases]
    words = sorted(words, key=lambda word: (number[word.language], len(word.folded), _bytes(word.folded)))
    groups: dict[str, dict[int, tuple[int, int]]] = {}
    for place, word in enumerate(words):
        of_language = groups.setdefault(word.language, {})
        first, _ = of_language.get(len(word.folded), (place, place))
        of_language[len(word.folded)] = first, place + 1
    sections: list[tuple[str, bool, int, int]] = []
    start_phrase, start_place = array("I"), array("H")
    tops: list[tuple[bytes, list[int]]] = []
    members: dict[tuple[str, bool], array[int]] = {}
    for place, found in enumerate(phrases):
        members.setdefault((found.language, found.kind == WORD), array("I")).append(place)
    for (language, single), places_of in sorted(members.items()):
        rows = [place * _PLACES + at for place in places_of for at in _byte_starts(phrases[place].folded, len(folds[place]))]
        rows.sort(key=lambda row: folds[row // _PLACES][row % _PLACES :])
        tops += [(top_key(len(sections), beginning), best) for beginning, best in _tops(rows, folds, 0, len(rows), 1)]
        sections.append((language, single, len(start_phrase), len(start_phrase) + len(rows)))
        start_phrase.extend(row // _PLACES for row in rows)
        start_place.extend(row % _PLACES for row in rows)
    tops.sort()
    arrays: dict[str, array[Any] | bytes] = {
        **text_arrays("text", texts),
        **text_arrays("folds", (b"" if usual_fold(text) == fold else fold for text, fold in zip(texts, folds, strict=True))),
        **word_arrays("words", map(_row, words)),
        **text_arrays("top_keys", (key for key, _ in tops)),
        "weight": array("H", (_weight_steps(found.weight) for found in phrases)),
        "language": smallest([number[found.language] for found in phrases]),
        "kind": array("B", (found.kind for found in phrases)),
        "pages": smallest([found.pages for found in phrases]),
        "start_low": array("H", (place & 0xFFFF for place in start_phrase)),
        "start_high": smallest([place >> 16 for place in start_phrase]),
        "start_place": smallest(start_place),
        "tops": smallest([place for _, best in tops for place in best]),
        **chunk_arrays("masks", (_masks(words[first : first + MASKS]) for first in range(0, len(words), MASKS))),
    }
    places: dict[str, tuple[str, int, int, bool]] = {}
    content = bytearray()
    for name, values in arrays.items():
        content += bytes(-len(content) % 8)
        start = len(content)
        made = b"" if isinstance(values, bytes) else packed(values)
        content += made or (values if isinstance(values, bytes) else values.tobytes())
        places[name] = ("B" if isinstance(values, bytes) else values.typecode), start, len(content), bool(made)
    document = {"info": asdict(info), "words": len(words), "languages": languages, "sections": sections, "groups": groups, "arrays": places}
    header = json.dumps(document).encode()
    header += b" " * (-(HEAD.size + len(header)) % 8)
    whole = HEAD.pack(MAGIC, FORMAT, len(header)) + header + content
    # The name tells the content, for a copy of a generation takes a file of the same name from the one before (`index.copies`).
    path = folder / f"{PREFIX}{xxh3_64_hexdigest(whole)}"
    path.write_bytes(whole)
    return path


def _tops(rows: Sequence[int], folds: Sequence[bytes], first: int, end: int, length: int) -> Iterator[tuple[bytes, list[int]]]:
    """The beginnings of at least so many bytes that more than `LARGE` rows have, and the best phrases of each."""
    if end - first <= LARGE:
        return

    def beginning_of(number: int) -> bytes:
        place, at = divmod(rows[number], _PLACES)
        return folds[place][at : at + length]

    for beginning, group in itertools.groupby(range(first, end), key=beginning_of):
        begun = list(group)
        if len(beginning) == length and len(begun) > LARGE:
            best = sorted({rows[row] // _PLACES for row in begun})[:TOPS]
            yield beginning, best + best[-1:] * (TOPS - len(best))
            yield from _tops(rows, folds, begun[0], begun[-1] + 1, length + 1)


def _byte_starts(phrase: str, end: int) -> Iterator[int]:
    """Where the words of a folded phrase begin, in bytes of UTF-8."""
    for place in starts(phrase):
        at = place if phrase.isascii() else len(_bytes(phrase[:place]))
        if at < end:
            yield at


def _masks(words: Sequence[KnownWord]) -> bytes:
    return array("Q", (letters_mask(word.folded) for word in words)).tobytes()


def _row(word: KnownWord) -> Row:
    folded, text = _bytes(word.folded), _bytes(word.text)
    return folded, b"" if usual_text(folded) == text else text, word.pages


def _weight_steps(weight: float) -> int:
    return min(max(round((math.log2(weight) - LEAST_WEIGHT) * WEIGHT_STEPS), 0), 0xFFFF) if weight > 0 else 0


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")
