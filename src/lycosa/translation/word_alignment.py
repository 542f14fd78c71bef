"""Learn word translations from sentences and their translations.

IBM model 1 (Brown, Della Pietra, Della Pietra, Mercer, "The mathematics of statistical machine
translation", 1993) in both directions. After some rounds both must agree: a link counts with the
product of both probabilities (Liang, Taskar, Klein, "Alignment by agreement", NAACL 2006).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lycosa.translation.terms import TranslationTerm

LEARNER_VERSION = 2
"""Raise it when the same texts give another table, so that no older table is reused."""

# Calibrated on held-out sentences of SIB-200 (bench/across.py).
ALONE_ROUNDS = 2
AGREEING_ROUNDS = 3
NULL = 0.5  # weight of the null word, which translates nothing
WEIGHT_POWER = 0.5  # exponent of the geometric mean of both probabilities
MIN_WEIGHT = 0.03
MAX_TRANSLATIONS = 24  # of a term, in either direction
MAX_SENTENCE = 250  # terms; the cost is quadratic
MAX_SENTENCES = 60_000
MAX_LINKS = 12_000_000  # pairs of words; a gigabyte

Sentence = Sequence[TranslationTerm]
Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


@dataclass(slots=True, frozen=True)
class Learned:
    """The learned pairs (source key, target key, weight from 0 to 1) and spellings of keys."""

    pairs: list[tuple[str, str, float]]
    source_surfaces: dict[str, str]
    target_surfaces: dict[str, str]
    sentences: int


@dataclass(slots=True, frozen=True)
class _Side:
    """The sentences of one language as tokens: the distinct keys of each sentence."""

    terms: Sequence[TranslationTerm]  # the distinct ones
    occurrences: Whole  # of each term
    keys: Sequence[str]
    tokens: Whole  # numbers of keys, sentence after sentence
    counts: Whole  # how often each token occurs in its sentence
    sizes: Whole  # tokens of each sentence

    @classmethod
    def of(cls, sentences: Sequence[Sentence]) -> _Side:
        terms: dict[TranslationTerm, int] = {}
        keys: dict[str, int] = {}
        numbers = np.array(
            [terms.setdefault(term, len(terms)) for sentence in sentences for term in sentence]
        )
        key_of = np.array([keys.setdefault(term.key, len(keys)) for term in terms])
        sentence_of = np.repeat(np.arange(len(sentences)), [len(each) for each in sentences])
        tokens, counts = np.unique(sentence_of * len(keys) + key_of[numbers], return_counts=True)
        sizes = np.bincount(tokens // len(keys))
        return cls(list(terms), np.bincount(numbers), list(keys), tokens % len(keys), counts, sizes)

    def surfaces(self, keys: Collection[str]) -> dict[str, str]:
        """Return the most frequent spelling of each key, preferably lower case and short."""
        best: dict[str, tuple[int, bool, int, str]] = {}
        for (key, surface), count in zip(self.terms, self.occurrences.tolist(), strict=True):
            if key in keys:
                rank = (-count, surface != surface.lower(), len(surface), surface)
                best[key] = min(rank, best.get(key, rank))
        return {key: rank[3] for key, rank in best.items()}


def shortest_first(
    pairs: Iterable[tuple[str, str]], max_pairs: int = MAX_SENTENCES
) -> list[tuple[str, str]]:
    """Return the first `max_pairs` distinct sentence pairs, ordered by their cost.

    The cost of a pair grows with the product of its lengths, what it teaches with their sum.
    """
    distinct: set[tuple[str, str]] = set()
    for pair in pairs:
        distinct.add(pair)
        if len(distinct) == max_pairs:
            break
    return sorted(distinct, key=lambda pair: (len(pair[0]) * len(pair[1]), pair))


def learn(pairs: Iterable[tuple[Sentence, Sentence]], max_links: int = MAX_LINKS) -> Learned:
    """Learn from sentence pairs in order, until they have `max_links` pairs of words.

    Memory: about 90 bytes for each pair of words.
    """
    usable: list[tuple[Sentence, Sentence]] = []
    size = 0
    for one, other in pairs:
        if one and other and len(one) <= MAX_SENTENCE and len(other) <= MAX_SENTENCE:
            size += len(one) * len(other)
            if size > max_links or len(usable) == MAX_SENTENCES:
                break
            usable.append((one, other))
    if not usable:
        return Learned([], {}, {}, 0)
    source, target = _Side.of([one for one, _ in usable]), _Side.of([other for _, other in usable])
    strongest = _strongest(source.keys, target.keys, _align(source, target))
    return Learned(
        strongest,
        source.surfaces({pair[0] for pair in strongest}),
        target.surfaces({pair[1] for pair in strongest}),
        len(usable),
    )


def _align(source: _Side, target: _Side) -> tuple[Whole, Whole, Floats]:
    """Return the word pairs with their weights: (source number, target number, weight).

    Equal terms of a sentence have equal links, so that each is calculated once and multiplied.
    """
    token, target_token = _links(source.sizes, target.sizes)
    sources, targets = len(source.keys), len(target.keys)
    cells, pair = np.unique(
        source.tokens[token] * targets + target.tokens[target_token], return_inverse=True
    )
    cell_source, cell_target = cells // targets, cells % targets
    # The forward model explains the target's terms, the backward model those of the source.
    source_times, target_times = source.counts[token], target.counts[target_token]
    times = source_times * target_times
    source_null, target_null = _null(source), _null(target)
    forward = np.full(len(cells), 1.0 / targets)
    backward = np.full(len(cells), 1.0 / sources)
    for round_ in range(ALONE_ROUNDS + AGREEING_ROUNDS):
        share = _shares(forward, pair, target_token, source_times, target_null)
        back_share = _shares(backward, pair, token, target_times, source_null)
        if round_ < ALONE_ROUNDS:
            count = np.bincount(pair, weights=share * times, minlength=len(cells))
            back_count = np.bincount(pair, weights=back_share * times, minlength=len(cells))
        else:
            share *= back_share
            share *= times
            count = back_count = np.bincount(pair, weights=share, minlength=len(cells))
        forward = _normalized(count, cell_source, sources)
        backward = _normalized(back_count, cell_target, targets)
    return cell_source, cell_target, np.sqrt(forward * backward) ** WEIGHT_POWER


def _links(sizes: Whole, target_sizes: Whole) -> tuple[Whole, Whole]:
    """Return all pairs of tokens of each sentence pair, as places in the tokens of either side."""
    links = np.repeat(target_sizes, sizes)  # of each source token
    first = np.repeat(np.cumsum(target_sizes) - target_sizes, sizes) - (np.cumsum(links) - links)
    return (
        np.repeat(np.arange(links.size), links),
        np.arange(links.sum()) + np.repeat(first, links),
    )


def _normalized(count: NDArray[Any], groups: Whole, size: int) -> Floats:
    """Divide counts by the sums of their groups."""
    sums = np.maximum(np.bincount(groups, weights=count, minlength=size), 1e-12)
    normalized: Floats = count / sums[groups]
    return normalized


def _null(side: _Side) -> Floats:
    """Return for each token the weight of the null word."""
    tokens, counts = side.tokens, side.counts
    null: Floats = NULL * np.bincount(tokens, weights=counts)[tokens] / counts.sum()
    return null


def _shares(probability: Floats, pair: Whole, token: Whole, times: Whole, null: Floats) -> Floats:
    """Return how much of its term each link explains."""
    each = probability[pair]
    sums = np.bincount(token, weights=each * times, minlength=len(null)) + null
    each /= sums[token]
    return each


def _strongest(
    sources: Sequence[str], targets: Sequence[str], aligned: tuple[Whole, Whole, Floats]
) -> list[tuple[str, str, float]]:
    """Return the pairs that are among the best of their source term or of their target term."""
    ones, others, weights = aligned
    good = weights >= MIN_WEIGHT
    ones, others, weights = ones[good], others[good], weights[good]
    within_limit = _rank_within(ones, weights) < MAX_TRANSLATIONS
    within_limit |= _rank_within(others, weights) < MAX_TRANSLATIONS
    rows = zip(
        ones[within_limit].tolist(),
        others[within_limit].tolist(),
        weights[within_limit].tolist(),
        strict=True,
    )
    return sorted((sources[one], targets[other], round(weight, 4)) for one, other, weight in rows)


def _rank_within(groups: Whole, weights: Floats) -> Whole:
    """Return the rank of each row within its group, the heaviest 0."""
    order = np.lexsort((-weights, groups))
    ordered = groups[order]
    starts = (
        np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
        if len(ordered)
        else np.array([], np.int64)
    )
    lengths = np.diff(np.r_[starts, len(ordered)])
    ranks = np.empty(len(groups), np.int64)
    ranks[order] = np.arange(len(ordered)) - np.repeat(starts, lengths)
    return ranks
