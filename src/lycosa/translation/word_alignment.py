"""Learn word translations from sentences and their translations.

IBM model 1 (Brown, Della Pietra, Della Pietra, Mercer, "The mathematics of statistical machine
translation", 1993) in both directions. After some rounds both must agree: a link counts with the
product of both probabilities (Liang, Taskar, Klein, "Alignment by agreement", NAACL 2006).
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lycosa.translation.terms import TranslationTerm, Vocabulary

LEARNER_VERSION = 3
"""Raise it when the same texts give another table, so that no older table is reused."""

# Calibrated on held-out sentences of SIB-200 (bench/across.py).
ALONE_ROUNDS = 2
AGREEING_ROUNDS = 3
NULL = 0.5  # weight of the null word, which translates nothing
WEIGHT_POWER = 0.5  # exponent of the geometric mean of both probabilities
MIN_WEIGHT = 0.03
# of both probabilities of a pair after the first rounds; less probable pairs are dropped
MIN_PRODUCT = 1e-5
MAX_OCCURRENCES = 200  # sentences in which a term is aligned, the first ones (decision 28)
MAX_TRANSLATIONS = 24  # of a term, in either direction
MAX_SENTENCE = 250  # terms; the cost is quadratic
MAX_SENTENCES = 60_000
MAX_LINKS = 12_000_000  # pairs of words; a gigabyte

_SLICE = 1_000  # sentence pairs that are analysed together

Sentence = Sequence[int]  # numbers of terms
Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


@dataclass(slots=True, frozen=True)
class LearnedTranslations:
    """The learned pairs (source key, target key, weight from 0 to 1) and spellings of keys."""

    pairs: list[tuple[str, str, float]]
    source_surfaces: dict[str, str]
    target_surfaces: dict[str, str]
    sentences: int


@dataclass(slots=True, frozen=True)
class _Side:
    """The sentences of one language as tokens: the distinct keys of each sentence.

    Of a frequent key the tokens of the first `MAX_OCCURRENCES` sentences.
    """

    terms: Sequence[TranslationTerm]  # the distinct ones, by their first occurrence
    occurrences: Whole  # of each term
    keys: Sequence[str]
    tokens: Whole  # numbers of keys, sentence after sentence
    counts: Floats  # how often each token occurs in its sentence
    sizes: Whole  # tokens of each sentence

    @classmethod
    def of(cls, sentences: Sequence[Sentence], vocabulary: Vocabulary) -> _Side:
        numbers = np.fromiter(itertools.chain.from_iterable(sentences), np.int64)
        first = np.zeros(numbers.max() + 1, np.int64)
        first[numbers[::-1]] = np.arange(numbers.size, 0, -1)  # the last assignment counts
        ordered = np.argsort(first)[np.count_nonzero(first == 0) :]
        terms = [vocabulary.terms[number] for number in ordered.tolist()]
        keys: dict[str, int] = {}
        key_of = np.zeros(first.size, np.int64)
        key_of[ordered] = [keys.setdefault(term.key, len(keys)) for term in terms]
        sentence_of = np.repeat(np.arange(len(sentences)), [len(each) for each in sentences])
        distinct, counts = np.unique(sentence_of * len(keys) + key_of[numbers], return_counts=True)
        sentence_of, tokens = np.divmod(distinct, len(keys))
        within_limit = _rank_within(tokens, -sentence_of) < MAX_OCCURRENCES
        return cls(
            terms,
            np.bincount(numbers)[ordered],
            list(keys),
            tokens[within_limit],
            counts[within_limit].astype(np.float64),
            np.bincount(sentence_of[within_limit], minlength=len(sentences)),
        )

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

    The cost of a pair grows with the product of its lengths, its information with their sum.
    """
    distinct: set[tuple[str, str]] = set()
    for pair in pairs:
        distinct.add(pair)
        if len(distinct) == max_pairs:
            break
    return sorted(distinct, key=lambda pair: (len(pair[0]) * len(pair[1]), pair))


def learn(
    pairs: Sequence[tuple[str, str]],
    source: Vocabulary,
    target: Vocabulary,
    max_links: int = MAX_LINKS,
) -> LearnedTranslations:
    """Learn from sentence pairs in order, until they have `max_links` pairs of words.

    Memory: about 60 bytes for each pair of words.
    """
    usable = list(itertools.islice(_usable(pairs, source, target, max_links), MAX_SENTENCES))
    if not usable:
        return LearnedTranslations([], {}, {}, 0)
    one = _Side.of([sentence for sentence, _ in usable], source)
    other = _Side.of([sentence for _, sentence in usable], target)
    strongest = _strongest(one.keys, other.keys, _align(one, other))
    return LearnedTranslations(
        strongest,
        one.surfaces({pair[0] for pair in strongest}),
        other.surfaces({pair[1] for pair in strongest}),
        len(usable),
    )


def _usable(
    pairs: Sequence[tuple[str, str]], source: Vocabulary, target: Vocabulary, max_links: int
) -> Iterator[tuple[Sentence, Sentence]]:
    """Yield the sentence pairs to learn from, as numbers of terms."""
    size = 0
    for start in range(0, len(pairs), _SLICE):
        ours, others = zip(*pairs[start : start + _SLICE], strict=True)
        for one, other in zip(source.sentences(ours), target.sentences(others), strict=True):
            if one and other and len(one) <= MAX_SENTENCE and len(other) <= MAX_SENTENCE:
                size += len(one) * len(other)
                if size > max_links:
                    return
                yield one, other


@dataclass(slots=True, frozen=True)
class _Links:
    """The pairs of tokens of all sentence pairs, ordered by their keys; no arrays are empty."""

    source: Whole  # numbers of the keys of each distinct pair
    target: Whole
    lengths: Whole  # links of each pair
    token: Whole  # of each link
    target_token: Whole

    @classmethod
    def between(cls, source: _Side, target: _Side) -> _Links:
        sizes = np.repeat(target.sizes, source.sizes)  # links of each source token
        starts = np.repeat(np.cumsum(target.sizes) - target.sizes, source.sizes)
        token = np.repeat(np.arange(sizes.size), sizes)
        target_token = np.arange(token.size) + np.repeat(starts - np.cumsum(sizes) + sizes, sizes)
        keys = np.repeat(source.tokens * len(target.keys), sizes) + target.tokens[target_token]
        order = np.argsort(keys)
        keys = keys[order]
        begins = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])
        ones, others = np.divmod(keys[begins], len(target.keys))
        lengths = np.diff(np.r_[begins, keys.size])
        return cls(ones, others, lengths, token[order], target_token[order])

    def of_pairs(self, chosen: NDArray[np.bool_]) -> _Links:
        """Return the links of some of the pairs."""
        links = np.repeat(chosen, self.lengths)
        pairs = self.source[chosen], self.target[chosen], self.lengths[chosen]
        return _Links(*pairs, self.token[links], self.target_token[links])

    def sums(self, values: Floats) -> Floats:
        """Return the sum of the values of the links of each pair."""
        sums: Floats = np.add.reduceat(values, np.cumsum(self.lengths) - self.lengths)
        return sums


def _align(source: _Side, target: _Side) -> tuple[Whole, Whole, Floats]:
    """Return the word pairs with their weights: (source number, target number, weight).

    Equal terms of a sentence have equal links, so that each is calculated once and multiplied.
    """
    links = _Links.between(source, target)
    # The forward model explains the target's terms, the backward model those of the source.
    forward = np.full(links.source.size, 1.0 / len(target.keys))
    backward = np.full(links.source.size, 1.0 / len(source.keys))
    null, target_null = _null(source), _null(target)
    for round_ in range(ALONE_ROUNDS + AGREEING_ROUNDS):
        if round_ == ALONE_ROUNDS:
            likely = forward * backward >= MIN_PRODUCT
            links, forward, backward = links.of_pairs(likely), forward[likely], backward[likely]
        times, target_times = source.counts[links.token], target.counts[links.target_token]
        share = np.repeat(forward, links.lengths)
        _divide_by_sums(share, links.target_token, times, target_null)
        back_share = np.repeat(backward, links.lengths)
        _divide_by_sums(back_share, links.token, target_times, null)
        times *= target_times
        if round_ < ALONE_ROUNDS:
            count, back_count = links.sums(share * times), links.sums(back_share * times)
        else:
            count = back_count = links.sums(share * back_share * times)
        forward = _normalized(count, links.source, len(source.keys))
        backward = _normalized(back_count, links.target, len(target.keys))
    return links.source, links.target, np.sqrt(forward * backward) ** WEIGHT_POWER


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


def _divide_by_sums(probability: Floats, token: Whole, times: Floats, null: Floats) -> None:
    """Change the probability of each link to the share of its token that it explains."""
    probability /= (np.bincount(token, weights=probability * times, minlength=len(null)) + null)[
        token
    ]


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


def _rank_within(groups: Whole, weights: NDArray[Any]) -> Whole:
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
