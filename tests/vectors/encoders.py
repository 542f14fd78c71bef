"""Encoders without a model: hashed words with synonyms, and faults."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

DIMENSIONS = 384
SYNONYMS = {"automobile": "car", "wagen": "car", "kereta": "car", "vehicle": "car"}
HASHED = "tests.vectors.encoders:hashed_words"
COUNTED = "tests.vectors.encoders:counted"

calls: list[list[str]] = []
"""Texts of each call of `counted`; tests clear it."""


@cache
def _place(word: str) -> int:
    return xxh3_64_intdigest(SYNONYMS.get(word, word).encode()) % DIMENSIONS


def hashed_words(texts: list[str]) -> NDArray[Any]:
    """Return one row per text: the number of words with each hash."""
    rows = np.zeros((len(texts), DIMENSIONS), np.float32)
    for row, text in enumerate(texts):
        for word in text.lower().split():
            rows[row, _place(word.strip(".,?!#|*:"))] += 1
    return rows


def scattered(texts: list[str]) -> NDArray[Any]:
    """Return rows near the centre of the topic (the first 8 characters)."""

    def noise(text: str) -> NDArray[Any]:
        return np.random.default_rng(xxh3_64_intdigest(text.encode())).normal(size=DIMENSIONS)

    stripped = [text.strip() for text in texts]
    return np.array([noise(each[:8]) + 0.7 * noise(each) for each in stripped], np.float32)


def counted(texts: list[str]) -> NDArray[Any]:
    calls.append(texts)
    return hashed_words(texts)


def wrong_shape(texts: list[str]) -> NDArray[Any]:
    return np.zeros((1, 3), np.float32)


def infinite(texts: list[str]) -> NDArray[Any]:
    return np.full((len(texts), 3), np.inf, np.float32)


def raising(texts: list[str]) -> NDArray[Any]:
    raise RuntimeError("out of memory")


def small(texts: list[str]) -> NDArray[Any]:
    """Return `Sizes.dimensions` columns, like a replaced model."""
    return hashed_words(texts)[:, : Sizes.dimensions]


class Sizes:
    dimensions = 8


class AsClass:
    def __call__(self, texts: list[str]) -> NDArray[Any]:
        return hashed_words(texts)


nothing = 3
