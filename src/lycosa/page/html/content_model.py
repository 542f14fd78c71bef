"""The numbers of two models: the type of a page, and which of its blocks are main text.

`scripts/train_main_text.py` makes them from pages that people marked, and writes them to
`content_model.json`. Both are sums: a logistic regression, and boosted stumps, which add up to one
table for each feature. docs/decisions/0026-main-text-model.md describes the data.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

import numpy as np

from lycosa.core.dataclass import dataclass
from lycosa.page.html.block_features import Floats


@dataclass(slots=True, frozen=True)
class ContentModel:
    """Weights of the page types, and tables of the block features.

    `tables` has for each feature the upper edges of its bins and one value for each bin.
    """

    means: Floats
    deviations: Floats
    weights: Floats  # features and the constant, by type
    bias: float
    tables: Mapping[str, tuple[Floats, Floats]]

    def type_probabilities(self, features: Sequence[float]) -> Floats:
        """Return the probabilities of the page types, in the order of `page_type.TYPES`."""
        scaled = (np.array(features, float) - self.means) / self.deviations
        scores = scaled @ self.weights[:-1] + self.weights[-1]
        powers = np.exp(scores - scores.max())
        return np.asarray(powers / powers.sum())

    def main_probabilities(self, features: Mapping[str, Floats | float]) -> Floats:
        """Return for each block the probability that it is main text."""
        scores: Floats | float = self.bias
        for name, (edges, values) in self.tables.items():
            feature = features[name]
            if isinstance(feature, float):
                scores = scores + values[bisect_left(edges, feature)]
            else:
                scores = scores + values[edges.searchsorted(feature)]
        return np.asarray(1 / (1 + np.exp(-np.asarray(scores))))


@cache
def content_model() -> ContentModel:
    """Load the model that is part of the package."""
    stored = json.loads(files("lycosa.page.html").joinpath("content_model.json").read_text())
    types = stored["page_type"]
    return ContentModel(
        np.array(types["means"]),
        np.array(types["deviations"]),
        np.array(types["weights"]),
        stored["bias"],
        {
            name: (np.array(edges, float), np.array(values, float))
            for name, (edges, values) in stored["tables"].items()
        },
    )
