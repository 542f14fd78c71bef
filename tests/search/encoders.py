"""An encoder that needs no model: words by hashed runs of three letters, after a few translations
that it was told.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

DIMENSIONS = 256
SYNONYMS = {
    "automobile": "auto car",
    "wagen": "auto car",
    "kereta": "auto car",
    "vehicle": "auto car",
}


class Letters:
    name = "letters-1"

    def encode(self, texts: Sequence[str], kind: str) -> NDArray[Any]:
        assert kind in ("query", "passage")
        rows = np.zeros((len(texts), DIMENSIONS), np.float32)
        for row, text in enumerate(texts):
            for word in text.lower().split():
                for synonym in SYNONYMS.get(word.strip(".,"), word).split():
                    framed = f"^{synonym}$"
                    for start in range(len(framed) - 2):
                        rows[
                            row, xxh3_64_intdigest(framed[start : start + 3].encode()) % DIMENSIONS
                        ] += 1
        return rows


class Careless:
    name = "careless"

    def encode(self, texts: Sequence[str], kind: str) -> NDArray[Any]:
        return np.zeros((1, 3), np.float32)


nothing = 3
