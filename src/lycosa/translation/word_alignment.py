"""Learn word translations from sentences and their translations.

IBM model 1 (Brown, Della Pietra, Della Pietra, Mercer, "The mathematics of statistical machine
translation", 1993) in both directions. After some rounds both must agree: a link counts with the
product of both probabilities (Liang, Taskar, Klein, "Alignment by agreement", NAACL 2006).
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lycosa.translation.terms import TranslationTerm

LEARNER_VERSION = 1
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
MAX_LINKS = 12_000_000  # half a gigabyte; beyond, the longest sentences are left out

Sentence = Sequence[TranslationTerm]
Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
Small = NDArray[np.int32]


@dataclass(slots=True, frozen=True)
class Learned:
    """The learned pairs (source key, target key, weight from 0 to 1) and spellings of keys."""

    pairs: list[tuple[str, str, float]]
    source_surfaces: dict[str, str]
    target_surfaces: dict[str, str]
    sentences: int


class _Vocabulary:
    """The vocabulary of one language."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self._numbers: dict[str, int] = {}
        self._terms: Counter[TranslationTerm] = Counter()

    def numbers(self, sentence: Sentence) -> list[int]:
        """Return the numbers of the keys of a sentence; new keys get the next numbers."""
        self._terms.update(sentence)
        numbers = []
        for key, _ in sentence:
            number = self._numbers.get(key)
            if number is None:
                number = self._numbers[key] = len(self.keys)
                self.keys.append(key)
            numbers.append(number)
        return numbers

    def surfaces(self, keys: Collection[str]) -> dict[str, str]:
        """Return the most frequent spelling of each key, preferably lower case and short."""
        best: dict[str, tuple[int, bool, int, str]] = {}
        for (key, surface), count in self._terms.items():
            if key in keys:
                rank = (-count, surface != surface.lower(), len(surface), surface)
                best[key] = min(rank, best.get(key, rank))
        return {key: rank[3] for key, rank in best.items()}


class _Links(NamedTuple):
    """One sentence pair: the distinct terms of either side with their counts."""

    source: Whole
    source_counts: Whole
    target: Whole
    target_counts: Whole
    size: int  # links of the tokens

    @classmethod
    def of(cls, source: Sequence[int], target: Sequence[int]) -> _Links:
        return cls(*_counted(source), *_counted(target), len(source) * len(target))


def _counted(numbers: Sequence[int]) -> tuple[Whole, Whole]:
    """Return the distinct numbers and their counts; much faster than `np.unique` for few."""
    counts = Counter(numbers)
    distinct = sorted(counts)
    return np.array(distinct, np.int64), np.array([counts[each] for each in distinct], np.int64)


def learn(pairs: Iterable[tuple[Sentence, Sentence]]) -> Learned:
    """Learn from sentence pairs, at most `MAX_SENTENCES`.

    Memory: at most 40 bytes for each of `MAX_LINKS` pairs of words.
    """
    source, target = _Vocabulary(), _Vocabulary()
    links: list[_Links] = []
    for one, other in pairs:
        if one and other and len(one) <= MAX_SENTENCE and len(other) <= MAX_SENTENCE:
            links.append(_Links.of(source.numbers(one), target.numbers(other)))
            if len(links) == MAX_SENTENCES:
                break
    if sum(link.size for link in links) > MAX_LINKS:
        links.sort(key=lambda link: link.size)
        sizes = itertools.accumulate(link.size for link in links)
        links = [link for link, size in zip(links, sizes, strict=True) if size <= MAX_LINKS]
    if not links:
        return Learned([], {}, {}, 0)
    strongest = _strongest(source, target, _align(links, len(source.keys), len(target.keys)))
    return Learned(
        strongest,
        source.surfaces({pair[0] for pair in strongest}),
        target.surfaces({pair[1] for pair in strongest}),
        len(links),
    )


def _align(links: Sequence[_Links], sources: int, targets: int) -> tuple[Whole, Whole, Floats]:
    """Return the word pairs with their weights: (source number, target number, weight).

    Equal terms of a sentence have equal links, so that each is calculated once and multiplied.
    """
    cells, inverse = np.unique(
        np.concatenate(
            [
                np.repeat(link.source, link.target.size) * targets
                + np.tile(link.target, link.source.size)
                for link in links
            ]
        ),
        return_inverse=True,
    )
    pair: Small = inverse.astype(np.int32)
    del inverse
    cell_source, cell_target = cells // targets, cells % targets
    # The forward model explains the target's terms, the backward model those of the source.
    forward_token, source_times = _terms_of_links(links, backward=False)
    backward_token, target_times = _terms_of_links(links, backward=True)
    times = source_times * target_times
    target_null = _null([(link.target, link.target_counts) for link in links], targets)
    source_null = _null([(link.source, link.source_counts) for link in links], sources)
    forward = np.full(len(cells), 1.0 / targets)
    backward = np.full(len(cells), 1.0 / sources)
    for round_ in range(ALONE_ROUNDS + AGREEING_ROUNDS):
        share = _shares(forward, pair, forward_token, source_times, target_null)
        back_share = _shares(backward, pair, backward_token, target_times, source_null)
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


def _normalized(count: NDArray[Any], groups: Whole, size: int) -> Floats:
    """Divide counts by the sums of their groups."""
    sums = np.maximum(np.bincount(groups, weights=count, minlength=size), 1e-12)
    normalized: Floats = count / sums[groups]
    return normalized


def _null(terms: Sequence[tuple[Whole, Whole]], size: int) -> Floats:
    """Return for each distinct term of each sentence the weight of the null word."""
    numbers = np.concatenate([each for each, _ in terms])
    counts = np.concatenate([each for _, each in terms])
    frequency = np.bincount(numbers, weights=counts, minlength=size) / counts.sum()
    null: Floats = NULL * frequency[numbers]
    return null


def _shares(probability: Floats, pair: Small, token: Small, times: Floats, null: Floats) -> Floats:
    """Return how much of its term each link explains."""
    each = probability[pair]
    sums = np.bincount(token, weights=each * times, minlength=len(null)) + null
    each /= sums[token]
    return each


def _terms_of_links(links: Sequence[_Links], *, backward: bool) -> tuple[Small, Floats]:
    """Return for each link the term that it explains, and how often the other term occurs."""
    tokens, times, first = [], [], 0
    for link in links:
        ones, others = link.source.size, link.target.size
        if backward:
            tokens.append(np.repeat(np.arange(first, first + ones, dtype=np.int32), others))
            times.append(np.tile(link.target_counts, ones))
            first += ones
        else:
            tokens.append(np.tile(np.arange(first, first + others, dtype=np.int32), ones))
            times.append(np.repeat(link.source_counts, others))
            first += others
    return np.concatenate(tokens), np.concatenate(times).astype(np.float64)


def _strongest(
    source: _Vocabulary, target: _Vocabulary, aligned: tuple[Whole, Whole, Floats]
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
    return sorted(
        (source.keys[one], target.keys[other], round(weight, 4)) for one, other, weight in rows
    )


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
