"""The main text: which blocks of a page are what it is about.

Blocks are scored by size and link density; class and id words mark regions (navigation, comments, the article), and a marked
region is not believed when it holds much of the page's text; the main text is the run of blocks with the best sum.
(Pasternack and Roth, "Extracting article text from the web with maximum subsequence segmentation", WWW 2009; link density after
Kohlschuetter et al., "Boilerplate detection using shallow text features", WSDM 2010.)
"""

from __future__ import annotations

from lycosa.page.found import Block, Found
from lycosa.page.marks import AWAY

BELIEVED_SHARE = 0.3  # a region marked as boilerplate that holds more of the text is the text
SHORT = 40  # characters; a block below it costs unless its surroundings pay


def main_text(found: Found) -> str:
    """The main text, lines joined by newline: a subsequence of the page's lines."""
    lines = found.lines
    return "\n".join([lines[index] for index in main_lines(found)])


def main_lines(found: Found) -> list[int]:
    """Indices of the lines of the visible text that are main text, in order."""
    blocks, parents, marks = found.blocks, found.parents, found.marks
    if not blocks:
        return []
    sizes = [0] * len(parents)
    for block in blocks:
        if not block.alt:
            sizes[block.element] += block.size
    for index in range(len(parents) - 1, 0, -1):
        sizes[parents[index]] += sizes[index]
    total = sizes[0] or 1
    away = [False] * len(parents)
    for index in range(1, len(parents)):
        away[index] = away[parents[index]] or (marks[index] == AWAY and sizes[index] <= BELIEVED_SHARE * total)
    best = current = 0.0
    start = best_start = best_end = 0
    scores = [_score(block, away[block.element]) for block in blocks]
    for index, score in enumerate(scores):
        if current <= 0:
            current, start = 0.0, index
        current += score
        if current > best:
            best, best_start, best_end = current, start, index + 1
    lines: list[int] = []
    for index in range(best_start, best_end):
        block = blocks[index]
        if block.alt or away[block.element] or (scores[index] < 0 and block.link_size > 0.5 * block.size):
            continue
        lines.extend(range(block.first, block.last))
    return lines


def _score(block: Block, away: bool) -> float:
    if block.alt:
        return 0.0
    if away:
        return -min(block.size, 100) * 0.5
    density = block.link_size / block.size
    if density > 0.5:
        return -min(block.size, 100) * 1.0
    if block.size < SHORT:
        return -10.0
    return block.size * (1 - 2 * density)
