"""Writing the file of suggestions (`index.suggest.file`), in columns: no object for each phrase or
word.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
from xxhash import xxh3_64_hexdigest

from lycosa.index.suggest.arrays import (
    Column,
    Written,
    all_starts,
    masks,
    packed,
    smallest,
    suffix_order,
    text_arrays,
    word_arrays,
)
from lycosa.index.suggest.file import (
    FORMAT,
    HEAD,
    LARGE,
    MAGIC,
    MIN_WEIGHT,
    PREFIX,
    TOPS,
    WEIGHT_STEPS,
    WORD,
    SuggestInfo,
    top_key,
)
from lycosa.index.suggest.texts import usual_fold, usual_text

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
"""What phrases are. `folded` is not empty, and of `MAX_PHRASE_BYTES` at most; a language has
each once.
"""
WORDS = pl.Schema(
    {"language": pl.String, "text": pl.String, "folded": pl.String, "pages": pl.Int64}
)
"""What words are; a language has each `folded` once."""

_Rows = npt.NDArray[np.int64]


def write(folder: Path, info: SuggestInfo, phrases: pl.DataFrame, words: pl.DataFrame) -> Path:
    """Write the file of these `PHRASES` and `WORDS` into a folder. Hot path: bench/search.py."""
    languages = sorted({*phrases["language"].unique(), *words["language"].unique()})
    number = {language: place for place, language in enumerate(languages)}
    phrases = phrases.with_columns(place=_numbers(number)).sort(
        "weight", "folded", "language", descending=[True, False, False]
    )
    words = words.with_columns(
        place=_numbers(number), letters=pl.col("folded").str.len_chars()
    ).sort("place", "letters", "folded")
    folds = Column.of(phrases["folded"])
    section = (
        phrases["place"].to_numpy().astype(np.int64) * 2 + (phrases["kind"] == WORD).to_numpy()
    )
    start_phrase, start_place = all_starts(phrases["folded"].to_list())
    begin = folds.starts[start_phrase] + start_place
    order = suffix_order(folds.whole, begin, folds.starts[start_phrase + 1], section[start_phrase])
    start_phrase, start_place, begin = start_phrase[order], start_place[order], begin[order]
    sections: list[tuple[str, bool, int, int]] = []
    tops: list[tuple[bytes, list[int]]] = []
    sorted_sections = section[start_phrase]
    for place, name in enumerate(np.unique(section).tolist()):
        first, end = np.searchsorted(sorted_sections, [name, name + 1]).tolist()
        sections.append((languages[name // 2], bool(name % 2), first, end))
        rows = np.arange(first, end)
        for beginning, best in _tops(folds, start_phrase, begin, rows, 1):
            tops.append((top_key(place, beginning), best))
    tops.sort()
    usual = _same(
        phrases["text"],
        phrases["folded"],
        usual_fold,
        phrases["text"].str.to_lowercase() == phrases["folded"],
    )
    told = _same(words["folded"], words["text"], usual_text, words["folded"] == words["text"])
    arrays: dict[str, Written] = {
        **text_arrays("text", Column.of(phrases["text"])),
        **text_arrays("folds", Column.of(_unless(usual, phrases["folded"]))),
        **word_arrays(
            "words",
            Column.of(words["folded"]),
            Column.of(_unless(told, words["text"])),
            words["pages"].to_numpy(),
        ),
        **text_arrays("top_keys", Column.of(pl.Series([key for key, _ in tops], dtype=pl.Binary))),
        "weight": _weight_steps(phrases["weight"].to_numpy()),
        "language": smallest(phrases["place"].to_numpy()),
        "kind": phrases["kind"].cast(pl.UInt8).to_numpy(),
        "pages": smallest(phrases["pages"].to_numpy()),
        "start_low": (start_phrase & 0xFFFF).astype(np.uint16),
        "start_high": smallest(start_phrase >> 16),
        "start_place": smallest(start_place),
        "tops": smallest(np.array([best for _, best in tops], dtype=np.int64).reshape(-1)),
        **masks("masks", words["folded"]),
    }
    places: dict[str, tuple[str, int, int, bool]] = {}
    content = bytearray()
    for name_of, values in arrays.items():
        content += bytes(-len(content) % 8)
        start = len(content)
        made = b"" if isinstance(values, bytes) else packed(values)
        content += made or (values if isinstance(values, bytes) else values.tobytes())
        kind = "B" if isinstance(values, bytes) else _KINDS[values.itemsize]
        places[name_of] = kind, start, len(content), bool(made)
    groups = _groups(words)
    document = {
        "info": asdict(info),
        "words": words.height,
        "languages": languages,
        "sections": sections,
        "groups": groups,
        "arrays": places,
    }
    header = json.dumps(document).encode()
    header += b" " * (-(HEAD.size + len(header)) % 8)
    whole = HEAD.pack(MAGIC, FORMAT, len(header)) + header + content
    # The name tells the content, for a copy of a generation takes a file of the same name from the
    # one before (`index.shards.copies`).
    path = folder / f"{PREFIX}{xxh3_64_hexdigest(whole)}"
    path.write_bytes(whole)
    return path


_KINDS = {array(kind).itemsize: kind for kind in "BHIQ"}


def _numbers(number: dict[str, int]) -> pl.Expr:
    return pl.col("language").replace_strict(number, default=0, return_dtype=pl.UInt16)


def _groups(words: pl.DataFrame) -> dict[str, dict[int, tuple[int, int]]]:
    """Language -> letters -> the first of its words in their order, and the end of them."""
    found: dict[str, dict[int, tuple[int, int]]] = {}
    end = 0
    for language, letters, count in (
        words.group_by("language", "letters", maintain_order=True).len().iter_rows()
    ):
        found.setdefault(language, {})[letters] = end, end + count
        end += count
    return found


def _tops(
    folds: Column, phrase: _Rows, begin: _Rows, rows: _Rows, length: int
) -> Iterator[tuple[bytes, list[int]]]:
    """The beginnings of at least so many bytes that more than `LARGE` of these rows have, and the
    best phrases of each.
    """
    if len(rows) <= LARGE:
        return
    at = begin[rows] + length - 1
    rows, at = rows[at < folds.starts[phrase[rows] + 1]], at[at < folds.starts[phrase[rows] + 1]]
    edges = np.flatnonzero(np.diff(folds.whole[at])) + 1
    for group in np.split(rows, edges):
        if len(group) > LARGE:
            first = int(begin[group[0]])
            best = np.unique(phrase[group])[:TOPS].tolist()
            yield (
                folds.whole[first : first + length].tobytes(),
                best + best[-1:] * (TOPS - len(best)),
            )
            yield from _tops(folds, phrase, begin, group, length + 1)


def _same(
    texts: pl.Series, wanted: pl.Series, usual: Callable[[bytes], bytes], plainly: pl.Series
) -> pl.Series:
    """Of which texts `usual` makes what is wanted; `plainly`: what of the ASCII ones."""
    is_ascii = texts.str.len_bytes() == texts.str.len_chars()
    odd = texts.filter(~is_ascii)
    made = usual("\n".join(odd.to_list()).encode()).decode().split("\n") if len(odd) else []
    found = np.array(plainly & is_ascii)
    found[(~is_ascii).to_numpy()] = (
        pl.Series(made, dtype=pl.String) == wanted.filter(~is_ascii)
    ).to_numpy()
    return pl.Series(found)


def _unless(said: pl.Series, texts: pl.Series) -> pl.Series:
    """The texts, without those of which it is said."""
    return pl.select(pl.when(said).then(pl.lit("")).otherwise(texts)).to_series()


def _weight_steps(weight: npt.NDArray[np.float64]) -> npt.NDArray[np.uint16]:
    steps = np.rint((np.log2(np.maximum(weight, 2.0**MIN_WEIGHT)) - MIN_WEIGHT) * WEIGHT_STEPS)
    found: npt.NDArray[np.uint16] = np.clip(steps, 0, 0xFFFF).astype(np.uint16)
    return found
