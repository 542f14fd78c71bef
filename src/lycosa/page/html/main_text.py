"""Select the main text: the blocks of a page about its subject.

Two selections are made. The rules find the one long text of an article:

1. A block is prose if it is long and few of its characters are in links (Kohlschuetter et al.,
   "Boilerplate detection using shallow text features", WSDM 2010).
2. Regions marked by class, id, role or tag as something else are excluded, unless they contain much
   of the page's prose: then the mark means something else on this site. Regions marked as the
   article are used if they have enough text.
3. From the page, descend into the element that contains nearly all of the prose, as long as there
   is one; not into a section of a section, which is a long part of a text with an introduction.
4. In it, the run of blocks with the best sum of scores is selected (Pasternack and Roth,
   "Extracting article text from the web with maximum subsequence segmentation", WWW 2009), without
   excluded regions and lists of links.

On pages of other types (forums, shops, listings, landing pages, manuals) a model gives each block a
probability from `block_features`, and the blocks with the highest expected F1 are selected.

The numbers of this model and of `page_type` are in `content_model.json`, which
`scripts/train_main_text.py` computes from annotated pages. Both are sums: a logistic regression,
and boosted stumps, which add up to one table for each feature
(docs/decisions/0026-main-text-model.md).
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cache
from importlib.resources import files
from itertools import compress, pairwise

import numpy as np
from numpy.typing import NDArray

from lycosa.core.dataclass import dataclass
from lycosa.page.html.block_features import (
    IN_ARTICLE,
    IN_AWAY_TAG,
    IN_MAIN,
    PROSE_LENGTH,
    Floats,
    PageShape,
    RuleFit,
    block_features,
    page_shape,
)
from lycosa.page.html.page_type import TYPES, type_features
from lycosa.page.html.region_classes import AWAY, BODY, NEUTRAL, NEVER, SECTION
from lycosa.page.html.tree import HEADINGS, TAG
from lycosa.page.page_parts import FoundBlock, PageParts

ARTICLE = TYPES.index("article")
# Shares of the text outside of links. If the rules select the first, the model has little to add;
# the second, if it expects nearly the same F1 of its own selection.
SURE_COVERAGE, LIKELY_COVERAGE, EQUAL_QUALITY = 0.7, 0.4, 0.94
# share of text outside of links, up to which a page is a table of contents without main text
TABLE_OF_CONTENTS = 0.02
MENU_SHARE = 0.7  # of a selection that is links in menus, from which it is no main text
MIN_ARTICLE = 400  # letters that the rules must select on an article, or the model decides
AWAY_SHARE = 0.3  # a marked region with more of the prose than this is not put aside
NEVER_SHARE = 0.6  # the same for marks that hardly ever mean anything else (cookies, comments)
# regions marked as the article are accepted from this share on: many pages have several
BODY_SHARE = 0.3
DESCEND_SHARE = 0.8  # of an element's prose in one child
# a block with more than half its text in links stays if it has this much besides
LINKED_LENGTH = 60
# share of a line in links, up to which it belongs to the paragraphs around
PARTLY_LINKED = 0.8
# characters outside excluded elements, below which all of them are main text
SHORT_PAGE = 300
_LINK_COST = 2.0  # a linked character outweighs two others
_SHORT_COST, _HEADING_COST, _LINKED_COST = 10.0, 5.0, 20.0
_ITEM_WEIGHT = 0.3  # a short item of a list or table counts a little

_ITEMS = frozenset({TAG["li"], TAG["tr"], TAG["dd"]})
_H1 = TAG["h1"]


@dataclass(slots=True, frozen=True)
class MainText:
    """`text`: the selected lines, joined by newline, a subsequence of the page's lines.
    `lines`: their numbers, as `Page.main_lines`. `page_type`: one of `page_type.TYPES`, or "" for a
    page without text. `blocks`: the selected ones, in order.
    """

    text: str = ""
    lines: list[int] = field(default_factory=list)
    page_type: str = ""
    blocks: Sequence[FoundBlock] = ()


def main_text(parts: PageParts, url: str = "") -> MainText:
    """Select the main text of a page. `url` is a feature of the page type. Hot path."""
    if not parts.blocks:
        return MainText()
    scale = letters_worth(parts.lines)
    selected = rule_blocks(parts, scale)
    fit = RuleFit.of(parts.blocks, selected)
    types = content_model().type_probabilities(type_features(parts, fit, scale, url))
    page_type = TYPES[int(types.argmax())]
    is_article = types[ARTICLE] > 0.5 and fit.selected * scale >= MIN_ARTICLE
    unlinked = fit.total - fit.linked
    coverage = (fit.selected - fit.selected_linked) / max(unlinked, 1)
    is_contents = unlinked / max(fit.total, 1) <= TABLE_OF_CONTENTS
    chosen = None
    if coverage < SURE_COVERAGE and not is_article and not is_contents:
        chosen = _model_blocks(parts, page_shape(parts, selected, scale), types, coverage)
    if chosen is None:
        chosen = _with_links(parts, selected)
    lines: list[str] = []
    numbers: list[int] = []
    for first, last, _, _, _, _ in chosen:
        lines += parts.lines[first:last]
        if numbers and numbers[-1] == first:
            numbers[-1] = last
        else:
            numbers += (first, last)
    return MainText("\n".join(lines), numbers, page_type, chosen)


def whole_text(text: str) -> MainText:
    """Select all of a text."""
    return MainText(text, [0, text.count("\n") + 1] if text else [])


def _model_blocks(
    parts: PageParts, shape: PageShape, page_type: Floats, coverage: float
) -> list[FoundBlock] | None:
    """Return the blocks that the model selects; None if those of the rules are as good, or if it
    selects menus although there is text in `main` or `article`. `coverage`: share of the text that
    the rules select.
    """
    probabilities = content_model().main_probabilities(block_features(shape, page_type))
    chosen = best_selection(shape.sizes, probabilities)
    by_rules = shape.in_rules > 0
    menus = chosen & (shape.flags & IN_AWAY_TAG > 0)
    if shape.link_sizes[menus].sum() > MENU_SHARE * shape.sizes[chosen].sum() and np.any(
        shape.flags[by_rules] & (IN_MAIN | IN_ARTICLE)
    ):
        return None
    if coverage >= LIKELY_COVERAGE and (
        expected_f1(shape.sizes, probabilities, by_rules)
        >= EQUAL_QUALITY * expected_f1(shape.sizes, probabilities, chosen)
    ):
        return None
    return list(compress(parts.blocks, chosen.tolist()))


def expected_f1(sizes: Floats, probabilities: Floats, chosen: NDArray[np.bool_]) -> float:
    """Return the expected F1 of characters of a selection of blocks: the ratio of expectations (Ye
    et al., "Optimizing F-measure: a tale of two approaches", ICML 2012).
    """
    expected = sizes * probabilities
    return float(2 * expected[chosen].sum() / max(sizes[chosen].sum() + expected.sum(), 1.0))


def best_selection(sizes: Floats, probabilities: Floats) -> NDArray[np.bool_]:
    """Return the selection with the highest expected F1: a number of the most probable blocks."""
    order = np.argsort(-probabilities, kind="stable")
    weights = np.maximum(sizes[order], 1.0)
    expected = weights * probabilities[order]
    quality = 2 * np.cumsum(expected) / (np.cumsum(weights) + expected.sum())
    chosen = np.zeros(len(sizes), bool)
    chosen[order[: int(quality.argmax()) + 1]] = True
    return chosen


def rule_blocks(parts: PageParts, scale: float) -> list[FoundBlock]:
    """Return the blocks that the rules select, in order. Hot path: 0.2 ms for 340 elements.

    Args:
        scale: letters that a character is worth (`letters_worth`).
    """
    blocks = parts.blocks
    if not blocks:
        return []
    parents, marks, _ = zip(*parts.elements, strict=True)
    long = PROSE_LENGTH / scale
    prose = [0] * len(parents)
    for _, _, size, link_size, element, _ in blocks:
        if size >= long and link_size * 3 < size:
            prose[element] += size - link_size
    away, remaining = _exclude_regions(parents, marks, prose)
    short = _short_page(blocks, away, scale)
    if short is not None:
        return short
    top, end = _tightest(parents, marks, remaining)
    away[:top] = [True] * top
    away[end:] = [True] * (len(away) - end)
    inside = [block for block in blocks if not away[block[4]]]
    return _best_run(inside, scale)


def _short_page(
    blocks: list[FoundBlock], away: list[bool], scale: float
) -> list[FoundBlock] | None:
    """Return the parts of a short page that are neither excluded nor mostly links; None for a long
    page.
    """
    left = SHORT_PAGE / scale
    unlinked = []
    for block in blocks:
        _, _, size, link_size, element, _ = block
        if away[element]:
            continue
        left -= size
        if left < 0:
            return None
        if link_size * 2 <= size:
            unlinked.append(block)
    return unlinked


def letters_worth(lines: list[str]) -> float:
    """Return the weight of a character of this page in letters: 2 for scripts without spaces, else
    1.
    """
    foreign = "".join([line for line in lines if not line.isascii()])
    size, characters = len(foreign.encode("utf-8", "replace")), len(foreign)
    return 2.0 if size > 2 * characters and foreign.count(" ") < 0.1 * characters else 1.0


def _exclude_regions(
    parents: tuple[int, ...], marks: tuple[int, ...], prose: list[int]
) -> tuple[list[bool], list[int]]:
    """Return the excluded elements, and the prose directly in each other candidate."""
    count = len(parents)
    within = prose.copy()
    for index in range(count - 1, 0, -1):
        if size := within[index]:
            within[parents[index]] += size
    limits = {AWAY: AWAY_SHARE * within[0], NEVER: NEVER_SHARE * within[0]}
    away = [False] * count
    remaining = prose
    body = [False] * count
    for index in range(1, count):
        mark = marks[index]
        parent = parents[index]
        if away[parent] or (mark != NEUTRAL and within[index] <= limits.get(mark, -1)):
            away[index] = True
            remaining[index] = 0
        elif mark == BODY or body[parent]:
            body[index] = True
    if True in body:
        in_body = [size if marked else 0 for size, marked in zip(remaining, body, strict=True)]
        if sum(in_body) >= BODY_SHARE * sum(remaining):
            return [put or not marked for put, marked in zip(away, body, strict=True)], in_body
    return away, remaining


def _tightest(
    parents: tuple[int, ...], marks: tuple[int, ...], blocks: list[int]
) -> tuple[int, int]:
    """Return the smallest element with nearly all of the prose, and the number after its last
    descendant.
    """
    count = len(parents)
    within = blocks.copy()
    heaviest = [0] * count
    for index in range(count - 1, 0, -1):
        if size := within[index]:
            parent = parents[index]
            within[parent] += size
            if not heaviest[parent] or size >= within[heaviest[parent]]:
                heaviest[parent] = index
    top = 0
    while (
        (child := heaviest[top])
        and within[child] > DESCEND_SHARE * within[top]
        and not marks[top] == marks[child] == SECTION
    ):
        top = child
    if not heaviest[top]:
        top = parents[top]  # a single block: its neighbours belong to it
    end = top + 1
    while end < count and parents[end] >= top:
        end += 1
    return top, end


def _best_run(blocks: list[FoundBlock], scale: float) -> list[FoundBlock]:
    best = current = 0.0
    start = best_start = best_end = 0
    long, linked = PROSE_LENGTH / scale, LINKED_LENGTH / scale
    for number, (_, _, size, link_size, _, tag) in enumerate(blocks, 1):
        if tag in HEADINGS:
            score = -_HEADING_COST
        elif link_size * 2 > size and size - link_size < linked:
            score = -_LINKED_COST
        elif size < long:
            score = size * _ITEM_WEIGHT if tag in _ITEMS and not link_size else -_SHORT_COST
        else:
            score = (size - _LINK_COST * link_size) * scale
        if current <= 0:
            current, start = 0.0, number - 1
        current += score
        if current > best:
            best, best_start, best_end = current, start, number
    # no run: nothing but short lines
    return [
        block
        for block in (blocks[best_start:best_end] if best_end else blocks)
        if block[5] != _H1 and (block[3] * 2 <= block[2] or block[2] - block[3] >= linked)
    ]


def _with_links(parts: PageParts, selected: Sequence[FoundBlock]) -> list[FoundBlock]:
    """Add links and headlines inside of the text that the rules leave out: headings of selected
    prose, items of lists that have selected ones, and items and lines that are partly links in the
    element of the paragraphs before and after.
    """
    if not selected:
        return []
    blocks, elements = parts.blocks, parts.elements
    following = {block[0]: after for block, after in pairwise(selected)}
    previous, after = selected[0], selected[0]
    complete = []
    for number, block in enumerate(blocks):
        first, _, size, link_size, element, tag = block
        if first == after[0]:
            complete.append(block)
            previous, after = block, following.get(first, block)
        elif previous[0] < first < after[0]:
            home = elements[element][0]
            if tag in HEADINGS:
                belongs = blocks[number + 1] is after and after[3] * 2 <= after[2]
            elif tag in _ITEMS and element in (previous[4], after[4]):
                belongs = True
            else:
                belongs = home == elements[previous[4]][0] == elements[after[4]][0] and (
                    tag in _ITEMS or 0 < link_size <= PARTLY_LINKED * size
                )
            if belongs:
                complete.append(block)
    return complete


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
