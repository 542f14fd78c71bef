"""Features that describe the blocks of a page.

The input of the main text model.

None of them depends on a language or on the class names of one site: sizes, links, position, the
prose around a block, tags, and how well the rules of `main_text` fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from lycosa.core.dataclass import dataclass
from lycosa.page.html.region_classes import AWAY, NEVER
from lycosa.page.html.tree import AWAY_TAGS, HEADINGS, TAG
from lycosa.page.page_parts import FoundBlock, PageParts

Floats = NDArray[np.float64]

PROSE_LENGTH = 30  # characters of Latin text from which a block counts as prose
SENTENCE_ENDS = frozenset('.!?…:;"”。！？」।؟')
IN_MAIN, IN_ARTICLE, IN_FOOTER, IN_TABLE, IN_FORM, IN_AWAY_TAG, IN_EXCLUDED = (
    1 << bit for bit in range(7)
)
"""Bits of `element_flags`."""

_FLAGS = dict.fromkeys(AWAY_TAGS, IN_AWAY_TAG) | {
    TAG["main"]: IN_MAIN,
    TAG["article"]: IN_ARTICLE,
    TAG["footer"]: IN_FOOTER | IN_AWAY_TAG,
    TAG["table"]: IN_TABLE,
    TAG["form"]: IN_FORM | IN_AWAY_TAG,
}
_EXCLUDED = frozenset({AWAY, NEVER})
_WINDOW = 5  # neighbours on each side
_MAX_REPEATED = 50.0
_P, _LI, _H1 = TAG["p"], TAG["li"], TAG["h1"]
_MARKS = 8  # more than there are region classes


def element_flags(parts: PageParts) -> list[int]:
    """Return for each element the kinds of elements that it is in, itself included. For a walk that
    has ended.
    """
    flags = parts.element_flags
    if flags:
        return flags
    flags.append(0)
    for parent, mark, tag in parts.elements[1:]:
        inherited = flags[parent]
        if tag in _FLAGS:
            inherited |= _FLAGS[tag]
        if mark in _EXCLUDED:
            inherited |= IN_EXCLUDED
        flags.append(inherited)
    return flags


class RuleFit(NamedTuple):
    """Characters of a page and of the blocks that the rules select, and those of links in them."""

    total: int
    linked: int
    selected: int
    selected_linked: int

    @classmethod
    def of(cls, blocks: Sequence[FoundBlock], selected: Sequence[FoundBlock]) -> Self:
        """Return the sums of all blocks of a page, and of the selected ones."""
        return cls(
            sum([block[2] for block in blocks]),
            sum([block[3] for block in blocks]),
            sum([block[2] for block in selected]),
            sum([block[3] for block in selected]),
        )


@dataclass(slots=True, frozen=True)
class PageShape:
    """A page as arrays; sizes are in Latin letters."""

    sizes: Floats
    link_sizes: Floats
    prose: Floats  # characters of prose in each block, 0 for blocks that are short or mostly links
    in_rules: Floats  # 1 where the rules of `main_text` select the block
    ends_sentence: Floats
    elements: NDArray[np.intp]  # the element around each block
    tags: NDArray[np.intp]  # the tag that began each block
    parents: list[int]
    kinds: NDArray[np.intp]  # tag and region class of each element as one number
    flags: NDArray[np.intp]  # `element_flags` of the element around each block


def page_shape(parts: PageParts, selected: Sequence[FoundBlock], scale: float) -> PageShape:
    """Return the arrays of a page. `selected`: blocks that the rules select; `scale`: Latin letters
    that a character is worth.
    """
    firsts, lasts, sizes, link_sizes, elements, tags = np.array(parts.blocks).T
    sizes = sizes * scale
    link_sizes = link_sizes * scale
    is_prose = (sizes >= PROSE_LENGTH) & (link_sizes * 3 < sizes)
    starts = {block[0] for block in selected}
    lines = parts.lines
    parents, marks, element_tags = np.array(parts.elements).T
    return PageShape(
        sizes,
        link_sizes,
        np.where(is_prose, sizes - link_sizes, 0.0),
        np.array([first in starts for first in firsts.tolist()], float),
        np.array([lines[last - 1][-1:] in SENTENCE_ENDS for last in lasts.tolist()], float),
        elements,
        tags,
        parents.tolist(),
        element_tags * _MARKS + marks,
        np.array(element_flags(parts))[elements],
    )


def _sums_within(values: Floats, elements: NDArray[np.intp], parents: Sequence[int]) -> Floats:
    """Return the sum of a value of the blocks within each element."""
    sums = np.bincount(elements, values, len(parents)).tolist()
    for index in range(len(parents) - 1, 0, -1):
        if value := sums[index]:
            sums[parents[index]] += value
    return np.array(sums)


def block_features(shape: PageShape, page_type: Floats) -> dict[str, Floats | float]:
    """Return the features by name: one value a block, or one number for the page.

    Args:
        page_type: probabilities in the order of `page_type.TYPES`.
    """
    count = len(shape.sizes)
    sizes, elements, tags, flags = shape.sizes, shape.elements, shape.tags, shape.flags
    article, collection, documentation, forum, listing, product, service = page_type.tolist()
    text_within = _sums_within(sizes, elements, shape.parents)
    prose_within = _sums_within(shape.prose, elements, shape.parents)
    total, prose_total = max(float(text_within[0]), 1.0), max(float(prose_within[0]), 1.0)
    around = np.array(shape.parents)[elements]
    numbers = np.arange(count)
    selected = np.flatnonzero(shape.in_rules)
    between = np.ones(count)
    if len(selected):
        between[: selected[0]] = 0.0
        between[selected[-1] + 1 :] = 0.0
    first_headings = np.flatnonzero(tags == _H1)
    excluded = flags & IN_EXCLUDED > 0
    repeated = np.minimum(np.bincount(shape.kinds)[shape.kinds], _MAX_REPEATED)[elements]
    cumulated = np.concatenate(([0.0], np.cumsum(shape.prose)))
    low = np.maximum(numbers - _WINDOW, 0)
    high = np.minimum(numbers + _WINDOW + 1, count)
    prose_here, prose_around = prose_within[elements], prose_within[around]
    fits_rules, fits_range = shape.in_rules * 2 - 1, between * 2 - 1
    return {
        "between": between,
        "between_if_article": fits_range * article,
        "between_unless_article": fits_range * (1 - article),
        "in_rules_if_article": fits_rules * article,
        "in_rules_if_documentation": fits_rules * documentation,
        "in_rules_if_product": fits_rules * product,
        "excluded_if_article": excluded * article,
        "excluded_unless_article": excluded * (1 - article),
        "size": np.log1p(sizes),
        "ends_sentence": shape.ends_sentence,
        "is_paragraph": (tags == _P).astype(float),
        "is_item": (tags == _LI).astype(float),
        "is_heading": np.isin(tags, tuple(HEADINGS)).astype(float),
        "prose_of_element": prose_here / prose_total,
        "prose_of_parent": prose_around / prose_total,
        "density_of_element": prose_here / np.maximum(text_within[elements], 1.0),
        "density_of_parent": prose_around / np.maximum(text_within[around], 1.0),
        "prose_nearby": cumulated[high] - cumulated[low],
        "after_heading": (numbers - (first_headings[0] if len(first_headings) else 0)) / count,
        "position": np.cumsum(sizes) / total,
        "repeated_if_list": repeated * (collection + listing),
        "in_main": (flags & IN_MAIN > 0).astype(float),
        "in_footer": (flags & IN_FOOTER > 0).astype(float),
        "page_link_share": float(shape.link_sizes.sum()) / total,
        "page_prose_share": prose_total / total,
        "page_blocks": float(count),
        "page_is_service": service,
        "page_is_forum": forum,
        "page_is_listing": listing,
    }
