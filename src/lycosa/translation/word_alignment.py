"""Which word translates which, learned from sentences and their translations.

IBM model 1 (Brown, Della Pietra, Della Pietra, Mercer, "The mathematics of statistical machine
translation", 1993) in both directions, which after some rounds have to agree: a link counts as much
as both directions believe in it together (Liang, Taskar, Klein, "Alignment by agreement", NAACL
2006). A round is a few passes of numpy over all pairs of words of a sentence and its translation.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lycosa.translation.terms import TranslationTerm

LEARNER_VERSION = 1
"""Raise it when the same texts teach another table (here, in `align` or in `terms`): no table is
then taken over from before.
"""

# Calibrated on SIB-200 (index_id mod 5 = 1 of its training part held out, 18 languages and English
# both ways; bench/across.py): with agreement an English sentence finds its fellow at .90, without
# at .85; 3 to 6 rounds differ by .005.
ALONE_ROUNDS = 2
AGREEING_ROUNDS = 3
NULL = 0.5  # weight of "translates nothing" beside the words of the other sentence
# of the geometric mean of both probabilities; 1 gives .90, .5 gives .92, .3 less again
WEIGHT_POWER = 0.5
MIN_WEIGHT = 0.03
MAX_TRANSLATIONS = 24  # kept for a term, either way
# terms, a word and its parts counted each: what is longer is no sentence, and costs the square of
# it
MAX_SENTENCE = 250
MAX_SENTENCES = 60_000
# pairs of words that are looked at: half a gigabyte; of more, those of the longest sentences are
# left out
MOST_LINKS = 12_000_000

Sentence = Sequence[TranslationTerm]
Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
Small = NDArray[np.int32]


@dataclass(slots=True, frozen=True)
class Learned:
    """What was learned: (source key, target key, weight from 0 to 1), and how each key is usually
    written.
    """

    pairs: list[tuple[str, str, float]]
    source_surfaces: dict[str, str]
    target_surfaces: dict[str, str]
    sentences: int


class _Side:
    """The vocabulary of one language."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self._numbers: dict[str, int] = {}
        self._written: dict[str, Counter[str]] = {}

    def numbers(self, sentence: Sentence) -> list[int]:
        numbers = []
        for key, surface in sentence:
            number = self._numbers.get(key)
            if number is None:
                number = self._numbers[key] = len(self.keys)
                self.keys.append(key)
                self._written[key] = Counter()
            self._written[key][surface] += 1
            numbers.append(number)
        return numbers

    def surfaces(self, keys: Iterable[str]) -> dict[str, str]:
        """How each key is written most often: of equal ones in lower case, then the shortest."""
        return {
            key: min(
                self._written[key].items(),
                key=lambda item: (-item[1], item[0] != item[0].lower(), len(item[0]), item[0]),
            )[0]
            for key in keys
        }


def learn(pairs: Iterable[tuple[Sentence, Sentence]]) -> Learned:
    """Learn from sentence pairs, at most `MAX_SENTENCES`. Memory: some 40 bytes for each pair of
    words in them, at most `MOST_LINKS`.
    """
    source, target = _Side(), _Side()
    links: list[tuple[Whole, Whole]] = []
    for one, other in pairs:
        if one and other and len(one) <= MAX_SENTENCE and len(other) <= MAX_SENTENCE:
            links.append(
                (np.array(source.numbers(one), np.int64), np.array(target.numbers(other), np.int64))
            )
            if len(links) == MAX_SENTENCES:
                break
    if sum(len(one) * len(other) for one, other in links) > MOST_LINKS:
        links.sort(key=lambda link: len(link[0]) * len(link[1]))
        sizes = itertools.accumulate(len(one) * len(other) for one, other in links)
        links = [link for link, size in zip(links, sizes, strict=True) if size <= MOST_LINKS]
    if not links:
        return Learned([], {}, {}, 0)
    strongest = _strongest(source, target, _align(links, len(source.keys), len(target.keys)))
    return Learned(
        strongest,
        source.surfaces({pair[0] for pair in strongest}),
        target.surfaces({pair[1] for pair in strongest}),
        len(links),
    )


def _align(
    links: Sequence[tuple[Whole, Whole]], sources: int, targets: int
) -> tuple[Whole, Whole, Floats]:
    """Word pairs with their weights: (source number, target number, weight)."""
    columns = np.concatenate(
        [np.repeat(one, len(other)) * targets + np.tile(other, len(one)) for one, other in links]
    )
    cells, inverse = np.unique(columns, return_inverse=True)
    del columns
    pair: Small = inverse.astype(np.int32)
    cell_source, cell_target = cells // targets, cells % targets
    # The token that each link explains: of the target sentences for the forward model, of the
    # source ones for the backward.
    forward_token = _tokens(links, backward=False)
    backward_token = _tokens(links, backward=True)
    source_tokens = np.concatenate([one for one, _ in links])
    target_tokens = np.concatenate([other for _, other in links])
    target_null = (
        NULL * (np.bincount(target_tokens, minlength=targets) / len(target_tokens))[target_tokens]
    )
    source_null = (
        NULL * (np.bincount(source_tokens, minlength=sources) / len(source_tokens))[source_tokens]
    )
    forward = np.full(len(cells), 1.0 / targets)
    backward = np.full(len(cells), 1.0 / sources)
    for round_ in range(ALONE_ROUNDS + AGREEING_ROUNDS):
        share = _shares(forward, pair, forward_token, target_null)
        back_share = _shares(backward, pair, backward_token, source_null)
        if round_ >= ALONE_ROUNDS:
            share = back_share = share * back_share
        count = np.bincount(pair, weights=share, minlength=len(cells))
        back_count = np.bincount(pair, weights=back_share, minlength=len(cells))
        forward = (
            count
            / np.maximum(np.bincount(cell_source, weights=count, minlength=sources), 1e-12)[
                cell_source
            ]
        )
        backward = (
            back_count
            / np.maximum(np.bincount(cell_target, weights=back_count, minlength=targets), 1e-12)[
                cell_target
            ]
        )
    weight = np.sqrt(forward * backward) ** WEIGHT_POWER
    return cell_source, cell_target, weight


def _shares(probability: Floats, pair: Small, token: Small, null: Floats) -> Floats:
    """How much of each token every link explains."""
    each = probability[pair]
    shares: Floats = each / (np.bincount(token, weights=each, minlength=len(null)) + null)[token]
    return shares


def _tokens(links: Sequence[tuple[Whole, Whole]], *, backward: bool) -> Small:
    tokens, first = [], 0
    for one, other in links:
        if backward:
            tokens.append(np.repeat(np.arange(first, first + len(one), dtype=np.int32), len(other)))
            first += len(one)
        else:
            tokens.append(np.tile(np.arange(first, first + len(other), dtype=np.int32), len(one)))
            first += len(other)
    return np.concatenate(tokens)


def _strongest(
    source: _Side, target: _Side, aligned: tuple[Whole, Whole, Floats]
) -> list[tuple[str, str, float]]:
    """The pairs that are worth keeping: among the best of their source term, or of their target
    term.
    """
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
    """For each row its place among those of its group, the heaviest 0."""
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
