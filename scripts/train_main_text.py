#!/usr/bin/env python3
"""Train the models of the page type and of the main text: `python scripts/train_main_text.py`.

Reads the development halves of the data sets `wcxb` and `article-extraction` in ../shared/data and
writes src/lycosa/page/html/content_model.json. The other halves are only measured
(`python -m bench.extract`). It takes half a minute; the same data gives the same file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from bench.extract import MarkedPage, load_articles, load_wcxb

from lycosa.page.html.block_features import (
    Floats,
    PageShape,
    RuleFit,
    block_features,
    page_shape,
)
from lycosa.page.html.document import read_html
from lycosa.page.html.main_text import letters_worth, rule_blocks
from lycosa.page.html.page_type import TYPES, type_features

OUTPUT = Path(__file__).resolve().parents[1] / "src/lycosa/page/html/content_model.json"
SHORT_WORDS = 6  # up to so many words, a block must be in the truth as it is
FOLDS = 6
REGULARISATION = 10.0  # of the weights of the page types
STEPS = 3_000
ROUNDS, RATE, BINS, SMOOTHING, COLUMNS, MIN_LEAF = 600, 0.05, 32, 5.0, 0.5, 80
_WORD = re.compile(r"\w+")


@dataclass
class TrainingPage:
    """A page as the models see it. `labels`: share of each block that is in the truth."""

    shape: PageShape
    type_features: Floats
    page_type: int
    labels: Floats


def training_page(page: MarkedPage) -> TrainingPage | None:
    """Read a page; None if it shows no text."""
    parts, _ = read_html(page.payload)
    if not parts.blocks:
        return None
    scale = letters_worth(parts.lines)
    selected = rule_blocks(parts, scale)
    fit = RuleFit.of(parts.blocks, selected)
    texts = ["\n".join(parts.lines[first:last]) for first, last, *_ in parts.blocks]
    return TrainingPage(
        page_shape(parts, selected, scale),
        np.array(type_features(parts, fit, scale, page.url), float),
        TYPES.index(page.type),
        labels(texts, page.text),
    )


def labels(texts: Sequence[str], truth: str) -> Floats:
    """Return for each text the share of its three-word sequences that are in the truth."""
    words = _WORD.findall(truth.lower())
    joined = f" {' '.join(words)} "
    sequences = set(zip(words, words[1:], words[2:], strict=False))
    shares = []
    for text in texts:
        own = _WORD.findall(text.lower())
        if len(own) <= SHORT_WORDS:
            shares.append(float(bool(own) and f" {' '.join(own)} " in joined))
        else:
            triples = list(zip(own, own[1:], own[2:], strict=False))
            shares.append(sum(triple in sequences for triple in triples) / len(triples))
    return np.array(shares)


@dataclass
class TypeModel:
    """A logistic regression on scaled features."""

    means: Floats
    deviations: Floats
    weights: Floats

    def probabilities(self, features: Floats) -> Floats:
        scores = (features - self.means) / self.deviations @ self.weights[:-1] + self.weights[-1]
        powers = np.exp(scores - scores.max(1, keepdims=True))
        return powers / powers.sum(1, keepdims=True)


def fit_types(features: Floats, types: Sequence[int]) -> TypeModel:
    """Fit by accelerated gradient descent (Nesterov); each type has the same weight."""
    means, deviations = features.mean(0), features.std(0) + 1e-9
    scaled = np.hstack([(features - means) / deviations, np.ones((len(features), 1))])
    target = np.eye(len(TYPES))[list(types)]
    balance = (len(types) / len(TYPES) / target.sum(0))[list(types)][:, None]
    step = 1 / (np.linalg.norm(scaled, 2) ** 2 * balance.max() / 2 + REGULARISATION)
    weights = ahead = np.zeros((scaled.shape[1], len(TYPES)))
    momentum = 1.0
    for _ in range(STEPS):
        powers = np.exp(scaled @ ahead - (scaled @ ahead).max(1, keepdims=True))
        penalty = REGULARISATION * ahead
        penalty[-1] = 0
        error = (powers / powers.sum(1, keepdims=True) - target) * balance
        new = ahead - step * (scaled.T @ error + penalty)
        following = (1 + (1 + 4 * momentum**2) ** 0.5) / 2
        ahead = new + (momentum - 1) / following * (new - weights)
        weights, momentum = new, following
    return TypeModel(means, deviations, weights)


def held_out_types(pages: Sequence[TrainingPage]) -> Floats:
    """Return the type probabilities of each page by a model that did not see it."""
    features = np.array([page.type_features for page in pages])
    types = np.array([page.page_type for page in pages])
    order = np.random.RandomState(0).permutation(len(pages))
    probabilities = np.zeros((len(pages), len(TYPES)))
    for fold in range(FOLDS):
        held = order[fold::FOLDS]
        rest = np.setdiff1d(order, held)
        model = fit_types(features[rest], types[rest].tolist())
        probabilities[held] = model.probabilities(features[held])
    return probabilities


def boost(
    features: Floats, is_main: Floats, weights: Floats
) -> tuple[float, list[tuple[Floats, Floats]]]:
    """Boost stumps for logistic loss. Returns the constant, and edges and values by feature."""
    count, columns = features.shape
    chance = np.random.default_rng(0)
    shares = np.linspace(0, 1, BINS + 1)[1:-1]
    edges = [np.unique(np.quantile(features[:, column], shares)) for column in range(columns)]
    bins = [np.searchsorted(edges[column], features[:, column]) for column in range(columns)]
    values = [np.zeros(len(each) + 1) for each in edges]
    bias = float(np.log((weights * is_main).sum() / (weights * (1 - is_main)).sum()))
    scores = np.full(count, bias)
    for _ in range(ROUNDS):
        probabilities = 1 / (1 + np.exp(-scores))
        gradient = weights * (probabilities - is_main)
        curvature = weights * probabilities * (1 - probabilities)
        total, total_curvature = gradient.sum(), curvature.sum()
        best_gain, best = 0.0, (0, 0, 0.0, 0.0)
        for column in chance.choice(columns, int(columns * COLUMNS), replace=False).tolist():
            size = len(values[column])
            left = np.cumsum(np.bincount(bins[column], gradient, size))[:-1]
            left_curvature = np.cumsum(np.bincount(bins[column], curvature, size))[:-1]
            below = np.cumsum(np.bincount(bins[column], minlength=size))[:-1]
            right, right_curvature = total - left, total_curvature - left_curvature
            gains = left**2 / (left_curvature + SMOOTHING) + right**2 / (
                right_curvature + SMOOTHING
            )
            gains[(below < MIN_LEAF) | (count - below < MIN_LEAF)] = 0
            place = int(gains.argmax()) if len(gains) else 0
            if len(gains) and gains[place] > best_gain:
                best_gain = gains[place]
                low = -left[place] / (left_curvature[place] + SMOOTHING) * RATE
                high = -right[place] / (right_curvature[place] + SMOOTHING) * RATE
                best = column, place, float(low), float(high)
        column, place, low, high = best
        values[column][: place + 1] += low
        values[column][place + 1 :] += high
        scores += np.where(bins[column] <= place, low, high)
    return bias, list(zip(edges, values, strict=True))


def main() -> None:
    marked = [page for page in (*load_wcxb(), *load_articles()) if page.is_development]
    pages = [page for page in map(training_page, marked) if page is not None]
    probabilities = held_out_types(pages)
    types = fit_types(
        np.array([page.type_features for page in pages]), [page.page_type for page in pages]
    )
    # Pages that are articles beyond doubt are left to the rules.
    used = [
        (page, own)
        for page, own in zip(pages, probabilities, strict=True)
        if own[TYPES.index("article")] <= 0.7
    ]
    matrices, names = [], []
    for page, own in used:
        features = block_features(page.shape, own)
        names = list(features)
        size = len(page.labels)
        matrices.append(np.stack([np.broadcast_to(each, size) for each in features.values()], 1))
    weights = np.concatenate(
        [np.sqrt(page.shape.sizes) / np.sqrt(page.shape.sizes).sum() for page, _ in used]
    )
    is_main = np.concatenate([page.labels >= 0.5 for page, _ in used]).astype(float)
    bias, tables = boost(np.vstack(matrices), is_main, weights * len(weights) / weights.sum())
    model = {
        "page_type": {
            "means": _rounded(types.means),
            "deviations": _rounded(types.deviations),
            "weights": [_rounded(row) for row in types.weights],
        },
        "bias": round(bias, 4),
        "tables": {
            name: [_rounded(edges), _rounded(values)]
            for name, (edges, values) in zip(names, tables, strict=True)
            if np.ptp(values) >= 0.05
        },
    }
    OUTPUT.write_text(_lines(model) + "\n")
    print(f"{len(pages)} pages, {len(is_main)} blocks, {len(model['tables'])} features: {OUTPUT}")


def _lines(model: dict[str, Any]) -> str:
    """JSON with a line for each table."""
    parts = [
        f" {json.dumps(name)}: {{\n"
        + ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in part.items())
        + "\n }"
        for name, part in model.items()
        if isinstance(part, dict)
    ]
    return "{\n" + f' "bias": {model["bias"]},\n' + ",\n".join(parts) + "\n}"


def _rounded(values: Floats) -> list[float]:
    return [float(f"{value:.5g}") for value in values]


if __name__ == "__main__":
    main()
