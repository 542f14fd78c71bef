"""Write the file of suggestions (`index.suggest.file`)."""

from __future__ import annotations

import json
import struct
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import zstandard
from xxhash import xxh3_64_hexdigest

from lycosa.index.suggest.file import (
    HEAD,
    LARGE,
    MAGIC,
    MASK_ROWS,
    MIN_WEIGHT,
    PLACE_BITS,
    PREFIX,
    TEXT_ROWS,
    TOPS,
    WEIGHT_STEPS,
    WORD,
    SuggestInfo,
    usual_fold,
    usual_spelling,
)
from lycosa.index.suggest.normalise import CYRILLIC, HAN_AND_KANA, MAX_STARTS, starts

MAX_PHRASE_BYTES = 400
PHRASES = pl.Schema(
    {
        "language": pl.String,
        "folded": pl.String,
        "text": pl.String,
        "kind": pl.Int32,
        "pages": pl.Int64,
        "weight": pl.Float64,
    }
)
"""`folded` has 1 to `MAX_PHRASE_BYTES` bytes and is unique within a language."""
WORDS = pl.Schema(
    {"language": pl.String, "text": pl.String, "folded": pl.String, "pages": pl.Int64}
)
"""`folded` is unique within a language."""
_LEVEL = 5  # of zstd: 9 makes the file 1.4 % smaller, and writing it takes 1.08 times as long
_LETTERS = f"0-9A-Za-z{CYRILLIC}"
_PHRASES_AT_ONCE = 16_384
_PLAIN = f"^[{_LETTERS}{HAN_AND_KANA}][\\x00-\\x7f{_LETTERS}{HAN_AND_KANA}]*$"
"""Matches a phrase that is a sequence of `_WORDS`, each with its trailing separators."""
_WORDS = f"(?:[{HAN_AND_KANA}][{_LETTERS}]*|[{_LETTERS}]+)[^{HAN_AND_KANA}{_LETTERS}]*"
_TYPES = {array(kind).itemsize: kind for kind in "BHIQ"}

Numbers = npt.NDArray[Any]
Arrays = dict[str, Numbers | bytes]


def write(folder: Path, info: SuggestInfo, phrases: pl.DataFrame, words: pl.DataFrame) -> Path:
    """Write the file of these `PHRASES` and `WORDS` into a folder. Hot path: bench/search.py."""
    languages = sorted({*phrases["language"].unique(), *words["language"].unique()})
    phrases = phrases.sort("weight", "folded", "language", descending=[True, False, False])
    words = words.with_columns(letters=pl.col("folded").str.len_chars()).sort(
        "language", "letters", "folded"
    )
    sections, numbers, tops = _sections(phrases)
    usual = map(usual_fold, phrases["text"])
    usual_text = map(usual_spelling, words["folded"])
    codes = {language: code for code, language in enumerate(languages)}
    steps = np.log2(np.maximum(phrases["weight"].to_numpy(), 2.0**MIN_WEIGHT)) - MIN_WEIGHT
    arrays: Arrays = {
        **_text_arrays("texts", phrases["text"]),
        **_text_arrays("folds", _unless_equal(phrases["folded"], usual)),
        **_text_arrays("words", words["folded"]),
        **_text_arrays("spellings", _unless_equal(words["text"], usual_text)),
        **_chunk_arrays("masks", _masks(words["folded"])),
        "weight": np.clip(np.rint(steps * WEIGHT_STEPS), 0, 0xFFFF),
        "language": phrases["language"].replace_strict(codes, return_dtype=pl.UInt16).to_numpy(),
        "kind": phrases["kind"].to_numpy(),
        "pages": phrases["pages"].to_numpy(),
        "word_pages": words["pages"].to_numpy(),
        "starts": numbers,
        "tops": np.array(tops, dtype=np.int64),
    }
    header = {
        "info": asdict(info),
        "languages": languages,
        "phrases": phrases.height,
        "words": words.height,
        "sections": sections,
        "groups": _groups(words),
    }
    whole = _joined(header, arrays)
    # The name depends on the content: copies of a generation reuse files of the same name.
    path = folder / f"{PREFIX}{xxh3_64_hexdigest(whole)}"
    path.write_bytes(whole)
    return path


def _sections(phrases: pl.DataFrame) -> tuple[list[list[Any]], Numbers, list[int]]:
    """Return the fields of the sections, their starts, and the best phrases of large prefixes."""
    sections: list[list[Any]] = []
    numbers = [np.zeros(0, np.int64)]
    tops: list[int] = []
    end = 0
    rows = _starts(phrases["folded"], pl.Series(range(phrases.height)))
    keys = phrases.select("language", words=pl.col("kind") == WORD)
    parts = rows.hstack(keys[rows["start"] // 2**PLACE_BITS]).partition_by(
        keys.columns, maintain_order=True, include_key=False, as_dict=True
    )
    for (language, words), section in sorted(parts.items(), key=itemgetter(0)):
        places = {}
        for prefix, best in _large_prefixes(section):
            places[prefix] = len(tops) // TOPS
            tops += best
        sections.append([language, words, end, end + section.height, places])
        numbers.append(section["start"].to_numpy())
        end += section.height
    return sections, np.concatenate(numbers), tops


def _starts(folded: pl.Series, numbers: pl.Series) -> pl.DataFrame:
    """Return the word starts of phrases in order: suffix, start."""
    phrases = pl.DataFrame({"folded": folded, "number": numbers.cast(pl.Int64)})
    parts = [_starts_of(part) for part in phrases.iter_slices(_PHRASES_AT_ONCE)]
    return pl.concat(parts or [_starts_of(phrases)]).sort("suffix", "start")


def _starts_of(phrases: pl.DataFrame) -> pl.DataFrame:
    """Return `normalise.starts` of phrases: without a loop in Python for most of them."""
    is_plain = phrases["folded"].str.contains(_PLAIN)
    length = pl.col("text").str.len_chars().cast(pl.Int64)
    before = length.cum_sum() - length  # characters of the rows above
    plain = (
        phrases.filter(is_plain)
        .with_columns(text="folded")
        .with_columns(first=before, text=pl.col("text").str.extract_all(_WORDS))
        .explode("text")
        .with_columns(place=before - pl.col("first"))
        .group_by("number", maintain_order=True)
        .head(MAX_STARTS)
    )
    other = phrases.filter(~is_plain)
    places = pl.Series(map(starts, other["folded"]), dtype=pl.List(pl.Int64))
    each = pl.concat([other.with_columns(place=places).explode("place"), plain], how="diagonal")
    return each.select(
        suffix=pl.col("folded").str.slice("place"),
        start=pl.col("number") * 2**PLACE_BITS + pl.col("place"),
    )


def _large_prefixes(rows: pl.DataFrame) -> Iterator[tuple[str, list[int]]]:
    """Yield the prefixes of more than `LARGE` starts of a section, with their best phrases.

    They have at least `TOPS`: a phrase has at most `MAX_STARTS` starts.
    """
    length = 1
    while True:
        rows = rows.filter(pl.col("suffix").str.len_chars() >= length).with_columns(
            prefix=pl.col("suffix").str.head(length)
        )
        rows = rows.filter(pl.len().over("prefix") > LARGE)
        if not rows.height:
            return
        best = (pl.col("start") // 2**PLACE_BITS).unique().bottom_k(TOPS).sort()
        yield from rows.group_by("prefix", maintain_order=True).agg(best).iter_rows()
        length += 1


def _groups(words: pl.DataFrame) -> dict[str, dict[int, tuple[int, int]]]:
    """Return language -> letters -> range of its words."""
    groups: dict[str, dict[int, tuple[int, int]]] = {}
    end = 0
    for language, letters, count in (
        words.group_by("language", "letters", maintain_order=True).len().iter_rows()
    ):
        groups.setdefault(language, {})[letters] = end, end + count
        end += count
    return groups


def _masks(words: pl.Series) -> Iterator[bytes]:
    """Yield the chunks of `file.letters_mask` of words."""
    for first in range(0, len(words), MASK_ROWS):
        part = words.slice(first, MASK_ROWS)
        letters = np.frombuffer("".join(part.to_list()).encode("utf-32-le"), np.uint32)
        lengths = part.str.len_chars().to_numpy()
        begin = np.cumsum(lengths, dtype=np.int64) - lengths
        bits = np.uint64(1) << (letters % 64).astype(np.uint64)
        yield np.bitwise_or.reduceat(bits, begin).tobytes()


def _text_arrays(name: str, texts: Iterable[str]) -> Arrays:
    """Return the arrays of `file.TextColumn`."""

    def chunks() -> Iterator[bytes]:
        rest = map(str.encode, texts)
        while part := list(islice(rest, TEXT_ROWS)):
            yield struct.pack(f"<{len(part)}H", *map(len, part)) + b"".join(part)

    return _chunk_arrays(name, chunks())


def _chunk_arrays(name: str, chunks: Iterable[bytes]) -> Arrays:
    """Return the arrays of byte strings that are compressed one by one."""
    compressor = zstandard.ZstdCompressor(level=_LEVEL)
    parts = [compressor.compress(chunk) for chunk in chunks]
    return {
        name: b"".join(parts),
        f"{name}_starts": np.cumsum([0, *map(len, parts)], dtype=np.int64),
    }


def _unless_equal(texts: Iterable[str], usual: Iterable[str]) -> Iterator[str]:
    """Return the texts, "" in place of those that equal the usual ones."""
    return ("" if text == other else text for text, other in zip(texts, usual, strict=True))


def _joined(header: dict[str, Any], arrays: Arrays) -> bytes:
    """Return the bytes of the file."""
    compressor = zstandard.ZstdCompressor(level=_LEVEL)
    places: dict[str, tuple[int, int]] = {}
    types: dict[str, str] = {}
    content = bytearray()
    for name, values in arrays.items():
        start = len(content)
        if isinstance(values, bytes):
            content += values
        else:
            smallest = values.astype(np.min_scalar_type(int(values.max(initial=0))))
            types[name] = _TYPES[smallest.itemsize]
            content += compressor.compress(smallest.tobytes())
        places[name] = start, len(content)
    head = compressor.compress(json.dumps(header | {"arrays": places, "types": types}).encode())
    return HEAD.pack(MAGIC, len(head)) + head + content
